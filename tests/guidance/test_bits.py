"""Bits have the probabilities of the paper, computed in one order, and an epsilon that brute force confirms."""

import itertools
import json
import math
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import binomtest

from sfumato.channels.guidance.epsilon import HALF, _largest_ratio, answer_epsilons, survey_epsilon
from sfumato.channels.guidance.guidance import decode_matrix, encode_matrix, hash_matrix
from sfumato.channels.guidance.space import AnswerSpace, bit_probabilities, floored, perturb_bits, uniforms_from_bytes
from sfumato.core.errors import UsageError

VECTORS = json.loads((Path(__file__).parent.parent / "vectors" / "guided.json").read_text())


def orthonormal(width, k, seed=0):
    return np.ascontiguousarray(np.linalg.qr(np.random.default_rng(seed).normal(size=(width, k)))[0])


def scalar(t, V, floor, link):
    """The steps of the module's docstring, one number at a time: what a browser does."""
    width, k = V.shape
    u = [0.0] * k
    for j in range(width):
        if t[j] == 1:
            for c in range(k):
                u[c] = u[c] + float(V[j, c])
    q = []
    for j in range(width):
        x = 0.0
        for c in range(k):
            x = x + u[c] * float(V[j, c])
        p = min(1.0, x * x) if link == "square" else min(1.0, max(0.0, 0.5 + 0.5 * x))
        q.append(floor + (1 - 2 * floor) * p)
    return q


@pytest.mark.parametrize("link", ["square", "linear"])
@pytest.mark.parametrize("floor", [0.0, 0.1, 0.25])
def test_probabilities_are_the_same_to_the_last_digit(link, floor):
    space = AnswerSpace((2, 3, 4, 2))
    T = space.onehot(space.every())
    V = orthonormal(space.width, 4)
    together = bit_probabilities(T, V, floor, link)
    for t, q in zip(T, together, strict=True):
        assert q.tolist() == scalar(t, V, floor, link) == bit_probabilities(t, V, floor, link).tolist()
    x = T @ V @ V.T
    p = np.clip(x**2 if link == "square" else (1 + x) / 2, 0, 1)
    assert_allclose(together, floor + (1 - 2 * floor) * p, atol=1e-14)


def test_values_beyond_one_are_cut():
    V = np.full((4, 1), 0.5)
    V = np.column_stack([V, [0.5, -0.5, 0.5, -0.5]])
    assert bit_probabilities([1, 0, 1, 0], V, floor=0).max() == 1.0
    V = np.sqrt([[0.3], [0.1], [0.5], [0.1]])
    assert bit_probabilities([1, 0, 1, 0], V, 0, "linear").max() <= 1.0


def test_bits_have_their_probability_and_no_other():
    V, t = orthonormal(6, 2), np.array([1, 0, 0, 1, 1, 0])
    q = bit_probabilities(t, V, 0.1)
    rows = 40_000
    data = np.random.default_rng(5).bytes(rows * 6 * 8)
    sent = perturb_bits(np.tile(t, (rows, 1)), V, uniforms_from_bytes(data).reshape(rows, 6), 0.1)
    for j in range(6):
        ones = int(sent[:, j].sum())
        assert binomtest(ones, rows, q[j]).pvalue > 1e-5
        assert binomtest(ones, rows, min(1.0, 1.3 * q[j])).pvalue < 1e-5


def test_uniforms_are_little_endian_53_bits():
    assert uniforms_from_bytes(bytes(7) + b"\x80").tolist() == [0.5]
    assert uniforms_from_bytes(b"\xff" * 8).tolist() == [1 - 2**-53]
    assert uniforms_from_bytes(b"\xff\x07" + bytes(6)).tolist() == [0.0]  # the lowest eleven bits are dropped
    assert uniforms_from_bytes(b"\x00\x08" + bytes(6)).tolist() == [2.0**-53]


def brute_force(V, space, floor, link):
    """Per bit the largest log-ratio over all answers; and the worst pair of answers for all bits together."""
    q = bit_probabilities(space.onehot(space.every()), V, floor, link)
    per_bit = np.maximum(np.log(q.max(0) / q.min(0)), np.log((1 - q.min(0)) / (1 - q.max(0)))).sum()
    pairs = max(np.maximum(np.log(a / b), np.log((1 - a) / (1 - b))).sum() for a, b in itertools.permutations(q, 2))
    return per_bit, pairs


@pytest.mark.parametrize("link", ["square", "linear"])
@pytest.mark.parametrize("sizes", [(2, 2, 2), (3, 4), (1, 5, 2)])
@pytest.mark.parametrize("blank", [False, True])
def test_epsilon_is_what_brute_force_finds(link, sizes, blank):
    space = AnswerSpace(sizes, blank)
    for seed, floor in ((0, 0.05), (1, 0.25), (2, 0.4)):
        V = orthonormal(space.width, 2, seed)
        got = survey_epsilon(V, space, floor, link)
        per_bit, pairs = brute_force(V, space, floor, link)
        assert got.tight
        assert got.record == pytest.approx(per_bit, rel=1e-8)
        assert got.record >= per_bit >= pairs - 1e-12
        assert survey_epsilon(V, space, floor, link, tight=False).record >= got.record
        assert got.record <= space.width * math.log((1 - floor) / floor) * (1 + 1e-8)


@pytest.mark.parametrize("link", ["square", "linear"])
@pytest.mark.parametrize(("sizes", "blank"), [((2, 2, 2), False), ((3, 4), False), ((2, 3, 2), True)])
def test_epsilon_of_one_answer_bounds_every_change_of_one_answer(link, sizes, blank):
    """Brute force over all answers and all changes of one question; the bound is not idle either."""
    space = AnswerSpace(sizes, blank)
    every = space.every()
    for seed, floor in ((0, 0.05), (1, 0.25)):
        V = orthonormal(space.width, 3, seed)
        q = bit_probabilities(space.onehot(every), V, floor, link)
        got = answer_epsilons(V, space, floor, link)
        for question in range(len(sizes)):
            found = 0.0
            for a, b in itertools.permutations(range(len(every)), 2):
                differs = every[a] != every[b]
                if differs[question] and differs.sum() == 1:
                    ratio = np.maximum(np.log(q[a] / q[b]), np.log((1 - q[a]) / (1 - q[b]))).sum()
                    found = max(found, ratio)
            assert found <= got[question] <= 2.5 * found
            assert got[question] <= survey_epsilon(V, space, floor, link).record * (1 + 1e-9)


def test_the_worst_r_is_found_in_closed_form():
    """Against a fine grid of r, with values beyond 1 that are cut off."""
    rng = np.random.default_rng(3)
    p, p2 = rng.uniform(-1.2, 1.2, (2, 50))
    low = rng.uniform(-2, 0, 50)
    high = low + rng.uniform(0, 3, 50)
    for link in ("square", "linear"):
        r = low + np.linspace(0, 1, 20_001)[:, None] * (high - low)
        q, q2 = floored(r + p, 0.1, link), floored(r + p2, 0.1, link)
        grid = np.maximum(np.log(q / q2), np.log((1 - q) / (1 - q2))).max(axis=0)
        exact = _largest_ratio(p, p2, low, high, 0.1, link)
        assert np.all(exact >= grid - 1e-12)
        assert_allclose(exact, grid, atol=1e-3)  # a grid misses kinks


def test_epsilon_of_many_questions_is_a_bound():
    few, many = AnswerSpace([2] * 20), AnswerSpace([2] * 60)
    assert survey_epsilon(orthonormal(40, 3), few).tight
    assert HALF < 2**30
    got = survey_epsilon(orthonormal(120, 3), many)
    assert not got.tight
    sample = np.random.default_rng(0).integers(0, 2, (2000, 60))
    q = bit_probabilities(many.onehot(sample), orthonormal(120, 3))
    seen = np.maximum(np.log(q.max(0) / q.min(0)), np.log((1 - q.min(0)) / (1 - q.max(0)))).sum()
    assert seen < got.record < math.inf


def test_without_a_floor_there_is_no_bound():
    assert survey_epsilon(orthonormal(4, 1), AnswerSpace((2, 2)), 0.0).record == math.inf


def test_wrong_floors_links_and_uniforms_are_refused():
    V = orthonormal(4, 1)
    for wrong in ({"floor": -0.1}, {"floor": 0.5}, {"floor": math.nan}, {"floor": True}, {"link": "cubic"}):
        with pytest.raises(UsageError):
            bit_probabilities([1, 0, 1, 0], V, **wrong)
    with pytest.raises(UsageError, match="uniform"):
        perturb_bits([1, 0, 1, 0], V, [0.5] * 3)


@pytest.mark.parametrize("case", VECTORS["cases"], ids=lambda case: case["name"])
def test_published_vectors(case):
    """The vectors that the browser's code is held to."""
    space = AnswerSpace(case["sizes"], case["blank"])
    V = decode_matrix(case["V"], space.width, case["k"])
    assert hash_matrix(V) == case["sha256"]
    t = space.onehot([case["answers"]])[0]
    assert np.flatnonzero(t).tolist() == case["ones"]
    q = bit_probabilities(t, V, case["floor"], case["link"])
    assert [float(p).hex() for p in q] == case["probabilities"]
    uniforms = uniforms_from_bytes(bytes.fromhex(case["random"]))
    assert np.flatnonzero(perturb_bits(t, V, uniforms, case["floor"], case["link"])).tolist() == case["sent"]
    epsilon = survey_epsilon(V, space, case["floor"], case["link"])
    assert epsilon.record == (math.inf if case["epsilon"] is None else pytest.approx(case["epsilon"], rel=1e-12))
    bound = survey_epsilon(V, space, case["floor"], case["link"], tight=False).record
    assert bound == (math.inf if case["epsilon_bound"] is None else pytest.approx(case["epsilon_bound"], rel=1e-12))
    assert encode_matrix(V) == case["V"]
