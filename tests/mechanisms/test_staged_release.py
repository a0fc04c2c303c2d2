"""staged-release: one stage a row, guides of releases alone, the same rows again, and what is refused."""

import json

import numpy as np
import pandas as pd
import pytest

import sfumato as sf
from distinguisher import assert_honest, empirical_epsilon
from domains import any_records, domain
from sfumato.channels import NotApplicableError
from sfumato.channels.staged import VECTORS, WAVE, Marginals, lifted
from sfumato.core.errors import CardError, SchemaError, TableError, UsageError
from sfumato.guarantee import EMPIRICAL, LOCAL_DP, Card
from sfumato.guarantee.card import recomputed
from sfumato.learn.classifiers.empirical_bayes import states_of
from sfumato.mechanisms import StagedRelease
from sfumato.mechanisms.reported_columns import OutcomeCounts, ReleasedRows, guide, guides_fit
from sfumato.noise import Streams
from sfumato.reconstruction.reconstruct import described
from sfumato.release.check_rows import WRONG_GUIDES, wrong_rows
from sfumato.release.write_release import Layout, make_card
from sfumato.table import Column, Encoding, Schema

PUBLIC = {"source": "public", "reason": "the form"}
SCHEMA = {
    "columns": [
        {"name": "age", "kind": "integer", "low": 0, "high": 100, **PUBLIC},
        {"name": "income", "kind": "numeric", "low": 0.0, "high": 10.0, "missing": True, **PUBLIC},
        {"name": "colour", "kind": "categorical", "categories": ["r", "g", "b"], "missing": True, **PUBLIC},
        {"name": "ill", "kind": "categorical", "role": "label", "categories": ["no", "yes"], **PUBLIC},
    ]
}


def people(rows=3_000, seed=0):
    rng = np.random.default_rng(seed)
    ill = rng.random(rows) < 0.5
    colour = np.where(rng.random(rows) < 0.8, np.where(ill, "r", "g"), "b").astype(object)
    colour[rng.random(rows) < 0.2] = None
    return pd.DataFrame(
        {
            "age": np.clip(rng.normal(np.where(ill, 65, 35), 8), 0, 100).round(),
            "income": np.where(rng.random(rows) < 0.3, np.nan, np.clip(rng.normal(np.where(ill, 2, 6), 1), 0, 10)),
            "colour": colour,
            "ill": np.where(ill, "yes", "no"),
        }
    )


def fitted(shape="nm3", epsilon=8.0, rows=20, **parameters):
    encoding = domain(shape)
    mechanism = StagedRelease(epsilon_record=epsilon, **parameters)
    return mechanism.fit(any_records(encoding, np.random.default_rng(0), rows), encoding=encoding)


@pytest.fixture(scope="module")
def skewed():
    """Two columns of which one is crowded at its low end, released in floating point."""
    X = np.random.default_rng(0).random((40_000, 2)) ** np.array([2.0, 1.0])
    mechanism = StagedRelease(epsilon_record=8.0, noise="float")
    return X, mechanism, mechanism.release(X, rng=np.random.default_rng(1), encoding=Encoding.unit(2, public=True))


class TestStages:
    def test_every_row_goes_through_one_stage(self, skewed):
        _, mechanism, block = skewed
        parts = mechanism.recipe_.map.parts
        told = np.column_stack([(~np.isnan(block.X[:, part])).any(axis=1) for part in parts])
        assert (told.sum(axis=1) == 1).all()
        assert told.mean(axis=0) == pytest.approx([0.10, 0.15, 0.75], abs=0.01)
        assert not np.isnan(block.X[told[:, VECTORS], parts[VECTORS]]).any()

    def test_a_row_of_two_stages_is_refused(self, skewed):
        _, mechanism, block = skewed
        Z = block.X.copy()
        Z[:, mechanism.recipe_.map.parts[VECTORS]] = 0.0
        with pytest.raises(TableError, match="exactly one stage"):
            mechanism.recipe_.check_gaps(Z)

    def test_the_stage_depends_on_the_rows_number_alone(self):
        mechanism = fitted()
        rng = np.random.default_rng(5)
        one, other = (any_records(mechanism.encoding_, rng, 500) for _ in range(2))
        stages = [np.isnan(mechanism.perturb(X, None, np.random.default_rng(3)).X) for X in (one, other, one[::-1])]
        assert np.array_equal(stages[0], stages[1])
        assert np.array_equal(stages[0], stages[2])
        equal = np.isnan(mechanism.perturb(np.tile(one[:1], (500, 1)), None, np.random.default_rng(3)).X)
        assert len(np.unique(equal, axis=0)) == 3  # equal rows do not share a stage

    def test_a_stage_by_value_is_caught(self):
        """Planted: rows with a large first value are released as vectors."""
        mechanism = fitted("nnn")
        rng = np.random.default_rng(5)
        one, other = (any_records(mechanism.encoding_, rng, 500) for _ in range(2))
        staged, channels = mechanism.recipe_.map, mechanism.recipe_.channels
        gaps = [
            np.isnan(staged.release(channels, X, np.where(X[:, 0] > 0.5, VECTORS, WAVE), np.random.default_rng(3)))
            for X in (one, other)
        ]
        assert not np.array_equal(*gaps)


class TestGuides:
    def test_ranks_follow_the_column(self, skewed):
        X, mechanism, _ = skewed
        for which in (mechanism.recipe_.map.ranks, mechanism.recipe_.map.polynomials):
            ranks = which.rank(0, X[:, 0])
            assert np.quantile(ranks, [0.25, 0.5, 0.75]) == pytest.approx([0.25, 0.5, 0.75], abs=0.06)
        flat = Marginals.flat(mechanism.recipe_.map.groups)
        assert np.quantile(flat.rank(0, X[:, 0]), 0.5) < 0.3

    def test_features_are_nearly_orthonormal_under_them(self, skewed):
        X, mechanism, _ = skewed
        staged = mechanism.recipe_.map
        f = staged.polynomials.features(staged.groups, X)
        assert np.abs(f.mean(axis=0)).max() < 0.12
        assert f.T @ f / len(f) == pytest.approx(np.eye(4), abs=0.2)

    def test_categories_have_orthonormal_contrasts(self):
        encoding = domain("3?")
        marginals = Marginals((np.array([0.5, 0.3, 0.2]), np.array([0.9, 0.1])))
        X = np.eye(3)
        f = marginals.features(encoding.groups, np.hstack([X, np.tile([0.0, 0.0, 1.0], (3, 1))]))
        assert f.shape == (3, 3)
        assert not f[:, 2].any()  # missing
        weights = np.array([0.5, 0.3, 0.2])
        assert weights @ f[:, :2] == pytest.approx(0, abs=1e-12)
        assert (f[:, :2] * weights[:, None]).T @ f[:, :2] == pytest.approx(np.eye(2), abs=1e-12)

    def test_polynomials_are_orthonormal_whatever_the_shares_are(self):
        """By sums over single people: half of them in one cell, a column of seven values, one of two."""
        rng = np.random.default_rng(0)
        public = {"source": "public", "reason": "the form"}
        columns = [Column("x", "numeric", low=0.0, high=1.0, **public)]
        columns += [Column(n, "integer", low=2, high=h, **public) for n, h in (("seven", 8), ("two", 3))]
        groups = Encoding(Schema(tuple(columns))).groups
        shares = [np.array([0.5, *rng.dirichlet(np.ones(31)) / 2]), rng.dirichlet(np.ones(7)), np.array([0.97, 0.03])]
        marginals = Marginals(tuple(shares))
        assert [one.shape for one in Marginals.flat(groups).shares] == [(32,), (7,), (2,)]
        n = 400_000
        cells = [rng.choice(len(share), n, p=share) for share in shares]
        X = np.column_stack([(cells[0] + rng.random(n)) / 32, cells[1] / 6, cells[2]])
        f = marginals.features(groups, X)
        assert f.shape == (n, 5) == (n, marginals.count(groups))
        assert np.abs(f.mean(axis=0)).max() < 0.01
        assert f.T @ f / n == pytest.approx(np.eye(5), abs=0.03)
        X[cells[0] == 0, 0] = (
            0.0  # all at the edge of their cell; of ranks over the whole cell, the second has mean 1.2
        )
        assert np.abs(marginals.features(groups, X).mean(axis=0)).max() < 0.6

    def test_a_guide_is_a_function_of_released_rows(self, skewed):
        """What was true is not needed: the card's guides follow from the release, in any order of blocks."""
        _, mechanism, block = skewed
        recipe = mechanism.recipe_
        parts = [
            OutcomeCounts.of(recipe.map, recipe.channels, ReleasedRows(Z)) for Z in np.array_split(block.X[::-1], 3)
        ]
        counts = parts[2] + (parts[0] + parts[1])
        assert guides_fit(recipe, counts)
        few = OutcomeCounts.of(recipe.map, recipe.channels, ReleasedRows(block.X[:20_000]))
        assert not guides_fit(recipe, few)
        assert guide(recipe.map, recipe.channels, counts, 1).to_list() == recipe.map.ranks.to_list()

    def test_vectors_are_right_on_average(self, skewed):
        X, mechanism, block = skewed
        staged = mechanism.recipe_.map
        vectors = block.X[:, staged.parts[VECTORS]]
        there = ~np.isnan(vectors[:, 0])
        f = staged.polynomials.features(staged.groups, X[there])
        unclipped = (f**2).sum(axis=1) <= staged.radius**2
        gap = vectors[there][unclipped][:, :-1] - f[unclipped]
        assert np.abs(gap.mean(axis=0) / (gap.std(axis=0) / np.sqrt(len(gap)))).max() < 5

    def test_lifted_vectors_have_length_one(self):
        f = np.random.default_rng(0).normal(size=(100, 3)) * 3
        v = lifted(f, 2.0)
        assert np.linalg.norm(v, axis=1) == pytest.approx(1)
        short = np.linalg.norm(f, axis=1) < 2
        assert np.allclose(v[short, :3] * 2, f[short])


class TestRelease:
    def test_streams_repeat_what_guides_saw(self, tmp_path):
        """The same seed in memory and from a file, and a run that is made again: the same card, the same rows."""
        schema, table = sf.Schema.from_dict(SCHEMA), people(1_500)
        table.to_csv(tmp_path / "t.csv", index=False)
        given = {"schema": schema, "mechanism": "staged-release", "epsilon_record": 8, "seed": 3}
        first, again = (sf.sanitize(table, **given) for _ in range(2))
        assert first.card.transform == again.card.transform
        assert np.array_equal(first.Z, again.Z, equal_nan=True)
        recipe = first.card.made_by()
        assert guides_fit(recipe, OutcomeCounts.of(recipe.map, recipe.channels, ReleasedRows(first.Z)))

    def test_the_card_holds_every_stage(self, tmp_path):
        found = sf.sanitize(people(), schema=sf.Schema.from_dict(SCHEMA), mechanism="staged-release", epsilon_record=8)
        card = found.card
        assert card.is_formal
        assert card.noise_path == "exact-cap"
        assert card.guarantee["epsilon_record"] == pytest.approx(8, abs=1e-6)
        assert card.transform["kind"] == "staged"
        assert card.transform["reports"] == 3
        assert card.transform["ranks"] != card.transform["polynomials"]
        assert any("from released rows of the stages before" in line for line in card.guarantee["assumptions"])
        found.save(tmp_path / "out")
        again = sf.open_release(tmp_path / "out")
        assert np.allclose(again.Z, found.Z, equal_nan=True)
        assert recomputed(again.card).record == again.card.guarantee["epsilon_record"]
        assert wrong_rows(tmp_path / "out" / "release.parquet", again.card) is None
        forged = json.loads(again.card.to_json())
        forged["transform"]["ranks"][0] = forged["transform"]["ranks"][0][::-1]
        assert wrong_rows(tmp_path / "out" / "release.parquet", Card.from_dict(forged)) == WRONG_GUIDES

    def test_learners_that_cannot_read_stages_say_so(self, skewed):
        _, mechanism, _ = skewed
        with pytest.raises(NotApplicableError, match="in stages"):
            states_of(mechanism.recipe_)
        with pytest.raises(CardError, match="in stages"):
            described(mechanism.recipe_, 0)

    def test_a_model_of_it_does_not_answer_for_plain_rows(self):
        """Until a classifier knows the stages, nothing is answered at random."""
        found = sf.sanitize(people(400), schema=sf.Schema.from_dict(SCHEMA), mechanism="staged-release", seed=1)
        model = sf.train(found, classifier="forest")
        with pytest.raises(UsageError, match="release with stages"):
            sf.evaluate(model, people(50, 5))

    def test_every_attack_gives_a_score_or_a_reason(self):
        table = people(600)
        found = sf.sanitize(table, schema=sf.Schema.from_dict(SCHEMA), mechanism="staged-release", epsilon_record=8)
        audit = sf.audit(found, original=table)
        for entry in audit.data["attacks"]:
            assert "failed" not in entry, entry["name"]
            assert entry["score"] is not None or len(entry["not_applicable"]) > 10


class TestGuarantee:
    @pytest.mark.parametrize("epsilon", [1.0, 4.0, 16.0])
    def test_the_record_has_its_epsilon_in_whatever_stage(self, epsilon):
        mechanism = fitted(epsilon=epsilon)
        told = mechanism.guarantee()
        assert told.kind == LOCAL_DP
        assert told.record <= epsilon
        assert told.record == pytest.approx(epsilon, rel=1e-6)
        assert mechanism.columns_ == {1.0: 1, 4.0: 2, 16.0: 3}[epsilon]

    def test_floats_and_learned_bounds_are_conditional(self):
        assert fitted(noise="float").guarantee().kind == EMPIRICAL
        encoding = domain("nn", source="learned")
        assert StagedRelease().fit(np.zeros((3, 2)), encoding=encoding).guarantee().kind == EMPIRICAL

    @pytest.mark.parametrize("epsilon", [1.0, 2.0])
    def test_the_best_distinguisher_reaches_the_claim_and_no_more(self, epsilon):
        mechanism = fitted("nn", epsilon)
        x, other = np.array([0.0, 0.0]), np.array([1.0, 0.0])
        ratios = []
        for number, record in enumerate((x, other)):
            Z = mechanism.perturb(np.tile(record, (60_000, 1)), None, Streams.seeded(7).generator(number)).X
            log = mechanism.recipe_.log_likelihood(Z, np.array([x, other]))
            ratios.append(log[:, 0] - log[:, 1])
        assert_honest(empirical_epsilon(*ratios, mechanism.guarantee().record), mechanism.guarantee().record)

    def test_cards_that_state_less_or_do_not_fit(self):
        mechanism = fitted()
        card = json.loads(make_card(Layout(mechanism, mechanism.encoding_), mechanism.guarantee(), rows=20).to_json())
        Card.from_dict(card)
        for name, wrong in (
            ("reports", 9),
            ("reports", 2),  # its columns are reported too often for that
            ("stretch", [1.0]),
            ("stretch", [1.0, -1.0, 1.0]),
            ("reports", True),
            ("radius", -1.0),
            ("shares", [0.5, 0.5]),
            ("shares", [0.5, 0.5, 0.5]),
            ("ranks", [[1.0]]),
            ("polynomials", "x"),
        ):
            forged = json.loads(json.dumps(card))
            forged["transform"][name] = wrong
            with pytest.raises(CardError):
                Card.from_dict(forged)


class TestBadInput:
    @pytest.mark.parametrize("epsilon", [0, -1.0, float("nan"), 1e4, 1e-9])
    def test_epsilons(self, epsilon):
        with pytest.raises(UsageError):
            fitted(epsilon=epsilon)

    def test_columns(self):
        with pytest.raises(UsageError, match="this table has 3 that are not constant"):
            fitted("nm3c", columns=4)
        with pytest.raises(SchemaError, match="nothing to release"):
            fitted("c1")

    def test_two_rows_many_columns_and_categories_only(self):
        for shape, rows in (("nm3", 2), ("n" * 60, 10), ("23?", 30), ("ncm", 30)):
            encoding = domain(shape)
            X = any_records(encoding, np.random.default_rng(0), rows)
            mechanism = StagedRelease(epsilon_record=8.0)
            block = mechanism.release(X, rng=np.random.default_rng(1), encoding=encoding)
            assert mechanism.guarantee().kind == LOCAL_DP
            assert len(block.X) == rows
