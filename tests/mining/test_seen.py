"""Likelihood lines: the same as the channel's own law, integrated a second way."""

import numpy as np
import pytest
from scipy import integrate, stats

from sfumato.channels import Additive, Exact, Identity, OrMissing, RandomizedResponse, Recipe, Sampled, Unstated
from sfumato.core.errors import CardError
from sfumato.learn.cluster import Laws, Mixture
from sfumato.learn.mining.seen import Part, see
from sfumato.noise import Laplace
from sfumato.table import Column, Encoding, Schema

NUMBER = Column("a", "numeric", low=0.0, high=1.0)
TOWN = Column("town", "categorical", categories=("n", "s", "w"))


def recipe_of(columns, *channels):
    encoding = Encoding(Schema(tuple(columns)))
    return Recipe(encoding, Identity(encoding.width), tuple(channels))


def test_a_row_is_as_likely_as_numerical_integration_says():
    b, sd, means = 0.1, 0.08, (0.6, 0.35)
    recipe = recipe_of([NUMBER], Additive(Laplace(scale=b)))
    z = np.array([[0.1], [0.45], [0.6], [1.3], [-1.0], [2.0]])  # the last two: so that the grid is the whole range
    seen = see([Part(z, recipe, recipe.channels)])
    clusters = Mixture("diagonal", np.full(2, 0.5), (Laws(np.array(means), np.full(2, sd**2), np.zeros((2, 0))),))

    def density(value, mean, b):
        bell = stats.truncnorm(-mean / sd, (1 - mean) / sd, mean, sd)
        return integrate.quad(lambda x: bell.pdf(x) * stats.laplace.pdf(value - x, scale=b), 0, 1, limit=200)[0]

    truth, wider = (np.array([[density(value, m, s) for m in means] for value in z[:4, 0]]) for s in (b, 1.3 * b))
    found = clusters.responsibilities(seen)[:4]
    assert found == pytest.approx(truth / truth.sum(axis=1, keepdims=True), abs=0.012)
    assert np.abs(found - wider / wider.sum(axis=1, keepdims=True)).max() > 0.02


def test_cells_that_are_not_reported_say_nothing():
    recipe = recipe_of([NUMBER, TOWN], Sampled(Additive(Laplace(scale=0.1)), 0.5), RandomizedResponse(0.8, 3))
    Z = np.array([[0.2, 1, 0, 0], [np.nan, 1, 0, 0], [0.9, 0, 0, 1.0]])
    seen = see([Part(Z, recipe, recipe.channels)])
    assert seen[0].codes.tolist()[1] == -1
    two = Mixture(
        "diagonal",
        np.array([0.5, 0.5]),
        (
            Laws(np.array([0.2, 0.9]), np.array([0.01, 0.01]), np.zeros((2, 0))),
            Laws(np.zeros(2), np.ones(2), np.array([[0.6, 0.2, 0.2], [0.2, 0.2, 0.6]])),
        ),
    )
    belongs = two.responsibilities(seen)
    told, other = 0.8 * 0.6 + 0.1 * 0.4, 0.8 * 0.2 + 0.1 * 0.8
    assert belongs[1, 0] == pytest.approx(told / (told + other))
    assert belongs[0, 0] > belongs[1, 0] > belongs[2, 0]


def test_a_number_that_may_be_missing_has_a_node_for_it():
    column = Column("a", "numeric", low=0.0, high=1.0, missing=True)
    recipe = recipe_of([column], OrMissing(Additive(Laplace(scale=0.1)), 0.9))
    seen = see([Part(np.array([[0.3, 0.0], [0.5, 1.0]]), recipe, recipe.channels)])
    assert len(seen[0].nodes) == seen[0].numbers + 1
    assert seen[0].lines[seen[0].codes[1]].argmax() == seen[0].numbers


def test_a_law_that_is_not_stated_is_refused():
    recipe = recipe_of([NUMBER], Unstated())
    with pytest.raises(CardError, match="not stated"):
        see([Part(np.array([[0.3]]), recipe, recipe.channels)])


def test_exact_columns_are_taken_as_they_are():
    recipe = recipe_of([NUMBER, Column("b", "numeric", low=0.0, high=1.0)], Exact(2))
    Z = np.random.default_rng(0).random((50, 2))
    seen = see([Part(Z, recipe, recipe.channels)])
    for one, column in zip(seen, Z.T, strict=True):
        assert (one.lines @ one.grid)[one.codes] == pytest.approx(column, abs=1e-3)
