"""compare: every method at several strengths against every attacker, on one's own table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from sfumato.advising.compare import LADDER, SPLITS, Request
from sfumato.advising.compare import compare as run
from sfumato.auditing.report.comparison import write_comparison
from sfumato.core.progress import Progress, silent
from sfumato.table import Schema, open_table
from sfumato.table.persons import as_frame, kind_of


class Comparison:
    """What a comparison found; private, since it was measured on private rows.

    Attributes
    ----------
    data : mapping
        As it stands in compare.json: one entry for every setting.
    folder : Path
        compare.json, compare.parquet and compare.html.
    """

    def __init__(self, data: dict[str, Any], folder: Path, kind: str) -> None:
        self.data, self.folder, self._kind = data, folder, kind

    def __repr__(self) -> str:
        return f"<Comparison of {len(self.data['settings'])} settings in {self.folder}>"

    @property
    def table(self) -> Any:
        """One row, one figure; a frame of the kind that was given."""
        found: pa.Table = open_table(self.folder / "compare.parquet").read()
        return as_frame(found, self._kind)


def compare(
    table: Any,
    out: Path | str,
    *,
    label: str | None = None,
    schema: Schema | Path | str | None = None,
    mechanisms: Sequence[str] | None = None,
    attacks: Sequence[str] | None = None,
    learners: Sequence[str] | None = None,
    strengths: Sequence[float] = LADDER,
    splits: int = SPLITS,
    workers: int | None = None,
    seed: int = 0,
    max_extra: float | None = None,
    progress: Progress = silent,
) -> Comparison:
    """Try every method at several strengths against every attacker, and see what learners keep.

    Nothing is released, and the ledger is not told. Trials that are finished are kept in `out`: the same call goes on
    where an interrupted one stopped.

    Parameters
    ----------
    table : DataFrame, Arrow table, dict of columns, path or SqlQuery
        The private table; of more than 5,000 rows a sample is used.
    out : path
        Folder to write: compare.json, compare.parquet, compare.html, all of them private.
    label : str, optional
        The column to predict; or a `schema` that has one.
    schema : Schema or path, optional
        Bounds and categories; learned from the table by default.
    mechanisms : sequence of str, optional
        Which to compare; all that have a strength by default.
    attacks : sequence of str, optional
        Which attackers to try; all by default.
    learners : sequence of str, optional
        Which classifiers to train; by default the quick ones of those that `auto` would choose from.
    strengths : sequence of float, default (0.25, 0.5, 0.75)
        Where on each mechanism's own scale, from 0 (protects most) to 1 (tells most).
    splits : int, default 3
        Random splits into released rows and holdout, at least 1.
    workers : int, optional
        Processes at a time, at least 1; as many as there are cores by default.
    seed : int, default 0
        Of splits and of the noise that is tried.
    max_extra : float, optional
        Your limit: how many more of 100 an attacker may get right by the release, from 0 to 100. It is drawn.
    progress : callable, optional
        Called as `progress(step, done, total)`.

    Returns
    -------
    Comparison
        `comparison.table` has one row for each figure.
    """
    folder = Path(out)
    request = Request(
        label=label,
        schema=Path(schema) if isinstance(schema, str) else schema,
        mechanisms=None if mechanisms is None else tuple(mechanisms),
        attacks=None if attacks is None else tuple(attacks),
        learners=None if learners is None else tuple(learners),
        ladder=tuple(strengths),
        splits=splits,
        workers=workers,
        seed=seed,
        max_extra=max_extra,
    )
    data = run(table, folder, request, progress)
    write_comparison(data, folder / "compare.html")
    return Comparison(data, folder, kind_of(table))
