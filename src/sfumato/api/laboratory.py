"""law, invariance, canary: what the laboratory asks of a law, of learners, of tree-resampling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.core.progress import Progress, silent
from sfumato.table import Schema

if TYPE_CHECKING:  # each brings its own share of scientific libraries, and is needed by one of these alone
    from sfumato.auditing.canary import CanaryAudit
    from sfumato.auditing.invariance import Invariance
    from sfumato.auditing.law import LawCheck

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
    from sfumato.auditing.law import check_law

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
    from sfumato.auditing.invariance import measure_invariance

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
    from sfumato.auditing.canary import canary as audit_with_canaries

    found = schema if isinstance(schema, Schema) else Schema.load(schema)
    return audit_with_canaries(table, found, epsilon=epsilon, delta=delta, fits=fits, seed=seed, progress=progress)
