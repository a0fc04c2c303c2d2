"""The first idea: a mechanism turns private rows into a release."""

from __future__ import annotations

import inspect
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from sfumato.channels import Recipe
from sfumato.channels.recipe import Measurement
from sfumato.core.array_types import Codes, Matrix
from sfumato.core.errors import TableError, UsageError, wrong_parameter
from sfumato.guarantee import Guarantee, Key
from sfumato.guarantee.cost import Central
from sfumato.guarantee.guarantee import learned_domain, proved
from sfumato.mechanisms.columnwise import check_choices
from sfumato.mechanisms.parameters import RECORD, Knob, Parameters, is_count, is_number
from sfumato.noise import LAWS, Streams
from sfumato.noise.law import is_own
from sfumato.table import Encoding
from sfumato.table.statistics import Statistics

if TYPE_CHECKING:  # whose modules know mechanisms
    from sfumato.mechanisms.central.scoring import AgreedPlan

# What a mechanism needs from the table before rows are released: phases, each of them one pass.
#
# A phase observes every block by itself and finishes on the sum of what was found. Who goes through the blocks (threads
# of one machine, the executors of a cluster, a killed run that had finished the pass) is no business of the
# mechanism's: one loop plays all phases, and asks for the next once the one before has finished.


FIT, COUNT, MEASURE, GUIDE = "Reading", "Counting", "Measuring", "Guiding"
"""What a phase is called while it runs."""


@dataclass(frozen=True)
class Rows:
    """A block of encoded rows, as a phase observes it; a whole matrix is one."""

    X: Matrix
    y: Codes | None
    number: int = 0


@dataclass(frozen=True)
class Given:
    """What a run gives to all phases of its mechanism."""

    encoding: Encoding
    key: Key | None
    streams: Streams
    labelled: bool = True


@dataclass(frozen=True)
class Phase:
    """One pass: `observe` is a pure function of a block, and what it returns can be added up."""

    step: str
    observe: Callable[[Rows], Any]
    finish: Callable[[Any], object]
    is_paid_before: bool = False
    """Whether its end draws the noise that the release rests on: the ledger is charged before."""

    def play(self, rows: Rows) -> None:
        """On rows that are one block."""
        self.finish(self.observe(rows))


PLAIN = (type(None), bool, int, float, str, Mapping)
"""Parameters that a card can hold."""
ROUNDING = 1e-12
"""How far scaling to [0,1] may miss the ends; stated epsilons are rounded up by more."""


@dataclass(frozen=True)
class Block:
    """Released rows: matrix, class codes, and for every row the number of the source row it came from.

    `source` is kept only in the owner's private trace, for the audit; -1 where rows are made up. Rows may be
    fewer, more or reordered.
    """

    X: Matrix
    y: Codes | None
    source: Codes


class Mechanism(Parameters, ABC):
    """Fit on statistics that add up, perturb block by block.

    ``fit(X, y)`` equals ``fit_statistics(statistics(X, y), encoding, key)``; a mechanism that needs more from the table
    lists further `phases`. Rows arrive *encoded* (see `Encoding`: columns in [0,1], one-hot groups). A mechanism holds
    no random generator: the engine hands one to `perturb` for every block; what must be the same for all blocks is in
    the `Key`.
    """

    name: ClassVar[str]
    columnwise: ClassVar[bool] = False
    """Whether the release keeps the source's columns and units; else it has columns c000, c001, ..."""
    needs_key: ClassVar[bool] = False
    whole_table: ClassVar[bool] = False
    """Whether `perturb` must see all rows at once; streaming engines refuse such a mechanism."""
    proves: ClassVar[bool] = False
    """Whether some choice of its parameters gives a formal guarantee."""
    papers: ClassVar[tuple[str, ...]] = ()
    published: ClassVar[Mapping[str, Any] | None] = None
    """What the paper does where our default differs, by parameter; empty where it does not; None: in no paper."""
    not_protected: ClassVar[tuple[str, ...]] = ()
    made_up: ClassVar[bool] = False
    """Whether rows are drawn from a noisy model of the table."""
    redraws: ClassVar[bool] = False
    """Whether a row of the table may be released several times, or never."""
    estimates_density: ClassVar[bool] = False
    """Whether rows are drawn from an estimate of the table's density, which rows held apart can be compared with."""
    rotates: ClassVar[bool] = False
    """Whether its key is a rotation, so that a good one can be searched for."""
    only_categories: ClassVar[bool] = False
    """Whether numbers are refused."""
    not_about_zero: ClassVar[bool] = False
    """Whether a range that contains 0 is refused, or hardly protected."""
    leaves_cells_out: ClassVar[bool] = False
    """Whether a released row may leave columns out, so that learners which need whole rows refuse it."""
    for_surveys: ClassVar[bool] = False
    """Whether it is made for answers that are blurred one by one, before there is a table."""

    learns: ClassVar[bool] = True
    """Whether the fit needs statistics of the rows; `needs_statistics` where parameters decide."""
    column_choices: ClassVar[frozenset[str]] = frozenset()
    """What a column of the schema may choose for itself (`noise`); anything else is refused."""

    rounds: ClassVar[int] = 1
    """How often the table is gone through to release it; later rounds are guided by what earlier ones released."""

    own_knob: ClassVar[Knob | None] = None
    """The parameter that says how strong the change is, where it is not `epsilon_record`."""

    rests_on: ClassVar[tuple[str, ...]] = ()
    """Assumptions behind a stated guarantee, beyond public bounds."""

    encoding_: Encoding = field(init=False)
    recipe_: Recipe = field(init=False)
    """How rows are released: set by the fit, and everything else that is said about the release follows from it."""
    borrowed_: bool = field(default=False, init=False)
    """Whether a basis, guidance or rotation that was given is one that was learned from people's rows."""
    variances_: Matrix | None = field(default=None, init=False)
    """How much rows vary along all principal components, where the map's directions are such components."""

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike | None = None,
        encoding: Encoding | None = None,
        key: Key | None = None,
        streams: Streams | None = None,
    ) -> Self:
        """Fit on a whole matrix of encoded rows; without an encoding, columns in [0,1] learned from the data.

        `streams`: where a key and noise of the fit's own come from, if it needs them; else the system's entropy.
        """
        X, codes = as_matrix(X), as_codes(y)
        encoding = encoding or Encoding.unit(X.shape[1])
        if X.shape[1] != encoding.width:
            raise TableError(f"The rows have {X.shape[1]} encoded columns, but the encoding has {encoding.width}.")
        if X.size and not (X.min() >= -ROUNDING and X.max() <= 1 + ROUNDING):
            raise TableError(
                "Encoded rows must lie between 0 and 1, without empty or infinite cells. "
                "Encode the table with a schema first (Encoding.encode), which clips to the bounds."
            )
        check_choices(self.name, self.column_choices, encoding)
        if self.needs_key and key is None:
            key = self.draw_key(encoding, streams)
        for phase in self.fitting(Given(encoding, key, streams or Streams(), codes is not None)):
            phase.play(Rows(X, codes))
        return self

    @classmethod
    def knob(cls) -> Knob | None:
        """What a search for the right strength turns; None where there is nothing to turn."""
        if cls.own_knob is None and RECORD.parameter in cls._get_param_names():
            return RECORD
        return cls.own_knob

    def strength_for_values(self, epsilon: float, rows: int = 1, sure: bool = False) -> dict[str, Any]:  # noqa: ARG002
        """Parameters under which the values of a person with so many rows cost `epsilon` at most.

        `sure`: it bounds what anybody may come to believe, where that is more than an epsilon that holds but for delta.
        """
        return {RECORD.parameter: epsilon / rows}

    # What it needs from the table

    def phases(self, given: Given) -> Iterator[Phase]:
        """The passes to be made before rows are released, in order; the next is asked for once the last has finished.

        There is always one: it reads and checks every value before any noise is drawn.
        """
        check_choices(self.name, self.column_choices, given.encoding)
        yield from self.fitting(given)

    def fitting(self, given: Given) -> Iterator[Phase]:
        learns, width = self.needs_statistics, given.encoding.width

        def observe(rows: Rows) -> Statistics:
            return self.statistics(rows.X, rows.y) if learns else Statistics.empty(width)

        yield Phase(FIT, observe, lambda found: self.fit_statistics(found, given.encoding, given.key))

    @property
    def needs_statistics(self) -> bool:
        """Whether anything is learned from the rows; if not, they are read and checked all the same."""
        return self.learns

    def statistics(self, X: Matrix, y: Codes | None) -> Statistics:  # noqa: ARG002 (mechanisms may need classes)
        """What the fit adds up over blocks."""
        return Statistics.of(X)

    @abstractmethod
    def fit_statistics(self, statistics: Statistics, encoding: Encoding, key: Key | None = None) -> Self:
        """Fit from the sum of all blocks' statistics."""

    @property
    def estimates(self) -> bool:
        """Whether the fit estimates something under an epsilon of its own."""
        return False

    def check_parameters(self) -> None:
        """Refuse parameters that make no sense, before a row is read."""

    def check_schema(self, encoding: Encoding) -> None:
        """Refuse what cannot be claimed, before a row is read."""

    # What it does to rows

    def perturb(self, X: Matrix, y: Codes | None, rng: np.random.Generator) -> Block:
        """Release one block: a pure function of the block and the generator."""
        return Block(self.recipe_.perturb(X, rng), y, np.arange(len(X)))

    def release_block(self, rows: Rows, rng: np.random.Generator, streams: Streams) -> Block:  # noqa: ARG002
        """One block of several, with its own generator; `streams` for what follows from its number alone."""
        return self.perturb(rows.X, rows.y, rng)

    def embed(self, X: ArrayLike) -> Matrix:
        """Where unperturbed rows lie in the release's space: what a query is compared with."""
        return self.recipe_.map.apply(as_matrix(X))

    def released(self, rows: int) -> int:
        """How many rows come out where `rows` go in."""
        return rows

    def wanted(self, there: int) -> int:
        """Rows to release of a table that has so many, before anything is fitted."""
        return there

    def restore(self, Z: Matrix) -> Matrix | None:
        """Release rows mapped back to encoded source columns, as anybody could; None where that needs the key."""
        return Z if self.recipe_.is_columnwise else None

    def release(
        self, X: ArrayLike, y: ArrayLike | None = None, rng: np.random.Generator | None = None, **fit: Any
    ) -> Block:
        """Fit and perturb a whole matrix; without `rng`, from the operating system's entropy."""
        X, codes = as_matrix(X), as_codes(y)
        self.fit(X, codes, **fit)
        block = self.perturb(X, codes, rng or Streams().generator(0, b"in-memory release", b""))
        self.recipe_.check_gaps(block.X)
        return block

    # Of a mechanism whose rows are made up: what they are drawn from, and what that costs

    @property
    def planned(self) -> Central | None:
        """What the fit costs at most, where its noise is paid for before it is drawn."""
        return None

    def model(self) -> dict[str, Any] | None:
        """What rows are drawn from, as plain JSON; all of it noisy or public."""
        return None

    def counts(self) -> Codes | None:
        """Noisy counts that can be added to those of other sites, where the fit followed a plan that they agreed on."""
        return None

    def measured_under(self, plan: AgreedPlan) -> list[Measurement]:  # noqa: ARG002
        """What a card must state that was made under a plan of several sites with these parameters."""
        raise UsageError(f"{self.name} measures no counts that sites could add.")

    def restore_model(self, found: Any, recipe: Recipe, labelled: bool) -> Self:  # noqa: ARG002
        """Be what the fit left behind, from a file and a card."""
        raise TypeError(f"{self.name} has no model.")

    def draw_rows(self, rows: int, rng: np.random.Generator) -> Block:  # noqa: ARG002
        """New rows, without a source."""
        raise TypeError(f"{self.name} has no model.")

    # What it says about itself

    def guarantee(self) -> Guarantee:
        """Computed from the recipe, for the whole record; `local-dp` only where nothing stands in the way."""
        return proved(self.recipe_, self.in_the_way(), self.assumptions(), self.sentence())

    def assumptions(self) -> tuple[str, ...]:
        """On what the guarantee rests."""
        return self.rests_on

    def sentence(self) -> str:
        """One honest sentence, shown where nothing is proved."""
        return ""

    def learned(self) -> list[str]:
        """What was learned from private data, in words; empty if everything was public."""
        return [learned_domain(name) for name in self.encoding_.learned]

    @property
    def learns_directions(self) -> bool:
        """Whether `directions` were learned from private rows, here or for the release that they come from."""
        return self.borrowed_

    def directions(self) -> Matrix | None:
        """The map's directions, as rows, that could carry something learned: see `sfumato.guarantee.maps`."""
        return None

    def borrow(self) -> None:
        """The owner's ledger recognised the given directions as learned: whatever the reason, they are not public."""
        self.borrowed_ = True
        self.recipe_ = replace(self.recipe_, map=self.recipe_.map.undeclared())

    def in_the_way(self) -> list[str]:
        """Why a proved figure would hold only conditionally."""
        return self.learned()

    def parameters_used(self) -> dict[str, Any]:
        """Every public parameter, with derived values in the place of the knobs they were derived from."""
        return {name: value for name, value in self.get_params(deep=False).items() if isinstance(value, PLAIN)}

    def stream_name(self) -> bytes:
        """What was asked for, so that no other parameters draw the same noise."""
        return json.dumps([self.name, self.parameters_used()], sort_keys=True, default=str).encode()

    def notes(self) -> dict[str, Any]:
        """What only the owner is told once rows were perturbed: figures of private data, which no card may carry."""
        return {}

    def draw_key(self, encoding: Encoding, streams: Streams | None = None) -> Key:  # noqa: ARG002
        """Draw what all blocks and sites must share: from the system's entropy, or the `streams` of a trial."""
        raise UsageError(f"{self.name} has no key.")

    def key_around(self, rotation: Matrix, encoding: Encoding, searched: int | None = None) -> Key:  # noqa: ARG002
        """A key with this rotation, which a search chose among so many."""
        raise UsageError(f"{self.name} has no rotation.")

    # Checks that all mechanisms share

    def _check(self, must: str, allows: Callable[[Any], bool], **values: Any) -> None:
        for name, value in values.items():
            if not allows(value):
                raise wrong_parameter(name, self.name, must, value)

    def _check_positive(self, **values: Any) -> None:
        """None stands for "not given" where that is the default, and nowhere else."""
        defaults = inspect.signature(type(self)).parameters
        given = {name: one for name, one in values.items() if one is not None or defaults[name].default is not None}
        self._check("a positive number", lambda one: is_number(one) and 0 < one < math.inf, **given)

    def _check_choice(self, choices: tuple[str, ...], **values: object) -> None:
        self._check(f"one of {', '.join(choices)}", choices.__contains__, **values)

    def _check_law(self, law: object) -> None:
        own = "a distribution of scipy.stats with its parameters in brackets, as gamma(2), or table:FILE"
        self._check(f"one of {', '.join(LAWS)}, {own}", lambda one: one in tuple(LAWS) or is_own(one), law=law)

    def _count_of_columns(self, wanted: int | None, default: int, there: int) -> int:
        """How many columns a record reports: as asked for, else the default as far as there are so many."""
        if wanted is None:
            return max(1, min(there, default))
        self._check("a whole number of at least 1", lambda one: is_count(one) and one >= 1, columns=wanted)
        if wanted > max(there, 1):
            raise UsageError(
                f"A record cannot report {wanted} columns: this table has {there} that are not constant. "
                "Ask for fewer, or leave 'columns' out."
            )
        return int(wanted)


def count_of(components: float | int | None, width: int, owner: str) -> int:
    """`components` as a number: a count, or a fraction of the columns (rounded up)."""
    if components is None:
        return width
    if not is_number(components) or not (is_count(components) or 0 < components <= 1):
        raise wrong_parameter("components", owner, "a count (2) or a fraction in (0, 1] (0.5)", components)
    if not is_count(components):
        return max(1, math.ceil(components * width - 1e-9))
    if not 1 <= components <= width:
        must = f"between 1 and the {width} encoded columns of this table"
        raise wrong_parameter("components", owner, must, components)
    return int(components)


def as_matrix(X: ArrayLike) -> Matrix:
    try:
        matrix: Matrix = np.asarray(X, dtype=np.float64)
    except (TypeError, ValueError):  # numpy's own words quote the cell
        raise TableError("Rows must be numbers. Encode the table with a schema first (Encoding.encode).") from None
    if matrix.ndim != 2:
        raise TableError(f"The rows must be a table of rows and columns. Got an array of {matrix.ndim} dimensions.")
    return matrix


def as_codes(y: ArrayLike | None) -> Codes | None:
    """Class codes 0, 1, ..., or None."""
    try:
        return None if y is None else np.asarray(y, dtype=np.int64)
    except (TypeError, ValueError):
        raise TableError("Classes must be codes 0, 1, ... Take them from Encoding.encode_label.") from None
