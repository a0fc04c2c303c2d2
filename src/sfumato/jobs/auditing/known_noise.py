"""What the adversary is taken to know of the noise: the card's word, or an estimate in the adversary's favour."""

from __future__ import annotations

import numpy as np

from sfumato.attacks import CarriedNoise, Response
from sfumato.guarantee import Card
from sfumato.jobs.auditing.evidence import Matrix, Noise
from sfumato.noise import CUSTOM, Law, make_law
from sfumato.table import Encoding, Group

NOTHING = 1e-12


def states_its_noise(card: Card) -> bool:
    """Whether the card says all about the noise; an operator of the owner's own it cannot state."""
    return all((column["noise"] or {}).get("operator") != CUSTOM for column in card.release_schema["columns"])


def stated_noise(card: Card, population: Matrix) -> tuple[Noise, Matrix]:
    """Laws, operators, randomized responses and variances of every column of the release matrix, from the card.

    `population` (encoded source rows) is what the adversary knows of people: how far an operator other than addition
    moves a value depends on the value.
    """
    noise: list[Law | Response | CarriedNoise | None] = list(card.laws())
    variance = card.noise_variance()
    if card.is_columnwise:
        columns, carried = card.release_schema["columns"], card.operator_noise()
        for group, column in zip(card.source_encoding().groups, columns, strict=True):
            stated, own = column["noise"] or {}, carried[column["name"]]
            if own is not None and not own.operator.is_additive and not group.is_onehot:
                low, high = (float(bound) for bound in group.column.bounds)
                here = CarriedNoise.of(own, low, high - low, population[:, group.start])
                noise[group.start], variance[group.start] = here, here.variance
            if group.is_onehot and "keep" in stated:
                noise[group.slice] = [_response(float(stated["keep"]), group.width)] * group.width
            elif group.has_indicator and "missing_keep" in stated:
                noise[group.stop - 1] = _response(float(stated["missing_keep"]), 2)
    return tuple(noise), variance


def estimated_noise(encoding: Encoding, Z: Matrix, people: Matrix, truth: Matrix | None) -> tuple[Noise, Matrix]:
    """Noise of a column-wise release whose maker does not tell, or which was rounded and clipped afterwards.

    The adversary is taken to know how strong it is (Kerckhoffs): normal with the variance of released minus original
    values where it is known which row is whose, else with max(0, var(release) - var(original)); categories as
    randomized response with the share that was kept. A column that was not changed at all is exact.
    """
    noise: list[Law | Response | CarriedNoise | None] = [None] * encoding.width
    variance = np.zeros(encoding.width)
    for group in encoding.groups:
        slots = group.slice
        if group.is_onehot:
            if truth is not None:
                same = Z[:, slots].argmax(axis=1) == truth[:, slots].argmax(axis=1)
                noise[slots] = [_response(float(same.mean()), group.width)] * group.width
            continue
        variance[group.start] = _variance(group, Z, people, truth)
        if variance[group.start] > NOTHING:
            noise[group.start] = make_law("normal", scale=float(np.sqrt(variance[group.start])))
        if group.has_indicator and truth is not None:
            same = (Z[:, group.stop - 1] > 0.5) == (truth[:, group.stop - 1] > 0.5)
            noise[group.stop - 1] = _response(float(same.mean()), 2)
    return tuple(noise), variance


def _variance(group: Group, Z: Matrix, people: Matrix, truth: Matrix | None) -> float:
    released, original = _present(group, Z), _present(group, people)
    if truth is None:
        after, before = Z[released, group.start], people[original, group.start]
        return float(max(0.0, after.var() - before.var())) if len(after) and len(before) else 0.0
    both = released & _present(group, truth)
    return float(np.var(Z[both, group.start] - truth[both, group.start])) if both.any() else 0.0


def _present(group: Group, X: Matrix) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    return np.asarray(X[:, group.stop - 1] < 0.5 if group.has_indicator else np.ones(len(X), dtype=bool))


def _response(keep: float, categories: int) -> Response | None:
    """None for a column with one category, and for one that always tells the truth: it is exact."""
    return None if categories < 2 or keep >= 1.0 else Response(keep, categories)
