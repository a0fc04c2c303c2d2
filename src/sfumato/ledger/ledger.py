"""The ledger: what was released of whom, whether it may be charged, and the limit that the owner set."""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import hmac
import json
import math
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Self

import numpy as np

from sfumato.core.accepted import OrInfinite, Positive
from sfumato.core.array_types import Flags, Floats
from sfumato.core.errors import BudgetError, CardError, UsageError
from sfumato.core.files import exclusive, lock_of, read_kept, write_whole
from sfumato.core.records import BRIEF, Key, Record
from sfumato.core.wording import counted
from sfumato.guarantee.all_releases import Earlier, Entry, is_drawn, record_epsilon
from sfumato.guarantee.cost import Central
from sfumato.guarantee.maps import Learned, direction_hashes, is_remembered
from sfumato.guarantee.person_hash import Fingerprint, PersonHash, Tally
from sfumato.guarantee.rounding import rounded_up
from sfumato.guarantee.signer import signer_beside
from sfumato.ledger.roll import KeptRoll, Roll

# A limit that the owner set, and what counts against it.
#
# What all releases come to for anybody's values counts, with all of their rows: epsilons of perturbed records, plus
# what was measured of tables, as if one record went and another came. A figure for presence alone would jump with the
# first perturbed record.


ROUNDING = 1e-9
"""Figures are rounded up: a release of exactly what is left fits."""
DRAWN_COUNT = "Made-up rows count for a person's values: one record goes, another comes."
RAISE = "or raise the budget: sfumato ledger budget --epsilon E"


@dataclass(frozen=True)
class Budget(Record):
    """The largest epsilon, and delta where there is one, that all releases may come to for anybody."""

    epsilon: Annotated[float, Positive(math.inf)]
    delta: Annotated[float | None, BRIEF] = None

    def __post_init__(self) -> None:
        if not (math.isfinite(self.epsilon) and self.epsilon > 0):
            raise ValueError("epsilon")
        if self.delta is not None and not 0 <= self.delta < 1:
            raise ValueError("delta")

    @classmethod
    def from_dict(cls, found: Any) -> Self:
        try:
            return super().from_dict(found)
        except ValueError as error:
            raise CardError(
                "The ledger's budget is damaged. Set it again: sfumato ledger budget --epsilon E."
            ) from error

    def words(self) -> str:
        return f"epsilon {self.epsilon:g}" + ("" if self.delta is None else f", delta {self.delta:g}")

    def check(self, earlier: Earlier, entry: Entry) -> None:
        """Refuse a release that would exceed it, given what was released before."""
        now, total = Earlier().person(entry), earlier.person(entry)
        fits = total.epsilon <= self.epsilon * (1 + ROUNDING)
        if fits and (self.delta is None or max(now.delta, total.delta) <= self.delta):
            return
        before = "" if not earlier.count else f" with {counted(earlier.count, 'earlier release')}"
        limit = f"the ledger's budget is {self.words()}. Nothing was released."
        if not now.bounded:
            raise BudgetError(
                f"This release has no bound that is proved, and {limit} Choose a mechanism and a schema that give "
                "one, or remove the budget: sfumato ledger budget --none."
            )
        if not total.bounded:
            raise BudgetError(
                f"People in this release were in an earlier one without a proved bound, so that none holds for all, "
                f"and {limit} Leave them out, or remove the budget: sfumato ledger budget --none."
            )
        if fits:
            raise BudgetError(f"The delta of this release{before} is larger, and {limit} Use a smaller --delta.")
        left = self.epsilon - earlier.person({**entry, "epsilon_record": 0.0, "central": None}).epsilon
        advice = f"Epsilon {left:.3g} is left: release less" if left > 1e-9 else "Nothing is left: wait"
        counts = f" {DRAWN_COUNT}" if total.central is not None else ""
        less = ["leave out who was released before"] if earlier.count else []
        if total.central is not None and earlier.count:
            less.append("set other people apart (--cohort NAME with both, or a ledger of their own)")
        raise BudgetError(
            f"This release{before} would bring a person to epsilon {rounded_up(total.epsilon)}, and {limit}{counts} "
            f"{', '.join([advice, *less, RAISE])}."
        )


@dataclass(frozen=True, kw_only=True)
class Note(Record):
    """A release as it is noted. What is usual is not written down: an entry of an earlier version lacks it too.

    `named`: a column says whose row each is. `cohort`: the owner's name for these people, none of whom is in another
    cohort. `roll` says where their fingerprints are kept, `run` names a run that can be killed and go on, `memory` what
    `--only-new` remembers of it.
    """

    when: str
    mechanism: str
    epsilon: Annotated[float | None, OrInfinite(), Key("epsilon_record")]
    central: Annotated[Central | None, BRIEF] = None
    """An older version reads no epsilon beside it: no bound."""
    rows_per_person: Annotated[int | None, BRIEF] = 1
    named: Annotated[bool, BRIEF] = False
    exact_label: Annotated[bool | None, BRIEF] = None
    cohort: Annotated[str | None, BRIEF] = None
    roll: Annotated[Mapping[str, Any] | None, BRIEF] = None
    run: Annotated[str | None, BRIEF] = None
    memory: Annotated[str | None, BRIEF] = None


FORMAT, VERSION = "sfumato-ledger", 1
"""A later version reads and migrates every earlier one, from 0.1.0 on; what it does not know of an entry it keeps."""
VARIABLE = "SFUMATO_LEDGER"
KEY_BYTES = 32
MARK, MARK_BYTES = "mark", 8
LEARNED, DIRECTIONS = "learned", "directions"
"""Where learned directions stand: hashes of secret ones (up to 0.2.0 of all), and those that cards publish."""
BUDGET, KEEP_DAYS = "budget", "keep_days"
"""The owner's own settings, where there are any."""
EXPIRED, ENDED = "expired", "ended"
"""What becomes of an entry after it was noted: its fingerprints were deleted; its run ended."""
UNREAD = (EXPIRED, ENDED, "columns", "tags")
"""What does not tell one note from another; earlier versions noted what columns are called."""
MODELS = "models"
"""Digests of models that fits have left, and how often rows were drawn from each again."""


def default_ledger() -> Path:
    """`SFUMATO_LEDGER`, else a file in the user's own data folder."""
    named = os.environ.get(VARIABLE)
    if named:
        return Path(named)
    from platformdirs import user_data_path

    return user_data_path("sfumato") / "ledger.json"


def memory_beside(ledger: Path) -> Path:
    """The file that remembers what was read off tables (`memories`)."""
    return ledger.with_name(ledger.name + ".read")


class Ledger:
    """A small JSON file, mode 0600: a random key, per fingerprint the releases made, and hashes of what was learned."""

    def __init__(self, path: Path | str | None = None):
        self.path = Path(path) if path else default_ledger()
        self._data = self._read()

    @classmethod
    def of_nothing(cls) -> Ledger:
        """One that knows of no release, for what is never counted: nothing can be written where it would be."""
        return cls(Path(os.devnull) / "ledger.json")

    def _read(self) -> dict[str, Any]:
        if not self.path.exists():
            key, mark = os.urandom(KEY_BYTES).hex(), os.urandom(MARK_BYTES).hex()
            return {"format": FORMAT, "version": VERSION, "key": key, MARK: mark, "tables": {}}
        lost = (
            f"The ledger of releases {self.path} cannot be read. Take it from a backup, or move it away "
            "(earlier releases are then no longer counted)."
        )
        return read_kept(self.path, "The ledger of releases", (FORMAT, VERSION), _checked, lost)

    @property
    def key(self) -> bytes:
        """The owner's secret, from which all fingerprints are made."""
        return bytes.fromhex(self._data["key"])

    @property
    def mark(self) -> str:
        """By which cards tell this ledger from another: random, and made from nothing."""
        return str(self._data[MARK])

    @property
    def releases(self) -> int:
        return sum(len(releases) for releases in self._data["tables"].values())

    def keep(self) -> None:
        """Write a ledger that does not exist yet, so that its key stays what it is."""
        with exclusive(self.path):
            if self.path.exists():
                self._data = self._read()
            else:
                self._write()

    @property
    def people_hash(self) -> PersonHash:
        """By which rows and people are known again."""
        return PersonHash(self.key)

    @property
    def people_folder(self) -> Path:
        """Where the rolls of releases are kept, beside the ledger."""
        return self.path.with_name(self.path.name + ".people")

    @property
    def budget(self) -> Budget | None:
        """What all releases may come to for anybody, if the owner set a limit."""
        found = self._data.get(BUDGET)
        return None if found is None else Budget.from_dict(found)

    @property
    def keep_days(self) -> int | None:
        """For how long fingerprints of people are kept; None for good."""
        found = self._data.get(KEEP_DAYS)
        return None if found is None else int(found)

    def set_budget(self, budget: Budget | None) -> None:
        self._set(BUDGET, None if budget is None else budget.to_dict())

    def set_keep_days(self, days: int | None) -> None:
        """Fingerprints of earlier releases are deleted at once; that they were made stays noted."""
        self._set(KEEP_DAYS, days)

    def _set(self, name: str, value: Any) -> None:
        with self._changed():
            self._data.pop(name, None)
            if value is not None:
                self._data[name] = value
            self._expire()

    def entries(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Every release that was noted, with the fingerprint of its table."""
        for fingerprint, releases in self._data["tables"].items():
            for entry in releases:
                yield fingerprint, entry

    def roll_of(self, entry: Mapping[str, Any]) -> KeptRoll | None:
        """The people of a release; None where they were not kept."""
        about = entry.get("roll")
        if about is None or entry.get(EXPIRED):
            return None
        return KeptRoll(self.people_folder, about["name"], tuple(about["tags"]), self.people_hash)

    def _expire(self) -> None:
        """Mark what is older than the owner wants it kept."""
        if self.keep_days is None:
            return
        last = (datetime.datetime.now(datetime.UTC).date() - datetime.timedelta(days=self.keep_days)).isoformat()
        for _, entry in self.entries():
            if entry.get("roll") and entry["when"] < last:
                entry[EXPIRED] = True

    @contextlib.contextmanager
    def _changed(self) -> Iterator[None]:
        """What others have written, to change; written durably, by one process at a time.

        A change that fails leaves everything as it was. Fingerprints are deleted last, when no entry names them.
        """
        with exclusive(self.path):
            self._data = self._read() if self.path.exists() else self._data
            yield
            self._write()
            rolls = [entry["roll"]["name"] for _, entry in self.entries() if self.roll_of(entry) is not None]
            for file in self.people_folder.glob("*"):
                if file.stem not in rolls:
                    file.unlink(missing_ok=True)

    def _write(self) -> None:
        write_whole(self.path, json.dumps(self._data, indent=1), private=True)

    def discard(self) -> None:
        """Remove a ledger that counted for one run only, with all that it knows of people."""
        shutil.rmtree(self.people_folder, ignore_errors=True)
        for file in (self.path, memory_beside(self.path), signer_beside(self.path)):
            file.unlink(missing_ok=True)
            lock_of(file).unlink(missing_ok=True)

    def fingerprint(self, width: int) -> Fingerprint:
        return Fingerprint(self.key, width)

    def remember_learned(
        self, rows: Floats, people: int, variances: Floats | None = None, *, secret: bool = False
    ) -> None:
        """Directions (rows) that a release learned from the rows of so many people, kept for good: themselves, as they
        stand on its card, or hashes of `secret` ones."""
        found = Learned.of(rows, people, variances)
        if not len(found.directions):
            return
        kept, new = (LEARNED, direction_hashes(self.key, rows)) if secret else (DIRECTIONS, [found.to_dict()])
        with self._changed():
            known = self._data.setdefault(kept, [])
            known += [item for item in new if item not in known]

    def has_learned(self, rows: Floats) -> bool:
        """Whether one of these directions was learned for an earlier release under this ledger."""
        near = any(Learned.from_dict(item).has(rows) for item in self._data.get(DIRECTIONS, ()))
        return near or is_remembered(self.key, rows, self._data.get(LEARNED, ()))

    def columns(self, names: Iterable[str]) -> str:
        """A keyed hash of the names of a table's columns, in any order."""
        message = json.dumps(sorted(names), ensure_ascii=False).encode()
        return hmac.new(self.key, b"columns/" + message, hashlib.sha256).hexdigest()

    def new_roll(self, columns: Sequence[str], *, people: bool) -> Roll:
        """Takes in the rows of a release, to be compared and noted."""
        beside = self.path.parent if self.path.exists() else None
        return Roll(self.people_hash, columns, people=people, beside=beside)

    def earlier(
        self, fingerprint: str, *, made_up: bool = False, cohort: str | None = None, roll: Roll | None = None
    ) -> Earlier:
        """What was released of these people before, and all that was drawn from models of tables.

        People are known by the `roll`, or where an entry has none by the fingerprint of the whole table. Of `made_up`
        rows nothing may be compared: that some came again is an exact fact about the table. So they add up with every
        release of this ledger, however its columns are called, unless the owner said that these people (`cohort`) are
        others.
        """
        alike = [entry for _, entry in self.entries() if not _set_apart(entry, cohort)]
        if made_up:
            return Earlier(tuple(alike), apart=self.releases - len(alike))
        drawn = list(filter(is_drawn, alike))
        apart = sum(is_drawn(entry) for _, entry in self.entries()) - len(drawn)
        counted: list[dict[str, Any]] = []
        tally = None if roll is None else Tally(len(roll), roll.people())
        for found, entry in self.entries():
            if is_drawn(entry):
                continue
            if roll is None or tally is None:
                counted += [entry] if found == fingerprint else []
                continue
            seen: Flags | None = np.ones(len(roll), dtype=np.bool_)
            if found != fingerprint:
                kept = self.roll_of(entry)
                seen = None if kept is None else roll.known_to(kept)
            if seen is not None and tally.add(len(counted), seen):
                counted.append(entry)
        return Earlier((*counted, *drawn), tally, apart)

    def record(self, fingerprint: str, *, people: Roll | None = None, **note: Any) -> Earlier:
        """Note one more release, durably and before it becomes visible; returns what was released before it.

        `note` is what `Note` takes. Reading and noting are one step, so that of two runs at the same moment the
        second counts the first. A `run` that was killed and goes on takes its first note back: it counts once, and one
        that ended is refused. `roll` says where the fingerprints of its `people` are kept. A release beyond the budget
        is refused.
        """
        entry = Note(**note).to_dict()
        with self._changed():
            self._expire()
            if "run" in entry:
                self._notes_of_unended(entry["run"])
                self._take_back(fingerprint, lambda one: one.get("run") == entry["run"])
            cohort = entry.get("cohort")
            earlier = self.earlier(fingerprint, made_up=is_drawn(entry), cohort=cohort, roll=people)
            self.check_budget(earlier, entry)
            if people is not None and "roll" in entry:
                people.save(self.people_folder, entry["roll"]["name"])
            self._data["tables"].setdefault(fingerprint, []).append(entry)
        return earlier

    def end_run(self, run: str) -> None:
        """What this run drew is about to be seen: it is spent, and no run goes on with it, whatever was restored."""
        with self._changed():
            for entry in self._notes_of_unended(run):
                entry[ENDED] = True

    def _notes_of_unended(self, run: str) -> list[dict[str, Any]]:
        notes = [entry for _, entry in self.entries() if entry.get("run") == run]
        if any(entry.get(ENDED) for entry in notes):
            raise UsageError(
                "The run that --resume would go on with has ended: its release was written, and counted once. Start "
                "again with --force instead of --resume, which counts as another release."
            )
        return notes

    def check_budget(self, earlier: Earlier, entry: Mapping[str, Any]) -> None:
        if self.budget is not None:
            self.budget.check(earlier, entry)

    def keep_model(self, digest: str) -> None:
        """A fit that was paid for, and proves what it says, has left this model: drawing from it again is free."""
        with self._changed():
            self._data.setdefault(MODELS, {}).setdefault(digest, 0)

    def has_charged(self, digest: str | None) -> bool:
        """Whether a fit that this ledger paid for, and that proves what it says, has left this model."""
        return digest in self._data.get(MODELS, {})

    def redrawn(self, digest: str | None) -> None:
        """Note that rows were drawn again from a model, where this ledger knows it."""
        if digest is not None and self.has_charged(digest):
            with self._changed():
                models = self._data.setdefault(MODELS, {})
                models[digest] = models.get(digest, 0) + 1

    def strike(self, fingerprint: str, **note: Any) -> None:
        """Take the note of a release back: it failed and never became visible."""
        entry = Note(**_compared(note)).to_dict()
        with self._changed():  # of several that read alike one is as good as another
            self._take_back(fingerprint, lambda one: _compared(one) == entry, most=1)

    def _take_back(self, fingerprint: str, which: Callable[[dict[str, Any]], bool], most: int | None = None) -> None:
        releases = self._data["tables"].get(fingerprint, [])
        for entry in [one for one in releases if which(one)][:most]:
            releases.remove(entry)
        if not releases:
            self._data["tables"].pop(fingerprint, None)


def _checked(data: dict[str, Any]) -> dict[str, Any]:
    """Refuse what no version has written: everything that is read of it later is looked at once."""
    data.setdefault(MARK, os.urandom(MARK_BYTES).hex())  # up to 0.2.0 there was none
    for name, length in (("key", KEY_BYTES), (MARK, MARK_BYTES)):
        if len(bytes.fromhex(data[name])) != length:
            raise ValueError(f"the {name} was cut short")
    for releases in data["tables"].values():
        for entry in releases:
            is_drawn(entry) or record_epsilon(entry)
    hashes, counts = data.get(LEARNED, ()), data.get(MODELS, {}).values()
    if not (all(isinstance(item, str) for item in hashes) and all(isinstance(times, int) for times in counts)):
        raise ValueError("what was learned is not a list of hashes, or models are not counts")
    for item in data.get(DIRECTIONS, ()):
        Learned.from_dict(item)
    return data


def _compared(note: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in note.items() if name not in UNREAD}


def _set_apart(entry: Mapping[str, Any], cohort: str | None) -> bool:
    """Whether the owner said that these are other people; a release that names no cohort may be of anybody."""
    theirs = entry.get("cohort")
    if cohort is None or theirs is None:
        return False
    one, other = ("".join(name.split()).casefold() for name in (cohort, theirs))  # in doubt two names are one
    return one != other
