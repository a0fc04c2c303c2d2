"""Extra: how many more of 100 an attacker gets right with the release than without it. One measure for every risk.

The owner's limit is drawn on it. A risk that was not tried is unknown, never 0, and nothing is ever called safe.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sfumato.attacks import ATTACKS
from sfumato.attacks.base import INFERENCE, LINKABILITY, SINGLING_OUT

WITHIN, NOT_WITHIN, DECISION, UNKNOWN = "within your limits", "not within your limits", "your decision", "unknown"
RISKS = (LINKABILITY, INFERENCE, SINGLING_OUT)

Attacks = Sequence[Mapping[str, Any]]
NO_HOLDOUT = "needs people who are not in the table: give a holdout table"
"""Why an attacker did not try, where the owner can change that."""


@dataclass(frozen=True)
class Points:
    """One attacker, in points of 100: right, right without the release, and both ends of the interval of `extra`.

    `pairs`: of two people, one of whom is in the table, the attacker says which.
    """

    right: float
    without: float
    low: float
    high: float
    pairs: bool = False

    @property
    def extra(self) -> float:
        return self.right - self.without

    @property
    def learns(self) -> bool:
        """Whether more is right than without the release, be it by chance."""
        return self.extra > 1e-7


@dataclass(frozen=True)
class Risk:
    """One risk by the attacker who gets most extra. Without `points` no attacker tried, and `why` says why not.

    `tried`: attackers of this risk; `ways`: descriptions that they tried, of those who count them; `found`: people whom
    these fitted alone. `high`: the highest upper end among all who tried.
    """

    risk: str
    attacker: str = ""
    points: Points | None = None
    high: float = 0.0
    tried: int = 0
    ways: int = 0
    found: int = 0
    why: str = ""


def points_of(entry: Mapping[str, Any]) -> Points | None:
    """One attack of an audit; None where it did not run, or where the truth chose among several guesses."""
    return None if entry.get("score") is None or entry.get("upper_bound") else shown_points(entry)


def shown_points(entry: Mapping[str, Any]) -> Points:
    """The figures of an attack that ran, or of one of its columns, whoever chose."""
    details = entry.get("details") or {}
    pairs = details.get("auc") is not None
    right, without = (details["auc"], 0.5) if pairs else (entry["score"], entry.get("baseline") or 0.0)
    ends = (details.get("auc_low"), details.get("auc_high")) if pairs else entry.get("interval") or (None, None)
    low, high = (right if end is None else end for end in ends)
    return Points(100 * right, 100 * without, 100 * (low - without), 100 * (high - without), pairs)


def three_risks(attacks: Attacks) -> list[Risk]:
    """All three, by the attacker of each who gets most extra."""
    known = [(ATTACKS[entry["name"]].risk, entry) for entry in attacks if entry["name"] in ATTACKS]
    return [_risk(risk, [entry for own, entry in known if own == risk]) for risk in RISKS]


def _risk(risk: str, entries: Attacks) -> Risk:
    tried = [(points, entry) for entry in entries if (points := points_of(entry)) is not None]
    if not tried:  # the commonest reason; what the owner can add comes before what cannot be known
        reasons = Counter(
            str(entry.get("not_applicable") or f"{entry['name']} failed")
            for entry in entries
            if not entry.get("upper_bound")
        )
        usual = reasons.most_common(1)[0][0] if reasons else "no attacker of this kind was asked for"
        return Risk(risk, why=NO_HOLDOUT if NO_HOLDOUT in reasons else usual)
    best, entry = max(tried, key=lambda one: one[0].extra)
    counts = [entry.get("details") or {} for _, entry in tried]
    ways, found = (int(sum(count.get(name) or 0 for count in counts)) for name in ("predicates", "people_singled_out"))
    high = max(points.high for points, _ in tried)
    return Risk(risk, str(entry["name"]), best, high, len(tried), ways=ways, found=found)


def state_of(risks: Sequence[Risk], limit: float | None) -> str:
    """Within the owner's limit only if every risk was tried, and every interval stays below the limit."""
    if limit is not None and any(one.points is not None and one.points.extra > limit for one in risks):
        return NOT_WITHIN
    if any(one.points is None for one in risks):
        return UNKNOWN
    if limit is None:
        return DECISION
    return WITHIN if all(one.high <= limit for one in risks) else NOT_WITHIN


def extra_dict(attacks: Attacks, limit: float | None) -> dict[str, Any]:
    """`extra` of audit.json: the state, the limit it was judged by, and the three risks; what was not tried has no
    figures."""
    risks, told = three_risks(attacks), list[dict[str, Any]]()
    for one in risks:
        if one.points is None:
            told.append({"risk": one.risk, "attacker": None, "extra": None, "not_tried": one.why})
        else:
            points = {name: value for name, value in asdict(one.points).items() if name != "high"}
            figures = {"extra": one.points.extra, "high": one.high, "tried": one.tried}
            told.append({"risk": one.risk, "attacker": one.attacker, **points, **figures})
    return {"state": state_of(risks, limit), "limit": limit, "risks": told}


def with_extra(entry: Mapping[str, Any]) -> dict[str, Any]:
    """One attack with its own extra, null where there is none."""
    points = points_of(entry)
    return {**entry, "extra": None if points is None else points.extra}
