"""schema, declare, sanitize, show, certificate: from a private table to a release; open: the same in a browser."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sfumato.api.cli.blocks import keywords, say_old
from sfumato.api.cli.console import Console, Force, LedgerPath, Quiet, argument, option
from sfumato.api.cli.tables import InsecureHttp, Query, Tables, TablesArgument, TokenFile
from sfumato.core.asked import RARE, REQUIRED, asked, optional, switch
from sfumato.core.errors import UsageError
from sfumato.core.files import check_free
from sfumato.core.wording import counted
from sfumato.release.asked import SanitizeAsked

if TYPE_CHECKING:
    from sfumato.release.noted import Sanitized
    from sfumato.release.release import Release


@dataclass(frozen=True)
class IntoSchema:
    """What is read off a table, and where that goes."""

    label: str | None = optional("The column that classifiers are to predict.")
    out: Path | None = optional("File to write; the default is standard output.")
    ledger: LedgerPath = None
    force: Force = False


@dataclass(frozen=True)
class Beside:
    """What `sanitize` takes on the command line alone."""

    stdout: bool = RARE.switch("When done, write the released rows to standard output too, as Arrow.")
    rows: Annotated[int | None, typer.Option(metavar="N", help="The same as --param rows=N.", hidden=True)] = None


def schema(table: TablesArgument, tables: Tables, into: IntoSchema, query: Query = None, quiet: Quiet = False) -> None:
    """Infer a schema from TABLE, as a file to edit.

    Bounds and categories are people's values, marked `learned`: nothing is proved that rests on them. Keep the file to
    yourself. For a proof, say with `sfumato schema declare` what you know without looking at the data. It refuses what
    was read here: keyed hashes of that are kept beside the ledger.

    Examples:
      sfumato schema patients.csv --label diagnosis --out schema.yaml
      sfumato schema patienten.csv --decimal , --encoding cp1252 --label diagnose --out schema.yaml
      curl -s https://example.org/patients.csv | sfumato schema - --label diagnosis --out schema.yaml
    """
    from sfumato.ledger.memories import ReadOff
    from sfumato.release.declare import example
    from sfumato.table import Schema

    console = Console(quiet)
    check_free(into.out, force=into.force)
    with console.listening():
        inferred = Schema.infer(tables.open_all(table, query), label=into.label, refuse=False)
    ReadOff(into.ledger).remember(inferred.columns, shown=True)
    if into.out is None:
        print(inferred.to_yaml(), end="")
        return
    inferred.save(into.out)
    columns = counted(len(inferred.private), "private column")
    console.say(f"Wrote {into.out}: {columns}, with ranges read off your table.")
    console.say("For a proof, say of each column what you know without it, and how you know:")
    for column in inferred.private[:1]:
        console.say(f"  {example(into.out, column)}")


def sanitize(
    table: TablesArgument, tables: Tables, options: SanitizeAsked, beside: Beside, console: Console, query: Query = None
) -> None:
    """Blur TABLE and write the release, its card and, if there is one, its key.

    Writes DIR/release.parquet and DIR/card.json to share, and DIR/trace.parquet and DIR/key.json, which are private.
    Made-up rows have neither, but DIR/model.json, to share: `sfumato redraw` draws from it again. DIR/signed.txt.sig is
    the signature of your key (sfumato signer show), by which others tell whose release it is.

    Examples:
      sfumato sanitize patients.csv --schema schema.yaml --epsilon 1 --out release
      sfumato sanitize patients.csv --schema schema.yaml --epsilon 2 --trust nobody --out release
      sfumato sanitize wine.csv --label label --out release
      sfumato sanitize patients.csv --schema schema.yaml --config config.yaml --dry-run
      sfumato sanitize patients.csv --label y --mechanism additive-noise --param law=normal --param scale=0.25 --out r
      sfumato sanitize patients.csv --label y --mechanism additive-noise --column-param income.scale=0.5 --out r
      sfumato sanitize patients.csv --label y --mechanism random-rotation --param search=50 --key study-key.json --out r
      sfumato sanitize a.csv --schema s.yaml --epsilon-record 4 --basis-from b.csv --reason "a census" --out r
      sfumato sanitize "patients/year=*/*.parquet" --schema schema.yaml --engine stream --out r
      cat patients.arrow | sfumato sanitize - --schema schema.yaml --out r --stdout > release.arrows
      sfumato sanitize february.csv --study study.yaml --only-new --out february
      sfumato sanitize new.csv --schema schema.yaml --mechanism random-rotation --key key.json --unlabelled --out q
    """
    from sfumato.api.sanitize import sanitize as run
    from sfumato.api.sanitize import study_terms

    _check_output(options, console, beside)
    if beside.stdout:
        console.stream = sys.stderr
    terms = None if options.study is None else study_terms(Path(str(options.study)))
    with console.listening() as progress:
        words = {**keywords(options, tables), "study": terms, "progress": progress}
        if beside.rows is not None:
            if not console.quiet:
                say_old("--rows", "--param rows=...")
            if "rows" in (parameters := words.get("parameters", {})):
                raise UsageError("--rows is given twice, once as --param. Leave one of them out.")
            words["parameters"] = {**parameters, "rows": beside.rows}
        if options.auditable is not None and options.answer is None:
            _commit(tables.open_all(table, query), words, console)
            return
        release = run(tables.open_all(table, query), **words)
    if terms is not None:
        console.say(f"Study {terms.name}, {terms.hash}")
    out = None if options.dry_run or options.out is None else Path(options.out)
    _tell(release, options, out, console)
    if beside.stdout and out is not None:
        from sfumato.release.write_release import pipe_release

        pipe_release(out, options.format, sys.stdout.buffer)


def _commit(table: Any, words: Mapping[str, Any], console: Console) -> None:
    """Commit to the noise, and say what comes next."""
    from sfumato.api.sanitize import commit

    found = commit(table, **words)
    console.say(
        f"Committed, and nothing was released: {found.published}. Keep {found.secret} secret; it is erased later."
    )
    console.say(
        f"Send the commitment and {found.sealed} to the auditor, or have the commitment logged (sfumato ledger "
        "publish). Then the same command with --answer VALUE."
    )
    console.say(
        "Seed and release together are the table: whoever gets both has it. Give the seed to the auditor alone."
    )
    paths = {name: str(getattr(found, name)) for name in ("published", "sealed", "secret")}
    console.result({"commitment": found.commitment.to_dict(), **paths})


def _tell(release: Release, options: SanitizeAsked, out: Path | None, console: Console) -> None:
    """Say what was made, in words or as JSON."""
    done = release.told
    assert done is not None  # it was made just now
    console.recite(done.card.guarantee["words"])  # before all else: it may be bad news
    console.say(f"{_made(options)} {counted(done.card.rows, 'row')}{'' if out is None else f' into {out}'}.")
    if options.dry_run and done.card.guarantee["central"]:
        console.say("Nothing was paid for what a dry run says of the table: keep it to yourself.")
    if done.card.guarantee["conditional_epsilon"]:
        from sfumato.guarantee.words import ways_out

        console.recite(f"To get a proof: {'; '.join(ways_out(done.card.guarantee['in_the_way']))}.")
    if done.card.auditable is not None:
        console.say(
            "The seed was erased here. Seed and release together are the table: only the auditor may have both."
        )
    console.say_each(_found(release, done, options))
    files = [] if out is None else sorted(file.name for file in out.iterdir())
    private = [name for name in files if name in ("key.json", "trace.parquet")]
    if files and not options.experiment:
        console.say(_who_may_see(files, private))
    about = {
        "folder": out and str(out),
        "dry_run": options.dry_run,
        "files": files,
        "private_files": private,
        "rows": done.card.rows,
        "released_before": done.known,
        "new_ledger": done.new_ledger,
        "guarantee": dict(done.card.guarantee),
        "earlier_releases": dict(done.card.earlier_releases),
        "clipped": done.clipped,
        "dropped": list(done.dropped),
        "notes": dict(done.notes),
        "search": None if done.search is None else done.search.to_dict(),
    }
    console.result(about)


def _check_output(options: SanitizeAsked, console: Console, beside: Beside) -> None:
    """Refuse what leaves the release nowhere, or two things in one place."""
    if beside.stdout and (options.dry_run or console.as_json):
        other = "--dry-run" if options.dry_run else "--json"
        raise UsageError(
            f"--stdout writes rows to standard output, which {other} has no use for. Leave out one of them."
        )
    if options.out is None and not options.dry_run:
        raise UsageError("Say where the release is to be written: --out DIR. To try without a release: --dry-run.")


def _made(options: SanitizeAsked) -> str:
    if options.experiment:
        return "An experiment, not for release and counted in no ledger:"
    return "Dry run: nothing was released. It would be" if options.dry_run else "Released"


def _who_may_see(files: list[str], private: list[str]) -> str:
    kept = f"Private, never upload: {', '.join(private)}." if private else "Nothing in the folder is private."
    shared = [next(name for name in files if name.startswith("release.")), "card.json"]
    beside = ("model.json", "counts.parquet", "signed.txt", "signed.txt.sig", "signer.json")
    return f"To share: {', '.join([*shared, *(name for name in beside if name in files)])}. {kept}"


def _found(release: Release, done: Sanitized, options: SanitizeAsked) -> Iterator[str]:
    """What is known of earlier releases, what became of the table's columns and cells, what the method met."""
    from sfumato.ledger.memories import ends_in_words

    if done.new_ledger is not None:
        yield f"New ledger begun at {done.new_ledger}: it adds up what is released of whom. Keep it, and use it again."
    if done.known is not None:
        what = "Released again, which counts" if options.again else "Left out because they were released before"
        yield f"{what}: {counted(done.known, 'row')}."
    if done.card.target is not None and not options.dry_run:
        from sfumato.release.sanitize_checks import alone

        values = release.target
        yield (
            f"{done.card.target} is released exactly as it was: {alone(values):,} of {len(values):,} rows have a value "
            "that no other row has."
        )
    if told := ends_in_words(done.at_the_ends):
        yield told
    if done.clipped:
        clipped = ", ".join(f"{name} ({counted(n, 'cell')})" for name, n in done.clipped.items())
        yield f"Clipped to their bounds: {clipped}."
    if done.dropped:
        yield f"Not released: {', '.join(done.dropped)}."
    if done.search is not None:
        yield done.search.in_words()
    for name, figure in done.notes.items():
        yield f"{name.replace('_', ' ').capitalize()}: {figure}."


def show(
    folder: Annotated[Path, argument("DIR", "Folder of a release, or its card.json.")],
    console: Console,
    ledger: LedgerPath = None,
) -> None:
    """Say in words what a release's card states; its owner is also told which ranges end where the table does.

    Example: sfumato show release
    """
    from sfumato.guarantee import Card
    from sfumato.guarantee.words import card_in_words
    from sfumato.ledger.memories import told_to_the_owner

    card = Card.load(folder)
    console.recite(card_in_words(card))
    if told := told_to_the_owner(card, ledger):
        console.recite(told)
    console.result({"card": card.to_dict()})


def certificate(
    folder: Annotated[Path, argument("DIR", "Folder of a release.")],
    console: Console,
    out: Path | None = optional("File to write, if not in the folder.", metavar="FILE"),
    with_audit: Annotated[bool, option("Show what the audit in DIR measured, too.")] = False,
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


def declare(
    schema: Annotated[Path, argument("SCHEMA", "Schema file that `sfumato schema` wrote.")],
    console: Console,
    ledger: LedgerPath = None,
    out: Path | None = optional("File to write; the default is SCHEMA itself.", metavar="FILE"),
    column: list[str] | None = optional("Column to declare; repeatable.", metavar="COL"),
    all_columns: bool = switch("Every column of a schema of which nothing was read off a table.", flag="--all"),
    reason: str = asked(REQUIRED, "How you know them without looking at this table."),
    low: str | None = optional("The column's lower bound, as you know it.", metavar="VALUE"),
    high: str | None = optional("The column's upper bound, as you know it.", metavar="VALUE"),
    categories: str | None = optional("The column's categories, as your source lists them.", metavar="A,B,..."),
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
    from sfumato.release.declare import Typed, in_words
    from sfumato.release.declare import declare as declared_in

    if bool(column) == all_columns:
        raise UsageError("Say which columns are public: --column COL (repeatable), or --all.")
    words = None if categories is None else tuple(next(csv.reader([categories], skipinitialspace=True), []))
    found, names = declared_in(schema, column or None, reason, Typed(low, high, words), ledger)
    target = out or schema
    found.save(target)
    shown = [in_words(found[name]) for name in names[:MOST_SHOWN]]
    more = f", and {len(names) - MOST_SHOWN:,} more" if len(names) > MOST_SHOWN else ""
    console.say(f"Public by your word in {target}: {'; '.join(shown) or 'nothing new'}{more}.")
    console.say(f"Still learned: {', '.join(found.learned) or 'none'}.")
    console.result({"schema": str(target), "declared": names, "learned": list(found.learned)})


@dataclass(frozen=True)
class OfSite:
    """For a site of a consortium: what its release is made for, and where it is pushed to in a sixth step."""

    study: str | None = optional("For a consortium's site: id of the study.", metavar="ID")
    study_file: Path | None = optional("The site's own copy of the study file, which settles the rest.", metavar="FILE")
    to: str | None = optional("The coordinator's address, https://...", metavar="URL")
    token_file: TokenFile = None
    insecure_http: InsecureHttp = False


def open_desk(
    console: Console,
    of_site: OfSite,
    table: Annotated[Path | None, argument("[TABLE]", "Table to begin with.")] = None,
    browser: Annotated[bool, option("Show the desk in a browser; without, only print its address.")] = True,
    port: int = asked(0, "Port on this computer; 0 takes a free one.", metavar="N"),
) -> None:
    """Open the desk: a page on this computer alone, from a dropped table to a release and its certificate.

    Everything that it does is also a command, which it shows. It ends with Ctrl-C, with its own button, or ten minutes
    after its last page.

    Examples:
      sfumato open
      sfumato open patients.csv
      sfumato open patients.csv --no-browser --port 8765
      sfumato open north.csv --study-file study.json --study k3f9abcd2345 --to https://study.example --token-file t
    """
    from sfumato.api.desk.job import Site
    from sfumato.api.desk.serve import open_desk as serve

    site = None
    if any(one is not None for one in (of_site.study, of_site.study_file, of_site.to, of_site.token_file)):
        if of_site.study is None or of_site.study_file is None or of_site.to is None:
            raise UsageError("A consortium's site needs --study ID, --study-file FILE and --to URL together.")
        study_file = of_site.study_file.absolute()
        site = Site(study_file, of_site.study, of_site.to, of_site.token_file, of_site.insecure_http)

    def say(line: str) -> None:
        console.say(line)
        sys.stdout.flush()

    serve(table, port=port, browser=browser, say=say, site=site)
