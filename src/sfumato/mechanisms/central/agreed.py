"""Plans that sites agree on: which tables all of them count, or which scores they add up before there is one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sfumato.channels.recipe import Measurement
from sfumato.core.array_types import Codes
from sfumato.core.errors import SchemaError
from sfumato.mechanisms.central import noisy_counts, scoring
from sfumato.mechanisms.central.budget import Budget
from sfumato.mechanisms.central.noisy_counts import NoisyCounts, PlannedModel
from sfumato.mechanisms.central.plan import MOST_CELLS, Plan
from sfumato.mechanisms.central.scoring import NoisyScores, ScoringModel, ScoringPlan
from sfumato.table import Encoding

AgreedPlan = Plan | ScoringPlan


def agreed_plan(found: Any, encoding: Encoding) -> AgreedPlan:
    """Read a plan of either kind for the columns of a schema; whatever does not fit is refused."""
    if not isinstance(found, Mapping) or found.get("format") != scoring.FORMAT:
        return Plan.from_dict(found, encoding)
    plan = ScoringPlan(encoding)
    if dict(found) != plan.to_dict():
        raise SchemaError(
            "The plan's scores are not those of the schema's columns. Make one with `sfumato study plan --scores`."
        )
    if plan.cells(1) > MOST_CELLS:
        raise SchemaError(f"The plan asks for more than {MOST_CELLS:,} figures: leave columns out of the study.")
    return plan


def model_under(plan: AgreedPlan, encoding: Encoding, budget: Budget, classes: int) -> PlannedModel | ScoringModel:
    """What a site fits."""
    if isinstance(plan, ScoringPlan):
        return ScoringModel(encoding, budget, classes, plan)
    return PlannedModel(encoding, budget, classes, plan)


def planned_measurements(plan: AgreedPlan, budget: Budget) -> list[Measurement]:
    """What a site's card must state that measured under this plan with this budget."""
    return (
        plan.measurements(budget) if isinstance(plan, ScoringPlan) else noisy_counts.planned_measurements(plan, budget)
    )


def noisy_figures(
    plan: AgreedPlan, classes: int, cells: Codes, measured: Sequence[Measurement]
) -> NoisyCounts | NoisyScores:
    """What a site pushed, with the noise that its card states."""
    if isinstance(plan, ScoringPlan):
        return NoisyScores(plan, classes, cells, scoring.variances_of_scores(measured))
    return NoisyCounts(plan, classes, cells, noisy_counts.variances_of(measured))
