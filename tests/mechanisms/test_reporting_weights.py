"""Weights say how often a column is reported, the record's epsilon stays what it was, and readers know."""

import itertools
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import sfumato as sf
from distinguisher import assert_honest, proved_epsilon
from sfumato.channels.sampled import choose
from sfumato.channels.staged import VECTORS
from sfumato.core.errors import CardError, SchemaError
from sfumato.guarantee import LOCAL_DP, Card
from sfumato.guarantee.card import recomputed
from sfumato.learn.classifiers.private_discriminant import PrivateDiscriminant, moments_of
from sfumato.learn.classifiers.reads_noise import Part
from sfumato.mechanisms import PiecewiseNoise, SquareWaveColumns, StagedRelease
from sfumato.mechanisms.columnwise import reporting_rates
from sfumato.noise import Streams
from sfumato.release.check_rows import WRONG_GAPS, NoiseEvidence
from sfumato.table import Column, Encoding, Schema

PUBLIC = {"source": "public", "reason": "the form"}
WORDS = {"kind": "categorical", "categories": ("r", "g", "b"), **PUBLIC}


def numbers(*weights):
    return tuple(Column(f"n{i}", "numeric", low=0, high=1, weight=w, **PUBLIC) for i, w in enumerate(weights))


def fitted(mechanism, *columns):
    encoding = Encoding(Schema(columns))
    X = np.zeros((4, encoding.width))
    for group in encoding.groups:
        X[:, group.start] = 1.0
    return mechanism.fit(X, encoding=encoding)


@pytest.fixture(scope="module")
def release():
    rng = np.random.default_rng(3)
    ill = rng.random(6_000) < 0.5
    frame = pd.DataFrame(
        {
            "rare": np.clip(rng.normal(np.where(ill, 0.7, 0.3), 0.1), 0, 1),
            "usual": np.clip(rng.normal(np.where(ill, 0.3, 0.6), 0.1), 0, 1),
            "colour": np.where(rng.random(6_000) < 0.8, np.where(ill, "r", "g"), "b"),
            "ill": np.where(ill, "yes", "no"),
        }
    )
    schema = Schema(
        (
            Column("rare", "numeric", low=0, high=1, weight=4, **PUBLIC),
            Column("usual", "numeric", low=0, high=1, **PUBLIC),
            Column("colour", weight=2, **WORDS),
            Column("ill", "categorical", role="label", categories=("no", "yes"), **PUBLIC),
        )
    )
    return frame, sf.sanitize(frame, schema=schema, mechanism="square-wave", epsilon_record=3)


class TestRates:
    @pytest.mark.parametrize(
        ("shares", "wanted", "rates"),
        [
            ((1, 1, 1, 1), 2, (0.5, 0.5, 0.5, 0.5)),
            ((1, 4, 2), 1, (1 / 7, 4 / 7, 2 / 7)),
            ((6, 1, 1), 2, (1.0, 0.5, 0.5)),
            ((9, 3, 1, 1, 1), 3, (1.0, 1.0, 1 / 3, 1 / 3, 1 / 3)),  # the second is full once the first is
            ((5, 1), 2, (1.0, 1.0)),
        ],
    )
    def test_in_proportion_to_shares_and_never_above_one(self, shares, wanted, rates):
        assert reporting_rates(shares, wanted) == pytest.approx(rates)

    @pytest.mark.parametrize(
        ("rates", "wanted"), [((0.1, 0.6, 0.3), 1), ((0.9, 0.35, 0.5, 0.25), 2), ((1.0, 0.7, 0.3), 2), ((0.8,) * 5, 4)]
    )
    def test_every_column_is_chosen_at_its_rate_and_every_pair_now_and_then(self, rates, wanted):
        chosen = choose(40_000, rates, wanted, np.random.default_rng(0))
        assert (chosen.sum(axis=1) == wanted).all()
        assert np.abs(chosen.mean(axis=0) - rates).max() < 5 * 0.5 / np.sqrt(40_000)
        pairs = [chosen[:, pair].all(axis=1).mean() for pair in itertools.combinations(range(len(rates)), 2)]
        never = {(0.1, 0.6, 0.3): 3, (1.0, 0.7, 0.3): 1}.get(rates, 0)  # one column, or one beside the full one
        assert sum(share < 0.01 for share in pairs) == never


class TestGuarantee:
    @pytest.mark.parametrize("mechanism", [SquareWaveColumns, PiecewiseNoise])
    def test_weights_leave_the_epsilons_as_they_were(self, mechanism):
        columns = (*numbers(1, 3, 2), Column("c", weight=5, **WORDS))
        even = (*numbers(1, 1, 1), Column("c", **WORDS))
        found, usual = (fitted(mechanism(epsilon_record=4.0, columns=2), *some) for some in (columns, even))
        assert found.guarantee() == usual.guarantee()
        assert found.guarantee().kind == LOCAL_DP
        rates = np.array([one.reported for one in found.recipe_.channels])
        assert rates.sum() == pytest.approx(2)
        assert rates[1:] / rates[2] == pytest.approx([2 / 3, 1, 2 / 5])

    def test_a_column_that_every_record_reports_leaves_fewer_to_draw(self):
        mechanism = fitted(SquareWaveColumns(epsilon_record=4.0, columns=2), *numbers(1, 20, 20, 20))
        assert [one.leaves_out for one in mechanism.recipe_.channels] == [False, True, True, True]
        assert mechanism.recipe_.reports == 1
        assert mechanism.guarantee().record == pytest.approx(4)
        Z = mechanism.perturb(np.full((300, 4), 0.5), None, np.random.default_rng(0)).X
        assert ((~np.isnan(Z)).sum(axis=1) == 2).all()
        assert not np.isnan(Z[:, 0]).any()

    def test_where_all_columns_are_reported_their_epsilons_follow_the_weights(self):
        mechanism = fitted(SquareWaveColumns(epsilon_record=6.0, columns=3), *numbers(1, 2), Column("c", **WORDS))
        told = [one.epsilons(groups).record for one, groups in mechanism.recipe_.of_columns()]
        assert told == pytest.approx([2.4, 1.2, 2.4])
        assert 6 * (1 - 1e-9) < mechanism.guarantee().record <= 6.0

    def test_the_best_distinguisher_reaches_the_claim_and_no_more(self):
        mechanism = fitted(SquareWaveColumns(epsilon_record=1.6, columns=2), *numbers(1, 2, 1))
        assert_honest(proved_epsilon(mechanism, 60_000, Streams.seeded(7)), mechanism.guarantee().record)

    def test_a_full_column_that_is_not_counted_is_caught(self):
        """The planted fault: as many columns are drawn as if the one that all report were not there."""

        class NotCounted(SquareWaveColumns):
            def perturb(self, X, y, rng):
                stated = self.recipe_
                channels = [replace(one, rate=2 / 3) if one.leaves_out else one for one in stated.channels]
                self.recipe_ = replace(stated, reports=2, channels=tuple(channels))
                block = super().perturb(X, y, rng)
                self.recipe_ = stated
                return block

        mechanism = fitted(NotCounted(epsilon_record=1.6, columns=2), *numbers(1, 9, 9, 9))
        with pytest.raises(AssertionError, match="was proved"):
            assert_honest(proved_epsilon(mechanism, 60_000, Streams.seeded(7)), mechanism.guarantee().record)

    def test_a_weight_that_hides_the_column_is_refused(self):
        with pytest.raises(SchemaError, match="'n1' would be reported by less than one record"):
            fitted(SquareWaveColumns(epsilon_record=1.0), *numbers(1, 1e9))


class TestRelease:
    def test_the_card_states_how_often_and_the_coordinator_finds_the_same(self, release):
        _, found = release
        again = Card.from_dict(found.card.to_dict())
        assert [one.reported for one in again.made_by().channels] == pytest.approx([1 / 7, 4 / 7, 2 / 7])
        assert recomputed(again).record == found.card.guarantee["epsilon_record"] == pytest.approx(3)
        shares = (~np.isnan(found.Z[:, [0, 1, 2]])).mean(axis=0)
        assert np.abs(shares - [1 / 7, 4 / 7, 2 / 7]).max() < 0.03

    def test_rates_that_do_not_add_up_are_refused(self, release):
        stated = release[1].card.to_dict()
        stated["recipe"]["channels"][0]["rate"] = 0.3
        with pytest.raises(CardError):
            Card.from_dict(stated).made_by()

    def test_the_coordinator_finds_columns_that_are_reported_evenly_instead(self, release):
        card, recipe = release[1].card, release[1].card.made_by()
        even = replace(recipe, channels=tuple(replace(one, rate=1 / 3) for one in recipe.channels))
        for made, wrong in ((recipe, None), (even, WRONG_GAPS)):
            evidence = NoiseEvidence.of(card)
            evidence.add(made.perturb(np.tile([0.5, 0.5, 1.0, 0, 0], (card.rows, 1)), np.random.default_rng(0)), None)
            assert (evidence.against() == WRONG_GAPS) == (wrong is not None)

    def test_what_is_not_reported_is_as_likely_for_everybody(self, release):
        recipe = release[1].card.made_by()
        people = np.array([[0.2, 0.3, 1, 0, 0], [0.9, 0.8, 0, 0, 1.0]])
        alone = np.array([[0.3, np.nan, np.nan, np.nan, np.nan]])
        found = recipe.log_likelihood(alone, people)
        inner = recipe.channels[0].inner.log_likelihood(alone[:, :1], people[:, :1])
        assert found[0, 0] - found[0, 1] == pytest.approx(inner[0, 0] - inner[0, 1])
        assert found[0, 0] - inner[0, 0] == pytest.approx(np.log(1 / 7 * 3 / 7 * 5 / 7))

    def test_learners_and_reconstruction_read_it(self, release):
        frame, found = release
        density = sf.reconstruct(found, "rare", method="expectation-maximization")
        assert density.mean == pytest.approx(frame["rare"].mean(), abs=0.06)
        model = sf.train(found, classifier="reconstructed-naive-bayes")
        assert sf.evaluate(model, frame[:1500]).error < 0.12


@pytest.fixture(scope="module")
def staged():
    """Two columns that go together, of which one has four times the weight; half of the rows are of each class."""
    rng = np.random.default_rng(5)
    y = (rng.random(40_000) < 0.5).astype(np.int64)
    common = rng.normal(size=40_000)
    X = np.column_stack([common + 0.8 * rng.normal(size=40_000) + y, common + 0.8 * rng.normal(size=40_000) - y])
    X = np.clip(X / 8 + 0.5, 0, 1)
    mechanism = StagedRelease(epsilon_record=8.0, columns=1, noise="float")
    encoding = Encoding(Schema(numbers(4, 1)))
    return X, y, mechanism, mechanism.release(X, y, rng=np.random.default_rng(1), encoding=encoding)


class TestStages:
    def test_light_columns_are_reported_more_often_and_features_are_longer(self, staged):
        _, _, mechanism, block = staged
        told = (~np.isnan(block.X[:, :4])).mean(axis=0)
        assert np.abs(told - np.outer([0.10, 0.15], [0.2, 0.8]).ravel()).max() < 0.006
        assert mechanism.recipe_.map.stretch == pytest.approx(np.sqrt([0.4, 1.6]))
        even = StagedRelease(epsilon_record=8.0, columns=1, noise="float").fit(
            np.full((4, 2), 0.5), encoding=Encoding.unit(2, public=True)
        )
        assert mechanism.guarantee().record == even.guarantee().record

    def test_vectors_are_right_on_average_once_the_stretch_is_undone(self, staged):
        """Means by class and products of features; a reader that forgets the stretch is off by more than a half."""
        X, y, mechanism, block = staged
        recipe = mechanism.recipe_
        space, found = moments_of(Part(block.X, y, recipe), 2)
        F = space.of(X)
        for code in (0, 1):
            truth = F[y == code].mean(axis=0)
            assert np.abs(found.means[code] - truth).max() < 0.08
            assert np.abs(truth).max() > 0.3
        truth = F.T @ F / len(F)
        assert np.abs(found.together - truth).max() < 0.12
        assert abs(truth[0, 2]) > 0.15
        forgotten = moments_of(Part(block.X, y, replace(recipe, map=replace(recipe.map, stretch=()))), 2)[1]
        assert np.abs(np.diag(forgotten.together) - np.diag(truth)).max() > 0.4

    def test_the_likelihood_is_that_of_stretched_features(self, staged):
        """Rows are likeliest for the person they come from more often under the true recipe than without stretch."""
        X, _, mechanism, block = staged
        recipe = mechanism.recipe_
        rows = np.flatnonzero(~np.isnan(block.X[:, recipe.map.parts[VECTORS].start]))[:600]
        own = [np.diag(one.log_likelihood(block.X[rows], X[rows])).mean() for one in (recipe, _plain(recipe))]
        assert own[0] > own[1] + 0.02

    def test_the_model_remembers(self, staged):
        X, y, mechanism, block = staged
        model = PrivateDiscriminant().fit(block.X, y, sources=[mechanism.recipe_], part=np.zeros(len(y), dtype=int))
        assert np.mean(model.predict(X[:4000]) == y[:4000]) > 0.76  # the best is .81
        assert model._space().stretch == pytest.approx(mechanism.recipe_.map.stretch)


def _plain(recipe):
    return replace(recipe, map=replace(recipe.map, stretch=()))
