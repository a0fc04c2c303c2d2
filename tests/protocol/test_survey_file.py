"""Survey files: what a person writes by hand is read, and every mistake is told apart."""

from __future__ import annotations

import copy
import datetime

import pytest

from sfumato.errors import SchemaError
from sfumato.protocol.survey_file import SurveyStudy

SURVEY = {
    "kind": "survey",
    "name": "Habits",
    "by": "Example University",
    "about": {"en": "Twelve questions.", "de": "Zwölf Fragen."},
    "consent": "What you send cannot be withdrawn.",
    "languages": ["en", "de"],
    "questions": [
        {"name": "smokes", "kind": "yesno", "text": {"en": "Do you smoke?", "de": "Rauchen Sie?"}},
        {"name": "age", "kind": "number", "text": "Age", "edges": [30, 45, 60]},
        {"name": "town", "text": "Town", "choices": ["small", {"value": "large", "text": "A large town"}]},
    ],
    "label": {"name": "ill", "text": "Were you ill?", "classes": ["no", "yes"]},
    "closes": "2027-01-31",
}


def survey(**changes: object) -> SurveyStudy:
    return SurveyStudy.from_dict({**copy.deepcopy(SURVEY), **changes})


def test_a_survey_is_read_and_written_back_unchanged() -> None:
    read = survey()
    assert (read.sizes, read.width, read.classes) == ((2, 4, 2), 8, ("no", "yes"))
    again = SurveyStudy.from_dict(read.to_dict())
    assert again == read
    assert again.hash == read.hash


def test_every_field_is_part_of_the_hash() -> None:
    """Respondents compare the hash, so nothing may change under it."""
    hashes = {survey().hash}
    for change in (
        {"floor": 0.2},
        {"mu": 0.2},
        {"batch": 50},
        {"link": "linear"},
        {"order": "value"},
        {"closes": None},
        {"by": "Somebody else"},
        {"consent": "Yes."},
        {"invitations": True},
        {"start_up": [[0, 1, 1, 0]]},
        {"witnesses": ["https://witness.example"]},
    ):
        hashes.add(survey(**change).hash)
    assert len(hashes) == 12


def test_numbers_are_cut_at_their_edges() -> None:
    age = survey().questions[1]
    assert [age.choice_of(value) for value in (29.9, 30, "44", 45, 1000)] == [0, 1, 1, 2, 3]


def test_closing_day_is_the_last_day() -> None:
    assert not survey().closed(datetime.date(2027, 1, 31))
    assert survey().closed(datetime.date(2027, 2, 1))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"questions": []}, "needs a list of `questions`"),
        ({"questions": [{"name": "a", "choices": ["one"]}]}, "2 to 500"),
        ({"questions": [{"name": "a", "choices": list(range(501))}]}, "2 to 500"),
        ({"questions": [{"name": "a", "kind": "yesno"}, {"name": "a", "kind": "yesno"}]}, "Two questions"),
        ({"questions": [{"name": "a", "kind": "number"}]}, "needs `edges`"),
        ({"questions": [{"name": "a", "kind": "number", "edges": [2, 1]}]}, "must increase"),
        ({"questions": [{"name": "a", "choices": ["x", "x"]}]}, "same value"),
        ({"questions": [{"name": "a", "kind": "yesno", "text": {"en": "A"}}]}, "'de'"),
        ({"questions": [{"name": f"q{n}", "choices": list(range(500))} for n in range(9)]}, "at most 4000"),
        ({"label": None}, "needs a `label`"),
        ({"label": {"name": "town", "classes": ["a", "b"]}}, "also one of the questions"),
        ({"label": {"name": "a", "kind": "number", "edges": [1]}}, "must be a choice"),
        ({"floor": 0.6}, "between 0 and"),
        ({"floor": "high"}, "must be a number"),
        ({"mu": -1}, "between 0 and"),
        ({"batch": 0}, "whole number"),
        ({"link": "cubic"}, "square or linear"),
        ({"closes": "tomorrow"}, "must be a date"),
        ({"start_up": [[0, 9, 0, 0]]}, "Row 1"),
        ({"start_up": [[0, 1]]}, "Row 1"),
        ({"witnesses": ["http://elsewhere.example"]}, "https"),
        ({"colour": "red"}, "unknown key"),
        ({"name": ""}, "needs `name`"),
    ],
)
def test_mistakes_are_named(change: dict[str, object], words: str) -> None:
    with pytest.raises(SchemaError, match=words):
        survey(**change)
