"""Try one setting on a ground: what the adversaries gain over the guesser, and what learners still reach."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from sfumato.attacks import ATTACKS
from sfumato.classifiers.auto import learners_for
from sfumato.classifiers.reads_noise import Rows
from sfumato.errors import SfumatoError, TableError
from sfumato.guarantee.guarantee import CENTRAL_DP, EMPIRICAL
from sfumato.jobs.advising.candidates import LONGEST_REASON
from sfumato.jobs.advising.ground import Ground
from sfumato.jobs.auditing.arena import set_up
from sfumato.jobs.auditing.attacking import aim_of, attack_all, chosen_attacks
from sfumato.jobs.auditing.read_folder import evidence_from_release
from sfumato.jobs.auditing.request import AuditRequest
from sfumato.jobs.evaluate import compare
from sfumato.jobs.progress import silent
from sfumato.jobs.release import Release
from sfumato.jobs.sanitize import Options, sanitize_in_memory
from sfumato.jobs.train import train_on

SLOW = frozenset({"boosting", "forest", "knn"})
"""Learners that take too long to be tried at every step of a search."""
AUTO = "auto"
NO_LEARNER = "no learner can be trained on such a release"
MOST_EXPOSED = 10


@dataclass(frozen=True)
class Outcome:
    """gains: of every adversary that applies, its score less that of the guesser who never saw the release. intervals:
    95%, of the gain. kind and epsilon: what the card of such a release says; `conditional` would hold if nothing had
    been learned from the table."""

    gains: Mapping[str, float]
    intervals: Mapping[str, tuple[float, float]]
    accuracy: float
    errors: int
    tested: int
    ceiling: float
    majority: float
    kind: str
    epsilon: float | None
    delta: float | None = None
    conditional: float | None = None
    learner: str = ""
    not_applicable: Mapping[str, str] = field(default_factory=dict)
    reached: Mapping[str, float] = field(default_factory=dict)
    """Accuracy of every learner that was tried."""
    untrained: Mapping[str, str] = field(default_factory=dict)
    """Why others could not be."""
    columns: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """What every adversary that wants values gains in each column."""
    exposed: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """For every adversary the records that it tells most about, worst first, as places among the released rows."""

    @property
    def strongest(self) -> str | None:
        """The adversary who gains most."""
        return max(self.gains, key=lambda name: self.gains[name], default=None)

    @property
    def untried(self) -> list[str]:
        """Risks that no adversary could try."""
        return untried(self.gains, self.not_applicable)

    @property
    def risk(self) -> float:
        """What the strongest gains, nobody less than nothing; all there is to gain where a risk could not be tried."""
        return 1.0 if self.untried or not self.gains else max(0.0, *self.gains.values())

    @property
    def loss(self) -> float:
        return max(0.0, self.ceiling - self.accuracy)


def untried(gains: Iterable[str], not_applicable: Iterable[str]) -> list[str]:
    """Which of the three risks none of the adversaries could try that were asked to."""
    tried = {ATTACKS[name].risk for name in gains if name in ATTACKS}
    return sorted({ATTACKS[name].risk for name in not_applicable if name in ATTACKS} - tried)


def trial(
    ground: Ground,
    mechanism: str,
    parameters: Mapping[str, Any],
    *,
    seed: int,
    learners: Sequence[str] | None = None,
    attacked: int = 300,
    attacks: tuple[str, ...] | None = None,
    besides: pa.Table | None = None,
    needs_learner: bool = True,
) -> Outcome:
    """Release in memory without a mark anywhere, attack, and learn. Raises what a release of this kind would raise.

    Without `learners` the best of those counts that `auto` would choose from and that are quick. `besides`: rows that
    learners are given as well, released with the others; they are not attacked. Where no learner can be trained that is
    an error, unless `needs_learner` is False: then the accuracy is no number.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        options = Options(mechanism=mechanism, parameters=parameters, schema=ground.schema, trial=seed)
        release = sanitize_in_memory(ground.train, options)
        attacked_by = _attacked(release, ground, attacked, seed, attacks)
        if besides is not None:
            release = sanitize_in_memory(pa.concat_tables([ground.train, besides]), options)
        tried = {name: _learned(release, ground, name) for name in learners or _quick(release)}
    untrained = {name: found for name, found in tried.items() if isinstance(found, str)}
    reached = [found for found in tried.values() if not isinstance(found, str)]
    if not reached and needs_learner:
        reasons = "; ".join(f"{name}: {why}" for name, why in untrained.items())
        raise TableError(f"no learner can be trained on such a release ({reasons})" if reasons else NO_LEARNER)
    accuracy, errors, tested, learner = max(reached, default=(math.nan, 0, 0, ""))
    guarantee = release.card.guarantee
    central, conditional = guarantee["central"] or {}, guarantee["conditional_epsilon"] or {}
    epsilon = central.get("epsilon") if guarantee["kind"] == CENTRAL_DP else guarantee["epsilon_record"]
    return Outcome(
        gains=attacked_by.gains,
        intervals=attacked_by.intervals,
        columns=attacked_by.columns,
        exposed=attacked_by.exposed,
        accuracy=accuracy,
        errors=errors,
        tested=tested,
        ceiling=ground.ceiling,
        majority=ground.majority,
        kind=guarantee["kind"],
        epsilon=epsilon,
        delta=central.get("delta"),
        conditional=conditional.get("record"),
        learner=learner,
        not_applicable=attacked_by.refused,
        reached={name: right for right, _, _, name in reached},
        untrained=untrained,
    )


class _Attacked(NamedTuple):
    gains: dict[str, float]
    intervals: dict[str, tuple[float, float]]
    columns: dict[str, dict[str, float]]
    exposed: dict[str, list[int]]
    refused: dict[str, str]


def _attacked(release: Release, ground: Ground, attacked: int, seed: int, attacks: tuple[str, ...] | None) -> _Attacked:
    """Gains, and why others do not apply. Whoever shares the key of a release is an adversary."""
    request = AuditRequest(ground.train, release=release, holdout=ground.test, max_rows=max(2, attacked), seed=seed)
    rng = np.random.default_rng(seed)
    arena = set_up(evidence_from_release(release, request, rng), request.tolerance, rng)
    told = _Attacked({}, {}, {}, {}, {})
    for found in attack_all(arena, chosen_attacks(attacks), {}, silent):
        scored, name = found.scored, found.name
        if scored is None:
            told.refused[name] = found.not_applicable or f"failed ({found.failed})"
        else:
            low, high = (float(end) - scored.baseline for end in scored.interval)
            told.gains[name], told.intervals[name] = float(scored.score) - scored.baseline, (low, high)
            told.columns[name] = {one["name"]: float(one["score"] - one["baseline"]) for one in scored.columns}
            worst = np.array(scored.riskiest, dtype=np.int64)
            records = arena.records(aim_of(found.guess), worst) if len(worst) else worst
            told.exposed[name] = list(dict.fromkeys(records.tolist()))[:MOST_EXPOSED]
    return told


def _quick(release: Release) -> list[str]:
    if release.y is None:
        return []
    rows = Rows(release.Z, release.y, release.card.made_by(), release.card.label_keep)
    return [name for name in learners_for([rows]) if name not in SLOW]


def _learned(release: Release, ground: Ground, name: str) -> tuple[float, int, int, str] | str:
    """Accuracy, errors, tested rows and who it was; or why it cannot be trained."""
    try:
        model = train_on([release], name)
        found = compare(model, ground.test, key=release.key)
    except SfumatoError as error:
        return str(error)[:LONGEST_REASON]
    except (ValueError, np.linalg.LinAlgError) as error:  # its text might quote a cell of the table
        return f"it failed on these rows ({type(error).__name__})"
    chosen = getattr(model.classifier, "chosen_", name)
    return 1.0 - found.error, found.errors, found.rows, str(chosen)


def voided(found: Outcome) -> Outcome:
    """The same where the choice looked at the private rows: a proof holds only conditionally then."""
    if found.kind == EMPIRICAL:
        return found
    return replace(found, kind=EMPIRICAL, epsilon=None, conditional=found.epsilon)


def averaged(outcomes: Sequence[Outcome]) -> Outcome:
    """The mean of several trials of one setting; test rows add up."""
    first = outcomes[0]
    names = [name for name in first.gains if all(name in one.gains for one in outcomes)]

    def mean(values: Sequence[float]) -> float:
        return float(np.mean(values))

    return Outcome(
        gains={name: mean([one.gains[name] for one in outcomes]) for name in names},
        intervals={
            name: (
                mean([one.intervals[name][0] for one in outcomes]),
                mean([one.intervals[name][1] for one in outcomes]),
            )
            for name in names
        },
        accuracy=mean([one.accuracy for one in outcomes]),
        errors=sum(one.errors for one in outcomes),
        tested=sum(one.tested for one in outcomes),
        ceiling=mean([one.ceiling for one in outcomes]),
        majority=mean([one.majority for one in outcomes]),
        kind=first.kind,
        epsilon=first.epsilon,
        delta=first.delta,
        conditional=first.conditional,
        learner=first.learner,
        not_applicable=merged([one.not_applicable for one in outcomes]),
    )


def merged(reasons: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """The first reason of each that has any."""
    found: dict[str, str] = {}
    for one in reasons:
        found = {**one, **found}
    return found
