"""Guidance is what the counts say, the same for everybody who computes it, and refused when it is not orthonormal."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from sfumato.channels.guidance.guidance import (
    Guidance,
    GuidanceError,
    SurveyCounts,
    SurveyRules,
    check_guidance,
    class_difference,
    decode_matrix,
    encode_matrix,
    hash_matrix,
    least_level,
)
from sfumato.channels.guidance.space import AnswerSpace, perturb_bits
from sfumato.core.errors import UsageError


@pytest.fixture(scope="module")
def rows():
    """Two classes that differ on two of six binary questions."""
    rng = np.random.default_rng(3)
    y = rng.integers(0, 2, 4000)
    codes = rng.integers(0, 2, (4000, 6))
    for question, share in ((1, 0.9), (4, 0.8)):
        codes[:, question] = np.where(rng.random(4000) < share, y, 1 - y)
    return AnswerSpace([2] * 6).onehot(codes), y


def test_two_classes_are_the_published_difference(rows):
    T, y = rows
    A = T[y == 0].astype(float).T @ T[y == 0] - T[y == 1].astype(float).T @ T[y == 1]
    assert_allclose(class_difference(SurveyCounts.of(T, y), floor=0, balance=False), A)
    got = Guidance.from_counts(SurveyCounts.of(T, y), SurveyRules(floor=0, balance=False, k=3))
    assert_allclose(A @ got.V, got.V * got.sigmas[:3], atol=1e-8)
    assert np.all(np.diff(np.abs(got.sigmas)) <= 1e-9)
    published = Guidance.from_counts(SurveyCounts.of(T, y), SurveyRules(floor=0, order="value", balance=False, mu=0.0))
    assert np.all(np.diff(published.sigmas) <= 1e-9)
    assert published.k == (published.sigmas > 0).sum()


def test_order_by_value_drops_the_directions_of_the_second_class():
    """Only class 1 has a direction: by value its eigenvalue comes last, by magnitude first."""
    counts = SurveyCounts.of(np.array([[1, 1, 0, 0]] * 9 + [[0, 0, 1, 0]] * 2), [1] * 9 + [0] * 2)
    assert_allclose(Guidance.from_counts(counts, SurveyRules(floor=0)).V[:, 0], [0.5**0.5, 0.5**0.5, 0, 0], atol=1e-12)
    assert_allclose(
        Guidance.from_counts(counts, SurveyRules(floor=0, order="value", balance=False)).V[:, 0],
        [0, 0, 1, 0],
        atol=1e-12,
    )


@pytest.mark.parametrize(
    ("sigmas", "mu", "k"),
    [([10, 1.5, 1], 0.15, 1), ([10, 1.6, 1.5], 0.15, 2), ([10, 9, 8], 0.15, 3), ([-1, -5], 0.15, 1), ([0, 0], 0.15, 1)],
)
def test_level_is_the_least_that_leaves_little(sigmas, mu, k):
    assert least_level(sigmas, mu) == k


def test_more_than_two_classes(rows):
    """Two classes in the general form have the same directions; a third class adds its own."""
    T, y = rows
    two = SurveyCounts.of(T, y)
    three = two + SurveyCounts(12, {2: 0}, {2: np.zeros((12, 12), dtype=np.int64)})
    absolute = class_difference(three, floor=0, balance=False)
    values, vectors = np.linalg.eigh(class_difference(two, floor=0, balance=False))
    total = sum(two.sums.values())
    assert_allclose(absolute, (vectors * np.abs(values)) @ vectors.T + total / 2, atol=1e-6)
    z = (y + T[:, 0]) % 3
    V = Guidance.from_counts(SurveyCounts.of(T, z), SurveyRules(floor=0)).V
    assert_allclose(V.T @ V, np.eye(V.shape[1]), atol=1e-12)


def test_class_differences_of_three_classes_do_not_cancel():
    bits = np.repeat(np.eye(3, dtype=int), 5, axis=0)
    counts = SurveyCounts.of(bits, np.repeat([0, 1, 2], 5))
    assert_allclose(class_difference(counts, floor=0, balance=False), 7.5 * np.eye(3))
    assert_allclose(class_difference(counts, floor=0), np.eye(3))


def test_a_larger_class_does_not_prevail():
    """Classes that differ in one question: by counts, what all have in common comes first."""
    rng = np.random.default_rng(0)
    y = (rng.random(3000) < 0.8).astype(int)
    codes = np.column_stack([np.where(rng.random(3000) < 0.9, y, 1 - y), rng.random((3000, 3)) < 0.05]).astype(int)
    T = AnswerSpace([2] * 4).onehot(codes)
    directions = [
        Guidance.from_counts(SurveyCounts.of(T, y), SurveyRules(floor=0, balance=b, k=1)).V[:, 0] for b in (True, False)
    ]
    contrast = [abs(v[0] - v[1]) for v in directions]  # how differently the two answers to the question come out
    assert contrast[0] > 1.5 * contrast[1]


@pytest.mark.parametrize("link", ["square", "linear"])
def test_what_the_floor_adds_is_taken_out(rows, link):
    """Means of the decoded matrices are those of the projected answers; 30% less floor is not."""
    T, y = rows
    V = Guidance.from_counts(SurveyCounts.of(T, y), SurveyRules(floor=0, k=2)).V
    x = T @ V @ V.T
    p = np.minimum(x**2, 1) if link == "square" else x
    wanted = sum(np.where(y == c, 1, -1)[:, None, None] * (p[:, :, None] * p[:, None]) for c in (0,)).sum(axis=0)
    np.fill_diagonal(wanted, (np.where(y == 0, 1, -1)[:, None] * p).sum(axis=0))
    rng = np.random.default_rng(0)
    sent = SurveyCounts(12)
    for _ in range(60):
        sent = sent + SurveyCounts.of(perturb_bits(T, V, rng.random(T.shape), 0.2, link), y)
    right = class_difference(sent, link=link, floor=0.2, balance=False) / 60
    wrong = class_difference(sent, link=link, floor=0.14, balance=False) / 60
    spread = 12 * np.sqrt(len(T) / 60)
    assert np.abs(right - wanted).max() < spread
    assert np.abs(wrong - wanted).max() > np.abs(right - wanted).max() * 1.5


def test_anybody_computes_the_same(rows):
    """Another order of rows, another sum, another sign of the eigenvectors: the same bytes to 1e-9."""
    T, y = rows
    order = np.random.default_rng(1).permutation(len(T))
    halves = SurveyCounts.of(T[order[:7]], y[order[:7]]) + SurveyCounts.of(T[order[7:]], y[order[7:]])
    one, other = (
        Guidance.from_counts(SurveyCounts.of(T, y), SurveyRules(k=3)),
        Guidance.from_counts(halves, SurveyRules(k=3)),
    )
    assert one.sha256 == other.sha256
    assert np.all(one.V[np.abs(one.V).argmax(axis=0), np.arange(3)] > 0)


def test_no_rows_give_the_direction_that_tells_nothing():
    got = Guidance.from_counts(SurveyCounts(6), SurveyRules(mu=0.15))
    assert got.k == 1
    space = AnswerSpace((3, 3))
    x = space.onehot(space.every()) @ got.V @ got.V.T
    assert np.ptp(x) < 1e-12


def test_startup_rows_are_counted_as_they_are(rows):
    T, y = rows
    counts = SurveyCounts.of(T, y)
    assert_allclose(
        class_difference(SurveyCounts(12), link="linear", floor=0.3, startup=counts),
        class_difference(counts, floor=0),
    )


def test_guidance_travels_as_base64_and_is_checked(rows):
    V = Guidance.from_counts(SurveyCounts.of(*rows), SurveyRules(k=2)).V
    assert np.array_equal(decode_matrix(encode_matrix(V), 12, 2), V)
    assert hash_matrix(V) == hash_matrix(np.asfortranarray(V)) != hash_matrix(-V)
    assert check_guidance(V * (1 + 1e-10), 12, 2) is not None
    nan = V.copy()
    nan[0, 0] = np.nan
    for bad, message in ((V[:, :1], "12 x 2"), (nan, "not numbers"), (V * (1 + 1e-8), "orthonormal"), ("x", "matrix")):
        with pytest.raises(GuidanceError, match=message):
            check_guidance(bad, 12, 2)
    for text in ("?", encode_matrix(V)[:-4], encode_matrix(V[:6])):
        with pytest.raises(GuidanceError):
            decode_matrix(text, 12, 2)


def test_wrong_parameters_are_named(rows):
    counts = SurveyCounts.of(*rows)
    for wrong in ({"mu": 1.0}, {"order": "size"}, {"k": 0}, {"k": 13}, {"floor": 0.5}, {"link": "cube"}):
        with pytest.raises(UsageError):
            Guidance.from_counts(counts, SurveyRules(**wrong))
