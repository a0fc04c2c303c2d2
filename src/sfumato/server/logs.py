"""Logs: one JSON object a line. No addresses, tokens, bodies, values; routes as templates, never as they were asked."""

from __future__ import annotations

import json
import logging
import sys
import traceback
from datetime import UTC, datetime
from typing import IO, Any

LOGGER = logging.getLogger("sfumato.server")


class JsonLines(logging.Formatter):
    """time, level, event, and whatever the caller gave by name."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage() if record.name == LOGGER.name else record.name,
        }
        line |= getattr(record, "fields", {})
        return json.dumps(line, ensure_ascii=True, default=str)


def log(event: str, level: int = logging.INFO, **fields: Any) -> None:
    """One line; fields that are None are left out."""
    if LOGGER.isEnabledFor(level):
        LOGGER.log(level, event, extra={"fields": {name: value for name, value in fields.items() if value is not None}})


def configure_logs(stream: IO[str] | None = None, level: int = logging.INFO) -> None:
    """Send our lines, and warnings of the parts we stand on, to standard error."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonLines())
    for logger in (LOGGER, logging.getLogger("uvicorn")):
        logger.handlers, logger.propagate = [handler], False
    LOGGER.setLevel(level)
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    logging.getLogger("uvicorn.error").setLevel(logging.NOTSET)  # whoever served before in this process may have set it


def fault(error: BaseException) -> dict[str, Any]:
    """Where an unexpected error came from. Its message is left out: it may quote what it stumbled over."""
    frames = traceback.extract_tb(error.__traceback__)[-6:]
    return {
        "fault": type(error).__name__,
        "where": [f"{frame.filename.rsplit('/site-packages/')[-1]}:{frame.lineno}" for frame in frames],
    }
