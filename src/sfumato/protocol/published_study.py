"""`as_published: true` in a study file: the papers' own variants, written out before the file is read.

What follows from it stands in the study that everybody compares by its hash; the word itself does not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sfumato.as_published import as_published
from sfumato.classifiers.factory import CLASSIFIERS, choose_classifier, read_choice
from sfumato.errors import SchemaError, UsageError
from sfumato.mechanisms import MECHANISMS
from sfumato.protocol.pool_study import DEFAULT_CLASSIFIERS, trains

AS_PUBLISHED = "as_published"
SURVEY = {"order": "value", "balance": False, "floor": 0.0, "link": "square"}
"""Guidance by the eigenvalues' own order, classes as large as they are, and no floor [guided-survey]."""


def published_study(found: Mapping[str, Any]) -> dict[str, Any]:
    """The same study with the word written out."""
    study = {key: value for key, value in found.items() if key != AS_PUBLISHED}
    if found[AS_PUBLISHED] is False:
        return study
    if found[AS_PUBLISHED] is not True:
        raise SchemaError("`as_published` must be true or false.")
    try:
        return _survey(study) if study.get("kind") == "survey" else _pool(study)
    except UsageError as error:
        raise SchemaError(str(error).replace("--as-published", "`as_published`")) from None


def _survey(study: dict[str, Any]) -> dict[str, Any]:
    as_published("a survey", SURVEY, study)  # refuses what contradicts it
    return {**study, **SURVEY}


def _pool(study: dict[str, Any]) -> dict[str, Any]:
    mechanism = study.get("mechanism")
    if isinstance(mechanism, Mapping) and isinstance(mechanism.get("name"), str):
        known = MECHANISMS.get(mechanism["name"])
        paper, given = known.published if known else {}, mechanism.get("parameters") or {}
        if isinstance(given, Mapping):
            study["mechanism"] = {**mechanism, "parameters": as_published(mechanism["name"], paper, given)}
    named = study.get("classifiers")
    if named is None and trains(study):
        named = list(DEFAULT_CLASSIFIERS)
    if isinstance(named, list):
        study["classifiers"] = [_classifier(one) for one in named]
    return study


def _classifier(named: Any) -> Any:
    if not isinstance(named, str) or read_choice(named)[0] not in CLASSIFIERS:
        return named  # whoever reads the study says what is wrong
    return choose_classifier(named, published=CLASSIFIERS[read_choice(named)[0]].published is not None).text
