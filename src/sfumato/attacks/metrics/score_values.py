"""Scores of guesses about private values: value by value, secret by secret, belief by belief."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sfumato.attacks.base import Abstain, Posteriors, Secrets, Values
from sfumato.attacks.guesses import truths
from sfumato.attacks.metrics.privacy import (
    belief_moves,
    breaches,
    interval_width,
    learned,
    mean_interval,
    proportion_interval,
    root_mean_square,
    variance_of_difference,
    worst_records,
)
from sfumato.attacks.metrics.scored import ScoredGuess, Truth, unseen_guess
from sfumato.attacks.metrics.unified import column_privacy, unified_privacy
from sfumato.core.array_types import Flags, Matrix
from sfumato.table import Group

PAIRINGS, ENOUGH = 5, 200_000
"""Each release row is compared with so many random people of the control table, or fewer where these are enough."""


def score_values(guess: Values, truth: Truth) -> ScoredGuess:
    """Mean over private source columns of the share of records whose value is told (`privacy.learned`).

    baseline: the same for `unseen_guess`. control: the same guesses compared with random people who were not in the
    table: what the guess says about anybody. worst: mean share of columns told among the worst 1% of records.
    """
    guesses = guess.scored
    told = [breaches(truth.rows, X, truth.encoding, truth.tolerance) for X in guesses]
    # Equal scores are settled by the smaller error, so that the columns show the closest guess.
    best = max(range(len(told)), key=lambda i: (told[i].mean(), -float(((guesses[i] - truth.rows) ** 2).mean())))
    X, hits = guesses[best], told[best]
    estimate = guess.X if best == 0 else X
    usual = unseen_guess(truth, truth.labels, len(X))
    unseen = breaches(truth.rows, usual, truth.encoding, truth.tolerance)
    control = _against_strangers(X, truth)
    risk = hits.mean(axis=1)
    error = np.abs(estimate - truth.rows).mean(axis=1)
    added = risk - unseen.mean(axis=1)
    riskiest = worst_records(added - 1e-3 * error, truth.share)
    return ScoredGuess(
        score=float(hits.mean()),
        baseline=float(unseen.mean()),
        control=None if control is None else float(control.mean()),
        interval=mean_interval(risk),
        worst=_worst_share(hits, truth.share),
        riskiest=tuple(riskiest[added[riskiest] > 0].tolist()),
        columns=tuple(
            {
                "name": group.column.name,
                "score": float(hits[:, i].mean()),
                "baseline": float(unseen[:, i].mean()),
                "control": None if control is None else float(control[i]),
                **_errors(truth, group, estimate[:, group.start : group.stop]),
            }
            for i, group in enumerate(truth.encoding.groups)
        ),
        details={
            "worst_baseline": _worst_share(unseen, truth.share),
            **_unified(estimate, truth),
            **guess.details,
        },
        upper_bound=bool(guess.candidates),
    )


def _unified(X: Matrix, truth: Truth) -> dict[str, float]:
    """Unified privacy of [random-rotation]: VoD, weighted and capped; and sigma, unweighted and uncapped as published.

    Unlike a score, larger is safer. Left out where all columns are constant.
    """
    weights = [group.column.weight for group in truth.encoding.groups]
    capped = unified_privacy(column_privacy(truth.rows, X, truth.encoding), weights)
    sigma = unified_privacy(np.sqrt(column_privacy(truth.rows, X, truth.encoding, cap=False)))
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
    empty = dict.fromkeys(("rmse", "rmse_of_mean", "interval_width", "vod", "vod_of_mean"))
    if group.is_onehot:
        return empty
    original = truth.rows[:, group.start : group.stop]
    there = original[:, 1] < 0.5 if group.has_indicator else np.ones(len(original), dtype=bool)
    if not there.any():
        return empty
    x, y = original[there, :1], slots[there, :1]
    scale = float(truth.encoding.scale[group.start])
    return {
        "rmse": float(root_mean_square(x, y, scale)[0]),
        "rmse_of_mean": float(x.std() * scale),
        "interval_width": float(interval_width(x, y)[0]),
        "vod": float(variance_of_difference(x, y)[0]),
        "vod_of_mean": float(x.var()),
    }


def _against_strangers(X: Matrix, truth: Truth) -> Matrix | None:
    """Per column how often the guesses happen to be right about random people of the control table."""
    if truth.control is None or not len(truth.control):
        return None
    rng = np.random.default_rng(0)  # fixed: scoring twice gives the same figure
    rates = [
        breaches(truth.control[rng.integers(len(truth.control), size=len(X))], X, truth.encoding, truth.tolerance)
        for _ in range(min(PAIRINGS, -(-ENOUGH // len(X))))
    ]
    return np.asarray(np.mean([rate.mean(axis=0) for rate in rates], axis=0))


def _worst_share(hits: Flags, share: float) -> float:
    risk = hits.mean(axis=1)
    return float(risk[worst_records(risk, share)].mean())


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
    hits: list[Flags] = []
    unseen: list[Flags] = []
    columns: list[dict[str, Any]] = []
    aside = {guess.secret: guess for guess in control_guesses or ()}
    for guess in guesses:
        group = truth.encoding.groups[guess.secret]
        slots = slice(group.start, group.stop)
        hit = learned(truth.targets[:, slots], guess.X, group, truth.tolerance)
        without = learned(truth.targets[:, slots], usual[:, slots], group, truth.tolerance)
        control = None
        if guess.secret in aside and truth.control_targets is not None:
            other = aside[guess.secret].X
            control = float(learned(truth.control_targets[:, slots], other, group, truth.tolerance).mean())
        hits.append(hit)
        unseen.append(without)
        columns.append(
            {
                "name": group.column.name,
                "score": float(hit.mean()),
                "baseline": float(without.mean()),
                "control": control,
            }
        )
    told, usually = np.column_stack(hits), np.column_stack(unseen)
    risk = told.mean(axis=1)
    added = risk - usually.mean(axis=1)
    riskiest = worst_records(added, truth.share)
    controls = [column["control"] for column in columns if column["control"] is not None]
    return ScoredGuess(
        score=float(told.mean()),
        baseline=float(usually.mean()),
        control=float(np.mean(controls)) if controls else None,
        interval=mean_interval(risk),
        worst=_worst_share(told, truth.share),
        riskiest=tuple(riskiest[added[riskiest] > 0].tolist()),
        columns=tuple(columns),
        details={"worst_baseline": _worst_share(usually, truth.share)},
    )


def score_posteriors(guess: Posteriors, truth: Truth) -> ScoredGuess | Abstain:
    """Share of records of which the release rightly moved some belief across a rho1-to-rho2 breach [Def. 1].

    Of the records that have a rare true property (or lack a common one) at all. An identical copy moves all of them;
    baseline: 0, a prior does not move by itself. control: the same beliefs held against random people who were not in
    the table. worst: the mean, over the worst 1% of records, of the highest posterior that a rare true property
    reached.
    """
    true = truths(guess.properties, truth.rows)
    moved, could = belief_moves(guess, true)
    eligible = _some(could)
    if not eligible.any():
        return Abstain(f"no record has a property with prior of at most {guess.rare:g}")
    hit = _some(moved & could)[eligible]
    highest = (
        np.where(true & (guess.prior <= guess.rare), guess.posterior, 0.0).max(axis=1).clip(0.0, 1.0)
    )  # posteriors sum to 1 up to rounding
    riskiest = worst_records(highest, truth.share)
    control = None
    if truth.control is not None and len(truth.control):
        picked = np.random.default_rng(0).integers(len(truth.control), size=len(guess.posterior))
        strange, possible = belief_moves(guess, truths(guess.properties, truth.control)[picked])
        control = float(_some(strange & possible)[_some(possible)].mean()) if possible.any() else None
    rows, counted = [], [item.group for item in guess.properties]
    for number, group in enumerate(truth.encoding.groups):
        mine = np.array([where == number for where in counted])
        possible_here = _some(could[:, mine])
        if possible_here.any():
            rate = float(_some(moved[:, mine])[possible_here].mean())
            rows.append({"name": group.column.name, "score": rate, "baseline": 0.0})
    return ScoredGuess(
        score=float(hit.mean()),
        baseline=0.0,
        control=control,
        interval=proportion_interval(float(hit.sum()), len(hit)),
        worst=float(highest[riskiest].mean()),
        riskiest=tuple(riskiest.tolist()),
        columns=tuple(rows),
        details={"eligible": float(eligible.mean()), "largest_odds_ratio": _largest_odds_ratio(guess)},
    )


def _some(flags: Flags) -> Flags:
    """Per record whether any is true."""
    return np.asarray(flags.any(axis=1))


def _largest_odds_ratio(guess: Posteriors) -> float:
    """How many times the odds of any property rose: at most the release's amplification (1e300 stands for more)."""
    prior = np.clip(guess.prior, 1e-12, 1 - 1e-12)
    after = np.clip(guess.posterior.max(axis=0), 0.0, 1.0)  # odds grow with the posterior
    inside = (guess.prior > 0) & (guess.prior < 1)
    if not inside.any():
        return 1.0
    with np.errstate(divide="ignore"):
        ratio = after / (1 - after) / (prior / (1 - prior))
    return float(min(ratio[inside].max(), 1e300))
