"""audit: attack a release before anybody else does."""

from __future__ import annotations

from typing import Any

from sfumato.auditing.audit import Audit
from sfumato.auditing.audit import audit as run
from sfumato.auditing.options import Options
from sfumato.core.asked import asks

__all__ = ["Audit", "audit"]


@asks(Options)
def audit(release: Any, options: Options) -> Audit:
    """Run every attack on a release, and measure what the release is still good for.

    Parameters
    ----------
    release : Release, path, DataFrame or Arrow table
        A release or its folder; or the table of a release that another tool made, with the original's column names.
    {options}

    Returns
    -------
    Audit
        `audit.scores` has one row for each attack; `audit.save_report("report.html")` writes the page.

    Examples
    --------
    >>> import sfumato as sf
    >>> people = {"age": [34, 61, 47, 29, 52] * 20, "ill": ["no", "yes", "yes", "no", "no"] * 20}
    >>> release = sf.sanitize(people, label="ill", mechanism="additive-noise", seed=1)
    >>> found = sf.audit(release, original=people, repeats=0, attacks=["naive-estimate"])
    >>> found.attack("naive-estimate")["score"] > 0
    True
    """
    return run(release, options)
