"""What was read off a table is known again: as it is, rounded in any direction, as a date; other numbers are not."""

import json
import stat
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.core.errors import CardError
from sfumato.ledger.memories import ReadOff, shared_ends, table_ends
from sfumato.table import Column, Schema


def number(low, high, name="x", **more):
    return Column(name, "numeric", low=low, high=high, **more)


@pytest.fixture
def memory(tmp_path):
    return ReadOff(tmp_path / "ledger.json")


def copied(memory, low, high):
    return memory.copied_ends(number(low, high))


@pytest.mark.parametrize("high", [97.213, 97.21, 97.22, 97.2, 97.3, 97, 98, 95, 96, 90, 100, 97.0])
def test_a_number_is_known_with_fewer_digits_and_rounded_either_way(memory, high):
    memory.remember([number(12.347, 97.213)], shown=True)
    assert copied(memory, -1000, high) == ["high"]


@pytest.mark.parametrize(("low", "high"), [(-100, 400), (0, 120), (11.9, 97.1), (1, 200), (7, 99.5)])
def test_other_numbers_are_not(memory, low, high):
    memory.remember([number(12.347, 97.213)], shown=True)
    assert copied(memory, low, high) == []


@given(
    value=st.decimals(-99999, 99999, places=4).filter(lambda v: v != 0),
    digits=st.integers(1, 6),
    way=st.sampled_from(["ROUND_FLOOR", "ROUND_CEILING", "ROUND_HALF_EVEN", "ROUND_DOWN", "ROUND_UP"]),
)
def test_every_rounding_to_some_digits_is_known(tmp_path_factory, value, digits, way):
    place = value.adjusted() - digits + 1
    rounded = float((value.scaleb(-place)).to_integral_value(way) * Decimal(10) ** place)
    if rounded == 0:
        return
    memory = ReadOff(tmp_path_factory.mktemp("ledger") / "ledger.json")
    memory.remember([number(float(value), 1e9)], shown=True)
    assert memory.copied_ends(number(rounded, 2e9)) == ["low"]


def test_zero_is_known_only_where_it_was_read(memory):
    memory.remember([number(0.42, 97.2)], shown=True)
    assert copied(memory, 0, 200) == []
    memory.remember([number(0, 97.2)], shown=True)
    assert copied(memory, 0, 200) == ["low"]


def test_whole_numbers_and_other_columns(memory):
    memory.remember([Column("age", "integer", low=17, high=93)], shown=True)
    assert memory.copied_ends(Column("age", "integer", low=17, high=120)) == ["low"]
    assert memory.copied_ends(number(17.0, 120.0, "age")) == ["low"]  # another kind is no disguise
    assert memory.copied_ends(Column("years", "integer", low=17, high=93)) == []


@pytest.mark.parametrize(
    "low", ["2003-12-17", "2003-12-01", "2003-12-31", "2004-01-01", "2003-01-01", "2000-01-01", "2010-01-01"]
)
def test_a_date_is_known_as_the_end_of_its_month_year_or_decade(memory, low):
    memory.remember([Column("when", "date", low="2003-12-17", high="2019-02-28")], shown=True)
    assert memory.copied_ends(Column("when", "date", low=low, high="2031-07-07")) == ["low"]
    assert memory.copied_ends(Column("when", "date", low="1995-01-01", high="2031-07-07")) == []


def test_the_file_is_private_and_holds_no_value(memory):
    memory.remember([number(12.347, 97.213), Column("sex", "categorical", categories=("f", "m"))], shown=True)
    assert stat.S_IMODE(memory.path.stat().st_mode) == 0o600
    text = memory.path.read_text()
    for word in ("12.3", "97.2", '"x"', "sex"):
        assert word not in text
    other = ReadOff(memory.path.with_name("other"))
    other.remember([number(12.347, 97.213)], shown=True)
    assert not set(json.loads(text)["hashes"]) & set(json.loads(other.path.read_text())["hashes"])  # keyed


def test_it_is_found_again_and_a_damaged_one_is_named(memory):
    memory.remember([number(1.5, 2.5)], shown=False)
    again = ReadOff(memory.path.with_name("ledger.json"))
    assert again.equal_ends(number(1.5, 3)) == ["low"]
    assert again.can_compare(number(0, 1))
    assert not again.was_shown(number(0, 1))
    memory.path.write_text("{}")
    with pytest.raises(CardError, match="what was read"):
        ReadOff(memory.path.with_name("ledger.json"))


def test_public_ranges_that_end_where_the_table_does():
    known = {"source": "public", "reason": "a form"}
    schema = Schema(
        (
            number(0, 97.2, "a", **known),
            number(0, 100, "b", **known),
            number(1, 2, "c"),
            Column("d", "date", low="2001-01-01", high="2002-01-01", **known),
        )
    )
    days = np.array(["2001-01-01", "2001-11-30"], dtype="datetime64[D]").astype(float)
    own = table_ends(schema, {"a": (0.0, 97.2), "b": (3.0, 99.0), "c": (1.0, 2.0), "d": tuple(days)})
    assert shared_ends(schema, own) == {"a": ["low", "high"], "d": ["low"]}
    assert shared_ends(schema, table_ends(schema, {"a": (-np.inf, 97.2)})) == {}
