"""What an audit is asked for, and what it gives back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sfumato.attacks.window import TOLERANCE
from sfumato.auditing.attacking import settings_of
from sfumato.auditing.extra import check_limit
from sfumato.core.errors import UsageError
from sfumato.release.release import Release
from sfumato.table import Schema
from sfumato.table.filling import MISSING_INSTEAD, UNKNOWN_WAYS

MAX_ROWS = 20_000
REPEATS = 10


@dataclass(frozen=True)
class AuditRequest:
    """A release to audit, and what its owner can check it against.

    Either `folder` (what `sanitize` wrote: release and card; the owner's also holds trace and key) or `release`: a
    `Release` that is open, or the table of a release of any other tool. Tables are paths or data frames.

    original: the table that the release was made from. holdout: people of the same population who are not in it.
    guess: a file with somebody else's guesses: source columns, one row per row of the release.
    label, schema: of a release without a card; a card knows both. key: a key file that is not in the folder.
    out: where to write; the folder of the release by default, nowhere if there is none.
    public: write what others may see, which is what follows from the released files alone; with_audit: and what was
    measured on private rows, rounded. seed: of the audit's own sampling; the same seed gives the same audit.
    max_rows: how many people of a large table are audited. repeats: splits for utility; 0 leaves utility out,
    and None means 10, or 0 where attacks are named.
    attacks: names of attacks to run; all by default. parameters: of attacks, for example
    {"posterior-breach.rho1": 0.05}. tolerance: how near a guessed number counts as right, as a share of the column's
    range. unknown: whether categories of the holdout that the original does not have are taken as "missing" (and
    counted), or "refuse"d. match: a column of both tables that says whose row is whose, and is no part of the record;
    mapping: a file of row numbers that does. columns: names in the release of columns of the original, {old: new}.
    hierarchies: of columns whose cells were generalised, as files in ARX's form. published: attacks and classifiers as
    their papers have them. clusters: look for so many and tell what is left of the original's; 0 leaves them out.
    beside: another release of the same people, to be attacked together with this one; beside_original: its table, if
    that is another one.
    quasi_identifiers: columns that others may know of a person, for k-anonymity and the like; those that the schema
    marks by default. sensitive: the columns whose diversity is told; the label, or all others. population: how many
    people the original is a sample of, for estimates of who is unique among them. max_extra: the owner's limit, how
    many more of 100 any attacker may get right by the release.
    """

    original: Any
    folder: Path | str | None = None
    release: Any = None
    holdout: Any = None
    guess: Path | str | None = None
    label: str | None = None
    schema: Path | Schema | None = None
    key: Path | None = None
    out: Path | str | None = None
    public: bool = False
    with_audit: bool = False
    seed: int = 0
    max_rows: int = MAX_ROWS
    repeats: int | None = None
    attacks: tuple[str, ...] | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    tolerance: float = TOLERANCE
    unknown: str = MISSING_INSTEAD
    match: str | None = None
    mapping: Path | str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    hierarchies: Mapping[str, Path | str] = field(default_factory=dict)
    published: bool = False
    clusters: int = 0
    beside: Any = None
    beside_original: Any = None
    quasi_identifiers: tuple[str, ...] = ()
    sensitive: tuple[str, ...] = ()
    population: int | None = None
    max_extra: float | None = None

    def check(self) -> None:
        """Refuse what cannot be meant."""
        if (self.folder is None) == (self.release is None):
            raise UsageError(
                "Give either the folder of a release with its card, or the table of a release without one."
            )
        carded = self.folder is not None or isinstance(self.release, Release)
        if carded and self.schema is not None:
            raise UsageError("The release has a card, which contains its schema. Leave --schema out.")
        if self.folder is None and self.key is not None:
            raise UsageError("A key belongs to a release with a card. Leave --key out.")
        if carded and (self.match or self.mapping or self.columns or self.hierarchies):
            raise UsageError(
                "A release with a card has its private match file and its names. Leave --match, --mapping and "
                "--columns out."
            )
        if self.with_audit and not self.public:
            raise UsageError("--with-audit puts what was measured into an audit for others. Add --public.")
        if self.match and self.mapping:
            raise UsageError("Say whose row is whose by --match or by --mapping, not by both.")
        if self.unknown not in UNKNOWN_WAYS:
            raise UsageError(f"--unknown must be {' or '.join(UNKNOWN_WAYS)}. Got {self.unknown!r} instead.")
        if self.beside is not None and not carded:
            raise UsageError("Only a release with a card can be attacked together with another. Leave --with out.")
        if self.beside is None and self.beside_original is not None:
            raise UsageError("--with-original is the table of the release given by --with. Give both, or neither.")
        settings_of(self.parameters, published=self.published)
        check_limit(self.max_extra)
        if self.max_rows < 2:
            raise UsageError(f"--max-rows must be at least 2. Got {self.max_rows} instead.")
        if self.repeats is not None and self.repeats < 0:
            raise UsageError(f"--repeats must not be negative. Got {self.repeats} instead.")
        if self.clusters < 0 or self.clusters == 1:
            raise UsageError(f"--clusters must be at least 2, or 0 for none. Got {self.clusters} instead.")
        if (self.sensitive or self.population is not None) and not self._may_be_marked():
            raise UsageError("--sensitive and --population need --quasi-identifiers, or a schema that marks them.")
        if twice := set(self.sensitive) & set(self.quasi_identifiers):
            raise UsageError(f"A column cannot be both quasi-identifier and sensitive: {', '.join(sorted(twice))}.")
        if self.population is not None and self.population < 2:
            raise UsageError(f"--population must be the number of people, at least 2. Got {self.population} instead.")
        if self.seed < 0:
            raise UsageError(f"--seed must not be negative. Got {self.seed} instead.")
        if not 0 < self.tolerance < 1:
            raise UsageError(f"--tolerance must be a share of the range between 0 and 1. Got {self.tolerance} instead.")

    def _may_be_marked(self) -> bool:
        return bool(self.quasi_identifiers) or self.schema is not None or self.folder is not None or self.carded

    @property
    def carded(self) -> bool:
        """Whether the release is open and has a card."""
        return isinstance(self.release, Release)

    @property
    def measured(self) -> bool:
        """Whether anything is measured on private rows."""
        return self.with_audit or not self.public

    @property
    def splits(self) -> int:
        """Of people, on which classifiers are trained; whoever names attacks wants these."""
        if not self.measured:
            return 0
        return (0 if self.attacks else REPEATS) if self.repeats is None else self.repeats

    @property
    def target(self) -> Path | None:
        """The folder to write into."""
        place = self.out if self.out is not None else self.folder
        return None if place is None else Path(place)


@dataclass(frozen=True, repr=False)
class Audit:
    """The audit as it stands in `audit.json`, and the files that were written."""

    data: dict[str, Any]
    files: tuple[Path, ...] = ()

    def __repr__(self) -> str:
        """Without its content, which shows original records."""
        return f"<Audit of {len(self.data['attacks'])} attacks>"

    def attack(self, name: str) -> dict[str, Any]:
        """The entry of one attack."""
        for entry in self.data["attacks"]:
            if entry["name"] == name:
                return dict(entry)
        raise UsageError(f"The audit has no attacker {name!r}.")

    @property
    def scores(self) -> dict[str, float]:
        """Score of every attack that applies; higher is worse for privacy."""
        return {entry["name"]: entry["score"] for entry in self.data["attacks"] if entry["score"] is not None}
