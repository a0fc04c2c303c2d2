"""Scores of guesses about people: which row is theirs, whose a row is, and whether they are in the table at all."""

from __future__ import annotations

import numpy as np

from sfumato.array_types import Codes, Flags, Matrix
from sfumato.attacks.base import Abstain, Links, MembershipScores, Picks, Sources
from sfumato.metrics.privacy import (
    Interval,
    auc,
    auc_within,
    mean_interval,
    proportion_interval,
    row_codes,
    same_rows,
    worst_records,
)
from sfumato.metrics.scored import ScoredGuess, Truth

LEAST_TO_CHOOSE = 5
"""Members, and others, in each half of the candidates: with fewer a choice between two means is a coin toss."""


def score_links(guess: Links, truth: Truth, control_guess: Links | None = None) -> ScoredGuess | Abstain:
    """Share of targets that are linked to their own row; a row of an identical person counts as their own.

    baseline: a row of the same class, drawn at random. control: share of people who were not in the table
    (`control_guess`, of `truth.control_targets`) that are linked to a row of somebody identical to them. worst: share
    of right links among the 1% of which the adversary is surest (smallest distance or doubt). Details: its median for
    both, and `strangers_as_near`: the probability that somebody outside comes nearer to a release row than somebody of
    the table (.5 is safest, 0 worst).
    """
    if truth.targets is None:
        return Abstain("no target to score against")
    right = same_rows(truth.rows[guess.index], truth.targets)
    surest = worst_records(-guess.distance, truth.share)
    exposed = np.flatnonzero(right)
    exposed = exposed[np.argsort(guess.distance[exposed], kind="stable")][: len(surest)]
    away = "median_doubt" if guess.by_likelihood else "median_distance"
    details = {away: float(np.median(guess.distance))}
    control = None
    if control_guess is not None and truth.control_targets is not None:
        control = float(same_rows(truth.rows[control_guess.index], truth.control_targets).mean())
        details[f"{away}_control"] = float(np.median(control_guess.distance))
        details["strangers_as_near"] = auc(-control_guess.distance, -guess.distance)
    return ScoredGuess(
        score=float(right.mean()),
        baseline=_chance(truth.rows, truth.targets, truth.labels, truth.target_labels, truth.label_keep),
        control=control,
        interval=proportion_interval(float(right.sum()), len(right)),
        worst=float(right[surest].mean()),
        riskiest=tuple(exposed.tolist()),
        details=details,
    )


def score_sources(guess: Sources, truth: Truth) -> ScoredGuess | Abstain:
    """Source-hit rate: share of release rows whose source was found; an identical person counts as the source.

    baseline: somebody of the register at random, of the same class. control: None, since every release row has a
    source. worst: share of hits among the 1% of rows of which the adversary is surest. Details: the rate by its name,
    and the share of the register of whom no row was released.
    """
    if truth.register is None:
        return Abstain("no register to score against")
    right = same_rows(truth.register[guess.index], truth.rows)
    surest = worst_records(-guess.distance, truth.share)
    exposed = np.flatnonzero(right)
    exposed = exposed[np.argsort(guess.distance[exposed], kind="stable")][: len(surest)]
    return ScoredGuess(
        score=float(right.mean()),
        baseline=_chance(truth.register, truth.rows, truth.register_labels, truth.labels, truth.label_keep),
        control=None,
        interval=proportion_interval(float(right.sum()), len(right)),
        worst=float(right[surest].mean()),
        riskiest=tuple(exposed.tolist()),
        details={"source_hits": float(right.mean()), "never_drawn": _without_row(truth.register, truth.rows)},
    )


def _without_row(register: Matrix, rows: Matrix) -> float:
    """Share of the register that is behind no release row."""
    code = row_codes(np.vstack([rows, register]))
    return float(np.mean(~np.isin(code[len(rows) :], code[: len(rows)])))


def _chance(
    rows: Matrix, targets: Matrix, labels: Codes | None, target_labels: Codes | None, label_keep: float
) -> float:
    """Mean share of rows that are identical to the target; of the rows of its class, where labels are exact."""
    if labels is None or target_labels is None or label_keep < 1.0:
        labels, target_labels = np.zeros(len(rows), dtype=np.int64), np.zeros(len(targets), dtype=np.int64)
    code = row_codes(np.column_stack([np.concatenate([labels, target_labels]), np.vstack([rows, targets])]))
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
    riskiest = worst_records(risk, truth.share)
    return ScoredGuess(
        score=float(risk.mean()),
        baseline=1.0 / guess.out_of,
        control=None,
        interval=mean_interval(risk),
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
            areas = {by: auc_within(one[aside], members[aside], classes[aside])[0] for by, one in means.items()}
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
    area, (low, high) = auc_within(scores[kept], members[kept], classes[kept])
    alarm = float(np.quantile(outside, 0.99, method="higher"))
    found = kept[members[kept]][np.argsort(-inside, kind="stable")]
    return ScoredGuess(
        score=max(0.0, 2 * area - 1),
        baseline=0.0,
        control=None,
        interval=Interval(max(0.0, 2 * low - 1), max(0.0, 2 * high - 1)),
        worst=float(np.mean(inside > alarm)),
        riskiest=tuple(found[: max(1, round(truth.share * len(found)))].tolist()),
        details={"auc": area, "auc_low": low, "auc_high": high, **details},
        chosen=chosen,
    )


def _halves(members: Flags, classes: Codes, kept: Codes) -> tuple[Codes, Codes]:
    """Of the candidates at `kept` one half of the members and of the others of every class, and the rest.

    The first is empty where one of the two has too few of a kind, or no class with both kinds.
    """
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
