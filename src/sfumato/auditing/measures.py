"""The papers' own measures of a release, put together from attacks and channels.

Average privacy [principal-laplace, 6.1.3], privacy loss [density-reconstruction, Eq. 19], the final multi-column
guarantee [random-rotation, 4.2] and the gap of two density estimates, after [kernel-resampling, Eq. 18]. All of them
are measured, none is a guarantee.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sfumato.attacks.metrics import RowDensity, half_l1
from sfumato.attacks.metrics.information import mutual_information
from sfumato.auditing.case import Case
from sfumato.channels import Channel, NotApplicableError, Recipe
from sfumato.core.array_types import Codes, Matrix
from sfumato.core.errors import SfumatoError
from sfumato.guarantee import Card
from sfumato.mechanisms import Mechanism, find_mechanism, make_mechanism
from sfumato.table import Encoding, Group
from sfumato.table.statistics import NO_CLASS

# How far two density estimates lie apart: the one that rows were drawn from, and the same from rows held apart.
#
# It is what DAPL [kernel-resampling, Eq. 18] comes to with an estimate in place of the true density f. Both sides then
# err, by how much depends on the rows held apart too, so it is another figure and has another name.


MOST_ROWS = 2_000
DRAWS = 400


def density_gap(case: Case) -> dict[str, Any] | None:
    """Half the L1 distance, weighted over the classes by the table's rows; `held_apart` rows made the other estimate.

    From the table's own rows it would be 0 by construction. None for other mechanisms, without a holdout, and
    where no class has rows in both.
    """
    card, holdout = case.card, case.holdout
    if card is None or holdout is None or (fresh := _density_estimate(card)) is None:
        return None
    recipe = card.made_by()
    X, y = case.register, _classes(case)
    other = holdout.y if y is not None else None
    if y is not None and other is None:
        return None
    rng = np.random.default_rng(0)  # fixed: measuring twice gives the same figure
    total, weight, variance, held_apart = 0.0, 0, 0.0, 0
    for code in [NO_CLASS] if y is None else np.unique(y).tolist():
        mine = X if y is None else X[y == code]
        theirs = (holdout.X if other is None else holdout.X[other == code])[:MOST_ROWS]
        apart = _fitted(fresh, theirs, None if y is None else code, recipe.encoding)
        if apart is None:
            continue
        f = RowDensity.of(apart, theirs, None, None if y is None else code)
        found = half_l1(f, RowDensity(mine[:MOST_ROWS], recipe.of_class(code)), rng, DRAWS)
        total += len(mine) * found.loss
        variance += (len(mine) * found.error) ** 2
        weight, held_apart = weight + len(mine), held_apart + len(f.rows)
    if not weight:
        return None
    error = float(np.sqrt(variance)) / weight
    return {"loss": total / weight, "error": error, "rows": weight, "held_apart": held_apart}


def _density_estimate(card: Card) -> Mechanism | None:
    """The mechanism on the card, to be fitted again; None where rows are drawn from no estimate of a density."""
    made_by = find_mechanism(card.mechanism["name"])
    if made_by is None or not made_by.estimates_density:
        return None
    return make_mechanism(made_by.name, dict(card.mechanism["parameters"]))


def _fitted(mechanism: Mechanism, rows: Matrix, code: int | None, encoding: Encoding) -> Mechanism | None:
    """The mechanism fitted to rows of one class; None where there are too few."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return mechanism.fit(rows, None if code is None else np.full(len(rows), code), encoding)
    except SfumatoError:
        return None


def _classes(case: Case) -> Codes | None:
    parts = [part.y for part in (case.people, case.undrawn) if part is not None]
    if any(part is None for part in parts):
        return None
    return np.concatenate([part for part in parts if part is not None])


# What each released cell tells of its own source, on average: mutual information, and privacy loss 1 - 2^-I.
#
# Numbers [density-reconstruction, Eq. 19] and categories. The values are spread as in the audited table. Where a class
# has channels of its own, as resampled rows have, I is that within classes, weighted by their released rows: the label
# is public beside it.


MOST_COLUMNS = 200
"""Columns of which it is computed; a wider table has the first of them, evenly spread."""
BINS, POINTS = 60, 600
SECRET = "columns are mixed by a secret key"


def told_by_channels(case: Case) -> list[dict[str, Any]]:
    """One entry for each released column: bits and privacy loss, or why there is none. Empty without a card."""
    if case.card is None or case.is_guided:
        return []
    recipe = case.card.made_by()
    given = case.people.X if recipe.is_columnwise else _components(case)
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
        found.append(entry | _told(case, recipe, place, groups, given))
    return found


def _components(case: Case) -> Matrix | None:
    if case.affine is None or case.key_used:
        return None
    return np.asarray(case.people.X @ case.affine[0].T + case.affine[1])


def _told(case: Case, recipe: Recipe, place: int, groups: list[Group] | None, given: Matrix | None) -> dict[str, Any]:
    if given is None:
        return {"bits": None, "privacy_loss": None, "not_applicable": SECRET}
    values = given[:, recipe.places[place]]
    try:
        total = 0.0
        for channel, rows, weight in _by_class(case, recipe, place):
            total += weight * bits_told(channel, values[rows], groups)
    except NotApplicableError as error:
        return {"bits": None, "privacy_loss": None, "not_applicable": str(error)}
    if math.isinf(total):
        return {"bits": None, "privacy_loss": 1.0}
    return {"bits": total, "privacy_loss": 1.0 - math.exp2(-total)}


def _by_class(case: Case, recipe: Recipe, place: int) -> list[tuple[Channel, Any, float]]:
    """Channel, people and share of the released rows, class by class where channels differ."""
    people = np.ones(len(case.people.X), dtype=bool)
    if not recipe.by_class or case.people.y is None or case.y is None:
        only = recipe.by_class.get(NO_CLASS, recipe.channels)
        return [(only[place], people, 1.0)]
    parts = []
    for code in np.unique(case.y).tolist():
        members = case.people.y == code
        parts.append((recipe.of_class(code)[place], members, float((case.y == code).mean())))
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


FILTERED = "principal-filter"
"""The attack after which the paper reports average privacy: reverse the transform, keep the best components."""
CONFIDENCE = 0.95


def measures(case: Case, attacks: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """`attacks` as they stand in audit.json; those that assume a leak, as of a secret key, do not count."""
    expected = [attack for attack in attacks if not attack.get("assumes")]
    return {
        "average_privacy": average_privacy(case, expected),
        "unified": final_guarantee(expected),
        "channels": told_by_channels(case),
        "density_gap": density_gap(case),
    }


def average_privacy(case: Case, attacks: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Width of the interval that holds 95% of an attack's errors over the column's range, by column and on average.

    `width` is that of the attack that leaves the least on average, `filtered` that of the paper's attack. Every column
    has the least that any attack leaves. Numbers only.
    """
    widths = {attack["name"]: _widths(attack) for attack in attacks}
    averages = {name: float(np.mean(list(found.values()))) for name, found in widths.items() if found}
    if not averages:
        return None
    strongest = min(averages, key=lambda name: averages[name])
    of_mean = _widths_of_mean(case)
    names = [name for name in of_mean if any(name in found for found in widths.values())]
    return {
        "width": averages[strongest],
        "attack": strongest,
        "filtered": averages.get(FILTERED),
        "width_of_mean": float(np.mean([of_mean[name] for name in names])),
        "columns": [
            {
                "name": name,
                "width": min(found[name] for found in widths.values() if name in found),
                "width_of_mean": of_mean[name],
            }
            for name in names
        ],
    }


def _widths(attack: Mapping[str, Any]) -> dict[str, float]:
    columns = attack["columns"]
    return {one["name"]: one["interval_width"] for one in columns if one.get("interval_width") is not None}


def _widths_of_mean(case: Case) -> dict[str, float]:
    """The same for a guesser who always takes the mean: the width of the column's own central 95%, over its range."""
    found = {}
    tail = (1.0 - CONFIDENCE) / 2.0
    for group in case.encoding.groups:
        if group.is_onehot:
            continue
        slots = case.people.X[:, group.slice]
        values = slots[slots[:, 1] < 0.5, 0] if group.has_indicator else slots[:, 0]
        if len(values):
            low, high = np.quantile(values, [tail, 1.0 - tail])
            span = float(np.ptp(values))
            found[group.column.name] = float(high - low) / (span if span > 0 else 1.0)
    return found


def final_guarantee(attacks: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """The lowest unified privacy over all attacks, with the attack that leaves so little; None where none was measured.

    `minimum` is on the column guessed best, `average` over columns: variance of difference, weighted by the schema and
    at most that of guessing the mean. `sigma_min` and `sigma_avg` are standard deviations, unweighted and uncapped as
    published [random-rotation, 5.3].
    """
    found: dict[str, Any] = {}
    for figure, detail in (
        ("minimum", "unified_min"),
        ("average", "unified_avg"),
        ("sigma_min", "sigma_min"),
        ("sigma_avg", "sigma_avg"),
    ):
        left = {one["name"]: one["details"][detail] for one in attacks if one["details"].get(detail) is not None}
        if not left:
            return None
        weakest = min(left, key=lambda name: left[name])
        found |= {figure: left[weakest], f"{figure}_attack": weakest}
    return found
