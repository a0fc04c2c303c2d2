"""How an adversary who knows a mechanism and its parameters makes releases of its own."""

from __future__ import annotations

import warnings

import numpy as np

from sfumato.array_types import Codes, Matrix
from sfumato.attacks.base import Simulated, Simulator
from sfumato.channels import NotApplicableError, Recipe, Secret, draw
from sfumato.errors import SfumatoError
from sfumato.guarantee import Card
from sfumato.jobs.auditing.evidence import Evidence
from sfumato.mechanisms import MECHANISMS, make_mechanism
from sfumato.statistics import NO_CLASS


def simulator_of(evidence: Evidence) -> Simulator | None:
    """By the channels of the card where they are stated, else by running the mechanism on other people.

    None where that needs a secret, or an operator of the owner's own: the channels as far as they are known must do.
    """
    card = evidence.card
    if card is None or card.made_by().rows == "nobody":
        return None
    recipe = card.made_by()
    if all(channel.is_stated for channel in recipe.channels):
        return _by_channels(recipe, evidence.affine)
    mechanism = MECHANISMS.get(card.mechanism["name"])
    again = mechanism is not None and mechanism.columnwise and not mechanism.needs_key and evidence.columnwise
    return _by_mechanism(card, evidence) if again and card.post_processing is None else None


def _by_channels(recipe: Recipe, affine: tuple[Matrix, Matrix] | None) -> Simulator | None:
    secret = recipe.map.kind == Secret.kind
    if secret and affine is None:
        return None

    def simulate(X: Matrix, y: Codes | None, rng: np.random.Generator) -> Simulated:
        source = np.arange(len(X))
        if recipe.by_class:
            codes = np.full(len(X), NO_CLASS) if y is None else y
            Z = np.empty((len(X), recipe.width))
            for code in np.unique(codes).tolist():
                Z[codes == code] = draw(recipe.of_class(code), np.array(X[codes == code]), rng)
        elif secret and affine is not None:
            Z = draw(recipe.channels, np.asarray(X @ affine[0].T + affine[1]), rng)
        else:
            Z = recipe.perturb(np.array(X), rng)
        return Simulated(Z, y, source)

    return simulate


def _by_mechanism(card: Card, evidence: Evidence) -> Simulator:
    def simulate(X: Matrix, y: Codes | None, rng: np.random.Generator) -> Simulated:
        try:
            made = make_mechanism(card.mechanism["name"], dict(card.mechanism["parameters"]))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                block = made.release(X, y, rng=rng, encoding=evidence.encoding)
        except SfumatoError as error:
            raise NotApplicableError("the method could not be run on the attacker's own people") from error
        return Simulated(block.X, block.y, block.source)

    return simulate
