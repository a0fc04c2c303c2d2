"""Whether any site could follow a study: its mechanism is tried on made-up rows before anybody is invited."""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any

import numpy as np

from sfumato.core.array_types import Codes, Matrix
from sfumato.core.errors import SchemaError, TableError, UsageError
from sfumato.guarantee.rounding import rounded_up
from sfumato.mechanisms import MECHANISMS, Mechanism, ModelDrawing, make_mechanism
from sfumato.mechanisms.base import count_of
from sfumato.mechanisms.basis import NAMES
from sfumato.noise import Streams
from sfumato.release.strength import leaves_strength_open
from sfumato.study.protocol.pool_study import PoolStudy
from sfumato.table import Encoding, Group, Schema
from sfumato.table.statistics import Statistics

WIDEST = 200
"""Encoded columns that a mechanism is tried on: work may grow with their cube, and what is wrong shows in a few."""
ROWS = 60
_BOUND_TO_THE_WIDTH = ("components", "basis", "guidance", "plan")


def rehearse(study: PoolStudy) -> None:
    """Raise a `SchemaError` where no release at all could be made and taken as the study says."""
    if study.epsilon_record is not None and not MECHANISMS[study.mechanism].proves:
        raise SchemaError(
            f"The study asks for a formal guarantee, and {study.mechanism} gives no proof, so no release would be "
            "accepted. Choose another method, or `guarantee: empirical-allowed`."
        )
    _check_presence(study)
    parameters = _as_a_site_has_them(study)
    schema: Schema | None = study.schema
    tried, width = dict(parameters), study.encoding.width
    if width > WIDEST:
        if "components" in parameters:
            _explained(lambda: count_of(parameters["components"], width, study.mechanism))
        schema = _narrowed(study.schema)
        tried = {name: value for name, value in parameters.items() if name not in _BOUND_TO_THE_WIDTH}
        if schema is not None and isinstance(tried.get("epsilon_record"), int | float):  # fewer columns share it
            tried["epsilon_record"] *= Encoding(schema).width / width
    if schema is not None:
        encoding, mechanism = Encoding(schema), make_mechanism(study.mechanism, tried)
        _explained(lambda: _try(mechanism, encoding))
    _check_strength(study, parameters)


def _check_presence(study: PoolStudy) -> None:
    """Hiding who is in the table and blurring what a record says are different claims."""
    hides = study.draws
    if study.presence is not None and not hides:
        raise SchemaError(
            f"The study asks for rows that hide who is in the table, and {study.mechanism} blurs records one by "
            "one. Use tree-resampling, or ask for `epsilon_record`."
        )
    if study.epsilon_record is not None and hides:
        raise SchemaError(
            f"{study.mechanism} releases made-up rows, and hides who is in the table. Ask for that: "
            "`guarantee: {epsilon: 1.0, delta: 1.0e-6}` instead of `epsilon_record`."
        )
    if study.presence is None or not hides:
        return
    mechanism = make_mechanism(study.mechanism, {**study.presence._asdict(), **study.parameters})
    assert isinstance(mechanism, ModelDrawing)
    reached = dataclasses.replace(mechanism.planned, delta=study.presence.delta).epsilon
    if reached > study.presence.epsilon * (1 + 1e-9):
        words = f"an epsilon of {rounded_up(reached, 9)}" if np.isfinite(reached) else "no epsilon at all"
        raise SchemaError(
            f"The study asks for an epsilon of at most {study.presence.epsilon:.9g} at delta {study.presence.delta:g}, "
            f"and its own parameters of {study.mechanism} come to {words} there. Ask for less, or leave `epsilon` and "
            "`delta` to the guarantee."
        )


def _as_a_site_has_them(study: PoolStudy) -> dict[str, Any]:
    """The study's parameters, the strength from its guarantee where they leave it open; no file is looked for."""
    parameters = {**(study.presence._asdict() if study.presence else {}), **study.parameters}
    if isinstance(parameters.get("basis"), str) and parameters["basis"] not in NAMES:
        del parameters["basis"]
    if (
        leaves_strength_open(parameters)
        and study.epsilon_record
        and "epsilon_record" in MECHANISMS[study.mechanism]._get_param_names()
    ):
        parameters["epsilon_record"] = study.epsilon_record
    return parameters


def _explained(trial: Any) -> None:
    """Run it; what is wrong with the parameters or the schema is the study's fault, what with the rows is nobody's."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
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
    X, y = _made_up(encoding)
    mechanism.fit(X, y, encoding)
    if mechanism.released(len(X)) <= len(X):  # a count of rows may be any
        mechanism.perturb(X, y, Streams().generator(0, b"rehearsal", b""))


def _made_up(encoding: Encoding) -> tuple[Matrix, Codes | None]:
    """Rows of every class from anywhere in the domain."""
    classes = len(encoding.classes)
    rows, rng = max(ROWS, 3 * classes), np.random.default_rng(0)
    X = np.empty((rows, encoding.width))
    for group in encoding.groups:
        X[:, group.start : group.stop] = _anywhere(group, rows, rng)
    return X, np.arange(rows, dtype=np.int64) % classes if classes else None


def _anywhere(group: Group, rows: int, rng: np.random.Generator) -> Matrix:
    corners = group.vertices[rng.integers(len(group.vertices), size=rows)]
    if not group.is_onehot and not group.has_indicator and not group.is_constant:
        return rng.random((rows, group.width))
    return np.asarray(corners, dtype=np.float64)


def _narrowed(schema: Schema) -> Schema | None:
    """As many of its columns as `WIDEST` allows, and the label; None where no column is that narrow."""
    left, kept = WIDEST, []
    for group in Encoding(schema).groups:
        if group.width <= left:
            left -= group.width
            kept.append(group.column.name)
    columns = [column for column in schema.columns if column.name in kept or column.role == "label"]
    return dataclasses.replace(schema, columns=tuple(columns)) if kept else None


def _check_strength(study: PoolStudy, parameters: dict[str, Any]) -> None:
    """Parameters that settle the strength for all sites must reach what the study asks for; columns only add up."""
    asked, known = study.epsilon_record, MECHANISMS[study.mechanism]
    if asked is None or not known.columnwise or leaves_strength_open(study.parameters):
        return
    if "category_epsilon" in known._get_param_names():  # left open, a site may choose it as small as it likes
        parameters = {"category_epsilon": 1e-6, **parameters}
    mechanism = make_mechanism(study.mechanism, parameters)
    reached = mechanism.fit_statistics(Statistics.empty(study.encoding.width), study.encoding).guarantee().record
    if reached > asked * (1 + 1e-9):
        words = f"an epsilon of {rounded_up(reached, 9)}" if np.isfinite(reached) else "no epsilon at all"
        raise SchemaError(
            f"The study asks for an epsilon of at most {asked:.9g} for the record, and its own parameters of "
            f"{study.mechanism} come to {words}. Ask for less, or leave the strength to the guarantee."
        )
