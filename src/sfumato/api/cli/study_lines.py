"""Sites, releases and models as lines of a terminal; what a server says is printed as plain text only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

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
        one = _shared(pair.share, pair.sha256, pair.site, pair.purpose)
        other = _shared(pair.other_share, pair.other, pair.other_site, pair.other_purpose)
        yield f"  {one} and {other}; expected by chance: {pair.expected:.1%}"


def _shared(share: float, sha256: str, site: str, purpose: str) -> str:
    return f"{share:.1%} of {plain(sha256)[:12]} ({plain(site)}, to {plain(purpose)})"


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
    words = [f"{name} {_error(found)}" for name, found in _errors(model)] or ["trained"]
    if model.sites != "all":
        words.append("trained on the sites that agree")
    words += [f"BETTER WITHOUT {plain(site)}: {error:.3f}" for site, error in _better_without(model)]
    words += _shuffled(model)
    if model.contains_rows:
        words.append("contains released rows")
    if model.uses_withdrawn:
        words.append("USES A WITHDRAWN RELEASE")
    return "; ".join(words)


def _shuffled(model: ModelInfo) -> list[str]:
    """The pool's central epsilon, and against whom it holds."""
    found = (model.results or {}).get("shuffled") or {}
    epsilon, delta = found.get("epsilon"), found.get("delta")
    if not isinstance(epsilon, int | float) or not isinstance(delta, int | float):
        return []
    central = f"shuffled pool: central epsilon {rounded_up(epsilon)}, delta {delta:g}"
    return [f"{central}, if the shuffler is honest (not against the coordinator)"]


def _better_without(model: ModelInfo) -> Iterator[tuple[str, float]]:
    """Sites with which the error lies above the interval of the error without them."""
    for one in ((model.results or {}).get("trust") or {}).get("sites") or ():
        found = one.get("without") or {}
        error, full, interval = found.get("error"), found.get("with"), found.get("interval")
        if error is not None and full is not None and interval and full > interval[1]:
            yield str(one.get("site")), float(error)


def _errors(model: ModelInfo) -> Iterator[tuple[str, dict[str, object]]]:
    results = model.results or {}
    for found in results.get("test") or ():
        yield f"error on {plain(str(found.get('kind')))}", found
    if found := results.get("cross_validation"):
        yield "cross-validation error", found


def _error(found: dict[str, object]) -> str:
    error, interval = found.get("error"), found.get("interval")
    if not isinstance(error, int | float) or not isinstance(interval, list) or len(interval) != 2:
        return "unknown"
    words, commonest = f"{error:.3f} ({interval[0]:.3f} to {interval[1]:.3f})", found.get("commonest")
    if not isinstance(commonest, int | float):
        return words
    than = than_commonest(interval[0] - commonest, interval[1] - commonest)
    return f"{words}, commonest class {commonest:.3f}" + ("" if than == BETTER else f" ({than.upper()} THAN THAT)")
