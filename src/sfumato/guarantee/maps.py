"""Maps from rows to what is released: secret ones, drawn once and kept in key files, and learned ones, known again."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sfumato.core.array_types import Flags, Floats, Matrix
from sfumato.core.errors import CardError
from sfumato.core.files import is_private, read_kept, write_whole
from sfumato.guarantee.card import Card
from sfumato.guarantee.guarantee import LEARNED_MAPS

FORMAT, VERSION = "sfumato-key", 1


@dataclass(frozen=True, repr=False)
class Key:
    """Named matrices (a projection, a rotation, a centre) for one mechanism and one source space.

    `fingerprint` is the source encoding's: a key drawn for other columns or bounds is refused. The card carries
    `commitment()`, a salted hash: it tells whether two releases share a key and nothing about the key.
    """

    mechanism: str
    fingerprint: str
    arrays: Mapping[str, Floats]
    salt: bytes

    @classmethod
    def draw(cls, mechanism: str, fingerprint: str, arrays: Mapping[str, Floats]) -> Key:
        """A new key around freshly drawn `arrays`."""
        frozen = {name: np.ascontiguousarray(array, dtype="<f8") for name, array in sorted(arrays.items())}
        return cls(mechanism, fingerprint, frozen, os.urandom(32))

    def __repr__(self) -> str:
        shapes = {name: array.shape for name, array in self.arrays.items()}
        return f"Key(mechanism={self.mechanism!r}, shapes={shapes}, content hidden)"

    def commitment(self) -> str:
        """HMAC-SHA256 of the content under the salt, which stays in the key file."""
        return "hmac-sha256:" + hmac.new(self.salt, self._content(), hashlib.sha256).hexdigest()

    def affine(self) -> tuple[Floats, Floats]:
        """(A, c) of ``z = A x + c``: the secret `matrix`, turned about the `centre` where there is one."""
        matrix = self.arrays["matrix"]
        centre = self.arrays.get("centre")
        return matrix, np.zeros(len(matrix)) if centre is None else -(matrix @ centre)

    def _content(self) -> bytes:
        parts = [f"{self.mechanism}|{self.fingerprint}".encode()]
        for name, array in sorted(self.arrays.items()):
            parts += [f"|{name}{array.shape}|".encode(), np.ascontiguousarray(array, dtype="<f8").tobytes()]
        return b"".join(parts)

    def save(self, path: Path) -> None:
        """Write the key so that only its owner can read it."""
        arrays = {
            name: {
                "shape": array.shape,
                "float64": base64.b64encode(np.ascontiguousarray(array, dtype="<f8").tobytes()).decode(),
            }
            for name, array in self.arrays.items()
        }
        data = {
            "format": FORMAT,
            "version": VERSION,
            "private": "As sensitive as the data it was used on. Never upload it.",
            "mechanism": self.mechanism,
            "source": self.fingerprint,
            "salt": self.salt.hex(),
            "arrays": arrays,
            "commitment": self.commitment(),
        }
        write_whole(path, json.dumps(data, indent=1), private=True)

    @classmethod
    def load(cls, path: Path | str) -> Key:
        """Read a key; one that others could have read, or that was edited or cut short, is refused."""
        path = Path(path)
        if not path.is_file():
            raise CardError(f"There is no key file {path}.")
        lost = f"{path} is not a key, or it is damaged or cut short. Take it from a backup."

        def read(data: Mapping[str, Any]) -> tuple[Key, str]:
            arrays = {
                name: np.frombuffer(base64.b64decode(part["float64"], validate=True), dtype="<f8")
                .reshape(part["shape"])
                .astype(np.float64)
                for name, part in data["arrays"].items()
            }
            return cls(data["mechanism"], data["source"], arrays, bytes.fromhex(data["salt"])), str(data["commitment"])

        key, commitment = read_kept(path, "The key", (FORMAT, VERSION), read, lost)
        if not is_private(path):
            raise CardError(
                f"The key {path} can be read by others on this machine. Find out who could have, then: chmod 600 {path}"
            )
        if not hmac.compare_digest(key.commitment(), commitment):
            raise CardError(f"The key {path} was changed since it was drawn. Take it from a backup.")
        return key

    def check(self, mechanism: str, fingerprint: str) -> None:
        """Refuse a key that was drawn for another mechanism or another source space."""
        if self.mechanism != mechanism:
            raise CardError(f"This key belongs to {self.mechanism}, not to {mechanism}. Give the right --key.")
        if self.fingerprint != fingerprint:
            raise CardError(
                "This key was drawn for other columns, bounds or categories. "
                "Use the schema it was drawn with (--schema), so that all releases share one space."
            )


# What was learned from people's rows stays learned, also when it comes back as if it had simply been chosen.
#
# A basis or a guidance that a release learned stands on its card, for everybody to read. Given to the next release as a
# parameter, with a reason beside it, it would look public; yet it tells of the people that shaped it, and whoever knows
# all rows but one reads the last one off it. Two memories recognise it: the owner's ledger keeps the directions that
# were learned under it, and a coordinator compares what is given with the cards it holds.
#
# A direction counts as learned if it lies nearer to a learned one than a direction can that owes nothing to those rows.
# How near that is, the number of rows says: two samples of n rows show directions that differ by about 1 / sqrt(n). So
# what was copied is found, digits cut off, signs turned or noise added. Who turns all directions into others that span
# the same space is not found out: that a thing is public remains the owner's word.

BY_CHANCE = 1e-3
"""How probable it may be at most that one of the directions of a release lies near a given one that owes it nothing."""
UNSETTLED = 0.25
FARTHEST = 0.3
"""Angle beyond which nothing counts as near; directions that samples hardly settle would reach farther."""
STEP = 1e-4
GRIDS = (0.0, 1 / 3, 2 / 3)
"""Entries of a unit vector are hashed in such steps, from three starts: what was rounded to six digits crosses a border
in one of them at times, hardly ever in all, and not for all directions at once."""
LEADING = 24
"""Directions of one release that are remembered; the leading ones are kept by whoever keeps any."""
NEAR = 1e-5
HASH_BYTES = 8


@dataclass(frozen=True, eq=False)
class Learned:
    """Unit vectors that a release learned, as rows, and the angle at which another direction still counts as each."""

    directions: Matrix
    reach: Floats

    @classmethod
    def of(cls, rows: Matrix, people: int, variances: Matrix | None = None) -> Learned:
        """The leading directions that were learned from so many people. `variances` are those along all principal
        components, in the order of the rows, where the directions are such components."""
        rows = np.atleast_2d(np.asarray(rows, dtype=np.float64))
        known = variances is not None and len(variances) == rows.shape[1] >= len(rows)
        tells = _tells(rows)
        reach = _reach(people, rows.shape, variances if known else None)
        return cls(_unit(rows[tells])[:LEADING], reach[tells][:LEADING])

    def has(self, rows: Matrix) -> bool:
        """Whether one of these directions, or its opposite, lies too near to owe nothing to the learned ones."""
        given = telling(rows)
        if not len(given) or given.shape[1] != self.directions.shape[1]:
            return False
        apart = 2 - 2 * np.abs(self.directions @ given.T)  # the square of a small angle
        return bool((apart <= np.maximum(self.reach, NEAR)[:, None] ** 2).any())

    def to_dict(self) -> dict[str, Any]:
        """As the ledger keeps it: seven digits of every number are enough."""
        digits = base64.b64encode(self.directions.astype("<f4").tobytes()).decode()
        return {"directions": digits, "reach": [float(f"{angle:.3g}") for angle in self.reach]}

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Learned:
        reach = np.array(found["reach"], dtype=np.float64)
        numbers = np.frombuffer(base64.b64decode(found["directions"], validate=True), "<f4")
        return cls(_unit(numbers.reshape(len(reach), -1).astype(np.float64)), reach)


def _reach(people: int, shape: tuple[int, int], variances: Matrix | None) -> Floats:
    """Within which angle of each learned direction one that owes it nothing lies with probability BY_CHANCE at most.

    In a sample of n rows the i-th principal component is off along the j-th by about a normal number of variance
    l_i l_j / (l_i - l_j)^2 / n (Anderson, 1963), so that the square of the angle is a sum of such squares: about chi
    squared, scaled (Satterthwaite). A direction that was fixed without these rows lies nowhere nearer than at the
    centre, and two samples differ by more than either does from the centre. Without variances (a guidance) the squares
    are taken to come to UNSETTLED / n in all, which is less than what samples of surveys show.
    """
    from scipy.special import gammaincinv  # slow to load

    count, width = shape
    off = np.full((count, width), 1.0 / max(people, 1))
    if variances is None:
        off *= UNSETTLED / width
    else:
        spread = np.asarray(variances, dtype=np.float64)
        gaps = (spread[:count, None] - spread) ** 2
        with np.errstate(divide="ignore", invalid="ignore"):
            off *= np.where(gaps > 0, spread[:count, None] * spread / gaps, np.inf)
    off = np.minimum(off, 1.0)
    off[np.arange(min(count, width)), np.arange(min(count, width))] = 0.0
    total, squares = off.sum(axis=1), (off * off).sum(axis=1)
    freedom = np.where(squares > 0, total**2 / np.where(squares > 0, squares, 1.0), 1.0)
    quantile = 2 * gammaincinv(freedom / 2, BY_CHANCE / max(count, 1))
    return np.asarray(np.minimum(np.sqrt(total / freedom * quantile), FARTHEST))


def _unit(rows: Matrix) -> Matrix:
    return np.asarray(rows / np.sqrt((rows * rows).sum(axis=1))[:, None])


def _tells(rows: Matrix) -> Flags:
    """Which rows are not directions that anybody writes down: single columns and flat sums of some."""
    size = np.abs(rows)
    top = size.max(axis=1, initial=0.0)[:, None]
    with np.errstate(invalid="ignore"):
        plain = ((size < NEAR * top) | (size > top - NEAR * top)).all(axis=1)
    return np.asarray(~plain & np.isfinite(rows).all(axis=1) & (top[:, 0] > 0))


def telling(rows: Matrix) -> Matrix:
    """Unit vectors along the rows that tell something."""
    rows = np.atleast_2d(np.asarray(rows, dtype=np.float64))
    return _unit(rows[_tells(rows)])


def direction_hashes(key: bytes, rows: Matrix) -> list[str]:
    """Keyed hashes of the leading directions of a secret map: without the ledger's key they tell nothing."""
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
    """Whether a reason was given why it is public."""
    return isinstance(words, str) and bool(words.strip())


def lent_by(card: Card, earlier: Iterable[Card]) -> bool:
    """Whether this card gives as public a direction that an earlier card says was learned from people's rows."""
    given = _directions(card)
    if given is None or _says_learned(card):
        return False
    for other in earlier:
        learned = _directions(other) if _says_learned(other) else None
        if learned is None:
            continue
        variances = np.array(other.transform.get("variances") or (), dtype=np.float64)
        sound = np.isfinite(variances).all() and (variances >= 0).all()
        if Learned.of(learned, other.rows, variances if sound else None).has(given):
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
