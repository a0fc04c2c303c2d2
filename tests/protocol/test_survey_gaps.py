"""An empty cell is "prefer not to say": a choice drawn evenly, as on the respondent's device."""

import numpy as np
import pyarrow as pa
import pytest

from sfumato.core.errors import SchemaError
from sfumato.study.protocol.survey_file import SurveyStudy
from sfumato.study.protocol.survey_guidance import answered, population_of

ROWS = 3_000
SURVEY = SurveyStudy.from_dict(
    {
        "kind": "survey",
        "name": "Habits",
        "by": "A desk",
        "about": "A test.",
        "consent": "Read this.",
        "questions": [
            {"name": "eats", "text": "What?", "choices": ["meat", "fish", "plants"]},
            {"name": "age", "text": "Age?", "kind": "number", "edges": [30, 60]},
        ],
        "label": {"name": "ill", "text": "Ill?", "choices": ["no", "yes"]},
    }
)


def table(**more):
    n = np.arange(ROWS)
    eats = [None if k % 3 == 0 else "meat" for k in n]
    age = [float("nan") if k % 3 == 1 else 70.0 for k in n]
    return pa.table({"eats": eats, "age": pa.array(age), "ill": ["no", "yes"] * (ROWS // 2), **more})


def test_gaps_are_drawn_evenly_and_answers_stay():
    codes, y = population_of(SURVEY, answered(SURVEY, table(), seed=1))
    n = np.arange(ROWS)
    assert (codes[n % 3 != 0, 0] == 0).all()
    assert (codes[n % 3 != 1, 1] == 2).all()
    for drawn in (codes[n % 3 == 0, 0], codes[n % 3 == 1, 1]):
        assert np.bincount(drawn, minlength=3) / len(drawn) == pytest.approx([1 / 3] * 3, abs=0.06)
    assert (y == n % 2).all()
    again, _ = population_of(SURVEY, answered(SURVEY, table(), seed=1))
    assert (again == codes).all()


def test_a_class_cannot_be_left_open_and_a_wrong_answer_is_no_gap():
    with pytest.raises(SchemaError, match="'ill' has empty cells"):
        population_of(SURVEY, answered(SURVEY, table(ill=[None] * ROWS)))
    with pytest.raises(SchemaError, match="'eats' is not one of its choices"):
        answered(SURVEY, table(eats=["stones", *[None] * (ROWS - 1)]))
    with pytest.raises(SchemaError, match="no column 'age'"):
        population_of(SURVEY, answered(SURVEY, table().drop_columns(["age"])))
