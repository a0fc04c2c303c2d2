"""Perturb every block with a stream of its own, then give all rows back in random order."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from sfumato.channels import RandomizedResponse
from sfumato.jobs.engines.passes import each_block
from sfumato.jobs.engines.shuffle import Shuffle
from sfumato.jobs.progress import Progress
from sfumato.jobs.source import Source, SourceBlock, block_rows_for
from sfumato.mechanisms import Block, Mechanism, ModelDrawing, RowDrawing
from sfumato.noise import Streams, content_hash


def release_blocks(
    mechanism: Mechanism,
    source: Source,
    streams: Streams,
    label_response: RandomizedResponse | None,
    shuffle: Shuffle,
    rows: int,
    progress: Progress,
    block_counts: Sequence[dict[int, int]] = (),
) -> Iterator[Block]:
    """Released blocks in random order.

    A mechanism that draws rows is told for every block how many to draw from it, given the `block_counts` of all.

    The stream of a block depends on the run key, its number, its content and the parameters: a retry gives the same
    noise for the same data, and never the same noise for different data.
    """
    parameters = json.dumps([mechanism.name, mechanism.parameters_used()], sort_keys=True, default=str).encode()

    shares = (
        mechanism.shares(block_counts, streams.generator(0, b"", b"draws")) if isinstance(mechanism, RowDrawing) else []
    )

    def perturb(block: SourceBlock) -> tuple[int, Any]:
        content = content_hash(block.X.T, block.y)  # columns lie together: hashed without a copy
        rng = streams.generator(block.number, content, parameters)
        if isinstance(mechanism, RowDrawing):
            released = mechanism.draw(block.X, block.y, shares[block.number], rng)
        else:
            released = mechanism.perturb(block.X, block.y, rng)
        mechanism.recipe_.check_gaps(released.X)
        codes = released.y
        if label_response is not None and codes is not None:
            codes = label_response.draw_codes(codes, streams.generator(block.number, content, parameters + b"label"))
        released = Block(released.X, codes, block.rows[released.source])
        return len(block.X), shuffle.deal(released, streams.generator(block.number, b"", b"bucket"))

    done = 0
    for count, dealt in each_block(source, perturb):
        shuffle.add(dealt)
        done += count
        progress("Perturbing", done, rows)
    written, rows = 0, mechanism.released(rows)
    for shuffled in shuffle.blocks(streams.generator(0, b"", b"order")):
        yield shuffled
        written += len(shuffled.X)
        progress("Writing", written, rows)


def draw_blocks(mechanism: ModelDrawing, streams: Streams, rows: int, progress: Progress) -> Iterator[Block]:
    """Rows of a fitted model: the source is not read again, and independent draws have no order to hide."""
    wanted, size, done = mechanism.released(rows), block_rows_for(mechanism.recipe_.width), 0
    while done < wanted:
        count = min(size, wanted - done)
        yield mechanism.draw_rows(count, streams.generator(done // size, b"", b"drawn rows"))
        done += count
        progress("Writing", done, wanted)
