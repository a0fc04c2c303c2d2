"""Nearest rows on a device: the same answers as the processor's, ties and duplicates included, in any block size."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from sfumato.core.errors import UsageError
from sfumato.table.neighbours.arrays import Arrays
from sfumato.table.neighbours.nearest import DeviceMemoryWarning, nearest, nearest_on_device, on_device
from sfumato.table.neighbours.votes import Circle, radius_votes


def arrays():
    """The double, and PyTorch's processor where it is installed."""
    found = [Arrays()]
    try:
        import torch  # noqa: F401
    except ImportError:
        return found
    from sfumato.table.neighbours.arrays import TorchArrays

    return [*found, TorchArrays("cpu")]


def tables(rng):
    yield "spread", rng.normal(size=(700, 6)), rng.normal(size=(900, 6))
    yield "far from zero", rng.random((300, 4)) + 1e6, rng.random((513, 4)) + 1e6
    yield "on a grid", rng.integers(0, 4, (300, 3)).astype(float), rng.integers(0, 4, (700, 3)).astype(float)
    same = rng.random((300, 5))
    yield "copies", same, np.repeat(same, 2, axis=0)
    yield "few", rng.random((5, 2)), rng.random((3, 2))


@pytest.mark.parametrize("device", arrays(), ids=lambda one: type(one).__name__)
@pytest.mark.parametrize("k", [1, 3])
def test_the_answers_are_the_processors(device, k):
    for name, queries, rows in tables(np.random.default_rng(4)):
        expected = nearest(queries, rows, k)
        with on_device(device, memory=1 << 18):
            found = nearest(queries, rows, k)
            own = nearest(rows, rows, min(k, 2))
        for one, other in zip(found, expected, strict=True):
            assert_array_equal(one, other, err_msg=name)
        for one, other in zip(own, nearest(rows, rows, min(k, 2)), strict=True):
            assert_array_equal(one, other, err_msg=name)


def test_most_queries_are_settled_by_the_device_and_crowds_are_not():
    rng = np.random.default_rng(2)
    for name, queries, rows in tables(rng):
        _, _, settled = nearest_on_device((Arrays(), 1 << 20), queries, rows, 1)
        if name in ("spread", "on a grid"):  # where a dozen rows lie on each point, a second look settles it
            assert settled.mean() > 0.95
    crowd = np.repeat(rng.random((5, 3)), 400, axis=0)
    _, _, settled = nearest_on_device((Arrays(), 1 << 20), crowd[::40], crowd, 1)
    assert settled.mean() < 0.5


class Small(Arrays):
    """A card that holds fewer products than it was said to."""

    def group_minima(self, queries, rows):
        if len(queries) > 100:
            raise MemoryError
        return super().group_minima(queries, rows)


def test_a_card_that_runs_full_goes_on_in_smaller_blocks_and_says_so():
    rng = np.random.default_rng(1)
    queries, rows = rng.random((500, 4)), rng.random((600, 4))
    with on_device(Small()), pytest.warns(DeviceMemoryWarning, match="blocks of"):
        found = nearest(queries, rows, 2)
    assert_array_equal(found[1], nearest(queries, rows, 2)[1])


def test_without_a_card_one_sentence_says_so():
    try:
        import torch
    except ImportError:
        pass
    else:
        if torch.cuda.is_available():
            pytest.skip("there is a card")
    with pytest.raises(UsageError, match="--device cuda"), on_device("cuda"):
        pass


@pytest.mark.parametrize("device", arrays(), ids=lambda one: type(one).__name__)
@pytest.mark.parametrize("weights", [{}, {"less": 0.3, "least": 0.05}], ids=["plain", "less noise"])
def test_votes_are_the_processors(device, weights):
    for name, queries, rows in tables(np.random.default_rng(5)):
        codes = np.arange(len(rows)) % 3
        # On the grid many rows lie exactly on the circle: rounding must not decide.
        squared_radius = 2.0 if name == "on a grid" else float(np.quantile(((queries[0] - rows) ** 2).sum(axis=1), 0.2))
        circle = Circle(squared_radius, **weights)
        expected = radius_votes(queries, rows, codes, 3, circle)
        with on_device(device, memory=1 << 20):
            found = radius_votes(queries, rows, codes, 3, circle)
        assert_array_equal(found.exact, expected.exact, err_msg=name)
        assert_array_equal(found.votes > 0, expected.votes > 0, err_msg=name)
        assert_allclose(found.votes, expected.votes, rtol=1e-7, err_msg=name)
