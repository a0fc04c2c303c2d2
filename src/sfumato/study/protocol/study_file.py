"""Study files: what a study asks of everybody who takes part, whatever its kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sfumato.core.accepted import as_published
from sfumato.core.errors import SchemaError, SfumatoError, UsageError
from sfumato.core.files import other_version
from sfumato.learn.classifiers.factory import CLASSIFIERS, choose_classifier, read_choice
from sfumato.mechanisms import find_mechanism
from sfumato.release.strength import MADE_UP
from sfumato.study.protocol.pool_study import DEFAULT_CLASSIFIERS, PoolStudy, trains
from sfumato.study.protocol.survey_file import SurveyStudy
from sfumato.table.schema import read_yaml

# `as_published: true` in a study file: the papers' own variants, written out before the file is read.
#
# What follows from it stands in the study that everybody compares by its hash; the word itself does not.

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
        if study.get("kind") == SurveyStudy.kind:
            as_published("a survey", SURVEY, study)  # refuses what contradicts it
            return {**study, **SURVEY}
        return _pool(study)
    except UsageError as error:
        raise SchemaError(str(error).replace("--as-published", "`as_published`")) from None


def _pool(study: dict[str, Any]) -> dict[str, Any]:
    """A study of releases, its method and its classifiers as published."""
    mechanism, named = study.get("mechanism"), study.get("classifiers")
    if isinstance(mechanism, Mapping) and isinstance(mechanism.get("name"), str):
        known = find_mechanism(mechanism["name"])
        paper, given = known.published if known else {}, mechanism.get("parameters") or {}
        if isinstance(given, Mapping):
            study["mechanism"] = {**mechanism, "parameters": as_published(mechanism["name"], paper, given)}
    if named is None and trains(study):
        named = list(DEFAULT_CLASSIFIERS)
    if isinstance(named, list):
        papers = papers_of(study)
        study["classifiers"] = [_classifier(one, papers) for one in named]
    return study


def papers_of(study: Mapping[str, Any]) -> tuple[str, ...]:
    """Those that the study's method rests on."""
    mechanism = study.get("mechanism")
    known = find_mechanism(str(mechanism.get("name"))) if isinstance(mechanism, Mapping) else None
    return known.papers if known else ()


def _classifier(named: Any, papers: Sequence[str]) -> Any:
    known = CLASSIFIERS.get(read_choice(named)[0]) if isinstance(named, str) else None
    if known is None:
        return named  # whoever reads the study says what is wrong
    return choose_classifier(named, published=None if known.variant(papers) is None else papers).text


VERSION = 1

Study = PoolStudy | SurveyStudy
KINDS: dict[str, type[Study]] = {kind.kind: kind for kind in (PoolStudy, SurveyStudy)}
"""A new kind of study adds its class here; `hash` is what people compare out of band."""


def study_from_dict(found: Any) -> Study:
    """A study of any kind, checked."""
    kind = found.get("kind") if isinstance(found, Mapping) else None
    if isinstance(found, Mapping) and "version" in found:  # left out where it is 1, so that hashes stay what they are
        if why := other_version(found["version"], VERSION, older="Ask the study's owner for a new one."):
            raise SchemaError(f"The study file {why}")
        found = {key: value for key, value in found.items() if key != "version"}
    if isinstance(found, Mapping) and AS_PUBLISHED in found:
        found = published_study(found)
    if not isinstance(kind, str) or kind not in KINDS:
        raise SchemaError(f"A study file needs a `kind`, one of: {', '.join(KINDS)}.")
    return KINDS[kind].from_dict(found)


def load_study(path: Path | str, *, published: bool = False, to_plan: bool = False) -> Study:
    """Read a study file (YAML or JSON); `published` is its `as_published: true`, said elsewhere. `to_plan`: it may lack
    a plan and a mechanism."""
    try:
        found = read_yaml(Path(path))
        if to_plan and isinstance(found, Mapping) and found.get("kind") == PoolStudy.kind:
            found = {"mechanism": {"name": MADE_UP}, **found}
        if published and isinstance(found, Mapping):
            found = {**found, AS_PUBLISHED: True}
        return study_from_dict(found)
    except SfumatoError as error:
        raise type(error)(f"{path}: {error}") from None


def load_survey(file: SurveyStudy | Path | str, *, published: bool = False) -> SurveyStudy:
    """The survey in a file, or as it is given; `published` is the file's `as_published: true`, said elsewhere."""
    if isinstance(file, SurveyStudy):
        return file
    path = Path(file)
    if not path.is_file():
        raise UsageError(f"There is no survey file {path}.")
    survey = load_study(path, published=published)
    if not isinstance(survey, SurveyStudy):
        raise SchemaError(f"{path} describes another kind of study. A survey begins with `kind: survey`.")
    return survey
