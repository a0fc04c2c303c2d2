"""Theorem 4 for any law: does additive noise of it bound what somebody can learn, by how much, or why not?"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sfumato.core.array_types import Floats
from sfumato.core.errors import UsageError
from sfumato.guarantee.cost import posterior_bound
from sfumato.noise.amplification import bounded_amplification, open_density
from sfumato.noise.stated_law import is_a_density, stated_law

BELIEFS = (0.01, 0.1, 0.5)
"""Beliefs that the bound is told for."""


@dataclass(frozen=True)
class LawCheck:
    """What Theorem 4 [principal-laplace] says of a noise law.

    verdict: "bounded", "unbounded" or "undecided". epsilon: the largest log-ratio of likelihoods for values that
    differ by at most `width` (None where there is no bound, or none that a double holds). exact: whether it is a closed
    form; else it was found numerically, which proves neither verdict. conditions: one sentence each. reason: why there
    is no bound.
    """

    law: str
    width: float
    verdict: str
    epsilon: float | None
    exact: bool
    conditions: tuple[str, ...]
    reason: str | None = None

    @property
    def amplification(self) -> float | None:
        """exp(epsilon), the largest likelihood ratio; None where there is none, or a double cannot hold it."""
        return math.exp(self.epsilon) if self.epsilon is not None and self.epsilon < 700 else None

    def posterior(self, prior: float) -> float | None:
        """The most that a belief of `prior` can become [Eq. 2]; None where nothing bounds it."""
        return None if self.epsilon is None else posterior_bound(prior, self.epsilon)

    def in_words(self) -> str:
        """One sentence, or two."""
        between = f"for values that differ by at most {self.width:g}"
        if self.verdict == "bounded" and self.epsilon is None:
            return f"Bounded amplification {between}; its value is not known, see the conditions."
        if self.verdict == "bounded":
            size = "" if self.amplification is None else f" (amplification {self.amplification:.6g})"
            how = "in closed form" if self.exact else "numerically: a finding, not a proof"
            return f"Bounded: epsilon {self.epsilon:.6g}{size} {between}, {how}."
        if self.verdict == "unbounded":
            return f"Unbounded: no worst-case guarantee rests on this noise. {self.reason}"
        return f"Undecided. {self.reason}"

    def to_dict(self) -> dict[str, Any]:
        beliefs = {f"{prior:g}": self.posterior(prior) for prior in BELIEFS}
        return {**vars(self), "amplification": self.amplification, "beliefs": beliefs}


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
    if isinstance(width, bool) or not isinstance(width, int | float) or not 0 < width < math.inf:
        raise UsageError(f"The width must be a positive number, the range of what is hidden. Got {width!r} instead.")
    words, density = type(law).__name__, None
    if isinstance(law, str):
        stated = stated_law(law, parameters, log=log)
        words, law, density = stated.words, stated.law, stated.log_density
    elif parameters or log:
        raise UsageError("Parameters and log are for laws by name and for expressions. Leave them out.")
    if density is not None:
        _check_density(density, width)
    found = bounded_amplification(law, width, logpdf=density)
    reason = None
    if found.verdict != "bounded":
        wanted = "fails" if found.verdict == "unbounded" else "cannot be told"
        reason = next((line for line in found.evidence if wanted in line), found.evidence[0])
    return LawCheck(words, float(width), found.verdict, found.log_value, found.exact, found.evidence, reason)


def _check_density(density: Callable[[Floats], Floats], width: float) -> None:
    opened = open_density(None, density, width)
    if opened is None or not is_a_density(density, opened.centre, max(opened.scale, width)):
        raise UsageError(
            "The expression is no density: it is negative or not a number in some place, or its integral is not "
            "finite. A density falls faster than 1/abs(x) on both sides: exp(-abs(x) / 0.3) and 1 / (1 + x^2) do."
        )
