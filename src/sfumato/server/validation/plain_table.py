"""Whether a public test table fits the study's schema: plain rows, never sanitized."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from sfumato.errors import SfumatoError
from sfumato.protocol.pool_study import PoolStudy
from sfumato.server.validation.limits import Limits
from sfumato.server.validation.verdict import Verdict
from sfumato.table import open_table


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
