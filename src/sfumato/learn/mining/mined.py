"""What every way of mining gives back: figures with warnings, and files in a folder."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from sfumato.core.files import new_folder, write_whole
from sfumato.table import write_table


class Mined(ABC):
    """Findings, with all that is to be known of them in `about`."""

    name: ClassVar[str]
    """Of the file that holds `about`."""
    about: dict[str, Any]

    @property
    def warnings(self) -> list[str]:
        """What not to read into it."""
        return list(self.about["warnings"])

    @abstractmethod
    def files(self) -> Mapping[str, pa.Table]:
        """The tables to write, by the names of their files."""

    def save(self, out: Path | str, *, force: bool = False) -> Path:
        """Write the tables and `about`, as JSON, into a folder. Figures of private rows are the owner's alone."""
        with new_folder(Path(out), force=force) as folder:
            for name, table in self.files().items():
                write_table(table, folder / name)
            write_whole(folder / f"{self.name}.json", json.dumps(self.about, indent=1), private="lost" in self.about)
        return Path(out)
