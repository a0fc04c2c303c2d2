"""Where plain rows lie in the space of a release: x goes to the mean of what it would be released as."""

from __future__ import annotations

import numpy as np

from sfumato.channels import NotApplicableError, Recipe
from sfumato.core.array_types import Matrix
from sfumato.core.errors import UsageError

Affine = tuple[Matrix, Matrix]


def public_map(recipe: Recipe) -> Affine | None:
    """(A, c) that puts a plain row x at A x + c; None where the map is a secret or there is none (survey bits).

    Refused where what a channel makes of a value on average is no line: rows put elsewhere would be answered wrongly.
    """
    if not recipe.is_columnwise:
        return recipe.map.affine()
    slope, offset = np.ones(recipe.width), np.zeros(recipe.width)
    for place, channel, name in zip(recipe.places, recipe.channels, recipe.names(), strict=True):
        try:
            slope[place.start], offset[place.start] = channel.mean_line()
        except NotApplicableError as reason:
            raise UsageError(
                f"Column {name!r} was {reason}. This classifier answers only for rows released in the same way; for "
                "plain rows train reconstructed-naive-bayes or reconstructed-tree."
            ) from None
    return np.diag(slope), offset
