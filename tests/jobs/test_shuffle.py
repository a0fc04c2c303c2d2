"""The shuffle on disk draws every order alike; work through threads comes back in order."""

from __future__ import annotations

import contextlib
import itertools

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy.stats import chisquare

from sfumato.core.errors import TableError
from sfumato.mechanisms import Block
from sfumato.noise import Streams
from sfumato.release import source as workers_module
from sfumato.release.shuffle import DiskShuffle
from sfumato.release.source import in_order


class Unpermuted(DiskShuffle):
    """A shuffle that deals rows to buckets, and forgets to permute what each bucket holds."""

    def _shuffled(self, bucket: int, order: np.ndarray) -> Block:
        return super()._shuffled(bucket, np.sort(order))


@pytest.fixture
def permutations(tmp_path, monkeypatch):
    """How often each of the 24 orders of four rows came out of 480 shuffles."""
    monkeypatch.setattr(workers_module, "threadpool_limits", lambda *_, **__: contextlib.nullcontext())

    def count(kind: type[DiskShuffle], bucket_rows: int) -> list[int]:
        places = {order: place for place, order in enumerate(itertools.permutations(range(4)))}
        counts = [0] * len(places)
        streams = Streams.seeded(3)
        for number in range(480):
            shuffle = kind(tmp_path / f"{kind.__name__}-{bucket_rows}-{number}", 4, 1, bucket_rows)
            for block in range(2):
                rows = np.array([2 * block, 2 * block + 1])
                dealt = shuffle.deal(
                    Block(rows[:, None].astype(float), None, rows), streams.generator(block, b"", b"%d" % number)
                )
                shuffle.add(dealt)
            blocks = list(shuffle.blocks(streams.generator(9, b"", b"%d" % number)))
            order = np.concatenate([block.source for block in blocks])
            assert_array_equal(np.concatenate([block.X[:, 0] for block in blocks]), order)
            counts[places[tuple(order.tolist())]] += 1
        return counts

    return count


@pytest.mark.parametrize("bucket_rows", [1, 2, 4])
def test_the_shuffle_on_disk_draws_every_order_alike(permutations, bucket_rows):
    assert chisquare(permutations(DiskShuffle, bucket_rows)).pvalue > 1e-4


def test_a_shuffle_that_is_not_uniform_is_rejected(permutations):
    assert chisquare(permutations(Unpermuted, 2)).pvalue < 1e-20


def test_the_shuffle_keeps_labels_and_leaves_no_file(tmp_path):
    rng = np.random.default_rng(1)
    shuffle = DiskShuffle(tmp_path / "buckets", 100, 3, bucket_rows=7)
    for start in range(0, 100, 25):
        rows = np.arange(start, start + 25)
        X = np.asfortranarray(rows[:, None] + np.array([0.0, 0.25, 0.5]))
        shuffle.add(shuffle.deal(Block(X, rows % 3, rows), rng))
    assert (tmp_path / "buckets" / "buckets").stat().st_mode & 0o077 == 0
    blocks = list(shuffle.blocks(rng))
    for block in blocks:
        assert_array_equal(block.X, block.source[:, None] + np.array([0.0, 0.25, 0.5]))
        assert_array_equal(block.y, block.source % 3)
    assert sorted(np.concatenate([block.source for block in blocks]).tolist()) == list(range(100))
    assert list(tmp_path.iterdir()) == []


def test_a_block_whose_record_reached_the_disk_in_part_is_not_taken_for_whole(tmp_path):
    def shuffle() -> DiskShuffle:
        return DiskShuffle(tmp_path / "buckets", 40, 1, bucket_rows=5, lasting=True)

    first, rows = shuffle(), np.arange(20)
    for number in range(2):
        first.add(first.deal(Block(rows[:, None].astype(float), None, rows), Streams.seeded(1).generator(number)))
    assert shuffle().finished == 2
    index = tmp_path / "buckets" / "index"
    index.write_bytes(index.read_bytes()[:-16] + bytes(16))  # the last two buckets seem to end before they begin
    assert shuffle().finished == 1


def test_work_comes_back_in_order_and_reads_ahead_by_little():
    read = []

    def items():
        for number in range(50):
            read.append(number)
            yield number

    ahead = []
    for place, made in enumerate(in_order(items(), lambda number: -number, threads=3)):
        assert made == -place
        ahead.append(len(read) - place)
    assert max(ahead) <= 5


def test_an_error_in_a_thread_reaches_the_caller():
    def fail(number: int) -> int:
        if number == 5:
            raise TableError("row 5")
        return number

    with pytest.raises(TableError, match="row 5"):
        list(in_order(range(100), fail, threads=2))


@pytest.mark.parametrize("lost", [slice(4096, 8192), slice(-8, None), slice(0, 1)])
def test_a_block_that_did_not_reach_the_disk_whole_is_dealt_again(tmp_path, lost):
    rng, rows = np.random.default_rng(1), np.arange(1000)
    X = rng.standard_normal((1000, 3))

    def shuffle() -> DiskShuffle:
        return DiskShuffle(tmp_path / "buckets", 3000, 3, bucket_rows=700, lasting=True)

    first = shuffle()
    for _ in range(2):
        first.add(first.deal(Block(X, None, rows), rng))
    assert shuffle().finished == 2
    data = tmp_path / "buckets" / "buckets"
    found = bytearray(data.read_bytes())
    second = memoryview(found)[len(found) // 2 :]
    second[lost] = bytes(b ^ 0xFF if len(second[lost]) == 1 else 0 for b in second[lost])
    data.write_bytes(found)
    assert shuffle().finished == 1
    assert data.stat().st_size == len(found) // 2
