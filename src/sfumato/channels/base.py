"""The word that joins mechanisms, guarantees, adversaries and learners: what happened to a value on its way out.

A channel is the law of what is released given what was true, for one column or a group of columns. It speaks of
*encoded* values (see `Encoding`): numbers between 0 and 1, one-hot slots, "missing" indicators, or the components that
a map made of them. Readers ask what a channel can do, never for its class, and one that cannot do a thing says so
(`NotApplicableError`), which the audit and the learners pass on as "not applicable".
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, ClassVar, NamedTuple, Self, TypeVar

import numpy as np

from sfumato.core.accepted import Whole
from sfumato.core.array_types import Codes, Floats, Matrix
from sfumato.core.errors import CardError, SfumatoError
from sfumato.core.records import Record
from sfumato.noise import NumberNoise, Operator
from sfumato.table import Group

EXACT_CAP, EXACT_GRID, EXACT_WINDOW = "exact-cap", "exact-grid", "exact-window"
EXACT_RESPONSE = "exact-response"
FLOAT_NOISE, NO_NOISE = "float-noise", "none"
"""How noise is drawn. A formal guarantee holds for the exact paths only: floating-point noise leaks."""
EXACT_PATHS = (EXACT_CAP, EXACT_GRID, EXACT_WINDOW, EXACT_RESPONSE)
EXACT_COUNTS = "exact-counts"
"""Made-up rows: what was counted has exact noise."""
_WITHIN = (np.arange(8) + 0.5) / 8
"""Places within a cell at which its density is looked at."""


TRUTHS = 65
"""Numbers that stand for a range, where laws are compared."""
MOST_COLUMNS = 1 << 24
"""No card speaks of more."""
A_COUNT = Whole(1, MOST_COLUMNS)
"""Columns or categories of a card."""


Kind = TypeVar("Kind", bound="Channel")
CHANNELS: dict[str, type[Channel]] = {}
"""Every channel by its tag; each enters itself."""


class NotApplicableError(SfumatoError):
    """A channel was asked for something that its law does not have; the message is the reason."""


class Line(NamedTuple):
    """The best linear description z ~ gain x + offset, with the covariance of what is left.

    `gain` is w x w, `offset` has length w, `covariance` is w x w.
    """

    gain: Matrix
    offset: Matrix
    covariance: Matrix


class OnLine(NamedTuple):
    """A log-likelihood as a law of the distance of two places on a line: `seen` of each z, `given` of each truth.

    "laplace": high - distance / scale; "normal": high - (distance / scale)^2 / 2; "window": high up to a distance of
    `scale`, low beyond. Where `seen` is NaN no truth can have led to z; where it is infinite z says nothing, and is as
    likely (`silent`) for every truth.
    """

    law: str
    seen: Floats
    given: Floats
    scale: float
    high: float = 0.0
    low: float = -math.inf
    silent: float = 0.0


class Epsilons(NamedTuple):
    """Worst-case log-likelihood ratios of one released component, one source column and the record.

    `exact`: the record's figure is attained, and not only an upper bound.
    """

    component: float
    column: float
    record: float
    exact: bool = True


class Reached(NamedTuple):
    """An interval of released values; `bounded` is False where a law's tail gives none that is of use."""

    low: float
    high: float
    bounded: bool = True


class Factor(NamedTuple):
    """z = x f in units in which `origin` is 0: mean, variance and fourth central moment of f."""

    origin: float
    mean: float
    variance: float
    fourth_moment: float


class Channel(Record, ABC):
    """One column's or one group's way out. Values are n x `width` matrices, row by row."""

    tag: ClassVar[str]
    """How a card names it."""

    def __init_subclass__(cls, *, on_cards: bool = True) -> None:
        """Whatever has a tag of its own can be read from cards, unless it says that no card has it."""
        super().__init_subclass__()
        if on_cards and (tag := vars(cls).get("tag")) is not None and CHANNELS.setdefault(tag, cls) is not cls:
            raise ValueError(f"Two channels are called {tag!r}.")

    @property
    def width(self) -> int:
        """How many columns of the release matrix it fills."""
        return 1

    @property
    def numbers(self) -> int:
        """How many of its columns, from the first, hold a number; the others hold slots of a category, or bits."""
        return 1

    @property
    def path(self) -> str:
        """How its noise is drawn: one of the paths above."""
        return NO_NOISE

    @property
    def leaves_out(self) -> bool:
        """Whether it may leave cells out. Such a cell is *not reported* (NaN), which is neither missing nor zero."""
        return False

    @property
    def reported(self) -> float:
        """The share of rows that report it."""
        return 1.0

    @property
    def is_exact(self) -> bool:
        """Whether what is released is what was true."""
        return False

    @property
    def is_stated(self) -> bool:
        """Whether its law is known to whoever reads the card."""
        return True

    @property
    def adds(self) -> bool:
        """Whether the change of a number does not depend on the number: distances are kept but for noise."""
        return self.is_exact

    @property
    def hides_missing(self) -> bool:
        """Whether its last column, which says "missing", is never reported: a missing cell shows something else."""
        return False

    def knowing(self, operator: Operator) -> Channel:  # noqa: ARG002
        """The same with the owner's own operator put back, where it was carried in by one."""
        return self

    def fits(self, groups: Sequence[Group]) -> bool:
        """Whether it can carry these source columns; by default one number that cannot be missing."""
        return len(groups) == 1 and not groups[0].is_onehot and not groups[0].has_indicator

    @abstractmethod
    def draw(self, x: Matrix, rng: np.random.Generator) -> Matrix:
        """Release x; may overwrite it."""

    def log_likelihood(self, z: Matrix, x: Matrix) -> Matrix:  # noqa: ARG002
        """log f(z_i | x_j), len(z) x len(x); -inf where x_j is impossible.

        A probability where z is a category or bits, a density where it is a number (on a grid, the probability of a
        grid point over the step).
        """
        raise NotApplicableError(f"the law of {self.tag} cells has no stated likelihood")

    def on_line(self, z: Matrix, x: Matrix) -> OnLine | None:  # noqa: ARG002
        """The same as a law of how far apart z_i and x_j lie on a line, for devices; None where it is none."""
        return None

    def transition(self, edges: Floats, x: Matrix) -> Matrix:
        """P(the first released number lies in a cell | x_j), cells between `edges` x truths, for learners that count.

        By default from the density, at eight places of every cell.
        """
        widths = np.diff(edges)
        places = (edges[:-1, None] + widths[:, None] * _WITHIN).reshape(-1, 1)
        z = np.column_stack([places, np.zeros((len(places), self.width - 1))])
        density = np.exp(self.log_likelihood(z, x)).reshape(len(widths), len(_WITHIN), -1).mean(axis=1)
        return np.asarray(density * widths[:, None])

    # What all that it can release has in common, for those who look for what it cannot have released

    def truths(self, low: float, high: float, steps: int = TRUTHS - 1) -> Matrix:
        """Source values whose laws stand for those of all between `low` and `high`."""
        first, last = self.interval
        return np.linspace(min(max(low, first), last), min(max(high, first), last), steps + 1)[:, None]

    def sorted_by(self, z: Matrix) -> Floats:
        """The number of each released row by which rows are sorted into cells."""
        return np.asarray(z[:, 0])

    def shown(self, z: Matrix, edges: Floats) -> Codes:
        """Which outcome each released row shows: by default the cell between `edges`."""
        return np.searchsorted(edges, self.sorted_by(z)).astype(np.int64)

    def below(self, edges: Floats, x: Matrix, share: float = 1.0) -> Matrix:
        """P(the first released number is at most each edge | x), with this share of the noise that is stated."""
        noise = self.raw_noise(1.0)
        if noise is None:
            raise NotApplicableError("its cells have no noise")
        return np.asarray(noise.cdf(x[:, 0] + (edges[:, None] - x[:, 0]) / share, x[:, 0]))

    def chances(self, edges: Floats, x: Matrix, share: float = 1.0) -> Matrix:
        """P(outcome | x), outcomes x truths; with a `share` of the noise, so much closer to x."""
        return np.diff(self.below(edges, x, share), axis=0, prepend=0.0, append=1.0)

    def draw_anything(self, rows: int, rng: np.random.Generator) -> Matrix:  # noqa: ARG002
        """Outcomes that say nothing of any truth: each is as likely."""
        raise NotApplicableError(f"the outcomes of {self.tag} cells cannot all be as likely")

    def log_anything(self, z: Matrix) -> Matrix:  # noqa: ARG002
        """The log-likelihood of z where any outcome is as likely."""
        raise NotApplicableError(f"the outcomes of {self.tag} cells cannot all be as likely")

    @property
    def anything(self) -> float:
        """Epsilon between some truth and an outcome that says nothing; infinite where nothing bounds it."""
        return math.inf

    def raw_noise(self, width: float, low: float = 0.0) -> NumberNoise | None:  # noqa: ARG002
        """Noise on a number in raw units, which are `low` + `width` times the encoded ones; None where it is exact."""
        raise NotApplicableError(f"{self.tag} cells are not numbers with noise of a known law")

    @property
    def kept(self) -> float:
        """How often a category (of a number: "missing") is told truly; the other answers are equally likely."""
        raise NotApplicableError(f"{self.tag} cells are not answers with a known probability of being true")

    def mean_line(self) -> tuple[float, float]:
        """(slope, offset) where E(z | x) = slope x + offset exactly, for the number that it carries."""
        raise NotApplicableError(f"released by a {self.tag} channel, so it is unknown where a plain value would lie")

    @property
    def added_moments(self) -> tuple[float, float]:
        """Variance and fourth central moment of what is added to a number; 0 where nothing is."""
        return 0.0, 0.0

    @property
    def variance_curve(self) -> tuple[float, float, float]:
        """(a, b, c) where Var(z | x) = a + b x + c x^2 for the number that it carries, unless there is a `factor`."""
        return self.added_moments[0], 0.0, 0.0

    @property
    def factor(self) -> Factor | None:
        """Where a number is multiplied: what is known of the factor."""
        return None

    @property
    def metric(self) -> tuple[str, float] | None:
        """Where the log-likelihood is minus a distance over a scale: "cityblock" or "sqeuclidean" (halved), and the
        scale. Many columns are then added up at once."""
        return None

    def blurred(self, width: float) -> Channel:  # noqa: ARG002
        """The same with normal noise of this width on a number that is released as it is.

        An attacker who compares with a finite list of people needs it: no one on the list fits exactly.
        """
        return self

    def line(self, values: Matrix) -> Line:  # noqa: ARG002
        """The best linear description where source values are spread like `values` (m x width)."""
        raise NotApplicableError(f"{self.tag} cells are not a linear function of the truth plus noise")

    def possible(self, z: Matrix) -> tuple[Matrix, Matrix]:
        """Least and largest source value that can have become z (n x width each); infinite where all can."""
        return np.full(z.shape, -math.inf), np.full(z.shape, math.inf)

    def reach(self, low: float, high: float, chance: float) -> Reached:  # noqa: ARG002
        """Where the first released value lies, but for this chance, if what was true lies in [low, high]."""
        return Reached(-math.inf, math.inf, bounded=False)

    def central(self, share: float) -> float:  # noqa: ARG002
        """Half the width of the shortest interval that can hold this share of released numbers; 0 where any can.

        Whatever was true, noise with one peak puts no more values into a shorter interval [Anderson 1955].
        """
        return 0.0

    @property
    def least_share(self) -> float:
        """At least so often, by chance alone, each slot of a category is reported."""
        return 0.0

    def epsilons(self, groups: Sequence[Group]) -> Epsilons:  # noqa: ARG002
        """Exact worst case where the channel carries these source columns; infinite where there is none."""
        return Epsilons(math.inf, math.inf, math.inf)

    def moved(self, distance: float) -> float:
        """Epsilon between two numbers that lie so far apart; infinite where nothing bounds it."""
        return math.inf if distance else 0.0

    @property
    def interval(self) -> tuple[float, float]:
        """To which values are clipped before they are perturbed."""
        return -math.inf, math.inf

    @property
    def step(self) -> float:
        """The grid that released values lie on; 0 where there is none."""
        return 0.0

    @property
    def rounding(self) -> float:
        """What rounding to a grid can add to an epsilon that was computed before rounding."""
        return 0.0

    @property
    def steepness(self) -> float:
        """Largest change of the log-likelihood when x moves by one unit: 1/b for Laplace noise; infinite without."""
        return math.inf

    def to_dict(self) -> dict[str, Any]:
        """As it stands on a card: its tag and its fields, in encoded units."""
        return {"channel": self.tag, **super().to_dict()}

    @classmethod
    def from_dict(cls, found: Any) -> Self:
        """Of this class or a kind of it; what cannot be read is refused and never taken for something weaker."""
        tag = found.get("channel") if isinstance(found, Mapping) else None
        kind = CHANNELS.get(tag) if isinstance(tag, str) else None
        if kind is None or not issubclass(kind, cls):
            raise CardError("The card names a channel that does not exist: it was edited, or made by another version.")
        try:
            made = super(Channel, kind).from_dict(found)
            if found.keys() - {"channel", *(entry.key for entry, _ in made.told())}:
                raise ValueError("entries that it does not have")
            return made
        except (SfumatoError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RecursionError):
            raise CardError(
                f"The card states a channel ({tag}) that is impossible: it was edited or is damaged."
            ) from None


def passes_on(*questions: str) -> Callable[[type[Kind]], type[Kind]]:
    """For a channel around an `inner` one: to these questions the answer is the inner one's."""

    def answering(question: str) -> Any:
        if isinstance(getattr(Channel, question), property):
            return property(attrgetter(f"inner.{question}"))

        def answer(self: Any, *given: Any, **words: Any) -> Any:
            return getattr(self.inner, question)(*given, **words)

        return answer

    def told(kind: type[Kind]) -> type[Kind]:
        for question in questions:
            setattr(kind, question, answering(question))
        return kind

    return told


@passes_on("mean_line", "raw_noise", "reach", "sorted_by", "shown", "truths", "chances", "added_moments", "factor")
@passes_on("variance_curve", "kept", "numbers", "path", "is_stated", "adds", "step")
@dataclass(frozen=True)
class Around(Channel):
    """A channel that carries a number or a category by an `inner` one, and does something more beside it."""

    inner: Channel

    def knowing(self, operator: Operator) -> Channel:
        return replace(self, inner=self.inner.knowing(operator))

    def blurred(self, width: float) -> Channel:
        return replace(self, inner=self.inner.blurred(width))
