"""What leaves a site in a push: one file, whose content is fully described by the card inside it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from sfumato.core.errors import CardError, TableError
from sfumato.core.files import file_digest
from sfumato.guarantee import Card
from sfumato.release.counts_file import read_cells
from sfumato.release.release import card_inside, carries_more
from sfumato.release.write_release import COUNTS


@dataclass(frozen=True)
class Parcel:
    """A release that was looked at: `file` is all that is ever sent, and `sha256` is its content."""

    file: Path
    card: Card
    columns: tuple[str, ...]
    rows: int
    bytes: int
    sha256: str

    @classmethod
    def of_counts(cls, folder: Path | str) -> Parcel:
        """The same of noisy counts; `rows` is the noisy number of rows."""
        folder = Path(folder)
        card, file = Card.load(folder), folder / COUNTS
        if not file.is_file():
            raise TableError(f"There is no {COUNTS} in {folder}, which this study takes. Release with its study file.")
        cells = read_cells(file)
        with pq.ParquetFile(file) as opened:
            _check_inside(card_inside(opened), carries_more(opened), card, folder)
        rows = max(1, int(cells[0])) if len(cells) else 0
        return cls(file, card, ("count",), rows, file.stat().st_size, file_digest(file))

    @classmethod
    def open(cls, folder: Path | str) -> Parcel:
        """Check that the file is the release that its card describes, and nothing else."""
        folder = Path(folder)
        card = Card.load(folder)
        file = folder / "release.parquet"
        if not file.is_file():
            other = next((path.suffix[1:] for path in sorted(folder.glob("release.*"))), None)
            hint = "" if other is None else f" It was written as {other}: sanitize with --format parquet."
            raise TableError(f"There is no release.parquet in {folder}.{hint}")
        try:
            with pq.ParquetFile(file) as opened:
                names, rows = opened.schema_arrow.names, opened.metadata.num_rows
                embedded, more = card_inside(opened), carries_more(opened)
        except (pa.ArrowException, OSError):
            raise TableError(f"{file} is not a Parquet file, or it is damaged.") from None
        _check_inside(embedded, more, card, folder)
        label = card.release_schema["label"]
        described = [column["name"] for column in card.release_schema["columns"]] + ([label["name"]] if label else [])
        if names != described:
            raise CardError(f"{file} has different columns from those on its card. It was changed: release again.")
        if rows != card.rows:
            raise CardError(f"{file} has {rows} rows, and its card speaks of {card.rows}. Release again.")
        return cls(file, card, tuple(names), rows, file.stat().st_size, file_digest(file))


def _check_inside(embedded: bytes | None, more: bool, card: Card, folder: Path) -> None:
    if embedded is None:
        raise CardError(f"The release in {folder} has no card inside. Only what `sfumato sanitize` wrote is pushed.")
    if not card.says_the_same(embedded):
        raise CardError(f"The card beside the release in {folder} is not the one inside it: one of them was edited.")
    if more:
        raise CardError(
            f"The release in {folder} contains more than rows and card: another program has written to it, and what "
            "it added would leave too. Release again and push the folder as it is."
        )
