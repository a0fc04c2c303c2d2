"""Cells that name several values, and hierarchies."""

import pytest

from sfumato.core.errors import TableError
from sfumato.table import Column
from sfumato.table.cell_sets import categories_of, interval_of, read_hierarchy

AGE = Column("age", "integer", low=0, high=110)
WEIGHT = Column("weight", "numeric", low=-5.0, high=200.0)
DAY = Column("day", "date", low="1970-01-01", high="2030-01-01")
ZIP = Column("zip", "categorical", categories=("90210", "90211", "90301", "100"))
GRADE = Column("grade", "ordinal", categories=("low", "middle", "high"))


@pytest.mark.parametrize(
    ("word", "column", "expected"),
    [
        ("30-39", AGE, (30, 39)),
        ("30 to 39", AGE, (30, 39)),
        ("[30,40)", AGE, (30, 39)),
        ("(29, 39]", AGE, (30, 39)),
        ("[30,40)", WEIGHT, (30, 40)),
        ("-5--1", WEIGHT, (-5, -1)),
        ("-5 - 3", WEIGHT, (-5, 3)),
        ("<30", AGE, (0, 29)),
        ("<=30", AGE, (0, 30)),
        (">= 65", AGE, (65, 110)),
        ("65+", AGE, (65, 110)),
        ("(-inf, 12]", AGE, (0, 12)),
        ("3*", AGE, (30, 39)),
        ("*", AGE, (0, 110)),
        ("{31, 35, 33}", AGE, (31, 35)),
        ("31|35", AGE, (31, 35)),
        ("39-30", AGE, None),
        ("old", AGE, None),
        ("1971", DAY, (365, 729)),
        ("1970-02-**", DAY, (31, 58)),
        ("1970-01-02/1970-01-05", DAY, (1, 4)),
        ("1970-13", DAY, None),
        ("{low, middle}", GRADE, (0, 1)),
        ("*", GRADE, (0, 2)),
    ],
)
def test_intervals(word, column, expected):
    assert interval_of(word, column) == expected


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("902**", (True, True, False, False)),
        ("*", (True, True, True, True)),
        ("*****", (True, True, True, True)),
        ("{90210, 100}", (True, False, False, True)),
        ("90210|90301", (True, False, True, False)),
        ("90200-90299", (True, True, False, False)),
        ("{90210, 5}", None),
        ("77***", None),
        ("somewhere", None),
    ],
)
def test_categories(word, expected):
    assert categories_of(word, ZIP) == expected


class TestHierarchy:
    """ARX's CSV form: value; wider; widest."""

    def test_words_stand_for_what_is_below_them(self, tmp_path):
        (tmp_path / "zip.csv").write_text("90210;Hills;LA\n90211;Hills;LA\n90301;Inglewood;LA\n100;none;none\n")
        found = read_hierarchy(tmp_path / "zip.csv")
        assert categories_of("Hills", ZIP, found) == (True, True, False, False)
        assert categories_of("LA", ZIP, found) == (True, True, True, False)
        (tmp_path / "age.csv").write_text("\n".join(f"{age};{'young' if age < 40 else 'old'};*" for age in range(111)))
        assert interval_of("young", AGE, read_hierarchy(tmp_path / "age.csv")) == (0, 39)

    def test_holes_are_refused_by_line(self, tmp_path):
        (tmp_path / "holes.csv").write_text("1;a;*\n2;;*\n")
        with pytest.raises(TableError, match="line 2 has a hole"):
            read_hierarchy(tmp_path / "holes.csv")
        (tmp_path / "short.csv").write_text("1;a;*\n2;b\n")
        with pytest.raises(TableError, match="needs 3 filled levels"):
            read_hierarchy(tmp_path / "short.csv")
        (tmp_path / "latin.csv").write_bytes("1;caf\xe9;*".encode("latin-1"))
        with pytest.raises(TableError, match="UTF-8"):
            read_hierarchy(tmp_path / "latin.csv")
