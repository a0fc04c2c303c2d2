"""What an audit for others holds: what follows from the released files alone, unless the owner says otherwise.

Scores, baselines and distances are measured on private rows, and no guarantee covers them. Whoever holds two audits of
tables that differ in one person would find the person in the last digits. So they are left out; with --with-audit they
are there, rounded, and no statistic of the original is told in full.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

SPREADS = ("rmse_of_mean", "vod_of_mean", "width_of_mean")
"""Standard deviation, variance and width of an original column, which guessing its mean comes to."""
IN_OWN_UNITS = ("rmse",)
"""Beside errors as shares of a column's range they tell the range: public on a card, private without one."""
OF_THE_RELEASE = ("edges", "release", "names", "categories")
"""Parts that anybody with the release computes."""


OF_A_COLUMN = ("name", "kind", "edges", "categories", "release", "missing", "reported", "not_applicable")
OF_CROWDS = ("quasi_identifiers", "left_out", "not_applicable", "population", "c", "release")
NO_MEASURES: dict[str, Any] = {"average_privacy": None, "unified": None, "channels": [], "density_gap": None}


def for_others(parts: Mapping[str, Any], *, card: bool, measured: bool) -> dict[str, Any]:
    """The parts of an audit that others may see; `measured` by the owner's word, with figures of private rows."""
    shown: dict[str, Any] = published(dict(parts) if measured else released_alone(parts), card=card)
    return shown


def released_alone(parts: Mapping[str, Any]) -> dict[str, Any]:
    """What anybody with the released files computes; parts were made without the original's own figures."""
    crowds = parts["uniqueness"]
    return {
        "attacks": [],
        "measures": NO_MEASURES,
        "utility": [],
        "uniqueness": crowds and {**_kept(crowds, OF_CROWDS), "original": None},
        "distributions": [{**_kept(one, OF_A_COLUMN), "original": None} for one in parts["distributions"]],
        "correlations": {
            **_kept(parts["correlations"], ("names", "release", "not_applicable")),
            **{"original": None, "distance": None},
        },
        "riskiest": [],
        "settings": _kept(parts["settings"], ("rows_used", "sampled", "seed")),
        "notes": [],
    }


def _kept(part: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    return {name: part[name] for name in names if name in part}


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
