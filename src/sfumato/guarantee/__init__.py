"""What a release proves and says about itself: guarantee, threat model, card, key, ledger."""

from sfumato.guarantee.affine import Epsilons, affine_epsilons, component_ranges
from sfumato.guarantee.all_releases import AllReleases
from sfumato.guarantee.card import RANDOMIZED_RESPONSE, Card
from sfumato.guarantee.guarantee import EMPIRICAL, LOCAL_DP, Guarantee
from sfumato.guarantee.key import Key
from sfumato.guarantee.ledger import Ledger
from sfumato.guarantee.posterior import amplification, epsilon_for_posterior, posterior_bound
from sfumato.guarantee.space import space_of
from sfumato.guarantee.threat import ThreatModel

__all__ = [
    "EMPIRICAL",
    "LOCAL_DP",
    "RANDOMIZED_RESPONSE",
    "AllReleases",
    "Card",
    "Epsilons",
    "Guarantee",
    "Key",
    "Ledger",
    "ThreatModel",
    "affine_epsilons",
    "amplification",
    "component_ranges",
    "epsilon_for_posterior",
    "posterior_bound",
    "space_of",
]
