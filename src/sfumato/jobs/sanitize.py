"""Table in, release out: release.parquet, card.json and, private, trace.parquet and key.json."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sfumato.channels import RandomizedResponse
from sfumato.errors import OutputError, PrivacyLeakWarning, SchemaError, TableError, UsageError
from sfumato.files import new_folder
from sfumato.guarantee import Card, Guarantee, Key, Ledger
from sfumato.guarantee.ledger import Earlier
from sfumato.guarantee.recompute import SEEDED
from sfumato.jobs.engines import DiskShuffle, MemoryShuffle, Shuffle, fit_on_source, in_order, release_blocks
from sfumato.jobs.layout import Layout
from sfumato.jobs.make_card import learned_classes, make_card, today
from sfumato.jobs.only_new import remember
from sfumato.jobs.progress import Progress, silent
from sfumato.jobs.release import CARD_METADATA
from sfumato.jobs.source import Source
from sfumato.mechanisms import Block, Mechanism, RandomRotation, make_mechanism
from sfumato.noise import Streams
from sfumato.table import Encoding, Schema, SqlQuery, open_table, table_writer, write_table
from sfumato.wording import counted

if TYPE_CHECKING:  # brings scikit-learn with it, which only a search needs
    from sfumato.jobs.search_result import SearchResult

FORMATS = ("parquet", "csv")
ENGINES = ("memory", "stream")
OUT_OF_BOUNDS = ("clip", "refuse")


@dataclass(frozen=True)
class Options:
    """How to sanitize; the same words as on the command line."""

    mechanism: str = "principal-laplace"
    parameters: Mapping[str, Any] = field(default_factory=dict)
    label: str | None = None
    schema: Path | Schema | None = None
    engine: str = "memory"
    key: Path | None = None
    format: str = "parquet"
    like_original: bool = False
    out_of_bounds: str = "clip"
    max_rows_per_person: int | None = None
    unlabelled: bool = False
    private_label: bool = False
    label_epsilon: float = 1.0
    search: int | None = None
    search_goal: str = "minimum"
    seed: int | None = None
    ledger: Path | None = None
    only_new: bool = False
    force: bool = False
    chosen_by: str = "parameters"


@dataclass(frozen=True, repr=False)
class Sanitized:
    """The card, and what only the owner is told."""

    card: Card
    folder: Path
    clipped: dict[str, int]
    dropped: tuple[str, ...]
    notes: Mapping[str, Any] = field(default_factory=dict)
    search: SearchResult | None = None
    known: int | None = None
    """With `only_new`: rows that were left out because they were released before."""

    def __repr__(self) -> str:
        return f"<Sanitized into {self.folder}: {self.card!r}>"


def sanitize(table: Any, out: Path | str, options: Options | None = None, progress: Progress = silent) -> Sanitized:
    """Perturb `table` and write the release, its card and, where there is one, its key into the folder `out`."""
    options = options or Options()
    if options.engine not in ENGINES:
        raise UsageError(f"There is no engine {options.engine!r}. Choose one of: {', '.join(ENGINES)}.")
    if options.format not in FORMATS:
        raise UsageError(f"There is no format {options.format!r}. Choose one of: {', '.join(FORMATS)}.")
    cap = options.max_rows_per_person
    if cap is not None and cap < 1:
        raise UsageError(f"--max-rows-per-person must be at least 1. Got {cap} instead.")
    mechanism = make_mechanism(options.mechanism, dict(options.parameters))
    if mechanism.whole_table and options.engine == "stream":
        raise UsageError(f"{mechanism.name} needs the whole table at once. Use --engine memory.")
    _check_search(mechanism, options)
    if options.out_of_bounds not in OUT_OF_BOUNDS:
        raise UsageError(
            f"--out-of-bounds must be {' or '.join(OUT_OF_BOUNDS)}. Got {options.out_of_bounds!r} instead."
        )
    _check_replaceable(Path(out), options.force)
    if options.only_new:
        table = _check_only_new(table, options)
    with ExitStack() as run, ExitStack() as if_it_fails:
        with new_folder(out, force=options.force) as folder:
            done = _sanitize_into(folder, Path(out), table, mechanism, options, progress, run, if_it_fails)
        if_it_fails.pop_all()  # the release stands: nothing is taken back
    return done


def _sanitize_into(
    folder: Path,
    out: Path,
    table: Any,
    mechanism: Mechanism,
    options: Options,
    progress: Progress,
    run: ExitStack,
    if_it_fails: ExitStack,
) -> Sanitized:
    opened = open_table(table)
    schema = schema_for(opened, options.schema, options.label)
    encoding = Encoding(schema)
    if not encoding.groups:
        raise SchemaError("No column is private, so there is nothing to release. Check the roles in the schema.")
    if options.max_rows_per_person is not None and schema.person is None:
        raise UsageError("--max-rows-per-person needs a column that says who is who. Give one the role person.")
    _check_label(schema, opened.names, options)
    response = _label_response(encoding, options)
    source = Source(
        opened,
        encoding,
        options.out_of_bounds,
        options.max_rows_per_person,
        keep_in_memory=options.engine == "memory",
        labelled=not options.unlabelled,
        block_rows=(1 << 62) if mechanism.whole_table else None,
    )
    ledger = Ledger(options.ledger)
    remembered = remember(ledger, source, folder, only_new=options.only_new, until=run, progress=progress)
    key, found = _key(mechanism, source, options, progress)
    fingerprint = ledger.fingerprint(encoding.width)
    block_counts: list[dict[int, int]] = []
    rows = fit_on_source(mechanism, source, key, fingerprint, progress, block_counts)
    _recognise(mechanism, ledger)
    released = mechanism.released(rows)
    layout = Layout(mechanism, encoding, options.like_original)
    guarantee = _guarantee(mechanism, encoding, source, response, options)
    epsilon = guarantee.proved if math.isfinite(guarantee.proved) else None
    note = {
        "fingerprint": fingerprint.hexdigest(),
        "mechanism": mechanism.name,
        "epsilon": epsilon,
        "when": today(),
        "exact_label": guarantee.exact_label,
    }
    earlier = _count(ledger, note, options, if_it_fails)
    card = make_card(
        layout,
        guarantee,
        rows=released,
        label_keep=response.keep if response else 1.0,
        earlier=earlier.to_dict(guarantee.proved),
        labelled=not options.unlabelled,
        reproducible=options.seed is not None,
        chosen_by=options.chosen_by,
    )
    streams = Streams() if options.seed is None else Streams.seeded(options.seed)
    try:
        shuffle = _shuffle(options, folder, released, mechanism)
        blocks = release_blocks(mechanism, source, streams, response, shuffle, rows, progress, block_counts)
        _write(folder, layout, blocks, card, options.format)
    finally:
        streams.destroy()
    card.save(folder / "card.json")
    if remembered is not None and options.seed is None:
        release = f"release.{options.format}"
        remembered.memory.announce(folder / release, out / release, note)
    if key is not None and not (options.key and options.key.exists()):  # last: a run that fails leaves no key behind
        key.save(options.key or folder / "key.json")
    known = remembered.known if remembered is not None and options.only_new else None
    return Sanitized(card, out, dict(source.clipped), schema.dropped, mechanism.notes(), found, known)


def _recognise(mechanism: Mechanism, ledger: Ledger) -> None:
    """Remember what was learned, also in a trial run: it stands on a card. What was remembered is not public, whatever
    reason is given with it."""
    directions = mechanism.directions()
    if directions is None:
        return
    if mechanism.learns_directions:
        ledger.remember_learned(directions)
    elif ledger.has_learned(directions):
        mechanism.borrow()


def _count(ledger: Ledger, note: dict[str, Any], options: Options, if_it_fails: ExitStack) -> Earlier:
    """Earlier releases of the same rows; this one is noted in the same moment, before it becomes visible."""
    if options.seed is not None:
        return ledger.earlier(note["fingerprint"])
    earlier = ledger.record(**note)
    if_it_fails.callback(ledger.strike, **note)
    return earlier


def schema_for(table: Any, given: Path | Schema | None, label: str | None) -> Schema:
    """The declared schema, or one inferred from the table (with a `PrivacyLeakWarning`); `label` names the label."""
    if given is None:
        return Schema.infer(table, label=label)
    schema = given if isinstance(given, Schema) else Schema.load(given)
    if label is not None and label not in schema:
        raise SchemaError(f"The schema has no column {label!r} to be the label. It has: {', '.join(schema.names)}.")
    if label is not None and (schema.label is None or schema.label.name != label):
        raise SchemaError(f"In the schema the label is not {label!r}. Give that column `role: label`, or drop --label.")
    if schema.learned:
        warnings.warn(
            f"The schema's bounds or categories of {counted(len(schema.learned), 'column')} were learned from data "
            "(source: learned). No formal guarantee can rest on them until their owner declares them public.",
            PrivacyLeakWarning,
            stacklevel=2,
        )
    return schema


def _check_label(schema: Schema, names: Sequence[str], options: Options) -> None:
    """Rows that are to be classified have no label, and are released into the space of rows that have one."""
    label = schema.label
    if options.unlabelled and options.private_label:
        raise UsageError("--unlabelled releases no label, so there is none to be private. Leave out one of the two.")
    if label is not None and label.name not in names and not options.unlabelled:
        raise TableError(
            f"The table has no column {label.name!r}, which the schema names as the label. "
            "If these are rows to be classified, add --unlabelled."
        )


def _label_response(encoding: Encoding, options: Options) -> RandomizedResponse | None:
    if not options.private_label:
        return None
    if encoding.schema.label is None:
        raise UsageError("--private-label needs a label. Name it with --label.")
    if not options.label_epsilon > 0:
        raise UsageError(f"--label-epsilon must be positive. Got {options.label_epsilon} instead.")
    return RandomizedResponse.of_epsilon(options.label_epsilon, len(encoding.classes))


def _check_replaceable(out: Path, force: bool) -> None:
    """--force replaces an earlier release or an empty folder, never a folder of other things."""
    if force and out.is_dir() and any(out.iterdir()) and not (out / "card.json").is_file():
        raise OutputError(f"{out} holds other things than a release, and --force would remove them. Choose another.")


def _check_only_new(table: Any, options: Options) -> Any:
    """Rows can be compared with earlier ones only under the same schema, and only if they stay what they are."""
    if options.schema is None:
        raise UsageError("--only-new compares rows under one schema, month after month. Give it with --schema.")
    if not isinstance(table, SqlQuery):
        return table
    if options.engine == "stream":
        raise UsageError(
            "--only-new reads the table several times, and a query may answer differently each time. "
            "Use --engine memory, or write the answer to a file first."
        )
    return open_table(table).read()


def _check_search(mechanism: Mechanism, options: Options) -> None:
    if options.search is None:
        return
    if not isinstance(mechanism, RandomRotation):
        raise UsageError(f"--search looks for a rotation, and {mechanism.name} has none. Leave --search out.")
    if options.search < 1:
        raise UsageError(f"--search must be the number of rotations to try, at least 1. Got {options.search} instead.")
    if options.key is not None and options.key.exists():
        raise UsageError(
            f"--search draws a new key, and {options.key} is one already. Leave out one of --search, --key."
        )


def _key(
    mechanism: Mechanism, source: Source, options: Options, progress: Progress
) -> tuple[Key | None, SearchResult | None]:
    """The given key, or a new one: it goes to --key if nothing is there yet, else into the release's folder."""
    path = options.key
    if not mechanism.needs_key:
        if path is not None:
            raise UsageError(f"{mechanism.name} has no key. Leave --key out.")
        return None, None
    if path is not None and path.exists():
        return Key.load(path), None
    if options.search is not None and isinstance(mechanism, RandomRotation):
        from sfumato.jobs.rotation_search import search_source  # brings scikit-learn with it

        return search_source(source, mechanism, options.search, options.search_goal, progress)
    return mechanism.draw_key(source.encoding), None


def _guarantee(
    mechanism: Mechanism, encoding: Encoding, source: Source, response: RandomizedResponse | None, options: Options
) -> Guarantee:
    guarantee = mechanism.guarantee()
    if response is not None:
        guarantee = guarantee.with_label(response.epsilon).hindered(learned_classes(encoding.schema))
    elif encoding.schema.label is not None and not options.unlabelled:
        guarantee = guarantee.beside_exact_label()
    if encoding.schema.person is not None:
        cap = options.max_rows_per_person
        guarantee = guarantee.with_persons(cap or source.most_rows_of_a_person, learned=cap is None)
    if options.seed is not None:
        guarantee = guarantee.hindered([SEEDED])
    return guarantee


def _shuffle(options: Options, folder: Path, rows: int, mechanism: Mechanism) -> Shuffle:
    if options.engine == "memory":
        return MemoryShuffle()
    return DiskShuffle(folder / ".buckets", rows, mechanism.recipe_.width)


def _write(folder: Path, layout: Layout, blocks: Iterator[Block], card: Card, format: str) -> None:
    """Write the release and, as a private file, which source row each released row came from."""

    def lay_out(block: Block) -> tuple[pa.Table, pa.Table]:
        return layout.table(block.X, block.y), pa.table({"source": block.source})

    with table_writer(folder / "trace.parquet", pa.schema({"source": pa.int64()}), private=True) as trace:

        def batches() -> Iterator[pa.RecordBatch]:
            for table, source in in_order(blocks, lay_out, threads=1):
                trace.write(source)
                yield from table.to_batches()

        write_table(batches(), folder / f"release.{format}", metadata={CARD_METADATA.decode(): card.to_json()})
