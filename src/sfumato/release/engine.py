"""Perturb every block with a stream of its own, then give all rows back in random order; or draw them from a model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, ClassVar

from sfumato.channels import RandomizedResponse
from sfumato.core.progress import Progress
from sfumato.mechanisms import Block, Mechanism
from sfumato.noise import Streams
from sfumato.release.sanitize_options import Options
from sfumato.release.shuffle import Shuffle
from sfumato.release.source import Source, SourceBlock, block_rows_for, in_order
from sfumato.release.write_release import Laid, Landing, Layout
from sfumato.table import Table, open_table


@dataclass(frozen=True)
class Work:
    """A fitted release whose rows are still to be made: what an engine is given. `rows`: how many the table has."""

    layout: Layout
    source: Source
    streams: Streams
    response: RandomizedResponse | None
    landing: Landing
    rows: int
    progress: Progress

    @property
    def released(self) -> int:
        """How many rows it will have."""
        return self.layout.mechanism.released(self.rows)


class Engine:
    """Who goes through a table: threads of this process, where nobody else is asked for."""

    source: ClassVar[type[Source]] = Source
    """The private table as encoded blocks."""

    def opened(self, table: Any, options: Options) -> AbstractContextManager[Table]:
        """The table as this engine sees it."""
        return nullcontext(open_table(options.table_for_comparison(table)))

    def streams(self, streams: Streams) -> Streams:
        """The run's streams, wherever they are needed."""
        return streams

    def perturbed(self, work: Work) -> Iterator[Laid]:
        """Perturbed rows in random order, as they are written."""
        layout, shuffle = work.layout, work.landing.shuffle(work.released, work.layout.mechanism.recipe_.width)
        blocks = release_blocks(work, shuffle)
        return in_order(blocks, lambda block: (layout.table(block.X, block.y, overwrite=True), block.source), threads=1)


def perturber(
    mechanism: Mechanism, streams: Streams, label_response: RandomizedResponse | None
) -> Callable[[SourceBlock], Block]:
    """What releases one block. The stream of a block depends on the run key, its number, its content and the
    parameters: a retry gives the same noise for the same data, and never the same noise for different data."""
    name = mechanism.stream_name()

    def perturb(block: SourceBlock) -> Block:
        content = streams.content(block.X.T, block.y)  # columns lie together: hashed without a copy
        released = mechanism.release_block(block, streams.generator(block.number, content, name), streams)
        mechanism.recipe_.check_gaps(released.X)
        codes = released.y
        if label_response is not None and codes is not None:
            codes = label_response.draw_codes(codes, streams.generator(block.number, content, name + b"label"))
        return Block(released.X, codes, block.rows[released.source])

    return perturb


def release_blocks(work: Work, shuffle: Shuffle) -> Iterator[Block]:
    """Released blocks in random order. Blocks that the shuffle has already are not perturbed again."""
    source, streams, progress = work.source, work.streams, work.progress
    perturb = perturber(work.layout.mechanism, streams, work.response)

    def deal(block: SourceBlock) -> tuple[int, Any]:
        released = perturb(block)
        return len(block.X), shuffle.deal(released, streams.generator(block.number, b"", b"bucket"))

    done = min(work.rows, shuffle.finished * block_rows_for(source.encoding.width))
    for count, dealt in source.each(deal, after=shuffle.finished):
        shuffle.add(dealt)
        done += count
        progress("Perturbing", done, work.rows)
    written, rows = 0, work.released
    for shuffled in shuffle.blocks(streams.generator(0, b"", b"order")):
        yield shuffled
        written += len(shuffled.X)
        progress("Writing", written, rows)


def drawn(layout: Layout, streams: Streams, rows: int, progress: Progress) -> Iterator[Laid]:
    """Rows of a fitted model: the source is not read again, and independent draws have no order to hide."""
    mechanism = layout.mechanism
    wanted, size = mechanism.released(rows), block_rows_for(mechanism.recipe_.width)

    def blocks() -> Iterator[Block]:
        for start in range(0, wanted, size):
            count = min(size, wanted - start)
            yield mechanism.draw_rows(count, streams.generator(start // size, b"", b"drawn rows"))
            progress("Writing", start + count, wanted)

    return in_order(blocks(), lambda block: (layout.table(block.X, block.y), None), threads=1)
