"""Results that survive an interruption: one JSON line for each finished task, skipped when the run is started again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


class Store:
    """Finished tasks by key, in a file that only grows; a line that was cut short is as if it were not there."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._found: dict[str, Any] = {}
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        for line in text.splitlines():
            try:
                entry = json.loads(line)
                self._found[entry["key"]] = entry["value"]
            except (ValueError, KeyError, TypeError):
                continue
        path.parent.mkdir(parents=True, exist_ok=True)
        if text and not text.endswith("\n"):
            with path.open("a", encoding="utf-8") as file:
                file.write("\n")

    def __contains__(self, key: str) -> bool:
        return key in self._found

    def __getitem__(self, key: str) -> Any:
        return self._found[key]

    def put(self, key: str, value: Any) -> None:
        """Keep a result, on disk before this returns."""
        line = json.dumps({"key": key, "value": value}, allow_nan=False)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")
        self._found[key] = value
