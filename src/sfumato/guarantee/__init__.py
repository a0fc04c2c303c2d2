"""What a release proves and says about itself: guarantee, threat model, card, key."""

from sfumato.guarantee.all_releases import AllReleases
from sfumato.guarantee.card import Card, space_of
from sfumato.guarantee.cost import amplification, epsilon_for_posterior, posterior_bound
from sfumato.guarantee.guarantee import CENTRAL_DP, EMPIRICAL, LOCAL_DP, Guarantee, ThreatModel, proved
from sfumato.guarantee.maps import Key

__all__ = [
    "CENTRAL_DP",
    "EMPIRICAL",
    "LOCAL_DP",
    "AllReleases",
    "Card",
    "Guarantee",
    "Key",
    "ThreatModel",
    "amplification",
    "epsilon_for_posterior",
    "posterior_bound",
    "proved",
    "space_of",
]
