"""Whether a pushed Parquet file is what its card says, and what the study asks for.

First the footer (sizes, columns, card), then the rows, block by block: every cell is a finite number or a known
category that the noise which the card states could have made of some value, and rows lie no closer together than that
noise lets them: a release that does was made otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sfumato.errors import CardError, SfumatoError, TableError
from sfumato.guarantee import Card
from sfumato.guarantee.recompute import recomputed
from sfumato.jobs.far_cells import CellCheck
from sfumato.jobs.release import carries_more, matrix_of
from sfumato.protocol.acceptance import objections
from sfumato.protocol.pool_study import PoolStudy
from sfumato.server.validation.check_job import Limits, Verdict
from sfumato.server.validation.count_checks import check_counts, embedded
from sfumato.server.validation.noise_evidence import NoiseEvidence
from sfumato.server.validation.row_identity import RowIdentity
from sfumato.table import open_table

BLOCK = 1 << 16
EARLY = 1e-6
"""Judging before all rows are read takes so much surer evidence, and so adds nothing to the false alarms."""
NOT_PARQUET = (
    "The body is not a Parquet file, or it is damaged. Push the release.parquet that `sfumato sanitize` wrote."
)


def check_release(path: Path, definition: Mapping[str, Any], limits: Limits) -> Verdict:
    """Check a release file that anybody may have made."""
    study = PoolStudy.from_dict(definition)
    try:
        if study.plan is not None:
            return check_counts(path, study, limits)
        with pq.ParquetFile(
            path,
            pre_buffer=False,
            buffer_size=1 << 20,
            thrift_string_size_limit=4 * limits.card_bytes,
            thrift_container_size_limit=1_000_000,
        ) as file:
            if wrong := _too_large(file.metadata, path.stat().st_size, limits):
                return Verdict.refused(wrong)
            card = _card(file, limits)
            if wrongs := objections(study, card):
                return Verdict.refused(*(reason[:1000] for reason in wrongs[:50]))
            if wrong := _other_content(file, card):
                return Verdict.refused(wrong)
            held = _check_rows(file, card)
    except SfumatoError as error:
        return Verdict.refused(str(error)[:1000])
    except MemoryError:  # Arrow's own is an ArrowException too
        raise
    except (pa.ArrowException, OSError, ValueError, TypeError, LookupError, ArithmeticError):
        return Verdict.refused(NOT_PARQUET)
    proved = max(recomputed(card).proved, card.stated_guarantee().proved)
    return Verdict(
        rows=card.rows,
        epsilon=proved if math.isfinite(proved) else None,
        card=card.to_dict(),
        identity=held.identity,
        sketch=held.sketch,
    )


def identify_release(path: Path, definition: Mapping[str, Any], limits: Limits) -> Verdict:  # noqa: ARG001
    """Which rows an accepted release holds, for one that was received before anybody asked."""
    try:
        with pq.ParquetFile(path) as file:
            card = _card(file, limits)
            held = RowIdentity(card.made_by().width)
            for batch in file.iter_batches(batch_size=BLOCK, use_threads=False):
                held.add(*matrix_of(pa.Table.from_batches([batch]), card))
    except MemoryError:
        raise
    except (SfumatoError, pa.ArrowException, OSError, ValueError, TypeError, LookupError, ArithmeticError):
        return Verdict.refused(NOT_PARQUET)
    return Verdict(rows=card.rows, identity=held.identity, sketch=held.sketch)


def check_table(path: Path, definition: Mapping[str, Any], limits: Limits) -> Verdict:
    """Every row can be encoded by the study's schema and has a known label."""
    encoding, rows = PoolStudy.from_dict(definition).encoding, 0
    try:
        for batch in open_table(path).blocks():
            encoding.encode(batch, first_row=rows)
            encoding.encode_label(batch, first_row=rows)
            rows += batch.num_rows
            if rows > limits.rows:
                return Verdict.refused(f"The test table has more than {limits.rows} rows.")
    except SfumatoError as error:
        return Verdict.refused(str(error)[:1000].replace(str(path), "The test table"))
    except MemoryError:  # Arrow's own is an ArrowException too
        raise
    except (pa.ArrowException, OSError, ValueError, TypeError, LookupError, ArithmeticError):
        return Verdict.refused("The test table cannot be read. Give a CSV or Parquet file with the study's columns.")
    if rows == 0:
        return Verdict.refused("The test table has no rows.")
    return Verdict(rows=rows)


def _too_large(footer: Any, size: int, limits: Limits) -> str | None:
    if footer.num_rows > limits.rows:
        return f"The release has more than {limits.rows} rows, the most that server and quota allow. Push it in parts."
    if footer.num_row_groups > limits.row_groups:
        return f"The file has more than {limits.row_groups} row groups. Write larger ones."
    unpacked = 0
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        if not 0 <= group.total_byte_size <= limits.row_group_bytes:
            return f"A row group of the file has more than {limits.row_group_bytes} bytes. Write smaller ones."
        unpacked += group.total_byte_size
    if unpacked > limits.expansion * max(size, 1 << 16):
        return "The file would grow more than a hundredfold when unpacked; no release does."
    if footer.num_rows * footer.num_columns > limits.cells_per_byte * max(size, 1 << 12):
        return "The file has far more cells than a release of its size: most are equal, which noise never produces."
    return None


def _card(file: pq.ParquetFile, limits: Limits) -> Card:
    card = embedded(file, limits)
    if card.rows != file.metadata.num_rows:
        raise CardError("The card states another number of rows than the release has: one of them was edited.")
    return card


def _other_content(file: pq.ParquetFile, card: Card) -> str | None:
    """Columns that no card speaks of might hold anything; types that nobody expects and words beside them, too."""
    if carries_more(file):
        return "The file contains more than rows and card: another program has written to it. Release again."
    schema = file.schema_arrow
    columns = [column["name"] for column in card.release_schema["columns"]]
    label = card.release_schema["label"]
    if schema.names != [*columns, *([label["name"]] if label else [])]:
        return "The release's columns are not those of its card, in the same order: one of them was edited."
    for field in schema:
        kind = field.type
        plain = pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_timestamp(kind)
        if not (plain or pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_boolean(kind)):
            return f"Column {field.name[:60]!r} of the release has a type that no release has."
    return None


def _check_rows(file: pq.ParquetFile, card: Card) -> RowIdentity:
    evidence, cells, rows = NoiseEvidence.of(card), CellCheck.of(card), 0
    held = RowIdentity(card.made_by().width)
    for number, batch in enumerate(file.iter_batches(batch_size=BLOCK, use_threads=False), start=1):
        table = pa.Table.from_batches([batch])
        cells.check_written(table, rows)
        matrix, codes = matrix_of(table, card, rows)
        cells.check_matrix(matrix, rows)
        evidence.add(matrix, codes)
        held.add(matrix, codes)
        rows += len(matrix)
        # After blocks 1, 2, 4, 8, ...: who sends millions of equal rows is refused for the first of them.
        if number & (number - 1) == 0 and (wrong := evidence.against(surer=EARLY)):
            raise TableError(wrong)
    if rows != card.rows:
        raise CardError("The card states another number of rows than the release has: one of them was edited.")
    if wrong := evidence.against():
        raise TableError(wrong)
    return held
