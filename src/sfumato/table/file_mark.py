"""Notice that a file changed between two looks at it: a table is read several times, and must be the same each time."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sfumato.errors import TableError


@dataclass(frozen=True)
class FileMark:
    """A file as it was when the table was opened."""

    path: Path
    size: int
    changed: int
    node: int
    touched: int = 0
    """When anything about it changed: whoever puts the time of change back cannot put this one back."""

    @classmethod
    def of(cls, path: Path) -> FileMark:
        """The file as it is now."""
        try:
            found = path.stat()
        except FileNotFoundError:
            raise TableError(f"{path} does not exist.") from None
        except OSError as error:
            raise TableError(f"{path} cannot be read: {error.strerror or type(error).__name__}.") from None
        return cls(path, found.st_size, found.st_mtime_ns, found.st_ino, found.st_ctime_ns)

    def check(self) -> None:
        """Refuse a file that vanished or was written to: half of the work would rest on the old one."""
        if not self.path.exists():
            raise TableError(
                f"{self.path} vanished while the table was read. Nothing was released. Start again when it is back."
            )
        if FileMark.of(self.path) != self:
            raise TableError(
                f"{self.path} changed while the table was read. Nothing was released. Start again when no program "
                "writes to it."
            )
