"""Fingerprints that do not fit a piece of memory come back in order, or sorted and each once."""

import io

import numpy as np
import pytest

from sfumato.guarantee import person_hash as spool
from sfumato.ledger import roll as spooled_prints
from sfumato.ledger.roll import SpooledPrints


@pytest.mark.parametrize("count", [0, 1, 99, 100, 101, 2_345])
def test_sorted_by_pieces_is_sorted(count, tmp_path, monkeypatch):
    monkeypatch.setattr(spooled_prints, "PIECE", 100)
    monkeypatch.setattr(spool, "SPOOL_BYTES", 1_000)
    prints = np.random.default_rng(1).integers(0, 1 << 64, size=count, dtype=np.uint64)
    prints[count // 2 :] = prints[: count - count // 2]  # half of them occur twice, in other pieces
    prints[:2] = np.uint64((1 << 64) - 1)
    held = SpooledPrints(tmp_path)
    for start in range(0, count, 37):
        held.add(prints[start : start + 37])
    assert len(held) == count
    assert max((len(piece) for piece in held.pieces()), default=0) <= 100
    assert held.all().tolist() == prints.tolist()
    file = io.BytesIO()
    held.write_sorted(file)
    assert np.frombuffer(file.getvalue(), dtype="<u8").tolist() == np.unique(prints).tolist()
    assert held.all().tolist() == prints.tolist()  # still in their order
    assert list(tmp_path.iterdir()) == []


def test_reading_in_between_neither_loses_nor_overwrites_any(tmp_path, monkeypatch):
    monkeypatch.setattr("sfumato.guarantee.person_hash.SPOOL_BYTES", 100)
    monkeypatch.setattr("sfumato.ledger.roll.PIECE", 10)
    given = np.random.default_rng(2).integers(0, 1 << 64, 60, dtype=np.uint64)
    prints = SpooledPrints(tmp_path)
    prints.add(given[:50])
    one, other = prints.pieces(), prints.pieces()
    first = [next(one), next(other)]  # half-read
    prints.add(given[50:])
    assert np.concatenate([first[0], *one]).tolist() == np.concatenate([first[1], *other]).tolist()
    assert prints.all().tolist() == given.tolist()
