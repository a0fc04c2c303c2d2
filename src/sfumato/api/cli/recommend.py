"""recommend: I have a table; what now? compare: its long form."""

from __future__ import annotations

import inspect
import shutil
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from sfumato.advising.asked import DEMO_FOLDER, CompareAsked, DemoAsked, RecommendAsked
from sfumato.api.cli.blocks import keywords, typed_again
from sfumato.api.cli.console import Console, Force, Json, argument, option
from sfumato.api.cli.tables import Query, TableArgument, Tables
from sfumato.core.asked import REQUIRED, asked, optional
from sfumato.core.errors import UnmetWishError, UsageError
from sfumato.core.files import check_free
from sfumato.core.wording import MEASURED, PROVED, counted, first_names, right_of_100, to_type

if TYPE_CHECKING:
    import pyarrow as pa

    from sfumato.advising.recommendation import Recommendation
    from sfumato.api.demo import Demonstration


def recommend(
    table: TableArgument,
    options: RecommendAsked,
    tables: Tables,
    console: Console,
    query: Query = None,
    force: Force = False,
) -> None:
    """Say which method, how strong, and what public tables kept under it, before anything is released.

    No row has a say: the answer follows from the wish and from --trust, and holds against every attacker once all
    ranges are public. With --use-table settings are tried on your rows, and nothing can be proved then. TABLE can also
    be the folder of a release of made-up rows: choosing on these costs nothing more. Exit code 9: nothing that keeps
    the wish is of use. Without a wish, on a terminal, it asks, and prints the command that says the same. Everything
    side by side, on your own rows: sfumato compare. The key that signs your releases: sfumato signer.

    Examples:
      sfumato recommend patients.csv --schema schema.yaml --max-posterior 0.2 --out config.yaml
      sfumato recommend patients.csv --schema schema.yaml --trust nobody --epsilon 4
      sfumato recommend patients.csv --schema schema.yaml --max-loss 0.1 --rows 1000
      sfumato recommend first-release --epsilon 4 --out config.yaml
      sfumato recommend patients.csv --label diagnosis --use-table --max-risk 0.2 --json
    """
    from sfumato.advising.advice import Advice
    from sfumato.advising.recommend import recommend as run

    check_free(options.out, force=force)
    released = (Path(table) / "card.json").is_file()
    about = {name: getattr(options, name) for name in ("label", "person", "schema", "ledger", "out", "seed")}
    wished = options != RecommendAsked(**about, progress=options.progress)  # besides these, which wish for nothing
    if console.can_ask and not released and not wished:
        options = replace(options, **_asked())
        console.say(f"The same without questions:\n  {to_type('recommend', table, **typed_again(options))}\n")
    with console.listening() as progress:
        found = run(Path(table) if released else tables.open(table, query), **keywords(options), progress=progress)
    console.tell(found.paragraph())
    out = options.out if found.met else None
    names = {"schema": options.schema, "config": out}
    command = found.command(table, **{name: str(file) for name, file in names.items() if file is not None})
    console.say()
    if not isinstance(found, Advice):
        _say_what_was_tried(console, found)
    console.say(f"{'To release' if found.met else 'The nearest, all the same'}:\n  {command}")
    console.result({**found.to_dict(), "command": command, "written": out})
    if not found.met:
        raise UnmetWishError(found.why_not())


HOLDERS = {"we": "owner", "nobody": "nobody", "people": "people"}
RECEIVERS = {"anybody": 2, "partners": 3, "colleagues": 5}
"""Who may get rows, and what is proposed to them: how many chances in 10 a fact with 1 in 10 may reach."""


def _asked() -> dict[str, Any]:
    """What people know, one question a line: who holds the rows and gets them, how sure anybody may become, and how
    many rows a person has."""
    holder = _ask("Who may hold the table? (we, nobody: rows are blurred one by one, people: each their own)", HOLDERS)
    receiver = _ask("Who will get the rows, to count or to learn from? (anybody, partners, colleagues)", RECEIVERS)
    sure = _ask_number(
        "A fact has 1 chance in 10. How sure may they become of it, in 10?", RECEIVERS[receiver], 1.01, 9.99
    )
    rows = int(_ask_number("How many rows may one person have at most?", 1, 1, 1_000_000))
    cap = None if rows == 1 else rows
    return {"trust": HOLDERS[holder], "max_posterior": round(sure / 10, 6), "max_rows_per_person": cap}


def _ask(question: str, answers: Mapping[str, object]) -> str:
    usual = next(iter(answers))
    while (said := str(typer.prompt(question, default=usual)).strip().lower()) not in answers:
        typer.echo(f"Please type {' or '.join(answers)}.")
    return said


def _ask_number(question: str, usual: int, least: float, most: float) -> float:
    while not least <= (said := float(typer.prompt(question, default=usual, type=float))) <= most:
        typer.echo(f"Please type a number from {least:g} to {most:g}.")
    return said


def _say_what_was_tried(console: Console, found: Recommendation) -> None:
    from sfumato.advising.recommendation import by_extra, in_points, in_short
    from sfumato.advising.trial import keeps

    console.tell("Extra: how many more of 100 each attacker gets right with the release than without, as measured:")
    for name, points in by_extra(found.forecast):
        console.say(f"  {name:<24} {in_points(points)}")
    console.say()
    console.tell("Settings that were tried, the best of each method; measured on the rows that choose:")
    for setting in found.nearest:
        mark = "keeps it" if keeps(setting.outcome, found.wish) else "apart" if setting.outcome.apart else "does not"
        line = in_short(setting.candidate.mechanism, setting.parameters, setting.outcome)
        console.tell(f"  {mark:<9} {line}")
    for name, why in found.left_out.items():
        console.tell(f"  not tried {name}: {why}")
    console.say()


def compare(
    table: TableArgument,
    options: CompareAsked,
    tables: Tables,
    console: Console,
    out: Path = asked(REQUIRED, "Folder to write, or to go on in.", metavar="DIR"),
    query: Query = None,
) -> None:
    """The long form of recommend: try every method at several strengths against every attacker on your own rows.

    It shows what learners keep, and proves nothing of what is chosen by it. Nothing is released, and the ledger is not
    told. Trials that are finished are kept: run it again to go on. The folder is private; compare.html shows use
    against extra, all settings and every attacker.

    Examples:
      sfumato compare patients.csv --label diagnosis --out comparison
      sfumato compare patients.csv --schema schema.yaml --mechanism square-wave --mechanism additive-noise --out c
    """
    from sfumato.advising.compare import compare as run

    with console.listening() as progress:
        found = run(tables.open(table, query), out, **keywords(options), progress=progress)
    for line in _lines(found.data):
        console.tell(line)
    for kind, words in (("no_learner", "no learner for"), ("not_compared", "not compared")):
        for name, why in found.data[kind].items():
            console.tell(f"  {words} {name}: {why}")
    if above := [one["mechanism"] for one in found.data["settings"] if one.get("above_claim")]:
        console.tell(f"AUDITED ABOVE CLAIMED: {', '.join(above)}. Do not release with it, and report it (SECURITY.md).")
    console.say(f"All settings and every attacker (private): {out / 'compare.html'}")
    console.result(found.data)


def _lines(data: Mapping[str, Any]) -> list[str]:
    """Settings worth a look, the least extra first, as on the page; then those against which a risk was not tried."""
    from sfumato.auditing.report.comparison import FORMAL, gained, in_order, within

    def told(one: Mapping[str, Any]) -> str:
        right = "" if one["accuracy"] is None else right_of_100(one["accuracy"], one["best_learner"], "rows left out")
        return f"{right}{right and ', '}{gained(one)}"

    limit, measured = data["limit"], [one for one in data["settings"] if one["refused"] is None]
    worth = [measured[i] for i in in_order(measured) if measured[i]["worth"]]
    kept = "" if limit is None else f"; {sum(within(one, limit) for one in worth)} within your limit of {limit:g} extra"
    lines = [f"{len(worth)} of {counted(len(measured), 'setting')} beaten by no other both in use and in extra{kept}."]
    if measured:
        ceiling, majority = (100 * measured[0][name] for name in ("ceiling", "majority"))
        lines.append("Extra: how many more of 100 an attacker gets right with the release than without.")
        lines.append(f"Originals: {ceiling:.0f} of 100 right; commonest class: {majority:.0f}.")
    for number, one in enumerate(worth, start=1):
        proof = PROVED if one["kind"] in FORMAL else MEASURED
        kept = "; within your limit" if within(one, limit) else ""
        lines += [f"{number:>3} {one['mechanism']}, {one['setting']}", f"    {told(one)}; {proof}{kept}"]
    # Where a risk was not tried, the extra is the least that is known.
    for one in measured:
        if one["untried"] or one["extra"] is None:
            lines.append(f"  ? {one['mechanism']}, {one['setting']}: {told(one)}")
    return lines


WIDTH = 80


def demo(
    options: DemoAsked,
    tables: Tables,
    console: Console,
    consortium: Annotated[bool, option("Four sites and a coordinator instead; writes nothing.")] = False,
    sites: int | None = optional("With --consortium: L sites of equal size.", metavar="L"),
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
    console.say_each(_told(done, options))
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
    from sfumato.release.declare import example

    table, release = options.table, options.out / "release"
    yield from textwrap.wrap(_first_sentence(done, table), WIDTH)
    if table is not None and done.read:  # what to type for a proof, each on a line of its own, which is never broken
        file = done.folder / "schema.yaml"
        folder = None if done.folder == DEMO_FOLDER else done.folder
        again = {"max_rows_per_person": options.max_rows_per_person, "out": folder, "force": True}
        yield f"  {example(file, done.schema[done.read[0]])}"
        yield f"  {to_type('demo', table=table, schema=file, **again)}"
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
    from sfumato.api.demo import check_sites, show_consortium
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


def list_entries(
    what: Annotated[
        Literal["mechanisms", "attacks", "classifiers"], argument("mechanisms|attacks|classifiers", "What to list.")
    ],
    as_json: Json = False,
) -> None:
    """List every method, attacker or classifier with one line about it.

    Example: sfumato list mechanisms
    """
    where = "learn.classifiers" if what == "classifiers" else what
    registered: Mapping[str, Any] = getattr(import_module(f"sfumato.{where}"), what.upper())
    summaries = {name: (inspect.getdoc(entry) or "").split("\n\n")[0] for name, entry in sorted(registered.items())}
    entries = {name: " ".join(text.replace("``", "").split()) for name, text in summaries.items()}
    console = Console(quiet=False, as_json=as_json)
    width = max(map(len, entries)) + 2
    room = max(40, shutil.get_terminal_size((120, 24)).columns) - width
    for name, line in entries.items():
        console.say(f"{name:<{width}}{line if len(line) <= room else line[: room - 3] + '...'}")
    console.result({what: entries})
