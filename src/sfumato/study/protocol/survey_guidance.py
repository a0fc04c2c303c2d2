"""From a survey and its received counts to guidance: a public function, so that anybody can recompute a version."""

from __future__ import annotations

import hashlib
from functools import lru_cache

import numpy as np
import pyarrow as pa

from sfumato.channels.guidance.guidance import (
    ORTHONORMAL,
    Guidance,
    GuidanceError,
    SurveyCounts,
    SurveyRules,
    check_guidance,
    class_difference,
    least_level,
)
from sfumato.core.array_types import Codes, Floats
from sfumato.core.errors import SchemaError
from sfumato.study.protocol.survey_file import RANDOM, Question, SurveyStudy
from sfumato.table import Column, Encoding, Schema

TOLERANCE = 1e-6
"""How far, relative to the largest eigenvalue, recomputed directions may be from those published: eigenvectors of
nearly equal eigenvalues differ between machines, the equation A v = sigma v does not."""


@lru_cache(maxsize=256)
def startup_counts(survey: SurveyStudy) -> SurveyCounts:
    """Counts that the survey starts from: of the owner's rows, or of as many random ones as there are questions [4.1].

    Random rows come from SHA-256 of the survey file, so that everybody gets the same ones: ``SHA-256("hash|place|row")
    mod size`` is the choice of every row, plain enough for any other program.
    """
    space, number = survey.space, max(len(survey.sizes), len(survey.classes))
    if survey.start_up != RANDOM:
        return SurveyCounts.from_json(survey.start_up)
    rows = np.empty((number, len(survey.sizes)), dtype=np.int64)
    for place, size in enumerate(survey.sizes):
        digests = (hashlib.sha256(f"{survey.root}|{place}|{row}".encode()).digest() for row in range(number))
        rows[:, place] = [int.from_bytes(digest[:8], "big") % size for digest in digests]
    return SurveyCounts.of(space.onehot(rows), np.arange(number) % len(survey.classes))


def survey_rules(survey: SurveyStudy) -> SurveyRules:
    """The survey without its questions and people, as a simulation takes it."""
    return SurveyRules(
        survey.batch, survey.mu, survey.order, survey.link, survey.floor, balance=survey.balance, k=survey.k
    )


def guidance_for(survey: SurveyStudy, received: SurveyCounts) -> Guidance:
    """The guidance that follows from everything received so far."""
    return Guidance.from_counts(received, survey_rules(survey), startup_counts(survey))


def inputs_hash(inputs: str) -> str:
    """SHA-256 of published counts, as they are written."""
    return hashlib.sha256(inputs.encode("ascii")).hexdigest()


def verify_guidance(survey: SurveyStudy, inputs: str, V: Floats, k: int) -> None:
    """Whether V is the guidance that the published counts lead to; `GuidanceError` if not.

    Checked are the eigenvalue equation, the order and k*, not the digits of the eigenvectors.
    """
    matrix = check_guidance(V, survey.width, k)
    received = SurveyCounts.from_json(inputs)
    A = class_difference(
        received, link=survey.link, floor=survey.floor, balance=survey.balance, startup=startup_counts(survey)
    )
    values = np.linalg.eigvalsh(A)
    ranked = values[np.argsort(-np.abs(values) if survey.order == "magnitude" else -values, kind="stable")]
    largest = np.abs(values).max()
    if not largest > 0:
        if k != 1 or np.abs(matrix - matrix[0]).max() > ORTHONORMAL:
            raise GuidanceError("The published counts say nothing, so the guidance must be the flat direction.")
        return
    sigmas = np.einsum("ij,ij->j", matrix, A @ matrix)
    if np.abs(A @ matrix - matrix * sigmas).max() > TOLERANCE * largest:
        raise GuidanceError("The guidance is not what its published counts lead to: other directions were sent.")
    shown, expected = (np.abs(sigmas), np.abs(ranked)) if survey.order == "magnitude" else (sigmas, ranked)
    if np.abs(np.sort(shown)[::-1] - expected[:k]).max() > TOLERANCE * largest:
        raise GuidanceError("The guidance leaves out directions that come first in the published counts.")
    if survey.k is not None:
        near = {survey.k}
    else:  # a tie may go either way
        near = {least_level(expected, survey.mu * shift) for shift in (1 - 1e-9, 1.0, 1 + 1e-9)}
    if k not in near:
        raise GuidanceError(f"The published counts lead to level {min(near)}, but {k} was sent.")


# A survey as a table: its questions as columns, plain answers as rows.

REASON = "the choices are in the survey file, which everybody reads before answering"


def survey_encoding(survey: SurveyStudy) -> Encoding:
    """The questions as a schema: public, since the survey declares them."""
    columns = [
        Column(
            question.name,
            "categorical",
            role=role,
            categories=tuple(choice.value for choice in question.choices),
            source="public",
            reason=REASON,
        )
        for question, role in [*((question, "private") for question in survey.questions), (survey.label, "label")]
    ]
    return Encoding(Schema(tuple(columns)))


def population_of(survey: SurveyStudy, table: pa.Table) -> tuple[Codes, Codes]:
    """Plain answers of a table whose columns are called like the questions: choice numbers, and classes."""
    columns = [_choices(question, table) for question in (*survey.questions, survey.label)]
    return np.array(columns[:-1], dtype=np.int64).T, np.array(columns[-1], dtype=np.int64)


def answers_in_words(survey: SurveyStudy, table: pa.Table) -> pa.Table:
    """The same answers as the schema's categories: numbers become their intervals. The label may be missing."""
    labelled = survey.label.name in table.column_names
    columns = {}
    for question in (*survey.questions, survey.label) if labelled else survey.questions:
        words = np.array([choice.value for choice in question.choices], dtype=object)
        columns[question.name] = pa.array(words[_choices(question, table)], type=pa.string())
    return pa.table(columns)


def answered(survey: SurveyStudy, table: pa.Table, seed: int = 0) -> pa.Table:
    """The same people as the survey meets them: who leaves a cell empty prefers not to say, and the device then draws a
    choice, each as likely. The class cannot be left open."""
    rng = np.random.default_rng(seed)
    for question in survey.questions:
        if question.name not in table.column_names:
            continue  # said by who reads the answers
        drawn = rng.integers(len(question.choices), size=table.num_rows)  # of all, so that nothing else moves
        cells = table[question.name].to_pylist()
        if all(map(is_told, cells)):
            continue
        words: list[str | float] = [choice.value for choice in question.choices]
        said = [
            question.choice_of(cell) if is_told(cell) else int(code) for cell, code in zip(cells, drawn, strict=True)
        ]
        place = table.column_names.index(question.name)
        if question.kind == "number":  # one of each interval; the lowest and the highest have one end only
            words = [question.edges[0] - 1.0, *question.edges]
        filled = [words[code] for code in said]
        table = table.set_column(place, question.name, pa.array(filled))
    return table


def is_told(cell: object) -> bool:
    """Whether a cell holds an answer."""
    return cell is not None and cell != "" and cell == cell


def _choices(question: Question, table: pa.Table) -> list[int]:
    if question.name not in table.column_names:
        raise SchemaError(f"The table has no column {question.name!r}, which the survey asks.")
    answers = table[question.name].to_pylist()
    if any(answer is None for answer in answers):
        raise SchemaError(f"The column {question.name!r} has empty cells. Leave those rows out.")
    return [question.choice_of(answer) for answer in answers]
