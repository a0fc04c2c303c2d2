"""A survey as a table: its questions as columns, plain answers as rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from sfumato.core.array_types import Codes
from sfumato.core.errors import SchemaError
from sfumato.study.protocol.survey_file import Question, SurveyStudy
from sfumato.table import Column, Encoding, Schema

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
        words = [choice.value for choice in question.choices]
        said = [
            question.choice_of(cell) if is_told(cell) else int(code) for cell, code in zip(cells, drawn, strict=True)
        ]
        place = table.column_names.index(question.name)
        filled = _in_intervals(question, said) if question.kind == "number" else [words[code] for code in said]
        table = table.set_column(place, question.name, pa.array(filled))
    return table


def is_told(cell: object) -> bool:
    """Whether a cell holds an answer."""
    return cell is not None and cell != "" and cell == cell


def _in_intervals(question: Question, codes: Sequence[int]) -> list[float]:
    """A number of each interval; the lowest and the highest have one end only."""
    ends = [question.edges[0] - 1.0, *question.edges]
    return [float(ends[code]) for code in codes]


def _choices(question: Question, table: pa.Table) -> list[int]:
    if question.name not in table.column_names:
        raise SchemaError(f"The table has no column {question.name!r}, which the survey asks.")
    answers = table[question.name].to_pylist()
    if any(answer is None for answer in answers):
        raise SchemaError(f"The column {question.name!r} has empty cells. Leave those rows out.")
    return [question.choice_of(answer) for answer in answers]
