"""The table that the desk works on: its columns, how much may be given away, what was chosen, what was released."""

from __future__ import annotations

import contextlib
import csv
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from sfumato.advising.advice import Advice, Bound, Known, advise
from sfumato.advising.wish import Wish
from sfumato.api.desk.heard import COMMA, ISO, NUMBERS, bound_of, changed, iso, reason_of, sentence_of
from sfumato.api.desk.job import Site
from sfumato.core.errors import SfumatoError, UsageError
from sfumato.core.files import write_whole
from sfumato.core.wording import Said
from sfumato.guarantee.cost import PRIOR, Values, chance_at_most
from sfumato.guarantee.rounding import of_100, rounded_up
from sfumato.ledger.ledger import default_ledger
from sfumato.mechanisms import MECHANISMS
from sfumato.mechanisms.base import Mechanism
from sfumato.release.asked import NOBODY, OWNER, RELEASE_FORMATS, TRUSTS
from sfumato.release.declare import CopiedError, Declaring, Typed
from sfumato.release.noted import Ahead, bound_ahead
from sfumato.release.sanitize_checks import read_off
from sfumato.release.strength import TABLE, Config
from sfumato.release.unfinished import unfinished_of
from sfumato.table import Column, Schema
from sfumato.table.csv_table import PLAIN, Dialect

SCHEMA, CONFIG = "schema.json", "config.yaml"
FIELDS = ("use", "low", "high", "words", "known", "why", "sure")
"""What the form says of each column."""
SAME = ("low", "high", "words", "known", "why")  # what a column can have from the one above
KEEP, LEAVE = "keep", "leave"
CHANCES = tuple(tenth / 10 for tenth in range(11, 96))
"""Of 10, what a fact with 1 chance in 10 may be lifted to."""
TRIED = (1.2, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0, 9.0)  # of them, those whose use is shown
USUAL = 2.0
MOST_PINNED = 26  # marks are letters
SOURCE_MISSING = "source"
"""A range was typed, and not where it is known from: the page has words of its own for it."""
UNDECIDED = "undecided"  # nobody said yet whether a column is left out, likewise
COPIED = "copied"
"""A mistake that the page has its own words for, with the ends that it is about, and a box beside them."""
LARGE = 1_000_000
"""Rows from which a release goes through the file in blocks, and can be gone on with after a crash."""
LOOK, PUSH = "look", "push"
STEPS = ("columns", "strength", "try", "release", LOOK)
NOTE = "work.json"
KEPT = (
    "name", "rows", "label", "person", "rows_per_person", "chances", "trust", "cohort", "stamp", "dotted",
    "decided", "looked", "chosen", "pinned", "format", "folder", "released", "pushed",
)  # fmt: skip
CHOSEN = "by its owner, who looked at what settings do to this table"


@dataclass
class Work:
    """Everything about one table. `private` is a folder of ours; `table` lies in it, or where the owner named it."""

    table: Path
    name: str
    private: Path
    rows: int = 0
    label: str | None = None
    person: str | None = None
    rows_per_person: int = 1
    notes: tuple[str, ...] = ()
    chances: float = USUAL
    trust: str = OWNER
    cohort: str = ""
    """The owner's name for these people, by which their releases are set apart from those of others."""
    stamp: str = ""
    """When the table was written last, as it was read."""
    dotted: bool = False
    """Whether it writes dates as 31.12.2001."""
    looked: bool = False
    """Whether private rows were looked at before a setting was chosen: trials, or a release that was seen already."""
    written: Dialect = PLAIN
    """How the table writes its numbers, letters and empty cells, where it does not say so itself."""
    foreign: Path | None = None
    """The release of another tool, where it is that which is looked at."""
    foreign_name: str = ""
    foreign_written: Dialect = PLAIN
    match: str | None = None
    """The column that says whose row of another tool's release is whose."""
    site: Site | None = None
    pushed: Mapping[str, Any] | None = None
    """What the coordinator of the site's study has received."""
    outside: tuple[Path, str] | None = None
    """A file of people who are not in the table, and its owner's name for it."""
    chosen: tuple[str, Mapping[str, Any]] | None = None
    """A method with its parameters, where one that was tried is taken instead of the rule's."""
    pinned: tuple[str, ...] = ()
    """Points of the picture that are marked, to be found again among those that come."""
    format: str = ""
    folder: str = ""
    """Where the last release was to be written: there lies what is left of it, if it did not come to its end."""
    out: Path | None = None
    released: Mapping[str, Any] | None = None
    audit: Mapping[str, Any] | None = None
    sides: Mapping[str, Any] | None = None
    typed: dict[tuple[str, str], str] = field(default_factory=dict)
    """What was typed, by column and field: shown again where it was refused."""
    decided: tuple[str, ...] = ()
    """Columns of which the owner said whether they are kept: reading alone leaves none out."""
    mistakes: dict[str, str] = field(default_factory=dict)
    taken_back: bool = False
    """Whether a declaration was taken back just now: the column is to be read again."""

    @property
    def screens(self) -> tuple[str, ...]:
        """The steps that lead through it; a release of another tool is only looked at."""
        if self.foreign is not None:
            return (LOOK,)
        return STEPS if self.site is None else (*STEPS, PUSH)

    @property
    def schema_file(self) -> Path:
        return self.private / SCHEMA

    @property
    def schema(self) -> Schema:
        return Schema.load(self.schema_file)

    def keep(self) -> None:
        """Note the state beside the schema, so that a desk that is killed can be gone on with."""
        told = {name: getattr(self, name) for name in KEPT} | {"written": asdict(self.written)}
        paths = {"table": str(self.table), "out": None if self.out is None else str(self.out)}
        write_whole(self.private / NOTE, json.dumps({**told, **paths}), private=True)

    @classmethod
    def kept(cls, private: Path) -> Work | None:
        """The work whose note lies in a folder, be its table still there or not."""
        try:
            told = json.loads((private / NOTE).read_text(encoding="utf-8"))
            table, out = Path(told.pop("table")), told.pop("out")
            written = Dialect(**{**(found := told.pop("written")), "missing": tuple(found["missing"])})
            told |= {name: tuple(told[name]) for name in ("pinned", "decided")}
            return cls(table=table, private=private, written=written, out=None if out is None else Path(out), **told)
        except (OSError, ValueError, TypeError, KeyError):
            return None

    @property
    def stamp_now(self) -> str:
        with contextlib.suppress(OSError):
            found = self.table.stat()
            return f"{found.st_mtime_ns} {found.st_size}"
        return ""

    @property
    def is_dropped(self) -> bool:
        """Whether the table lies where the desk put it."""
        return self.private.parent in self.table.parents

    @property
    def is_read(self) -> bool:
        return self.schema_file.exists()

    @property
    def undecided(self) -> tuple[str, ...]:
        """Columns of words that no list could hold, of which the owner has not said whether they are left out."""
        left = [one.name for one in self.schema.columns if one.role == "identifier"]
        return () if self.site is not None else tuple(name for name in left if name not in self.decided)

    @property
    def read_off(self) -> tuple[str, ...]:
        """Columns whose ranges were read off the table; while there is one, nothing is proved."""
        return tuple(read_off(self.schema))

    def as_asked(self, path: Path | str | None = None) -> dict[str, Any]:
        """The table, or another file that is written like it, as a job is asked for it."""
        return {"path": str(path or self.table), **asdict(self.written)}

    # 1: columns

    def take_columns(self, sent: Mapping[str, str]) -> None:
        """What the owner says of the columns; what is refused stays as it was, with a sentence beside it."""
        self.mistakes, self.taken_back = {}, False
        if not self.is_read:
            raise UsageError("The table is not read yet.")
        if self.site is not None:
            return
        declaring, above = Declaring(self.schema_file), dict[str, str]()
        for place, column in enumerate(declaring.schema.columns):
            given = {name: sent.get(f"{name}-{place}", "").strip() for name in FIELDS}
            if f"same-{place}" in sent and column.kind == above.get("kind"):
                given |= {name: above[name] for name in SAME}
            above = {**given, "kind": column.kind}
            if column.kind in NUMBERS:
                ends = {end: given[end] for end in ("low", "high")}
                given |= {
                    end: iso(one) if column.kind == "date" else one.replace(",", ".") for end, one in ends.items()
                }
            try:
                self._take_column(declaring, column, given)
            except CopiedError as error:
                self.mistakes[column.name] = "_".join([COPIED, *error.ends])
            except SfumatoError as error:
                self.mistakes[column.name] = sentence_of(error)
        declaring.schema.save(self.schema_file)
        self.schema_file.chmod(0o600)

    def _take_column(self, declaring: Declaring, column: Column, given: Mapping[str, str]) -> None:
        if column.role == "person":  # never released: it has no range to declare
            return
        self._take_use(declaring, column, given["use"])
        if given["use"] == LEAVE:
            return
        self.typed |= {(column.name, name): value for name, value in given.items()}
        if given["use"] == KEEP and column.kind not in NUMBERS and not (column.categories or given["words"]):
            raise UsageError("Type the words that it may hold, as your source lists them, or leave it out.")
        if not given["known"]:
            if column.source == "public":  # it is taken back
                declaring.schema = declaring.schema.with_column(column.name, source="learned", reason=None)
                self.taken_back = True
            elif changed(column, given):
                raise UsageError(SOURCE_MISSING)
            return
        reason = reason_of(column, given)
        if column.source == "public" and not changed(column, given) and column.reason == reason:
            return
        self._declare(declaring, column, given, reason)

    def _take_use(self, declaring: Declaring, column: Column, use: str) -> None:
        """Whether the column is released or left out, as far as the form says."""
        if use:
            self.decided = tuple(dict.fromkeys((*self.decided, column.name)))
        elif column.role == "identifier":
            raise UsageError(UNDECIDED)
        role = "identifier" if use == LEAVE else "private"
        if use and column.role in ("private", "identifier") and role != column.role:
            declaring.schema = declaring.schema.with_column(column.name, role=role)

    def _declare(self, declaring: Declaring, column: Column, given: Mapping[str, str], reason: str) -> None:
        """Make the range public, as the form says it."""
        if column.kind not in NUMBERS:
            words = tuple(next(csv.reader([given["words"]], skipinitialspace=True), []))
            declaring.declare(column.name, reason, Typed(categories=words))
            return
        if not (given["low"] and given["high"]):
            raise UsageError("Type the least and the largest value that your source allows.")
        if column.kind == "date" and not all(ISO.fullmatch(given[end]) for end in ("low", "high")):
            raise UsageError("Type dates as 31.12.2001, or as 2001-12-31.")
        if given["sure"]:
            # The source says just these numbers: the owner's own hand, which the card and `sfumato show` tell of.
            ends = {end: bound_of(column, given[end]) for end in ("low", "high")}
            declaring.schema = declaring.schema.with_column(column.name, **ends, source="public", reason=reason)
        else:
            declaring.declare(column.name, reason, Typed(given["low"], given["high"]))

    # 2: how much

    def take_strength(self, sent: Mapping[str, str]) -> None:
        """How sure somebody may become, and who may hold the rows."""
        trust, typed, chances = sent.get("trust", self.trust), sent.get("chances", "").replace(",", "."), 0.0
        if trust not in TRUSTS:
            raise UsageError("Choose who may hold the rows.")
        with contextlib.suppress(ValueError):
            chances = float(typed)
        if not CHANCES[0] <= chances <= CHANCES[-1]:
            told = "Type a number of chances in 10, from {least:g} to {most:g}."
            raise UsageError(told, least=CHANCES[0], most=CHANCES[-1])
        most = sent.get("rows_per_person", "1").strip()
        if not most.isdecimal() or int(most) < 1:
            raise UsageError("The most rows that one person has is a whole number, at least 1.")
        self.chances, self.trust, self.chosen, self.rows_per_person = chances, trust, None, int(most)
        self.cohort = sent.get("cohort", self.cohort).strip()

    @property
    def held_by(self) -> str:
        """Who may hold the rows: of ranges that were read off the table nothing is made up, rows are blurred."""
        return NOBODY if self.read_off else self.trust

    def advice(self, chances: float | None = None, trust: str | None = None) -> Advice:
        """What the rule and public tables say of a choice, the present one if none is given; no row is read."""
        return advise(self._wish(chances or self.chances, trust), self._known)

    def _wish(self, chances: float, trust: str | None = None) -> Wish:
        return Wish(max_posterior=chances / 10, trust=trust or self.held_by)

    def ahead(self, trust: str) -> Ahead:
        """What the release comes to with those in the ledger; no row is read."""
        return _ahead(self.chances / 10, trust, self._cap, self.cohort or None, *_ledger_state())

    @property
    def _cap(self) -> int | None:
        return self.rows_per_person if self.rows_per_person > 1 else None

    @property
    def _known(self) -> Known:
        schema = self.schema
        label = None if schema.label is None else schema.label.name
        return Known(label, None, self.rows, tuple(read_off(schema)), self.rows_per_person)

    def experience(self) -> dict[str, Advice]:
        """The same for several chances in 10, the present ones among them, where there is a column to predict."""
        known, chances = self._known, sorted({*TRIED, self.chances})
        return {} if known.label is None else {f"{one:g}": advise(self._wish(one), known) for one in chances}

    # 3: try

    @property
    def trials(self) -> Path:
        """Where trials on the table are kept, as its columns are declared now: they go on from there."""
        return self.private / f"compare-{hashlib.sha256(self.schema_file.read_bytes()).hexdigest()[:16]}"

    @property
    def tried(self) -> Sequence[Mapping[str, Any]]:
        """The settings of which at least one trial is finished; they come while others are still tried."""
        return _tried(self.trials, tuple(sorted(file.name for file in (self.trials / "cells").glob("*.json"))))

    @property
    def letters(self) -> dict[str, str]:
        """The mark of each setting that is pinned, by its name."""
        return {name: chr(ord("A") + place) for place, name in enumerate(self.pinned)}

    # 5: look

    def as_written(self, typed: Mapping[str, str]) -> dict[str, str]:
        """A person's values, typed as the table has them, as attackers take them."""
        numbers = {one.name for one in self.schema.columns if one.kind in ("numeric", "integer")}

        def has_comma(name: str, value: str) -> bool:
            return name in numbers and (self.written.decimal == "," or COMMA.fullmatch(value) is not None)

        return {name: value.replace(",", ".") if has_comma(name, value) else value for name, value in typed.items()}

    # 4: release

    @property
    def method(self) -> type[Mechanism]:
        """What the rows are released by: the study's method, one that was tried, or the rule's."""
        settled = self.chosen[0] if self.chosen else None
        return MECHANISMS[self.site.terms.mechanism if self.site else settled or self.advice().mechanism]

    @property
    def formats(self) -> tuple[str, ...]:
        """What rows can be written as here: a study takes one, and Excel needs a package and rows with a cell in each,
        since it has no empty rows."""
        if self.site is not None:
            return RELEASE_FORMATS[:1]
        released = [one for one in self.schema.columns if one.role in ("private", "label")]
        leaves_out = self.method.leaves_cells_out
        always = any(one.role == "label" or not (leaves_out or one.missing) for one in released)
        plain = ("csv",) if always or len(released) > 1 else ()
        return (*plain, *(("xlsx",) if always and find_spec("openpyxl") else ()), "parquet")

    @property
    def unfinished(self) -> bool:
        """Whether a release of blocks was begun that a crash ended: it goes on in its folder."""
        return bool(self.folder) and unfinished_of(Path(self.folder)).is_dir()

    def format_of(self, said: str | None) -> str:
        """What the owner says; else the table's own, which she can open. Where decimals have a comma, a spreadsheet
        would take a release in CSV for one column of words."""
        own = "xlsx" if self.written.decimal == "," else Path(self.name).suffix.lower().removeprefix(".")
        found = said or self.format or own
        return found if found in self.formats else self.formats[0]

    def keywords(self, out: Path, *, measured_only: bool = False) -> dict[str, Any]:
        """What `sf.sanitize` is asked, so that the page can show the same as a command."""
        asked: dict[str, Any] = {"schema": str(self.schema_file)}
        if self.site is not None:
            asked = {"study": str(self.site.file)}
        if self.chosen is not None or self.looked:
            self.config().save(self.private / CONFIG)
            asked["config"] = str(self.private / CONFIG)
        elif self.site is None:
            asked |= {"max_posterior": self.chances / 10, "trust": self.held_by}
            asked |= {"measured_only": True} if measured_only else {}
        if self._cap is not None:
            asked["max_rows_per_person"] = self._cap
        if self.cohort and self.site is None:
            asked["cohort"] = self.cohort
        if (written := self.format_of(None)) != RELEASE_FORMATS[0]:
            asked["format"] = written
        if self.rows >= LARGE:
            asked |= {"engine": "stream"} | ({"resume": True} if unfinished_of(out).is_dir() else {})
        return {**asked, "out": str(out)}

    def config(self) -> Config:
        """The setting as a file, which says that rows were looked at."""
        if self.site is not None:
            return Config(self.site.terms.mechanism, {}, CHOSEN, TABLE)
        advice = self.advice()
        mechanism, parameters = self.chosen or (advice.mechanism, advice.parameters)
        return Config(mechanism, dict(parameters), CHOSEN, TABLE if self.looked else "nothing")


def name_of(setting: Mapping[str, Any]) -> str:
    """A setting that was tried, in a few words that no other has."""
    return f"{setting['mechanism']}, {setting['setting']}"


@lru_cache(maxsize=2)
def _tried(folder: Path, names: tuple[str, ...]) -> Sequence[Mapping[str, Any]]:
    """Settings as a comparison says them, from those of its trials that are finished."""
    from sfumato.advising.compare import settings

    cells = []
    for name in names:
        with contextlib.suppress(OSError, ValueError):  # damaged: it is tried again
            cells.append(json.loads((folder / "cells" / name).read_text(encoding="utf-8")))
    return settings(sorted(cells, key=lambda cell: (cell["mechanism"], cell["openness"], cell["split"])))


@lru_cache(maxsize=1_000)
def _ahead(posterior: float, trust: str, cap: int | None, cohort: str | None, *_ledger: float) -> Ahead:
    """As long as the ledger stays as it is."""
    return bound_ahead(posterior, trust=trust, max_rows_per_person=cap, cohort=cohort)


def _ledger_state() -> tuple[float, ...]:
    file = default_ledger()
    return (file.stat().st_mtime_ns, file.stat().st_size) if file.exists() else ()


@lru_cache(maxsize=8)
def strengths(trust: str, rows_per_person: int) -> tuple[Mapping[str, Any], ...]:
    """For the page's slider: every choice with what it comes to, so that moving it asks nobody."""
    known = Known(rows_per_person=rows_per_person)
    bounds = {one: advise(Wish(max_posterior=one / 10, trust=trust), known).bound for one in CHANCES}
    return tuple({"chances": one, **said_of(bound)} for one, bound in bounds.items())


def said_of(bound: Bound) -> dict[str, Any]:
    """A bound, rounded so that what is read still holds. `except`: it may fail once in so many, of made-up rows."""
    told = bound.to_dict()
    points, pairs = of_100(told["max_risk"]), of_100(told["pairs_told_apart"])
    but_one_in = f"{1 / bound.delta:,.0f}" if bound.delta else ""
    return {"epsilon": rounded_up(bound.epsilon), "points": points, "pairs": pairs, "except": but_one_in}


def lifted_to(values: Values) -> float | None:
    """Of 10 chances, how many a fact with one may come to, rounded up; None where there is no bound."""
    told = chance_at_most(PRIOR, values.loss) if values.bounded else None
    return float(told.values["chances"]) if isinstance(told, Said) else None
