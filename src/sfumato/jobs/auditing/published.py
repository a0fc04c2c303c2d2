"""What a public audit says in figures: as much as a reader needs, and no statistic of the original in full digits.

Scores, baselines and distances are measured on private rows, and no guarantee covers them. Somebody who holds two
audits of tables that differ in one person would find the person in the last digits.
"""

from __future__ import annotations

from typing import Any

SPREADS = ("rmse_of_mean", "vod_of_mean", "width_of_mean")
"""Standard deviation, variance and width of an original column, which guessing its mean comes to."""
IN_OWN_UNITS = ("rmse",)
"""Beside errors as shares of a column's range they tell the range: public on a card, private without one."""
OF_THE_RELEASE = ("edges", "release", "names", "categories")
"""Parts that anybody with the release computes."""


def published(part: Any, *, card: bool) -> Any:
    """The same with three digits, and without the spread of original columns; without a card, without their units."""
    left_out = SPREADS if card else SPREADS + IN_OWN_UNITS
    if isinstance(part, dict):
        return {
            key: value if key in OF_THE_RELEASE and isinstance(value, list) else published(value, card=card)
            for key, value in part.items()
            if key not in left_out
        }
    if isinstance(part, list | tuple):
        return [published(item, card=card) for item in part]
    return float(f"{part:.3g}") if isinstance(part, float) else part
