"""Releases of randomized answers in, frequencies of pairs and rules out: pairs.csv, rules.csv, rules.json."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from sfumato.core.array_types import Codes
from sfumato.core.asked import asks
from sfumato.core.errors import UsageError
from sfumato.learn.asked import RulesAsked
from sfumato.learn.mining.mined import Mined
from sfumato.learn.mining.rules import Estimate, Item, Rule, answers_of, frequent
from sfumato.learn.mining.rules import rules as sure_rules
from sfumato.learn.mining.seen import parts_of
from sfumato.learn.releases import pooled
from sfumato.release.release import Release, Releases

SURE = 0.05


@dataclass(frozen=True, repr=False)
class Rules(Mined):
    """What goes together among the people behind releases of randomized answers.

    Attributes
    ----------
    pairs : pyarrow.Table
        Estimated share of every pair of answers, with its interval.
    rules : pyarrow.Table
        Support, confidence, lift and chance of every rule, the surest first.
    about : dict
        Limits, how many rules were looked at, and warnings.
    """

    name: ClassVar[str] = "rules"
    pairs: pa.Table
    rules: pa.Table
    about: dict[str, Any]

    def __repr__(self) -> str:
        return f"<Rules: {self.rules.num_rows} from {self.about['rows']:,} released rows>"

    def files(self) -> dict[str, pa.Table]:
        """pairs.csv and rules.csv."""
        return {"pairs.csv": self.pairs, "rules.csv": self.rules}


@asks(RulesAsked)
def rules(releases: Releases, options: RulesAsked) -> Rules:
    """Association rules and frequencies of pairs behind randomized answers, unbiased and with intervals.

    Parameters
    ----------
    releases : Release, path, or a sequence of them
        Of one space, with at least two categorical columns; the label counts as one.
    {options}

    Returns
    -------
    Rules
        `pairs` and `rules` (Arrow tables), `about` and `warnings`; `save(folder)` writes them.

    Examples
    --------
    >>> import sfumato as sf
    >>> people = {"smokes": ["yes", "no", "no", "no"] * 250, "coughs": ["yes", "no", "no", "yes"] * 250}
    >>> release = sf.sanitize(people, mechanism="randomized-response", epsilon_record=6, seed=1)
    >>> found = sf.rules(release).rules.to_pylist()[0]
    >>> found["when"], found["then"], found["confidence"] > 0.8
    ('smokes=yes', 'coughs=yes', True)
    """
    limits = {name: getattr(options, name) for name in ("min_support", "min_confidence", "longest", "confidence")}
    for name in ("min_support", "min_confidence", "confidence"):
        if not 0 < limits[name] < 1:
            raise UsageError(f"The {name!r} parameter must lie between 0 and 1. Got {limits[name]} instead.")
    releases = pooled(releases, public=True)
    if any(release.card.made_by().by_class for release in releases):
        raise UsageError("Not applicable: the noise of these releases differs by class, and holds numbers only.")
    parts = [part for release in releases for part in parts_of(release)]
    answers = answers_of(parts, [_label(release) for release in releases], options.columns)
    sets = frequent(answers, options.longest, options.min_support, options.confidence)
    found, looked_at = sure_rules(answers, sets, options.min_support, options.min_confidence, options.confidence)
    about: dict[str, Any] = {
        "rows": answers.rows,
        **limits,
        "rules": len(found),
        "sure": sum(rule.chance <= SURE for rule in found),
        "looked_at": looked_at,
        "left_out": list(answers.left_out),
    }
    about["warnings"] = _warnings(about, releases)
    return Rules(_pairs(sets), _rules(found), about)


def _label(release: Release) -> tuple[str, tuple[str, ...], Codes, float] | None:
    if release.y is None:
        return None
    return release.card.release_schema["label"]["name"], release.card.classes, release.y, release.card.label_keep


def _warnings(about: dict[str, Any], releases: Sequence[Release]) -> list[str]:
    found = []
    if about["left_out"]:
        found.append(f"Columns of numbers have no answers and are left out: {', '.join(about['left_out'])}.")
    if about["rules"] > about["sure"]:
        found.append(
            f"{about['rules'] - about['sure']} of {about['rules']} rules may be chance: {about['looked_at']} were "
            f"looked at, and so often a connection as strong turns up where there is none (chance above {SURE})."
        )
    if any(release.card.made_by().rows != "perturbed" for release in releases):
        found.append("Released rows were drawn, so several can come from one person: intervals are too narrow.")
    return found


def _words(items: Sequence[Item]) -> str:
    return " and ".join(f"{name}={slot}" for name, slot in items)


def _pairs(sets: dict[tuple[Item, ...], Estimate]) -> pa.Table:
    pairs = [(items, one) for items, one in sets.items() if len(items) == 2]
    return pa.table(
        {
            "first": pa.array([_words(items[:1]) for items, _ in pairs], pa.string()),
            "second": pa.array([_words(items[1:]) for items, _ in pairs], pa.string()),
            "share": pa.array([one.value for _, one in pairs], pa.float64()),
            "low": pa.array([one.low for _, one in pairs], pa.float64()),
            "high": pa.array([one.high for _, one in pairs], pa.float64()),
        }
    )


def _rules(found: Sequence[Rule]) -> pa.Table:
    words = {
        "when": [_words(rule.when) for rule in found],
        "then": [_words([rule.then]) for rule in found],
    }
    figures = {
        "support": [rule.support.value for rule in found],
        "support_low": [rule.support.low for rule in found],
        "support_high": [rule.support.high for rule in found],
        "confidence": [rule.confidence.value for rule in found],
        "confidence_low": [rule.confidence.low for rule in found],
        "confidence_high": [rule.confidence.high for rule in found],
        "lift": [rule.lift for rule in found],
        "chance": [rule.chance for rule in found],
    }
    return pa.table(
        {name: pa.array(some, pa.string()) for name, some in words.items()}
        | {name: pa.array(some, pa.float64()) for name, some in figures.items()}
    )
