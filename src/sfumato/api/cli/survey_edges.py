"""survey edges: where to cut numbers, from an earlier or public table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from sfumato.api.cli.blocks import with_blocks
from sfumato.api.cli.console import Console, Force
from sfumato.core.errors import SchemaError, UsageError
from sfumato.core.files import check_free

app = typer.Typer()


@app.command()
@with_blocks
def edges(
    table: Annotated[Path, typer.Argument(metavar="TABLE", help="Rows of other people: an earlier or public table.")],
    console: Console,
    column: Annotated[list[str] | None, typer.Option(help="Column to cut; repeatable. All numbers, if none.")] = None,
    by: Annotated[
        Literal["quantiles", "class"], typer.Option(help="Equally many in each, or where classes change.")
    ] = ("quantiles"),
    label: Annotated[str | None, typer.Option(help="Column of the classes, for --by class.")] = None,
    parts: Annotated[int, typer.Option(help="At most so many intervals of a column.")] = 4,
    digits: Annotated[
        int, typer.Option(help="Digits that edges are rounded to: they are made of people's values.")
    ] = 3,
    survey: Annotated[Path | None, typer.Option(metavar="FILE", help="Survey file whose numbers are cut.")] = None,
    schema: Annotated[Path | None, typer.Option(metavar="FILE", help="Schema whose columns are cut.")] = None,
    reason: Annotated[
        str | None,
        typer.Option(help="With --schema: why everybody may know these edges. Without one they are learned."),
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="File to write, with --survey or --schema.")] = None,
    force: Force = False,
) -> None:
    """Find where numbers are cut into intervals, and write it into a survey file or a schema.

    Everybody reads the edges, and they follow from the rows of TABLE: take a public table, or one of people who agreed,
    never the people who are asked or released.

    Example: sfumato survey edges earlier.csv --by class --label ill --survey survey.yaml --out survey-cut.yaml
    """
    from sfumato.api.survey import survey_edges

    if survey is not None and schema is not None:
        raise UsageError("Give --survey or --schema, not both.")
    if (out is None) is not (survey is None and schema is None):
        raise UsageError("--out goes with --survey or --schema: it is the file with the edges in it.")
    check_free(out, force=force)
    file = _read(survey) if survey is not None else None
    wanted = list(column or ()) or _asked(file) or _private_numbers(schema)
    found = survey_edges(table, wanted, by=by, label=label, parts=parts, digits=digits)
    if not found:
        raise UsageError(f"{table} has no numbers to cut. Choices of words need no edges.")
    for name, cuts in found.items():
        console.say(f"{name}: [{', '.join(f'{cut:g}' for cut in cuts)}]")
    if out is not None:
        _write(found, file, schema, reason, out)
        console.say(f"Wrote {out}.")
    console.result({"edges": {name: list(cuts) for name, cuts in found.items()}, "file": str(out) if out else None})


def _asked(file: dict[str, Any] | None) -> list[str]:
    """The numbers that a survey asks for."""
    questions = (file or {}).get("questions") or []
    return [str(q.get("name")) for q in questions if isinstance(q, dict) and q.get("kind") == "number"]


def _private_numbers(schema: Path | None) -> list[str]:
    """The numbers of a schema that are released: not its label, which may be written as a number."""
    from sfumato.table import Schema

    columns = [] if schema is None else Schema.load(schema).columns
    return [one.name for one in columns if one.role == "private" and one.kind in ("numeric", "integer")]


def _read(path: Path) -> dict[str, Any]:
    """The file as it is written: a question without edges is no mistake here."""
    from sfumato.table.schema import read_yaml

    if not path.is_file():
        raise UsageError(f"There is no survey file {path}.")
    try:
        found = read_yaml(path)
    except SchemaError as error:
        raise SchemaError(f"{path}: {error}") from None
    return found if isinstance(found, dict) else {}


def _write(
    found: dict[str, tuple[float, ...]], file: dict[str, Any] | None, schema: Path | None, reason: str | None, out: Path
) -> None:
    from sfumato.core.files import write_whole
    from sfumato.study.number_edges import cut_schema, cut_survey
    from sfumato.table import Schema

    if schema is not None:
        cut_schema(Schema.load(schema), found, reason).save(out)
        return
    import yaml

    from sfumato.study.protocol.survey_file import SurveyStudy

    assert file is not None
    whole = cut_survey(file, found)
    SurveyStudy.from_dict(whole)
    write_whole(out, yaml.safe_dump(whole, sort_keys=False, allow_unicode=True))
