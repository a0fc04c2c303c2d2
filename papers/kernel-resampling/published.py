"""What the paper prints. Figs 3-7 are plots without numbers: only what the text says of them stands here."""

from __future__ import annotations

from sfumato.auditing.figures.kernel_resampling import CALLED, SETS, WORST_PHI

__all__ = ["CLASSIFIERS", "SETS", "TITLES", "WORST_PHI"]

CLASSIFIERS = tuple(CALLED)
TITLES = CALLED
