"""From epsilon to what an adversary can come to believe, and back.

With amplification gamma = e^epsilon, the posterior of any property with prior rho lies between
``rho / (rho + gamma (1 - rho))`` and ``gamma rho / (1 + (gamma - 1) rho)``
[principal-laplace, Theorem 3 and Eq. 2; Evfimievski, Gehrke & Srikant 2003].

The most that any belief gains, over all priors, is tanh(epsilon / 4): the bound minus the prior is largest at the prior
1 / (1 + e^(epsilon / 2)).

Of made-up rows the privacy loss has no bound that always holds. Under rho (one record replaced) it passes
rho + 2 sqrt(rho ln(1 / delta)) with probability at most delta [Bun & Steinke 2016, Proposition 1.3], so beliefs are
bounded by that in place of epsilon, except with probability delta.

Somebody who is shown two people, and told that one of them is in the table, is right in (1 + t) / 2 of all pairs at
most, where t is the total variation between the releases of both tables: tanh(epsilon / 2) under a pure epsilon, and
under rho at most sqrt(rho / 2) (Pinsker: the divergence of order 1 is at most rho) and sqrt(1 - e^-rho) (Bretagnolle &
Huber). If both people are in it and rows are blurred one by one, exchanging them changes two records: 2 epsilon.
"""

from __future__ import annotations

import math

from sfumato.core.errors import UsageError

PRIOR = 0.1
"""One chance in ten: a belief that people have met."""
RARE, PRACTICALLY_UNPROTECTED = 0.001, 0.5
"""A belief that few would hold, and what it must not come to."""


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


def practically_unprotected(loss: float) -> bool:
    """Whether a rare belief can become likelier than not.

    >>> practically_unprotected(6.0), practically_unprotected(8.0)
    (False, True)
    """
    return posterior_bound(RARE, loss) > PRACTICALLY_UNPROTECTED


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
            "no release can make an attacker forget what they believed before."
        )
    return math.log(posterior) - math.log1p(-posterior) - math.log(prior) + math.log1p(-prior)


def most_gained(loss: float) -> float:
    """What any belief gains at most, whatever it was before.

    >>> round(most_gained(4 * math.atanh(0.2)), 9)
    0.2
    """
    return math.tanh(loss / 4.0)


def loss_for_gain(gain: float) -> float:
    """The inverse of `most_gained`."""
    _check_probability("largest gain of a belief", gain)
    return 4.0 * math.atanh(gain)


def loss_of_rho(rho: float, delta: float) -> float:
    """What the privacy loss exceeds with probability at most `delta`, under this rho."""
    return rho + 2.0 * math.sqrt(rho * math.log(1.0 / delta)) if rho else 0.0


def rho_of_loss(loss: float, delta: float) -> float:
    """The inverse of `loss_of_rho`.

    >>> round(loss_of_rho(rho_of_loss(0.8, 1e-6), 1e-6), 12)
    0.8
    """
    rare = math.log(1.0 / delta)
    return (math.sqrt(rare + loss) - math.sqrt(rare)) ** 2


def pairs_told_apart(epsilon: float = 0.0, rho: float = 0.0) -> float:
    """Which of two people a record is: right at most in this share of pairs.

    >>> round(pairs_told_apart(epsilon=1.0), 4), round(pairs_told_apart(rho=0.02), 4)
    (0.7311, 0.55)
    """
    whole = rho + epsilon**2 / 2.0
    bounds = [math.sqrt(whole / 2.0), math.sqrt(-math.expm1(-whole))]
    if rho == 0.0:
        bounds.append(math.tanh(epsilon / 2.0))
    return (1.0 + min(1.0, *bounds)) / 2.0


def _check_probability(name: str, value: float) -> None:
    if not 0 < value < 1:
        raise UsageError(f"The {name} must be a probability strictly between 0 and 1. Got {value:g} instead.")
