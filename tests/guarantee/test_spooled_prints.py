"""Fingerprints that do not fit a piece of memory come back in order, or sorted and each once."""

import io

import numpy as np
import pytest

from sfumato.guarantee import spool, spooled_prints
from sfumato.guarantee.spooled_prints import SpooledPrints


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
