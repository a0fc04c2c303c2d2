"""Agrawal & Srikant's people: Fig. 3, the scheme with ID3 against ByClass, both at 25% disclosure."""

from __future__ import annotations

from typing import Any

import numpy as np

from sfumato.auditing.figures.guided_survey import (
    CATEGORIES,
    SCHEMES,
    Answers,
    classifier,
    level_of,
    mean_disclosure,
    surveyed,
)
from sfumato.auditing.figures.guided_survey import by_class as by_class_on
from sfumato.auditing.figures.sets import ATTRIBUTES, agrawal_srikant
from sfumato.channels.guidance.space import Binning, quantile_edges, supervised_edges
from sfumato.learn.classifiers.survey_bits import SurveyClassifier

ELSEWHERE = 5_000
"""Other people from whom edges are learned: edges must be public."""


def people(function: int, rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    return agrawal_srikant(np.random.default_rng([seed, function]), rows, function)


def binned(function: int, kind: str) -> Binning:
    """Quartiles, or up to eight intervals where the classes change; a number that tells nothing keeps its quartiles."""
    X, y = people(function, ELSEWHERE, 99)
    columns: list[Any] = []
    for place, name in enumerate(ATTRIBUTES):
        if name in CATEGORIES:
            columns.append(CATEGORIES[name])
        elif kind == "quartiles":
            columns.append(quantile_edges(X[:, place]))
        else:
            columns.append(supervised_edges(X[:, place], y, 8) or (float(np.median(X[:, place])),))
    return Binning(columns)


def ceiling(function: int, kind: str, rows: int) -> dict[str, Any]:
    """ID3 on the plain bits: what a perfect scheme could reach."""
    binning = binned(function, kind)
    X, y = people(function, rows, 0)
    X_test, y_test = people(function, 5_000, 1)
    tree = SurveyClassifier("id3", queries="plain").fit(binning.space.onehot(binning.codes(X)), y)
    return {
        "accuracy": float(tree.score(binning.space.onehot(binning.codes(X_test)), y_test)),
        "bits": binning.space.width,
    }


def guided(function: int, kind: str, scheme: str, start: int, rows: int) -> dict[str, Any]:
    """The level whose average disclosure comes nearest to 25% (found on 5,000 people), then everybody.

    With a floor disclosure stays below 25%; then the level of the same scheme without a floor is taken.
    """
    chosen = SCHEMES[scheme]
    binning = binned(function, kind)
    space = binning.space
    X, y = people(function, rows, 0)
    X_test, y_test = people(function, 5_000, 1)
    codes = binning.codes(X)
    search = chosen if chosen.rules.floor == 0 else SCHEMES["repaired"]
    level = level_of(search, Answers(codes[:5_000], y[:5_000], space), start)
    run = surveyed(chosen, Answers(codes, y, space), k=level, start=start, seed=7)
    T = space.onehot(codes[:start])
    tree = classifier(chosen, "id3", run, T, y[:start], start)
    return {
        "accuracy": float(tree.score(space.onehot(binning.codes(X_test)), y_test)),
        "disclosure": mean_disclosure(codes[:3_000], space, run, 600),
        "k": int(level),
        "bits": space.width,
        "larger_class": float(max(y_test.mean(), 1 - y_test.mean())),
    }


def by_class(function: int, rows: int) -> dict[str, Any]:
    """Gaussian noise of 25% disclosure on every attribute, ByClass reconstruction, a tree."""
    low, high = np.array(list(ATTRIBUTES.values())).T
    train, test = (((X - low) / (high - low), y) for X, y in (people(function, rows, 0), people(function, 5_000, 1)))
    accuracy, scale = by_class_on(train, test, np.random.default_rng(5))
    return {"accuracy": accuracy, "scale": scale}
