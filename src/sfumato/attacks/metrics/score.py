"""One door to all scores: a guess and the truth in, a `ScoredGuess` out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.stats import hypergeom

from sfumato.attacks.base import (
    Abstain,
    Bounds,
    Guess,
    Links,
    MembershipScores,
    Picks,
    Posteriors,
    Secrets,
    Sources,
    Values,
)
from sfumato.attacks.metrics import privacy, scored
from sfumato.attacks.metrics.scored import ScoredGuess, Truth
from sfumato.attacks.singling_out import OPEN, Predicates, Sorted
from sfumato.core.array_types import Codes, Flags, Matrix
from sfumato.table import Encoding, Group


def score_bounds(guesses: Sequence[Bounds], truth: Truth) -> ScoredGuess | Abstain:
    """Mean over secret columns and targets of 1 - width, or 0 where the truth lies outside the interval.

    The width of a number is a share of its range, of a category the share of its slots that stay open. baseline: the
    interval, the same for everybody of a class, that scores best by what is known of the population. control: None,
    since people outside the table have no image. worst: the mean among the worst 1% of targets. Details: share of
    intervals that hold the truth, mean width, and share of the intervals of numbers that collapsed: narrower than what
    counts as a hit, and right.
    """
    if truth.targets is None or not guesses:
        return Abstain("no target to score against")
    if all(np.all(guess.high - guess.low >= 1.0) for guess in guesses):
        return Abstain("no bound says anything: each leaves the whole range open")
    told, right, unseen = (np.empty((len(truth.targets), len(guesses))) for _ in range(3))
    collapsed, columns = [], []
    for number, guess in enumerate(guesses):
        group = truth.encoding.groups[guess.secret]
        mine = truth.targets[:, group.slice]
        told[:, number], right[:, number] = gains(mine, guess.low, guess.high)
        for here, people, _ in scored.by_class(truth, truth.target_labels, len(mine)):
            unseen[here, number] = gains(mine[here], *usual_interval(people[:, group.slice], group))[0]
        if not group.is_onehot:
            collapsed.append(right[:, number] * (guess.high[:, 0] - guess.low[:, 0] < truth.tolerance))
        score, baseline = float(told[:, number].mean()), float(unseen[:, number].mean())
        columns.append({"name": group.column.name, "score": score, "baseline": baseline})
    details = {
        "bounds_hold": float(np.mean(right)),
        "mean_width": float(np.mean([(guess.high - guess.low).mean() for guess in guesses])),
        **({"collapsed": float(np.mean(collapsed))} if collapsed else {}),
    }
    return scored.scored_columns(told, unseen, truth.share, columns=tuple(columns), details=details)


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
    values = np.sort(population[:, 0])
    levels = np.quantile(values, np.linspace(0, 1, 21))
    first, last = np.triu_indices(len(levels))
    held = np.searchsorted(values, levels + 1e-9, "right")[last] - np.searchsorted(values, levels - 1e-9)[first]
    nearly = held / len(values) * (1.0 - (levels[last] - levels[first]))
    close = np.flatnonzero(nearly >= nearly.max() - 1e-9)  # what rounding may set apart is measured
    ends = [(levels[first[place], None], levels[last[place], None]) for place in close]
    low, high = max(ends, key=lambda pair: float(gains(population[:, :1], *pair)[0].mean()))
    if not group.has_indicator:
        return low, high
    usual = float(population[:, 1].mean() > 0.5)
    return np.append(low, usual), np.append(high, usual)


FEWEST = 10
"""Bets that a share can rest on: where fewer could be made, the others are lost."""


def score_predicates(guess: Predicates, truth: Truth) -> ScoredGuess:
    """Share of predicates that are true of exactly one person of the table; fewer than ten count as ten.

    baseline: predicates over as many columns, drawn without the release. control: the share that single out one of as
    many people who are not in the table. Where there are fewer of them, success on as many people of the table and on
    these is compared, and the score changed in that proportion. worst: of the 1% of people singled out most often, the
    share who are singled out at all.
    """
    made = max(len(guess), FEWEST)
    people = truth.rows if truth.register is None else truth.register
    records = Sorted(people)
    alone = guess.alone(records)
    alone = alone[alone >= 0]
    hits = np.bincount(alone, minlength=len(people))
    most = np.argsort(-hits, kind="stable")[: max(1, round(truth.share * len(people)))]
    score = len(alone) / made
    details = {"predicates": float(len(guess)), "people_singled_out": float(np.count_nonzero(hits))}
    return ScoredGuess(
        score=score,
        baseline=np.count_nonzero(_unseen(guess, truth.encoding).alone(records) >= 0) / made,
        control=_control(guess, records, made, truth.sample),
        interval=privacy.proportion_interval(float(len(alone)), made),
        worst=float(np.mean(hits[most] > 0)),
        riskiest=tuple(most[hits[most] > 0].tolist()),
        details=details,
    )


def _control(guess: Predicates, records: Sorted, made: int, strangers: Matrix | None) -> float | None:
    if strangers is None or len(strangers) < 2:
        return None
    people, theirs = len(records), guess.counts(strangers)
    if len(strangers) >= people:  # the chance that exactly one of so many, drawn from all of them, meets it
        return float(hypergeom.pmf(1, len(strangers), theirs, people).sum()) / made
    counts = guess.counts(records)
    on_as_many = float(hypergeom.pmf(1, people, counts, len(strangers)).sum())
    score = np.count_nonzero(counts == 1) / made
    return min(1.0, score * np.count_nonzero(theirs == 1) / on_as_many) if on_as_many else 0.0


def _unseen(guess: Predicates, encoding: Encoding) -> Predicates:
    """Predicates of the same shape by an attacker who knows the columns and their ranges alone."""
    rng = np.random.default_rng(0)  # fixed: scoring twice gives the same figure
    groups = encoding.groups
    shape = guess.slots.shape
    chosen = rng.random((shape[0], len(groups))).argsort(axis=1)[:, : shape[1]]
    slots, low, high = (np.empty(shape) for _ in range(3))
    value, above = rng.random(shape), rng.random(shape) < 0.5
    for number, group in enumerate(groups):
        at = np.nonzero(chosen == number)
        if group.is_onehot:
            slots[at] = group.start + rng.integers(group.width, size=len(at[0]))
            low[at], high[at] = 0.5, OPEN
        else:
            slots[at] = group.start
            low[at], high[at] = np.where(above[at], value[at], -OPEN), np.where(above[at], OPEN, value[at])
    return Predicates(slots.astype(np.int64), low, high)


LEAST_TO_CHOOSE = 5
"""Members, and others, in each half of the candidates: with fewer a choice between two means is a coin toss."""


def score_links(guess: Links, truth: Truth, control_guess: Links | None = None) -> ScoredGuess | Abstain:
    """Share of targets that are linked to their own row; a row of an identical person counts as their own.

    baseline: a row of the same class, drawn at random. control: share of people who were not in the table
    (`control_guess`, of `truth.control_targets`) that are linked to a row of a person identical to them. worst: share
    of right links among the 1% of which the adversary is surest (smallest distance or doubt). Details: its median for
    both, and `strangers_as_near`: the probability that a person outside comes nearer to a release row than a person of
    the table (.5 is safest, 0 worst).
    """
    if truth.targets is None:
        return Abstain("no target to score against")
    right = privacy.same_rows(truth.rows[guess.index], truth.targets)
    control, details = None, nearness(guess, control_guess)
    if control_guess is not None and truth.control_targets is not None:
        control = float(privacy.same_rows(truth.rows[control_guess.index], truth.control_targets).mean())
    chance = _chance(truth.rows, truth.targets, truth.labels, truth.target_labels, truth.label_keep)
    return _of_links(right, guess.distance, truth.share, chance, details, control)


def nearness(guess: Links, control: Links | None) -> dict[str, float]:
    """How near people of the table and strangers come to a release row."""
    away = "median_doubt" if guess.by_likelihood else "median_distance"
    found = {away: float(np.median(guess.distance))}
    if control is not None:
        found[f"{away}_control"] = float(np.median(control.distance))
        found["strangers_as_near"] = privacy.auc(-control.distance, -guess.distance)
    return found


def score_sources(guess: Sources, truth: Truth) -> ScoredGuess | Abstain:
    """Source-hit rate: share of release rows whose source was found; an identical person counts as the source.

    baseline: a person of the register at random, of the same class. control: None, since every release row has a
    source. worst: share of hits among the 1% of rows of which the adversary is surest. Details: the rate by its name,
    and the share of the register of whom no row was released.
    """
    if truth.register is None:
        return Abstain("no register to score against")
    right = privacy.same_rows(truth.register[guess.index], truth.rows)
    code, n = privacy.row_codes(np.vstack([truth.rows, truth.register])), len(truth.rows)
    never = float(np.mean(~np.isin(code[n:], code[:n])))
    chance = _chance(truth.register, truth.rows, truth.register_labels, truth.labels, truth.label_keep)
    details = {"source_hits": float(right.mean()), "never_drawn": never}
    return _of_links(right, guess.distance, truth.share, chance, details)


def _of_links(
    right: Flags,
    distance: Matrix,
    share: float,
    baseline: float,
    details: dict[str, float],
    control: float | None = None,
) -> ScoredGuess:
    """The share of right links; the worst are those of which the attacker is surest."""
    surest = privacy.worst_records(-distance, share)
    exposed = np.flatnonzero(right)
    exposed = exposed[np.argsort(distance[exposed], kind="stable")][: len(surest)]
    return ScoredGuess(
        score=float(right.mean()),
        baseline=baseline,
        control=control,
        interval=privacy.proportion_interval(float(right.sum()), len(right)),
        worst=float(right[surest].mean()),
        riskiest=tuple(exposed.tolist()),
        details=details,
    )


def _chance(
    rows: Matrix, targets: Matrix, labels: Codes | None, target_labels: Codes | None, label_keep: float
) -> float:
    """Mean share of rows that are identical to the target; of the rows of its class, where labels are exact."""
    if labels is None or target_labels is None or label_keep < 1.0:
        labels, target_labels = np.zeros(len(rows), dtype=np.int64), np.zeros(len(targets), dtype=np.int64)
    code = privacy.row_codes(np.column_stack([np.concatenate([labels, target_labels]), np.vstack([rows, targets])]))
    counts = np.bincount(code[: len(rows)], minlength=int(code.max()) + 1)
    of_class = np.maximum(np.bincount(labels, minlength=int(target_labels.max()) + 1), 1)
    return float((counts[code[len(rows) :]] / of_class[target_labels]).mean())


def score_picks(guess: Picks, truth: Truth) -> ScoredGuess | Abstain:
    """Share of line-ups in which the right person is picked, or of pairs that are told apart; ties are drawn by lot.

    baseline: by lot. control: None, since the others in the line-up are people outside. worst: the same among the 1% of
    rows at most risk. `out_of` is among the details.
    """
    if truth.lineup is None or not len(guess.scores):
        return Abstain("no line-up to score against")
    own = guess.scores[np.arange(len(guess.scores)), truth.lineup][:, None]
    above, ties = (guess.scores > own).sum(axis=1), (guess.scores == own).sum(axis=1) - 1
    others = guess.scores.shape[1] - 1
    pairs = 1.0 - (above + 0.5 * ties) / others
    risk = pairs if guess.out_of == 2 else np.where(above == 0, 1.0 / (1 + ties), 0.0)
    riskiest = privacy.worst_records(risk, truth.share)
    return ScoredGuess(
        score=float(risk.mean()),
        baseline=1.0 / guess.out_of,
        interval=privacy.mean_interval(risk),
        worst=float(risk[riskiest].mean()),
        riskiest=tuple(guess.rows[riskiest].tolist()),
        details={"out_of": float(guess.out_of)},
    )


def score_membership(guess: MembershipScores, truth: Truth) -> ScoredGuess | Abstain:
    """2 AUC - 1 (0 when below): 0 is a coin toss, 1 tells every member from every other person of the same class.

    Classes are released, and how many members each has with them. In small classes that alone tells who of a list may
    be a member, whatever the rows say. So members are told from others of their own class, as in line-ups.
    Where the adversary has several means, the one with the largest AUC on one half of the candidates is taken, and
    everything is reported on the other half, which had no part in the choice. baseline: 0. control: None, since the
    candidates hold the control people already. worst: share of members found at 1% false alarms. `auc` is among the
    details.
    """
    members = truth.members
    if members is None or members.all() or not members.any():
        return Abstain("needs candidates of both kinds, in the table and not")
    classes = np.zeros(len(members), dtype=np.int64) if truth.candidate_labels is None else truth.candidate_labels
    kept = np.flatnonzero(np.isin(classes, np.intersect1d(classes[members], classes[~members])))
    if not len(kept):
        return Abstain("no class has people of both kinds, in the table and not")
    scores, chosen = guess.scores, ""
    details: dict[str, float] = {}
    if guess.others:
        aside, rest = _halves(members, classes, kept)
        if len(aside):
            means = {guess.by: guess.scores, **guess.others}
            areas = {by: privacy.auc_within(one[aside], members[aside], classes[aside])[0] for by, one in means.items()}
            best = max(areas, key=lambda by: areas[by])
            scores, kept = means[best], rest
            chosen = f"by {best}, chosen on {len(aside):,} of the candidates and reported on the {len(rest):,} others"
            details = {"chosen_on": float(len(aside)), "reported_on": float(len(rest))}
            details |= {f"choice_auc_{by}": area for by, area in areas.items()}
        else:
            chosen = f"by {guess.by}; too few candidates to choose between that and {', '.join(guess.others)}"
    elif guess.by:
        chosen = f"by {guess.by}, the only means here"
    inside, outside = scores[kept[members[kept]]], scores[kept[~members[kept]]]
    area, (low, high) = privacy.auc_within(scores[kept], members[kept], classes[kept])
    alarm = float(np.quantile(outside, 0.99, method="higher"))
    found = kept[members[kept]][np.argsort(-inside, kind="stable")]
    return ScoredGuess(
        score=max(0.0, 2 * area - 1),
        baseline=0.0,
        interval=privacy.Interval(max(0.0, 2 * low - 1), max(0.0, 2 * high - 1)),
        worst=float(np.mean(inside > alarm)),
        riskiest=tuple(found[: max(1, round(truth.share * len(found)))].tolist()),
        details={"auc": area, "auc_low": low, "auc_high": high, **details},
        chosen=chosen,
    )


def _halves(members: Flags, classes: Codes, kept: Codes) -> tuple[Codes, Codes]:
    """Of the candidates at `kept` one half of the members and of the others of every class, and the rest; none in the
    first where one of the two has too few of a kind, or no class with both kinds."""
    rng = np.random.default_rng(0)  # fixed: scoring twice gives the same figure
    mine = rng.permutation(kept)
    aside = np.zeros(len(members), dtype=bool)
    for kind in (members, ~members):
        own = mine[kind[mine]]
        own = own[np.argsort(classes[own], kind="stable")]  # every other one, so that both halves have every class
        aside[own[::2]] = True
    parts = kept[aside[kept]], kept[~aside[kept]]
    fine = all(
        min(members[part].sum(), (~members[part]).sum()) >= LEAST_TO_CHOOSE
        and len(np.intersect1d(classes[part][members[part]], classes[part][~members[part]]))
        for part in parts
    )
    return parts if fine else (kept[:0], kept)


Guesses = Guess | Sequence[Guess]


def score_guess(guess: Guesses, truth: Truth, control_guess: Guesses | None = None) -> ScoredGuess | Abstain:
    """Score any guess; higher is worse for privacy. `Abstain` comes back as it is, or where nothing can be scored.

    `control_guess` is the same attack aimed at `truth.control_targets`. A sequence of `Secrets` or `Bounds` (one per
    secret column) is one guess; those that abstained are left out, and if all did, the first reason stands.
    """
    if isinstance(guess, Secrets | Bounds):
        guess = [guess]
    if not isinstance(guess, Guess):
        return _score_secrets(guess, truth, control_guess)
    if isinstance(guess, Abstain):
        return guess
    if isinstance(guess, Links):
        return score_links(guess, truth, control_guess if isinstance(control_guess, Links) else None)
    for kind, score in SCORES.items():
        if isinstance(guess, kind):
            return score(guess, truth)
    raise TypeError(f"There is no score for {type(guess).__name__}.")


SCORES: dict[type[Guess], Callable[[Any, Truth], ScoredGuess | Abstain]] = {
    Values: scored.score_values,
    Posteriors: scored.score_posteriors,
    Sources: score_sources,
    Picks: score_picks,
    MembershipScores: score_membership,
    Predicates: score_predicates,
}


def _score_secrets(guesses: Sequence[Guess], truth: Truth, control: Guesses | None) -> ScoredGuess | Abstain:
    if bounds := [guess for guess in guesses if isinstance(guess, Bounds)]:
        return score_bounds(bounds, truth)
    if not (secrets := [guess for guess in guesses if isinstance(guess, Secrets)]):
        return next((guess for guess in guesses if isinstance(guess, Abstain)), Abstain("no secret was guessed"))
    aside = [control] if isinstance(control, Guess) else control or []
    return scored.score_secrets(secrets, truth, [guess for guess in aside if isinstance(guess, Secrets)])
