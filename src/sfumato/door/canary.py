"""canary: does tree-resampling tell no more than it claims?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sfumato.jobs.canary import CanaryAudit
from sfumato.jobs.canary import canary as audit_with_canaries
from sfumato.jobs.progress import Progress, silent
from sfumato.table import Schema


def canary(
    table: Any,
    *,
    schema: Schema | Path | str,
    epsilon: float = 1.0,
    delta: float = 1e-6,
    fits: int = 200,
    seed: int | None = None,
    progress: Progress = silent,
) -> CanaryAudit:
    """Fit `tree-resampling` many times with and without planted records, and measure how well one tells the two apart.

    The claim must hold for every table, so a public or an invented one will do. Nothing is released and the ledger is
    not charged. If the table is private, so is what comes out.

    Parameters
    ----------
    table : DataFrame, Arrow table, dict of columns, path or SqlQuery
        Rows to plant records among.
    schema : Schema or path
        With public bounds, categories and classes, as `sanitize` needs them.
    epsilon : float, default 1.0
        The claim to be tried, in (0, 100].
    delta : float, default 1e-06
        Goes with it, above 0.
    fits : int, default 200
        Fits with, and as many without; from 20 to 100,000. A part's interval is about 12 / sqrt(fits) wide.
    seed : int, optional
        Repeatable noise.
    progress : callable, optional
        Called as `progress(step, done, total)`.

    Returns
    -------
    CanaryAudit
        `parts` (claimed and measured mu with an interval), `above` (True: more is told than is claimed), `in_words()`.

    Examples
    --------
    >>> import sfumato as sf
    >>> known = {"source": "public", "reason": "the admission form"}
    >>> schema = sf.Schema((sf.Column("age", "integer", low=0, high=120, **known),))
    >>> people = {"age": [34, 61, 47, 29, 52] * 20}
    >>> sf.canary(people, schema=schema, epsilon=1, fits=50, seed=1).above
    False
    """
    found = schema if isinstance(schema, Schema) else Schema.load(schema)
    return audit_with_canaries(table, found, epsilon=epsilon, delta=delta, fits=fits, seed=seed, progress=progress)
