"""Counts are whole numbers that add up like one pass, in any order, and survive JSON."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from sfumato.channels.guidance.guidance import SurveyCounts
from sfumato.channels.guidance.space import AnswerSpace
from sfumato.core.errors import TableError

ROWS = st.integers(0, 30).flatmap(lambda m: arrays(np.uint8, (m, 5), elements=st.integers(0, 1)))


@given(ROWS, st.integers(0, 30), st.data())
@settings(max_examples=40)
def test_counts_merge_like_one_pass(bits, cut, data):
    y = data.draw(arrays(np.int64, len(bits), elements=st.integers(0, 2)))
    whole = SurveyCounts.of(bits, y)
    left, right = SurveyCounts.of(bits[:cut], y[:cut]), SurveyCounts.of(bits[cut:], y[cut:])
    assert left + right == right + left == whole
    assert SurveyCounts(5) + whole == whole
    assert SurveyCounts.from_json(whole.to_json()) == whole
    for label in whole:
        mine = bits[y == label].astype(int)
        assert np.array_equal(whole.sums[label], mine.T @ mine)
        assert np.array_equal(whole.ones(label), mine.sum(axis=0))


def test_counts_stay_whole_numbers_beyond_a_float():
    one = SurveyCounts(1, {0: 2**53}, {0: np.array([[2**53]])}) + SurveyCounts.of([[1]], [0])
    assert one.rows[0] == one.sums[0][0, 0] == 2**53 + 1
    assert SurveyCounts.from_json(one.to_json()) == one


@pytest.mark.parametrize(
    ("bits", "y", "width"),
    [
        ([[0, 2]], [0], None),
        ([[0, 1]], [0], 3),
        ([[0, 1]], [0, 1], None),
        ([[0, 1]], [-1], None),
        ([[0, 1]], [0.5], None),
        ([["a", "b"]], [0], None),
        ([[0, np.nan]], [0], None),
    ],
)
def test_malformed_rows_are_refused_without_quoting_them(bits, y, width):
    with pytest.raises(TableError) as refused:
        SurveyCounts.of(bits, y, width)
    assert "nan" not in str(refused.value)
    assert "'a'" not in str(refused.value)


def test_counts_that_no_rows_can_have_are_refused():
    good = json.loads(SurveyCounts.of([[1, 1], [1, 0]], [0, 0]).to_json())
    for change in ({"n": 1}, {"n": -1}, {"upper": [1, 2, 1]}, {"upper": [2, -1, 1]}, {"upper": [2, 1.5, 1]}, {}):
        part = {**good["classes"]["0"], **change} if change else {"n": 2}
        with pytest.raises(TableError, match="damaged"):
            SurveyCounts.from_json(json.dumps({"width": 2, "classes": {"0": part}}))
    with pytest.raises(TableError, match="2 and of 3"):
        SurveyCounts(2) + SurveyCounts(3)


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.booleans())
@settings(max_examples=30)
def test_answers_and_bits_are_inverse(sizes, blank):
    space = AnswerSpace(sizes, blank)
    every = space.every()
    assert len(np.unique(every, axis=0)) == len(every) == len(space)
    assert np.array_equal(space.codes(space.onehot(every)), every)


def test_answers_that_nobody_can_give_are_refused():
    space = AnswerSpace((2, 3))
    for codes in ([[0]], [[0, 3]], [[-1, 0]], [[0.5, 1]]):
        with pytest.raises(TableError):
            space.onehot(codes)
    for bits in ([[1, 1, 1, 0, 0]], [[0, 0, 1, 0, 0]], [[1, 0, 1, 0]]):
        with pytest.raises(TableError):
            space.codes(bits)
    assert space.width == 5
