"""One pass over a source: read here, encode and work in the threads; or wherever the source has its rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol, TypeVar, runtime_checkable

from sfumato.release.engines.workers import in_order
from sfumato.release.source import Piece, Source, SourceBlock

Out = TypeVar("Out")


@runtime_checkable
class AddsUp(Protocol):
    """A source that goes through its rows itself, in other processes or on other machines."""

    def add_up(self, work: Callable[[SourceBlock], Out], add: Callable[[Out, Out], Out]) -> Out | None:
        """The sum of what `work` makes of every block."""


def each_block(source: Source, work: Callable[[SourceBlock], Out], after: int = 0) -> Iterator[Out]:
    """Yield what `work` makes of every encoded block of the source, in order; the first `after` are passed by."""

    def encode_and_work(piece: Piece | SourceBlock) -> tuple[SourceBlock, Out]:
        block = source.encode(piece)
        made = work(block)
        return (block if source.keep_in_memory else block.without_rows()), made

    clipped = source.clipped  # a pass that leaves blocks out cannot count anew
    pieces = (piece for piece in source.pieces() if piece.number >= after)
    for block, made in in_order(pieces, encode_and_work):
        source.note(block)
        yield made
    source.finish_pass()
    if after:
        source.clipped = clipped


def fold_blocks(
    source: Source,
    work: Callable[[SourceBlock], Out],
    add: Callable[[Out, Out], Out],
    seen: Callable[[Out], None] = lambda _: None,
) -> Out | None:
    """The sum of what `work` makes of every encoded block; None where there are no rows.

    `seen` is told of every summand, in order. A source whose rows lie elsewhere (`AddsUp`) sends `work` there and
    tells of the sum only; so does a pass that a killed run had finished (`source.kept`).
    """
    if isinstance(source, AddsUp):
        found = source.add_up(work, add)
        if found is not None:
            seen(found)
        return found
    if source.kept is not None and (saved := source.kept.saved_sum()) is not None:
        found, source.clipped, source.most_rows_of_a_person = saved
        seen(found)
        return found  # type: ignore[no-any-return]
    total: Out | None = None
    for made in each_block(source, work):
        total = made if total is None else add(total, made)
        seen(made)
    if source.kept is not None and total is not None:
        source.kept.save_sum((total, source.clipped, source.most_rows_of_a_person))
    return total
