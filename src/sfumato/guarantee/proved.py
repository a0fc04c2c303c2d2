"""One function computes every guarantee: for the owner of a release, and for the coordinator from its card."""

from __future__ import annotations

import math
from collections.abc import Sequence

from sfumato.channels import EXACT_PATHS, NO_NOISE, Recipe
from sfumato.guarantee.concentrated import Central
from sfumato.guarantee.guarantee import Guarantee

LEARNED_BASIS = "basis of principal components, with their variances"
BORROWED_BASIS = "basis that was learned from people's rows for another release"
LEARNED_GUIDANCE = "the guidance: the directions in which the classes differ"
BORROWED_GUIDANCE = "guidance that was learned from people's rows for another release"
LEARNED_MAPS = {LEARNED_BASIS, BORROWED_BASIS, LEARNED_GUIDANCE, BORROWED_GUIDANCE}
FLOATING_POINT = "floating-point noise"


def proved(recipe: Recipe, in_the_way: Sequence[str], assumptions: Sequence[str] = (), sentence: str = "") -> Guarantee:
    """What a recipe proves for one record (or for its presence in the table), and why that holds only conditionally.

    `in_the_way`: what was learned or is not public, in words; what the recipe itself shows is added. `sentence` is
    shown where nothing is proved.
    """
    if recipe.measured:
        return Guarantee.for_the_table(Central.of(recipe.measured, recipe.delta), assumptions).hindered(in_the_way)
    found = recipe.epsilons()
    if not math.isfinite(found.record):
        return Guarantee.none(sentence).hindered(in_the_way)
    told = [] if LEARNED_MAPS & set(in_the_way) else recipe.in_the_way()
    floating = [] if recipe.path in (*EXACT_PATHS, NO_NOISE) else [FLOATING_POINT]
    return Guarantee(
        component=found.component,
        column=found.column,
        record=found.record,
        exact=found.exact,
        assumptions=tuple(assumptions),
    ).hindered([*in_the_way, *told, *floating])
