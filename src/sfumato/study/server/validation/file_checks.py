"""Whether a pushed Parquet file is what its card says, and what the study asks for. First the footer (sizes, columns,
card), then the rows, block by block: every cell is a finite number or a known category that the noise which the card
states could have made of some value, and rows lie no closer together than that noise lets them: a release that does was
made otherwise."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from sfumato.core.errors import SfumatoError
from sfumato.guarantee.card import recomputed
from sfumato.mechanisms.central.plan import MOST_CELLS
from sfumato.release import check_rows
from sfumato.release.release import carries_more
from sfumato.study.protocol.pool_study import PoolStudy
from sfumato.study.protocol.study_file import objections
from sfumato.study.server.validation.checker_pool import Limits, Verdict
from sfumato.study.server.validation.row_identity import RowIdentity
from sfumato.table import open_table

NOT_PARQUET = (
    "The body is not a Parquet file, or it is damaged. Push the release.parquet that `sfumato sanitize` wrote."
)


def check_release(path: Path, definition: Mapping[str, Any], limits: Limits) -> Verdict:
    """Check a release file that anybody may have made: rows, or noisy counts where the study has a plan."""
    study = PoolStudy.from_dict(definition)
    bounds = {"thrift_string_size_limit": 4 * limits.card_bytes, "thrift_container_size_limit": 1_000_000}
    try:
        with pq.ParquetFile(path, pre_buffer=False, buffer_size=1 << 20, **bounds) as file:
            if study.plan is not None:
                wrong = _no_counts(file, limits)
            else:
                wrong = _too_large(file.metadata, path.stat().st_size, limits)
            if wrong is not None:
                return Verdict.refused(wrong)
            card = check_rows.embedded_card(file, limits.card_bytes)
            if reasons := objections(study, card):
                return Verdict.refused(*(reason[:1000] for reason in reasons[:50]))
            if study.plan is not None:
                found = check_rows.noisy_counts(check_rows.read_cells(path), study.plan, card)
                return Verdict(rows=found.rows, card=card.to_dict(), identity=check_rows.counts_identity(found.cells))
            check_rows.check_content(file, card)
            held = RowIdentity(card.made_by().width)
            check_rows.check_rows(check_rows.parquet_blocks(file), card, also=held.add)
    except SfumatoError as error:
        return Verdict.refused(str(error)[:1000])
    except MemoryError:  # Arrow's own is an ArrowException too
        raise
    except check_rows.UNREADABLE:
        return Verdict.refused(NOT_PARQUET)
    proved = max(recomputed(card).proved, card.stated_guarantee().proved)
    epsilon = proved if math.isfinite(proved) else None
    return Verdict(card.rows, epsilon, card.to_dict(), identity=held.identity, sketch=held.sketch)


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
    except check_rows.UNREADABLE:
        return Verdict.refused("The test table cannot be read. Give a CSV or Parquet file with the study's columns.")
    return Verdict(rows=rows) if rows else Verdict.refused("The test table has no rows.")


def _no_counts(file: pq.ParquetFile, limits: Limits) -> str | None:
    if file.metadata.num_rows > MOST_CELLS or file.metadata.num_row_groups > limits.row_groups:
        return "The file has more counts than any plan asks for."
    check_rows.check_fields(file)
    if carries_more(file):
        return "The file contains more than counts and card: another program has written to it."
    return None


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
