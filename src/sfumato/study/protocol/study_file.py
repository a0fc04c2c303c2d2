"""Study files: what a study asks of everybody who takes part, whatever its kind, and when it takes a release."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from sfumato.channels.recipe import Measurement
from sfumato.core.accepted import as_published
from sfumato.core.errors import SchemaError, SfumatoError, TableError, UsageError
from sfumato.core.files import other_version
from sfumato.core.wording import first_names, listed
from sfumato.guarantee import Card, Guarantee
from sfumato.guarantee.card import EXPERIMENT, NOT_FOR_RELEASE, recomputed, understatement
from sfumato.guarantee.guarantee import CENTRAL_DP
from sfumato.guarantee.rounding import rounded_up
from sfumato.learn.classifiers.factory import CLASSIFIERS, choose_classifier, read_choice
from sfumato.mechanisms import MECHANISMS, Mechanism, find_mechanism, make_mechanism
from sfumato.mechanisms.base import count_of
from sfumato.mechanisms.principal_laplace import NAMES
from sfumato.noise import Streams
from sfumato.release.asked import Presence
from sfumato.release.strength import MADE_UP, leaves_strength_open
from sfumato.study.protocol.agreed import must
from sfumato.study.protocol.pool_study import DEFAULT_CLASSIFIERS, PoolStudy, trains
from sfumato.study.protocol.survey_file import SurveyStudy
from sfumato.table import Column, Encoding, Schema
from sfumato.table.schema import read_yaml
from sfumato.table.statistics import Statistics

# `as_published: true` in a study file: the papers' own variants, written out before the file is read.
#
# What follows from it stands in the study that everybody compares by its hash; the word itself does not.

AS_PUBLISHED = "as_published"
SURVEY = {"order": "value", "balance": False, "floor": 0.0, "link": "square"}
"""Guidance by the eigenvalues' own order, classes as large as they are, and no floor [guided-survey]."""


def published_study(found: Mapping[str, Any]) -> dict[str, Any]:
    """The same study with the word written out."""
    study = dict(found)
    published = study.pop(AS_PUBLISHED)
    must(isinstance(published, bool), "`as_published` must be true or false.")
    try:
        if not published:
            return study
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
    study = dict(found) if isinstance(found, Mapping) else {}
    if "version" in study:  # left out where it is 1, so that hashes stay what they are
        why = other_version(study.pop("version"), VERSION, older="Ask the study's owner for a new one.")
        must(not why, f"The study file {why}")
    if AS_PUBLISHED in study:
        study = published_study(study)
    kind = study.get("kind")
    must(isinstance(kind, str) and kind in KINDS, f"A study file needs a `kind`, one of: {', '.join(KINDS)}.")
    return KINDS[str(kind)].from_dict(study)


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


# When a study takes a release: the same rules at the site, before anything leaves it, and at the server; and, when a
# study is made, whether any release could follow them.

MAP_FIELDS = ("kind", "low", "high", "categories", "edges", "missing")
"""What decides how a column's values become numbers; reasons and weights may differ between sites."""

COUNTS_TRAIN = "Sites of this study push noisy counts to train on. Give public rows to test with: `sfumato study test`."


def objections(study: PoolStudy, card: Card) -> list[str]:
    """Every reason to refuse a release with this card, in words; empty where there is none."""
    try:
        found = list(_schema(study, card))
        if not found:  # the rest is computed on the card's schema, which is now known to be the study's
            found = [*_made(study, card), *_guaranteed(study, card)]
    except SfumatoError as error:
        return [str(error)]
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        return ["The card cannot be understood: it was edited or is damaged."]
    return found


def _schema(study: PoolStudy, card: Card) -> Iterator[str]:
    expected, found = _travelling(study.schema), _travelling(Schema.from_dict(card.source_schema))
    if [(column.name, column.role) for column in found] != [(column.name, column.role) for column in expected]:
        yield (
            f"The release's columns are not the study's: expected {_names(expected)}, found {_names(found) or 'none'}. "
            "Sanitize with the study's schema."
        )
        return
    for column, wanted in zip(found, expected, strict=True):
        for field in MAP_FIELDS:
            if getattr(column, field) != getattr(wanted, field):
                yield f"Column {wanted.name!r}: {field!r} differs from the study's. Sanitize with the study's schema."
        if wanted.noise is not None and column.choices != wanted.choices:
            yield f"Column {wanted.name!r}: its `noise` is not the study's. Sanitize with the study's schema."
    if card.target is not None:
        yield "The release has a number to predict, which studies do not pool. Sanitize without --target."
    label = card.release_schema["label"]
    if study.schema.label is None:
        return
    if label is None:
        yield f"The release has no label, but the study learns to predict {expected[-1].name!r}."
    elif label["name"] != expected[-1].name or tuple(label["classes"]) != expected[-1].categories:
        yield f"The classes of the column to predict {expected[-1].name!r} are not the study's."


def _travelling(schema: Schema) -> list[Column]:
    """The columns that a card speaks of: the private ones, and the label last."""
    return [*schema.private, *([schema.label] if schema.label else [])]


def _names(columns: Sequence[Column]) -> str:
    return first_names([repr(column.name[:40]) for column in columns], 20)


def _made(study: PoolStudy, card: Card) -> Iterator[str]:
    if card.reproducible:
        way = "--experiment" if card.reproducible == EXPERIMENT else "--seed"
        yield f"The release is not for release: {NOT_FOR_RELEASE[card.reproducible]}. Sanitize again without {way}."
    if study.quota is not None and study.quota.rows is not None and card.rows > study.quota.rows:
        yield f"The release has {card.rows} rows, and the study takes {study.quota.rows} of one site at most."
    if card.mechanism["name"] != study.mechanism:
        yield f"The study asks for {study.mechanism}, and this release was made by another mechanism."
        return
    used = card.mechanism["parameters"]
    for name, wanted in study.parameters_expected().items():
        if name not in used or not same(used[name], wanted):
            yield f"The study fixes the parameter {name}={wanted!r}, but the release was made with another value."
    if study.plan is not None:
        from sfumato.release.check_rows import expected_measurements  # brings SciPy's optimizers with it

        stated, wanted = card.made_by().measured, expected_measurements(study.plan, card)
        if not same_measurements(stated, wanted):
            told = "The card does not state the noise that the study's plan gives for its epsilon and delta."
            yield f"{told} Release again."
    if card.space != study.space:
        yield (
            "The release is in another space than the study's, so its rows cannot be pooled with the others'. "
            "Use the study's schema and the shared key or basis."
        )


def _guaranteed(study: PoolStudy, card: Card) -> Iterator[str]:
    found = recomputed(card)
    if wrong := understatement(card):
        yield f"{wrong} Push the card that `sfumato sanitize` wrote."
    if study.presence is not None:
        yield from _hidden(study.presence, found, card)
    if study.epsilon_record is None:
        return
    weaker = max(found.proved, card.stated_guarantee().proved)
    if math.isinf(weaker):
        reasons = listed(found.in_the_way, 5) or "this mechanism, or what was done to its rows, gives no proof"
        yield f"The study asks for a formal guarantee, but this release has none: {reasons}."
    elif weaker > study.epsilon_record * (1 + 1e-9):
        yield (
            f"The study asks for an epsilon of at most {study.epsilon_record:.9g} for the record, and this release has "
            f"{rounded_up(weaker, 9)}. Ask `sfumato sanitize` for epsilon_record={study.epsilon_record:.9g}."
        )


def same_measurements(stated: Sequence[Measurement], wanted: Sequence[Measurement]) -> bool:
    """The same figures were measured as often and with the same noise."""
    return len(stated) == len(wanted) and all(
        (one.what, one.way, one.times) == (other.what, other.way, other.times) and same(one.strength, other.strength)
        for one, other in zip(stated, wanted, strict=True)
    )


def _hidden(asked: Presence, found: Guarantee, card: Card) -> Iterator[str]:
    """Presence costs what the weaker says of what was recomputed and what is stated, at the study's delta."""
    stated = card.stated_guarantee()
    if found.kind != CENTRAL_DP or stated.kind != CENTRAL_DP or found.central is None or stated.central is None:
        reasons = listed(found.in_the_way, 5) or "its rows are not drawn from a noisy model of the table"
        yield f"The study asks for rows that hide who is in the table, but this release does not: {reasons}."
        return
    weaker = max(replace(one, delta=asked.delta).epsilon for one in (found.central, stated.central))
    if weaker > asked.epsilon * (1 + 1e-9):
        yield (
            f"The study asks for an epsilon of at most {asked.epsilon:.9g} at delta {asked.delta:g} for somebody's "
            f"presence, and this release has {rounded_up(weaker, 9)}. Sanitize with the study's file."
        )


def same(one: Any, other: Any) -> bool:
    """Equal, numbers to rounding."""
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in (one, other))
    return math.isclose(one, other, rel_tol=1e-9) if numbers else bool(one == other)


# Whether any site could follow a study: its mechanism is tried on made-up rows before anybody is invited.

WIDEST = 200
"""Encoded columns that a mechanism is tried on: work may grow with their cube, and what is wrong shows in a few."""
ROWS = 60
_BOUND_TO_THE_WIDTH = ("components", "basis", "guidance", "plan")


def rehearse(study: PoolStudy) -> None:
    """Raise a `SchemaError` where no release at all could be made and taken as the study says."""
    known = MECHANISMS[study.mechanism]
    if study.epsilon_record is not None and not known.proves:
        raise SchemaError(
            f"The study asks for a formal guarantee, and {study.mechanism} gives no proof, so no release would be "
            "accepted. Choose another method, or `guarantee: empirical-allowed`."
        )
    _check_presence(study)
    # The study's parameters as a site has them, the strength from its guarantee where they leave it open; no file is
    # looked for.
    parameters = {**(study.presence._asdict() if study.presence else {}), **study.parameters}
    if isinstance(parameters.get("basis"), str) and parameters["basis"] not in NAMES:
        del parameters["basis"]
    if leaves_strength_open(parameters) and study.epsilon_record and "epsilon_record" in known._get_param_names():
        parameters["epsilon_record"] = study.epsilon_record
    schema, tried = _narrowed(study, parameters)
    if schema is not None:
        encoding, mechanism = Encoding(schema), make_mechanism(study.mechanism, tried)
        _explained(lambda: _try(mechanism, encoding))
    # Parameters that settle the strength for all sites must reach what the study asks for; columns only add up.
    asked = study.epsilon_record
    if asked is None or not known.columnwise or leaves_strength_open(study.parameters):
        return
    if "category_epsilon" in known._get_param_names():  # left open, a site may choose it as small as it likes
        parameters = {"category_epsilon": 1e-6, **parameters}
    settled = make_mechanism(study.mechanism, parameters)
    reached = settled.fit_statistics(Statistics.empty(study.encoding.width), study.encoding).guarantee().record
    if reached > asked * (1 + 1e-9):
        raise _too_weak(study, f"{asked:.9g} for the record", reached, "the strength")


def _check_presence(study: PoolStudy) -> None:
    """Hiding who is in the table and blurring what a record says are different claims."""
    must(
        study.presence is None or study.draws,
        f"The study asks for rows that hide who is in the table, and {study.mechanism} blurs records one by one. Use "
        "tree-resampling, or ask for `epsilon_record`.",
    )
    must(
        study.epsilon_record is None or not study.draws,
        f"{study.mechanism} releases made-up rows, and hides who is in the table. Ask for that: "
        "`guarantee: {epsilon: 1.0, delta: 1.0e-6}` instead of `epsilon_record`.",
    )
    if study.presence is None:
        return
    mechanism = make_mechanism(study.mechanism, {**study.presence._asdict(), **study.parameters})
    assert mechanism.planned is not None
    reached = replace(mechanism.planned, delta=study.presence.delta).epsilon
    if reached > study.presence.epsilon * (1 + 1e-9):
        asked = f"{study.presence.epsilon:.9g} at delta {study.presence.delta:g}"
        raise _too_weak(study, asked, reached, "`epsilon` and `delta`")


def _too_weak(study: PoolStudy, asked: str, reached: float, left: str) -> SchemaError:
    words = f"an epsilon of {rounded_up(reached, 9)}" if np.isfinite(reached) else "no epsilon at all"
    return SchemaError(
        f"The study asks for an epsilon of at most {asked}, and its own parameters of {study.mechanism} come to "
        f"{words}. Ask for less, or leave {left} to the guarantee."
    )


def _explained(trial: Any) -> None:
    """Run it; what is wrong with parameters or schema is the study's fault; made-up rows may be wrong."""
    try:
        with warnings.catch_warnings(action="ignore"):
            trial()
    except TableError:
        pass
    except (UsageError, SchemaError) as error:
        raise SchemaError(f"No site could follow the study's method: {error}") from None
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        raise SchemaError(
            "No site could follow the study's method: its parameters have values of the wrong kind."
        ) from None


def _try(mechanism: Mechanism, encoding: Encoding) -> None:
    """On made-up rows of every class, from anywhere in the domain."""
    classes = len(encoding.classes)
    rows, rng = max(ROWS, 3 * classes), np.random.default_rng(0)
    X, y = np.empty((rows, encoding.width)), np.arange(rows, dtype=np.int64) % classes if classes else None
    for group in encoding.groups:
        corners = group.vertices[rng.integers(len(group.vertices), size=rows)]
        inside = not group.is_onehot and not group.has_indicator and not group.is_constant
        X[:, group.start : group.stop] = rng.random((rows, group.width)) if inside else corners
    mechanism.fit(X, y, encoding)
    if mechanism.released(len(X)) <= len(X):  # a count of rows may be any
        mechanism.perturb(X, y, Streams().generator(0, b"rehearsal", b""))


def _narrowed(study: PoolStudy, parameters: dict[str, Any]) -> tuple[Schema | None, dict[str, Any]]:
    """As many of its columns as `WIDEST` allows, and the label, with parameters; None where none is so narrow."""
    left, kept, width = WIDEST, [], study.encoding.width
    if width <= WIDEST:
        return study.schema, parameters
    if "components" in parameters:
        _explained(lambda: count_of(parameters["components"], width, study.mechanism))
    for group in study.encoding.groups:
        if group.width <= left:
            left -= group.width
            kept.append(group.column.name)
    if not kept:
        return None, parameters
    columns = [column for column in study.schema.columns if column.name in kept or column.role == "label"]
    schema = replace(study.schema, columns=tuple(columns))
    tried = {name: value for name, value in parameters.items() if name not in _BOUND_TO_THE_WIDTH}
    if isinstance(tried.get("epsilon_record"), int | float):  # fewer columns share it
        tried["epsilon_record"] *= Encoding(schema).width / width
    return schema, tried
