"""plan_counts: which tables the sites of a study count, so that their noisy counts can be added."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

import numpy as np

from sfumato.core.asked import asks
from sfumato.core.errors import CardError, SchemaError, UsageError
from sfumato.core.files import check_free, write_whole
from sfumato.guarantee import Card
from sfumato.guarantee.cost import epsilon_of
from sfumato.guarantee.guarantee import CENTRAL_DP
from sfumato.guarantee.maps import is_reason
from sfumato.mechanisms.central.drawing import model_from_dict
from sfumato.mechanisms.central.plan import Plan, plan_from_model, plan_from_scores, public_plan
from sfumato.mechanisms.central.scoring import NoisyScores, ScoringPlan
from sfumato.mechanisms.tree_resampling import TreeResampling
from sfumato.release.asked import Presence
from sfumato.release.check_rows import counts_identity, noisy_counts, read_card, read_cells
from sfumato.release.release import Release
from sfumato.release.signature import COUNTS
from sfumato.study.asked import MOST_SITES, CountsAsked
from sfumato.study.pooling.gather import Pushed, embedded_card
from sfumato.study.protocol.messages import AddedCounts
from sfumato.study.protocol.pool_study import PoolStudy
from sfumato.study.protocol.study_file import load_study, objections

# The sum of scores that all sites of a first round measured: from their releases, or from their coordinator.

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


UNASKED = CountsAsked()
FOR_SCORES = 0.3
"""Of everybody's budget, where the plan is made from scores that all sites add; the rest is for the counts."""


@asks(CountsAsked)
def plan_counts(
    study: Path | str, release: Release | Path | str | None = None, options: CountsAsked = UNASKED
) -> dict[str, Any]:
    """Add a plan to a study, so that its sites push noisy counts instead of rows, and the coordinator adds them.

    Parameters
    ----------
    study : path
        Study file that names no mechanism, or `tree-resampling`.
    release : Release or path, optional
        One site's own `tree-resampling` release of the study's columns, with its model: its edges and its forest
        become the plan. That release was paid for by that site's people, and no others pay for it. Without it the
        plan follows public rules: bins of equal width.
    {options}

    Returns
    -------
    dict
        The study with its plan, as it stands in `out`.

    Raises
    ------
    UsageError, SchemaError, CardError, OutputError
        Where study, release, pairs and scores do not fit each other.
    """
    check_free(options.out, force=options.force)
    if not Path(study).is_file():
        raise UsageError(f"There is no study file {study}.")
    found = load_study(study, to_plan=True)
    if not isinstance(found, PoolStudy) or found.mechanism != TreeResampling.name:
        raise SchemaError(f"{study}: only a study of kind pool with {TreeResampling.name} adds counts.")
    _check_origin(release, options)
    if options.scores or options.scored is not None:
        if found.plan is not None:
            raise UsageError(
                f"{study} has a plan already, and in two rounds that makes a part of a part of the budget. Give the "
                "study file that the first round was planned from."
            )
        stated = _of_two_rounds(found, options.scored)
    else:
        stated = found.to_dict()
        if release is None:
            plan = public_plan(found.encoding, options.pairs, options.reason or "")
        else:
            plan = _of_release(found, release, options.sites)
        stated["mechanism"]["parameters"]["plan"] = plan.to_dict()
    checked = PoolStudy.from_dict(stated).to_dict()
    if options.out is not None:
        write_whole(options.out, json.dumps(checked, ensure_ascii=False) + "\n")
    return checked


def _check_origin(release: Release | Path | str | None, options: CountsAsked) -> None:
    """What a plan is made from, and that nothing is said of another origin."""
    sites, pairs = options.sites, options.pairs
    if isinstance(sites, bool) or not isinstance(sites, int) or not 1 <= sites <= MOST_SITES:
        raise UsageError(f"The number of sites must be from 1 to {MOST_SITES:,}. Got {sites!r} instead.")
    if sum((release is not None, bool(pairs), options.scores, options.scored is not None)) > 1:
        raise UsageError(
            "A plan has one origin: a release, pairs of columns that belong together, or --scores. Leave out the rest."
        )
    if sites != 1 and release is None:
        raise UsageError(
            "The number of sites (--sites) says how much finer than one site's release a plan may be, and needs that "
            "release. A plan from all sites' measurements knows how many sites there were; one from public rules does "
            "not ask. Leave it out."
        )
    if bool(pairs) != is_reason(options.reason):
        raise UsageError(
            "Pairs of columns need a reason: say in one sentence how you know that they belong together without "
            "looking at the table (--pair A,B --reason ...). Give both, or neither."
        )


def _of_two_rounds(study: PoolStudy, scored: Scored | None) -> dict[str, Any]:
    """The study of the first round, or of the second, whose plan follows from what was `scored`."""
    mechanism = _mechanism(study)
    first = _with_budget(study.to_dict(), mechanism, FOR_SCORES)
    first["mechanism"]["parameters"]["plan"] = ScoringPlan(study.encoding).to_dict()
    if scored is None:
        return first
    second = _with_budget(study.to_dict(), mechanism, 1.0 - FOR_SCORES)
    left = _mechanism(PoolStudy.from_dict(second)).budget(np.random.default_rng(0))
    plan = plan_from_scores(*added_scores(scored, PoolStudy.from_dict(first)), left)
    second["mechanism"]["parameters"]["plan"] = plan.to_dict()
    return second


def _of_release(study: PoolStudy, release: Release | Path | str, sites: int) -> Plan:
    given = Release.public(release) if isinstance(release, str | Path) else release
    if given.card.guarantee["kind"] != CENTRAL_DP or given.model is None:
        raise UsageError(
            f"The release {given.where} has no noisy model that could be a plan. Give one that `sfumato sanitize "
            f"--mechanism {TreeResampling.name}` wrote, with its model.json and without a seed."
        )
    if given.card.space != study.space:
        raise SchemaError(f"The release {given.where} has other columns, bounds or categories than the study.")
    model = model_from_dict(given.model, study.encoding)
    return plan_from_model(model, _mechanism(study).budget(np.random.default_rng(0)), sites)


def _mechanism(study: PoolStudy) -> TreeResampling:
    settled = (study.presence or Presence(1.0, 1e-6))._asdict()
    stated = {name: study.parameters[name] for name in ("epsilon", "delta") if name in study.parameters}
    return TreeResampling(**{**settled, **stated})


def _with_budget(stated: dict[str, Any], mechanism: TreeResampling, share: float) -> dict[str, Any]:
    """The same study with a share of its budget: shares of rho add up, and of a pure epsilon. A little is left, so that
    both rounds together stay within what was asked for when they are rounded up."""
    delta, share = mechanism.delta, share * (1.0 - 1e-6)
    epsilon = epsilon_of(share * mechanism.planned.rho, delta) if delta else share * mechanism.epsilon
    kept = {
        name: value for name, value in stated["mechanism"]["parameters"].items() if name not in ("epsilon", "delta")
    }
    return {
        **stated,
        "mechanism": {**stated["mechanism"], "parameters": kept},
        "guarantee": {"epsilon": epsilon, "delta": delta},
    }
