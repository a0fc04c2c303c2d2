"""The distribution of a column behind the noise of all that sites pushed: the paper's central server recovers f_X.

Every release is a part with the noise of its own card; one estimate serves all [density-reconstruction, Section 2].
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from sfumato.core.array_types import Codes
from sfumato.core.errors import TableError
from sfumato.core.progress import Progress, silent
from sfumato.guarantee import Card
from sfumato.learn.reconstruct import as_numbers
from sfumato.learn.releases import check_one_space
from sfumato.reconstruction.density import Density
from sfumato.reconstruction.evidence import FEWEST
from sfumato.reconstruction.reconstruct import Described, describe, make_method, reconstruct
from sfumato.reconstruction.shares import Shares
from sfumato.study.pooling.gather import Pushed, chosen_rows, embedded_card, picked_blocks, rows_of_each
from sfumato.table import open_table

_ALIKE = ("kind", "low", "high", "whole", "missing_keep", "grid", "categories", "keep", "left_out")


def reconstruct_pool(
    releases: Sequence[Pushed],
    column: str,
    *,
    method: str = "parzen-program",
    largest_share: float | None = None,
    progress: Progress = silent,
    seed: int = 0,
    **options: Any,
) -> tuple[Density | Shares, list[dict[str, Any]]]:
    """The distribution, and what it was made from: site, hash and rows of every release.

    No site is more than `largest_share` of the values that count: of larger ones a random sample is taken.
    """
    if not releases:
        raise TableError("There is nothing to reconstruct from yet: no site has pushed a release.")
    cards = [embedded_card(one) for one in releases]
    check_one_space(cards, [one.name for one in releases])
    rng = np.random.default_rng(seed)
    parts: dict[str, list[_Part]] = {}
    wanted, _ = rows_of_each([one.site for one in releases], [card.rows for card in cards], largest_share)
    for pushed, card, rows in zip(releases, cards, wanted, strict=True):
        one = describe(card, column)
        parts.setdefault(_same_noise(one), []).append(_Part(pushed, card, one, chosen_rows(card.rows, rows, rng)))
    # noise that only a few values have tells nothing of a distribution, and must not stop the others
    kept = [same for same in parts.values() if sum(len(one.chosen) for one in same) >= FEWEST]
    if not kept:
        raise TableError(f"The releases hold fewer than {FEWEST} values: too few to tell a distribution.")
    values = []
    for number, same in enumerate(kept):
        progress("reading", number, len(kept) + 1)
        values.append(chain.from_iterable(one.values() for one in same))
    progress("reconstructing", len(kept), len(kept) + 1)
    found = reconstruct(
        values, [same[0].card for same in kept], column=column, method=make_method(method), seed=seed, **options
    )
    return found, [one.told() for same in kept for one in same]


@dataclass(frozen=True)
class _Part:
    """One release: what its card says of the column, and the rows of it that count."""

    pushed: Pushed
    card: Card
    one: Described
    chosen: Codes

    def values(self) -> Iterator[Any]:
        """The chosen values, block by block."""
        for block in picked_blocks(open_table(self.pushed.path, columns=[self.one.name]), self.chosen):
            cells = block.column(0)
            yield cells.to_pylist() if self.one.is_categorical else as_numbers(cells, self.one)

    def told(self) -> dict[str, Any]:
        return {"sha256": self.pushed.sha256, "site": self.pushed.site, "rows": len(self.chosen)}


def _same_noise(one: Described) -> str:
    """Equal for releases whose values have the same law, and so count together."""
    noise = None if one.noise is None else one.noise.to_dict()
    return json.dumps([noise, *(str(getattr(one, name)) for name in _ALIKE)], sort_keys=True)
