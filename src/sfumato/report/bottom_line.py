"""May I release this, and is it of use? The answer that comes before all figures, from an audit's plain JSON.

*Extra* is how many more of 100 an attacker gets right with the release than without it: one measure for all risks. The
owner's limit is on it. A risk that nobody tried is unknown, never 0, and nothing is ever called safe.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sfumato.attacks import ATTACKS
from sfumato.attacks.base import INFERENCE, LINKABILITY, SINGLING_OUT
from sfumato.guarantee.concentrated import Central, Values
from sfumato.guarantee.guarantee import CENTRAL_DP, LOCAL_DP
from sfumato.guarantee.posterior import loss_of_rho, posterior_bound
from sfumato.guarantee.rounding import rounded_up
from sfumato.jobs.strength import PRIOR
from sfumato.wording import counted

WITHIN, NOT_WITHIN, DECISION, UNKNOWN = "WITHIN YOUR LIMITS", "NOT WITHIN YOUR LIMITS", "YOUR DECISION", "UNKNOWN"
QUESTIONS = {LINKABILITY: "Whose row is it?", INFERENCE: "Learn a value?", SINGLING_OUT: "Pick out one?"}
LEFT = 19


@dataclass(frozen=True)
class Extra:
    """The attacker of one risk who gains most, in points of 100. `right` None: nobody tried, and `why`."""

    risk: str
    right: float | None = None
    without: float = 0.0
    high: float = 0.0
    """The upper end of the interval of extra."""
    tried: int = 0
    why: str = ""

    @property
    def extra(self) -> float | None:
        return None if self.right is None else self.right - self.without


def extra_of(entry: Mapping[str, Any]) -> float | None:
    """Right minus right without the release, of one attack, in points of 100."""
    if entry.get("score") is None or entry.get("upper_bound"):
        return None
    auc = (entry.get("details") or {}).get("auc")
    if auc is not None:  # of pairs, one of whom is in the table
        return 100.0 * (float(auc) - 0.5)
    return 100.0 * (float(entry["score"]) - float(entry.get("baseline") or 0.0))


def extras(found: Mapping[str, Any]) -> list[Extra]:
    """One for each risk, as the strongest attacker of it leaves it."""
    told = []
    for risk in QUESTIONS:
        mine = [one for one in found["attacks"] if one["name"] in ATTACKS and ATTACKS[one["name"]].risk == risk]
        tried = [one for one in mine if extra_of(one) is not None]
        if not tried:
            reasons = [str(one["not_applicable"]) for one in mine if one.get("not_applicable")]
            told.append(Extra(risk, why=max(set(reasons), key=reasons.count) if reasons else "nobody was asked to"))
            continue
        best = max(tried, key=lambda one: extra_of(one) or 0.0)
        details = best.get("details") or {}
        if details.get("auc") is not None:
            right, without, high = 100 * details["auc"], 50.0, 100 * details["auc_high"] - 50.0
        else:
            right, without = 100 * float(best["score"]), 100 * float(best.get("baseline") or 0.0)
            high = 100 * float((best.get("interval") or [0, best["score"]])[1]) - without
        told.append(Extra(risk, right, without, high, len(tried)))
    return told


def state_of(risks: list[Extra], limit: float | None) -> str:
    """Within the owner's limit only if everything was tried, and all intervals stay below it."""
    if any(one.extra is not None and limit is not None and one.extra > limit for one in risks):
        return NOT_WITHIN
    if any(one.extra is None for one in risks):
        return UNKNOWN
    if limit is None:
        return DECISION
    return WITHIN if all(one.high <= limit for one in risks) else NOT_WITHIN


def bottom_line(
    found: Mapping[str, Any], limit: float | None = None, folder: str = "DIR", width: int = 80
) -> list[str]:
    """The lines, wrapped: what was decided, the proof, the three risks, use, what is not hidden, what to do next."""
    risks = extras(found)
    rows = [(state_of(risks, limit), proof(found))]
    rows += [(QUESTIONS[one.risk], _risk(one, limit)) for one in risks]
    rows.append(("Of use?", _use(found)))
    rows.append(("Not hidden", _not_hidden(found)))
    rows.append(("Next", f"sfumato certificate {folder}"))
    lines: list[str] = []
    for left, words in rows:
        # A state may be longer than the column: its sentence then begins below it.
        start = f"{left:<{LEFT}}" if len(left) < LEFT else ""
        if not start:
            lines.append(left)
        lines += textwrap.wrap(words, width, initial_indent=start or " " * LEFT, subsequent_indent=" " * LEFT)
    return lines


def proof(found: Mapping[str, Any]) -> str:
    """What is proved of all releases together, in a belief that people have met; or that nothing is."""
    guarantee, earlier = found.get("guarantee") or {}, (found.get("release") or {}).get("earlier_releases") or {}
    if guarantee.get("kind") not in (LOCAL_DP, CENTRAL_DP):
        return "Measured, not proved: no bound holds, only what the attackers below reached was measured."
    values = _values(guarantee, earlier)
    if values is None or not values.bounded:
        return "Nothing is proved of all releases together: an earlier one has no bound."
    central = None if values.central is None else values.central.value
    loss = values.local + (0.0 if central is None else central.pure + loss_of_rho(central.rho, central.delta or 1.0))
    but = f", except with probability {values.delta:g}" if values.delta else ""
    presence = ""
    if values.central is not None and not values.local:
        presence = f", {rounded_up(values.central.epsilon)} for presence"
    each = guarantee.get("rows_per_person")
    people = "" if each in (None, 1) else f" of one of {each} rows each"
    return (
        "Proved: whatever the other rows teach, a person's own row can lift a fact from 1 chance in 10 to at most "
        f"{math.ceil(100 * posterior_bound(PRIOR, loss)) / 10:g} in 10{but} (epsilon {rounded_up(values.epsilon)} for "
        f"values{people}{presence}, all releases counted)."
    )


def _values(guarantee: Mapping[str, Any], earlier: Mapping[str, Any]) -> Values | None:
    stated = earlier if earlier.get("count") else guarantee
    local = earlier.get("total_epsilon_record") if earlier.get("count") else guarantee.get("epsilon_record")
    central = Central.from_dict(stated["central"]) if stated.get("central") else None
    if local is None and (central is None or earlier.get("count")):
        return None
    return Values(0.0 if central is not None and not earlier.get("count") else float(local or 0.0), central)


def _risk(one: Extra, limit: float | None) -> str:
    if one.extra is None or one.right is None:
        return f"not tried: {one.why}"
    if one.extra <= 0:
        ways = counted(one.tried, "way")
        return f"{one.right:.0f} of 100, {one.without:.0f} without the release: nothing learned, {ways} tried"
    pairs = " pairs told apart" if one.without == 50.0 and one.risk == LINKABILITY else " right"
    beside = "" if limit is None else f"   limit {limit:g}"
    return f"{one.right:.0f} of 100{pairs}   {one.without:.0f} without the release   +{one.extra:.0f}{beside}"


def _use(found: Mapping[str, Any]) -> str:
    best = max(
        (one for one in found.get("utility") or () if one.get("release") is not None),
        key=lambda one: float(one["release"]),
        default=None,
    )
    if best is not None:
        originals = max(float(one["original"]) for one in found["utility"] if one.get("original") is not None)
        common = "" if best.get("commonest") is None else f"commonest class {100 * best['commonest']:.0f}, "
        right, learner = 100 * float(best["release"]), best["classifier"]
        return f"{right:.0f} of 100 right ({common}originals {100 * originals:.0f}), by {learner}"
    marginals = ((found.get("fidelity") or {}).get("marginals") or {}).get("release")
    if marginals is not None:
        pairs = found["fidelity"]["pairs"]["release"]
        two = "" if pairs is None else f", of two columns by {100 * pairs:.0f}"
        return f"shares of one column are off by {100 * marginals:.0f} points{two}"
    return "not measured: there is no column to predict, or it is unknown which row is whose"


def _not_hidden(found: Mapping[str, Any]) -> str:
    release = found.get("release") or {}
    parts = []
    if words := release.get("owners_word"):
        reason = str(words[1] if len(words) > 1 else words[0]).partition(": ")[0]
        parts.append(f"the ranges you declared ({textwrap.shorten(reason, 60)})")
    if learned := release.get("learned_from_data"):
        parts.append(f"{counted(len(learned), 'range')} read off your data")
    if release.get("label_state") == "exact":
        parts.append("the column to predict")
    if (found.get("guarantee") or {}).get("kind") != CENTRAL_DP:
        parts.append("who is in the table")
    return "; ".join(parts) or "what is true of everybody"
