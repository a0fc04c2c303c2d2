"""Table 1 of the paper, as printed. Its Figs 3-8 are plots without numbers, and nothing was read off them."""

from __future__ import annotations

from sfumato.auditing.figures.random_rotation import TABLE_1

__all__ = ["TABLE_1"]
