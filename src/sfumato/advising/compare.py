"""Methods x strengths x attackers x learners on one table: compare.json, a tidy Parquet, cells that are kept."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.advising.comparing.cells import Cell, run_cell
from sfumato.advising.comparing.summary import no_learner, not_compared, settings, tidy
from sfumato.advising.ground import TEST_SHARE, Ground, people_of, sampled, split, trial_schema
from sfumato.advising.wish import KEY_HOLDERS, Wish, candidates
from sfumato.auditing.extra import check_limit
from sfumato.auditing.options import chosen_attacks
from sfumato.core.errors import OutputError, PrivacyLeakWarning, SchemaError, UsageError
from sfumato.core.files import check_folder, explained, write_whole
from sfumato.core.processes import in_processes
from sfumato.core.progress import Progress, silent
from sfumato.learn.classifiers.factory import CLASSIFIERS
from sfumato.release.sanitize import schema_for
from sfumato.table import Schema, open_table, write_table

LOOKS = (
    "These trials look at your private rows, so nothing can be proved of a setting that is chosen by them. Where "
    '"proved" stands beside one, that holds for whoever chose it without looking.'
)
LADDER = (0.25, 0.5, 0.75)
MOST_ROWS = 5_000
SPLITS = 3
CELLS = "cells-6"
"""What a kept cell holds; those of another kind are not taken up."""


@dataclass(frozen=True)
class Request:
    """What to compare. ladder: opennesses between 0 (protects most) and 1; None of attacks, learners and mechanisms
    means all that apply. max_extra: the owner's limit, as an audit has it."""

    label: str | None = None
    schema: Path | str | Schema | None = None
    mechanisms: tuple[str, ...] | None = None
    attacks: tuple[str, ...] | None = None
    learners: tuple[str, ...] | None = None
    ladder: tuple[float, ...] = LADDER
    splits: int = SPLITS
    workers: int | None = None
    seed: int = 0
    max_extra: float | None = None

    def check(self) -> None:
        """Refuse what cannot be meant, before anything is read."""
        if self.splits < 1:
            raise UsageError(f"--splits must be at least 1. Got {self.splits} instead.")
        if not self.ladder or not all(0.0 <= one <= 1.0 for one in self.ladder):
            raise UsageError("Strengths must lie between 0 (protects most) and 1 (tells most).")
        if self.workers is not None and self.workers < 1:
            raise UsageError(f"--workers must be at least 1. Got {self.workers} instead.")
        check_limit(self.max_extra)
        chosen_attacks(self.attacks)
        if unknown := sorted(set(self.learners or ()) - set(CLASSIFIERS)):
            raise UsageError(f"There is no classifier {unknown[0][:60]!r}. Choose from: {', '.join(CLASSIFIERS)}.")


def compare(table: Any, out: Path, request: Request, progress: Progress = silent) -> dict[str, Any]:
    """Run every cell that is not kept in `out` already, and write compare.json and compare.parquet.

    What is shown was measured on private rows: the folder is the owner's alone.
    """
    request.check()
    opened = open_table(table)
    schema = schema_for(opened, request.schema, request.label)
    if schema.label is None:
        raise SchemaError(
            "Accuracy is how often the column to predict is right, and there is none. Name it with --label."
        )
    found, left_out = candidates(Wish(trust=KEY_HOLDERS), public=not schema.learned)
    if request.mechanisms is not None:
        if unknown := sorted(set(request.mechanisms) - {one.mechanism for one in found}):
            why = left_out.get(unknown[0], "there is no such mechanism")
            raise UsageError(f"{unknown[0][:60]} cannot be compared: {why}.")
        found = [one for one in found if one.mechanism in request.mechanisms]
    warnings.warn(LOOKS, PrivacyLeakWarning, stacklevel=2)
    rows = opened.read()
    grounds = _grounds(rows, schema, request)
    kept = _folder(out, rows, schema, request)
    cells = [Cell(one, level, number) for number in range(request.splits) for one in found for level in request.ladder]
    results = _run(cells, grounds, request, kept, progress)
    entries = settings(results)
    data = {
        "format": "sfumato-compare",
        "version": 1,
        "private": True,
        "rows": rows.num_rows,
        "rows_used": grounds[0].train.num_rows + grounds[0].test.num_rows,
        "splits": request.splits,
        "label": schema.label.name,
        "columns": len(schema.private),
        "column_names": [column.name for column in schema.private],
        "limit": request.max_extra,
        "settings": entries,
        "not_compared": not_compared(entries) | left_out,
        "no_learner": no_learner(entries),
        "seconds": round(sum(one["seconds"] for one in results), 1),
    }
    write_whole(out / "compare.json", json.dumps(data, indent=1), private=True)
    write_table(tidy(results), out / "compare.parquet", private=True)
    return data


def _grounds(rows: pa.Table, schema: Schema, request: Request) -> list[Ground]:
    rng, shown = np.random.default_rng(request.seed), trial_schema(schema)
    numbers = sampled(rows, MOST_ROWS, rng)
    rows = rows.take(numbers)
    grounds = []
    for _ in range(request.splits):
        parts = split(people_of(rows, schema), rows.num_rows, (1.0 - TEST_SHARE, TEST_SHARE), rng)
        train, test = (rows.take(part).select(shown.names) for part in parts)
        grounds.append(replace(Ground.of(shown, train, test), numbers=numbers[parts[0]]))
    return grounds


def _folder(out: Path, rows: pa.Table, schema: Schema, request: Request) -> Path:
    """Where cells are kept; cells of another table or split are not taken for these."""
    digest = hashlib.sha256(json.dumps([schema.to_dict(), request.seed], default=str).encode())
    for batch in rows.to_batches():
        for column in batch.columns:
            digest.update(repr(column.to_pylist()).encode())
    about = f"{CELLS} {digest.hexdigest()} {request.attacks} {request.learners}"
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


def _run(
    cells: Sequence[Cell], grounds: list[Ground], request: Request, folder: Path, progress: Progress
) -> list[dict[str, Any]]:
    """In processes of their own, a few at a time; interrupted, what is finished stays."""
    done: dict[str, dict[str, Any]] = {}
    for cell in cells:
        with contextlib.suppress(OSError, ValueError):  # not there yet, or damaged: it is computed again
            done[cell.name] = json.loads((folder / cell.name).read_text())
    todo = [cell for cell in cells if cell.name not in done]
    workers = min(request.workers or os.cpu_count() or 1, max(1, len(todo)))
    given = (grounds, request.attacks, request.learners, folder)

    with contextlib.closing(in_processes(todo, run_cell, given, workers)) as results:
        for cell, result in results:
            done[cell.name] = result
            progress("Trials", len(done), len(cells))
    return [done[cell.name] for cell in cells]
