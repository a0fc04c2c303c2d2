"""redraw: more rows from the model of a release, without the table."""

from __future__ import annotations

from pathlib import Path

from sfumato.core.asked import asks
from sfumato.release.asked import RedrawAsked
from sfumato.release.redraw import redraw as redraw_release
from sfumato.release.release import Release


@asks(RedrawAsked)
def redraw(release: Release | Path | str, options: RedrawAsked) -> Release:
    """Draw rows again from the model of a release whose rows belong to nobody. The table is not needed.

    Whatever is drawn from one model rests on the same noisy measurements, so it costs nothing: the card states the
    claim of the first release. Fitting again (`sanitize`) measures again, and is paid for again.

    Parameters
    ----------
    release : Release or path
        A release by `tree-resampling`, or its folder with `model.json`.
    {options}

    Returns
    -------
    Release
        New rows. `card.earlier_releases` says that they were redrawn.

    Raises
    ------
    UsageError, CardError, OutputError
        Where the release has no model, or model and card do not belong together.

    Examples
    --------
    >>> import sfumato as sf
    >>> known = {"source": "public", "reason": "the admission form"}
    >>> schema = sf.Schema((sf.Column("age", "integer", low=0, high=120, **known),))
    >>> people = {"age": [34, 61, 47, 29, 52] * 20}
    >>> release = sf.sanitize(people, schema=schema, mechanism="tree-resampling", epsilon=1)
    >>> len(sf.redraw(release, rows=500))
    500
    """
    given = Release.public(release) if isinstance(release, str | Path) else release
    return redraw_release(given, options)
