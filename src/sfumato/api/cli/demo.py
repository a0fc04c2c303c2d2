"""demo: the first ten minutes, on a table that ships with scikit-learn or on one's own; list: what can be chosen."""

from __future__ import annotations

import inspect
import shutil
import textwrap
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sfumato.api.asked import DEMO_FOLDER, DemoAsked
from sfumato.api.cli.blocks import keywords, with_blocks
from sfumato.api.cli.console import Console, Json
from sfumato.api.cli.tables import Tables
from sfumato.core.errors import UsageError
from sfumato.core.wording import counted, first_names, to_type

if TYPE_CHECKING:
    import pyarrow as pa

    from sfumato.api.demo import Demonstration


WIDTH = 80


@with_blocks
def demo(
    options: DemoAsked,
    tables: Tables,
    console: Console,
    consortium: Annotated[bool, typer.Option(help="Four sites and a coordinator instead; writes nothing.")] = False,
    sites: Annotated[int | None, typer.Option(metavar="L", help="With --consortium: L sites of equal size.")] = None,
) -> None:
    """Release and audit a table that ships with scikit-learn, show it before and after, and write the report.

    With --table, walks the same road on your own table. Everything stays in --out; your ledger does not count it, so
    the release there is to look at, not to share. With --consortium, starts a server on this machine; four sites
    release and push, and a model is trained on all of them. Everything is removed afterwards.

    Examples:
      sfumato demo --out demo-out
      sfumato demo --table mine.csv --label ill
      sfumato demo --table mine.csv --schema mine.yaml --force
      sfumato demo --consortium --sites 8
    """
    table = options.table
    if sites is not None and not consortium:
        raise UsageError("--sites belongs to --consortium. Give both, or neither.")
    if table is None and any(one is not None for one in (options.label, options.schema, options.max_rows_per_person)):
        raise UsageError("--label, --schema and --max-rows-per-person describe a table of your own: give --table.")
    if consortium:
        if table is not None:
            raise UsageError("--table and --consortium are two demonstrations. Give one of them.")
        _consortium(console, sites)
        return
    from sfumato.api.demo import demonstrate

    with console.listening() as progress:
        done = demonstrate(DemoAsked(**keywords(options, tables)), progress)
    for line in _told(done, options):
        console.say(line)
    learned = [one for one in done.audit.data["utility"] if one.get("release") is not None]
    console.result(
        {
            "folder": str(options.out),
            "report": str(options.out / "release" / "report.html"),
            "recommended": done.advice.to_dict(),
            "guarantee": dict(done.card.guarantee),
            "attacks": done.audit.data["attacks"],
            "accuracy": {one["classifier"]: one["release"] for one in learned},
        }
    )


def _told(done: Demonstration, options: DemoAsked) -> Iterator[str]:
    """What was done, what it gives away, rows before and after, and what to type next."""
    from sfumato.auditing.report.bottom_line import bottom_line

    table, release = options.table, options.out / "release"
    yield from textwrap.wrap(_first_sentence(done, table), WIDTH)
    if table is not None and done.read:
        yield from (f"  {command}" for command in _to_prove(done, options))
    told = bottom_line(done.audit.data, str(release), width=WIDTH)
    yield from (line for line in told if not line.startswith("Next"))
    yield ""
    yield from side_by_side(done.before, done.after)
    yield f"Report (private): {release / 'report.html'}"
    if table is None:
        yield "Several sites: sfumato demo --consortium"
        yield "A survey: sfumato survey preview survey.yaml (docs/survey.md)"
        return
    yield "Your ledger did not count this release: look at it, but do not share it."
    if options.schema is not None and not done.read:
        more = {"max_rows_per_person": options.max_rows_per_person, "out": "release"}
        yield f"To release: {to_type('sanitize', table, schema=options.schema, epsilon=1, **more)}"


def _first_sentence(done: Demonstration, table: str | None) -> str:
    """What was done; of ranges that were read off one's own table first that nothing is proved."""
    from sfumato.api.demo import EPSILON

    rows = f"{done.before.num_rows:,} of {done.before.num_rows + done.others:,}"
    read = done.read
    if table is None or not read:
        what = f"Breast cancer, {rows} patients" if table is None else f"{table}, {rows} rows"
        return f"{what}: made-up rows, epsilon {EPSILON:g} ({done.card.guarantee['kind']})."
    ranges = "range of 1 column" if len(read) == 1 else f"ranges of {counted(len(read), 'column')}"
    return (
        f"Nothing is proved, because the {ranges} ({first_names(read, 3)}) {'was' if len(read) == 1 else 'were'} read "
        "off your table. Say of each what you know without it, and try again:"
    )


def _to_prove(done: Demonstration, options: DemoAsked) -> list[str]:
    """What to type, for a proof: each on a line of its own, which is never broken."""
    from sfumato.release.declare import example

    file = done.folder / "schema.yaml"
    out = None if done.folder == DEMO_FOLDER else done.folder
    more = {"max_rows_per_person": options.max_rows_per_person, "out": out, "force": True}
    return [example(file, done.schema[done.read[0]]), to_type("demo", table=options.table, schema=file, **more)]


def side_by_side(before: pa.Table, after: pa.Table) -> list[str]:
    """The first five rows of both. A made-up row is no person's, so it does not answer the row beside it."""
    common = [name for name in before.column_names if name in after.column_names]
    shown = [*common[:3], *common[3:][-1:]]
    both = [table.select(shown).slice(0, 5).to_pylist() for table in (before, after)]

    def line(cells: list[Any]) -> str:
        return " ".join(f"{_cell(one, size):>{size}}" for one, size in zip(cells, (8, 8, 8, 10), strict=False))

    old, new = ([line([row[name] for name in shown]) for row in rows] for rows in both)
    return [f"{line(shown)} | the release", *(f"{one} | {other}" for one, other in zip(old, new, strict=False))]


def _cell(value: Any, size: int) -> str:
    """Words may be cut; numbers lose digits at the end instead."""
    if value is None:
        return "-"
    if isinstance(value, int | float) and not isinstance(value, bool):
        exact = str(value) if isinstance(value, int) else f"{value:.4g}"
        return exact if len(exact) <= size else f"{value:.2g}"
    return str(value)[:size]


def _consortium(console: Console, sites: int | None) -> None:
    from sfumato.api.consortium import check_sites, show_consortium
    from sfumato.study import server_part

    check_sites(sites)
    server_part("app")  # without the server's extra this is the one line that is printed
    many = "Four hospitals" if sites is None else counted(sites, "hospital")
    console.say(f"{many} share breast cancer (569 patients, 30 measurements) one way, by two methods.")
    with console.listening():
        shown = show_consortium(console.say, sites)
    console.say()
    released = {entry["site"]: entry for entry in shown.pooled["alone"]}
    console.say(f"{'error on other patients, after training on':<42} original rows  kernel rows  noisy counts")
    for site, found in shown.alone.items():
        name = f"{site} alone ({shown.rows[site]} patients)"
        error = released.get(site, {}).get("error")
        console.say(f"  {name:<40} {found['error']:>13.3f}  {'-' if error is None else f'{error:.3f}':>11}  {'-':>12}")
    name = f"all {'four' if sites is None else sites} together ({sum(shown.rows.values())} patients)"
    errors = f"{shown.original['error']:>13.3f}  {shown.pooled['error']:>11.3f}  {shown.counts['error']:>12.3f}"
    console.say(f"  {name:<40} {errors}")
    console.say(shown.line)
    console.say()
    console.say(f"Kernel resampling (by name): {shown.risk_line}")
    console.say()
    console.say(f"Noisy counts that add up (a study without a mechanism): {shown.proof}")
    console.result(shown.to_dict())


# list: what there is to choose from, one line each.


class Catalogue(StrEnum):
    """What can be listed."""

    mechanisms = "mechanisms"
    attacks = "attacks"
    classifiers = "classifiers"


def list_entries(
    what: Annotated[Catalogue, typer.Argument(metavar="mechanisms|attacks|classifiers", help="What to list.")],
    as_json: Json = False,
) -> None:
    """List every method, attacker or classifier with one line about it.

    Example: sfumato list mechanisms
    """
    entries = {name: _first_line(entry) for name, entry in sorted(_registered(what).items())}
    console = Console(quiet=False, as_json=as_json)
    width = max(map(len, entries)) + 2
    room = max(40, shutil.get_terminal_size((120, 24)).columns) - width
    for name, line in entries.items():
        console.say(f"{name:<{width}}{line if len(line) <= room else line[: room - 3] + '...'}")
    console.result({what.value: entries})


def _registered(what: Catalogue) -> Mapping[str, Any]:
    if what is Catalogue.mechanisms:
        from sfumato.mechanisms import MECHANISMS

        return MECHANISMS
    if what is Catalogue.attacks:
        from sfumato.attacks import ATTACKS

        return ATTACKS
    from sfumato.learn.classifiers import CLASSIFIERS

    return CLASSIFIERS


def _first_line(entry: Any) -> str:
    """The summary of a docstring, which may run over several lines."""
    text = (inspect.getdoc(entry) or "").split("\n\n")[0]
    return " ".join(text.replace("``", "").split())
