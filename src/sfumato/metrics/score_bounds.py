"""Scores of intervals: how much of the range they leave out, as long as they are right."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from sfumato.array_types import Flags, Matrix
from sfumato.attacks.base import Abstain, Bounds
from sfumato.metrics.privacy import mean_interval, worst_records
from sfumato.metrics.scored import ScoredGuess, Truth, likely_members
from sfumato.table import Group

VACUOUS = "no bound says anything: each leaves the whole range open"


def score_bounds(guesses: Sequence[Bounds], truth: Truth) -> ScoredGuess | Abstain:
    """Mean over secret columns and targets of 1 - width, or 0 where the truth lies outside the interval.

    The width of a number is a share of its range, of a category the share of its slots that stay open. baseline: the
    interval, the same for everybody of a class, that scores best by what is known of the population. control: None,
    since nobody outside the table has an image. worst: the mean among the worst 1% of targets. Details: share of
    intervals that hold the truth, mean width, and share of the intervals of numbers that collapsed: narrower than what
    counts as a hit, and right.
    """
    if truth.targets is None or not guesses:
        return Abstain("no target to score against")
    if all(np.all(guess.high - guess.low >= 1.0) for guess in guesses):
        return Abstain(VACUOUS)
    told, right, widths, unseen, collapsed = [], [], [], [], []
    columns: list[dict[str, Any]] = []
    for guess in guesses:
        group = truth.encoding.groups[guess.secret]
        slots = slice(group.start, group.stop)
        gain, inside = gains(truth.targets[:, slots], guess.low, guess.high)
        without = np.empty(len(gain))
        for here, people in _classes(truth):
            low, high = usual_interval(people[:, slots], group)
            without[here] = gains(truth.targets[here][:, slots], low, high)[0]
        told.append(gain)
        right.append(inside)
        unseen.append(without)
        widths.append((guess.high - guess.low).mean())
        if not group.is_onehot:
            collapsed.append(inside * (guess.high[:, 0] - guess.low[:, 0] < truth.tolerance))
        columns.append({"name": group.column.name, "score": float(gain.mean()), "baseline": float(without.mean())})
    risk = np.column_stack(told).mean(axis=1)
    added = risk - np.column_stack(unseen).mean(axis=1)
    riskiest = worst_records(added, truth.share)
    return ScoredGuess(
        score=float(risk.mean()),
        baseline=float(np.mean(unseen)),
        control=None,
        interval=mean_interval(risk),
        worst=float(risk[worst_records(risk, truth.share)].mean()),
        riskiest=tuple(riskiest[added[riskiest] > 0].tolist()),
        columns=tuple(columns),
        details={
            "bounds_hold": float(np.mean(right)),
            "mean_width": float(np.mean(widths)),
            **({"collapsed": float(np.mean(collapsed))} if collapsed else {}),
        },
    )


def _classes(truth: Truth) -> Iterator[tuple[Flags, Matrix]]:
    """Targets whose label is the same, and people of the population who may have it."""
    assert truth.targets is not None
    if truth.target_labels is None or truth.population_labels is None:
        yield np.ones(len(truth.targets), dtype=bool), truth.population
        return
    for code in np.unique(truth.target_labels).tolist():
        weights = likely_members(truth, code)
        yield truth.target_labels == code, truth.population[weights > 0]


def gains(original: Matrix, low: Matrix, high: Matrix) -> tuple[Matrix, Matrix]:
    """Per record 1 - mean width of the slots' intervals, 0 where a slot lies outside; and whether none does."""
    low, high = np.broadcast_to(low, original.shape), np.broadcast_to(high, original.shape)
    inside = ((original >= low - 1e-9) & (original <= high + 1e-9)).all(axis=1)
    gain = np.where(inside, 1.0 - np.asarray((high - low).mean(axis=1)), 0.0)
    return gain, np.asarray(inside, dtype=np.float64)


def usual_interval(population: Matrix, group: Group) -> tuple[Matrix, Matrix]:
    """The interval that gains most if it is the same for everybody: between two quantiles, or the usual category."""
    if group.is_onehot:
        usual = np.eye(population.shape[1])[population.sum(axis=0).argmax()]
        return usual, usual
    levels = np.quantile(population[:, 0], np.linspace(0, 1, 21))
    best, found = -1.0, (0.0, 1.0)
    for first, start in enumerate(levels):
        for end in levels[first:]:
            gain = float(gains(population[:, :1], np.array([start]), np.array([end]))[0].mean())
            if gain > best:
                best, found = gain, (float(start), float(end))
    low, high = np.array([found[0]]), np.array([found[1]])
    if not group.has_indicator:
        return low, high
    usual = float(population[:, 1].mean() > 0.5)
    return np.append(low, usual), np.append(high, usual)
