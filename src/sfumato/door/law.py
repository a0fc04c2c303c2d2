"""law: does noise of a law bound what somebody can learn?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sfumato.jobs.law import LawCheck, check_law


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
