"""trade_off: what privacy costs, for the owner of a release."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from sfumato.core.progress import Progress, silent
from sfumato.learn.trade_off import LEVELS, TradeOff, trade_off_of
from sfumato.release.release import Release
from sfumato.study.rehearse_sites import AtSites, rehearsal_picture, rehearse_sites
from sfumato.table import Schema
from sfumato.table.persons import as_frame, kind_of

# rehearse: deal one's own table to sites before anybody is invited.


class Rehearsal:
    """What sharing would cost and hide, for each number of sites.

    Attributes
    ----------
    found : list
        One entry for each number of sites: errors, phi, density gap, source hits and membership.
    """

    def __init__(self, found: list[AtSites], kind: str) -> None:
        self.found, self._kind = found, kind

    def __repr__(self) -> str:
        phis = ", ".join(f"{one.sites}: {one.phi:+.3f}" for one in self.found)
        return f"<Rehearsal, phi by sites: {phis}>"

    @property
    def table(self) -> Any:
        """One row for each number of sites; a frame of the kind of the table."""
        return as_frame(pa.Table.from_pylist([one.to_dict() for one in self.found]), self._kind)

    def plot(self) -> str:
        """Errors and exposure against the number of sites, as an SVG picture."""
        return rehearsal_picture(self.found)


def rehearse(
    table: Any,
    sites: Sequence[int] = (1, 2, 4, 8),
    *,
    label: str | None = None,
    schema: Schema | Path | str | None = None,
    mechanism: str = "kernel-resampling",
    parameters: Mapping[str, Any] | None = None,
    classifier: str = "knn",
    repeats: int = 10,
    seed: int = 0,
    progress: Progress = silent,
) -> Rehearsal:
    """Deal a table to L sites, let each perturb its rows, and measure loss and exposure against L.

    Nothing is released, written or counted in a ledger. The figures are for the owner of the table: they were measured
    on its rows.

    Parameters
    ----------
    table : DataFrame, Arrow table or path
        Rows with their label. A quarter of them is held apart as test rows.
    sites : sequence of int, default (1, 2, 4, 8)
        Numbers of sites to try, each at least 1.
    label : str, optional
        The column to predict; or a `schema` that has one.
    schema : Schema or path, optional
        Bounds and categories; learned from the table by default.
    mechanism : str, default "kernel-resampling"
        One that keeps the table's columns.
    parameters : mapping, default {}
        Of the mechanism, for example `{"bandwidth": "scaled"}`.
    classifier : str, default "knn"
        One of those that `sfumato list classifiers` lists, with parameters where wanted.
    repeats : int, default 10
        Random splits, at least 1.
    seed : int, default 0
        Of splits, dealing and noise.
    progress : callable, optional
        Called as `progress(step, done, total)`.

    Returns
    -------
    Rehearsal
        `rehearsal.table` has one row for each number of sites.

    Examples
    --------
    >>> import sfumato as sf
    >>> people = {"age": [20 + i % 60 for i in range(240)], "ill": ["no", "no", "yes"] * 80}
    >>> sf.rehearse(people, (1, 2), label="ill", repeats=1).table["sites"].tolist()
    [1, 2]
    """
    read = Schema.load(Path(schema)) if isinstance(schema, str | Path) else schema
    found = rehearse_sites(
        table,
        tuple(sites),
        label=label,
        schema=read,
        mechanism=mechanism,
        parameters=parameters,
        classifier=classifier,
        repeats=repeats,
        seed=seed,
        progress=progress,
    )
    return Rehearsal(found, kind_of(table))


def trade_off(
    release: Release | Path | str,
    column: str,
    original: Any,
    *,
    levels: Sequence[float] = LEVELS,
    runs: int = 5,
    bins: int = 75,
    seed: int = 0,
    published: bool = False,
    rounds: int | None = None,
) -> TradeOff:
    """Information loss against privacy loss of one column [density-reconstruction, Fig. 3]; for the owner only.

    Parameters
    ----------
    release : Release or path
        What `sanitize` returned, or its folder.
    column : str
        A column of numbers.
    original : DataFrame, Arrow table or path
        The table that the release was made from. What is shown comes from its private values: keep it.
    levels : sequence of float, default (0.1, 0.2, 0.33, 0.5, 0.7, 0.85)
        Privacy losses (1 - 2^-I) at which noise is tried.
    runs : int, default 5
        How often the values are perturbed and reconstructed at each.
    bins : int, default 75
        Cells of the density.
    seed : int, default 0
        Seed of the noise that is tried.
    published : bool, default False
        The paper's own programme: no penalty and the rectangle rule. Expectation-maximization is then shown only with
        its `rounds`, since the paper does not say where it stopped.
    rounds : int, optional
        Rounds of expectation-maximization, in place of our stopping rule.

    Returns
    -------
    TradeOff
        `table()`, `summary()` and `plot()` (SVG); `mark` is where the release itself stands.
    """
    opened = release if isinstance(release, Release) else Release.public(release)
    return trade_off_of(
        opened,
        column,
        original,
        levels=levels,
        runs=runs,
        bins=bins,
        seed=seed,
        published=published,
        rounds=rounds,
    )
