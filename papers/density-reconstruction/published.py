"""Figures of the paper, as printed. Figs 1, 3 and 4 are plots without numbers, and nothing was read off them."""

from __future__ import annotations

from sfumato.auditing.figures.density_reconstruction import BINS, FACTORS, PRIVACY_LOSS, TABLE_1

__all__ = ["BINS", "COUNTIES", "FACTORS", "PRIVACY_LOSS", "RUNS", "TABLE_1"]

RUNS = 500
COUNTIES = 3195
"""Rows of HUD's file; the census file that stands in for it has 3,140."""
