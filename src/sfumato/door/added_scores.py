"""The sum of scores that all sites of a first round measured: from their releases, or from their coordinator."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import add
from pathlib import Path

from sfumato.central.scoring import NoisyScores
from sfumato.central.scoring_plan import ScoringPlan
from sfumato.errors import CardError, SchemaError, UsageError
from sfumato.jobs.counts_file import expected_measurements, noisy_counts, read_cells
from sfumato.jobs.pooling.pushed import Pushed, embedded_card
from sfumato.jobs.release import Release
from sfumato.jobs.write_release import COUNTS
from sfumato.protocol.acceptance import same_measurements
from sfumato.protocol.messages import AddedCounts
from sfumato.protocol.pool_study import PoolStudy

Scored = Sequence[Release | Path | str] | AddedCounts
NO_SCORES = (
    "{where} holds no scores that a plan could be made from. Give what `sfumato sanitize --study` wrote with the study "
    "file of `sfumato study plan --scores`."
)


def added_scores(scored: Scored, study: PoolStudy) -> tuple[NoisyScores, int]:
    """The sum, and how many sites there are in it."""
    plan = ScoringPlan(study.encoding)
    if isinstance(scored, AddedCounts):
        try:
            return NoisyScores.from_dict(scored.scores, plan), max(1, len(scored.sites))
        except (KeyError, TypeError, ValueError, OverflowError):
            raise CardError(NO_SCORES.format(where="The coordinator's sum")) from None
    found = [_of_one(one, plan, study) for one in scored]
    if not found:
        raise UsageError("No site has scored anything yet.")
    return reduce(add, found), len(found)


def _of_one(given: Release | Path | str, plan: ScoringPlan, study: PoolStudy) -> NoisyScores:
    where = f"The release {given.where if isinstance(given, Release) else given}"
    folder = given.folder if isinstance(given, Release) else Path(given)
    if isinstance(given, Release) and given.counts is not None:
        card, cells = given.card, given.counts
    elif folder is not None and (folder / COUNTS).is_file():
        card, cells = embedded_card(Pushed(folder / COUNTS, folder.name, "")), read_cells(folder / COUNTS)
    else:
        raise CardError(NO_SCORES.format(where=where))
    if card.reproducible:
        raise CardError(f"{where} was made with a fixed seed: anybody can repeat its noise. Sanitize without --seed.")
    if card.mechanism["name"] != study.mechanism or card.mechanism["parameters"].get("plan") != plan.digest:
        raise CardError(NO_SCORES.format(where=where))
    if card.space != study.space:
        raise SchemaError(f"{where} has other columns, bounds or categories than the study.")
    if not same_measurements(card.made_by().measured, expected_measurements(plan, card)):
        raise CardError(f"{where}: its card does not state the noise that its epsilon and delta give. Sanitize again.")
    scores = noisy_counts(cells, plan, card)
    assert isinstance(scores, NoisyScores)
    return scores
