"""What an adversary is: something that declares what it knows, gets exactly that, and returns a typed guess.

Scoring is not an attack's business (see `attacks.metrics.score`): the same guess is scored against the truth, against
a baseline that never saw the release and against people who were not in the table.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import chain, islice
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np

from sfumato.attacks.support import TOLERANCE
from sfumato.channels import Channel, Guided, Line, NotApplicableError, Staged, apart
from sfumato.channels.maps import places
from sfumato.core.array_types import Codes, Flags, Matrix
from sfumato.core.errors import SfumatoError
from sfumato.mechanisms.parameters import CheckedParameters
from sfumato.table import Encoding
from sfumato.table.neighbours.tiles import slices


class Guess:
    """Base of everything that an attack can return."""


@dataclass(frozen=True)
class Values(Guess):
    """Private values: row i of `X` (n x d, encoded source columns) is the person behind release row i.

    `candidates` yields further guesses about some `rows` of the release, between which the adversary cannot choose by
    itself: one after the other whenever they are asked for, since together they would be many tables; a few may be
    given as they are. The score takes the best of all of them, for which one needs the truth: an upper bound on what
    the adversary gets. `aimed` is the guess that is best for the score ("within the tolerance") where it is another
    than `X`, which is then best in mean square and stands behind all figures about errors. `details` are figures about
    how the guess came about, for the report.
    """

    X: Matrix
    candidates: Callable[[Codes | slice], Iterator[Matrix]] | Sequence[Matrix] | None = None
    details: Mapping[str, float] = field(default_factory=dict)
    aimed: Matrix | None = None
    rows: Codes | slice = field(default_factory=lambda: slice(None))

    @property
    def scored(self) -> Iterator[Matrix]:
        """The guesses of which the best is scored, the adversary's own first."""
        made = self.candidates
        others = made(self.rows) if callable(made) else (X[self.rows] for X in made or ())
        return chain([self.X if self.aimed is None else self.aimed], others)

    def of(self, rows: Codes) -> Values:
        """The same guess about these release rows alone."""
        return replace(self, X=self.X[rows], aimed=None if self.aimed is None else self.aimed[rows], rows=rows)

    def settled(self, best: int) -> Values:
        """The guess of this number in `scored` alone."""
        return replace(self, candidates=None, aimed=next(islice(self.scored, best, None)) if best else self.aimed)


@dataclass(frozen=True)
class Links(Guess):
    """For each target the release row that the adversary takes for the target's, and how far away it is.

    `by_likelihood`: the distance is a doubt, minus the log of the row's share of what speaks for all rows.
    """

    index: Codes
    distance: Matrix
    by_likelihood: bool = False


@dataclass(frozen=True)
class Sources(Guess):
    """For each release row the person of the register that the adversary takes for its source, and how far away."""

    index: Codes
    distance: Matrix


@dataclass(frozen=True)
class Picks(Guess):
    """Of people in line-ups, how likely each is behind the released row (line-ups x people), for the rows `rows`.

    `out_of` 2: every pair of the right one and another is judged; else the likeliest of all is picked.
    """

    scores: Matrix
    rows: Codes
    out_of: int


@dataclass(frozen=True)
class MembershipScores(Guess):
    """For each candidate a number that is higher the surer the adversary is that the person is in the table.

    `by` says what was compared, `others` the same by other means. Where there are any, the score chooses among all of
    them on one half of the candidates, and is that of the other half.
    """

    scores: Matrix
    by: str = ""
    others: Mapping[str, Matrix] = field(default_factory=dict)


@dataclass(frozen=True)
class Secrets(Guess):
    """For each target the encoded values (t x width of the group) of the source column `secret`."""

    X: Matrix
    secret: int


@dataclass(frozen=True)
class Bounds(Guess):
    """For each target an interval (t x width of the group) in which each encoded slot of the column `secret` lies."""

    low: Matrix
    high: Matrix
    secret: int


@dataclass(frozen=True)
class Property:
    """Something that is true of a record or not: its source column `group` has the encoded `slot` in (low, high].

    For a slot of a categorical column or an indicator, low = .5 and high = inf: "it is this category".
    """

    name: str
    group: int
    slot: int
    low: float
    high: float

    def covers(self, values: Matrix) -> Flags:
        """Of which values of its own slot it is true."""
        return np.asarray((values > self.low) & (values <= self.high))


def truths(properties: Sequence[Property], X: Matrix) -> Flags:
    """Which properties are true of which rows, rows x properties; by blocks that stay in a processor's cache."""
    slots = [one.slot for one in properties]
    low, high = np.array([(one.low, one.high) for one in properties]).reshape(-1, 2).T
    found = np.empty((len(X), len(slots)), dtype=bool)
    for rows in slices(len(X), 1_024):
        values = X[rows, slots]
        np.logical_and(values > low, values <= high, out=found[rows])
    return found


@dataclass(frozen=True)
class Posteriors(Guess):
    """What the adversary believes of each record (n x properties) after the release, and before it (properties)."""

    prior: Matrix
    posterior: Matrix
    properties: tuple[Property, ...]
    rare: float = 0.1
    sure: float = 0.5
    columnwise: bool = False
    """Whether the belief in a property rests on what is released of its own column alone."""


@dataclass(frozen=True)
class Abstain(Guess):
    """The adversary has nothing to go on, and says why."""

    reason: str


class UndeclaredKnowledgeError(SfumatoError, AttributeError):
    """An attack reached for something that it did not declare: a fault of the attack, never of the user."""


class Transform(NamedTuple):
    """The affine map z ~ A x + c of encoded source rows x: `matrix` A is s x d, `offset` c has length s."""

    matrix: Matrix
    offset: Matrix

    @classmethod
    def identity(cls, width: int) -> Transform:
        """A column-wise release: every released column is its source column."""
        return cls(np.eye(width), np.zeros(width))


class ColumnMoments(NamedTuple):
    """Mean (d) and covariance (d x d) of the encoded source columns."""

    mean: Matrix
    covariance: Matrix


@dataclass(frozen=True)
class RowPairs:
    """Original rows whose images in the release the adversary knows: `X[i]` became release row `index[i]`."""

    X: Matrix
    index: Codes


class Lineups(NamedTuple):
    """For some release rows (`rows`) people of whom one is behind the row: `X` is line-ups x people x d."""

    rows: Codes
    X: Matrix


class Simulated(NamedTuple):
    """A release that the adversary made of people it knows: rows, labels where it has them, and whose each row is."""

    Z: Matrix
    labels: Codes | None
    source: Codes


Simulator = Callable[[Matrix, Codes | None, np.random.Generator], Simulated]
"""The mechanism with its parameters: encoded rows and their classes in, a release out."""


@dataclass(frozen=True)
class KnownNoise:
    """The channels of a release, in the order of its columns, and the best line of each in the population.

    A line is None where a channel has none. `by_class`: the same of the classes that have channels of their own.
    """

    channels: tuple[Channel, ...]
    lines: tuple[Line | None, ...]
    by_class: Mapping[int, KnownNoise] = field(default_factory=dict)

    def of_class(self, code: int) -> KnownNoise:
        """What rows of this class went through; `NO_CLASS` where there are no labels."""
        return self.by_class.get(code, self)

    @classmethod
    def of(
        cls, channels: tuple[Channel, ...], given: Matrix, by_class: Mapping[int, tuple[Channel, ...]] | None = None
    ) -> KnownNoise:
        """`given`: what the channels are given for people like those in the table (rows x columns)."""
        lines: list[Line | None] = []
        for place, channel in zip(places(channels), channels, strict=True):
            try:
                lines.append(channel.line(given[:, place]))
            except NotApplicableError:
                lines.append(None)
        return cls(channels, tuple(lines), {code: cls.of(own, given) for code, own in (by_class or {}).items()})

    @property
    def places(self) -> list[slice]:
        """The columns of the release that each channel fills."""
        return places(self.channels)

    @property
    def is_exact(self) -> bool:
        """Whether nothing was done to any value."""
        return all(channel.is_exact for channel in self.channels)

    def on_average(self, matrix: Matrix, offset: Matrix) -> Transform:
        """The map x -> A x + c followed by what the channels make of every number on average."""
        matrix, offset = matrix.copy(), offset.copy()
        for slot, line in self._numbers():
            matrix[slot] *= line.gain[0, 0]
            offset[slot] = line.gain[0, 0] * offset[slot] + line.offset[0]
        return Transform(matrix, offset)

    def before(self, E: Matrix) -> Matrix:
        """What the channels were given, from where `on_average` says that rows lie."""
        given = E.copy()
        for slot, line in self._numbers():
            given[:, slot] = (E[:, slot] - line.offset[0]) / line.gain[0, 0]
        return given

    def covariance(self) -> Matrix:
        """Of what the channels add to numbers; what answers at random add depends on how frequent they are."""
        found, shared = np.zeros(self.places[-1].stop), apart(self.channels)
        for slot, line in self._numbers():
            found[slot] = line.covariance[0, 0]
        return np.diag(found) + (0.0 if shared is None else shared.between(len(found)))

    def _numbers(self) -> Iterator[tuple[int, Line]]:
        for place, channel, line in zip(self.places, self.channels, self.lines, strict=True):
            if line is not None and channel.numbers and not channel.is_exact:
                yield place.start, line


@dataclass(frozen=True)
class Knowledge:
    """Everything an adversary could know; `limited` gives the view that one attack is entitled to.

    An item that is not known is None. What stands on every card, and how guesses are scored, is always visible.

    release: n x s, in the encoded units of the release. labels: n class codes, as released; `label_keep` is the
    probability that one is true. columnwise: every release column is an encoded source column. tolerance: a number
    counts as guessed within this share of its range. noise: the channels that values went through. noise_covariance: s
    x s. column_distributions: per encoded source column a sorted sample of its values. known_rows: rows with their
    images. sample: rows of the same distribution that are not in the release, sample_labels their classes. register:
    original rows of everybody in the table, without saying whose is which release row; register_labels: their classes.
    candidates: rows of which some are in the table. targets: original rows that the adversary already holds, NaN where
    it does not. candidate_labels, target_labels: their classes. images: of each target its row in the release. secret:
    position in `encoding.groups` of the column it wants to learn. lineups: for some release rows people of whom one is
    behind it. guided: the map of a release that is guided by earlier ones: a survey's projection, or stages. simulator:
    makes releases of other people as this one was made.
    """

    release: Matrix
    encoding: Encoding
    columnwise: bool = True
    labels: Codes | None = None
    transform: Transform | None = None
    noise: KnownNoise | None = None
    noise_covariance: Matrix | None = None
    column_moments: ColumnMoments | None = None
    column_distributions: tuple[Matrix, ...] | None = None
    known_rows: RowPairs | None = None
    sample: Matrix | None = None
    sample_labels: Codes | None = None
    register: Matrix | None = None
    register_labels: Codes | None = None
    candidates: Matrix | None = None
    candidate_labels: Codes | None = None
    targets: Matrix | None = None
    target_labels: Codes | None = None
    images: Codes | None = None
    secret: int | None = None
    guided: Guided | Staged | None = None
    lineups: Lineups | None = None
    simulator: Simulator | None = None
    label_keep: float = 1.0
    tolerance: float = TOLERANCE

    def missing(self, items: Iterable[str]) -> tuple[str, ...]:
        """The items among these that are not known, sorted: the reason for a "not applicable"."""
        return tuple(sorted(item for item in items if getattr(self, item) is None))

    def hiding(self, secret: int) -> Knowledge:
        """The same knowledge with `secret` as the column to learn, and blank (NaN) in the targets."""
        if self.targets is None:
            return replace(self, secret=secret)
        targets = np.array(self.targets, dtype=np.float64)
        targets[:, self.encoding.groups[secret].slice] = np.nan
        return replace(self, secret=secret, targets=targets)

    def limited(self, knows: Iterable[str], helps: Iterable[str] = ()) -> Knowledge:
        """A view that raises `UndeclaredKnowledgeError` on everything that is neither in `knows` nor in `helps`."""
        allowed = {*knows, *helps}
        if unknown := allowed - ITEMS:
            raise UndeclaredKnowledgeError(f"There is no knowledge called {', '.join(sorted(unknown))}.")
        held = vars(self).get("_held", vars(self))  # of a view no more than it has
        return _View({name: held[name] for name in (allowed | ALWAYS) & held.keys()})


ITEMS = frozenset(field.name for field in fields(Knowledge))
ALWAYS = {"encoding", "columnwise", "label_keep", "tolerance"}
"""What stands on every card, and how guesses are scored."""

Item = TypeVar("Item")


def promised(item: Item | None) -> Item:
    """What an attack cannot do without: `Attack.run` has made sure of it."""
    assert item is not None
    return item


class _View(Knowledge):
    """The part of a knowledge that was declared, and nothing else: what was not is refused."""

    def __init__(self, held: Mapping[str, Any]) -> None:
        object.__setattr__(self, "_held", held)

    def __getattribute__(self, name: str) -> Any:
        if name not in ITEMS:
            return super().__getattribute__(name)
        held: Mapping[str, Any] = super().__getattribute__("_held")
        if name not in held:
            raise UndeclaredKnowledgeError(f"The attack uses {name!r} without declaring it in `knows` or `helps`.")
        return held[name]


SINGLING_OUT, LINKABILITY, INFERENCE = "singling out", "linkability", "inference"
"""The three risks of the European guidance on anonymisation (opinion 05/2014)."""
NEEDS_MAP = "needs the transform of a release that mixes columns"
NEEDS_ALL_CELLS = "needs every cell of a row, and this release leaves some out"


class Attack(CheckedParameters, ABC):
    """One adversary.

    `knows` is what it cannot do without: the audit answers "not applicable" when an item is missing. `helps` is what it
    uses when it is there. The class docstring tells the adversary's story first.
    """

    name: ClassVar[str]
    knows: ClassVar[frozenset[str]]
    helps: ClassVar[frozenset[str]] = frozenset()
    reads_gaps: ClassVar[bool] = False
    """Whether it makes sense of cells that were not reported (NaN); the others abstain, and invent nothing."""
    weak: ClassVar[bool] = False
    """Whether it may find nothing even where the release is a copy; the contract expects less of it then."""
    published: ClassVar[Mapping[str, Any]] = MappingProxyType({})
    """What the paper does where our default differs, by parameter."""
    risk: ClassVar[str] = INFERENCE
    """Which of the three risks it plays: most adversaries want values."""
    called: ClassVar[str] = "the attack "
    needs_map: ClassVar[bool] = True
    """Whether one that a `transform` helps cannot do without the map of a release that mixes columns."""

    @abstractmethod
    def guess(self, known: Knowledge) -> Guess:
        """What the adversary concludes from what it knows."""

    def run(self, everything: Knowledge) -> Guess:
        """Guess from the part of `everything` that was declared; abstain when a part of it is missing."""
        missing = everything.missing(self.knows)
        if missing:
            return Abstain("needs " + ", ".join(item.replace("_", " ") for item in missing))
        if not self.reads_gaps and np.isnan(everything.release).any():
            return Abstain(NEEDS_ALL_CELLS)
        maps: set[str] = set()
        if self.needs_map and "transform" in self.helps and not everything.columnwise:
            maps = {"transform", "guided"} & self.helps
        if maps and everything.missing(maps) == tuple(sorted(maps)):
            return Abstain(NEEDS_MAP)
        try:
            return self.guess(everything.limited(self.knows, self.helps))
        except NotApplicableError as error:
            return Abstain(str(error))
