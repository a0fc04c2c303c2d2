"""Where a release goes: into a folder, block by block, or into memory, to be saved as the same folder later."""

from __future__ import annotations

import datetime
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa

from sfumato import __version__
from sfumato.channels import Channel, HidesMissing, Identity, Recipe, Sampled, Unstated
from sfumato.core.accepted import follows
from sfumato.core.array_types import Codes, Matrix
from sfumato.core.errors import InterruptedRunError, OutputError, UsageError
from sfumato.core.files import check_folder, explained, new_folder, sole_writer, sync_file, write_whole
from sfumato.guarantee import Card, Guarantee, Key, ThreatModel, space_of
from sfumato.guarantee.card import label_state
from sfumato.guarantee.guarantee import LABEL_CLASSES
from sfumato.ledger.memories import RowMemory
from sfumato.mechanisms import Mechanism
from sfumato.release.sanitize_options import Options
from sfumato.release.shuffle import DiskShuffle, MemoryShuffle, Shuffle
from sfumato.release.signature import COUNTS, SIGNATURE, SIGNED, Content, sign_release
from sfumato.release.source import in_order
from sfumato.release.unfinished import WORK, Unfinished, unfinished_of
from sfumato.table import Encoding, Schema, Table, open_table, table_writer, write_table
from sfumato.table.writers import Write

# How a release is written: which columns, in which units, and back into a matrix.


@dataclass(frozen=True)
class Layout:
    """Column-wise mechanisms keep names and raw units, mixing ones have c000...; the label comes last. With
    `like_original` the release is mapped back to the source's columns, rounded and clipped to their kinds:
    post-processing, which costs no privacy."""

    mechanism: Mechanism
    encoding: Encoding
    like_original: bool = False

    def __post_init__(self) -> None:
        mechanism, made = self.mechanism, self.mechanism.recipe_
        made.check_writable()
        if not self.like_original:
            return
        if mechanism.restore(np.zeros((1, made.width))) is None:
            raise UsageError(f"{mechanism.name} cannot be written like the original: its map is a secret key.")
        if made.left_out and not made.is_columnwise:
            raise UsageError(
                f"{mechanism.name} cannot be written like the original: it mixes columns and leaves cells out."
            )

    def table(self, Z: Matrix, y: Codes | None, *, overwrite: bool = False) -> pa.Table:
        """Release rows as a table; with `overwrite` in the memory of Z, as far as that goes."""
        made = self.mechanism.recipe_
        if self.like_original:
            restored = self.mechanism.restore(Z)
            assert restored is not None  # checked when the layout was made
            table = self.encoding.decode(restored, like_original=True)
        elif made.is_columnwise:
            table = self.encoding.decode(Z, like_original=made.rows == "nobody", overwrite=overwrite)
        else:
            gaps = bool(made.left_out)  # only then a NaN can be there, and is looked for
            columns = [pa.array(column, from_pandas=gaps) for column in np.ascontiguousarray(Z.T)]
            table = pa.table(columns, names=made.names())
        label = self.encoding.schema.label
        if label is not None and y is not None:
            table = table.append_column(label.name, self.encoding.decode_label(y))
        return table

    def columns(self) -> list[dict[str, Any]]:
        """The written columns, for the card."""
        if self.recipe().is_columnwise:
            columns = self.encoding.schema.private
            return [{"name": column.name, "kind": column.kind, "units": "source"} for column in columns]
        return [{"name": name, "kind": "numeric", "units": "encoded"} for name in self.recipe().names()]

    def recipe(self) -> Recipe:
        """How the written rows came about; what rounding and clipping make of noise has no stated law."""
        made = self.mechanism.recipe_
        if not self.like_original:
            return made
        channels: list[Channel] = [Unstated(group.width) for group in self.encoding.groups]
        if made.left_out:  # which columns are reported stays as it was, and so does whether "missing" is told
            channels = []
            for was, _ in made.of_columns():
                left: Channel = HidesMissing(Unstated(was.width - 1)) if was.hides_missing else Unstated(was.width)
                channels.append(Sampled(left, was.reported) if was.leaves_out else left)
        identity = Identity(self.encoding.width)
        return Recipe(self.encoding, identity, tuple(channels), made.rows, reports=made.reports)


LIKE_ORIGINAL = "like-original"


def today() -> str:
    """The date, and no finer: a time would help to link releases."""
    return datetime.datetime.now(datetime.UTC).date().isoformat()


RECOMPUTED = (
    "The auditor with the key {auditor} can recompute the noise of this release, and so can anybody who gets the seed: "
    "seed and release together are the table."
)
UNSTATED = {
    "earlier_releases": {"count": None, "total_epsilon_record": None},
    "reproducible": None,
    "chosen_by": "parameters",
    "auditable": None,
}
"""What a card says by default."""


def make_card(
    layout: Layout, guarantee: Guarantee, *, rows: int, label_keep: float = 1.0, labelled: bool = True, **stated: Any
) -> Card:
    """Every field is computed from what was fitted; nothing is typed in. `stated`: fields that no fit decides."""
    mechanism, encoding = layout.mechanism, layout.encoding
    label = encoding.schema.label if labelled else None
    target = encoding.schema.target
    made_up = mechanism.recipe_.rows == "nobody"
    state = label_state(None if label is None else label_keep, made_up)
    post_processing = LIKE_ORIGINAL if layout.like_original else None
    recipe = layout.recipe()
    transform = recipe.map.to_dict()
    used = mechanism.parameters_used()
    own = any(column.choices.chosen for column in encoding.schema.private)  # no paper lets columns choose their noise
    published = {"as_published": True} if follows(mechanism.published, used) and not own else {}
    travelling = tuple(column for column in encoding.schema.columns if column.role in ("private", "label", "target"))
    learned = [*mechanism.learned(), *(learned_classes(encoding.schema) if labelled else [])]
    auditable = [RECOMPUTED.format_map(told)] if (told := stated.get("auditable")) else []
    card = Card(
        mechanism={"name": mechanism.name, "parameters": used, **published},
        source_schema=Schema(travelling).to_dict(),
        release_schema={
            "columns": layout.columns(),
            "label": label and {"name": label.name, "classes": list(encoding.classes), "keep": label_keep},
            **({} if target is None else {"target": {"name": target.name}}),
        },
        space=space_of(encoding, transform, post_processing=post_processing),
        rows=rows,
        learned_from_data=list(dict.fromkeys(learned)),
        label=state,
        guarantee=guarantee.to_dict(),
        transform=transform,
        recipe=recipe.to_dict(),
        threat_model=ThreatModel.of(
            label=state,
            made_up=made_up,
            rows=f"{rows:,}",
            learned_bounds=bool(encoding.learned),
            mechanism=(*mechanism.not_protected, *auditable),
            target=None if target is None else target.name,
        ).to_dict(),
        post_processing=post_processing,
        papers=list(mechanism.papers),
        created=today(),
        versions={"sfumato": __version__, **{name: version(name) for name in ("numpy", "scipy")}},
        **{**UNSTATED, **stated},
    )
    return card.in_own_words()


def learned_classes(schema: Schema) -> list[str]:
    """The classes of a label are public in the papers; where they were learned, the card says so."""
    label = schema.label
    return [f"{LABEL_CLASSES} {label.name!r}"] if label is not None and label.source == "learned" else []


CARD_METADATA = b"sfumato.card"
"""Under this name a Parquet release carries its card."""
MODEL = "model.json"
"""What made-up rows were drawn from: to share, like the release."""
Laid = tuple[pa.Table, Codes | None]
"""Released rows as they are written, and which source row each came from (private)."""


@dataclass
class InFolder:
    """Where the rows of one release go: a folder that is written aside and will stand at `target`."""

    folder: Path
    target: Path
    format: str
    hold_rows: bool = False
    """Whether all rows fit into the memory."""
    unfinished: Unfinished | None = None
    """Where a run keeps what it needs to go on after it was killed, if it can."""
    signer: Path | None = None
    """File of the key that signs what lands here."""

    def shuffle(self, rows: int, width: int) -> Shuffle:
        """Something that puts all rows in random order."""
        if self.unfinished is not None and self.unfinished.begun:  # its buckets remember which blocks they hold
            return DiskShuffle(self.unfinished.work / "buckets", rows, width, lasting=True)
        return MemoryShuffle() if self.hold_rows else DiskShuffle(self.folder / ".buckets", rows, width)

    def take(
        self, card: Card, laid: Iterable[Laid], model: Mapping[str, Any] | None = None, counts: Codes | None = None
    ) -> None:
        """Keep the rows with their card. Beside them: what made-up rows were drawn from, and noisy counts that were
        measured under a plan."""
        content = Content() if self.signer is not None and self.format == "parquet" else None
        write_release(self.folder, self.format, card, laid, content)
        if model is not None:
            from sfumato.mechanisms.central.drawing import model_text  # a method of its own

            write_whole(self.folder / MODEL, model_text(model))
        if counts is not None:
            table = pa.table({"count": counts})
            write_table(table, self.folder / COUNTS, metadata={CARD_METADATA.decode(): card.to_json()})
        if self.signer is not None:
            sign_release(self.folder, self.folder / f"release.{self.format}", self.signer, content)

    def take_key(self, key: Key, *, is_new: bool, is_kept: bool) -> None:
        """Keep the key: one that `is_new` has no file yet, unless the owner named one, in which it `is_kept`."""
        if is_new and not is_kept:
            key.save(self.folder / "key.json")

    def remembered(self, memory: RowMemory, note: Mapping[str, Any]) -> None:
        """Tell the ledger's memory of rows where the release is."""
        name = f"release.{self.format}"
        memory.announce(self.folder / name, self.target / name, note)


@dataclass
class InMemory:
    """The same rows on an object: nothing of them is written until it is saved."""

    card: Card | None = None
    tables: list[pa.Table] = field(default_factory=list)
    sources: list[Codes] = field(default_factory=list)
    note: Path | None = None
    model: Mapping[str, Any] | None = None
    counts: Codes | None = None
    key: Key | None = None
    key_is_kept: bool = False
    target: Path | None = None
    unfinished: Unfinished | None = None

    def shuffle(self, rows: int, width: int) -> Shuffle:  # noqa: ARG002 - all of them fit
        return MemoryShuffle()

    def take(
        self, card: Card, laid: Iterable[Laid], model: Mapping[str, Any] | None = None, counts: Codes | None = None
    ) -> None:
        for table, source in laid:
            self.tables.append(table)
            if source is not None:
                self.sources.append(source)
        self.card, self.model, self.counts = card, model, counts

    def take_key(self, key: Key, *, is_new: bool, is_kept: bool) -> None:  # noqa: ARG002 - saved with the rows
        self.key, self.key_is_kept = key, is_kept

    def remembered(self, memory: RowMemory, note: Mapping[str, Any]) -> None:
        self.note = memory.keep(note)


Landing = InFolder | InMemory


@contextmanager
def release_folder(out: Path, options: Options, table: Table) -> Iterator[InFolder]:
    """The folder in which a run works, which becomes `out`; no other run writes there meanwhile. That of a streaming
    run can be gone on with. With `resume` what is finished stays there whenever the run stops; without, only if it had
    no time to clean up."""
    check_apart(out, table)
    check_resumable(options, table)
    check_folder(out, force=options.force)
    can, force = options.engine_can, options.force
    with sole_writer(out):
        if not can.resume:
            with new_folder(out, force=force) as folder:
                yield InFolder(folder, out, options.format, can.hold_table, signer=options.signer)
            return
        folder = unfinished_of(out)
        unfinished = Unfinished(folder / WORK)
        if folder.exists() and options.resume:
            unfinished.check_owner()
        elif folder.exists():  # what a killed run left goes only if the caller says so, or if nothing can be made of it
            if unfinished.begun and not force:
                raise OutputError(
                    f"An earlier run into {out} was killed, and its work lies in {folder}. Go on with it: the same "
                    "command with --resume. Or start again with --force."
                )
            with explained(folder):
                unfinished.destroy()
                shutil.rmtree(folder)
        try:
            with new_folder(out, force=force, aside=folder, keep=lambda: options.resume and unfinished.begun) as folder:
                yield InFolder(folder, out, options.format, unfinished=unfinished, signer=options.signer)
                for file in folder.iterdir():
                    sync_file(file)
                unfinished.finish()  # last, so that hardly a moment is left in which nobody can go on
        except (KeyboardInterrupt, OutputError) as error:
            if not folder.exists():
                raise
            kept = f"What is finished is kept in {folder}, readable by you alone: go on with the same command."
            if isinstance(error, OutputError):
                raise OutputError(f"{error} {kept}") from error
            raise InterruptedRunError(f"Interrupted. {kept}") from None


def check_resumable(options: Options, table: Table) -> None:
    """Refuse to resume what cannot be gone on with, before any work."""
    if not options.resume:
        return
    if not options.engine_can.resume:
        raise UsageError("--resume goes on with a run of --engine stream. Add that, or leave --resume out.")
    if options.only_new or options.search is not None:
        which = "--only-new" if options.only_new else "--search"
        raise UsageError(f"--resume cannot go on with a run with {which}. Leave out one of them.")
    if not table.files:
        raise UsageError("--resume needs a table of files, which can be recognised. Write it to a file first.")


def may_be_empty(recipe: Recipe) -> frozenset[str]:
    """Written columns whose schema has `missing`, or that not every row reports."""
    groups = recipe.encoding.groups if recipe.is_columnwise else ()
    return recipe.left_out | {group.column.name for group in groups if group.column.missing}


TRACE = pa.schema([pa.field("source", pa.int64(), nullable=False)])


def write_release(folder: Path, format: str, card: Card, laid: Iterable[Laid], content: Content | None = None) -> None:
    """release.parquet (or .csv) and card.json; where the source rows are known, trace.parquet for the owner alone.
    `content` takes in the rows as they are written."""
    recipe, columns = card.made_by(), card.release_schema["columns"]
    empty = may_be_empty(recipe)
    # Readers of sheets leave out rows without a cell, and of a CSV file with one column nothing is left of them.
    loses_rows = format in ("xlsx", "ods") or (format == "csv" and len(columns) == 1)
    alone = card.release_schema["label"] is card.target is None
    if loses_rows and alone and empty.issuperset(one["name"] for one in columns):
        raise UsageError(
            f"A row may come out without any cell, and in a .{format} file that is no row. Choose another format: "
            "--format parquet"
        )
    # A file that knows which of the written numbers every row has is written in half the time.
    numbers = [group.column.name for group in recipe.encoding.groups if not group.is_onehot]
    told = frozenset(numbers if recipe.is_columnwise else recipe.names()) - empty
    with ExitStack() as until:
        trace: Write | None = None

        def batches() -> Iterator[pa.RecordBatch]:
            nonlocal trace
            for table, source in laid:
                if source is not None:
                    trace = trace or until.enter_context(table_writer(folder / "trace.parquet", TRACE, private=True))
                    trace(pa.table([source], schema=TRACE))
                fields = [field.with_nullable(field.name not in told) for field in table.schema]
                yield from pa.Table.from_arrays(table.columns, schema=pa.schema(fields)).to_batches()

        written = batches() if content is None else in_order(batches(), content.add, threads=1)
        write_table(written, folder / f"release.{format}", metadata={CARD_METADATA.decode(): card.to_json()})
    card.save(folder / "card.json")


def pipe_release(folder: Path, format: str, stream: IO[bytes]) -> None:
    """The released rows as an Arrow stream with card and signature in its metadata, block by block. Only what stands is
    piped: a run that fails has written no byte."""
    table = open_table(folder / f"release.{format}")
    card = Card.load(folder).to_json()
    signed: dict[str | bytes, str | bytes]
    signed = {name: (folder / name).read_bytes() for name in (SIGNED, SIGNATURE) if (folder / name).is_file()}
    schema = table.arrow_schema.with_metadata({CARD_METADATA: card, **signed})
    with pa.ipc.new_stream(stream, schema) as writer:
        for block in table.blocks():
            writer.write_batch(block.replace_schema_metadata(schema.metadata))
    stream.flush()


def check_replaceable(out: Path, force: bool) -> None:
    """--force replaces an earlier release or an empty folder, never a folder of other things."""
    if force and out.is_dir() and any(out.iterdir()) and not (out / "card.json").is_file():
        raise OutputError(
            f"{out} contains something other than a release, and --force would remove it. Choose another folder."
        )


def check_apart(out: Path, table: Table) -> None:
    """A release inside its own input would be read as input by the next run; --force would remove what lies in it."""
    place = out.resolve()
    for folder in table.folders:
        if place.is_relative_to(folder.resolve()):
            raise OutputError(f"{out} lies inside {folder}, which is read as the table. Choose a folder beside it.")
    for file in table.files:
        if file.resolve().is_relative_to(place):
            raise OutputError(f"{out} holds the table itself ({file.name}). Choose another folder.")
