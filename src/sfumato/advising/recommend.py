"""Which mechanism and how strong, for this table: an answer with a forecast, before anything is released."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.advising.advice import Advice, advise
from sfumato.advising.wish import PEOPLE, Wish
from sfumato.core.errors import UsageError
from sfumato.core.progress import Progress, silent
from sfumato.release.release import Release
from sfumato.release.sanitize import schema_for
from sfumato.release.sanitize_checks import check_rows_per_person, read_off
from sfumato.table import Schema, open_table

if TYPE_CHECKING:  # brings all attackers and learners with it, which an answer by rule does not need
    from sfumato.advising.recommendation import Recommendation


def recommend(
    table: Any,
    wish: Wish,
    *,
    label: str | None = None,
    person: str | None = None,
    schema: Path | str | Schema | None = None,
    use_table: bool = False,
    rows: int | None = None,
    max_rows_per_person: int | None = None,
    tries: int | None = None,
    seed: int = 0,
    workers: int | None = None,
    ledger: Path | None = None,
    progress: Progress = silent,
) -> Recommendation | Advice:
    """By rule and experience; with `use_table` by trials on some rows that others confirm, which prove nothing. Nothing
    is released, and no ledger is told.

    A release of made-up rows can be given as the table: a choice on rows that were released already costs nothing more,
    and keeps the proof where the owner's `ledger` charged them with one. `tries`: how many methods are tried, in their
    order; the clock has no say.
    """
    if wish.trust == PEOPLE:
        raise UsageError(
            "People who trust nobody with their rows answer a survey, and each device blurs its own answers: see "
            "`sfumato survey plan`. Here --trust is owner or nobody."
        )
    if rows is not None and rows < 1:
        raise UsageError(f"--rows must be a number of rows. Got {rows} instead.")
    if tries is not None and tries < 1:
        raise UsageError(f"--tries must be at least 1. Got {tries} instead.")
    if workers is not None and workers < 1:
        raise UsageError(f"--workers must be at least 1. Got {workers} instead.")
    released = _released(table)
    opened = open_table(table if released is None else released.arrow)
    agreed = schema_for(opened, schema, label, person) if released is None else released.encoding.schema
    own = None if agreed.label is None else agreed.label.name
    if released is not None and (schema is not None or person is not None or label not in (None, own)):
        raise UsageError(
            f"A release has its own schema, and predicts {own!r}: leave out --schema, --label and --person."
        )
    progress("Reading", 0, None)
    if released is None and not use_table:
        if tries is not None or workers is not None:
            raise UsageError(
                "--tries and --workers are for trials on your own rows: add --use-table, or leave them out."
            )
        check_rows_per_person(agreed, max_rows_per_person)
        counted = None if rows is not None else opened.read().num_rows
        named = person or (None if max_rows_per_person is None or agreed.person is not None else "COLUMN")
        return advise(wish, own, rows, counted, tuple(read_off(agreed)), max_rows_per_person, named)
    if max_rows_per_person is not None:
        raise UsageError("--max-rows-per-person is for an answer by rule, and rows are looked at here. Leave it out.")
    from sfumato.advising.on_rows import choose_on

    return choose_on(opened.read(), agreed, wish, released, tries, seed, workers, ledger, progress)


def _released(table: Any) -> Release | None:
    """The release that a folder holds, or that was given, if its rows can stand for a table."""
    if isinstance(table, str | Path) and (Path(table) / "card.json").is_file():
        table = Release.public(table)
    if not isinstance(table, Release):
        return None
    table.check()
    if table.card.made_by().rows != "nobody":
        raise UsageError(
            f"The rows of the release {table.where} are people's rows with noise: what is chosen on them is chosen for "
            "noisier rows than yours. Give one of made-up rows (tree-resampling), or the table itself."
        )
    return table
