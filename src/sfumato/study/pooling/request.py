"""What the coordinator is asked to train."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sfumato.guarantee import Card
from sfumato.study.pooling.gather import Limits
from sfumato.study.pooling.pushed import Pushed


@dataclass(frozen=True)
class Request:
    """What to train on, and to test with where there is anything; the rows of `test_table` are plain and public.

    `classifier` is a name, or a name with parameters ("svm kernel=sigmoid").
    No site is more than `largest_share` of the rows trained on. `agreeing`: only sites that agree with most others.
    """

    releases: Sequence[Pushed]
    classifier: str
    test_table: Path | None = None
    test_releases: Sequence[Pushed] = ()
    limits: Limits = field(default_factory=Limits)
    largest_share: float | None = None
    agreeing: bool = False
    made_from: Sequence[tuple[Card, Pushed]] = ()
    """Of rows that were drawn from added counts: what was added."""
    notes: tuple[str, ...] = ()
