"""Perturb every block with a stream of its own, then give all rows back in random order."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from sfumato.jobs.engines.passes import each_block
from sfumato.jobs.engines.shuffle import Shuffle
from sfumato.jobs.progress import Progress
from sfumato.jobs.source import Source, SourceBlock
from sfumato.mechanisms import Block, Mechanism, Response
from sfumato.noise import Streams, content_hash


def release_blocks(
    mechanism: Mechanism,
    source: Source,
    streams: Streams,
    label_response: Response | None,
    shuffle: Shuffle,
    rows: int,
    progress: Progress,
) -> Iterator[Block]:
    """Released blocks in random order.

    The stream of a block depends on the run key, its number, its content and the parameters: a retry gives the same
    noise for the same data, and never the same noise for different data.
    """
    parameters = json.dumps([mechanism.name, mechanism.parameters_used()], sort_keys=True, default=str).encode()

    def perturb(block: SourceBlock) -> tuple[int, Any]:
        content = content_hash(block.X.T, block.y)  # columns lie together: hashed without a copy
        released = mechanism.perturb(block.X, block.y, streams.generator(block.number, content, parameters))
        codes = released.y
        if label_response is not None and codes is not None:
            codes = label_response.draw(codes, streams.generator(block.number, content, parameters + b"label"))
        released = Block(released.X, codes, block.rows[released.source])
        return len(block.X), shuffle.deal(released, streams.generator(block.number, b"", b"bucket"))

    done = 0
    for count, dealt in each_block(source, perturb):
        shuffle.add(dealt)
        done += count
        progress("Perturbing", done, rows)
    written = 0
    for shuffled in shuffle.blocks(streams.generator(0, b"", b"order")):
        yield shuffled
        written += len(shuffled.X)
        progress("Writing", written, rows)
