"""Sites, releases and models as lines of a terminal; what a server says is printed as plain text only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sfumato.core.wording import BETTER, than_commonest
from sfumato.guarantee.rounding import rounded_up
from sfumato.study.client.connection import plain
from sfumato.study.protocol.messages import ModelInfo, ReleaseInfo, SharedRows, SiteInfo


def site_lines(sites: Sequence[SiteInfo]) -> Iterator[str]:
    if not sites:
        yield "No site was invited yet."
        return
    width = max(len(site.name) for site in sites)
    yield f"{'site':{width}}  {'releases':>8}  {'rows':>10}  {'last push':10}  token until  guarantee (site-asserted)"
    for site in sites:
        until = "revoked" if site.revoked else plain(site.expires)
        counts = f"{site.releases:>8,}  {site.rows:>10,}  {plain(site.last_push or 'never'):10}"
        yield f"{plain(site.name):{width}}  {counts}  {until:11}  {plain(site.guarantee or '-')}"


def release_lines(releases: Sequence[ReleaseInfo]) -> Iterator[str]:
    if not releases:
        yield "Nothing was pushed yet."
        return
    yield f"{'sha256':64}  {'rows':>10}  {'purpose':7}  received"
    for release in releases:
        withdrawn = "  withdrawn" if release.withdrawn else ""
        about = f"{release.rows:>10,}  {plain(release.purpose):7}  {plain(release.received)}"
        yield f"{plain(release.sha256):64}  {about}{withdrawn}"


def shared_lines(shared: Sequence[SharedRows]) -> Iterator[str]:
    """Nothing where no two releases share rows."""
    if shared:
        yield ""
        yield "Releases that share rows beyond chance:"
    for pair in shared:
        one = f"{plain(pair.sha256)[:12]} ({plain(pair.site)}, to {plain(pair.purpose)})"
        other = f"{plain(pair.other)[:12]} ({plain(pair.other_site)}, to {plain(pair.other_purpose)})"
        shares = f"{pair.share:.1%} of {one} and {pair.other_share:.1%} of {other}"
        yield f"  {shares}; expected by chance: {pair.expected:.1%}"


def model_lines(models: Sequence[ModelInfo]) -> Iterator[str]:
    if not models:
        yield "No model was trained yet."
        return
    width = max(len(model.text) for model in models)
    for model in models:
        yield f"{plain(model.id)}  {plain(model.text):{width}}  {_words(model)}"


def _words(model: ModelInfo) -> str:
    if model.state == "failed":
        return f"failed: {plain(model.failure or 'no reason was given')}"
    if model.state != "done":
        return f"{plain(model.state)}, {model.progress:.0%} {plain(model.step)}".rstrip()
    results = model.results or {}
    words = [f"error on {plain(str(found.get('kind')))} {_error(found)}" for found in results.get("test") or ()]
    if found := results.get("cross_validation"):
        words.append(f"cross-validation error {_error(found)}")
    words = words or ["trained"]
    if model.sites != "all":
        words.append("trained on the sites that agree")
    words += _better_without(results)
    shuffled = results.get("shuffled") or {}
    epsilon, delta = shuffled.get("epsilon"), shuffled.get("delta")
    if isinstance(epsilon, int | float) and isinstance(delta, int | float):
        central = f"shuffled pool: central epsilon {rounded_up(epsilon)}, delta {delta:g}"
        words.append(f"{central}, if the shuffler is honest (not against the coordinator)")
    if model.contains_rows:
        words.append("contains released rows")
    if model.uses_withdrawn:
        words.append("USES A WITHDRAWN RELEASE")
    return "; ".join(words)


def _better_without(results: Mapping[str, Any]) -> Iterator[str]:
    """Sites with which the error lies above the interval of the error without them."""
    for one in (results.get("trust") or {}).get("sites") or ():
        found = one.get("without") or {}
        error, full, interval = found.get("error"), found.get("with"), found.get("interval")
        if error is not None and full is not None and interval and full > interval[1]:
            yield f"BETTER WITHOUT {plain(str(one.get('site')))}: {float(error):.3f}"


def _error(found: dict[str, object]) -> str:
    error, interval = found.get("error"), found.get("interval")
    if not isinstance(error, int | float) or not isinstance(interval, list) or len(interval) != 2:
        return "unknown"
    words, commonest = f"{error:.3f} ({interval[0]:.3f} to {interval[1]:.3f})", found.get("commonest")
    if not isinstance(commonest, int | float):
        return words
    than = than_commonest(interval[0] - commonest, interval[1] - commonest)
    return f"{words}, commonest class {commonest:.3f}" + ("" if than == BETTER else f" ({than.upper()} THAN THAT)")
