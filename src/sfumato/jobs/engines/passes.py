"""One pass over a source: read here, encode and work in the threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from sfumato.jobs.engines.workers import in_order
from sfumato.jobs.source import Piece, Source, SourceBlock

Out = TypeVar("Out")


def each_block(source: Source, work: Callable[[SourceBlock], Out]) -> Iterator[Out]:
    """Yield what `work` makes of every encoded block of the source, in order."""

    def encode_and_work(piece: Piece | SourceBlock) -> tuple[SourceBlock, Out]:
        block = source.encode(piece)
        made = work(block)
        return (block if source.keep_in_memory else block.without_rows()), made

    for block, made in in_order(source.pieces(), encode_and_work):
        source.note(block)
        yield made
    source.finish_pass()
