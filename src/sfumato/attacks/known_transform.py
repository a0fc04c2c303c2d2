"""The adversary who got hold of the transform: reverse PCA, the pseudo-inverse of a projection."""

from __future__ import annotations

from types import MappingProxyType

from sfumato.accepted import Flag
from sfumato.attacks.base import Attack, Knowledge, Values
from sfumato.attacks.observation import into_domain, reversed_release


class KnownTransform(Attack):
    """The adversary learned the transform (the basis, the projection matrix) and turns it back.

    Noise is ignored: x = m + A^+ (z - c - A m) for a release z ~ A x + c, the least squares solution nearest to the
    column means m where these are known, else to the middle of the unit cube corrected by the release's own mean. For a
    release of s principal components this is the reverse PCA of [principal-laplace, 6.3], "No-Filtering"; for a random
    projection it is the pseudo-inverse of [principal-laplace, 6.1.3].

    `clip=False` leaves the guess as it comes out, as published; an adversary who knows the domain clips to it.

    Parameters
    ----------
    clip : bool, default=true
        Whether guesses are clipped to the domain; false as published.
    """

    name = "known-transform"
    published = MappingProxyType({"clip": False})
    reads_gaps = True
    knows = frozenset({"release", "transform"})
    helps = frozenset({"column_moments"})
    accepts = MappingProxyType({"clip": Flag()})

    def __init__(self, clip: bool = True) -> None:
        self.clip = clip

    def guess(self, known: Knowledge) -> Values:
        """Turn the transform back and clip to the domain."""
        X = reversed_release(known)
        return Values(into_domain(X) if self.clip else X)
