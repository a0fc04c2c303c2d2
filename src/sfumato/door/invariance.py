"""invariance: which learners answer the same after a rotation of a table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sfumato.jobs.invariance import Invariance, measure_invariance
from sfumato.jobs.progress import Progress, silent
from sfumato.table import Schema


def invariance(
    table: Any,
    *,
    label: str | None = None,
    target: str | None = None,
    schema: Schema | Path | str | None = None,
    learners: Sequence[str] | None = None,
    rotations: int = 5,
    max_rows: int = 1000,
    seed: int = 0,
    progress: Progress = silent,
) -> Invariance:
    """Say which learners answer the same after a rotation of this table, and why [random-rotation, Definition 1].

    Nothing is released or written.

    Parameters
    ----------
    table : DataFrame, Arrow table or path
        The table to rotate.
    label : str, optional
        The column of classes to predict.
    target : str, optional
        Instead of `label`: a column of numbers, for regressions.
    schema : Schema or path, optional
        Bounds and categories; learned from the table by default.
    learners : sequence of str, optional
        Classifiers, with parameters where wanted ("svm kernel=sigmoid scaled=false"); with a `target`, regressions.
    rotations : int, default 5
        Rotations that are tried, at least 1.
    max_rows : int, default 1000
        A random sample of so many rows is used, at least 20.
    seed : int, default 0
        Of sample, split and rotations.
    progress : callable, optional
        Called as `progress(step, done, total)`.

    Returns
    -------
    Invariance
        `found` has for every learner the least share of equal answers, about zero and about random centres, the errors
        before and after, and what theory says; `to_dict()` gives plain JSON.

    Examples
    --------
    >>> import sfumato as sf
    >>> people = {"age": list(range(20, 80)), "bmi": [20 + i % 13 for i in range(60)], "ill": ["no", "yes"] * 30}
    >>> sf.invariance(people, label="ill", learners=["kernel-smoother width=0.5"], rotations=1).found[0].measured
    'any centre'
    """
    given = Schema.load(Path(schema)) if isinstance(schema, str | Path) else schema
    return measure_invariance(
        table,
        label=label,
        target=target,
        schema=given,
        learners=learners,
        rotations=rotations,
        max_rows=max_rows,
        seed=seed,
        progress=progress,
    )
