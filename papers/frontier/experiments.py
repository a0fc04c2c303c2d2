"""One release of one split: how well it is learned from, and how often its rows are told apart."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from roads import MECHANISMS
from sets import Split, split

from sfumato.channels import Recipe
from sfumato.learn.classifiers.factory import make_classifier
from sfumato.mechanisms import make_mechanism

PAIRS = 600
"""Of each split; over ten sets the share of pairs told apart has a standard error of less than .01."""
_BLOCK = 50

Found = dict[str, Any]


def plain(name: str, number: int) -> Found:
    """The two ends: the commonest class of the training rows, and boosting on the rows as they are."""
    held = split(name, number)
    commonest = np.bincount(held.train_y).argmax()
    ceiling = make_classifier("boosting").fit(held.train, held.train_y)
    told = np.full(len(held.test_y), commonest)
    return {"majority": _scored(told, held), "ceiling": _scored(ceiling.predict(held.test), held)}


def released(name: str, number: int, mechanism: str, epsilon: float) -> Found:
    """Release the training rows once; every learner of this mechanism, and the adversary, get the same release."""
    held = split(name, number)
    made = make_mechanism(mechanism, {"epsilon_record": epsilon, "noise": "float"})
    rng = np.random.default_rng([number, int(10 * epsilon), len(mechanism)])
    block = made.release(held.train, held.train_y, rng, encoding=held.encoding)
    plain_rows = made.recipe_.map.affine() is None or made.recipe_.is_columnwise
    queries = held.test if plain_rows else made.embed(held.test)
    found: Found = {"pair": told_apart(made.recipe_, block.X, held.train, held.train_y, rng)}
    for learner in MECHANISMS[mechanism]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = make_classifier(learner).fit(block.X, block.y, sources=made.recipe_)
        found[learner] = _scored(model.predict(queries), held)
        found[learner]["chosen"] = getattr(model, "chosen_", learner)
    return found


def _scored(told: NDArray[Any], held: Split) -> Found:
    """Right answers, and how often only one of the learner and the commonest class is right."""
    right = told == held.test_y
    usual = held.test_y == np.bincount(held.train_y).argmax()
    return {
        "rows": len(right),
        "right": int(right.sum()),
        "only": int((right & ~usual).sum()),
        "only_majority": int((usual & ~right).sum()),
    }


def told_apart(
    recipe: Recipe, Z: NDArray[np.float64], X: NDArray[np.float64], y: NDArray[np.int64], rng: np.random.Generator
) -> Found:
    """Who sees a released row and knows the records of two people of its class: how often the likelier one is right.

    Records that are equal, and rows that tell nothing of where two differ, are decided by a coin.
    """
    chosen = rng.permutation(len(Z))[:PAIRS]
    others = np.array([_another(row, y, rng) for row in chosen])
    known = others >= 0
    chosen, others = chosen[known], others[known]
    wins = 0.0
    for start in range(0, len(chosen), _BLOCK):
        own, other = chosen[start : start + _BLOCK], others[start : start + _BLOCK]
        both = recipe.log_likelihood(Z[own], np.vstack([X[own], X[other]]))
        at = np.arange(len(own))
        gap = both[at, at] - both[at, at + len(own)]
        near = np.abs(gap) <= 1e-9
        wins += float((gap[~near] > 0).sum() + 0.5 * near.sum())
    return {"pairs": len(chosen), "right": wins}


def _another(row: int, y: NDArray[np.int64], rng: np.random.Generator) -> int:
    """Somebody else of the same class; -1 if there is nobody."""
    members = np.flatnonzero(y == y[row])
    members = members[members != row]
    return int(rng.choice(members)) if len(members) else -1
