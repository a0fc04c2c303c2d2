"""The owner's private ledger: how often the same people were released, and what that adds up to."""

from __future__ import annotations

import hashlib
import hmac
import json
import math
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.array_types import Floats
from sfumato.errors import CardError
from sfumato.files import exclusive, other_version, write_whole
from sfumato.guarantee.borrowed import direction_hashes, is_remembered
from sfumato.guarantee.concentrated import Central
from sfumato.guarantee.rounding import sum_up

FORMAT, VERSION = "sfumato-ledger", 1
"""A later version reads and migrates every earlier one, from 0.1.0 on; what it does not know of an entry it keeps."""
VARIABLE = "SFUMATO_LEDGER"
TILE = 1 << 15  # cells that are hashed at a time: they stay in the cache
KEY_BYTES = 32
LEARNED = "learned"
"""Where hashes of learned directions stand; ledgers of earlier versions have none."""


MODELS = "models"
"""Digests of models that fits have left, and how often rows were drawn from each again."""


def default_ledger() -> Path:
    """`SFUMATO_LEDGER`, else a file in the user's own data folder."""
    named = os.environ.get(VARIABLE)
    if named:
        return Path(named)
    from platformdirs import user_data_path

    return user_data_path("sfumato") / "ledger.json"


class Fingerprint:
    """A keyed fingerprint of a set of rows that does not depend on their order; added up block by block.

    Each row is hashed to 64 bits by a keyed multilinear form over the words of its encoded values, mixed, and
    summed; the sums go through HMAC. Without the ledger's key the fingerprint tells nothing about the rows.
    """

    def __init__(self, key: bytes, width: int):
        self._key = key
        seed = int.from_bytes(hmac.new(key, b"rows", hashlib.sha256).digest()[:16], "little")
        generator = np.random.Generator(np.random.PCG64(seed))
        self._weights = generator.integers(1, 2**64, size=width, dtype=np.uint64) | np.uint64(1)
        self._sums = np.zeros(2, dtype=np.uint64)
        self._rows = 0

    def add(self, X: Floats) -> None:
        """Take in one block of encoded rows."""
        self.merge(self.sums(X), len(X))

    def merge(self, sums: NDArray[np.uint64], rows: int) -> None:
        """Take in the `sums` of that many rows."""
        self._sums += sums
        self._rows += rows

    def sums(self, X: Floats) -> NDArray[np.uint64]:
        """What one block adds: any thread may compute it, any order of merging gives the same fingerprint."""
        total = np.zeros(2, dtype=np.uint64)
        step = max(64, TILE // max(1, X.shape[1]))
        for start in range(0, len(X), step):
            row = self._hashed(X[start : start + step])
            total += np.array([row.sum(dtype=np.uint64), (row * row).sum(dtype=np.uint64)], dtype=np.uint64)
        return total

    def _hashed(self, X: Floats) -> NDArray[np.uint64]:
        mixed: NDArray[np.uint64] = (X.T + 0.0).view(np.uint64)  # + 0.0 makes -0 and 0 the same row
        mixed ^= mixed >> np.uint64(29)
        mixed *= np.uint64(0xBF58476D1CE4E5B9)
        mixed ^= mixed >> np.uint64(32)
        mixed *= self._weights[:, None]
        row: NDArray[np.uint64] = mixed.sum(axis=0, dtype=np.uint64)
        row ^= row >> np.uint64(31)
        row *= np.uint64(0x94D049BB133111EB)
        row ^= row >> np.uint64(29)
        return row

    def hexdigest(self) -> str:
        message = self._sums.tobytes() + self._rows.to_bytes(8, "little")
        return hmac.new(self._key, message, hashlib.sha256).hexdigest()


@dataclass(frozen=True)
class Earlier:
    """Earlier releases of the same rows: how many, the sum of their record epsilons (infinite if one has none), and
    whether one of them gave the label exactly. `central`: what those of rows that belong to nobody cost, kept apart."""

    count: int
    epsilon: float
    exact_label: bool = False
    central: Central | None = None

    def to_dict(self, epsilon_now: float, central_now: Central | None = None) -> dict[str, Any]:
        """As it stands on the card of the release that follows them."""
        total = self.epsilon if central_now is not None else sum_up([self.epsilon, epsilon_now])
        finite = total if math.isfinite(total) else None
        central = self.central + central_now if self.central and central_now else self.central or central_now
        return {
            "count": self.count,
            "total_epsilon_record": finite,
            "exact_label": self.exact_label,
            **({} if central is None else {"central": central.to_dict()}),
        }


class Ledger:
    """A small JSON file, mode 0600: a random key, per fingerprint the releases made, and hashes of what was learned."""

    def __init__(self, path: Path | None = None):
        self.path = path or default_ledger()
        self._data = self._read()

    def _read(self) -> dict[str, Any]:
        if not self.path.exists():
            return {"format": FORMAT, "version": VERSION, "key": os.urandom(KEY_BYTES).hex(), "tables": {}}
        try:
            data: dict[str, Any] = json.loads(self.path.read_text())
            if data["format"] != FORMAT:
                raise ValueError("another file")
            if why := other_version(data["version"], VERSION, older="Take it from a backup."):
                raise CardError(f"The ledger of releases {self.path} {why}")  # nothing is written over it
            if len(bytes.fromhex(data["key"])) != KEY_BYTES:
                raise ValueError("the key was cut short")
            for releases in data["tables"].values():
                _total(releases)
            if not all(isinstance(item, str) for item in data.get(LEARNED, ())):
                raise ValueError("what was learned is not a list of hashes")
            if not all(isinstance(times, int) for times in data.get(MODELS, {}).values()):
                raise ValueError("models are not counts")
        except CardError:
            raise
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise CardError(
                f"The ledger of releases {self.path} cannot be read. Take it from a backup, or move it away "
                "(earlier releases are then no longer counted)."
            ) from error
        return data

    @property
    def key(self) -> bytes:
        """The owner's secret, from which all fingerprints are made."""
        return bytes.fromhex(self._data["key"])

    @property
    def releases(self) -> int:
        """How many releases were noted in all."""
        return sum(len(releases) for releases in self._data["tables"].values())

    def keep(self) -> None:
        """Write a ledger that does not exist yet, so that its key stays what it is."""
        with exclusive(self.path):
            if self.path.exists():
                self._data = self._read()
            else:
                write_whole(self.path, json.dumps(self._data, indent=1), private=True)

    def fingerprint(self, width: int) -> Fingerprint:
        return Fingerprint(self.key, width)

    def remember_learned(self, rows: Floats) -> None:
        """Directions (rows) that a release learned from people's rows: hashes of them, kept for good."""
        new = direction_hashes(self.key, rows)
        with exclusive(self.path):
            self._data = self._read() if self.path.exists() else self._data
            known = self._data.setdefault(LEARNED, [])
            if more := [item for item in dict.fromkeys(new) if item not in set(known)]:
                known.extend(more)
                write_whole(self.path, json.dumps(self._data, indent=1), private=True)

    def has_learned(self, rows: Floats) -> bool:
        """Whether one of these directions was learned for an earlier release under this ledger."""
        return is_remembered(self.key, rows, self._data.get(LEARNED, ()))

    def columns(self, names: Iterable[str]) -> str:
        """A keyed hash of the names of a table's columns, in any order."""
        message = json.dumps(sorted(names), ensure_ascii=False).encode()
        return hmac.new(self.key, b"columns/" + message, hashlib.sha256).hexdigest()

    def earlier(self, fingerprint: str, columns: str | None = None, *, nobodys: bool = False) -> Earlier:
        """What was released of these rows before, and what was drawn from models of tables with these `columns`.

        Before rows that belong to `nobodys`, everything that was released of such columns counts, whatever the rows
        were. "These very rows were released before" is an exact fact about the table, and the card shows the count.
        """
        tables = self._data["tables"]
        alike = [e for releases in tables.values() for e in releases if columns and e.get("columns") == columns]
        if not nobodys:
            same = tables.get(fingerprint, [])
            alike = [*same, *(e for e in alike if e.get("central") and not any(e is one for one in same))]
        return self._add_up(alike)

    def _add_up(self, releases: list[dict[str, Any]]) -> Earlier:
        # 0.1.0 did not note what became of the label: it counts as released exactly
        exact = any(entry.get("exact_label", True) for entry in releases)
        drawn = [Central.from_dict(entry["central"]) for entry in releases if entry.get("central")]
        central = reduce(Central.__add__, drawn) if drawn else None
        return Earlier(len(releases), _total(releases), exact, central)

    def record(
        self,
        fingerprint: str,
        *,
        mechanism: str,
        epsilon: float | None,
        when: str,
        exact_label: bool | None = None,
        central: Central | None = None,
        columns: str | None = None,
        run: str | None = None,
    ) -> Earlier:
        """Note one more release, durably and before it becomes visible; returns what was released before it.

        Reading and noting are one step, so that of two runs at the same moment the second counts the first. A `run`
        that was killed and goes on takes its first note back: it counts once.
        """
        entry = _entry(mechanism, epsilon, when, exact_label, central, columns, run)
        with exclusive(self.path):
            self._data = self._read() if self.path.exists() else self._data
            if run is not None:
                releases = self._data["tables"].get(fingerprint, [])
                releases[:] = [one for one in releases if one.get("run") != run]
            earlier = self.earlier(fingerprint, columns, nobodys=central is not None)
            self._data["tables"].setdefault(fingerprint, []).append(entry)
            write_whole(self.path, json.dumps(self._data, indent=1), private=True)
        return earlier

    def keep_model(self, digest: str) -> None:
        """A fit that was paid for has left this model: drawing from it again is free."""
        self._models(lambda known: {**known, digest: known.get(digest, 0)})

    def redrawn(self, digest: str) -> bool:
        """Note that rows were drawn again from a model; False where this ledger does not know it."""
        if digest not in self._data.get(MODELS, {}):
            return False
        self._models(lambda known: {**known, digest: known.get(digest, 0) + 1})
        return True

    def redraws(self, digest: str) -> int:
        """How often rows were drawn again from a model, as far as this ledger was told."""
        return int(self._data.get(MODELS, {}).get(digest, 0))

    def _models(self, change: Callable[[dict[str, int]], dict[str, int]]) -> None:
        with exclusive(self.path):
            self._data = self._read() if self.path.exists() else self._data
            self._data[MODELS] = change(self._data.get(MODELS, {}))
            write_whole(self.path, json.dumps(self._data, indent=1), private=True)

    def strike(
        self,
        fingerprint: str,
        *,
        mechanism: str,
        epsilon: float | None,
        when: str,
        exact_label: bool | None = None,
        central: Central | None = None,
        columns: str | None = None,
        run: str | None = None,
    ) -> None:
        """Take the note of a release back: it failed and never became visible."""
        entry = _entry(mechanism, epsilon, when, exact_label, central, columns, run)
        with exclusive(self.path):
            self._data = self._read()
            releases = self._data["tables"].get(fingerprint, [])
            if entry in releases:  # notes of other runs that read alike are as good
                releases.remove(entry)
            if not releases:
                self._data["tables"].pop(fingerprint, None)
            write_whole(self.path, json.dumps(self._data, indent=1), private=True)


def _entry(
    mechanism: str,
    epsilon: float | None,
    when: str,
    exact_label: bool | None,
    central: Central | None,
    columns: str | None,
    run: str | None,
) -> dict[str, Any]:
    finite = epsilon if epsilon is not None and math.isfinite(epsilon) else None
    label = {} if exact_label is None else {"exact_label": exact_label}
    drawn = {} if central is None else {"central": central.to_dict()}  # an older version reads no epsilon: no bound
    of = {} if columns is None else {"columns": columns}
    mark = {} if run is None else {"run": run}  # of a run that can be killed and go on
    return {"when": when, "mechanism": mechanism, "epsilon_record": finite, **label, **drawn, **of, **mark}


def _total(releases: list[dict[str, Any]]) -> float:
    """Sum of the record epsilons; null stands for infinite."""
    perturbed = [entry["epsilon_record"] for entry in releases if not entry.get("central")]
    return sum_up(math.inf if epsilon is None else float(epsilon) for epsilon in perturbed)
