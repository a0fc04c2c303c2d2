"""The engine of one machine: what differs from a cluster is who has the rows, and who shuffles them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from sfumato.channels import RandomizedResponse
from sfumato.core.progress import Progress
from sfumato.noise import Streams
from sfumato.release.engines.fit import BlockCounts
from sfumato.release.engines.release import release_blocks
from sfumato.release.engines.workers import in_order
from sfumato.release.source import Source
from sfumato.release.write_release import Laid, Landing, Layout


@dataclass(frozen=True)
class Work:
    """A fitted release whose rows are still to be perturbed: what an engine is given."""

    layout: Layout
    source: Source
    streams: Streams
    response: RandomizedResponse | None
    landing: Landing
    rows: int
    counts: BlockCounts
    progress: Progress

    @property
    def released(self) -> int:
        """How many rows it will have."""
        return self.layout.mechanism.released(self.rows)


class Engine(Protocol):
    """Who goes through a table."""

    def source(self, *given: Any, **words: Any) -> Source:
        """The private table as encoded blocks."""

    def streams(self, streams: Streams) -> Streams:
        """The run's streams, wherever they are needed."""

    def laid(self, work: Work) -> Iterator[Laid]:
        """Perturbed rows in random order, as they are written."""


class Here:
    """Threads of this process."""

    def source(self, *given: Any, **words: Any) -> Source:
        return Source(*given, **words)

    def streams(self, streams: Streams) -> Streams:
        return streams

    def laid(self, work: Work) -> Iterator[Laid]:
        layout, mechanism = work.layout, work.layout.mechanism
        shuffle = work.landing.shuffle(work.released, mechanism.recipe_.width)
        blocks = release_blocks(
            mechanism, work.source, work.streams, work.response, shuffle, work.rows, work.progress, work.counts
        )
        return in_order(blocks, lambda block: (layout.table(block.X, block.y, overwrite=True), block.source), threads=1)
