"""Records: what fields declare is what is read, and nothing else is believed."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import pytest

from sfumato.core.accepted import Between, Listed, Number, Positive, Text, Whole
from sfumato.core.errors import SchemaError
from sfumato.core.records import APART, BRIEF, FieldError, Key, Record


@dataclass(frozen=True)
class Point(Record):
    x: float
    y: float = 0.0


@dataclass(frozen=True)
class Plan(Record):
    name: Annotated[str, Text(10)]
    count: Annotated[int, Whole(1, 9)]
    share: Annotated[float, Between(0, 1), Key("part")]
    points: tuple[Point, ...] = ()
    way: Literal["near", "far"] = "near"
    checked: Annotated[bool, BRIEF] = False
    scale: Annotated[float | None, BRIEF] = None
    named: dict[str, float] = field(default_factory=dict)
    own: Annotated[Any, APART] = None
    takes_more = False


PLAN = Plan("a", 3, 0.5, (Point(1.0), Point(2.0, 3.0)), "far", True, 2.0, {"b": 1.5})
STATED = {
    "name": "a",
    "count": 3,
    "part": 0.5,
    "points": [{"x": 1.0, "y": 0.0}, {"x": 2.0, "y": 3.0}],
    "way": "far",
    "checked": True,
    "scale": 2.0,
    "named": {"b": 1.5},
}


def test_there_and_back() -> None:
    assert PLAN.to_dict() == STATED
    assert list(PLAN.to_dict()) == list(STATED)  # in the order of the declaration: hashes go by it
    assert Plan.from_dict(json.loads(json.dumps(STATED))) == PLAN


def test_what_is_brief_or_apart_is_left_out() -> None:
    assert Plan("a", 1, 0.0, own=object()).to_dict() == {
        "name": "a",
        "count": 1,
        "part": 0.0,
        "points": [],
        "way": "near",
        "named": {},
    }
    with pytest.raises(FieldError, match="unknown key 'own'"):
        Plan.from_dict({**STATED, "own": 1})


def test_whole_numbers_are_read_as_numbers() -> None:
    found = Plan.from_dict({**STATED, "part": 1})
    assert isinstance(found.share, float)


@pytest.mark.parametrize("wrong", [math.nan, math.inf, True, "1", None, 10**400, [], {}])
@pytest.mark.parametrize("kind", [Number(), Between(-1e300, 1e300), Positive(), Positive(math.inf, or_zero=True)])
def test_no_number(kind: Number, wrong: Any) -> None:
    assert not kind.allows(wrong)
    with pytest.raises(ValueError, match="must be a"):
        kind.read(wrong)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"name": "a" * 11}, "`name` must be text of at most 10 characters"),
        ({"name": 1}, "`name` must be text"),
        ({"count": True}, "`count` must be a whole number from 1 to 9"),
        ({"count": 3.0}, "`count` must be a whole number from 1 to 9"),
        ({"count": 10**400}, "`count` must be a whole number from 1 to 9"),
        ({"part": math.nan}, "`part` must be a number from 0 to 1"),
        ({"points": {"x": 1}}, "`points` must be a list"),
        ({"points": ["x"]}, "`points` must be a list"),
        ({"points": [{"y": 1}]}, "`x` is missing .in `points`."),
        ({"points": [{"x": math.inf}]}, "`x` must be a finite number .in `points`."),
        ({"way": "nearer"}, "`way` must be one of near, far"),
        ({"way": ["near"]}, "`way` must be one of near, far"),
        ({"checked": 1}, "`checked` must be true or false"),
        ({"scale": "1"}, "`scale` must be a finite number or null"),
        ({"named": {"b": True}}, "`named` must be a mapping"),
        ({"named": {1: 1.0}}, "`named` must be a mapping"),
        ({"more": 1}, "it has an unknown key 'more'; it may have: name, count, part"),
    ],
)
def test_what_is_wrong_is_said(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(FieldError, match=said):
        Plan.from_dict({**STATED, **changed})


@pytest.mark.parametrize("found", [None, 1, "name", [STATED]])
def test_what_is_no_object(found: Any) -> None:
    with pytest.raises(FieldError, match="must be a mapping with the keys name, count, part"):
        Plan.from_dict(found)


@pytest.mark.parametrize("lacking", ["name", "count", "part"])
def test_what_is_missing_is_named(lacking: str) -> None:
    with pytest.raises(FieldError, match=f"`{lacking}` is missing") as caught:
        Plan.from_dict({name: value for name, value in STATED.items() if name != lacking})
    assert caught.value.field == lacking


def test_readers_of_messages_pass_over_what_is_newer() -> None:
    assert Point.from_dict({"x": 1, "z": 3}) == Point(1.0)


def test_a_class_says_its_errors_itself() -> None:
    class Own(Point):
        @classmethod
        def refusal(cls, problem: FieldError) -> Exception:
            return SchemaError(f"In the file, {problem}.")

    with pytest.raises(SchemaError, match=r"In the file, `x` is missing\."):
        Own.from_dict({})


def test_how_long_a_list_is() -> None:
    few = Listed(Whole(0, 9), list, least=1, most=2)
    assert few.read([1, 2]) == [1, 2]
    for wrong in ([], [1, 2, 3], [10], "12"):
        with pytest.raises(ValueError, match="must be a list"):
            few.read(wrong)
