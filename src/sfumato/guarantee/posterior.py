"""From epsilon to what an adversary can come to believe, and back.

With amplification gamma = e^epsilon, the posterior of any property with prior rho lies between
``rho / (rho + gamma (1 - rho))`` and ``gamma rho / (1 + (gamma - 1) rho)``
[principal-laplace, Theorem 3 and Eq. 2; Evfimievski, Gehrke & Srikant 2003].
"""

from __future__ import annotations

import math

from sfumato.errors import UsageError

PRACTICALLY_UNPROTECTED = 0.5


def amplification(epsilon: float) -> float:
    """gamma = e^epsilon; smaller is safer."""
    return math.exp(epsilon) if epsilon < 700 else math.inf


def posterior_bound(prior: float, epsilon: float, *, downward: bool = False) -> float:
    """The most (or, downward, the least) that a prior belief can become; closer to the prior is safer.

    Works with logits, since e^epsilon overflows long before the bound reaches one.

    >>> round(posterior_bound(0.001, 1 / 0.3), 4)
    0.0273
    """
    _check_probability("prior", prior)
    if not epsilon >= 0:
        raise UsageError(f"The epsilon of a posterior bound must be a number of at least 0. Got {epsilon!r} instead.")
    logit = math.log(prior) - math.log1p(-prior)
    logit += -epsilon if downward else epsilon
    return 1.0 / (1.0 + math.exp(-logit)) if logit > -700 else 0.0


def epsilon_for_posterior(prior: float, posterior: float) -> float:
    """The epsilon at which `prior` can just become `posterior`: the inverse of `posterior_bound`.

    >>> round(epsilon_for_posterior(0.001, posterior_bound(0.001, 2.5)), 9)
    2.5
    """
    _check_probability("prior", prior)
    _check_probability("posterior", posterior)
    if posterior <= prior:
        raise UsageError(
            f"The largest posterior ({posterior:g}) must exceed the prior ({prior:g}): "
            "no release can make an adversary forget what they believed before."
        )
    return math.log(posterior) - math.log1p(-posterior) - math.log(prior) + math.log1p(-prior)


def _check_probability(name: str, value: float) -> None:
    if not 0 < value < 1:
        raise UsageError(f"The {name} must be a probability strictly between 0 and 1. Got {value:g} instead.")
