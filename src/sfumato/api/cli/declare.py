"""declare: say of which columns the ranges are public, and how that is known."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sfumato.api.cli.blocks import with_blocks
from sfumato.api.cli.console import Console, Force, LedgerPath
from sfumato.core.errors import UsageError

if TYPE_CHECKING:
    from sfumato.release.declare import Typed

# certificate: a release on one page to print.


@with_blocks
def certificate(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a release.")],
    console: Console,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="File to write, if not in the folder.")] = None,
    with_audit: Annotated[bool, typer.Option(help="Show what the audit in DIR measured, too.")] = False,
    force: Force = False,
) -> None:
    """Write one page to print: what is proved, what was released, what is not protected, and hashes.

    It holds what follows from the released files and their card, and may be handed on. Figures of an audit are facts
    about private rows: with --with-audit they are shown, and if that audit is private, so is the page.

    Examples:
      sfumato certificate release
      sfumato certificate release --with-audit --out for-the-board.html
    """
    from sfumato.api.sanitize import certificate as run

    written = run(folder, out=out, with_audit=with_audit, force=force)
    console.say(f"Wrote {written}. Open it in a browser, and print it.")
    console.result({"certificate": str(written)})


MOST_SHOWN = 20


@dataclass(frozen=True)
class Which:
    """The columns that are public."""

    column: Annotated[list[str] | None, typer.Option(metavar="COL", help="Column to declare; repeatable.")] = None
    all_columns: Annotated[
        bool, typer.Option("--all", help="Every column of a schema of which nothing was read off a table.")
    ] = False


@dataclass(frozen=True)
class KnownOfIt:
    """What is known of them without the table, and how."""

    reason: Annotated[str, typer.Option(help="How you know them without looking at this table.")]
    low: Annotated[str | None, typer.Option(metavar="VALUE", help="The column's lower bound, as you know it.")] = None
    high: Annotated[str | None, typer.Option(metavar="VALUE", help="The column's upper bound, as you know it.")] = None
    categories: Annotated[
        str | None, typer.Option(metavar="A,B,...", help="The column's categories, as your source lists them.")
    ] = None

    def typed(self) -> Typed:
        """As the job takes it; categories are read as a line of a CSV file."""
        from sfumato.release.declare import Typed

        lists = None if self.categories is None else next(csv.reader([self.categories], skipinitialspace=True), [])
        return Typed(self.low, self.high, None if lists is None else tuple(lists))


@with_blocks
def declare(
    schema: Annotated[Path, typer.Argument(metavar="SCHEMA", help="Schema file that `sfumato schema` wrote.")],
    which: Which,
    known: KnownOfIt,
    console: Console,
    ledger: LedgerPath = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File to write; the default is SCHEMA itself.")
    ] = None,
) -> None:
    """Declare that ranges in SCHEMA are public: known from a form, a law or a code book.

    A proof then rests on your word: readers of the release are told so, with your reason. Bounds that were read off the
    table, or are roundings of what was, are refused: they are people's values. Type what you know, or write it into
    SCHEMA first. Categories, and whole numbers that are codes, may well be what the table holds: type them again, one
    column at a time.

    Examples:
      sfumato schema declare schema.yaml --column age --low 0 --high 120 --reason "limits of the admission form"
      sfumato schema declare schema.yaml --column sex --categories "f,m" --reason "the form's two boxes"
      sfumato schema declare schema.yaml --column bmi --column glucose --reason "code book 2024, page 3"
    """
    from sfumato.release.declare import declare as declared_in
    from sfumato.release.declare import in_words

    if bool(which.column) == which.all_columns:
        raise UsageError("Say which columns are public: --column COL (repeatable), or --all.")
    found, names = declared_in(schema, which.column or None, known.reason, known.typed(), ledger)
    target = out or schema
    found.save(target)
    shown = [in_words(found[name]) for name in names[:MOST_SHOWN]]
    more = f", and {len(names) - MOST_SHOWN:,} more" if len(names) > MOST_SHOWN else ""
    console.say(f"Public by your word in {target}: {'; '.join(shown) or 'nothing new'}{more}.")
    console.say(f"Still learned: {', '.join(found.learned) or 'none'}.")
    console.result({"schema": str(target), "declared": names, "learned": list(found.learned)})
