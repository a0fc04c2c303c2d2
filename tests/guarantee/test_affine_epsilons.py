"""Epsilons of Laplace noise behind an affine map, against brute force over whole domains."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from domains import any_records, corner_records, domain, seeds, shapes, steady
from sfumato.channels import affine_bound as affine
from sfumato.channels.affine_bound import affine_epsilons, component_ranges

ROUNDED = 1 + 2e-10


def exponent(scores, scales):
    """Log-likelihood ratio of every pair of score vectors: sum_i |z_i - z'_i| / t_i."""
    return (np.abs(scores[:, None] - scores[None]) / scales).sum(axis=2)


def same_but(X, group):
    """The first record with one source column of all the others: what one column can do."""
    changed = np.repeat(X[:1], len(X), axis=0)
    changed[:, group.slice] = X[:, group.slice]
    return changed


def random_case(shape, seed):
    encoding, rng = domain(shape), np.random.default_rng(seed)
    matrix = rng.normal(size=(rng.integers(1, 6), encoding.width))
    return encoding, rng, matrix, rng.uniform(0.1, 3, size=len(matrix))


@given(shapes, seeds)
@steady(150)
def test_without_clipping_all_three_levels_are_those_of_brute_force(shape, seed):
    encoding, _, matrix, scales = random_case(shape, seed)
    records = corner_records(encoding)
    scores = records @ matrix.T
    low, high = component_ranges(matrix, encoding.groups)
    widths = high - low
    found = affine_epsilons(matrix, scales, widths, encoding.groups)
    record = exponent(scores, scales).max()
    column = max(exponent(same_but(records, g) @ matrix.T, scales).max() for g in encoding.groups)
    assert found.exact
    assert scores.min(axis=0) == pytest.approx(low)
    assert scores.max(axis=0) == pytest.approx(high)
    assert record * (1 - 1e-9) <= found.record <= record * ROUNDED + 1e-12
    assert column * (1 - 1e-9) <= found.column <= column * ROUNDED + 1e-12
    assert found.component == pytest.approx((widths / scales).max())


@given(shapes, seeds, st.floats(0.02, 1.2))
@steady(150)
def test_with_clipping_no_pair_of_records_exceeds_the_claim(shape, seed, share):
    """Scores clipped to intervals learned from data, anywhere inside the range they could have."""
    encoding, rng, matrix, scales = random_case(shape, seed)
    low, high = component_ranges(matrix, encoding.groups)
    widths = np.maximum((high - low) * share, 1e-9)
    start = low + rng.random(len(matrix)) * np.maximum(high - low - widths, 0)
    found = affine_epsilons(matrix, scales, widths, encoding.groups)
    records = np.vstack([corner_records(encoding), any_records(encoding, rng, 60)])[:200]
    clipped = np.clip(records @ matrix.T, start, start + widths)
    assert exponent(clipped, scales).max() <= found.record * ROUNDED
    for group in encoding.groups:
        scores = np.clip(same_but(records, group) @ matrix.T, start, start + widths)
        assert exponent(scores, scales).max() <= found.column * ROUNDED
    assert found.record <= (widths / scales).sum() * ROUNDED
    assert found.exact == (share >= 1 or not np.any(high - low > 2e-9))


def test_a_missing_cell_can_be_furthest_from_the_inside_of_an_interval():
    """z1 = v/2 - m, z2 = v/2 + m, both clipped to width 1: from "missing" to v = .5 moves both by 1, to either end only
    one and three quarters in all. A maximum over corners alone would promise 1.75."""
    matrix, ones = np.array([[0.5, -1.0], [0.5, 1.0]]), np.ones(2)
    found = affine_epsilons(matrix, ones, ones, domain("m").groups)
    middle, missing = np.array([0.5, 0.0]), np.array([0.5, 1.0])
    low = np.array([-0.75, 0.25])
    moved = np.abs(np.clip(matrix @ middle, low, low + 1) - np.clip(matrix @ missing, low, low + 1)).sum()
    assert moved == pytest.approx(2)
    assert found.column == pytest.approx(2)
    assert found.record == pytest.approx(2)
    assert not found.exact


@given(shapes, seeds)
@steady(60)
def test_columns_that_share_no_component_add_up(shape, seed):
    """Also where there are far too many components to enumerate signs."""
    encoding, rng = domain(shape * 8), np.random.default_rng(seed)
    matrix = np.diag(rng.uniform(0.1, 2, encoding.width))
    scales = rng.uniform(0.1, 2, encoding.width)
    low, high = component_ranges(matrix, encoding.groups)
    found = affine_epsilons(matrix, scales, np.maximum(high - low, 1e-12), encoding.groups)
    columns = [
        exponent(group.vertices @ matrix[:, group.slice].T, scales).max() if len(group.vertices) > 1 else 0.0
        for group in encoding.groups
    ]
    assert found.exact
    assert found.record == pytest.approx(sum(columns), rel=1e-9, abs=1e-12)
    assert found.column == pytest.approx(max(columns), rel=1e-9, abs=1e-12)


def test_too_many_components_to_enumerate_give_a_bound_and_say_so():
    encoding, rng = domain("nm3n?" * 4), np.random.default_rng(1)
    matrix = rng.normal(size=(affine.ENUMERABLE + 1, encoding.width))
    low, high = component_ranges(matrix, encoding.groups)
    found = affine_epsilons(matrix, 0.3 * (high - low), high - low, encoding.groups)
    assert not found.exact
    assert found.record <= len(matrix) / 0.3 * ROUNDED
    X = any_records(encoding, rng, 400)
    assert exponent(X @ matrix.T, 0.3 * (high - low)).max() <= found.record
    enumerated = affine_epsilons(matrix[:-1], 0.3 * (high - low)[:-1], (high - low)[:-1], encoding.groups)
    assert enumerated.exact
    assert enumerated.record < (len(matrix) - 1) / 0.3


def test_blocks_of_sign_vectors_change_nothing():
    rng = np.random.default_rng(3)
    encoding = domain("nm3n")
    scaled = rng.normal(size=(9, encoding.width))
    whole = affine._enumerate_signs(scaled, encoding.groups)
    assert whole == pytest.approx(affine._enumerate_signs(scaled, encoding.groups, block=7))
    records = corner_records(encoding)
    assert whole == pytest.approx(exponent(records @ scaled.T, np.ones(9)).max())
