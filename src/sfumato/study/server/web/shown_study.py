"""Study, sites and releases as the pages show them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sfumato.guarantee import AllReleases
from sfumato.guarantee import Guarantee as Stated
from sfumato.guarantee.all_releases import hidden_presence, total_without_delta
from sfumato.guarantee.cost import Central, presence
from sfumato.guarantee.guarantee import LOCAL_DP, WEAK_CENTRAL, infinite
from sfumato.study.protocol.messages import ReleaseInfo, SiteInfo
from sfumato.study.protocol.pool_study import PoolStudy
from sfumato.study.server.store.release_store import guarantee_words

LABELS = " If the column to predict is released exactly, it reveals more on top."


@dataclass(frozen=True)
class Guarantee:
    """What a site asserts, in short and in full; `state` gives the colour."""

    short: str
    state: str
    words: str


@dataclass(frozen=True)
class ShownSite:
    info: SiteInfo
    rows: str
    guarantee: Guarantee | None
    state: str
    """ "" for a site in good standing, else what is the matter."""


def guarantee(
    epsilon: float | None, earlier: int = 0, total: float | None = None, hidden: dict[str, float] | None = None
) -> Guarantee:
    """What these figures let a reader of this release, and of all `earlier` ones of its rows, become sure of.

    `hidden`: epsilon and delta of a person's presence, of made-up rows.
    """
    if hidden is not None:
        central = Central(pure=hidden["epsilon"], delta=hidden["delta"])
        seeing = "sees all of its releases, " if earlier else ""
        state = "weak" if central.epsilon > WEAK_CENTRAL else "formal"
        return Guarantee(guarantee_words(epsilon, earlier, total, hidden), state, presence(central, seeing))
    record = infinite(epsilon)
    alone = Stated(record, record, record, exact=False)
    together = AllReleases.of(alone, {"count": earlier, "total_epsilon_record": total})
    state = ("weak" if together.unprotected else "formal") if together.bounded else "none"
    words = together.in_words() + ("" if epsilon is None else LABELS)
    return Guarantee(guarantee_words(epsilon, earlier, total), state, words)


def used_guarantee(used: Mapping[str, Any]) -> Guarantee:
    """Of a release on a model's card; models of 0.1.0 carry words instead of figures, which are not shown."""
    earlier = used.get("earlier_releases") or {}
    if "epsilon_record" not in used:
        return Guarantee("proved" if used.get("guarantee") == LOCAL_DP else "none that is proved", "none", "")
    count, total = int(earlier.get("count") or 0), total_without_delta(used["epsilon_record"], earlier)
    hidden = hidden_presence({"guarantee": {"kind": used.get("guarantee"), **used}, "earlier_releases": earlier})
    figures = None if hidden is None else {"epsilon": hidden.epsilon, "delta": hidden.delta}
    return guarantee(used["epsilon_record"], count, total, figures)


def shown_site(site: SiteInfo, today: str) -> ShownSite:
    state = "revoked" if site.revoked else "token expired" if site.expires and site.expires < today else ""
    told = guarantee(site.epsilon, site.earlier, site.total_epsilon, site.presence) if site.releases else None
    return ShownSite(site, f"{site.rows:,}", told, state)


def totals(sites: Sequence[SiteInfo]) -> dict[str, Any]:
    """Figures at the head of the owner's page."""
    return {
        "sites": len(sites),
        "pushing": sum(site.releases > 0 for site in sites),
        "rows": f"{sum(site.rows for site in sites):,}",
        "releases": sum(site.releases for site in sites),
        "last_push": max((site.last_push for site in sites if site.last_push), default="never"),
    }


def site_totals(releases: Sequence[ReleaseInfo]) -> dict[str, Any]:
    """The same of a site's own pushes."""
    standing = [one for one in releases if not one.withdrawn]
    return {
        "rows": f"{sum(one.rows for one in standing if one.purpose == 'train'):,}",
        "releases": len(standing),
        "last_push": max((one.received for one in standing), default="never"),
    }


def asked(definition: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What every release of the study must be, as rows of a table."""
    mechanism = definition.get("mechanism") or {}
    stated = mechanism.get("parameters") or {}
    columns = (definition.get("schema") or {}).get("columns") or []
    label = next((str(column.get("name")) for column in columns if column.get("role") == "label"), "")
    parameters = ", ".join(f"{name} = {value}" for name, value in stated.items() if name != "plan")
    plan = PoolStudy.from_dict(definition).plan if stated.get("plan") else None
    rows = [
        ("Mechanism", " with ".join(filter(None, [str(mechanism.get("name", "")), parameters]))),
        ("Guarantee", _asked_guarantee(definition.get("guarantee"))),
        ("Columns", f"{len(columns) - bool(label)} and the label {label}" if label else str(len(columns))),
        ("Plan", f"sites push noisy counts; the plan is by {plan.chosen_by}" if plan else ""),
        ("Space", str(definition.get("space") or "")),
        ("Largest site", _asked_share(definition.get("largest_site_share"))),
    ]
    return [(name, value) for name, value in rows if value]


def _asked_share(found: Any) -> str:
    return "" if found is None else f"at most {float(found):.0%} of the rows that models are trained on"


def _asked_guarantee(found: Any) -> str:
    if isinstance(found, Mapping) and "delta" in found:
        figures = f"epsilon at most {float(found['epsilon']):.9g} at delta {float(found['delta']):g}"
        return f"proved, {figures} for a person's presence in the table"
    if isinstance(found, Mapping):
        return f"proved, epsilon at most {float(found.get('epsilon_record', 0)):.9g} for a whole record"
    return "no proof is required (empirical releases are allowed)"
