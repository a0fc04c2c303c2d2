"""Table in, release out: release.parquet, card.json and, private, trace.parquet and key.json; or all in memory."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato import __version__
from sfumato.core.errors import PrivacyLeakWarning, SchemaError, UsageError
from sfumato.core.progress import Progress, silent
from sfumato.core.wording import counted
from sfumato.guarantee import CENTRAL_DP, Card, Guarantee, Key
from sfumato.guarantee.card import NOT_FOR_RELEASE
from sfumato.guarantee.guarantee import exact_target
from sfumato.ledger.memories import ReadOff, shared_ends, table_ends
from sfumato.ledger.roll import Roll
from sfumato.mechanisms.base import Given, Phase
from sfumato.noise import Streams
from sfumato.release.engine import Engine, Work, drawn
from sfumato.release.noted import Account, Sanitized, of_ledger, recognise
from sfumato.release.only_new import Remembered, remember
from sfumato.release.release import Release
from sfumato.release.sanitize_checks import check_asked_for, check_table, label_response, with_person, with_target
from sfumato.release.sanitize_options import Options, Plan, PublicRows
from sfumato.release.source import play
from sfumato.release.strength import CHOSEN_ON_UNCHARGED
from sfumato.release.unfinished import Unfinished, erase
from sfumato.release.write_release import (
    InMemory,
    Landing,
    Layout,
    check_replaceable,
    learned_classes,
    make_card,
    release_folder,
)
from sfumato.table import Column, Encoding, Schema, Table, open_table
from sfumato.table.cell_sets import kind_of
from sfumato.table.infer import check_column
from sfumato.table.tables import FileMark

if TYPE_CHECKING:  # what few releases need
    from sfumato.release.auditable import Opened
    from sfumato.release.rotation_search import SearchResult

__all__ = ["Options", "Sanitized", "sanitize", "sanitize_in_memory", "schema_for"]


def sanitize(table: Any, out: Path | str, options: Options | None = None, progress: Progress = silent) -> Sanitized:
    """Perturb `table` and write the release, its card and, where there is one, its key into the folder `out`."""
    plan, out = (options or Options()).settle(), Path(out)
    check_replaceable(out, plan.options.force)
    told = released(table, plan, partial(release_folder, out, plan.options), progress)
    return replace(told, folder=out)


def sanitize_in_memory(table: Any, options: Options | None = None, progress: Progress = silent) -> Release:
    """The same without a folder: the ledger counts the release, and its rows, trace and key stay on the object."""
    plan = (options or Options()).settle()
    if not plan.options.engine_can.hold_table:
        raise UsageError(
            f"--engine {plan.options.engine} writes to a folder as it goes. Say where, with --out, or use memory."
        )
    kind, held = kind_of(table), InMemory()
    told = released(table, plan, lambda _: nullcontext(held), progress)
    return Release(told.card, held=held, kind=kind, told=told)


def released(
    table: Any, plan: Plan, place: Callable[[Table], AbstractContextManager[Landing]], progress: Progress
) -> Sanitized:
    """Release at a place: what must be taken back if that fails is, and what it needed ends when it is certain."""
    engine = Engine()
    if plan.options.engine_can.spread:
        from sfumato.release.spark.engine import InSpark  # PySpark is an extra

        engine = InSpark()
    with ExitStack() as until, ExitStack() as undo:
        opened = until.enter_context(engine.opened(table, plan.options))
        with place(opened) as landing:
            told = _Run(plan, engine, opened, landing, until, undo, progress).release()
        undo.pop_all()  # the release stands: nothing is taken back
    return told


class _Run:
    """One release on its way: the road that all take, whichever the mechanism, the engine and the place."""

    def __init__(
        self,
        plan: Plan,
        engine: Engine,
        table: Table,
        landing: Landing,
        until: ExitStack,
        undo: ExitStack,
        progress: Progress,
    ) -> None:
        schema, plan = settled(plan, table)
        self.plan, self.options, self.mechanism = plan, plan.options, plan.mechanism
        self.table, self.landing, self.progress = table, landing, progress
        self.until, self.undo, self.engine = until, undo, engine
        self.schema, self.encoding = schema, Encoding(schema)
        check_table(plan, self.encoding, table.names)
        self.response = label_response(self.encoding, plan)
        self.ledger = self.options.own_ledger
        self.source = self.engine.source(
            table,
            self.encoding,
            self.options.out_of_bounds,
            self.options.max_rows_per_person,
            keep_in_memory=self.options.engine_can.hold_table,
            labelled=not self.options.unlabelled,
            block_rows=(1 << 62) if self.mechanism.whole_table else None,
            blind=self.mechanism.made_up,
        )
        self.search: SearchResult | None = None
        self.key: Key | None = None
        self.key_is_given = self.options.key_is_given  # now: it may be written meanwhile
        self.committed: Opened | None = None

    def release(self) -> Sanitized:
        """From the table to a release that may stand: what a killed run needs is kept, and the ledger has answered
        before a row lands."""
        if self.options.auditable is not None:
            from sfumato.release.auditable import opened

            self.committed = opened(self.table, self.plan, self.schema, self.landing.target)
        roll, remembered = self._roll(), None
        if not (self.mechanism.made_up or self.options.leaves_no_mark):
            remembered = remember(self.ledger, self.source, self.options, self.until, self.progress)
        kept, self.streams = self._begin(may_go_on=remembered is None)
        fingerprint = self.ledger.fingerprint(self.encoding.width)
        public: PublicRows | None = None
        if self.options.basis_from is not None:
            public = PublicRows(self.options, self.mechanism, self.encoding, self.ledger)
        account = Account(self.ledger, self.options, fingerprint, roll, None if kept is None else kept.name)
        in_the_way = self._in_the_way()

        def pay() -> None:
            account.charge_fit(self.mechanism, proves=not (in_the_way or self.mechanism.in_the_way()))

        rows = play(self._phases(kept), self.source, fingerprint, self.progress, pay)
        private = public is not None and public.holds_private_rows(fingerprint, roll, self.ledger)
        if self.committed is not None:
            self.committed.check(self.mechanism)
        recognise(self.mechanism, self.ledger, rows, self.options, private=private)
        ends = self._ends_read()
        if kept is not None:
            kept.check_fit(self.mechanism.recipe_.to_dict())
        layout = Layout(self.mechanism, self.encoding, self.options.like_original)
        guarantee = self._guarantee().hindered(in_the_way)
        check_asked_for(guarantee, self.schema, self.options)
        mark = None if remembered is None else remembered.memory.mark
        earlier = account.charge_release(self.mechanism, guarantee, mark, self.undo)
        card = self._card(layout, guarantee, rows, earlier)
        self._land(card, layout, rows)
        if remembered is not None:
            self.landing.remembered(remembered.memory, account.note)
        told = self._told(card, ends, remembered)
        if self.key is not None:  # last: a run that fails leaves no key behind
            self._keep_key(self.key)
        if self.committed is not None:  # and no seed lies beside a release that stands
            erase(self.committed.secret)
        return told

    def _roll(self) -> Roll | None:
        """Where the first pass tells whose rows these are: not of made-up rows, which are no person's, nor where
        nothing is counted; and rows that lie on many machines stay there."""
        if self.mechanism.made_up or not self.options.is_counted or self.options.engine_can.spread:
            return None
        if not self.options.leaves_no_mark:
            self.ledger.keep()  # the key that the fingerprints are made with must outlive this run
        self.source.roll = self.ledger.new_roll(self.source.known_by, people=self.schema.person is not None)
        return self.source.roll

    def _begin(self, *, may_go_on: bool) -> tuple[Unfinished | None, Streams]:
        """The run's streams, and where it keeps what it needs to go on if it is killed; None where it cannot."""
        options, strength, kept = self.options, self.plan.strength, self.landing.unfinished
        given = options.given_streams() if self.committed is None else self.committed.streams
        if kept is None or not self.table.files or options.search is not None or not may_go_on:
            if options.resume:
                raise UsageError("The ledger remembers rows of this schema (--only-new). Such a run cannot be resumed.")
            streams, kept = given or Streams(), None
        else:
            self.ledger.keep()  # fingerprints of both halves of a run are made with one key
            settled = {
                "schema": self.schema.to_yaml(),
                "mechanism": [strength.mechanism, dict(strength.parameters), strength.label_epsilon],
                "--ledger": self.ledger.columns(self.schema.names),
                "--auditable": None if self.committed is None else dict(self.committed.on_card),
            }
            streams = kept.begin(plan_of(options, self.table, **settled), given)
            kept.spend = partial(self.ledger.end_run, kept.name)
        self.source.kept = kept
        streams = self.engine.streams(streams)
        self.until.callback(streams.destroy)
        return kept, streams

    def _phases(self, kept: Unfinished | None) -> Iterator[Phase]:
        """All passes over the table before rows are released: a search for a key, if there is one, comes first."""
        if self.options.search is not None:
            from sfumato.release.rotation_search import searched_key  # brings scikit-learn with it

            self.key, self.search = yield from searched_key(self.mechanism, self.encoding, self.options, self.progress)
        else:
            self.key = self._known_key(kept)
        yield from self.mechanism.phases(Given(self.encoding, self.key, self.streams, not self.options.unlabelled))

    def _known_key(self, kept: Unfinished | None) -> Key | None:
        """The given key, or a new one: it goes to --key if nothing is there yet, else into the release's folder."""
        given = self.options.key
        if not self.mechanism.needs_key:
            if given is not None:
                raise UsageError(f"{self.mechanism.name} has no key. Leave --key out.")
            return None
        if given is not None and self.key_is_given:
            return given if isinstance(given, Key) else Key.load(given)
        if kept is not None:
            return kept.secret(lambda: self.mechanism.draw_key(self.encoding))
        # A trial repeats, so that advice does; its key is never kept, as one from a seed that others know might be.
        return self.mechanism.draw_key(self.encoding, None if self.options.trial is None else self.streams)

    def _keep_key(self, key: Key) -> None:
        """A new key goes to --key if a place is named there, else beside the release."""
        to = self.options.key if isinstance(self.options.key, Path) else None
        if to is not None and not self.key_is_given and not self.options.writes_nothing:
            key.save(to)
        self.landing.take_key(key, is_new=not self.key_is_given, is_kept=to is not None)

    def _ends_read(self) -> Mapping[str, Column]:
        """Where the table's numbers end. That is remembered, so that it is known again if it is called public."""
        ends = table_ends(self.schema, self.source.ends)
        if not self.options.leaves_no_mark:
            memory = ReadOff(self.ledger.path)
            memory.remember(ends.values(), shown=False)
            if self.options.agreed_schema() is None:  # the card shows what was just read
                memory.remember(self.schema.columns, shown=True)
        return ends

    def _in_the_way(self) -> list[str]:
        """What voids every claim and is known before anything is fitted."""
        strength = self.plan.strength
        found = [] if self.schema.target is None else [exact_target(self.schema.target.name)]
        if (mark := self.options.not_for_release) is not None:
            found.append(NOT_FOR_RELEASE[mark])
        found += strength.in_the_way
        if strength.on_release and not self.ledger.has_charged(strength.model):
            found.append(CHOSEN_ON_UNCHARGED)
        return found

    def _guarantee(self) -> Guarantee:
        guarantee = self.mechanism.guarantee()
        if self.response is not None:
            guarantee = guarantee.with_label(self.response.epsilon).hindered(learned_classes(self.schema))
        elif self.schema.label is not None and not self.options.unlabelled and guarantee.central is None:
            guarantee = guarantee.beside_exact_label()
        if self.schema.person is not None:
            cap = self.options.max_rows_per_person
            guarantee = guarantee.with_persons(cap or self.source.most_rows_of_a_person, learned=cap is None)
        if self.committed is not None:
            guarantee = replace(guarantee, assumptions=(*guarantee.assumptions, self.committed.assumption))
        return guarantee

    def _card(self, layout: Layout, guarantee: Guarantee, rows: int, earlier: dict[str, Any]) -> Card:
        of_this = of_ledger(self.ledger, self.table, self.landing.target, self.schema, self.options)
        return make_card(
            layout,
            guarantee,
            rows=self.mechanism.released(rows),
            label_keep=self.response.keep if self.response else 1.0,
            labelled=not self.options.unlabelled,
            earlier_releases=earlier | of_this,
            reproducible=self.options.not_for_release,
            chosen_by=self.plan.strength.chosen_by,
            auditable=None if self.committed is None else self.committed.on_card,
        )

    def _land(self, card: Card, layout: Layout, rows: int) -> None:
        """The rows, as the card states them, and what they were drawn from."""
        mechanism = self.mechanism
        if mechanism.made_up:
            laid = drawn(layout, self.streams, rows, self.progress)
        else:
            work = Work(layout, self.source, self.streams, self.response, self.landing, rows, self.progress)
            laid = with_target(self.engine.perturbed(work), self.table, self.schema.target)
        self.landing.take(card, laid, mechanism.model(), mechanism.counts())
        if card.guarantee["kind"] == CENTRAL_DP and not self.options.leaves_no_mark and mechanism.recipe_.model:
            self.ledger.keep_model(mechanism.recipe_.model)
        self.streams.destroy()

    def _told(self, card: Card, ends: Mapping[str, Column], remembered: Remembered | None) -> Sanitized:
        """What only the owner is told."""
        options, strength = self.options, self.plan.strength
        return Sanitized(
            card,
            None,
            {} if self.mechanism.made_up else dict(self.source.clipped),  # exact counts of the table stay untold
            self.schema.dropped,
            ({"method": strength.note} if strength.note else {}) | self.mechanism.notes(),
            self.search,
            remembered.known if remembered is not None and options.only_new else None,
            shared_ends(self.schema, ends),
            self.ledger.path if self.ledger.releases == 1 and not options.leaves_no_mark else None,
            options.signer,
        )


def plan_of(options: Options, table: Table, **about: Any) -> dict[str, Any]:
    """All that must be the same when a run goes on, under the words that a refusal uses."""
    marks = [FileMark.of(path.absolute()) for path in table.files]
    given = options.key if options.key is not None and options.key_is_given else None
    key = given if given is None or isinstance(given, Key) else Key.load(given)
    return {
        "files": [[str(mark.path), mark.size, mark.changed, mark.node] for mark in marks],
        "version of sfumato": __version__,
        "type of a column": [f"{one.name}: {one.type}" for one in table.arrow_schema],
        "--missing": list(table.missing),
        "--format": options.format,
        "--like-original": options.like_original,
        "--out-of-bounds": options.out_of_bounds,
        "--max-rows-per-person": options.max_rows_per_person,
        "--unlabelled": options.unlabelled,
        "--private-label": options.private_label,
        "--seed": options.seed,
        "--cohort": options.cohort,
        "--key": None if key is None else key.commitment(),
        **about,
    }


def settled(plan: Plan, table: Table) -> tuple[Schema, Plan]:
    """The schema with all that was asked for, and the plan where it follows from the table's values."""
    options = plan.options
    schema = schema_for(table, options.agreed_schema(), options.label, options.person, agreed=options.terms is not None)
    if options.target is not None:
        schema = schema.with_target(options.target)
    if options.columns and options.terms is not None:
        raise UsageError("The study settles how every column is blurred. Leave --column-param out.")
    schema = schema.with_noise(options.columns)
    if options.privacy_loss is None:
        return schema, plan
    from sfumato.release.privacy_loss import with_privacy_loss  # brings scipy.stats with it

    schema = with_privacy_loss(table, schema, plan.mechanism, options.privacy_loss)
    chosen_by = f"privacy loss {options.privacy_loss:g} of every number, from the data"
    return schema, replace(plan, strength=replace(plan.strength, chosen_by=chosen_by))


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
