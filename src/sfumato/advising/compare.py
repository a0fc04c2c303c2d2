"""compare: methods x strengths x attackers x learners on one's own table; cells that are finished are kept."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.advising.asked import KEY_HOLDERS, CompareAsked
from sfumato.advising.comparing import Cell, no_learner, not_compared, run_cell, settings, tidy
from sfumato.advising.ground import TEST_SHARE, Ground, people_of, sampled, split, trial_schema
from sfumato.advising.trial import Trial
from sfumato.advising.wish import Candidate, Wish, candidates
from sfumato.auditing.asked import chosen_attacks
from sfumato.auditing.report.comparison import write_comparison
from sfumato.core.asked import asks
from sfumato.core.errors import OutputError, PrivacyLeakWarning, SchemaError, UsageError
from sfumato.core.files import check_folder, explained, write_whole
from sfumato.core.processes import in_processes
from sfumato.learn.classifiers.factory import CLASSIFIERS
from sfumato.release.sanitize import schema_for
from sfumato.table import Schema, open_table, write_table
from sfumato.table.cell_sets import as_frame, kind_of

LOOKS = (
    "These trials look at your private rows, so nothing can be proved of a setting that is chosen by them. Where "
    '"proved" stands beside one, that holds for whoever chose it without looking.'
)
MOST_ROWS = 5_000
ATTACKED = 500
CELLS = "cells-6"
"""What a kept cell holds; those of another kind are not taken up."""


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


@asks(CompareAsked)
def compare(table: Any, out: Path | str, options: CompareAsked) -> Comparison:
    """Try every method at several strengths against every attacker, and see what learners keep.

    Nothing is released, and the ledger is not told. Trials that are finished are kept in `out`: the same call goes on
    where an interrupted one stopped.

    Parameters
    ----------
    table : DataFrame, Arrow table, dict of columns, path or SqlQuery
        The private table; of more than 5,000 rows a sample is used.
    out : path
        Folder to write: compare.json, compare.parquet, compare.html, all of them private.
    {options}

    Returns
    -------
    Comparison
        `comparison.table` has one row for each figure.
    """
    _check(options)
    folder, opened = Path(out), open_table(table)
    schema = schema_for(opened, options.schema, options.label)
    if schema.label is None:
        raise SchemaError(
            "Accuracy is how often the column to predict is right, and there is none. Name it with --label."
        )
    found, left_out = _compared(options, schema)
    warnings.warn(LOOKS, PrivacyLeakWarning, stacklevel=2)
    rows = opened.read()
    grounds = _grounds(rows, schema, options)
    kept = _folder(folder, rows, schema, options)
    cells = [
        Cell(one, level, number) for number in range(options.splits) for one in found for level in options.strengths
    ]
    results = _run(cells, grounds, options, kept)
    entries = settings(results)
    data = {
        "format": "sfumato-compare",
        "version": 1,
        "private": True,
        "rows": rows.num_rows,
        "rows_used": grounds[0].train.num_rows + grounds[0].test.num_rows,
        "splits": options.splits,
        "label": schema.label.name,
        "columns": len(schema.private),
        "column_names": [column.name for column in schema.private],
        "limit": options.max_extra,
        "settings": entries,
        "not_compared": not_compared(entries) | left_out,
        "no_learner": no_learner(entries),
        "seconds": round(sum(one["seconds"] for one in results), 1),
    }
    write_whole(folder / "compare.json", json.dumps(data, indent=1), private=True)
    write_table(tidy(results), folder / "compare.parquet", private=True)
    write_comparison(data, folder / "compare.html")
    return Comparison(data, folder, kind_of(table))


def _check(options: CompareAsked) -> None:
    """Refuse what cannot be meant, before anything is read."""
    if not options.strengths or not all(0.0 <= one <= 1.0 for one in options.strengths):
        raise UsageError("Strengths must lie between 0 (protects most) and 1 (tells most).")
    chosen_attacks(options.named[0])
    if unknown := sorted(set(options.learners or ()) - set(CLASSIFIERS)):
        raise UsageError(f"There is no classifier {unknown[0][:60]!r}. Choose from: {', '.join(CLASSIFIERS)}.")


def _compared(options: CompareAsked, schema: Schema) -> tuple[list[Candidate], dict[str, str]]:
    """The methods to compare, and why others are not."""
    found, left_out = candidates(Wish(trust=KEY_HOLDERS), public=not schema.learned)
    if options.mechanisms is None:
        return found, left_out
    if unknown := sorted(set(options.mechanisms) - {one.mechanism for one in found}):
        why = left_out.get(unknown[0], "there is no such mechanism")
        raise UsageError(f"{unknown[0][:60]} cannot be compared: {why}.")
    return [one for one in found if one.mechanism in options.mechanisms], left_out


def _grounds(rows: pa.Table, schema: Schema, options: CompareAsked) -> list[Ground]:
    rng, shown = np.random.default_rng(options.seed), trial_schema(schema)
    numbers = sampled(rows, MOST_ROWS, rng)
    rows = rows.take(numbers)
    grounds = []
    for _ in range(options.splits):
        parts = split(people_of(rows, schema), rows.num_rows, (1.0 - TEST_SHARE, TEST_SHARE), rng)
        train, test = (rows.take(part).select(shown.names) for part in parts)
        grounds.append(replace(Ground.of(shown, train, test), numbers=numbers[parts[0]]))
    return grounds


def _folder(out: Path, rows: pa.Table, schema: Schema, options: CompareAsked) -> Path:
    """Where cells are kept; cells of another table or split are not taken for these."""
    digest = hashlib.sha256(json.dumps([schema.to_dict(), options.seed], default=str).encode())
    for batch in rows.to_batches():
        for column in batch.columns:
            digest.update(repr(column.to_pylist()).encode())
    about = f"{CELLS} {digest.hexdigest()} {' '.join(map(str, options.named))}"
    note, cells = out / "about.txt", out / "cells"
    check_folder(out, force=True)
    with explained(out):
        if out.exists() and any(out.iterdir()) and (not note.is_file() or note.read_bytes() != about.encode()):
            raise OutputError(
                f"{out} contains something else, or the comparison of another table. Choose another folder."
            )
        out.mkdir(mode=0o700, parents=True, exist_ok=True)
        cells.mkdir(mode=0o700, exist_ok=True)
    write_whole(note, about, private=True)
    return cells


def _run(cells: Sequence[Cell], grounds: list[Ground], options: CompareAsked, folder: Path) -> list[dict[str, Any]]:
    """In processes of their own, a few at a time; interrupted, what is finished stays."""
    done: dict[str, dict[str, Any]] = {}
    for cell in cells:
        with contextlib.suppress(OSError, ValueError):  # not there yet, or damaged: it is computed again
            done[cell.name] = json.loads((folder / cell.name).read_text(encoding="utf-8"))
    todo = [cell for cell in cells if cell.name not in done]
    workers = min(options.workers or os.cpu_count() or 1, max(1, len(todo)))
    attacks, learners = options.named
    how = Trial(learners=learners, attacks=attacks, attacked=ATTACKED, needs_learner=False)

    with contextlib.closing(in_processes(todo, run_cell, (grounds, how, folder), workers)) as results:
        for cell, result in results:
            done[cell.name] = result
            options.progress("Trials", len(done), len(cells))
    return [done[cell.name] for cell in cells]
