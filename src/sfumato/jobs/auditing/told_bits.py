"""What each released cell tells of its own source, on average: mutual information, and privacy loss 1 - 2^-I.

Numbers [density-reconstruction, Eq. 19] and categories. The values are spread as in the audited table. Where a class
has channels of its own, as resampled rows have, I is that within classes, weighted by their released rows: the label
is public beside it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sfumato.array_types import Matrix
from sfumato.channels import Channel, NotApplicableError, Recipe
from sfumato.jobs.auditing.evidence import Evidence
from sfumato.metrics.information import mutual_information
from sfumato.statistics import NO_CLASS
from sfumato.table import Group

MOST_COLUMNS = 200
"""Columns of which it is computed; a wider table has the first of them, evenly spread."""
BINS, POINTS = 60, 600
SECRET = "columns are mixed by a secret key"


def told_by_channels(evidence: Evidence) -> list[dict[str, Any]]:
    """One entry for each released column: bits and privacy loss, or why there is none. Empty without a card."""
    if evidence.card is None or evidence.is_guided:
        return []
    recipe = evidence.card.made_by()
    given = evidence.people.X if recipe.is_columnwise else _components(evidence)
    places = list(range(len(recipe.channels)))
    if len(places) > MOST_COLUMNS:
        places = np.linspace(0, len(places) - 1, MOST_COLUMNS).astype(int).tolist()
    columns = recipe.of_columns() if recipe.is_columnwise else None
    found = []
    for place in places:
        groups = None if columns is None else columns[place][1]
        entry: dict[str, Any] = {
            "name": recipe.names()[recipe.places[place].start] if groups is None else groups[0].column.name
        }
        found.append(entry | _told(evidence, recipe, place, groups, given))
    return found


def _components(evidence: Evidence) -> Matrix | None:
    if evidence.affine is None or evidence.key_used:
        return None
    return np.asarray(evidence.people.X @ evidence.affine[0].T + evidence.affine[1])


def _told(
    evidence: Evidence, recipe: Recipe, place: int, groups: list[Group] | None, given: Matrix | None
) -> dict[str, Any]:
    if given is None:
        return {"bits": None, "privacy_loss": None, "not_applicable": SECRET}
    values = given[:, recipe.places[place]]
    try:
        total = 0.0
        for channel, rows, weight in _by_class(evidence, recipe, place):
            total += weight * bits_told(channel, values[rows], groups)
    except NotApplicableError as error:
        return {"bits": None, "privacy_loss": None, "not_applicable": str(error)}
    if math.isinf(total):
        return {"bits": None, "privacy_loss": 1.0}
    return {"bits": total, "privacy_loss": 1.0 - math.exp2(-total)}


def _by_class(evidence: Evidence, recipe: Recipe, place: int) -> list[tuple[Channel, Any, float]]:
    """Channel, people and share of the released rows, class by class where channels differ."""
    people = np.ones(len(evidence.people.X), dtype=bool)
    if not recipe.by_class or evidence.people.y is None or evidence.y is None:
        only = recipe.by_class.get(NO_CLASS, recipe.channels)
        return [(only[place], people, 1.0)]
    parts = []
    for code in np.unique(evidence.y).tolist():
        members = evidence.people.y == code
        parts.append((recipe.of_class(code)[place], members, float((evidence.y == code).mean())))
    return parts


def bits_told(channel: Channel, x: Matrix, groups: list[Group] | None = None) -> float:
    """I(X; Z) in bits of one channel, with x spread as given (n x width); infinite where a number is shown as it is.

    Of a number that may be missing: in the cells that hold one and show it.
    """
    if not len(x):
        return 0.0
    if channel.numbers == 0 or (groups is not None and groups[0].is_onehot):
        return channel.reported * _of_categories(channel, x)
    there = x[:, 1] < 0.5 if channel.width > 1 else np.ones(len(x), dtype=bool)
    numbers = np.clip(x[there, 0], *channel.interval)
    if not len(numbers) or np.ptp(numbers) == 0:
        return 0.0
    low, high = (0.0, 1.0) if groups is None else groups[0].column.bounds
    noise = channel.raw_noise(high - low, low)
    if noise is None:
        return math.inf
    return channel.reported * mutual_information(noise, low + (high - low) * numbers, bins=BINS, points=POINTS)


def _of_categories(channel: Channel, x: Matrix) -> float:
    shares = x.mean(axis=0)
    slots = np.eye(x.shape[1])
    said_slots = slots[:-1] if channel.hides_missing else slots
    likelihood = np.exp(channel.log_likelihood(said_slots, slots))  # said x true
    likelihood /= likelihood.sum(axis=0)  # of those who report it
    said = likelihood @ shares
    conditional = float(sum(share * _entropy(likelihood[:, true]) for true, share in enumerate(shares)))
    return max(0.0, _entropy(said) - conditional)


def _entropy(p: Any) -> float:
    shown = np.asarray(p, dtype=np.float64)
    shown = shown[shown > 0]
    return float(-(shown * np.log2(shown)).sum())
