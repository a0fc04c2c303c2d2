"""Perturb every block with a stream of its own, then give all rows back in random order."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from sfumato.channels import RandomizedResponse
from sfumato.core.progress import Progress
from sfumato.mechanisms import Block, Mechanism, ModelDrawing, RowDrawing, StagedRelease
from sfumato.mechanisms.stage_guide import OutcomeCounts, ReleasedRows
from sfumato.noise import Streams
from sfumato.release.engines.passes import each_block, fold_blocks
from sfumato.release.engines.shuffle import Shuffle
from sfumato.release.source import Source, SourceBlock, block_rows_for

STAGE = b"stage"


def play_rounds(mechanism: StagedRelease, source: Source, streams: Streams, progress: Progress) -> None:
    """All rounds but the last: what rows of a stage release guides the next one. The last is the release itself.

    The generators of a block are the same in every round, so what a guide sees is what is released in the end.
    """
    parameters, finished = parameters_of(mechanism), 0

    def outcomes(block: SourceBlock) -> tuple[int, OutcomeCounts]:
        rng = streams.generator(block.number, streams.content(block.X.T, block.y), parameters)
        numbered = streams.generator(block.number, b"", STAGE)
        released = mechanism.release_stage(block.X, numbered, rng, finished - 1)
        return len(block.X), mechanism.outcomes(ReleasedRows(released))

    counts: OutcomeCounts | None = None
    for finished in range(1, mechanism.rounds):
        done = 0

        def seen(part: tuple[int, OutcomeCounts]) -> None:
            nonlocal done
            done += part[0]
            progress("Guiding", done, source.rows)

        found = fold_blocks(source, outcomes, _both, seen)
        assert found is not None  # a source without rows is refused
        counts = found[1] if counts is None else counts + found[1]
        mechanism.take_guide(finished, counts)


def _both(one: tuple[int, OutcomeCounts], other: tuple[int, OutcomeCounts]) -> tuple[int, OutcomeCounts]:
    return one[0] + other[0], one[1] + other[1]


def parameters_of(mechanism: Mechanism) -> bytes:
    """What a mechanism was given, for its streams."""
    return json.dumps([mechanism.name, mechanism.parameters_used()], sort_keys=True, default=str).encode()


def perturber(
    mechanism: Mechanism,
    streams: Streams,
    label_response: RandomizedResponse | None,
    block_counts: Mapping[int, Mapping[int, int]],
) -> Callable[[SourceBlock], Block]:
    """What releases one block.

    A mechanism that draws rows is told for every block how many to draw from it, given the `block_counts` of all.

    The stream of a block depends on the run key, its number, its content and the parameters: a retry gives the same
    noise for the same data, and never the same noise for different data.
    """
    parameters = parameters_of(mechanism)
    shares: dict[int, dict[int, int]] = {}
    if isinstance(mechanism, RowDrawing):
        numbers = sorted(block_counts)
        drawn = mechanism.shares([block_counts[number] for number in numbers], streams.generator(0, b"", b"draws"))
        shares = dict(zip(numbers, drawn, strict=True))

    def perturb(block: SourceBlock) -> Block:
        content = streams.content(block.X.T, block.y)  # columns lie together: hashed without a copy
        rng = streams.generator(block.number, content, parameters)
        if isinstance(mechanism, RowDrawing):
            released = mechanism.draw(block.X, block.y, shares[block.number], rng)
        elif isinstance(mechanism, StagedRelease):  # the stage follows from the row's number, never from its content
            Z = mechanism.release_stage(block.X, streams.generator(block.number, b"", STAGE), rng)
            released = Block(Z, block.y, np.arange(len(Z)))
        else:
            released = mechanism.perturb(block.X, block.y, rng)
        mechanism.recipe_.check_gaps(released.X)
        codes = released.y
        if label_response is not None and codes is not None:
            codes = label_response.draw_codes(codes, streams.generator(block.number, content, parameters + b"label"))
        return Block(released.X, codes, block.rows[released.source])

    return perturb


def release_blocks(
    mechanism: Mechanism,
    source: Source,
    streams: Streams,
    label_response: RandomizedResponse | None,
    shuffle: Shuffle,
    rows: int,
    progress: Progress,
    block_counts: Mapping[int, Mapping[int, int]] | None = None,
) -> Iterator[Block]:
    """Released blocks in random order. Blocks that the shuffle has already are not perturbed again."""
    perturb = perturber(mechanism, streams, label_response, block_counts or {})

    def work(block: SourceBlock) -> tuple[int, Any]:
        released = perturb(block)
        return len(block.X), shuffle.deal(released, streams.generator(block.number, b"", b"bucket"))

    done = min(rows, shuffle.finished * block_rows_for(source.encoding.width))
    for count, dealt in each_block(source, work, after=shuffle.finished):
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
