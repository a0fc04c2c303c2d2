"""demo: the first ten minutes, on a table that ships with scikit-learn or on one's own."""

from __future__ import annotations

import json
import shlex
import socket
import tempfile
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sfumato.api.cli.blocks import with_blocks
from sfumato.api.cli.console import Console, Force
from sfumato.api.cli.release import Label
from sfumato.api.cli.tables import Tables, server_part, until_done
from sfumato.api.plan_counts import plan_counts
from sfumato.api.sanitize import study_terms
from sfumato.auditing.audit import AuditRequest, audit
from sfumato.core.errors import CoordinatorError, UsageError
from sfumato.core.wording import counted, first_names
from sfumato.guarantee import Card
from sfumato.release.sanitize import Options, sanitize
from sfumato.release.strength import MADE_UP
from sfumato.study.client import Coordinator, carry_out, plan_push
from sfumato.study.client.private_notes import Agreements
from sfumato.study.consortium import CLASSIFIER, GUARANTEE, MECHANISM, Consortium, make_consortium
from sfumato.study.protocol.study_file import load_study
from sfumato.table import write_table

if TYPE_CHECKING:
    import pyarrow as pa

    from sfumato.api.demo import Demonstration


# demo --consortium: a server on the loopback, and four sites that share in two ways, one of them proved.


PATIENCE_SECONDS = 300.0
LINKING = {"nearest-row": "finds a patient's own row", "pair": "says whose of two a row is"}
"""Attacks that are tried on a site's rows, and what they do."""
COUNTS_CLASSIFIER = "auto"
Say = Callable[[str], None]


@dataclass(frozen=True)
class Shown:
    """Errors on patients whom no site has: of originals together, of each site alone, and of two ways to share.
    `pooled` and `risk` are kernel resampling's; `counts` and `proof` those of noisy counts that add up."""

    original: dict[str, Any]
    alone: dict[str, dict[str, Any]]
    pooled: dict[str, Any]
    commonest: float
    rows: dict[str, int]
    risk: dict[str, Any]
    counts: dict[str, Any]
    proof: str

    @property
    def line(self) -> str:
        mean = sum(found["error"] for found in self.alone.values()) / len(self.alone)
        ways = {"kernel resampling": self.pooled["error"], "noisy counts": self.counts["error"]}
        losing = [name for name, error in ways.items() if error > mean]
        return (
            f"Own rows of one site give {mean:.3f} on average ({CLASSIFIER}), original rows of all sites would give "
            f"{self.original['error']:.3f}, and always the commonest diagnosis gives {self.commonest:.3f}."
            + (f" Here sharing by {' or '.join(losing)} loses to staying alone." if losing else "")
        )

    @property
    def risk_line(self) -> str:
        """What the coordinator, who gets every release, can do with one; figures only, since sites differ."""
        told = [
            f"{LINKING[name]} {100 * one['score']:.0f} of 100 times (without the release {100 * one['baseline']:.0f})"
            if one["score"] is not None
            else f"{LINKING[name]}: not tried"
            for name, one in self.risk["attacks"].items()
        ]
        return (
            f"Nothing is proved of these releases. In {self.risk['site']}'s, whoever holds patients' records "
            f"{'; '.join(told)}."
        )

    def to_dict(self) -> dict[str, Any]:
        return {"classifier": CLASSIFIER, **vars(self)}


@dataclass(frozen=True)
class Place:
    """Where a study is, its file and its hash, and the owner's token."""

    url: str
    file: Path
    hash: str
    study: str
    owner: str


def show_consortium(say: Say, sites: int | None = None) -> Shown:
    """Run the whole of it in a temporary folder, which is removed at the end."""
    with tempfile.TemporaryDirectory(prefix="sfumato-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        consortium = make_consortium(count=sites)
        test = folder / "test.parquet"
        write_table(consortium.test, test)
        with serving(folder / "server") as (url, store):
            say(f"The coordinator serves at {url}; sites know the hash of each study from elsewhere.")

            def play(study: Path) -> Place:
                """Make the study, and let every site take part."""
                read = load_study(study)
                place = Place(url, study, read.hash, *store.studies.create(read))
                with ThreadPoolExecutor(min(len(consortium.sites), 8)) as pool:
                    bytes_sent = pool.map(lambda site: _take_part(folder, site, consortium, place), consortium.sites)
                    say(f"{study.stem}: {sum(bytes_sent):,} bytes pushed by {counted(len(consortium.sites), 'site')}.")
                return place

            named, unnamed = folder / "kernel resampling.json", folder / "study.json"
            named.write_text(json.dumps(consortium.study))
            pooled = _trained(play(named), CLASSIFIER, test)
            # The same without a mechanism: noisy counts that add up. All sites first score what belongs together.
            open_study = {
                key: value for key, value in consortium.study.items() if key not in ("mechanism", "classifiers")
            }
            unnamed.write_text(json.dumps({**open_study, "guarantee": GUARANTEE, "classifiers": [COUNTS_CLASSIFIER]}))
            plan_counts(unnamed, scores=True, out=folder / "noisy scores.json")
            first = play(folder / "noisy scores.json")
            with Coordinator(url, first.owner) as coordinator:
                plan_counts(unnamed, scored=coordinator.added(first.study), out=folder / "noisy counts.json")
            counts = _trained(play(folder / "noisy counts.json"), COUNTS_CLASSIFIER, test)
        original = consortium.error(list(consortium.sites.values())).to_dict()
        alone = {site: consortium.error([table]).to_dict() for site, table in consortium.sites.items()}
        rows = {site: table.num_rows for site, table in consortium.sites.items()}
        site = next(iter(consortium.sites))
        proof = Card.load(folder / MADE_UP / site / "noisy counts").all_releases().bottom_line()
        return Shown(original, alone, pooled, consortium.commonest(), rows, _risk(folder, consortium), counts, proof)


def _trained(place: Place, classifier: str, test: Path) -> dict[str, Any]:
    """Error of a model that the coordinator trains on all that came, on patients that no site has."""
    with Coordinator(place.url, place.owner) as coordinator:
        coordinator.put_test(place.study, test)
        wanted = coordinator.train(place.study, classifier)
        [model] = until_done(lambda: [coordinator.model(place.study, wanted)], "Training", lambda *_: None, 0.1)
    if model.state != "done" or not model.results or not model.results.get("test"):
        raise CoordinatorError(f"Training failed: {model.failure or 'no reason was given'}")
    return {**model.results["test"][0], "alone": (model.results.get("by_sites") or {}).get("alone") or []}


def _take_part(folder: Path, site: str, consortium: Consortium, place: Place) -> int:
    """What a site does: sanitize at home with a ledger of its own, look at what would leave, push. Bytes that left."""
    terms = study_terms(place.file)
    # Each way to share is shown as if it were the only one: both rounds of counts have one ledger.
    home = folder / terms.mechanism / site
    home.mkdir(parents=True, exist_ok=True)
    options = Options(study=terms, only_new=terms.mechanism == MECHANISM, ledger=home / "ledger.json")
    release = home / place.file.stem
    sanitize(consortium.sites[site], release, options)
    with Coordinator(place.url, place.owner) as coordinator:
        token = coordinator.invite(place.study, site).token
    agreements = Agreements(home / "agreements.json")
    with Coordinator(place.url, token) as coordinator:
        plan = plan_push(coordinator, release, place.study, study_hash=place.hash, agreements=agreements)
        return int(carry_out(plan, coordinator, agreements=agreements).receipt.bytes)


def _risk(folder: Path, consortium: Consortium) -> dict[str, Any]:
    """Of the first site's rows, as the site itself can measure it: it alone has the originals and the trace."""
    site = next(iter(consortium.sites))
    request = AuditRequest(
        folder=folder / MECHANISM / site / "kernel resampling",
        original=consortium.sites[site],
        holdout=consortium.test,
        attacks=tuple(LINKING),
    )
    return {"site": site, "attacks": {entry["name"]: entry for entry in audit(request).data["attacks"]}}


@contextmanager
def serving(data: Path) -> Iterator[tuple[str, Any]]:
    """The server in a thread of this process, at a free port of the loopback."""
    server_part("run")  # all that a server needs is there, or the error says what is not
    import uvicorn

    settings = server_part("settings").Settings(data=data, validators=1)

    listening = socket.create_server(("127.0.0.1", 0), backlog=64)
    app = server_part("app").create_app(settings)
    config = uvicorn.Config(app, log_config=None, log_level="critical", access_log=False, lifespan="on")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        until = time.monotonic() + PATIENCE_SECONDS
        while not server.started:
            if not thread.is_alive() or time.monotonic() > until:
                raise CoordinatorError("The server did not start. Try `sfumato serve --data DIR` to see why.")
            time.sleep(0.01)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}", app.state.store
    finally:
        server.should_exit = True
        thread.join(30.0)
        listening.close()


WIDTH = 80
OUT = Path("demo-out")


@with_blocks
def demo(
    console: Console,
    tables: Tables,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder to write.")] = OUT,
    table: Annotated[str | None, typer.Option(metavar="TABLE", help="A table of your own instead.")] = None,
    label: Label = None,
    schema: Annotated[
        Path | None, typer.Option(metavar="FILE", help="With --table: its schema; otherwise one is inferred.")
    ] = None,
    max_rows_per_person: Annotated[
        int | None, typer.Option(metavar="N", help="With --table: the most rows that one person has.")
    ] = None,
    consortium: Annotated[bool, typer.Option(help="Four sites and a coordinator instead; writes nothing.")] = False,
    sites: Annotated[int | None, typer.Option(metavar="L", help="With --consortium: L sites of equal size.")] = None,
    force: Force = False,
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
    if sites is not None and not consortium:
        raise UsageError("--sites belongs to --consortium. Give both, or neither.")
    if table is None and any(one is not None for one in (label, schema, max_rows_per_person)):
        raise UsageError("--label, --schema and --max-rows-per-person describe a table of your own: give --table.")
    if consortium:
        if table is not None:
            raise UsageError("--table and --consortium are two demonstrations. Give one of them.")
        _consortium(console, sites)
        return
    from sfumato.api.demo import demonstrate
    from sfumato.auditing.report import write_report
    from sfumato.auditing.report.bottom_line import bottom_line

    with console.listening() as progress:
        done = demonstrate(
            out,
            table=tables.open_if_given(table),
            label=label,
            schema=schema,
            max_rows_per_person=max_rows_per_person,
            force=force,
            progress=progress,
            report=write_report,
        )
    release = out / "release"
    for line in textwrap.wrap(_first_sentence(done, table), WIDTH):
        console.say(line)
    told = bottom_line(done.audit.data, str(release), width=WIDTH)
    for line in [line for line in told if not line.startswith("Next")]:
        console.say(line)
    console.say()
    for line in side_by_side(done.before, done.after):
        console.say(line)
    console.say(f"Report (private): {release / 'report.html'}")
    if table is None:
        console.say("Several sites: sfumato demo --consortium")
        console.say("A survey: sfumato survey preview survey.yaml (docs/survey.md)")
    else:
        console.say("Your ledger did not count this release: look at it, but do not share it.")
        if schema is not None and not done.read:
            typed = f"{shlex.quote(table)} --schema {shlex.quote(str(schema))}"
            console.say(f"To release: sfumato sanitize {typed} --epsilon 1 --out release")
    learned = [one for one in done.audit.data["utility"] if one.get("release") is not None]
    console.result(
        {
            "folder": str(out),
            "report": str(release / "report.html"),
            "recommended": done.advice.to_dict(),
            "guarantee": dict(done.card.guarantee),
            "attacks": done.audit.data["attacks"],
            "accuracy": {one["classifier"]: one["release"] for one in learned},
        }
    )


def _first_sentence(done: Demonstration, table: str | None) -> str:
    """What was done; of ranges that were read off one's own table first that nothing is proved, and what to type."""
    from sfumato.api.demo import EPSILON
    from sfumato.release.declare import example

    rows = f"{done.before.num_rows:,} of {done.before.num_rows + done.others:,}"
    read = done.read
    if table is None or not read:
        what = f"Breast cancer, {rows} patients" if table is None else f"{table}, {rows} rows"
        return f"{what}: made-up rows, epsilon {EPSILON:g} ({done.card.guarantee['kind']})."
    file = done.folder / "schema.yaml"
    ranges = "range of 1 column" if len(read) == 1 else f"ranges of {counted(len(read), 'column')}"
    return (
        f"Nothing is proved, because the {ranges} ({first_names(read, 3)}) {'was' if len(read) == 1 else 'were'} read "
        f"off your table: say of each what you know without it, for example {example(file, done.schema[read[0]])}, "
        f"then type sfumato demo --table {shlex.quote(table)} --schema {shlex.quote(str(file))} --force"
        f"{'' if done.folder == OUT else f' --out {shlex.quote(str(done.folder))}'}."
    )


def side_by_side(before: pa.Table, after: pa.Table) -> list[str]:
    """The first five rows of both. Made-up rows are nobody's, so no row answers the one beside it."""
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
    from sfumato.api.cli.tables import server_part
    from sfumato.study.consortium import check_sites

    check_sites(sites)
    server_part("run")  # without the server's extra this is the one line that is printed
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
