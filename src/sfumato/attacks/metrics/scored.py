"""What a scored guess is, what it is scored against, and the guess of an attacker who never saw the release."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from sfumato.attacks.base import Abstain, Knowledge, Posteriors, Secrets, Values, promised, truths
from sfumato.attacks.column_beliefs import FEWEST, label_likelihood
from sfumato.attacks.known_rows import KnownRows
from sfumato.attacks.metrics import privacy
from sfumato.attacks.support import TOLERANCE, half_width
from sfumato.core.array_types import Codes, Flags, Matrix
from sfumato.table import Encoding, Group
from sfumato.table.neighbours.nearest import nearest


class Hits(NamedTuple):
    """Source-hit rate and its interval."""

    rate: float
    interval: privacy.Interval


def source_hit_rate(released: Matrix, originals: Matrix, source: Codes) -> Hits:
    """Share of released rows whose nearest original row is the one they were drawn from; lower is safer.

    Distances are Euclidean over all columns as they are given; an identical twin of the source counts as the source.
    """
    _, index = nearest(np.ascontiguousarray(released), np.ascontiguousarray(originals), k=1)
    right = privacy.same_rows(originals[index[:, 0]], originals[source])
    return Hits(float(right.mean()), privacy.proportion_interval(float(right.sum()), len(right)))


class HardInterval(NamedTuple):
    """Where a source row lies for certain (people x columns), and how many released rows say so."""

    low: Matrix
    high: Matrix
    draws: Codes

    @property
    def widths(self) -> Matrix:
        """Width of every interval; NaN for people who were never drawn."""
        return self.high - self.low


def hard_interval(released: Matrix, source: Codes, people: int, widths: Matrix) -> HardInterval:
    """The box in which each person's row lies *with certainty*, by a kernel of half-widths h; wider is safer.

    One draw z leaves [z - h, z + h]; draws that are known to come from the same person leave the intersection,
    [max z - h, min z + h], which shrinks with their number. `widths` is h per column, or per released row and column.
    People of whom no row was drawn have NaN: nothing is known for certain of them.
    """
    low, high = np.full((people, released.shape[1]), -np.inf), np.full((people, released.shape[1]), np.inf)
    np.maximum.at(low, source, released - widths)
    np.minimum.at(high, source, released + widths)
    draws = np.bincount(source, minlength=people)
    low[draws == 0], high[draws == 0] = np.nan, np.nan
    return HardInterval(low, high, draws.astype(np.int64))


@dataclass(frozen=True, kw_only=True)
class Truth(Knowledge):
    """All that an adversary could know, and what the owner alone knows; no adversary is ever given it.

    rows: the person behind each release row (n x d), in the order of the release; no number (NaN) where the row is
    no person's, and guesses about such rows are not scored. control_targets: whole records of people who are not in the
    table, whom the attack was aimed at too. members: of each candidate whether it is in the table. lineup: of every
    line-up the place of the person behind the row. share: which part of the records counts as "the worst". `sample` is
    the control; labels are those that people of the table are compared by.
    """

    rows: Matrix
    control_targets: Matrix | None = None
    members: Flags | None = None
    lineup: Codes | None = None
    share: float = 0.01

    @property
    def population(self) -> tuple[Matrix, Codes | None]:
        """Rows from which the baseline learns what is usual, people outside the table where there are any; classes."""
        if self.sample is not None and len(self.sample):
            return self.sample, self.sample_labels
        owned = ~np.isnan(self.rows).any(axis=1)
        # Where rows are made up, released classes are not those of the people, nor as many.
        labelled = self.labels is not None and len(self.labels) == len(self.rows)
        return self.rows[owned], promised(self.labels)[owned] if labelled else None


@dataclass(frozen=True)
class ScoredGuess:
    """Success of one attack, in [0, 1]; higher is worse for privacy in `score`, `worst` and each column's `score`.

    baseline: the same score for an attacker who never saw the release. control: the same score on people who were not
    in the table (None where it has no meaning). interval: 95%, of `score`. worst: see the scorer. riskiest: positions
    of the records (release rows, or targets) of whom the release adds most, worst first: private. upper_bound: the best
    of several guesses was taken (that of number `best`), for which the adversary would need the truth. chosen: by which
    of several means, and on whom that was decided, in words.
    """

    score: float
    baseline: float
    interval: privacy.Interval
    worst: float
    control: float | None = None
    riskiest: tuple[int, ...] = ()
    columns: tuple[dict[str, Any], ...] = ()
    details: dict[str, float] = field(default_factory=dict)
    upper_bound: bool = False
    chosen: str = ""
    best: int = 0


def scored_columns(
    told: Matrix | Flags, unseen: Matrix | Flags, share: float, *, behind: Matrix | float = 0.0, **more: Any
) -> ScoredGuess:
    """The score of what is told of each record's columns (records x columns), beside what is without the release.

    worst: mean share of columns told among the worst `share` of records. riskiest: those of whom the release adds most;
    `behind` is taken off where that is to settle which of equal ones come first. `more`: the other fields.
    """
    risk = told.mean(axis=1)
    added = risk - unseen.mean(axis=1)
    riskiest = privacy.worst_records(added - behind, share)
    return ScoredGuess(
        score=float(told.mean()),
        baseline=float(unseen.mean()),
        interval=privacy.mean_interval(risk),
        worst=_worst_share(told, share),
        riskiest=tuple(riskiest[added[riskiest] > 0].tolist()),
        **more,
    )


def unseen_guess(truth: Truth, labels: Codes | None, rows: int) -> Matrix:
    """The baseline's guess (rows x d): the usual one among people of the class that the label tells.

    Everything but the release is known, and the label stands beside it. Without labels all rows have the same guess.
    """
    found = np.empty((rows, truth.encoding.width))
    for here, people, weights in by_class(truth, labels, rows):
        found[here] = usual_guess(people, truth.encoding, truth.tolerance, weights)
    return found


def by_class(truth: Truth, labels: Codes | None, rows: int) -> Iterator[tuple[Flags, Matrix, Matrix]]:
    """Rows whose label is the same, people of the population who may have it, and how likely each has."""
    population, classes = truth.population
    if labels is None or classes is None:
        yield np.ones(rows, dtype=bool), population, np.ones(len(population))
        return
    count = max(len(truth.encoding.classes), int(classes.max(initial=0)) + 1, 2)
    for code in np.unique(labels).tolist():
        weights = np.exp(label_likelihood(classes == code, truth.label_keep, count))
        if np.count_nonzero(weights) < FEWEST:  # all people stand for a class that hardly anybody has
            weights = np.ones(len(weights))
        yield labels == code, population[weights > 0], weights[weights > 0]


def usual_guess(
    population: Matrix, encoding: Encoding, tolerance: float = TOLERANCE, weights: Matrix | None = None
) -> Matrix:
    """The one encoded row that is right about most people: the baseline's guess for everybody.

    A number: the middle of the window of half width `tolerance` that holds most people, which is never worse than the
    mean or the median. A category: the most frequent. A column that may be missing: "missing" where more are.
    """
    counted = np.ones(len(population)) if weights is None else weights
    halves = [(group, half_width(group, tolerance)) for group in encoding.groups]
    return np.concatenate([_usual(population[:, group.slice], group, half, counted) for group, half in halves])


def _usual(slots: Matrix, group: Group, half: float, weights: Matrix) -> Matrix:
    if group.is_onehot:
        counts = np.bincount(slots.argmax(axis=1), weights=weights, minlength=slots.shape[1])
        return np.asarray(np.eye(slots.shape[1])[counts.argmax()])
    there = slots[:, 1] < 0.5 if group.has_indicator else np.ones(len(slots), dtype=bool)
    order = np.argsort(slots[there, 0], kind="stable")
    values = slots[there, 0][order]
    if not len(values):
        return np.array([0.5, 1.0]) if group.has_indicator else np.array([0.5])
    up_to = np.concatenate([[0.0], np.cumsum(weights[there][order])])
    last = np.searchsorted(values, values + 2 * half, "right")
    inside = up_to[last] - up_to[:-1]
    first = int(inside.argmax())
    best = np.array([(values[first] + values[last[first] - 1]) / 2])
    if not group.has_indicator:
        return best
    missing = float(weights[~there].sum())
    return np.array([0.5, 1.0]) if missing > inside[first] else np.append(best, 0.0)


def recovery_curve(
    known: Knowledge, truth: Truth, counts: Sequence[int] | None = None, kept: Codes | None = None
) -> dict[int, float]:
    """Share of values that `KnownRows` tells with so many known rows, by number of rows; lower is safer.

    Counts are 1, d/2 and d + 1 by default, as far as there are known rows. Always the same people are scored: `kept`
    (release rows), by default everybody but the known ones.
    """
    if known.known_rows is None:
        return {}
    most, d = len(known.known_rows.index), known.encoding.width
    if counts is None:
        counts = (1, max(d // 2, 1), d + 1)
    if kept is None:
        kept = np.setdiff1d(np.arange(len(known.release)), known.known_rows.index)
    curve = {}
    for count in sorted({count for count in counts if 1 <= count <= most}):
        guess = KnownRows(rows=count).run(known).X[kept]  # type: ignore[attr-defined]
        curve[count] = float(privacy.breaches(truth.rows[kept], guess, truth.encoding, truth.tolerance).mean())
    return curve


PAIRINGS, ENOUGH = 5, 200_000
"""Each release row is compared with so many random people of the control table, or fewer where these are enough."""


def score_values(guess: Values, truth: Truth) -> ScoredGuess:
    """Mean over private source columns of the share of records whose value is told (`privacy.learned`).

    baseline: the same for `unseen_guess`. control: the same guesses compared with random people who were not in the
    table: what the guess says about anybody. worst: mean share of columns told among the worst 1% of records.
    """
    best, X, hits, own = _best_of(guess, truth)
    estimate = guess.X if best == 0 else X
    usual = unseen_guess(truth, truth.labels, len(X))
    unseen = privacy.breaches(truth.rows, usual, truth.encoding, truth.tolerance)
    control = _against_strangers(X, truth)
    return scored_columns(
        hits,
        unseen,
        truth.share,
        behind=1e-3 * np.abs(estimate - truth.rows).mean(axis=1),
        control=None if control is None else float(control.mean()),
        columns=tuple(
            _column(group, hits[:, i], unseen[:, i], None if control is None else float(control[i]))
            | _errors(truth, group, estimate[:, group.slice])
            for i, group in enumerate(truth.encoding.groups)
        ),
        details={
            "worst_baseline": _worst_share(unseen, truth.share),
            **_unified(estimate, truth),
            **guess.details,
            **({"own_choice": own} if guess.candidates else {}),
        },
        upper_bound=bool(guess.candidates),
        best=best,
    )


def _column(group: Group, told: Flags, unseen: Flags, control: float | None) -> dict[str, Any]:
    """What is told of one column, and what it is read against."""
    shares = {"score": float(told.mean()), "baseline": float(unseen.mean()), "control": control}
    return {"name": group.column.name, **shares}


def _best_of(guess: Values, truth: Truth) -> tuple[int, Matrix, Flags, float]:
    """The number of the guess that tells most (its own is 0), the guess, what it tells, and what share its own does.
    Equal scores are settled by the smaller error, so that the columns show the closest guess."""

    def error(X: Matrix) -> float:
        return float(((X - truth.rows) ** 2).mean())

    best, share, own = None, -1.0, 0.0
    for number, X in enumerate(guess.scored):
        hits = privacy.breaches(truth.rows, X, truth.encoding, truth.tolerance)
        right = float(hits.mean())
        if best is None:
            own = right
        elif right < share or (right == share and error(X) >= error(best[1])):
            continue
        best, share = (number, X, hits), right
    assert best is not None
    return *best, own


def _unified(X: Matrix, truth: Truth) -> dict[str, float]:
    """Unified privacy of [random-rotation]: VoD, weighted and capped; and sigma, unweighted and uncapped as published.
    Unlike a score, larger is safer. Left out where all columns are constant."""
    groups = truth.encoding.groups
    spreads = np.array([privacy.column_spread(truth.rows, X, group) for group in groups])
    capped = privacy.unified_privacy(spreads.min(axis=1), [group.column.weight for group in groups])
    sigma = privacy.unified_privacy(np.sqrt(spreads[:, 0]))
    if np.isnan(capped.minimum):
        return {}
    return {
        "unified_min": capped.minimum,
        "unified_avg": capped.average,
        "sigma_min": sigma.minimum,
        "sigma_avg": sigma.average,
    }


def _errors(truth: Truth, group: Group, slots: Matrix) -> dict[str, Any]:
    """Errors of a number in raw units and over its range; None for categories, and where every value is missing."""
    original = truth.rows[:, group.slice]
    there = original[:, 1] < 0.5 if group.has_indicator else np.ones(len(original), dtype=bool)
    if group.is_onehot or not there.any():
        return dict.fromkeys(("rmse", "rmse_of_mean", "interval_width", "vod", "vod_of_mean"))
    x, y = original[there, :1], slots[there, :1]
    scale, variance = float(truth.encoding.scale[group.start]), float(x.var())
    return {
        "rmse": float(privacy.root_mean_square(x, y, scale)[0]),
        "rmse_of_mean": float(np.sqrt(variance) * scale),
        "interval_width": float(privacy.interval_width(x, y)[0]),
        "vod": min(float(privacy.variance_of_difference(x, y, cap=False)[0]), variance),
        "vod_of_mean": variance,
    }


def _against_strangers(X: Matrix, truth: Truth) -> Matrix | None:
    """Per column how often the guesses happen to be right about random people of the control table."""
    if truth.sample is None or not len(truth.sample):
        return None
    rng = np.random.default_rng(0)  # fixed: scoring twice gives the same figure
    rates = [
        privacy.breaches(truth.sample[rng.integers(len(truth.sample), size=len(X))], X, truth.encoding, truth.tolerance)
        for _ in range(min(PAIRINGS, -(-ENOUGH // len(X))))
    ]
    return np.asarray(np.mean([rate.mean(axis=0) for rate in rates], axis=0))


def _worst_share(hits: Matrix | Flags, share: float) -> float:
    risk = hits.mean(axis=1)
    return float(risk[privacy.worst_records(risk, share)].mean())


def score_secrets(
    guesses: Sequence[Secrets], truth: Truth, control_guesses: Sequence[Secrets] | None = None
) -> ScoredGuess | Abstain:
    """Mean over secret columns of the share of targets whose secret is told.

    baseline: `unseen_guess`. control: the same attack on people who were not in the table (`control_guesses` against
    `truth.control_targets`), which is what anybody can infer about such a person. worst: mean share of secrets told
    among the worst 1% of targets.
    """
    if truth.targets is None or not guesses:
        return Abstain("no target to score against")
    usual = unseen_guess(truth, truth.target_labels, len(truth.targets))
    hits, unseen = (np.empty((len(truth.targets), len(guesses)), dtype=bool) for _ in range(2))
    columns, controls = [], []
    aside = {guess.secret: guess.X for guess in control_guesses or ()}
    for number, guess in enumerate(guesses):
        group, control = truth.encoding.groups[guess.secret], None
        slots = group.slice
        hits[:, number] = privacy.learned(truth.targets[:, slots], guess.X, group, truth.tolerance)
        unseen[:, number] = privacy.learned(truth.targets[:, slots], usual[:, slots], group, truth.tolerance)
        if guess.secret in aside and truth.control_targets is not None:
            told = privacy.learned(truth.control_targets[:, slots], aside[guess.secret], group, truth.tolerance)
            control = float(told.mean())
            controls.append(control)
        columns.append(_column(group, hits[:, number], unseen[:, number], control))
    return scored_columns(
        hits,
        unseen,
        truth.share,
        control=float(np.mean(controls)) if controls else None,
        columns=tuple(columns),
        details={"worst_baseline": _worst_share(unseen, truth.share)},
    )


def score_posteriors(guess: Posteriors, truth: Truth) -> ScoredGuess | Abstain:
    """Share of records of which the release rightly moved some belief across a rho1-to-rho2 breach [Def. 1].

    Of the records that have a rare true property (or lack a common one) at all. An identical copy moves all of them;
    baseline: 0, a prior does not move by itself. control: the same beliefs held against random people who were not in
    the table. worst: the mean, over the worst 1% of records, of the highest posterior that a rare true property
    reached.
    """
    true = truths(guess.properties, truth.rows)
    moved, could = privacy.belief_moves(guess, true)
    eligible = _some(could)
    if not eligible.any():
        return Abstain(f"no record has a property with prior of at most {guess.rare:g}")
    hit = _some(moved & could)[eligible]
    told = np.where(true & (guess.prior <= guess.rare), guess.posterior, 0.0)
    highest = told.max(axis=1).clip(0.0, 1.0)  # posteriors sum to 1 up to rounding
    riskiest = privacy.worst_records(highest, truth.share)
    control = None
    if truth.sample is not None and len(truth.sample):
        picked = np.random.default_rng(0).integers(len(truth.sample), size=len(guess.posterior))
        strange, possible = privacy.belief_moves(guess, truths(guess.properties, truth.sample)[picked])
        control = float(_some(strange & possible)[_some(possible)].mean()) if possible.any() else None
    columns, behind = [], np.array([item.group for item in guess.properties])
    for number, group in enumerate(truth.encoding.groups):
        mine = behind == number
        here = _some(could[:, mine])
        if here.any():
            rate = float(_some(moved[:, mine])[here].mean())
            columns.append({"name": group.column.name, "score": rate, "baseline": 0.0})
    return ScoredGuess(
        score=float(hit.mean()),
        baseline=0.0,
        control=control,
        interval=privacy.proportion_interval(float(hit.sum()), len(hit)),
        worst=float(highest[riskiest].mean()),
        riskiest=tuple(riskiest.tolist()),
        columns=tuple(columns),
        details={"eligible": float(eligible.mean()), "largest_odds_ratio": _largest_odds_ratio(guess)},
    )


def _some(flags: Flags) -> Flags:
    """Per record whether any is true."""
    return np.asarray(flags.any(axis=1))


def _largest_odds_ratio(guess: Posteriors) -> float:
    """How many times the odds of any property rose: at most the release's amplification (1e300 stands for more)."""
    inside = (guess.prior > 0) & (guess.prior < 1)
    if not inside.any():
        return 1.0
    prior = np.clip(guess.prior[inside], 1e-12, 1 - 1e-12)
    after = np.clip(guess.posterior.max(axis=0)[inside], 0.0, 1.0)  # odds grow with the posterior
    with np.errstate(divide="ignore"):
        return float(min((after / (1 - after) / (prior / (1 - prior))).max(), 1e300))
