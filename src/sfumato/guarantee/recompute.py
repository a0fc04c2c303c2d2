"""The guarantee once more, from what a card says was done: transform, noise laws, keep probabilities.

A server takes no site's word for an epsilon. Figures computed here use nothing of the card's `guarantee` but what
stands in its way by its own words; a card that states less than they come to was edited. Who changes noise and
guarantee together is not found out here: that a release was really made so is asserted by the site.

Cards hold keep probabilities as doubles, and grids cost a rounding that is accounted for differently here and there,
so figures agree to about one in a million (`AGREES`). What is recomputed is then never above an honest statement.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import CardError
from sfumato.guarantee.affine import affine_epsilons, component_ranges
from sfumato.guarantee.borrowed import is_reason
from sfumato.guarantee.card import RANDOMIZED_RESPONSE, Card
from sfumato.guarantee.consistency import LABEL_CLASSES
from sfumato.guarantee.guarantee import EMPIRICAL, LOCAL_DP
from sfumato.noise import Laplace, response_epsilon
from sfumato.table import Encoding, Group

AGREES = 1e-6
EXACT_PATHS = ("exact-grid", "exact-response")
WORD = 1 << 64


@dataclass(frozen=True)
class Recomputed:
    """Epsilons of a component, a source column and the record, the label included; `in_the_way` as on a card."""

    component: float
    column: float
    record: float
    label: float | None = None
    in_the_way: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        return LOCAL_DP if math.isfinite(self.record) and not self.in_the_way else EMPIRICAL

    @property
    def proved(self) -> float:
        """The record's epsilon that really holds; infinite where it is only conditional."""
        return self.record if self.kind == LOCAL_DP else math.inf

    def understated(self, card: Card) -> list[str]:
        """Names of the figures that the card states as smaller than they are, and of claims that it cannot make."""
        if card.post_processing is not None:
            return []  # its noise is no longer on the card: nothing can be checked, and nothing counts as proved
        stated = card.stated_guarantee()
        pairs = {
            "epsilon_component": (stated.component, self.component),
            "epsilon_column": (stated.column, self.column),
            "epsilon_record": (stated.record, self.record),
            "label_epsilon": (stated.label_epsilon or 0.0, self.label or 0.0),
        }
        wrong = [name for name, (said, found) in pairs.items() if said < found * (1 - AGREES) - 1e-9]
        return wrong if self.kind == LOCAL_DP or not card.is_formal else ["kind", *wrong]


NO_BOUND = Recomputed(math.inf, math.inf, math.inf)
Proof = Callable[[Card, Encoding], Recomputed]


def recomputed(card: Card, proofs: Mapping[str, Proof] | None = None) -> Recomputed:
    """What the card's own parameters prove; infinite where they prove nothing.

    `proofs` are those of mechanisms beyond `PROOFS`. A mechanism without one has no bound, whatever its card says.
    """
    encoding = card.source_encoding()
    proof = {**PROOFS, **(proofs or {})}.get(card.mechanism["name"])
    # after post-processing the noise is no longer on the card
    found = NO_BOUND if proof is None or card.post_processing is not None else proof(card, encoding)
    label = card.release_schema["label"]
    if label is not None and label["keep"] != 1:
        epsilon = kept_epsilon(label["keep"], len(label["classes"]))
        found = Recomputed(
            max(found.component, epsilon), max(found.column, epsilon), found.record + epsilon, label=epsilon
        )
    reasons = tuple(dict.fromkeys(_hindrances(card, encoding)))
    return Recomputed(found.component, found.column, found.record, found.label, reasons)


def _hindrances(card: Card, encoding: Encoding) -> list[str]:
    """Why figures hold only conditionally, from every part of the card that says so."""
    parameters = card.mechanism["parameters"]
    randomized = card.label == "randomized"
    reasons = [item for item in card.learned_from_data if randomized or not item.startswith(LABEL_CLASSES)]
    reasons += [f"bounds or categories of column {name!r}" for name in encoding.learned]
    label = encoding.schema.label
    if randomized and label is not None and label.source == "learned":
        reasons.append(f"{LABEL_CLASSES} {label.name!r}")
    if card.noise_path not in EXACT_PATHS:
        reasons.append("floating-point noise")
    if card.reproducible:
        reasons.append("a fixed seed: anybody can repeat the noise")
    if card.mechanism["name"] == "principal-laplace":
        if parameters.get("component_bounds") != "public":
            reasons.append("ranges of the components")
        if parameters.get("basis") != "identity" and not is_reason(parameters.get("basis_reason")):
            reasons.append("a basis that was learned, or not declared public")
    public = parameters.get("guidance") == "given" and is_reason(parameters.get("guidance_reason"))
    if card.mechanism["name"] == "guided-projection" and not public:
        reasons.append("guidance that was learned, or not declared public")
    return [*reasons, *card.guarantee["in_the_way"]]


# Columns one by one: additive noise and randomized response


def _columnwise(card: Card, encoding: Encoding) -> Recomputed:
    """Columns are independent, so their epsilons add up [principal-laplace, Eq. 7]."""
    if not card.is_columnwise:
        return NO_BOUND
    written = card.release_schema["columns"]
    if [column["name"] for column in written] != [group.column.name for group in encoding.groups]:
        raise CardError("The card's released columns are not those of its source: it was edited or is damaged.")
    laws = card.laws()
    parts = [
        _column(group, column["noise"], laws[group.start])
        for group, column in zip(encoding.groups, written, strict=True)
    ]
    columns = [column for _, column in parts]
    return Recomputed(max(component for component, _ in parts), max(columns), math.fsum(columns))


def _column(group: Group, noise: Mapping[str, Any] | None, law: Any) -> tuple[float, float]:
    """Of one released component and of the whole source column."""
    if group.is_onehot:
        epsilon = _response(noise, group.width)
        return epsilon, epsilon
    missing = kept_epsilon((noise or {}).get("missing_keep", 1.0), 2) if group.has_indicator else 0.0
    if group.is_constant:
        return missing, missing
    if law is None:
        return math.inf, math.inf
    whole, half = law.log_amplification(1.0), law.log_amplification(0.5)
    # from an end of the range to the middle, and from present to missing
    return max(whole, missing), max(whole, half + missing) if group.has_indicator else whole


def _response(noise: Mapping[str, Any] | None, categories: int) -> float:
    if categories < 2:
        return 0.0
    if noise is None or noise["law"] != RANDOMIZED_RESPONSE or noise.get("categories") != categories:
        return math.inf
    return kept_epsilon(noise.get("keep", 1.0), categories)


def kept_epsilon(keep: Any, categories: int) -> float:
    """Epsilon of keeping one of `categories` with probability `keep`: |ln(p (k - 1) / (1 - p))|.

    A card holds p as a double; the neighbour that gives less is taken, so that rounding accuses nobody.
    """
    if isinstance(keep, bool) or not isinstance(keep, int | float) or not 0 < keep < 1:
        return 0.0 if categories < 2 else math.inf
    towards_even = math.nextafter(keep, 1 / categories)
    return response_epsilon(int(towards_even * WORD), categories)


# Columns mixed: Laplace noise behind an affine map, and behind a secret rotation


def _affine(card: Card, encoding: Encoding) -> Recomputed:
    """z = A x + c + Laplace noise: see `affine`. Widths are those of the domain, or (learned) the scores' own."""
    if card.transform["kind"] != "affine":
        return NO_BOUND
    matrix, scales, steps = _matrix(card, encoding), _scales(card), _steps(card)
    if matrix is None or scales is None or len(matrix) != len(scales):
        return NO_BOUND
    low, high = component_ranges(matrix, encoding.groups)
    parameters = card.mechanism["parameters"]
    widths = high - low
    if parameters.get("component_bounds") == "data" and _is_positive(parameters.get("b")):
        widths = np.minimum(widths, scales / float(parameters["b"]))
    epsilons = affine_epsilons(matrix, scales, widths, encoding.groups)
    return Recomputed(
        epsilons.component,
        epsilons.column + steps,
        min(epsilons.record + steps, float((widths / scales).sum())),
    )


def _matrix(card: Card, encoding: Encoding) -> NDArray[np.float64] | None:
    try:
        matrix = np.array(card.transform["matrix"], dtype=np.float64)
    except (ValueError, TypeError):
        return None
    return matrix if matrix.ndim == 2 and matrix.shape[1] == encoding.width and np.isfinite(matrix).all() else None


def _rotated(card: Card, encoding: Encoding) -> Recomputed:
    """Any rotation R with Laplace scales t_i: sum |r_i . delta| / t_i <= |delta|_2 sqrt(sum 1 / t_i^2)."""
    scales = _scales(card)
    if card.transform["kind"] != "secret" or scales is None or len(scales) != encoding.width:
        return NO_BOUND
    diameters = np.array([_diameter(group) for group in encoding.groups])
    longest, steepest = float(np.sqrt((diameters**2).sum())), float(np.sqrt((scales**-2.0).sum()))
    return Recomputed(longest / float(scales.min()), float(diameters.max()) * steepest, longest * steepest)


def _diameter(group: Group) -> float:
    differences = group.vertices[:, None] - group.vertices[None]
    return float(np.sqrt((differences**2).sum(axis=2)).max())


def _scales(card: Card) -> NDArray[np.float64] | None:
    """Scales of Laplace noise on every released column, or None where any has another law, or none."""
    laws = card.laws()
    if not all(isinstance(law, Laplace) for law in laws):
        return None
    return np.array([law.scale for law in laws if isinstance(law, Laplace)])


def _steps(card: Card) -> float:
    """What rounding to the grid adds to a record: one step of every component, over its scale."""
    noises = [column["noise"] for column in card.release_schema["columns"]]
    grids = [(noise or {}).get("grid", 0.0) for noise in noises]
    if not all(_is_positive(grid) for grid in grids):
        return 0.0 if card.noise_path == "float-noise" else math.inf
    return float(sum(grid / noise["scale"] for grid, noise in zip(grids, noises, strict=True)))


def _is_positive(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf


PROOFS: dict[str, Proof] = {
    "additive-noise": _columnwise,
    "principal-laplace": _affine,
    "random-rotation": _rotated,
    "randomized-response": _columnwise,
}
"""Mechanisms whose card holds all that a proof needs."""
