"""push, withdraw: a site's side of a study; serve: the coordinator's server."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from sfumato.api.cli.blocks import keywords
from sfumato.api.cli.console import Console, Force, Quiet, Yes, argument, option
from sfumato.api.cli.study import StudyId, app
from sfumato.api.cli.tables import AtCoordinator, AtServer, InsecureHttp, IntoFolder, TableArgument, Tables, TokenFile
from sfumato.core.asked import REQUIRED, asked, optional, switch
from sfumato.core.errors import CoordinatorError, OutputError, UsageError
from sfumato.core.files import check_free, new_folder, write_whole
from sfumato.core.wording import counted, plain
from sfumato.study import server_part
from sfumato.study.asked import CountsAsked, RehearseAsked

if TYPE_CHECKING:
    from sfumato.study.client import Plan, Pushed
    from sfumato.study.protocol.messages import DensityInfo


def push(
    folder: Annotated[Path, argument("DIR", "Folder that `sfumato sanitize` wrote.")],
    at: AtCoordinator,
    console: Console,
    study: str = asked(REQUIRED, "Id of the study.", metavar="ID"),
    purpose: str = asked("train", "train, or test (rows for testing models)."),
    dry_run: Annotated[bool, option("Show what would leave, and whether the study would accept it.")] = False,
    yes: Yes = False,
    study_hash: str | None = optional("The study's hash, agreed by other means: sha256:...", metavar="HASH"),
) -> None:
    """Send a release to a study: one file, DIR/release.parquet, with its card inside. Nothing else leaves. Of a study
    with a plan it is DIR/counts.parquet: noisy counts, and no row.

    Shows what will leave and asks before the first push to a study. Compare the hash that it shows with the one that
    the study's owner told you by other means, or give that one with --study-hash. Pushing the same release again does
    nothing. The receipt is kept as DIR/receipt-ID.json.

    Examples:
      sfumato study push release --to https://study.example --study k3f9abcd2345 --dry-run
      sfumato study push release --to https://study.example --study k3f9abcd2345 --token-file site.token
    """
    from sfumato.study.client import carry_out, plan_push

    if study_hash is not None and not re.fullmatch(r"sha256:[0-9a-f]{64}", study_hash):
        raise UsageError("--study-hash must be sha256: and 64 hexadecimal digits, as `sfumato study new` printed them.")
    with at.connected(console) as connected:
        plan = plan_push(connected, folder, study, purpose=purpose, study_hash=study_hash)
        if dry_run:
            console.say(f"{plan.in_words()}\n")
            console.say(f"The study would {'not accept it:' if plan.objections else 'accept it. Nothing was sent.'}")
            console.say_each(f"  - {line}" for line in plan.objections)
            console.result({**plan.to_dict(), "receipt": None})
            return
        if not plan.objections and not plan.agreed and not yes:
            console.confirm(
                "Is this the study that you agreed to, and may this leave?",
                unasked="This is the first push to this study, and no person is here to ask. Look at it with "
                "--dry-run, compare the study's hash, then push with --yes.",
                shown=plan.in_words(),
            )
        with console.listening() as progress:
            done = carry_out(plan, connected, progress=progress)
    _show_pushed(console, plan, study, done)


def _show_pushed(console: Console, plan: Plan, study: str, done: Pushed) -> None:
    """What left, where its receipt is, and by whom it is signed."""
    from sfumato.study.client.coordinator import site_signer

    receipt = done.receipt
    rows = counted(receipt.rows, "row")
    what = f"{rows if plan.study.plan is None else f'noisy counts of about {rows}'} ({receipt.bytes:,} bytes)"
    console.say(f"Pushed {what} to {study} at {plan.address} as {plain(receipt.site)}. Receipt: {done.receipt_file}")
    told: dict[str, Any] = {"receipt": receipt.to_dict(), "receipt_file": str(done.receipt_file), "signed_by": None}
    if (signer := site_signer()) is not None:
        told["signed_by"] = signer.fingerprint
        console.say(f"Signed with your key {signer.fingerprint}.")
    console.result({**plan.to_dict(), **told})


def withdraw(
    release: Annotated[str, argument("DIR_OR_SHA256", "Folder that was pushed, or the sha256 on its receipt.")],
    at: AtCoordinator,
    console: Console,
    study: str = asked(REQUIRED, "Id of the study.", metavar="ID"),
    yes: Yes = False,
) -> None:
    """Take a pushed release back: its rows are deleted at the coordinator, and models that used it are marked.

    What was learned from it or copied before is not undone, and your ledger still counts it. The same release is not
    accepted again.

    Example: sfumato study withdraw release --to https://study.example --study k3f9abcd2345 --token-file site.token
    """
    from sfumato.study.client import Parcel
    from sfumato.study.client.pushing import pushed_before

    known = re.fullmatch(r"(?:sha256:)?([0-9a-f]{64})", release)
    sha256 = known[1] if known else pushed_before(Path(release), study) or Parcel.open(Path(release)).sha256
    if not yes:
        console.confirm(
            f"A withdrawn release is never accepted again. Withdraw {sha256} from {study}?",
            unasked="A withdrawn release is never accepted again. If it is to be withdrawn, add --yes.",
            kept="nothing was withdrawn",
        )
    with at.connected(console) as connected:
        connected.withdraw(study, sha256)
    console.say(f"Withdrawn from {study}: {sha256}")
    console.result({"study": study, "sha256": sha256, "withdrawn": True})


def reconstruct(
    study: StudyId,
    at: AtCoordinator,
    console: Console,
    column: list[str] = asked(REQUIRED, "A column of the releases; may be repeated.", metavar="COL"),
    method: str = asked("parzen-program", "parzen-program or expectation-maximization."),
    out: Path | None = optional("Folder to write the densities into.", metavar="OUT"),
    wait: Annotated[bool, option("Wait for the densities; else they appear on the owner's page.")] = True,
    force: Force = False,
) -> None:
    """Have the server reconstruct the distribution of columns from all releases; for the study's owner.

    Every release counts with the noise of its own card. The owner's page shows the densities with their band. With
    --out they are written as `sfumato reconstruct` writes them.

    Example: sfumato study reconstruct k3f9abcd2345 --column income --out density --to https://study.example
    """
    from sfumato.study.client.coordinator import until_done

    if out is not None and not wait:
        raise UsageError("--out needs the densities, and --no-wait does not wait for them. Leave out one of the two.")
    check_free(out, force=force)
    with at.connected(console) as connected:
        found = begun = [connected.reconstruct(study, name, method) for name in dict.fromkeys(column)]
        if wait:
            with console.listening() as progress:
                found = until_done(
                    lambda: [connected.density(study, one.id) for one in begun], "Reconstructing", progress
                )
    if out is not None and all(one.state == "done" for one in found):
        from sfumato.learn.reconstruct import save_each
        from sfumato.reconstruction.density import from_plain

        with new_folder(out, force=force) as folder:
            save_each([(one.column, from_plain(one.found or {})) for one in found], folder)
        console.say(f"Wrote {out}.")
    console.say_each(map(_density_line, found))
    console.result({"densities": [one.to_dict() for one in found]})
    if failed := sum(one.state == "failed" for one in found):
        raise CoordinatorError(f"{failed} of {counted(len(found), 'column')} could not be reconstructed.")


def _density_line(one: DensityInfo) -> str:
    rows = int((one.found or {}).get("rows") or 0)
    of = f" from {counted(rows, 'released row')} of {counted(len(one.sites), 'site')}" if rows else ""
    return f"{plain(one.id)}  {plain(one.column)}  {plain(one.failure or one.state)}{of}"


@dataclass(frozen=True)
class Figures:
    """Where the figures of a rehearsal go."""

    out: Path | None = optional("Also write the figures: .csv or .parquet.", metavar="FILE")
    plot: Path | None = optional("Also draw them: .svg.", metavar="FILE")
    force: Force = False


def rehearse(
    table: TableArgument,
    options: RehearseAsked,
    figures: Figures,
    tables: Tables,
    console: Console,
    sites: str = asked("1,2,4,8", "Numbers of sites to try.", metavar="L,L,..."),
) -> None:
    """Deal TABLE to L sites, let each blur its rows, and measure loss and exposure against L.

    A quarter of the rows is held apart. Nothing is released. lost: what pooled releases add to the error.
    alone: the error with one site's own rows, which sharing should beat. gap: of the sites' density estimates to one
    from the rows held apart; it says nothing about privacy. hits: released rows that lie nearest to their source.
    membership: chance to tell who is in the table, 0.5 is a coin toss.

    Examples:
      sfumato study rehearse patients.csv --label diagnosis --sites 1,2,4,8 --plot sites.svg
      sfumato study rehearse patients.csv --label diagnosis --param bandwidth=scaled --classifier svm
    """
    from sfumato.study.rehearse_sites import rehearse as run
    from sfumato.table import write_table

    check_free(figures.out, force=figures.force)
    check_free(figures.plot, force=figures.force)
    try:
        numbers = [int(one) for one in sites.split(",")]
    except ValueError:
        raise UsageError(f"--sites takes numbers with commas between them, such as 1,2,4,8. Got {sites!r}.") from None
    with console.listening() as progress:
        rehearsal = run(tables.open(table), numbers, **keywords(options), progress=progress)
    found = rehearsal.found
    console.say(f"{'sites':>5}  original  pooled  alone     lost           gap   hits  membership")
    for one in found:
        gap = "    -" if one.density_gap is None else f"{one.density_gap:.3f}"
        verdict = "" if one.worth_it or one.sites == 1 else "   loses to staying alone"
        console.say(
            f"{one.sites:>5}  {one.original:>8.3f}  {one.pooled:>6.3f}  {one.alone:.3f}  "
            f"{one.phi:+.3f} ± {one.spread:.3f}  {gap}  {one.hits:.3f}       {one.membership:.3f}{verdict}"
        )
    if figures.out is not None:
        import pyarrow as pa

        write_table(pa.Table.from_pylist([one.to_dict() for one in found]), figures.out, private=True)
        console.say(f"Figures (private): {figures.out}")
    if figures.plot is not None:
        write_whole(figures.plot, rehearsal.plot(), private=True)
        console.say(f"Picture (private): {figures.plot}")
    about = {"classifier": options.classifier, "repeats": options.repeats}
    console.result({"sites": [one.to_dict() for one in found], **about})


@dataclass(frozen=True)
class FirstRound:
    """Where the sum of a first round is asked for, where a coordinator made it."""

    scored_in: str | None = optional("Id of the first round's study at the coordinator.", metavar="ID")
    to: str | None = optional("With --scored-in: the coordinator's address.", metavar="URL")
    token_file: TokenFile = None
    insecure_http: InsecureHttp = False

    def scored(self, releases: list[Path], console: Console) -> Any:
        """The sum, or the releases that were named instead; None for neither."""
        if self.scored_in is None:
            return releases or None
        if releases or self.to is None:
            raise UsageError("--scored-in takes the sum from a coordinator: give --to, and leave --scored out.")
        with AtCoordinator(self.to, self.token_file, self.insecure_http).connected(console) as connected:
            return connected.added(self.scored_in)


def plan(
    study: Annotated[Path, argument("STUDY_FILE", "Study that names no method.")],
    options: CountsAsked,
    first: FirstRound,
    console: Console,
    release: Path | None = optional("One site's release: its noisy model becomes the plan.", metavar="DIR"),
    out: Path = asked(REQUIRED, "Study file to write, with the plan, as JSON.", metavar="FILE"),
    force: Force = False,
) -> None:
    """Plan which tables all sites count, so that they push noisy counts instead of rows.

    The plan comes from one site's tree-resampling release, which that site has paid for; from public rules: bins of
    equal width, and the pairs of columns that you name; or from what all sites measure in a first round with 30%
    of the budget and that are added. It becomes part of the study and of its hash.

    Examples:
      sfumato study plan study.yaml --release north --sites 4 --out agreed.json
      sfumato study plan study.yaml --pair age,glucose --reason "a textbook" --out agreed.json
      sfumato study plan study.yaml --scores --out first.json
      sfumato study plan study.yaml --scored north --scored south --out agreed.json
    """
    from sfumato.guarantee.rounding import rounded_up
    from sfumato.mechanisms.central.plan import Plan as PlanOfCounts
    from sfumato.study.plan_counts import plan_counts
    from sfumato.study.protocol.pool_study import PoolStudy

    scored = first.scored(options.scored, console)
    wanted = {**keywords(options), "scored": scored}
    read = PoolStudy.from_dict(plan_counts(study, release, **wanted, out=out, force=force))
    agreed = read.plan
    assert agreed is not None
    counts = agreed.cells(max(1, len(read.encoding.classes)))
    what = (
        f"{counts:,} counts from every site, {counted(len(agreed.joined), 'pair')} of columns"
        if isinstance(agreed, PlanOfCounts)
        else f"{counts:,} measurements of pairs and quantiles from every site, in a first round"
    )
    console.say(f"Wrote {out}: {what}, by {agreed.chosen_by}.")
    if read.presence is not None and (options.scores or scored):
        console.say(f"  epsilon {rounded_up(read.presence.epsilon)} of everybody at delta {read.presence.delta:g}")
    console.say(f"  plan  {agreed.digest}\n  hash  {read.hash}")
    console.result({"study": str(out), "hash": read.hash, "plan": agreed.digest, "counts": counts})


def draw(
    study: StudyId,
    into: IntoFolder,
    at: AtCoordinator,
    console: Console,
    rows: int | None = optional("Rows to draw; the noisy count if not given.", metavar="N"),
    format: str = asked("parquet", "parquet or csv."),
) -> None:
    """Draw rows from the sum of all sites' noisy counts; for the owner of a study with a plan.

    The rows are made up, and drawing costs nothing. `sfumato redraw` draws more of them at home.

    Example: sfumato study draw k3f9abcd2345 --out everybody --to https://study.example --token-file owner.token
    """
    from sfumato.release.asked import RedrawAsked
    from sfumato.release.check_rows import read_card
    from sfumato.release.release import Release, draw_from
    from sfumato.release.write_release import InMemory

    check_free(into.out, force=into.force)
    if format not in ("parquet", "csv"):
        raise UsageError(f"There is no format {format!r}. Choose one of: parquet, csv.")
    with at.connected(console) as connected:
        found = connected.added(study)
    added = Release(read_card(json.dumps(found.card)), held=InMemory(model=found.model))
    with console.listening() as progress:
        asked = RedrawAsked(rows=rows, out=into.out, format=format, force=into.force, progress=progress)
        made = draw_from(added, asked)
    card = made.card
    console.say(f"Drew {counted(card.rows, 'row')} into {into.out} from counts of {counted(len(found.sites), 'site')}.")
    console.say(str(card.guarantee["words"]))
    console.say(f"To share: release.{format}, card.json, model.json. Nothing in the folder is private.")
    console.result(
        {"folder": str(into.out), "rows": card.rows, "sites": len(found.sites), "guarantee": dict(card.guarantee)}
    )


for act in (push, withdraw, plan, draw, reconstruct, rehearse):  # after those of a coordinator
    app.command()(act)


@dataclass(frozen=True)
class Encryption:
    """How the server speaks TLS, where no proxy does it."""

    certificate: Path | None = optional("Speak TLS with this certificate (PEM).", metavar="FILE")
    certificate_key: Path | None = optional("The certificate's key (PEM).", metavar="FILE")
    self_made: bool = switch(
        "Speak TLS with a certificate of its own; its fingerprint is in the address.", flag="--self-made-certificate"
    )


PLAIN = (
    "Other machines reach this server without encryption, and their programs refuse to push that way. Add "
    "--self-made-certificate, or give --certificate, unless a proxy in front speaks TLS."
)


def serve(
    server: AtServer,
    encryption: Encryption,
    host: str = asked("127.0.0.1", "Address to listen on; behind a proxy, keep the default."),
    port: int = asked(8000, "Port to listen on; 0 picks a free one."),
    quiet: Quiet = False,
) -> None:
    """Serve studies until interrupted; requests in progress are finished first.

    Prints its address and writes it to DIR/address. Sites reach it over HTTPS: through a proxy, or directly with a
    certificate. Other settings are variables, SFUMATO_MAX_PUSH_BYTES and the like: see docs/operations.md.

    Examples:
      sfumato serve --data server
      sfumato serve --data server --host 0.0.0.0 --self-made-certificate
    """
    if not 0 <= port <= 65535:
        raise UsageError(f"--port must be between 0 and 65535. Got {port} instead.")
    data = server.data
    if data.exists() and not data.is_dir():
        raise OutputError(f"{data} is a file, but the server needs a folder. Choose another name.")
    console = Console(quiet)
    run = server_part("app").serve
    typed = {"tls_certificate": encryption.certificate, "tls_key": encryption.certificate_key}
    given = {name: path and str(path) for name, path in typed.items()}  # None where nothing was typed
    settings = server.settings(**given, tls_self_made=encryption.self_made or None)
    unencrypted = not (settings.tls_certificate or settings.tls_self_made or settings.trust_proxy)
    if unencrypted and host not in ("localhost", "::1") and not host.startswith("127."):
        print(f"sfumato: {PLAIN}", file=sys.stderr)
    announced = data / "address"

    def ready(address: str) -> None:
        write_whole(announced, address + "\n")
        if not quiet:
            print(f"Serving {data} at {address}. Stop with Ctrl-C.", flush=True)

    try:
        run(settings, host, port, ready)
    except KeyboardInterrupt:
        pass  # asked to stop, and stopped: everything acknowledged is durable
    finally:
        announced.unlink(missing_ok=True)
    console.say("Stopped.")
