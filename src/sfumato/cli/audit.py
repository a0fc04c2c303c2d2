"""audit: attack a release before anybody else does."""

from __future__ import annotations

from pathlib import Path
from shutil import get_terminal_size
from typing import Annotated, Any

import typer

from sfumato.cli.audit_lines import audit_lines, wrapped
from sfumato.cli.blocks import with_blocks
from sfumato.cli.console import AsPublished, Console, Force, parse_pairs, parse_parameters
from sfumato.cli.tables import Tables
from sfumato.errors import OutputError, UsageError
from sfumato.files import check_free

TOGETHER = ("Two releases, attacked together", "Differencing", "Everybody audited is in both")
"""How the notes begin that --with adds."""


@with_blocks
def audit(
    tables: Tables,
    console: Console,
    folder: Annotated[
        Path | None, typer.Argument(metavar="[DIR]", help="Folder that `sfumato sanitize` wrote.")
    ] = None,
    original: Annotated[str | None, typer.Option(metavar="TABLE", help="The private table.")] = None,
    holdout: Annotated[
        str | None, typer.Option(metavar="TABLE", help="Similar people who are not in the table.")
    ] = None,
    release: Annotated[
        str | None, typer.Option(metavar="TABLE", help="A release made by any tool, instead of DIR.")
    ] = None,
    label: Annotated[
        str | None, typer.Option(metavar="COL", help="The column to predict, if there is no card.")
    ] = None,
    schema: Annotated[Path | None, typer.Option(metavar="FILE", help="Schema, for a release without a card.")] = None,
    guess: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Another attacker's guess, to judge as well.")
    ] = None,
    key: Annotated[Path | None, typer.Option(metavar="PATH", help="Key, if it is not in DIR.")] = None,
    public: Annotated[
        bool, typer.Option("--public", help="For others: the proof, and what follows from the released files alone.")
    ] = False,
    with_audit: Annotated[
        bool, typer.Option("--with-audit", help="With --public: what was measured on private rows too, rounded.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where to write; DIR, or DIR/public with --public.")
    ] = None,
    attack: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Run this attack only; repeatable. All by default.")
    ] = None,
    param: Annotated[
        list[str] | None,
        typer.Option(metavar="ATTACK.NAME=VALUE", help="Setting of an attacker; repeatable. See docs/attacks.md."),
    ] = None,
    repeats: Annotated[
        int | None,
        typer.Option(metavar="N", help="Splits to train classifiers on; 0: none. 10, or 0 with --attack, by default."),
    ] = None,
    max_rows: Annotated[int, typer.Option(help="Attack a random sample if there are more rows.")] = 20_000,
    seed: Annotated[int, typer.Option(help="For the audit's own sampling.")] = 0,
    unknown: Annotated[
        str, typer.Option(help="Categories only in --holdout: missing (counted, treated as empty) or refuse.")
    ] = "missing",
    beside: Annotated[
        Path | None, typer.Option("--with", metavar="DIR", help="Another release of the same people: attack both.")
    ] = None,
    beside_original: Annotated[
        str | None, typer.Option("--with-original", metavar="TABLE", help="Its table, if that is another one.")
    ] = None,
    clusters: Annotated[int, typer.Option(metavar="K", help="Also tell what is left of K clusters; 0: not.")] = 0,
    match: Annotated[
        str | None, typer.Option(metavar="COL", help="Column of both tables that says whose row is whose.")
    ] = None,
    mapping: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Row numbers (from 1): columns `release` and `original`.")
    ] = None,
    columns: Annotated[
        list[str] | None, typer.Option(metavar="OLD=NEW", help="A column that the release renamed; repeatable.")
    ] = None,
    hierarchy: Annotated[
        list[str] | None, typer.Option(metavar="COL=FILE", help="Hierarchy of generalised cells, as ARX; repeatable.")
    ] = None,
    release_encoding: Annotated[
        str | None, typer.Option(metavar="NAME", help="Encoding of the release, where it is not that of the others.")
    ] = None,
    quasi_identifiers: Annotated[
        str | None, typer.Option(metavar="COL,COL", help="What others may know of a person: count who is alike in it.")
    ] = None,
    sensitive: Annotated[
        str | None,
        typer.Option(
            metavar="COL,COL", help="Whose diversity to tell; by default the column to predict, or all others."
        ),
    ] = None,
    population: Annotated[
        int | None, typer.Option(metavar="N", help="People that the table is a sample of: who is unique among them.")
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="Make large products there: cuda, another device of PyTorch, or cupy.")
    ] = None,
    device_memory: Annotated[float, typer.Option(metavar="GB", help="What a block of products may take there.")] = 4.0,
    engine: Annotated[str, typer.Option(help="memory; or spark, for an original larger than a machine.")] = "memory",
    master: Annotated[str | None, typer.Option(metavar="URL", help="Where Spark runs; the default is here.")] = None,
    as_published: AsPublished = False,
    max_extra: Annotated[
        float | None,
        typer.Option(metavar="N", help="Your limit: how many more of 100 any attacker may get right by the release."),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The release's config: `max_extra` in it is your limit too.")
    ] = None,
    force: Force = False,
) -> None:
    """Try attackers on a release, and write what they find out: audit.json, audit.parquet and report.html.

    Examples:
      sfumato audit release --original patients.csv --holdout others.csv
      sfumato audit release --original patients.csv --public
      sfumato audit release --original patients.csv --param posterior-breach.rho1=0.05
      sfumato audit january --with february --with-original february.csv --original january.csv
      sfumato audit --release synthetic.csv --original patients.csv --out their-audit
      sfumato audit --release theirs.csv --original patients.csv --quasi-identifiers age,sex,zip --out their-audit
      sfumato audit --release theirs.csv --original patients.csv --match patient_id --columns age=AGE --out their-audit
    """
    from sfumato.door.audit import audit as run
    from sfumato.jobs.audit import AuditRequest
    from sfumato.report.bottom_line import bottom_line

    if original is None:
        raise UsageError("An audit needs --original TABLE, the private table that was released.")
    if (folder is None) == (release is None):
        raise UsageError("Give the folder of a release, or --release TABLE for a release of another tool.")
    place = out or (folder / "public" if folder is not None and public else folder)
    if place is None:
        raise UsageError("With --release, say where to write the audit: --out DIR.")
    if place.exists() and not place.is_dir():
        raise OutputError(f"{place} is a file, but a folder must be written there. Choose another --out.")
    page = place / "report.html"
    if out is not None:
        check_free(page, force=force)
    shared: dict[str, Any] = {
        "schema": schema,
        "key": key,
        "max_rows": max_rows,
        "repeats": repeats,
        "seed": seed,
        "unknown": unknown,
        "parameters": parse_parameters(param or []),
        "clusters": clusters,
        "beside": beside,
        "match": match,
        "mapping": mapping,
        "columns": parse_pairs("--columns", columns or []),
        "hierarchies": parse_pairs("--hierarchy", hierarchy or []),
        "quasi_identifiers": listed(quasi_identifiers),
        "sensitive": listed(sensitive),
        "population": population,
        "public": public,
        "with_audit": with_audit,
        "max_extra": max_extra,
    }
    AuditRequest(original, folder, release, beside_original=beside_original, **shared).check()  # before any reading
    with console.listening() as progress:
        found = run(
            folder if folder is not None else tables.open_if_given(release, encoding=release_encoding),
            original=tables.open(original),
            holdout=tables.open_if_given(holdout),
            label=label,
            guess=guess,
            out=place,
            attacks=attack or None,
            published=as_published,
            config=config,
            device=device,
            device_memory=device_memory,
            engine=engine,
            master=master,
            beside_original=tables.open_if_given(beside_original),
            progress=progress,
            **shared,
        )
        found.save_report(page)
    width = min(get_terminal_size().columns, 100)
    for line in bottom_line(found.data, str(place), width=width):
        console.say(line)
    console.say()
    for line in audit_lines(found.data, width):
        console.say(line)
    for note in found.notes:
        if ("clusters" in note and clusters) or (beside is not None and note.startswith(TOGETHER)):
            for line in wrapped(note, width):
                console.say(line)
    if public and not with_audit:
        console.say("Nothing that was measured on private rows is in it; --with-audit puts it in.")
    console.say(f"Report{'' if public else ' (private)'}: {page}")
    console.result({"folder": str(place), "report": str(page), **found.data})


def listed(names: str | None) -> tuple[str, ...]:
    """Names between commas."""
    return tuple(name.strip() for name in (names or "").split(",") if name.strip())
