"""The sum of scores that all sites of a first round measured: from their releases, or from their coordinator."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from operator import add
from pathlib import Path

from sfumato.central.scoring import NoisyScores
from sfumato.central.scoring_plan import ScoringPlan
from sfumato.errors import CardError, UsageError
from sfumato.guarantee import Card
from sfumato.jobs.counts_file import counts_identity, noisy_counts, read_cells
from sfumato.jobs.pooling.pushed import Pushed, embedded_card
from sfumato.jobs.release import Release
from sfumato.jobs.write_release import COUNTS
from sfumato.protocol.acceptance import objections, read_card
from sfumato.protocol.messages import AddedCounts
from sfumato.protocol.pool_study import PoolStudy

Scored = Sequence[Release | Path | str] | AddedCounts
NO_SCORES = (
    "{where} holds no scores that a plan could be made from. Give what `sfumato sanitize --study` wrote with the study "
    "file of `sfumato study plan --scores`."
)


def added_scores(scored: Scored, first: PoolStudy) -> tuple[NoisyScores, int]:
    """The sum, and how many sites there are in it; `first` is the study of that round, whose releases they must be."""
    plan = first.plan
    assert isinstance(plan, ScoringPlan)
    if isinstance(scored, AddedCounts):
        try:
            found = NoisyScores.from_dict(scored.scores, plan)
        except (KeyError, TypeError, ValueError, OverflowError):
            raise CardError(NO_SCORES.format(where="The coordinator's sum")) from None
        _check(read_card(json.dumps(scored.card)), replace(first, quota=None), "The coordinator's sum")
        return found, max(1, len(scored.sites))
    sites = {one: _of_one(one, plan, first) for one in scored}
    if not sites:
        raise UsageError("No site has measured anything yet.")
    if len({counts_identity(one.cells) for one in sites.values()}) < len(scored):
        raise UsageError("A release is given twice: its people would count as two sites. Give every site's once.")
    return reduce(add, sites.values()), len(sites)


def _of_one(given: Release | Path | str, plan: ScoringPlan, first: PoolStudy) -> NoisyScores:
    where = f"The release {given.where if isinstance(given, Release) else given}"
    folder = given.folder if isinstance(given, Release) else Path(given)
    if isinstance(given, Release) and given.counts is not None:
        card, cells = given.card, given.counts
    elif folder is not None and (folder / COUNTS).is_file():
        card, cells = embedded_card(Pushed(folder / COUNTS, folder.name, "")), read_cells(folder / COUNTS)
    else:
        raise CardError(NO_SCORES.format(where=where))
    _check(card, first, where)
    scores = noisy_counts(cells, plan, card)
    assert isinstance(scores, NoisyScores)
    return scores


def _check(card: Card, first: PoolStudy, where: str) -> None:
    """The rules by which a coordinator takes releases of the first round, whoever adds them."""
    assert first.plan is not None
    if card.mechanism["name"] != first.mechanism or card.mechanism["parameters"].get("plan") != first.plan.digest:
        raise CardError(NO_SCORES.format(where=where))
    if found := objections(first, card):
        raise CardError(f"{where} is not of this study's first round. {found[0]}")
