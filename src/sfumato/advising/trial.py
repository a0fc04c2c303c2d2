"""Rows to try settings on: those that are released in a trial, those that test it, and what plain rows would give.

A choice is made on one half of the table, or of released rows, and confirmed on the other.
"""

from __future__ import annotations

import contextlib
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.advising.wish import Candidate, Wish, why_not
from sfumato.attacks import ATTACKS
from sfumato.attacks.metrics.privacy import proportion_interval
from sfumato.auditing.asked import AuditAsked
from sfumato.auditing.attacking import attack_all
from sfumato.auditing.extra import Points, points_of
from sfumato.auditing.open_case import open_case
from sfumato.core.array_types import Codes, Matrix
from sfumato.core.errors import SfumatoError, TableError
from sfumato.guarantee.guarantee import EMPIRICAL, finite
from sfumato.learn.classifiers.factory import CLASSIFIERS, make_classifier
from sfumato.learn.classifiers.reads_noise import Part
from sfumato.learn.classifiers.training import AS_THEY_ARE, fit_on_parts, learners_for
from sfumato.learn.train import train
from sfumato.release.release import Release
from sfumato.release.sanitize import Options, sanitize_in_memory
from sfumato.release.strength import TABLE
from sfumato.table import Encoding, Schema

QUICK = tuple(name for name in AS_THEY_ARE if name != "boosting")
"""Enough to compare settings with; the forecast is measured against all of them."""
TEST_SHARE = 0.3
MOST_TRAINED = 4_000
"""Rows that the learners of the ceiling get: more would take long, and change little."""
FEWEST = 40
MOST_ROWS = 20_000  # of a larger table a sample is looked at
FOLDS = 2
LARGE, WIDE = 1_000, 100  # from this many rows or columns on one split is enough


@dataclass(frozen=True)
class Ground:
    """train: the rows that a trial releases. test: others, who are the control of attacks and the queries of learners.

    majority: how often the commonest class is right about them. ceiling: what the best usual learner reaches that was
    trained on the rows as they are. numbers: of the rows of `train` in the private table, where they are wanted.
    """

    schema: Schema
    train: pa.Table
    test: pa.Table
    majority: float
    ceiling: float
    numbers: Codes | None = None

    @classmethod
    def of(cls, schema: Schema, train: pa.Table, test: pa.Table, learners: Sequence[str] = AS_THEY_ARE) -> Ground:
        """Measure majority and ceiling, the latter by these learners."""
        encoding = Encoding(schema)
        y, truth = encoding.encode_label(train), encoding.encode_label(test)
        assert y is not None
        assert truth is not None
        if len(np.unique(y)) < 2:
            raise TableError(
                "All rows are of the same class: there is nothing to learn. At least two classes are needed."
            )
        majority = float(np.mean(truth == np.bincount(y).argmax()))
        reached = _reached(encoding.encode(train).X, y, encoding.encode(test).X, truth, learners)
        return cls(schema, train, test, majority, max([majority, *reached]))


def _reached(X: Matrix, y: Codes, queries: Matrix, truth: Codes, learners: Sequence[str]) -> list[float]:
    rows = np.random.default_rng(0).permutation(len(y))[:MOST_TRAINED]
    part = Part(X[rows], y[rows])
    found = []
    with warnings.catch_warnings(action="ignore"):
        for name in (one for one in learners if one in CLASSIFIERS):
            with contextlib.suppress(SfumatoError, ValueError):  # rows that it cannot learn from: others can
                fitted = fit_on_parts(make_classifier(name), [part])
                found.append(float(np.mean(np.asarray(fitted.predict(queries)) == truth)))
    return found


def trial_schema(schema: Schema) -> Schema:
    """The columns that are released, without identifiers: who a row belongs to matters for the split alone."""
    return Schema(tuple(column for column in schema.columns if column.role in ("private", "label")))


def split(people: Sequence[object] | None, rows: int, shares: Sequence[float], rng: np.random.Generator) -> list[Codes]:
    """Row numbers in parts of about these shares; rows of one person stay together."""
    names = np.arange(rows) if people is None else np.array([str(one) for one in people])
    unit = np.unique(names, return_inverse=True)[1]
    order = rng.permutation(int(unit.max()) + 1 if rows else 0)
    part = np.empty(len(order), dtype=np.int64)
    part[order] = np.searchsorted(np.cumsum(shares)[:-1], (np.arange(len(order)) + 0.5) / max(1, len(order)), "right")
    return [np.flatnonzero(part[unit] == number) for number in range(len(shares))]


def sampled(rows: pa.Table, most: int, rng: np.random.Generator) -> Codes:
    """Numbers of the rows to look at: all of them, or so many; too few are refused."""
    if rows.num_rows < FEWEST:
        raise TableError(
            f"Trials need at least {FEWEST} rows: no accuracy that is measured on fewer means anything. This table has "
            f"{rows.num_rows}."
        )
    if rows.num_rows <= most:
        return np.arange(rows.num_rows)
    return np.sort(rng.choice(rows.num_rows, most, replace=False))


def in_parts(rows: pa.Table, schema: Schema, shares: Sequence[float], rng: np.random.Generator) -> list[Codes]:
    """Row numbers of a table in parts of about these shares, where the schema says whose row each is."""
    people = None if schema.person is None else rows[schema.person.name].to_pylist()
    return split(people, rows.num_rows, shares, rng)


@dataclass(frozen=True)
class Grounds:
    """choosing: where settings are compared. confirming: where the chosen one is measured, with the rows that learners
    get besides. `looked_at`: the private table, or released rows. rows: how many the real release has.
    model: what released rows were drawn from, where the owner's ledger charged them and their proof; without it a
    choice here tells something of private rows that no ledger has counted.
    """

    looked_at: str
    choosing: tuple[Ground, ...]
    confirming: tuple[Ground, ...]
    besides: pa.Table | None
    rows: int
    model: str | None = None


def of_table(rows: pa.Table, schema: Schema, seed: int, looked_at: str = TABLE) -> Grounds:
    """Half of the people to choose on, the others to confirm on; of the private table, or of released rows."""
    rng, shown, whole = np.random.default_rng(seed), trial_schema(schema), rows.num_rows
    rows = rows.take(sampled(rows, MOST_ROWS, rng))

    def ground(some: pa.Table, test: Codes, learners: Sequence[str] = AS_THEY_ARE) -> Ground:
        shown_rows, others = some.select(shown.names), np.setdiff1d(np.arange(some.num_rows), test)
        return Ground.of(shown, shown_rows.take(others), shown_rows.take(test), learners)

    first, second = (rows.take(part) for part in in_parts(rows, schema, (0.5, 0.5), rng))
    once = second.num_rows >= LARGE or len(shown.columns) >= WIDE
    tests = [in_parts(first, schema, (1.0 - TEST_SHARE, TEST_SHARE), rng)[1] for _ in range(1 if once else 2)]
    choosing = tuple(ground(first, test, QUICK) for test in tests)
    folds = in_parts(second, schema, (TEST_SHARE, 1.0 - TEST_SHARE) if once else (1.0 / FOLDS,) * FOLDS, rng)
    confirming = tuple(ground(second, fold) for fold in (folds[:1] if once else folds))
    return Grounds(looked_at, choosing, confirming, first.select(shown.names), whole)


# Try one setting on a ground: how many more of 100 attackers get right, and how often learners still are.

SLOW = frozenset({"boosting", "forest", "knn"})
"""Learners that take too long to be tried at every step of a search."""
AUTO = "auto"
NO_LEARNER = "no learner can be trained on such a release"
NEEDS_TRUTH = "the best of its guesses is chosen by the truth, which no attacker has"
MOST_EXPOSED = 10


@dataclass(frozen=True)
class Outcome:
    """extras: of every attacker that applies, in points of 100. reached: how often every learner that was tried is
    right. kind, epsilon (for anybody's values) and presence: what is proved of such a release; `conditional`, also for
    values, would hold if nothing had been learned from the table, and `presence` then as well."""

    extras: Mapping[str, Points]
    reached: Mapping[str, float]
    tested: int
    ceiling: float
    majority: float
    kind: str
    epsilon: float | None
    delta: float | None = None
    conditional: float | None = None
    presence: float | None = None
    """Of made-up rows: the epsilon for the presence of one record, which is less than that for values."""
    chosen: str = ""
    """The learner that `auto` took."""
    not_applicable: Mapping[str, str] = field(default_factory=dict)
    untrained: Mapping[str, str] = field(default_factory=dict)
    """Why other learners could not be."""
    columns: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """The extra in each column of every attacker that wants values."""
    exposed: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """For every attacker the records that it tells most about, worst first, as places among the released rows."""

    @property
    def stated(self) -> float | None:
        """Epsilon for values, whether it is proved or would hold if nothing had been learned from the table."""
        return self.conditional if self.epsilon is None else self.epsilon

    @property
    def strongest(self) -> str | None:
        """The attacker who gets most extra."""
        return max(self.extras, key=lambda name: self.extras[name].extra, default=None)

    @property
    def best(self) -> str | None:
        """The learner that is right most often."""
        return max(self.reached, key=lambda name: self.reached[name], default=None)

    @property
    def learner(self) -> str:
        return self.chosen if self.best == AUTO else self.best or ""

    @property
    def accuracy(self) -> float:
        return math.nan if self.best is None else self.reached[self.best]

    @property
    def untried(self) -> list[str]:
        """Risks that no attacker could try, of those that some were asked to."""
        tried = {ATTACKS[name].risk for name in self.extras if name in ATTACKS}
        return sorted({ATTACKS[name].risk for name in self.not_applicable if name in ATTACKS} - tried)

    @property
    def apart(self) -> bool:
        """Whether a risk was not tried, which is never 0: such a setting keeps no wish."""
        return not self.extras or bool(self.untried)

    @property
    def risk(self) -> float:
        """The largest extra, as a share and never below 0; 1 where a risk could not be tried."""
        return 1.0 if self.apart else max(0.0, *(points.extra / 100.0 for points in self.extras.values()))

    @property
    def widest(self) -> str | None:
        """The attacker who may get most extra, by the upper end of the interval."""
        return max(self.extras, key=lambda name: self.extras[name].high, default=None)

    @property
    def risk_at_most(self) -> float:
        """The upper end of the largest extra, which is all that so few rows can promise."""
        return 1.0 if self.apart else max(0.0, *(points.high / 100.0 for points in self.extras.values()))

    @property
    def interval(self) -> tuple[float, float]:
        """95%, of the accuracy (Wilson)."""
        low, high = proportion_interval(round((1.0 - self.accuracy) * self.tested), self.tested)
        return 1.0 - float(high), 1.0 - float(low)

    @property
    def loss(self) -> float:
        return max(0.0, self.ceiling - self.accuracy)

    @property
    def loss_at_most(self) -> float:
        """The upper end of the loss."""
        return max(0.0, self.ceiling - self.interval[0])

    @property
    def of_use(self) -> bool:
        """Whether the whole interval of the accuracy lies above the commonest class."""
        return self.interval[0] > self.majority

    @property
    def gains(self) -> dict[str, tuple[float, float, float]]:
        """By attacker, the gain and its interval as 0.2 reported them: of pairs twice the extra, none below 0."""
        found = {}
        for name, points in self.extras.items():
            told = [one / 100.0 for one in (points.extra, points.low, points.high)]
            first, low, high = (max(0.0, 2.0 * one) for one in told) if points.pairs else told
            found[name] = first, low, high
        return found


@dataclass(frozen=True)
class Trial:
    """How a setting is tried. learners: those to train, and by default those that `auto` would choose from and that
    are quick. attacks: by default all; attacked: rows that they are tried on. besides: rows that learners are given as
    well, released with the others; they are not attacked. needs_learner: whether it is an error where none can be
    trained; otherwise the accuracy is no number."""

    learners: Sequence[str] | None = None
    attacks: tuple[str, ...] | None = None
    attacked: int = 300
    besides: pa.Table | None = None
    needs_learner: bool = True


def trial(
    ground: Ground, mechanism: str, parameters: Mapping[str, Any], seed: int, how: Trial | None = None
) -> Outcome:
    """Release in memory without a mark anywhere, attack, and learn. Raises what a release of this kind would raise."""
    how = how or Trial()
    with warnings.catch_warnings(action="ignore"):
        options = Options(mechanism=mechanism, parameters=parameters, schema=ground.schema, trial=seed)
        release = sanitize_in_memory(ground.train, options)
        attacked = _attacked(release, ground, how, seed)
        if how.besides is not None:
            release = sanitize_in_memory(pa.concat_tables([ground.train, how.besides]), options)
        learned, untrained = _learned(release, ground, how)
    alone = release.card.all_releases().alone
    proved = alone.kind != EMPIRICAL
    epsilon, presence = finite(alone.stated.epsilon), None if alone.central is None else finite(alone.central.epsilon)
    return Outcome(
        **attacked,
        reached={name: right for name, (right, _) in learned.items()},
        chosen=learned[AUTO][1] if AUTO in learned else "",
        tested=ground.test.num_rows,
        ceiling=ground.ceiling,
        majority=ground.majority,
        kind=alone.kind,
        epsilon=epsilon if proved else None,
        delta=alone.stated.delta or None,
        conditional=None if proved else epsilon,
        presence=presence,
        untrained=untrained,
    )


def _learned(release: Release, ground: Ground, how: Trial) -> tuple[dict[str, tuple[float, str]], dict[str, str]]:
    """How often each learner is right and who it was, and why others could not be trained."""
    learners = how.learners
    if not learners and release.y is not None:
        possible = learners_for([Part.of_card(release.Z, release.y, release.card)])
        learners = [name for name in possible if name not in SLOW]
    learned, untrained = {}, {}
    for name in learners or ():
        try:
            model = train(release, classifier=name)
            found = model.evaluate(ground.test, key=release.key)
        except (SfumatoError, ValueError, np.linalg.LinAlgError) as error:
            untrained[name] = why_not(error)
        else:
            learned[name] = 1.0 - found.error, str(getattr(model.classifier, "chosen_", name))
    if not learned and how.needs_learner:
        reasons = "; ".join(f"{name}: {why}" for name, why in untrained.items())
        raise TableError(f"no learner can be trained on such a release ({reasons})" if reasons else NO_LEARNER)
    return learned, untrained


def _attacked(release: Release, ground: Ground, how: Trial, seed: int) -> dict[str, dict[str, Any]]:
    """By attacker the extras, columns and exposed records, and why others do not apply. Whoever shares the key of a
    release is an attacker."""
    options = AuditAsked(
        original=ground.train, holdout=ground.test, max_rows=max(2, how.attacked), seed=seed, attacks=how.attacks
    )
    case = open_case(release, options, np.random.default_rng(seed))
    told: dict[str, dict[str, Any]] = {name: {} for name in ("extras", "columns", "exposed", "not_applicable")}
    for found in attack_all(case):
        scored, name, points = found.scored, found.name, points_of(found.to_dict())
        if scored is None or points is None:
            failed = NEEDS_TRUTH if scored is not None else f"failed ({found.failed})"
            told["not_applicable"][name] = found.not_applicable or failed
        else:
            told["extras"][name] = points
            told["columns"][name] = {one["name"]: 100.0 * (one["score"] - one["baseline"]) for one in scored.columns}
            told["exposed"][name] = found.exposed(case)[:MOST_EXPOSED]
    return told


def averaged(outcomes: Sequence[Outcome]) -> Outcome:
    """The mean of several trials of one setting; test rows add up. Attackers, learners and columns are those of every
    trial: the best learner of each trial alone would be chosen by its own test rows."""
    first = outcomes[0]
    attackers = [name for name in first.extras if all(name in one.extras for one in outcomes)]

    def mean(name: str) -> Points:
        return replace(Points(**_means([vars(one.extras[name]) for one in outcomes])), pairs=first.extras[name].pairs)

    return replace(
        first,
        extras={name: mean(name) for name in attackers},
        reached=_means([one.reached for one in outcomes]),
        columns={name: _means([one.columns[name] for one in outcomes]) for name in attackers},
        exposed={name: _most_often([one.exposed[name] for one in outcomes]) for name in attackers},
        tested=sum(one.tested for one in outcomes),
        **_means([{"ceiling": one.ceiling, "majority": one.majority} for one in outcomes]),
        not_applicable=_reasons([one.not_applicable for one in outcomes]),
        untrained=_reasons([one.untrained for one in outcomes]),
    )


def _means(several: Sequence[Mapping[str, float]]) -> dict[str, Any]:
    """Of the figures that all of them have."""
    names = [name for name in several[0] if all(name in one for one in several)]
    return {name: float(np.mean([one[name] for one in several])) for name in names}


def _reasons(several: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Of several reasons for the same the first."""
    return {name: why for found in reversed(several) for name, why in found.items()}


def _most_often(several: Sequence[Sequence[int]]) -> list[int]:
    """Records that are among the worst of most trials first; then by how bad they are."""
    places: dict[int, list[int]] = {}
    for found in several:
        for place, record in enumerate(found):
            places.setdefault(record, []).append(place)
    return sorted(places, key=lambda one: (-len(places[one]), min(places[one]), one))[:MOST_EXPOSED]


# Look for the strength at which a candidate keeps a wish, by bisection on the logarithm of its knob.

STEPS = 5
ABOUT = 0.05  # differences below this are within what a trial can tell apart


@dataclass(frozen=True)
class Setting:
    """A candidate at an openness, and what was measured there."""

    candidate: Candidate
    openness: float
    outcome: Outcome

    @property
    def parameters(self) -> dict[str, Any]:
        return self.candidate.parameters(self.openness)

    def rank(self, wish: Wish) -> tuple[float, ...]:
        """To sort by, largest first. Where two are about as good, one with a bound comes before one without."""
        found = self.outcome
        good, then = wish.better(found.risk_at_most, found.loss_at_most)
        bounded = float(found.epsilon is not None) + 0.5 * float(found.conditional is not None)
        return float(not found.apart), round(good / ABOUT), round(then / ABOUT), bounded, good, then


def keeps(found: Outcome, wish: Wish) -> bool:
    """Whether it is within the wish with every interval, every risk was tried, and the epsilon asked for is proved."""
    return proves(found, wish) and not found.apart and wish.keeps(found.risk_at_most, found.loss_at_most)


def proves(found: Outcome, wish: Wish) -> bool:
    """Whether it proves what was asked for. A figure that rounding lifted a hair above the wish will do."""
    return wish.epsilon is None or (found.epsilon is not None and found.epsilon <= wish.epsilon * (1 + 1e-6))


def search(
    candidate: Candidate, wish: Wish, measure: Callable[[dict[str, Any]], Outcome], steps: int = STEPS
) -> list[Setting]:
    """Every setting that was measured, the best first."""
    found: dict[float, Setting] = {}
    refusals: list[SfumatoError] = []

    def at(openness: float) -> Outcome:
        openness = round(openness, 6)
        if openness not in found:
            found[openness] = Setting(candidate, openness, measure(candidate.parameters(openness)))
        return found[openness].outcome

    def last(holds: Callable[[float], bool], *, less_open: bool = False) -> None:
        """Bisect for about the largest number in [0, 1] for which `holds`, which holds below it.

        A strength that the mechanism refuses is too open: the search goes on towards `less_open`.
        """
        low, high = 0.0, 1.0
        for _ in range(steps):
            middle = (low + high) / 2.0
            try:
                kept = holds(middle)
            except SfumatoError as error:
                refusals.append(error)
                kept = less_open
            low, high = (middle, high) if kept else (low, middle)

    risk, loss = wish.max_risk, wish.max_loss
    if wish.epsilon is not None or (risk is None and loss is None):
        at(1.0)  # the whole epsilon: what it is there for
    if risk is not None and loss is not None:  # most room is where both have the same left
        last(lambda u: risk - at(u).risk_at_most >= loss - at(u).loss_at_most)
    elif risk is not None:
        last(lambda u: at(u).risk_at_most <= risk)
    elif loss is not None:
        last(lambda u: at(1.0 - u).loss_at_most <= loss, less_open=True)
    if not found and refusals:
        raise refusals[-1]
    return sorted(found.values(), key=lambda one: one.rank(wish), reverse=True)
