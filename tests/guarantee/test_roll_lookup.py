"""Which fingerprints are known, looked up a few at a time, is what comparing with every one of them says."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from sfumato.guarantee import roll


@pytest.mark.parametrize(("asked", "known"), [(1000, 300), (7, 1), (64, 500), (0, 5), (5, 0)])
def test_known_fingerprints_are_found_where_they_stand(monkeypatch, asked, known):
    monkeypatch.setattr(roll, "ASKED_AT_A_TIME", 64)
    rng = np.random.default_rng(asked)
    theirs = np.sort(rng.integers(0, 1 << 64, size=known, dtype=np.uint64))
    prints = rng.integers(0, 1 << 64, size=asked, dtype=np.uint64)
    if known and asked:
        prints[::3] = rng.choice(theirs, size=len(prints[::3]))
        prints[-1] = np.uint64((1 << 64) - 1)  # beyond the last one
    found = roll.among(prints, theirs)
    assert_array_equal(found, np.array([print_ in set(theirs.tolist()) for print_ in prints.tolist()], dtype=bool))
