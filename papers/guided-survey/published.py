"""What the paper prints in words; its Figs 3 to 5 are plots without numbers, and nothing was read off them."""

from __future__ import annotations

from sfumato.auditing.figures.guided_survey import DISCLOSURE

__all__ = ["DISCLOSURE", "FUNCTIONS", "K_AFTER_50", "LEVELS", "ORIGINAL", "PUBLIC", "REACHED_AT"]

ORIGINAL = 90.34
"""Votes, naive Bayes on the original data, accuracy in %."""
REACHED_AT = (85.99, 9.56)
"""Accuracy in % and disclosure in % of one of the nine classifiers of Fig. 4 (its level is not printed)."""
LEVELS = tuple(range(1, 10))
"""Fig. 4 has nine levels; k = 1 to 9 here."""
FUNCTIONS = (1, 2, 3, 4, 5)
K_AFTER_50 = 2
"""Section 6: k* after 50 tuples at mu = 15%."""
PUBLIC = {"fundamentalists": 0.17, "pragmatists": 0.56, "marginally concerned": 0.27}
"""Section 2.2."""
