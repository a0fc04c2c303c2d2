"""figure_filtering, figure_condensation: two of the papers' experiments on a table of one's own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sfumato.auditing.figures import SCALES, SIZES, AgainstCondensation, Filtering, against_condensation, filtering
from sfumato.table import Schema


def figure_filtering(
    table: Any,
    *,
    label: str | None = None,
    schema: Schema | Path | str | None = None,
    scales: Sequence[float] = SCALES,
    components: float = 0.5,
    max_rows: int = 5000,
    seed: int = 0,
) -> list[Filtering]:
    """Average privacy with and without PCA, before and after filtering [principal-laplace, Fig. 8].

    Nothing is released: the figures are the owner's, who looks at the originals.

    Parameters
    ----------
    table : DataFrame, Arrow table or path
        A private table.
    label : str, optional
        The label, which is left out.
    schema : Schema or path, optional
        Bounds and categories; learned from the table by default.
    scales : sequence of float, default (0.1, 0.2, 0.3)
        Scales b of the noise, above 0.
    components : float, default 0.5
        Share of the principal components that is kept, above 0 to 1.
    max_rows : int, default 5000
        A random sample of so many rows is used.
    seed : int, default 0
        Of the sample and of the noise.

    Returns
    -------
    list of Filtering
        One for each scale: `no_filtering`, `pca_filtering`, `no_pca_filtering` and what to hold them against.
    """
    given = Schema.load(Path(schema)) if isinstance(schema, str | Path) else schema
    return filtering(
        table, label=label, schema=given, scales=scales, components=components, max_rows=max_rows, seed=seed
    )


def figure_condensation(
    table: Any,
    *,
    label: str | None = None,
    schema: Schema | Path | str | None = None,
    sizes: Sequence[int] = SIZES,
    rotations: int = 50,
    max_rows: int = 5000,
    seed: int = 0,
) -> AgainstCondensation:
    """Condensation by group size beside a searched rotation [random-rotation, 5.3, Figs 5-8].

    Nothing is released: the figures are the owner's, who looks at the originals.

    Parameters
    ----------
    table : DataFrame, Arrow table or path
        A private table.
    label : str, optional
        The label; rows are condensed within its classes.
    schema : Schema or path, optional
        Bounds and categories; learned from the table by default.
    sizes : sequence of int, default (2, 5, 10, 20, 50, 100)
        Group sizes, at least 2; those above the largest class are left out (`left_out`), and a class of fewer rows
        is one group.
    rotations : int, default 50
        Rotations that the search tries, at least 1.
    max_rows : int, default 5000
        A random sample of so many rows is used.
    seed : int, default 0
        Of sample, draws and rotations.

    Returns
    -------
    AgainstCondensation
        `condensed` by group size (with the rows that are in smaller groups), `published`, `measured` and `mean`
        as (minimum, average) standard deviations.
    """
    given = Schema.load(Path(schema)) if isinstance(schema, str | Path) else schema
    return against_condensation(
        table, label=label, schema=given, sizes=sizes, rotations=rotations, max_rows=max_rows, seed=seed
    )
