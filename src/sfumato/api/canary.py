"""canary: does tree-resampling tell no more than it claims?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sfumato.auditing.canary import CanaryAudit
from sfumato.auditing.canary import canary as audit_with_canaries
from sfumato.auditing.figures import SCALES, SIZES, AgainstCondensation, Filtering, against_condensation, filtering
from sfumato.auditing.invariance import Invariance, measure_invariance
from sfumato.auditing.law import LawCheck, check_law
from sfumato.core.progress import Progress, silent
from sfumato.table import Schema

# law: does noise of a law bound what somebody can learn?


def law(law: Any, *, width: float = 1.0, parameters: Mapping[str, Any] | None = None, log: bool = False) -> LawCheck:
    """Say whether additive noise of a law has bounded amplification, with the bound, or why there is none.

    Theorem 4 of the paper principal-laplace, with the condition that is missing there.

    Parameters
    ----------
    law : str, Law, frozen distribution of scipy.stats, or callable
        A law by name ("laplace"), a distribution of scipy.stats by name ("dweibull"), a density as an expression in x
        ("exp(-abs(x) / 0.3)", a constant factor may be missing), or a vectorised density function.
    width : float, default 1.0
        How far two values can lie apart, above 0.
    parameters : mapping, default {}
        Of a law by name: {"scale": 0.25, "df": 3}.
    log : bool, default False
        The expression is the logarithm of a density.

    Returns
    -------
    LawCheck
        `verdict` ("bounded", "unbounded" or "undecided"), `epsilon`, `amplification`, `reason`, `conditions`,
        `posterior(prior)` and `in_words()`.

    Examples
    --------
    >>> import sfumato as sf
    >>> sf.law("laplace", parameters={"scale": 0.25}).epsilon
    4.0
    >>> sf.law("exp(-x^2)").verdict
    'unbounded'
    """
    return check_law(law, width, parameters, log=log)


# invariance: which learners answer the same after a rotation of a table.


def invariance(
    table: Any,
    *,
    label: str | None = None,
    target: str | None = None,
    schema: Schema | Path | str | None = None,
    learners: Sequence[str] | None = None,
    rotations: int = 5,
    max_rows: int = 1000,
    seed: int = 0,
    progress: Progress = silent,
) -> Invariance:
    """Say which learners answer the same after a rotation of this table, and why [random-rotation, Definition 1].

    Nothing is released or written.

    Parameters
    ----------
    table : DataFrame, Arrow table or path
        The table to rotate.
    label : str, optional
        The column of classes to predict.
    target : str, optional
        Instead of `label`: a column of numbers, for regressions.
    schema : Schema or path, optional
        Bounds and categories; learned from the table by default.
    learners : sequence of str, optional
        Classifiers, with parameters where wanted ("svm kernel=sigmoid scaled=false"); with a `target`, regressions.
    rotations : int, default 5
        Rotations that are tried, at least 1.
    max_rows : int, default 1000
        A random sample of so many rows is used, at least 20.
    seed : int, default 0
        Of sample, split and rotations.
    progress : callable, optional
        Called as `progress(step, done, total)`.

    Returns
    -------
    Invariance
        `found` has for every learner the least share of equal answers, about zero and about random centres, the errors
        before and after, and what theory says; `to_dict()` gives plain JSON.

    Examples
    --------
    >>> import sfumato as sf
    >>> people = {"age": list(range(20, 80)), "bmi": [20 + i % 13 for i in range(60)], "ill": ["no", "yes"] * 30}
    >>> sf.invariance(people, label="ill", learners=["kernel-smoother width=0.5"], rotations=1).found[0].measured
    'any centre'
    """
    given = Schema.load(Path(schema)) if isinstance(schema, str | Path) else schema
    return measure_invariance(
        table,
        label=label,
        target=target,
        schema=given,
        learners=learners,
        rotations=rotations,
        max_rows=max_rows,
        seed=seed,
        progress=progress,
    )


# figure_filtering, figure_condensation: two of the papers' experiments on a table of one's own.


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


def canary(
    table: Any,
    *,
    schema: Schema | Path | str,
    epsilon: float = 1.0,
    delta: float = 1e-6,
    fits: int = 200,
    seed: int | None = None,
    progress: Progress = silent,
) -> CanaryAudit:
    """Fit `tree-resampling` many times with and without planted records, and measure how well one tells the two apart.

    The claim must hold for every table, so a public or an invented one will do. Nothing is released and the ledger is
    not charged. If the table is private, so is what comes out.

    Parameters
    ----------
    table : DataFrame, Arrow table, dict of columns, path or SqlQuery
        Rows to plant records among.
    schema : Schema or path
        With public bounds, categories and classes, as `sanitize` needs them.
    epsilon : float, default 1.0
        The claim to be tried, in (0, 100].
    delta : float, default 1e-06
        Goes with it, above 0.
    fits : int, default 200
        Fits with, and as many without; from 20 to 100,000. A part's interval is about 12 / sqrt(fits) wide.
    seed : int, optional
        Repeatable noise.
    progress : callable, optional
        Called as `progress(step, done, total)`.

    Returns
    -------
    CanaryAudit
        `parts` (claimed and measured mu with an interval), `above` (True: more is told than is claimed), `in_words()`.

    Examples
    --------
    >>> import sfumato as sf
    >>> known = {"source": "public", "reason": "the admission form"}
    >>> schema = sf.Schema((sf.Column("age", "integer", low=0, high=120, **known),))
    >>> people = {"age": [34, 61, 47, 29, 52] * 20}
    >>> sf.canary(people, schema=schema, epsilon=1, fits=50, seed=1).above
    False
    """
    found = schema if isinstance(schema, Schema) else Schema.load(schema)
    return audit_with_canaries(table, found, epsilon=epsilon, delta=delta, fits=fits, seed=seed, progress=progress)
