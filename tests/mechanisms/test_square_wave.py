"""square-wave: k of d columns, what is missing, what is constant, and what is refused."""

import json

import numpy as np
import pandas as pd
import pytest

import sfumato as sf
from domains import any_records, domain
from sfumato.channels.sampled import choose
from sfumato.core.errors import CardError, TableError, UsageError
from sfumato.guarantee import EMPIRICAL, LOCAL_DP, Card
from sfumato.guarantee.card import recomputed, understated
from sfumato.mechanisms import SquareWaveColumns
from sfumato.noise import Streams
from sfumato.release.check_rows import wrong_rows
from sfumato.release.write_release import Layout, make_card

PUBLIC = {"source": "public", "reason": "the form"}
SCHEMA = {
    "columns": [
        {"name": "age", "kind": "integer", "low": 0, "high": 100, **PUBLIC},
        {"name": "income", "kind": "numeric", "low": 0.0, "high": 10.0, "missing": True, **PUBLIC},
        {"name": "born", "kind": "date", "low": "1950-01-01", "high": "2000-01-01", **PUBLIC},
        {"name": "size", "kind": "ordinal", "categories": ["s", "m", "l"], **PUBLIC},
        {"name": "colour", "kind": "categorical", "categories": ["r", "g", "b"], "missing": True, **PUBLIC},
        {"name": "ill", "kind": "categorical", "role": "label", "categories": ["no", "yes"], **PUBLIC},
    ]
}


def people(rows=6_000, seed=0):
    rng = np.random.default_rng(seed)
    ill = rng.random(rows) < 0.5
    colour = np.where(rng.random(rows) < 0.8, np.where(ill, "r", "g"), "b").astype(object)
    colour[rng.random(rows) < 0.2] = None
    return pd.DataFrame(
        {
            "age": np.clip(rng.normal(np.where(ill, 65, 35), 8), 0, 100).round(),
            "income": np.where(rng.random(rows) < 0.3, np.nan, np.clip(rng.normal(np.where(ill, 2, 6), 1), 0, 10)),
            "born": pd.to_datetime("1950-01-01") + pd.to_timedelta(rng.integers(0, 18_000, rows), unit="D"),
            "size": rng.choice(["s", "m", "l"], rows),
            "colour": colour,
            "ill": np.where(ill, "yes", "no"),
        }
    )


@pytest.fixture(scope="module")
def release():
    return sf.sanitize(people(), schema=sf.Schema.from_dict(SCHEMA), mechanism="square-wave", epsilon_record=6)


def fitted(shape, epsilon=4.0, rows=20, **parameters):
    encoding = domain(shape)
    mechanism = SquareWaveColumns(epsilon_record=epsilon, **parameters)
    return mechanism.fit(any_records(encoding, np.random.default_rng(0), rows), encoding=encoding)


class TestRelease:
    def test_every_row_reports_two_columns_and_the_card_says_so(self, release):
        frame = release.frame if hasattr(release, "frame") else release.arrow.to_pandas()
        told = frame[["age", "income", "born", "size", "colour"]].notna()
        assert (told.sum(axis=1) == 2).all()
        assert told.mean().between(0.37, 0.43).all()
        card = release.card
        assert card.is_formal
        assert card.guarantee["epsilon_record"] == pytest.approx(6)
        assert card.guarantee["epsilon_column"] == pytest.approx(3)
        assert card.noise_path == "exact-window"
        assert card.recipe["reports"] == 2
        assert card.mechanism["parameters"]["columns"] == 2
        assert any("and nothing else; a missing cell" in line for line in card.guarantee["assumptions"])

    def test_missing_cells_are_reported_as_often_as_others(self, release):
        encoding, table = release.card.source_encoding(), people()
        missing = table["income"].isna().to_numpy()[release.source] if release.source is not None else None
        told = ~np.isnan(release.Z[:, encoding.groups[1].start])
        assert release.Z[told, encoding.groups[1].stop - 1].sum() == 0
        if missing is not None:
            assert told[missing].mean() == pytest.approx(told[~missing].mean(), abs=0.05)

    def test_saved_and_opened_again(self, release, tmp_path):
        release.save(tmp_path / "out")
        again = sf.open_release(tmp_path / "out")
        assert np.allclose(again.Z, release.Z, equal_nan=True, atol=1e-6)
        assert wrong_rows(tmp_path / "out" / "release.parquet", again.card) is None

    def test_reconstruction_finds_the_distributions(self, release, tmp_path):
        release.save(tmp_path / "out")
        truth = people()
        for method in ("expectation-maximization", "parzen-program"):
            found = sf.reconstruct(tmp_path / "out", "age", method=method)
            found = found[0] if isinstance(found, list) else found
            assert found.mean == pytest.approx(truth["age"].mean(), abs=3)
            assert np.sqrt(found.variance) == pytest.approx(truth["age"].std(), rel=0.15)

    def test_a_learner_that_knows_the_noise_learns(self, release):
        model = sf.train(release, classifier="reconstructed-naive-bayes")
        assert sf.evaluate(model, people(2_000, 5)).error < 0.1

    def test_a_row_that_reports_more_is_refused(self, release, tmp_path):
        release.save(tmp_path / "out")
        card, Z = release.card, release.Z.copy()
        row = np.flatnonzero(np.isnan(Z[:, 0]))[0]
        Z[row, 0] = 0.5
        with pytest.raises(TableError, match="reports more or fewer"):
            card.made_by().check_gaps(Z)

    def test_like_the_original(self):
        schema = sf.Schema.from_dict(SCHEMA)
        found = sf.sanitize(people(300), schema=schema, mechanism="square-wave", like_original=True)
        assert found.card.made_by().reports == 1
        assert found.card.post_processing == "like-original"


class TestGuarantee:
    @pytest.mark.parametrize(("epsilon", "k"), [(1.0, 1), (4.0, 1), (5.0, 2), (16.0, 4), (10.0, 4)])
    def test_the_record_has_its_epsilon_and_columns_their_share(self, epsilon, k):
        told = fitted("nm3i", epsilon).guarantee()
        assert fitted("nm3i", epsilon).columns_ == min(k, 4)
        assert told.kind == LOCAL_DP
        assert told.record <= epsilon
        assert told.record == pytest.approx(epsilon, rel=1e-9)
        assert told.column == pytest.approx(epsilon / min(k, 4), rel=1e-9)

    def test_a_card_that_reports_more_states_more(self):
        mechanism = fitted("nnnn", 4.0)
        card = json.loads(make_card(Layout(mechanism, mechanism.encoding_), mechanism.guarantee(), rows=20).to_json())
        assert recomputed(Card.from_dict(card)).record == mechanism.guarantee().record
        for channel in card["recipe"]["channels"]:
            channel["rate"] = 0.5
        with pytest.raises(CardError, match="does not fit"):
            Card.from_dict(card)
        card["recipe"]["reports"] = 2
        forged = Card.from_dict(card)
        assert recomputed(forged).record == pytest.approx(8)
        assert "epsilon_record" in understated(forged)
        del card["recipe"]["reports"]  # then nothing bounds how many columns a row reports
        assert recomputed(Card.from_dict(card)).record == pytest.approx(16)

    def test_floats_and_learned_bounds_are_conditional(self):
        assert fitted("nn", noise="float").guarantee().kind == EMPIRICAL
        encoding = domain("nn", source="learned")
        assert SquareWaveColumns().fit(np.zeros((3, 2)), encoding=encoding).guarantee().kind == EMPIRICAL

    def test_constants_are_released_and_cost_nothing(self):
        mechanism = fitted("cn1e")
        assert mechanism.recipe_.reports is None  # one column is left to report
        assert mechanism.guarantee().record == pytest.approx(4)
        X = any_records(mechanism.encoding_, np.random.default_rng(1), 50)
        Z = mechanism.perturb(X, None, np.random.default_rng(0)).X
        assert not np.isnan(Z).any()
        assert (Z[:, [0, 3]] == 0.5).all()
        assert (Z[:, 4] == 0).all()  # that a constant is missing is not told
        only = fitted("c1e")
        assert only.guarantee().record == 0
        assert (only.perturb(only.encoding_.groups[0].vertices.repeat(4, 1)[:1], None, None).X[:, 0] == 0.5).all()


class TestChoice:
    @pytest.mark.parametrize(("columns", "wanted"), [(4, 1), (5, 2), (5, 4), (3, 3)])
    def test_every_set_is_as_likely(self, columns, wanted):
        from math import comb

        chosen = choose(60_000, [wanted / columns] * columns, wanted, np.random.default_rng(0))
        assert (chosen.sum(axis=1) == wanted).all()
        sets = np.bincount(chosen @ (1 << np.arange(columns)))
        sets = sets[sets > 0]
        assert len(sets) == comb(columns, wanted)
        assert np.abs(sets / 60_000 - 1 / len(sets)).max() < 6 * np.sqrt(1 / len(sets) / 60_000)


class TestBadInput:
    @pytest.mark.parametrize("epsilon", [0, -1.0, float("nan"), float("inf"), "much", True])
    def test_an_epsilon_that_is_none(self, epsilon):
        with pytest.raises(UsageError, match="must be a positive number"):
            fitted("nn", epsilon)

    @pytest.mark.parametrize("epsilon", [1e-9, 1e3])
    def test_an_absurd_epsilon(self, epsilon):
        with pytest.raises(UsageError, match="epsilon of one column must lie between"):
            fitted("nn", epsilon)

    @pytest.mark.parametrize("columns", [0, -1, 1.5, True, "all"])
    def test_columns_that_are_no_number(self, columns):
        with pytest.raises(UsageError, match="whole number of at least 1"):
            fitted("nn", columns=columns)

    def test_more_columns_than_there_are(self):
        with pytest.raises(UsageError, match="this table has 2 that are not constant"):
            fitted("nnc", columns=3)

    def test_two_rows_five_hundred_columns_and_categories_only(self):
        for shape, rows in (("nm3", 2), ("n" * 500, 30), ("23?", 30)):
            mechanism = fitted(shape, rows=rows)
            X = any_records(mechanism.encoding_, np.random.default_rng(0), rows)
            Z = mechanism.perturb(X, None, Streams.seeded(0).generator(0)).X
            mechanism.recipe_.check_gaps(Z)
            assert mechanism.guarantee().record == pytest.approx(4)
