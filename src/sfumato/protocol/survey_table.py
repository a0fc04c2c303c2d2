"""A survey as a table: its questions as columns, plain answers as rows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sfumato.errors import SchemaError
from sfumato.protocol.survey_file import SurveyStudy
from sfumato.table import Column, Encoding, Schema

REASON = "the choices stand in the survey file, which everybody reads before answering"


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


def population_of(survey: SurveyStudy, table: pa.Table) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Plain answers of a table whose columns are called like the questions: choice numbers, and classes."""
    asked = (*survey.questions, survey.label)
    absent = [question.name for question in asked if question.name not in table.column_names]
    if absent:
        raise SchemaError(f"The table has no column {absent[0]!r}, which the survey asks.")
    columns = []
    for question in asked:
        answers = table[question.name].to_pylist()
        if any(answer is None for answer in answers):
            raise SchemaError(f"The column {question.name!r} has empty cells. Leave those rows out.")
        columns.append([question.choice_of(answer) for answer in answers])
    return np.array(columns[:-1], dtype=np.int64).T, np.array(columns[-1], dtype=np.int64)


def answers_in_words(survey: SurveyStudy, table: pa.Table) -> pa.Table:
    """The same answers as the schema's categories: numbers become the intervals that they fall into."""
    codes, classes = population_of(survey, table)
    asked = (*survey.questions, survey.label)
    columns = {}
    for question, chosen in zip(asked, [*codes.T, classes], strict=True):
        words = np.array([choice.value for choice in question.choices], dtype=object)
        columns[question.name] = pa.array(words[chosen], type=pa.string())
    return pa.table(columns)
