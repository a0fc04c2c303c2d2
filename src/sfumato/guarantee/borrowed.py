"""What was learned from people's rows stays learned, also when it comes back as if somebody had simply chosen it.

A basis or a guidance that a release learned stands on its card, for everybody to read. Given to the next release as a
parameter, with a reason beside it, it would look public; yet it tells of the people that shaped it, and whoever knows
all rows but one reads the last one off it. Two memories recognise it: the owner's ledger keeps keyed hashes of every
direction that was learned under it, and a coordinator compares what is given with the cards it holds.

This finds what was copied, digits cut off or signs turned included. Who turns all directions into others that span the
same space is not found out: that a thing is public remains the owner's word.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Collection, Iterable

import numpy as np

from sfumato.array_types import Matrix
from sfumato.guarantee.card import Card
from sfumato.guarantee.proved import LEARNED_MAPS

STEP = 1e-4
GRIDS = (0.0, 1 / 3, 2 / 3)
"""Entries of a unit vector are hashed in such steps, from three starts: what was rounded to six digits crosses a border
in one of them at times, hardly ever in all, and not for all directions at once."""
LEADING = 24
"""Directions of one release that are remembered; the leading ones are kept by whoever keeps any."""
NEAR = 1e-5
HASH_BYTES = 8


def telling(rows: Matrix) -> Matrix:
    """Unit vectors along the rows, without those that anybody writes down: single columns and flat sums of some."""
    rows = np.atleast_2d(np.asarray(rows, dtype=np.float64))
    lengths = np.sqrt((rows * rows).sum(axis=1))
    rows = rows[(lengths > 0) & np.isfinite(lengths)]
    unit = rows / np.sqrt((rows * rows).sum(axis=1))[:, None]
    size = np.abs(unit)
    top = size.max(axis=1, initial=0.0)[:, None]
    plain = ((size < NEAR) | (size > top - NEAR)).all(axis=1)
    return np.asarray(unit[~plain])


def direction_hashes(key: bytes, rows: Matrix) -> list[str]:
    """Keyed hashes of the leading directions: without the ledger's key they tell nothing."""
    return [_hash(key, row, start) for row in telling(rows)[:LEADING] for start in GRIDS]


def is_remembered(key: bytes, rows: Matrix, known: Collection[str]) -> bool:
    """Whether one of these directions, or its opposite, was hashed before."""
    known = set(known)
    if not known:
        return False
    both = (signed for row in telling(rows) for signed in (row, -row))
    return any(_hash(key, row, start) in known for row in both for start in GRIDS)


def _hash(key: bytes, row: Matrix, start: float) -> str:
    steps = np.floor(row / STEP + start + 0.5).astype("<i4")
    message = b"direction" + bytes([round(3 * start)]) + steps.tobytes()
    return hmac.new(key, message, hashlib.sha256).hexdigest()[: 2 * HASH_BYTES]


def is_reason(words: object) -> bool:
    """Whether somebody said why what they give is public."""
    return isinstance(words, str) and bool(words.strip())


def lent_by(card: Card, earlier: Iterable[Card]) -> bool:
    """Whether this card gives as public a direction that an earlier card says was learned from people's rows."""
    given = _directions(card)
    if given is None or not len(given := telling(given)) or _says_learned(card):
        return False
    for other in earlier:
        learned = _directions(other) if _says_learned(other) else None
        if learned is not None and learned.shape[1] == given.shape[1]:
            shared = np.abs(telling(learned) @ given.T)
            if shared.size and shared.max() > 1 - NEAR**2:
                return True
    return False


def _says_learned(card: Card) -> bool:
    return bool(LEARNED_MAPS & {*card.learned_from_data, *card.guarantee["in_the_way"]})


def _directions(card: Card) -> Matrix | None:
    """The rows of the basis, or the columns of the guidance, that a card publishes."""
    told = card.transform
    try:
        if told["kind"] == "affine":
            rows = np.array(told["matrix"], dtype=np.float64)
        elif told["kind"] == "guided":
            rows = np.frombuffer(base64.b64decode(told["guidance"], validate=True), "<f8").reshape(-1, told["k"]).T
        else:
            return None
    except (binascii.Error, KeyError, TypeError, ValueError):
        return None
    return rows if rows.ndim == 2 and rows.size and np.isfinite(rows).all() else None
