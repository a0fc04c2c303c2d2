"""Made-up rows: drawn from a noisy model of the table, with central differential privacy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from sfumato.channels import Identity, Recipe, Unstated
from sfumato.channels.recipe import Measurement
from sfumato.core.array_types import Codes, Matrix
from sfumato.core.errors import SchemaError, UsageError
from sfumato.core.wording import first_names, in_a_row
from sfumato.guarantee import Key
from sfumato.guarantee.cost import Central, epsilon_of, rho_for, rho_of_loss
from sfumato.mechanisms.base import COUNT, FIT, Block, Given, Mechanism, Phase, Rows, as_codes, as_matrix
from sfumato.mechanisms.central.column_codes import Budget, replacing_costs
from sfumato.mechanisms.central.drawing import model_as_dict, model_digest, model_from_dict
from sfumato.mechanisms.central.model import TreeModel
from sfumato.mechanisms.central.plan import NOISY, PUBLIC, Origin, PlannedModel, agreed_plan, read_plan
from sfumato.mechanisms.central.scoring import AgreedPlan, ScoringModel
from sfumato.mechanisms.parameters import PRESENCE, is_count, is_number
from sfumato.noise import Streams
from sfumato.table import Encoding
from sfumato.table.statistics import Counts, Statistics

NO_SOURCE = -1
"""Where others say which source row a released row came from."""


SAFE = 1.0 - 1e-9
"""The budget is spent up to this share: sums of costs are rounded up, and must not exceed what was asked for."""

USUAL_DELTA = 1e-6
"""Taken for tables of any size: under Gaussian noise no record is ever released as it is, whatever delta is stated."""
TOO_LARGE_DELTA = 0.01
"""No protection, whatever the table: refused before the table is read, so that nothing is charged."""

PLAN_WORDS = {
    PUBLIC: "The plan's {} are public: {}",
    NOISY: "The plan's {} were paid for, which is an earlier release: {}",
}
MOST_NAMED = 4
LEARNED_PLAN = "the plan of what is counted, which does not say where its {} come from"


class TreeResampling(Mechanism):
    """Measure a table with noise and draw new rows from the measurements: made-up rows.

    For every class a tree says which column depends on which. Measured are the number of rows, edges of the numbers'
    bins (halving at private medians), every column by class, the pairs that the tree chose, and in a large table the
    threes that say more than pairs do. All noise is drawn exactly, from integers, at the fit. What follows (smoothing,
    drawing) never touches the table, so any number of rows may be drawn. The whole release hides whether a person was
    in the table: see `central-dp`.

    Bounds, categories and classes must be public. A cell that can be missing has a category of its own for it.
    Rules that hold without exception, such as "age is at least the years of work", are not kept.

    Parameters
    ----------
    epsilon : float, default=1.0
        For the presence of one record, in (0, 100]. Smaller protects more.
    delta : float, default=1e-6
        In [0, 0.01). 0 gives pure differential privacy with discrete Laplace noise, at a cost in accuracy. Above the
        default it must be below one over the number of rows.
    rows : int or None, default=None
        Rows to draw; None draws as many as the noisy count says that there are.
    forest : bool, default=True
        Whether columns may depend on each other. Without it they depend on the class alone, and get all of the budget.
    parents : {1, 2}, default=2
        How many others a column may depend on. A second one is looked for only where the noisy number of rows is large
        beside the noise.
    plan : mapping, path or None, default=None
        A plan that several sites have agreed on (`sfumato study plan`): which tables are counted, so that noisy counts
        of all sites can be added. It must be public or paid for. Edges and forest are then not chosen here, and cost
        nothing; `forest` and `parents` have no effect.
    """

    name = "tree-resampling"
    made_up = True
    own_knob = PRESENCE
    plan_: AgreedPlan | None = field(default=None, init=False)
    columnwise = True
    proves = True
    papers = ("mckenna-2021-mst", "canonne-kamath-steinke-2020")
    not_protected = (
        "What holds for many people is kept, and so is what follows from it for a person who is like them.",
        "Relations between more than three columns (and the class) are not kept: released rows can be impossible.",
    )
    rests_on = (
        "Neighbouring tables differ in one record that is there or is not; the table's owner is trusted with it.",
        "Bounds, categories and classes are public, and nothing else about the release was chosen by looking at the "
        "table.",
        "Noise is drawn from integers, exactly by its stated law.",
    )

    epsilon: float = 1.0
    delta: float = USUAL_DELTA
    rows: int | None = None
    forest: bool = True
    parents: int = 2
    plan: Mapping[str, Any] | Path | str | None = None

    @property
    def planned(self) -> Central:
        """What the fit will cost at most: it is charged before any noise is drawn."""
        self.check_parameters()
        if self.delta == 0:
            return Central(pure=self.epsilon)
        rho = rho_for(self.epsilon, self.delta)
        return Central(rho=rho, delta=self.delta, replaced=rho * self.replacing_costs)

    @property
    def replacing_costs(self) -> float:
        """What a replaced record costs at most, as a multiple of the rho of one that comes or goes."""
        return replacing_costs(self.parents if self.forest else 0) if self.plan is None else 4.0

    def strength_for_values(self, epsilon: float, rows: int = 1, sure: bool = False) -> dict[str, Any]:
        """The epsilon for presence of a fit whose cost under replacement is this one."""
        self.check_parameters()
        if self.delta == 0:
            return {"epsilon": epsilon / (2 * rows)}
        rho = rho_of_loss(epsilon, self.delta) if sure else rho_for(epsilon, self.delta)
        # What is then computed from it may be larger in the last digit, and 4 would be shown, and charged, as 4.01.
        return {"epsilon": epsilon_of(rho / (self.replacing_costs * rows**2), self.delta) * (1 - 1e-9)}

    def assumptions(self) -> tuple[str, ...]:
        said = [
            PLAN_WORDS[origin.source].format(in_a_row(parts, MOST_NAMED, "more parts"), origin.reason)
            for origin, parts in self._plan_by_origin().items()
            if origin.is_vouched and origin.source in PLAN_WORDS
        ]
        return (*super().assumptions(), *said)

    def learned(self) -> list[str]:
        """Parts of a plan without a word of where they come from may have been made by looking at the table."""
        unknown = [part for origin, parts in self._plan_by_origin().items() if not origin.is_vouched for part in parts]
        plan = [LEARNED_PLAN.format(in_a_row(unknown, MOST_NAMED, "more parts"))] if unknown else []
        return [*super().learned(), *plan]

    def _plan_by_origin(self) -> dict[Origin, list[str]]:
        found: dict[Origin, list[str]] = {}
        for part, origin in {} if self.plan_ is None else self.plan_.origins.items():
            found.setdefault(origin, []).append(part)
        return found

    def check_parameters(self) -> None:
        self._check_positive(epsilon=self.epsilon)
        if self.epsilon > 100:
            raise UsageError(
                f"An epsilon of {self.epsilon:g} protects no one. The 'epsilon' parameter of tree-resampling must be "
                "at most 100; up to 1 protects well, above 10 hardly."
            )
        probable = "0 or a small probability such as 1e-6"
        self._check(probable, lambda one: is_number(one) and 0 <= one < 1, delta=self.delta)
        if self.delta >= TOO_LARGE_DELTA:
            raise UsageError(
                f"A delta of {self.delta:g} protects no one: it allows that one record in "
                f"{max(1, round(1 / self.delta)):,} is released as it is. The 'delta' parameter of tree-resampling "
                f"must be 0 or below {TOO_LARGE_DELTA:g}, and well below one over the number of rows, such as 1e-6."
            )
        if self.rows is not None:
            self._check("a count (1000)", lambda one: is_count(one) and 1 <= one <= 10**12, rows=self.rows)
        self._check("true or false", lambda one: isinstance(one, bool), forest=self.forest)
        self._check("1 or 2", lambda one: not isinstance(one, bool) and one in (1, 2), parents=self.parents)
        if not (self.plan is None or isinstance(self.plan, Mapping | str | Path)):
            raise UsageError("The 'plan' parameter of tree-resampling must be a plan, or the path of a file with one.")

    def check_schema(self, encoding: Encoding) -> None:
        """Refuse what was learned from the table: there is no claim worth making for half of it."""
        label = encoding.schema.label
        learned = [*encoding.learned, *([label.name] if label is not None and label.source == "learned" else [])]
        if learned:
            raise SchemaError(
                "tree-resampling needs public bounds, categories and classes, and those of "
                f"{first_names(list(map(repr, learned)))} were learned from the table. Take them from a code book, "
                'with an "other" category for the rest, and say so, column by column (sfumato schema declare SCHEMA '
                "--column COL --low LOW --high HIGH, or --categories A,B, with --reason ...)."
            )

    def budget(self, rng: np.random.Generator) -> Budget:
        self.check_parameters()
        return Budget(self.planned.rho * SAFE if self.delta else None, self.epsilon * SAFE, rng)

    def measured_under(self, plan: AgreedPlan) -> list[Measurement]:
        return plan.measurements(self.budget(np.random.default_rng(0)))

    # The fit: `start`, then `count` over all blocks and `measure` of the sum, as long as it `needs_counts`

    def phases(self, given: Given) -> Iterator[Phase]:
        self.start(given.encoding, given.streams.generator(0, b"", b"fit"), labelled=given.labelled)
        yield from self.measuring()

    def measuring(self) -> Iterator[Phase]:
        """The passes of a fit that was started; whatever their sums tell is noisy, and was paid for."""
        step = FIT
        while self.needs_counts:
            yield Phase(step, lambda rows: self.count(rows.X, rows.y), self.measure, is_paid_before=True)
            step = COUNT

    def fit_statistics(self, statistics: Statistics, encoding: Encoding, key: Key | None = None) -> Self:  # noqa: ARG002
        raise TypeError(f"{self.name} is fitted on counts, not on moments.")

    def start(self, encoding: Encoding, rng: np.random.Generator, labelled: bool = True) -> None:
        """Begin a fit whose noise comes from this generator: `measure` draws it, and then the table is not needed."""
        budget = self.budget(rng)
        self.check_schema(encoding)
        self.encoding_ = encoding
        self.labelled_ = labelled and bool(encoding.classes)
        classes = len(encoding.classes) if self.labelled_ else 1
        self.model_: TreeModel | PlannedModel | ScoringModel
        if self.plan is None:
            self.plan_, self.model_ = None, TreeModel(encoding, budget, classes, self.parents if self.forest else 0)
        else:
            self.plan_ = agreed_plan(read_plan(self.plan), encoding)
            self.model_ = self.plan_.model(budget, classes)

    def count(self, X: Matrix, y: Codes | None) -> Counts:
        return self.model_.count(X, y if self.labelled_ else None)

    def measure(self, counts: Counts) -> None:
        self.model_.measure(counts)
        if self.delta > USUAL_DELTA and self.delta * self.model_.rows >= 1:
            raise UsageError(
                f"A delta of {self.delta:g} allows that a record of a table of this size is released as it is: "
                "delta must be well below one over the number of rows. Choose a smaller --delta. The noise that "
                "told so was drawn, so the ledger has counted it."
            )
        drawn = None
        if not self.needs_counts:
            self.drawn_ = self.model_.drawn()
            drawn = model_digest(self.model())
        encoding, measured = self.encoding_, tuple(self.model_.budget.measured)
        made, channels = Identity(encoding.width), tuple(Unstated(group.width) for group in encoding.groups)
        self.recipe_ = Recipe(
            encoding, made, channels, "nobody", measured=measured, delta=float(self.delta), model=drawn
        )

    @property
    def needs_counts(self) -> bool:
        return self.model_.needs_counts

    def released(self, rows: int) -> int:  # noqa: ARG002 (the true number is private)
        return self.drawn_.rows if self.rows is None else int(self.rows)

    def notes(self) -> dict[str, Any]:
        return self.model_.notes()

    def parameters_used(self) -> dict[str, Any]:
        """A plan by its digest: it is as long as the study file that holds it."""
        return {**super().parameters_used(), "plan": self.plan if self.plan_ is None else self.plan_.digest}

    def counts(self) -> Codes | None:
        return None if isinstance(self.model_, TreeModel) else self.model_.noisy.cells

    def model(self) -> dict[str, Any]:
        return model_as_dict(self.drawn_)

    def restore_model(self, found: Any, recipe: Recipe, labelled: bool) -> Self:
        self.encoding_, self.recipe_ = recipe.encoding, recipe
        self.drawn_ = model_from_dict(found, recipe.encoding)
        self.labelled_ = labelled and self.drawn_.classes == len(recipe.encoding.classes)
        return self

    def perturb(self, X: Matrix, y: Codes | None, rng: np.random.Generator) -> Block:  # noqa: ARG002
        """As many rows as there would be: what rows are given does not matter."""
        return self.draw_rows(self.released(len(X)), rng)

    def draw_rows(self, rows: int, rng: np.random.Generator) -> Block:
        X, classes = self.drawn_.draw(rows, rng)
        return Block(X, classes if self.labelled_ else None, np.full(rows, NO_SOURCE))

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike | None = None,
        encoding: Encoding | None = None,
        key: Key | None = None,  # noqa: ARG002
        streams: Streams | None = None,
    ) -> Self:
        matrix, codes = as_matrix(X), as_codes(y)
        encoding = encoding or Encoding.unit(matrix.shape[1])
        if codes is not None and not encoding.classes:
            raise SchemaError(
                "tree-resampling needs to know the classes without looking. Give an encoding whose schema lists them."
            )
        self.start(encoding, (streams or Streams()).generator(0, b"fit", b""), labelled=codes is not None)
        for phase in self.measuring():
            phase.play(Rows(matrix, codes))
        return self
