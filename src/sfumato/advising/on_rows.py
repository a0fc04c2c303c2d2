"""A choice on rows: every method is tried on some of them, and what is chosen is confirmed on others."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from sfumato.advising.asked import RecommendAsked
from sfumato.advising.ground import Ground, Grounds, of_table
from sfumato.advising.recommendation import CONFIRMED, NOT_REFUTED, REFUTED, Recommendation, refuted
from sfumato.advising.search import Setting, keeps, search
from sfumato.advising.trial import AUTO, Outcome, Trial, averaged, trial, voided
from sfumato.advising.wish import LONGEST_REASON, Candidate, Wish, candidates
from sfumato.core.errors import PrivacyLeakWarning, SchemaError, SfumatoError, UnmetWishError, UsageError
from sfumato.core.processes import in_processes
from sfumato.core.progress import Progress
from sfumato.guarantee.cost import Values
from sfumato.guarantee.guarantee import CENTRAL_DP, LOCAL_DP
from sfumato.ledger import Ledger
from sfumato.mechanisms import make_mechanism
from sfumato.release.config import RELEASED, TABLE
from sfumato.release.release import Release
from sfumato.table import Schema

TRIED_AGAIN = 3
"""Settings that are tried on the other rows, until one keeps the wish there too."""
LOOKED = (
    "These trials look at your private rows, so nothing can be proved of what is chosen by them: all that follows is "
    "measured."
)
NOT_CHARGED = "this ledger did not charge that release, or it proves nothing (a seed)"
ATTACKED = 1_000
WORTH_A_PROCESS = 10_000
"""Cells of a table from which on mechanisms are tried in several processes, which take two seconds to begin."""


def choose_on(
    rows: pa.Table, agreed: Schema, wish: Wish, asked: RecommendAsked, released: Release | None = None
) -> Recommendation:
    """The setting that keeps the wish best: on private rows, or on those of `released`, which cost nothing more.

    `asked.tries`: how many methods are tried, in their order; the clock has no say.
    """
    if agreed.label is None:
        raise SchemaError(
            "A choice on rows needs a column to predict: accuracy is how often it is. Name it with --label."
        )
    wish = wish.in_trials()
    grounds = _grounds(rows, agreed, wish, asked, released)
    found, left_out = candidates(wish, public=not agreed.learned)
    for one in found[asked.tries :] if asked.tries else ():
        left_out[one.mechanism] = "no further methods were to be tried (--tries)"
    best = _searched(found[: asked.tries], wish, grounds, left_out, asked)
    if not best:
        reasons = "; ".join(f"{name}: {why}" for name, why in left_out.items())
        raise UsageError(f"No method can be tried on this table. {reasons}"[:2000])
    setting, forecast, verdict = _confirmed(best, wish, grounds, asked.progress)
    return Recommendation(
        wish,
        setting,
        verdict,
        forecast,
        best,
        left_out,
        grounds.looked_at,
        grounds.rows,
        agreed.label.name,
        grounds.model,
        None if released is None or grounds.model is None else _together(released, setting, forecast),
    )


def _grounds(rows: pa.Table, agreed: Schema, wish: Wish, asked: RecommendAsked, released: Release | None) -> Grounds:
    """Rows to try on. What is chosen on private ones, or on a release that no one was charged for, proves nothing:
    that is said beforehand, and a wish for a proof is refused."""
    model = None
    if released is None:
        warnings.warn(LOOKED, PrivacyLeakWarning, stacklevel=2)
    elif Ledger(None if asked.ledger is None else Path(asked.ledger)).has_charged(
        digest := released.card.made_by().model
    ):
        model = digest
    if wish.epsilon is not None and model is None:
        why = "the choice would look at private rows" if released is None else NOT_CHARGED
        raise UnmetWishError(
            f"--epsilon asks for a proof, and none can be kept here: {why}. Leave --use-table out, so that no row has "
            "a say; or wish for what trials can measure (--max-risk, --max-loss)."
        )
    looked_at = TABLE if released is None else RELEASED
    return replace(of_table(rows, agreed, asked.seed, looked_at), model=model)


def _together(released: Release, setting: Setting, forecast: Outcome) -> Values | None:
    """What the release that was looked at, with all before it, and the recommended one come to for anybody's values;
    None where one of them proves nothing."""
    first = released.card.all_releases().values
    if not first.bounded or forecast.epsilon is None:
        return None
    if forecast.kind == LOCAL_DP:
        return first + Values(local=forecast.epsilon)
    made = make_mechanism(setting.candidate.mechanism, setting.parameters)
    return first + Values(central=made.planned) if forecast.kind == CENTRAL_DP and made.planned is not None else None


def _searched(
    found: Sequence[Candidate],
    wish: Wish,
    grounds: Grounds,
    left_out: dict[str, str],
    asked: RecommendAsked,
) -> list[Setting]:
    """The best setting of every candidate that can be tried, the best first; why others cannot goes to `left_out`."""
    best: list[Setting] = []
    progress, workers = asked.progress, asked.workers
    if workers is None:
        workers = 1 if grounds.cells < WORTH_A_PROCESS else os.cpu_count() or 1
    workers = min(workers, len(found) or 1)
    progress("Mechanisms", 0, len(found))

    with contextlib.closing(in_processes(found, _tried, (wish, grounds), workers)) as searches:
        for number, (candidate, tried) in enumerate(searches, start=1):
            progress("Mechanisms", number, len(found))
            if isinstance(tried, str):
                left_out[candidate.mechanism] = tried
            else:
                best.append(tried)
    order = [one.mechanism for one in found]
    best.sort(key=lambda one: order.index(one.candidate.mechanism))  # not as they happened to be finished
    return sorted(best, key=lambda one: one.rank(wish), reverse=True)


def _tried(candidate: Candidate, wish: Wish, grounds: Grounds) -> Setting | str:
    """The best setting of a candidate, or why there is none."""
    try:
        settings = search(candidate, wish, partial(_measured, candidate, grounds))
    except SfumatoError as error:
        return str(error)[:LONGEST_REASON]
    except Exception as error:  # one mechanism that fails on odd rows must not cost the answer
        return f"it failed on these rows ({type(error).__name__})"
    return settings[0] if settings else "no strength of it could be tried"


def _measured(candidate: Candidate, grounds: Grounds, parameters: dict[str, Any]) -> Outcome:
    tried = [trial(one, candidate.mechanism, parameters, seed) for seed, one in enumerate(grounds.choosing)]
    return _as_claimed(averaged(tried), grounds)


def _as_claimed(found: Outcome, grounds: Grounds) -> Outcome:
    return voided(found) if grounds.private else found


def _confirmed(
    best: Sequence[Setting], wish: Wish, grounds: Grounds, progress: Progress
) -> tuple[Setting, Outcome, str]:
    """The first setting that keeps the wish on rows which no search has seen; else the nearest that they do not refute;
    else the one that comes nearest there."""
    found = []
    keeping = [one for one in best if one.keeps(wish)] or list(best[:1])
    for number, setting in enumerate(keeping[:TRIED_AGAIN]):
        progress("Confirming", number, min(TRIED_AGAIN, len(keeping)))
        tried = [_confirming(setting, one, grounds, 100 + seed) for seed, one in enumerate(grounds.confirming)]
        outcome = _as_claimed(averaged(tried), grounds)
        if keeps(outcome, wish):
            return setting, outcome, CONFIRMED
        better = wish.better(outcome.risk_at_most, outcome.loss_at_most)
        found.append((not refuted(outcome, wish), better, -number, setting, outcome))
    likely, _, _, setting, outcome = max(found, key=lambda one: one[:3])
    return setting, outcome, NOT_REFUTED if likely else REFUTED


def _confirming(setting: Setting, ground: Ground, grounds: Grounds, seed: int) -> Outcome:
    how = Trial(learners=(AUTO,), attacked=ATTACKED, besides=grounds.besides)
    return trial(ground, setting.candidate.mechanism, setting.parameters, seed, how)
