"""Shares of categories behind randomized response: unbiased, and from parts of different noise one better estimate."""

import numpy as np
import pytest

from sfumato.core.errors import TableError, UsageError
from sfumato.reconstruction.density import counts_of, invert_response, reconstruct_shares
from sfumato.reconstruction.evidence import Options

TRUTH = np.array([0.45, 0.3, 0.15, 0.1])
ROWS = 3000


def told(keep, rng):
    """Counts of randomized answers of ROWS people."""
    other = (1 - keep) / (len(TRUTH) - 1)
    return rng.multinomial(ROWS, other + (keep - other) * TRUTH).astype(float)


def test_parts_randomized_differently_give_one_better_estimate():
    """Weighted by precision; weighted by rows, as if both told alike, the weaker part would spoil the stronger."""
    rng = np.random.default_rng(0)
    errors = {"joint": [], "strong": [], "weak": [], "by rows": []}
    for _ in range(200):
        strong, weak = told(0.8, rng), told(0.4, rng)
        found = {
            "joint": invert_response([strong, weak], [0.8, 0.4]),
            "strong": invert_response([strong], [0.8]),
            "weak": invert_response([weak], [0.4]),
        }
        found["by rows"] = 0.5 * (found["strong"] + found["weak"])
        for name, shares in found.items():
            errors[name].append(np.sum((shares - TRUTH) ** 2))
    mean = {name: np.mean(values) for name, values in errors.items()}
    assert mean["joint"] < mean["strong"] < mean["by rows"] < mean["weak"]
    assert np.mean([invert_response([told(0.8, rng), told(0.4, rng)], [0.8, 0.4]) for _ in range(200)], axis=0) == (
        pytest.approx(TRUTH, abs=0.003)
    )


def test_a_wrong_probability_is_told_apart():
    rng = np.random.default_rng(1)
    counts = [told(0.8, rng), told(0.4, rng)]
    right = np.abs(invert_response(counts, [0.8, 0.4]) - TRUTH).sum()
    assert np.abs(invert_response(counts, [0.8 / 1.3, 0.4]) - TRUTH).sum() > 3 * right


def test_the_band_holds_the_truth_and_counts_all_rows():
    rng = np.random.default_rng(2)
    held = []
    for _ in range(60):
        found = reconstruct_shares(
            "c", [told(0.8, rng), told(0.4, rng)], tuple("abcd"), [0.8, 0.4], Options(resamples=100)
        )
        held.append((found.low <= TRUTH) & (found.high >= TRUTH))
    assert found.rows == 2 * ROWS
    assert 0.8 < np.mean(held) < 0.97


def test_an_empty_part_adds_nothing_and_answers_at_random_are_refused():
    rng = np.random.default_rng(3)
    counts = told(0.8, rng)
    assert invert_response([counts, np.zeros(4)], [0.8, 0.5]) == pytest.approx(invert_response([counts], [0.8]))
    with pytest.raises(UsageError, match="say nothing"):
        invert_response([counts], [0.25])


def test_without_resamples_there_is_no_band():
    """A band of two draws stood there, as if it meant something."""
    counts = told(0.8, np.random.default_rng(4))
    found = reconstruct_shares("c", [counts], tuple("abcd"), [0.8], Options(resamples=0))
    assert found.low is None
    assert found.table().column_names == ["category", "probability"]
    assert found.summary()["confidence"] is None
    assert "band" not in found.plot()
    banded = reconstruct_shares("c", [counts], tuple("abcd"), [0.8], Options(resamples=20))
    assert banded.table().column_names == ["category", "probability", "probability_low", "probability_high"]
    assert "90% band" in banded.plot()


def test_categories_are_counted_block_by_block():
    blocks = [["a", "b", None], ["b"], [], ["a"] * 5]
    whole = counts_of([value for block in blocks for value in block], ["a", "b", "(missing)"])
    np.testing.assert_array_equal(whole, [6, 2, 1])
    np.testing.assert_array_equal(counts_of(iter(blocks), ["a", "b", "(missing)"]), whole)
    with pytest.raises(TableError, match="does not name"):
        counts_of(iter([*blocks, ["c"]]), ["a", "b", "(missing)"])
