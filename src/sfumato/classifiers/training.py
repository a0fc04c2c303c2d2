"""Train any classifier on one or several releases, with what their cards say about noise and labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.classifiers.distortion import NoiseSummary
from sfumato.classifiers.label_noise import LabelNoiseCorrection
from sfumato.classifiers.radius_vote import RadiusVote
from sfumato.errors import TableError
from sfumato.guarantee import Card
from sfumato.mechanisms import Mechanism
from sfumato.noise import Law

Matrix = NDArray[np.float64]
Codes = NDArray[np.int64]


@dataclass(frozen=True)
class Part:
    """Rows of one release with their noise: a pooled release is several parts, each with its own."""

    Z: Matrix
    y: Codes
    noise: NoiseSummary
    label_keep: float = 1.0


def noise_summary(laws: Sequence[Law | None], variances: Sequence[float] | None) -> NoiseSummary:
    """Moments of the noise, and variances of kept and dropped components where they are known.

    `variances` are those of all components, kept ones first, as a learned basis states them.
    """
    kept = len(laws)
    known = None if variances is None else np.asarray(variances, dtype=np.float64)
    return NoiseSummary(
        noise_variance=np.array([law.variance if law else 0.0 for law in laws]),
        noise_fourth_moment=np.array([law.fourth_moment if law else 0.0 for law in laws]),
        retained_variances=None if known is None else known[:kept],
        neglected_variances=None if known is None else known[kept:],
    )


def noise_from_card(card: Card) -> NoiseSummary:
    """The radius of `RadiusVote` needs nothing but this: it is computed from the card alone."""
    return noise_summary(card.laws(), card.transform.get("variances"))


def noise_from_mechanism(mechanism: Mechanism) -> NoiseSummary:
    """The same before a card is written."""
    return noise_summary(mechanism.laws(), mechanism.transform().get("variances"))


def fit_on_parts(classifier: Any, parts: Sequence[Part]) -> Any:
    """Fit on the pooled rows; randomized labels are corrected for, and `RadiusVote` is told each part's noise."""
    Z = np.concatenate([part.Z for part in parts])
    y = np.concatenate([part.y for part in parts])
    if len(np.unique(y)) < 2:
        raise TableError("All rows have the same label: there is nothing to learn. At least two classes are needed.")
    extra: dict[str, Any] = {}
    if isinstance(classifier, RadiusVote):
        part_of = np.repeat(np.arange(len(parts)), [len(part.Z) for part in parts])
        extra = {"noise": [part.noise for part in parts], "part": part_of}
    # Rows of all parts have the same classes, so their mixture is kept with the average probability.
    keep = float(np.average([part.label_keep for part in parts], weights=[len(part.Z) for part in parts]))
    if keep < 1.0:
        classifier = LabelNoiseCorrection(classifier, keep=keep)
    return classifier.fit(Z, y, **extra)
