"""Figures of the paper, as printed. Figs 1, 3 and 4 are plots without numbers, and nothing was read off them."""

from __future__ import annotations

PRIVACY_LOSS = 0.330
"""P(X|Z) of Table 1 and Fig. 4, which the paper gets from factors uniform on [1, 3]."""
FACTORS = (1.0, 3.0)
TABLE_1 = {"Mul + PQP": 0.1174, "Add + PQP": 0.0957, "Add + EM": 0.1208}
"""Information loss, mean of 500 runs."""
RUNS = 500
BINS = 75
COUNTIES = 3195
"""Rows of HUD's file; the census file that stands in for it has 3,140."""
