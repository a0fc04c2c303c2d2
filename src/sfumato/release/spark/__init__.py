"""Tables larger than a machine: the same fit and the same perturbation, made by Spark's executors.

`sanitize` is for people who have a SparkSession; on the command line it is `sfumato sanitize TABLE --engine spark`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sfumato.core.errors import UsageError
from sfumato.core.progress import Progress, silent
from sfumato.release.noted import Sanitized
from sfumato.release.sanitize import Options
from sfumato.release.sanitize import sanitize as run
from sfumato.release.spark.engine import is_frame

__all__ = ["sanitize"]


def sanitize(frame: Any, out: Path | str, progress: Progress = silent, **options: Any) -> Sanitized:
    """Perturb a data frame of Spark and write the release, its card and, where there is one, its key into `out`.
    `options` are those of `sfumato.sanitize` (mechanism, label, schema, parameters, ...). The folder must be one that
    the driver and all executors see under the same path. Returns what only the owner is told."""
    if not is_frame(frame):
        raise UsageError("This function takes a data frame of Spark. For files, use sfumato sanitize --engine spark.")
    return run(frame, out, Options(engine="spark", **options), progress)
