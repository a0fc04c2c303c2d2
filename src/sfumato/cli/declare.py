"""declare: mark bounds and categories of many columns as public, with one reason."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sfumato.cli.blocks import with_blocks
from sfumato.cli.console import Console
from sfumato.errors import UsageError
from sfumato.wording import counted


@with_blocks
def declare(
    schema: Annotated[Path, typer.Argument(metavar="SCHEMA", help="Schema file that `sfumato schema` wrote.")],
    reason: Annotated[str, typer.Option(help="How you know the bounds without looking at this table.")],
    console: Console,
    column: Annotated[list[str] | None, typer.Option(metavar="COL", help="Column to declare; repeatable.")] = None,
    all_columns: Annotated[bool, typer.Option("--all", help="Declare every column that is still learned.")] = False,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File to write; the default is SCHEMA itself.")
    ] = None,
) -> None:
    """Declare that the bounds and categories in SCHEMA are public: known from a form, a law or a code book.

    A formal guarantee rests on your word here. Bounds that were read off this table are not public, so check the
    numbers in the file first and replace those that only this table could have told you.

    Examples:
      sfumato declare schema.yaml --all --reason "limits of the admission form"
      sfumato declare schema.yaml --column age --column bmi --reason "code book 2024, page 3"
    """
    from sfumato.table import Schema

    if bool(column) == all_columns:
        raise UsageError("Say which columns are public: --column COL (repeatable), or --all.")
    if not reason.strip():
        raise UsageError("--reason must say how the bounds are known without this table.")
    found = Schema.load(schema)
    names = column or [item.name for item in found.columns if item.source == "learned"]
    for name in names:
        found = found.with_column(name, source="public", reason=reason.strip())
    target = out or schema
    found.save(target)
    console.say(
        f"Declared {counted(len(names), 'column')} public in {target}. "
        f"Still learned: {', '.join(found.learned) or 'none'}."
    )
    console.result({"schema": str(target), "declared": list(names), "learned": list(found.learned)})
