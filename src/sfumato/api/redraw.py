"""redraw: more rows from the model of a release, without the table."""

from __future__ import annotations

from pathlib import Path

from sfumato.core.progress import Progress, silent
from sfumato.release.redraw import redraw as redraw_release
from sfumato.release.release import Release


def redraw(
    release: Release | Path | str,
    *,
    rows: int | None = None,
    out: Path | str | None = None,
    format: str = "parquet",
    seed: int | None = None,
    ledger: Path | str | None = None,
    force: bool = False,
    progress: Progress = silent,
) -> Release:
    """Draw rows again from the model of a release whose rows belong to nobody. The table is not needed.

    Whatever is drawn from one model rests on the same noisy measurements, so it costs nothing: the card states the
    claim of the first release. Fitting again (`sanitize`) measures again, and is paid for again.

    Parameters
    ----------
    release : Release or path
        A release by `tree-resampling`, or its folder with `model.json`.
    rows : int, optional
        Rows to draw; as many as the noisy count of the table says, if not given.
    out : path, optional
        Folder to write. Without it the release stays in memory until `Release.save`.
    format : {"parquet", "csv", "sav", "zsav", "dta", "xpt", "xlsx", "ods"}, default "parquet"
        Format of the rows in `out`.
    seed : int, optional
        The same rows every time. It weakens nothing: the noise was drawn at the fit.
    ledger : path, optional
        The owner's ledger, where the redraw is noted if it knows the model; if not the usual one.
    force : bool, default False
        Replace an earlier release in `out`.
    progress : callable, optional
        Called as `progress(step, done, total)`.

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
    return redraw_release(
        given,
        rows=rows,
        out=None if out is None else Path(out),
        format=format,
        seed=seed,
        ledger=None if ledger is None else Path(ledger),
        force=force,
        progress=progress,
    )
