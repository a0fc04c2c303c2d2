"""Randomized response: keep a category with a known probability, else report another one at random [Warner 1965].

Keeping with probability p and spreading 1 - p evenly over the k - 1 others has likelihood ratio
``p (k - 1) / (1 - p)``, so ``p = e^eps / (e^eps + k - 1)``. Probabilities are integers over 2^64 and compared with
random words, so the stated epsilon is that of the program, not of a formula it approximates.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.guarantee import RANDOMIZED_RESPONSE
from sfumato.noise import keep_threshold, randomized_response, response_epsilon
from sfumato.table import Group

Codes = NDArray[np.int64]
Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class Response:
    """Randomized response over `categories` categories; one category needs none."""

    categories: int
    epsilon_wanted: float

    @property
    def threshold(self) -> int:
        return keep_threshold(self.epsilon_wanted, self.categories)

    @property
    def keep(self) -> float:
        """Probability that the true category is reported."""
        return 1.0 if self.categories < 2 else self.threshold / 2.0**64

    @property
    def epsilon(self) -> float:
        """As drawn, never above the epsilon wanted."""
        return 0.0 if self.categories < 2 else response_epsilon(self.threshold, self.categories)

    def draw(self, codes: Codes, rng: np.random.Generator) -> Codes:
        """Randomize category codes."""
        return codes if self.categories < 2 else randomized_response(rng, codes, self.categories, self.threshold)

    def to_dict(self) -> dict[str, Any]:
        return {"law": RANDOMIZED_RESPONSE, "keep": self.keep, "categories": self.categories}


def respond_in_group(X: Matrix, out: Matrix, group: Group, response: Response, rng: np.random.Generator) -> None:
    """Randomize one one-hot group of a block, or a numeric column's missing indicator, from `X` into `out`."""
    if group.is_onehot:
        codes = response.draw(X[:, group.start : group.stop].argmax(axis=1), rng)
        out[:, group.start : group.stop] = 0.0
        out[np.arange(len(out)), group.start + codes] = 1.0
    else:
        out[:, group.stop - 1] = response.draw((X[:, group.stop - 1] > 0.5).astype(np.int64), rng)
