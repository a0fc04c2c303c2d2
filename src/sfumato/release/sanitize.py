"""Table in, release out: release.parquet, card.json and, private, trace.parquet and key.json; or all in memory."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sfumato.channels import RandomizedResponse
from sfumato.core.errors import PrivacyLeakWarning, SchemaError, UsageError
from sfumato.core.progress import Progress, silent
from sfumato.core.wording import counted
from sfumato.guarantee import CENTRAL_DP, Guarantee, Key
from sfumato.guarantee.guarantee import exact_target
from sfumato.guarantee.recompute import SEEDED
from sfumato.ledger import Ledger
from sfumato.ledger.read_off import ReadOff, shared_ends, table_ends
from sfumato.ledger.roll import Roll
from sfumato.mechanisms import Mechanism, ModelDrawing, RandomRotation, StagedRelease
from sfumato.noise import Streams
from sfumato.release.config import CHOSEN_ON_UNCHARGED
from sfumato.release.engines import BlockCounts, draw_blocks, fit_on_source, in_order, play_rounds
from sfumato.release.engines.here import Engine, Here, Work
from sfumato.release.noted import Sanitized, count_release, fit_note, of_ledger, recognise, release_note
from sfumato.release.only_new import remember
from sfumato.release.release import Release
from sfumato.release.sanitize_checks import (
    check_asked_for,
    check_engine,
    check_label,
    check_nobodys,
    check_provable,
    check_target,
    label_response,
    with_person,
    with_target,
)
from sfumato.release.sanitize_options import Options
from sfumato.release.source import Source
from sfumato.release.strength import Strength
from sfumato.release.unfinished import Unfinished, check_resumable, plan_of, release_folder
from sfumato.release.write_release import (
    InFolder,
    InMemory,
    Laid,
    Landing,
    Layout,
    check_apart,
    check_in_memory,
    check_replaceable,
    learned_classes,
    make_card,
)
from sfumato.table import Encoding, Schema, Table, open_table
from sfumato.table.infer import check_column
from sfumato.table.persons import kind_of

if TYPE_CHECKING:  # brings scikit-learn with it, which only a search needs
    from sfumato.release.search_result import SearchResult

__all__ = ["Options", "Sanitized", "sanitize", "sanitize_in_memory", "schema_for"]


def sanitize(table: Any, out: Path | str, options: Options | None = None, progress: Progress = silent) -> Sanitized:
    """Perturb `table` and write the release, its card and, where there is one, its key into the folder `out`."""
    options, out = options or Options(), Path(out)
    strength = options.strength()
    mechanism = options.checked_mechanism(strength)
    check_replaceable(out, options.force)
    with ExitStack() as run, ExitStack() as if_it_fails:
        engine, opened = _engine(table, options, run)
        check_apart(out, opened)
        check_resumable(options, opened)
        with release_folder(out, options) as (folder, unfinished):
            landing = InFolder(folder, out, options.format, options.engine, unfinished)
            made = _perturb(opened, mechanism, options, strength, landing, progress, run, if_it_fails, engine)
            if made.new_key is not None:  # last: a run that fails leaves no key behind
                made.new_key.save(options.key if isinstance(options.key, Path) else folder / "key.json")
        if_it_fails.pop_all()  # the release stands: nothing is taken back
    return replace(made.told, folder=out)


def sanitize_in_memory(table: Any, options: Options | None = None, progress: Progress = silent) -> Release:
    """The same without a folder: the ledger counts the release, and its rows, trace and key stay on the object."""
    options = options or Options()
    strength = options.strength()
    mechanism = options.checked_mechanism(strength)
    check_in_memory(options.engine)
    kind, landing = kind_of(table), InMemory()
    with ExitStack() as run, ExitStack() as if_it_fails:
        engine, opened = _engine(table, options, run)
        made = _perturb(opened, mechanism, options, strength, landing, progress, run, if_it_fails, engine)
        if made.new_key is not None and isinstance(options.key, Path) and not options.leaves_no_mark:
            made.new_key.save(options.key)
        if_it_fails.pop_all()
    return Release(
        made.told.card,
        rows=pa.concat_tables(landing.tables),
        source=np.concatenate(landing.sources) if landing.sources else None,
        key=made.key,
        key_kept=isinstance(options.key, Path),
        remembered=landing.note,
        kind=kind,
        told=made.told,
        model=landing.model,
        counts=landing.counts,
    )


@dataclass(frozen=True)
class _Made:
    told: Sanitized
    key: Key | None
    new_key: Key | None
    """The key, if it was drawn for this release and has no file yet."""


def _engine(table: Any, options: Options, run: ExitStack) -> tuple[Engine, Table]:
    """Who goes through the table, and the table as they see it."""
    if options.engine != "spark":
        return Here(), open_table(options.table_for_comparison(table))
    from sfumato.release.spark.engine import InSpark, table_in_spark  # PySpark is an extra

    return InSpark(), run.enter_context(table_in_spark(table, options.master))


def _perturb(
    opened: Table,
    mechanism: Mechanism,
    options: Options,
    strength: Strength,
    landing: Landing,
    progress: Progress,
    run: ExitStack,
    if_it_fails: ExitStack,
    engine: Engine,
) -> _Made:
    """The road that every release takes, wherever it lands. `run` ends when it is certain whether it stands."""
    schema = schema_for(
        opened, options.agreed_schema(), options.label, options.person, agreed=options.terms is not None
    )
    if options.target is not None:
        schema = schema.with_target(options.target)
    schema = options.with_own_noise(schema)
    if options.privacy_loss is not None:
        from sfumato.release.privacy_loss import with_privacy_loss  # brings scipy.stats with it

        schema = with_privacy_loss(opened, schema, mechanism, options.privacy_loss)
        strength = replace(strength, chosen_by=f"privacy loss {options.privacy_loss:g} of every number, from the data")
    encoding = Encoding(schema)
    if options.max_rows_per_person is not None and schema.person is None:
        raise UsageError(
            "--max-rows-per-person needs a column that says whose row each one is. Give one the role person."
        )
    check_label(schema, opened.names, options)
    check_target(schema, opened.names, mechanism, options)
    check_engine(schema, options)
    if strength.ruled:
        check_provable(encoding, options)
    elif options.measured_only:
        raise UsageError(
            "--measured-only goes with --epsilon or --max-posterior without a method: both must be proved otherwise."
        )
    if isinstance(mechanism, ModelDrawing):
        check_nobodys(mechanism, encoding, options)
    response = label_response(encoding, options, strength)
    source = engine.source(
        opened,
        encoding,
        options.out_of_bounds,
        options.max_rows_per_person,
        keep_in_memory=options.engine == "memory",
        labelled=not options.unlabelled,
        block_rows=(1 << 62) if mechanism.whole_table else None,
        blind=isinstance(mechanism, ModelDrawing),
    )
    ledger = Ledger(options.ledger)
    nobodys = isinstance(mechanism, ModelDrawing)  # no row of the table is released, so that none is remembered
    roll = _roll(ledger, source, options) if not nobodys else None
    remembered = None
    if not (nobodys or options.leaves_no_mark):
        remembered = remember(
            ledger, source, only_new=options.only_new, again=options.again, until=run, progress=progress
        )
    kept, streams = _begin(landing, opened, schema, strength, options, ledger, remembered is None)
    source.kept = kept
    streams = engine.streams(streams)
    run.callback(streams.destroy)
    key, found = _key(mechanism, source, options, progress, kept)
    fingerprint = ledger.fingerprint(encoding.width)
    block_counts: BlockCounts = {}
    public = options.public_rows()
    shaped_by = None if public is None else public.shape(mechanism, encoding, ledger)
    charged: list[dict[str, Any]] = []
    run_name = None if kept is None else str(kept.plan["run"])
    if kept is not None and run_name is not None:
        kept.spend = partial(ledger.end_run, run_name)
    in_the_way = [*_in_the_way(schema, options), *strength.in_the_way]
    if strength.on_release and not ledger.has_charged(strength.model):
        in_the_way.append(CHOSEN_ON_UNCHARGED)

    def charge() -> None:
        """A fit that draws noise is paid for whatever becomes of it: choosing among fits would tell something."""
        assert isinstance(mechanism, ModelDrawing)
        proves = not (in_the_way or mechanism.in_the_way())
        note = fit_note(mechanism, fingerprint, options, proves=proves, run=run_name)
        charged.append(count_release(ledger, note, options))

    if isinstance(mechanism, ModelDrawing):
        mechanism.start(encoding, streams.generator(0, b"", b"fit"), labelled=not options.unlabelled)
    rows = fit_on_source(mechanism, source, key, fingerprint, progress, block_counts, charge, streams)
    if isinstance(mechanism, StagedRelease):
        play_rounds(mechanism, source, streams, progress)
    private = shaped_by is not None and shaped_by.holds_private_rows(fingerprint, roll, ledger)
    recognise(mechanism, ledger, rows, options, private=private)
    own_ends = table_ends(schema, source.ends)
    if not options.leaves_no_mark:
        memory = ReadOff(ledger.path)
        memory.remember(own_ends.values(), shown=False)
        if options.agreed_schema() is None:  # the card shows what was just read
            memory.remember(schema.columns, shown=True)
    if kept is not None:
        kept.check_fit(mechanism.recipe_.to_dict())
    released = mechanism.released(rows)
    layout = Layout(mechanism, encoding, options.like_original)
    guarantee = _guarantee(mechanism, encoding, source, response, options).hindered(in_the_way)
    mark = None if remembered is None else remembered.memory.mark
    check_asked_for(guarantee, schema, options)
    note = release_note(mechanism, fingerprint, guarantee, options, roll, run_name, mark)
    earlier = charged[0] if charged else count_release(ledger, note, options, if_it_fails, roll)
    card = make_card(
        layout,
        guarantee,
        rows=released,
        label_keep=response.keep if response else 1.0,
        earlier=earlier | of_ledger(ledger, opened, landing.target, schema, options),
        labelled=not options.unlabelled,
        reproducible=options.seed is not None,
        chosen_by=strength.chosen_by,
    )
    if isinstance(mechanism, ModelDrawing):
        drawn = draw_blocks(mechanism, streams, rows, progress)
        laid: Iterator[Laid] = in_order(drawn, lambda b: (layout.table(b.X, b.y), None), threads=1)
    else:
        laid = engine.laid(Work(layout, source, streams, response, landing, rows, block_counts, progress))
    landing.take(card, with_target(laid, opened, schema.target))
    if isinstance(mechanism, ModelDrawing):
        landing.take_model(mechanism.model())
        if (counts := mechanism.counts()) is not None:
            landing.take_counts(card, counts)
        if guarantee.kind == CENTRAL_DP and not options.leaves_no_mark and mechanism.recipe_.model is not None:
            ledger.keep_model(mechanism.recipe_.model)
    streams.destroy()
    if remembered is not None:
        landing.remembered(remembered.memory, note)
    known = remembered.known if remembered is not None and options.only_new else None
    clipped = {} if nobodys else dict(source.clipped)  # exact counts of the table stay untold
    at_the_ends = shared_ends(schema, own_ends)
    begun = ledger.path if ledger.releases == 1 and not options.leaves_no_mark else None
    notes = {**({"method": strength.note} if strength.note else {}), **mechanism.notes()}
    told = Sanitized(card, None, clipped, schema.dropped, notes, found, known, at_the_ends, begun)
    return _Made(told, key, None if options.key_is_given else key)


def _begin(
    landing: Landing,
    opened: Table,
    schema: Schema,
    strength: Strength,
    options: Options,
    ledger: Ledger,
    compares_no_rows: bool,
) -> tuple[Unfinished | None, Streams]:
    """The run's streams, and where it keeps what it needs to go on if it is killed; that is None where it cannot."""
    seed = options.noise_seed
    if landing.unfinished is None or not opened.files or options.search is not None or not compares_no_rows:
        if options.resume:
            raise UsageError("The ledger remembers rows of this schema (--only-new). Such a run cannot be resumed.")
        return None, Streams() if seed is None else Streams.seeded(seed)
    ledger.keep()  # fingerprints of both halves of a run are made with one key
    plan = plan_of(
        options,
        opened,
        **{
            "schema": schema.to_yaml(),
            "mechanism": [strength.mechanism, dict(strength.parameters), strength.label_epsilon],
            "--ledger": ledger.columns(schema.names),
        },
    )
    return landing.unfinished, landing.unfinished.begin(plan, seed)


def _roll(ledger: Ledger, source: Source, options: Options) -> Roll | None:
    """Where the first pass tells whose rows these are; nobody asks for a trial, and rows in Spark stay there."""
    if options.trial is not None or options.engine == "spark":
        return None
    if not options.leaves_no_mark:
        ledger.keep()  # the key that the fingerprints are made with must outlive this run
    source.roll = ledger.new_roll(source.known_by, people=source.encoding.schema.person is not None)
    return source.roll


def schema_for(
    table: Any, given: Path | str | Schema | None, label: str | None, person: str | None = None, *, agreed: bool = False
) -> Schema:
    """The declared schema (a study's where it is `agreed`), or one inferred from the table (with a
    `PrivacyLeakWarning`); `label` names the label, and `person` the column that says whose rows they are."""
    if person is not None:
        check_column(open_table(table), person, "--person: ")
    if given is None:
        return Schema.infer(table, label=label, person=person)
    schema = given if isinstance(given, Schema) else Schema.load(given)
    schema = schema if person is None else with_person(schema, person, agreed=agreed)
    if label is not None and label not in schema:
        raise SchemaError(
            f"The schema has no column {label!r} to be the column to predict. It has: {', '.join(schema.names)}."
        )
    if label is not None and (schema.label is None or schema.label.name != label):
        raise SchemaError(
            f"In the schema the column to predict is not {label!r}. Give that column `role: label`, or drop --label."
        )
    if schema.learned:
        warnings.warn(
            f"The schema's bounds or categories of {counted(len(schema.learned), 'column')} were learned from data "
            "(source: learned). No proof can rest on them until their owner declares them public.",
            PrivacyLeakWarning,
            stacklevel=2,
        )
    return schema


def _key(
    mechanism: Mechanism, source: Source, options: Options, progress: Progress, kept: Unfinished | None
) -> tuple[Key | None, SearchResult | None]:
    """The given key, or a new one: it goes to --key if nothing is there yet, else into the release's folder."""
    if not mechanism.needs_key:
        if options.key is not None:
            raise UsageError(f"{mechanism.name} has no key. Leave --key out.")
        return None, None
    if options.key is not None and options.key_is_given:
        return (options.key if isinstance(options.key, Key) else Key.load(options.key)), None
    if options.search is not None and isinstance(mechanism, RandomRotation):
        from sfumato.release.rotation_search import search_source  # brings scikit-learn with it

        scoring = "published" if options.published else options.search_scoring
        return search_source(source, mechanism, options.search, options.search_goal, scoring, progress)
    if kept is not None:
        return kept.secret(lambda: mechanism.draw_key(source.encoding)), None
    return mechanism.draw_key(source.encoding), None


def _guarantee(
    mechanism: Mechanism, encoding: Encoding, source: Source, response: RandomizedResponse | None, options: Options
) -> Guarantee:
    guarantee = mechanism.guarantee()
    if response is not None:
        guarantee = guarantee.with_label(response.epsilon).hindered(learned_classes(encoding.schema))
    elif encoding.schema.label is not None and not options.unlabelled and guarantee.central is None:
        guarantee = guarantee.beside_exact_label()
    if encoding.schema.person is not None:
        cap = options.max_rows_per_person
        guarantee = guarantee.with_persons(cap or source.most_rows_of_a_person, learned=cap is None)
    return guarantee


def _in_the_way(schema: Schema, options: Options) -> list[str]:
    """What voids every claim and is known before anything is fitted."""
    target = [] if schema.target is None else [exact_target(schema.target.name)]
    return [*target, *([] if options.seed is None else [SEEDED])]
