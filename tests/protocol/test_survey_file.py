"""Survey files: what a person writes by hand is read, and every mistake is told apart."""

from __future__ import annotations

import copy
import datetime
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sfumato.core.errors import SchemaError
from sfumato.study.protocol.study_file import load_study
from sfumato.study.protocol.survey_file import SurveyStudy

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
        {"balance": False},
        {"k": 2},
        {"closes": None},
        {"by": "Somebody else"},
        {"consent": "Yes."},
        {"invitations": True},
        {"start_up": [[0, 1, 1, 0]]},
        {"witnesses": ["https://witness.example"]},
    ):
        hashes.add(survey(**change).hash)
    assert len(hashes) == 14
    assert survey(balance=True, k=None).hash == survey().hash, "files without them keep their hash"


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
        ({"k": 9}, "`k` must be a whole number from 1 to 8"),
        ({"balance": "no"}, "`balance` must be true or false"),
        ({"questions": [{"name": "a", "choices": ["one"]}]}, "2 to 500"),
        ({"questions": [{"name": "a", "choices": list(range(501))}]}, "2 to 500"),
        ({"questions": [{"name": "a", "kind": "yesno"}, {"name": "a", "kind": "yesno"}]}, "Two questions"),
        ({"questions": [{"name": "a", "kind": "number"}]}, "needs `edges`"),
        ({"questions": [{"name": "a", "kind": "number", "edges": [2, 1]}]}, "must increase"),
        ({"questions": [{"name": "a", "choices": ["x", "x"]}]}, "same value"),
        ({"questions": [{"name": "a", "kind": "yesno", "text": {"en": "A"}}]}, "'de'"),
        ({"questions": [{"name": f"q{n}", "choices": list(range(500))} for n in range(5)]}, "at most 2000 are"),
        (
            {
                "questions": [{"name": "a", "choices": list(range(300))}],
                "label": {"name": "b", "choices": list(range(100))},
            },
            "at most 282 are possible where the question to predict has 100",
        ),
        ({"closes": datetime.datetime(2027, 1, 31, 12)}, "Got 2027-01-31 12:00:00 instead"),
        ({"label": None}, "needs a `label`"),
        ({"label": {"name": "town", "classes": ["a", "b"]}}, "also one of the questions"),
        ({"label": {"name": "a", "kind": "number", "edges": [1]}}, "must be a choice"),
        ({"floor": 0.6}, "a number from 0 to"),
        ({"floor": "high"}, "`floor` must be a number"),
        ({"mu": -1}, "a number from 0 to"),
        ({"mu": float("nan")}, "a number from 0 to"),
        ({"mu": 10**400}, "a number from 0 to"),
        ({"batch": 0}, "whole number"),
        ({"batch": 10**6}, "whole number"),
        ({"invitations": "no"}, "true or false"),
        ({"start_up": [[True, 0, 0, 0]]}, "Row 1"),
        ({"questions": [{"name": "a", "kind": "number", "edges": [10**400]}]}, "must be numbers"),
        ({"questions": [{"name": "a", "kind": "number", "edges": ["3"]}]}, "must be numbers"),
        ({"link": "cubic"}, "one of square, linear"),
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


def test_large_numbers_are_written_out_and_none_is_too_large_for_an_error() -> None:
    income = survey(questions=[{"name": "income", "kind": "number", "edges": [100_000, 1_500_000]}]).questions[0]
    assert [choice.value for choice in income.choices] == ["below 100000", "100000 to 1500000", "1500000 or more"]
    with pytest.raises(SchemaError, match="must be a number"):
        income.choice_of(10**400)


@pytest.mark.parametrize("line", ["closes: 2027-02-31", f"batch: {'9' * 5000}"])
def test_dates_and_numbers_that_do_not_exist_are_one_clear_line(line: str, tmp_path: Path) -> None:
    file = tmp_path / "survey.yaml"
    file.write_text(f"kind: survey\n{line}\n")
    with pytest.raises(SchemaError, match="does not exist"):
        load_study(file)


def test_the_example_of_the_guide_is_a_survey(tmp_path: Path) -> None:
    guide = (Path(__file__).resolve().parents[2] / "docs" / "survey.md").read_text(encoding="utf-8")
    file = tmp_path / "survey.yaml"
    file.write_text(guide.split("```yaml\n")[1].split("```")[0], encoding="utf-8")
    found = load_study(file)
    assert isinstance(found, SurveyStudy)
    assert [question.name for question in found.questions] == ["nights", "hours", "aid"]


def test_start_up_rows_are_counted_and_dropped() -> None:
    given = survey(start_up=[[0, 1, 0, 0], [1, 2, 0, 1]])
    told = given.to_dict()["start_up"]
    assert told["classes"]["0"]["n"] == told["classes"]["1"]["n"] == 1
    assert SurveyStudy.from_dict(given.to_dict()) == given
    assert SurveyStudy.from_dict(given.to_dict()).hash == given.hash
    assert given.hash != survey().hash


@pytest.mark.parametrize(
    "spoil",
    [
        lambda counts: counts.pop("width"),
        lambda counts: counts.update(rows=[[0, 1, 0, 0]]),
        lambda counts: counts.update(width=3),
        lambda counts: counts.update(classes={}),
        lambda counts: counts["classes"].update({"9": counts["classes"]["0"]}),
        lambda counts: counts["classes"]["0"].update(n=2),  # not every row would have chosen
        lambda counts: counts["classes"]["0"]["upper"].pop(),
        lambda counts: counts["classes"]["0"]["upper"].__setitem__(0, "1"),
    ],
    ids=map(str, range(8)),
)
def test_counts_that_no_rows_have_are_refused(spoil: Callable[[dict[str, Any]], object]) -> None:
    found = survey(start_up=[[0, 1, 0, 0], [1, 2, 0, 1]]).to_dict()
    spoil(found["start_up"])
    with pytest.raises(SchemaError, match="counts in `start_up`"):
        SurveyStudy.from_dict(found)


def test_an_origin_is_a_hash_and_becomes_the_root() -> None:
    before = "sha256:" + "0a" * 32
    assert survey().root == survey().hash
    assert survey(origin=before).root == before
    assert survey(origin=before).hash != survey().hash
    for wrong in ("sha256:0a", 7, before.upper()):
        with pytest.raises(SchemaError, match="origin"):
            survey(origin=wrong)


def test_a_survey_as_published_orders_by_value_and_has_no_floor(tmp_path: Path) -> None:
    path = tmp_path / "survey.yaml"
    plain = {key: value for key, value in survey().to_dict().items() if key not in ("order", "floor", "link")}
    path.write_text(json.dumps(plain))
    found = load_study(path, published=True)
    assert isinstance(found, SurveyStudy)
    assert (found.order, found.balance, found.floor, found.link) == ("value", False, 0.0, "square")
    path.write_text(json.dumps(plain | {"floor": 0.1}))
    with pytest.raises(SchemaError, match=r"a survey has floor=0\.0"):
        load_study(path, published=True)
