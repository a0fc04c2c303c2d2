"""schema, sanitize, show: from a private table to a release."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from sfumato.api.cli.blocks import with_blocks
from sfumato.api.cli.console import (
    AsPublished,
    Console,
    Force,
    LedgerPath,
    Quiet,
    parse_column_parameters,
    parse_parameters,
)
from sfumato.api.cli.tables import Query, Tables, TablesArgument
from sfumato.core.errors import UsageError
from sfumato.core.files import check_free
from sfumato.core.wording import counted

Label = Annotated[str | None, typer.Option(metavar="COL", help="The column that classifiers are to predict.")]


@with_blocks
def schema(
    table: TablesArgument,
    tables: Tables,
    label: Label = None,
    query: Query = None,
    out: Annotated[Path | None, typer.Option(help="File to write; the default is standard output.")] = None,
    ledger: LedgerPath = None,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Infer a schema from TABLE, as a file to edit.

    Bounds and categories are people's values, marked `learned`: nothing is proved that rests on them. Keep the file to
    yourself. For a proof, say with `sfumato declare` what you know without looking at the data. It refuses what was
    read here: keyed hashes of that are kept beside the ledger.

    Examples:
      sfumato schema patients.csv --label diagnosis --out schema.yaml
      sfumato schema patienten.csv --decimal , --encoding cp1252 --label diagnose --out schema.yaml
      curl -s https://example.org/patients.csv | sfumato schema - --label diagnosis --out schema.yaml
    """
    from sfumato.ledger.read_off import ReadOff
    from sfumato.release.declare import example
    from sfumato.table import Schema

    console = Console(quiet)
    check_free(out, force=force)
    with console.listening():
        inferred = Schema.infer(tables.open_all(table, query), label=label, refuse=False)
    ReadOff(ledger).remember(inferred.columns, shown=True)
    if out is None:
        print(inferred.to_yaml(), end="")
        return
    inferred.save(out)
    console.say(f"Wrote {out}: {counted(len(inferred.private), 'private column')}, with ranges read off your table.")
    console.say("For a proof, say of each column what you know without it, and how you know:")
    for column in inferred.private[:1]:
        console.say(f"  {example(out, column)}")


@with_blocks
def sanitize(
    table: TablesArgument,
    tables: Tables,
    console: Console,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Folder to write.")] = None,
    label: Label = None,
    person: Annotated[
        str | None, typer.Option(metavar="COL", help="The column that says whose rows they are; never released.")
    ] = None,
    target: Annotated[
        str | None, typer.Option(metavar="COL", help="A number to predict: released as it is, for `sfumato regress`.")
    ] = None,
    schema: Annotated[Path | None, typer.Option(metavar="FILE", help="Schema file; otherwise one is inferred.")] = None,
    mechanism: Annotated[
        str | None,
        typer.Option(help="The method (docs/mechanisms.md); without it the study's, or what --epsilon chooses."),
    ] = None,
    study: Annotated[Path | None, typer.Option(metavar="FILE", help="Study file: its schema and method.")] = None,
    config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="What `recommend` chose; --study outranks it, flags outrank both."),
    ] = None,
    param: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="Parameter; repeatable.")] = None,
    column_param: Annotated[
        list[str] | None, typer.Option(metavar="COL.NAME=VALUE", help="A column's own choice; repeatable.")
    ] = None,
    epsilon: Annotated[
        float | None, typer.Option(help="Bound for anybody's values; alone it chooses the method too (see --trust).")
    ] = None,
    trust: Annotated[
        str,
        typer.Option(metavar="WHOM", help="Who may hold the rows: 'owner' (made-up rows), or 'nobody' (blurred rows)."),
    ] = "owner",
    measured_only: Annotated[
        bool, typer.Option("--measured-only", help="Release though ranges were read off the table: nothing is proved.")
    ] = False,
    epsilon_record: Annotated[
        float | None, typer.Option(help="The same number as --epsilon; never changes the method.")
    ] = None,
    epsilon_presence: Annotated[
        float | None, typer.Option(help="Of made-up rows: the bound for the presence of one record instead.")
    ] = None,
    delta: Annotated[
        float | None, typer.Option(help="Of made-up rows: how rarely the bound may fail; 0 never (more noise).")
    ] = None,
    rows: Annotated[
        int | None, typer.Option(metavar="N", help="Rows to draw, of methods that draw rows; as --param rows=N.")
    ] = None,
    privacy_loss: Annotated[
        float | None,
        typer.Option(help="Fit the noise of each number to this privacy loss, 1 - 2^-I (measured, not proved)."),
    ] = None,
    max_posterior: Annotated[float | None, typer.Option(help="How sure an attacker may become (see --prior).")] = None,
    prior: Annotated[float | None, typer.Option(help="How sure they were before; 0.1 if not given.")] = None,
    engine: Annotated[str, typer.Option(help="memory; stream for tables larger than memory; or spark.")] = "memory",
    master: Annotated[str | None, typer.Option(metavar="URL", help="Where Spark runs; the default is here.")] = None,
    key: Annotated[Path | None, typer.Option(metavar="PATH", help="Key to use, or to write if new.")] = None,
    search: Annotated[int | None, typer.Option(metavar="N", help="random-rotation: the best of N rotations.")] = None,
    search_goal: Annotated[str, typer.Option(help="Guarantee that --search raises: minimum or average.")] = "minimum",
    search_scoring: Annotated[
        str, typer.Option(help="How --search judges: measured, or published (Eq. 6 of the paper to the letter).")
    ] = "measured",
    as_published: AsPublished = False,
    basis_from: Annotated[
        str | None, typer.Option(metavar="TABLE", help="principal-laplace: public rows to take the basis from.")
    ] = None,
    reason: Annotated[str | None, typer.Option(help="Why the rows of --basis-from are public.")] = None,
    conditional: Annotated[
        bool, typer.Option("--conditional", help="Go on, unproved, though rows of --basis-from are private ones.")
    ] = False,
    query: Query = None,
    format: Annotated[str, typer.Option(help="parquet, csv, sav, zsav, dta, xpt, xlsx or ods.")] = "parquet",
    stdout: Annotated[
        bool, typer.Option("--stdout", help="When done, write the released rows to standard output too, as Arrow.")
    ] = False,
    like_original: Annotated[bool, typer.Option(help="Round and clip back to the source's kinds.")] = False,
    out_of_bounds: Annotated[str, typer.Option(help="Values outside declared bounds: clip or refuse.")] = "clip",
    unlabelled: Annotated[
        bool, typer.Option(help="Release rows to be classified, without the column to predict.")
    ] = False,
    private_label: Annotated[
        bool, typer.Option(help="Blur the column to predict too; learners correct for it.")
    ] = False,
    label_epsilon: Annotated[
        float | None, typer.Option(help="Epsilon of the column to predict; 1 if not given.")
    ] = None,
    max_rows_per_person: Annotated[int | None, typer.Option(help="Use at most this many rows per person.")] = None,
    ledger: LedgerPath = None,
    cohort: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Your name for these people; releases of other cohorts are not added up."),
    ] = None,
    only_new: Annotated[bool, typer.Option(help="Leave out rows (or people) that were released before.")] = False,
    again: Annotated[
        bool, typer.Option("--again", help="With --only-new: release also those again, which counts.")
    ] = False,
    seed: Annotated[int | None, typer.Option(help="Repeatable noise, for tests only: not for release.")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be released; write nothing, also not in the ledger.")
    ] = False,
    unprotected: Annotated[
        bool,
        typer.Option("--unprotected", help="Release though the usual strength comes to an epsilon above 30 here."),
    ] = False,
    force: Force = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="--engine stream: go on with a run into DIR that was stopped.")
    ] = False,
) -> None:
    """Blur TABLE and write the release, its card and, if there is one, its key.

    Writes DIR/release.parquet and DIR/card.json to share, and DIR/trace.parquet and DIR/key.json, which are private.
    Made-up rows have neither, but DIR/model.json, to share: `sfumato redraw` draws from it again.

    Examples:
      sfumato sanitize patients.csv --schema schema.yaml --epsilon 1 --out release
      sfumato sanitize patients.csv --schema schema.yaml --epsilon 2 --trust nobody --out release
      sfumato sanitize wine.csv --label label --out release
      sfumato sanitize patients.csv --schema schema.yaml --config config.yaml --dry-run
      sfumato sanitize patients.csv --label y --mechanism additive-noise --param law=normal --param scale=0.25 --out r
      sfumato sanitize patients.csv --label y --mechanism additive-noise --column-param income.scale=0.5 --out r
      sfumato sanitize patients.csv --label y --mechanism random-rotation --search 50 --key study-key.json --out r
      sfumato sanitize a.csv --schema s.yaml --epsilon-record 4 --basis-from b.csv --reason "a census" --out r
      sfumato sanitize "patients/year=*/*.parquet" --schema schema.yaml --engine stream --out r
      cat patients.arrow | sfumato sanitize - --schema schema.yaml --out r --stdout > release.arrows
      sfumato sanitize february.csv --study study.yaml --only-new --out february
      sfumato sanitize new.csv --schema schema.yaml --mechanism random-rotation --key key.json --unlabelled --out q
    """
    from sfumato.api.sanitize import sanitize as run
    from sfumato.api.sanitize import study_terms
    from sfumato.ledger.read_off import ends_in_words

    if stdout and (dry_run or console.as_json):
        other = "--dry-run" if dry_run else "--json"
        raise UsageError(
            f"--stdout writes rows to standard output, which {other} has no use for. Leave out one of them."
        )
    if stdout:
        console.stream = sys.stderr
    if out is None and not dry_run:
        raise UsageError("Say where the release is to be written: --out DIR. To try without a release: --dry-run.")
    terms = None if study is None else study_terms(study)
    parameters = parse_parameters(param or [])
    if rows is not None:
        if "rows" in parameters:
            raise UsageError("--rows is given twice, once as --param. Leave one of them out.")
        parameters["rows"] = rows
    with console.listening() as progress:
        release = run(
            tables.open_all(table, query),
            label=label,
            person=person,
            target=target,
            schema=schema,
            study=terms,
            mechanism=mechanism,
            parameters=parameters,
            columns=parse_column_parameters(column_param or []),
            epsilon_record=epsilon_record,
            epsilon=epsilon,
            epsilon_presence=epsilon_presence,
            trust=trust,
            measured_only=measured_only,
            delta=delta,
            max_posterior=max_posterior,
            privacy_loss=privacy_loss,
            prior=prior,
            private_label=private_label,
            label_epsilon=label_epsilon,
            basis_from=tables.open_if_given(basis_from),
            reason=reason,
            conditional=conditional,
            unlabelled=unlabelled,
            max_rows_per_person=max_rows_per_person,
            out_of_bounds=out_of_bounds,
            like_original=like_original,
            key=key,
            search=search,
            search_goal=search_goal,
            search_scoring=search_scoring,
            published=as_published,
            cohort=cohort,
            only_new=only_new,
            again=again,
            ledger=ledger,
            seed=seed,
            config=config,
            dry_run=dry_run,
            unprotected=unprotected,
            out=out,
            engine=engine,
            master=master,
            format=format,
            force=force,
            resume=resume,
            progress=progress,
        )
    done = release.told
    assert done is not None  # it was made just now
    card = done.card
    if terms is not None:
        console.say(f"Study {terms.name}, {terms.hash}")
    made = "Dry run: nothing was released. It would be" if dry_run else "Released"
    console.say(card.guarantee["words"])  # before all else: it may be bad news
    console.say(f"{made} {counted(card.rows, 'row')}{'' if dry_run else f' into {out}'}.")
    if dry_run and card.guarantee["central"]:
        console.say("Nothing was paid for what a dry run says of the table: keep it to yourself.")
    if card.guarantee["conditional_epsilon"]:
        from sfumato.guarantee.words import ways_out

        console.say(f"To get a proof: {'; '.join(ways_out(card.guarantee['in_the_way']))}.")
    if done.new_ledger is not None:
        console.say(
            f"New ledger begun at {done.new_ledger}: it adds up what is released of whom. Keep it, and use it again."
        )
    if done.known is not None:
        what = "Released again, which counts" if again else "Left out because they were released before"
        console.say(f"{what}: {counted(done.known, 'row')}.")
    if card.target is not None and not dry_run:
        from sfumato.release.sanitize_checks import alone

        values = release.target
        console.say(
            f"{card.target} is released exactly as it was: {alone(values):,} of {len(values):,} rows have a value "
            "that no other row has."
        )
    if told := ends_in_words(done.at_the_ends):
        console.say(told)
    if done.clipped:
        clipped = ", ".join(f"{name} ({counted(n, 'cell')})" for name, n in done.clipped.items())
        console.say(f"Clipped to their bounds: {clipped}.")
    if done.dropped:
        console.say(f"Not released: {', '.join(done.dropped)}.")
    if done.search is not None:
        console.say(done.search.in_words())
    for name, figure in done.notes.items():
        console.say(f"{name.replace('_', ' ').capitalize()}: {figure}.")
    files = [] if dry_run or out is None else sorted(file.name for file in out.iterdir())
    private = [name for name in files if name in ("key.json", "trace.parquet")]
    kept = f" Private, never upload: {', '.join(private)}." if private else " Nothing in the folder is private."
    if files:
        more = "".join(f", {name}" for name in ("model.json", "counts.parquet") if name in files)
        console.say(f"To share: release.{format}, card.json{more}.{kept}")
    console.result(
        {
            "folder": None if dry_run else str(out),
            "dry_run": dry_run,
            "files": files,
            "private_files": private,
            "rows": card.rows,
            "released_before": done.known,
            "new_ledger": None if done.new_ledger is None else str(done.new_ledger),
            "guarantee": dict(card.guarantee),
            "earlier_releases": dict(card.earlier_releases),
            "clipped": done.clipped,
            "dropped": list(done.dropped),
            "notes": dict(done.notes),
            "search": None if done.search is None else done.search.to_dict(),
        }
    )
    if stdout and out is not None:
        from sfumato.release.write_release import pipe_release

        pipe_release(out, format, sys.stdout.buffer)


@with_blocks
def forget(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Release that was made with --only-new.")],
    console: Console,
    ledger: LedgerPath = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Tell the ledger that a release never left this machine, so that its rows count as new again.

    For a release that was made by mistake and deleted unseen. One that was pushed cannot be forgotten, and one that
    anybody else has seen must not be.

    Example: sfumato forget january
    """
    from sfumato.release.only_new import forget_release

    if not yes:
        if console.as_json or not sys.stdin.isatty():
            raise UsageError(
                "A release that others have seen must not be forgotten. If you alone have seen it, add --yes."
            )
        if not typer.confirm(f"Are you sure that you alone have seen, and will see, the release in {folder}?"):
            raise UsageError("Not confirmed, so nothing was changed.")
    rows = forget_release(folder, ledger)
    console.say(f"Forgotten: {rows:,} rows or people are new again. Delete {folder} now.")
    console.result({"folder": str(folder), "rows": rows})


@with_blocks
def show(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a release, or its card.json.")],
    console: Console,
    ledger: LedgerPath = None,
) -> None:
    """Say in words what a release's card states; its owner is also told which ranges end where the table does.

    Example: sfumato show release
    """
    from sfumato.guarantee import Card
    from sfumato.guarantee.words import card_in_words
    from sfumato.ledger.read_off import told_to_the_owner

    card = Card.load(folder)
    console.say(card_in_words(card))
    if told := told_to_the_owner(card, ledger):
        console.say(told)
    console.result({"card": card.to_dict()})
