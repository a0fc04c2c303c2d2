"""Queries: types over all rows, and no password or cell in any message."""

from __future__ import annotations

import datetime
import sqlite3
import sys

import pytest

from sfumato.core.errors import TableError, UsageError
from sfumato.table import Encoding, Schema, SqlQuery, open_table

pytestmark = pytest.mark.filterwarnings("ignore::sfumato.core.errors.PrivacyLeakWarning")


@pytest.fixture
def url(tmp_path) -> str:
    with sqlite3.connect(tmp_path / "t.db") as base:
        base.execute("create table t (a integer, b, c text, label text)")
        base.executemany(
            "insert into t values (?, ?, ?, ?)",
            [(i, i if i < 400 else i + 0.5, None if i % 5 else f"w{i % 3}", "xy"[i % 2]) for i in range(500)],
        )
    return f"sqlite:///{tmp_path / 't.db'}"


def test_types_hold_for_all_rows(url):
    table = open_table(SqlQuery(url, "select * from t"))
    assert {f.name: str(f.type) for f in table.arrow_schema} == {
        "a": "int64",
        "b": "double",
        "c": "string",
        "label": "string",
    }
    assert [b.num_rows for b in table.blocks(rows=200)] == [200, 200, 100]


def test_from_query_to_matrix(url):
    query = SqlQuery(url, "select b, c, label from t")
    encoding = Encoding(Schema.infer(query, "label"))
    X = encoding.encode(open_table(query).read()).X
    assert X.shape == (500, 5)
    assert X.min() == 0
    assert X.max() == 1


def test_an_empty_answer_still_has_columns(url):
    table = open_table(SqlQuery(url, "select a, c from t where a < 0"))
    assert table.names == ("a", "c")
    assert table.read().num_rows == 0


@pytest.mark.parametrize("query", ["select nothing from t", "selekt", "create table u (a integer)"])
def test_a_query_that_fails(url, query):
    with pytest.raises(TableError, match="The query at sqlite"):
        open_table(SqlQuery(url, query)).read()


def test_a_database_that_is_not_there_is_not_made(tmp_path):
    with pytest.raises(TableError, match="no such file"):
        open_table(SqlQuery(f"sqlite:///{tmp_path}/missing.db", "select 1")).read()
    assert list(tmp_path.iterdir()) == []


def test_passwords_are_never_shown(tmp_path):
    query = SqlQuery(f"sqlite://me:hunter2@/{tmp_path}/none/t.db?password=hunter3", "select 1")
    assert "hunter" not in repr(query)
    with pytest.raises((TableError, UsageError)) as caught:
        open_table(query).read()
    assert "hunter" not in str(caught.value)


@pytest.mark.parametrize(("url", "words"), [("not a url", "cannot be understood"), ("nosuch://x/y", "does not know")])
def test_wrong_urls(url, words):
    with pytest.raises(UsageError, match=words):
        open_table(SqlQuery(url, "select 1")).read()


def test_without_sqlalchemy_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "sqlalchemy", None)
    with pytest.raises(UsageError, match=r"sfumato\[sql\]"):
        open_table(SqlQuery("sqlite://", "select 1"))


def test_bytes_are_refused(url):
    with pytest.raises(TableError, match="'a' holds values of the type bytes"):
        open_table(SqlQuery(url, "select x'00ff' as a")).read()


def test_dates_and_numbers_share_only_text():
    import pyarrow as pa

    from sfumato.table.statistical import _converted, _wider

    assert _wider(pa.int64(), pa.float64()) == pa.float64()
    assert _wider(pa.date32(), pa.timestamp("us")) == pa.timestamp("us")
    assert _wider(pa.int64(), pa.date32()) == pa.string()
    assert _wider(pa.bool_(), pa.int64()) == pa.string()
    aware = datetime.datetime(2020, 1, 1, 2, tzinfo=datetime.timezone(datetime.timedelta(hours=2)))
    assert _converted(aware, pa.timestamp("us")) == datetime.datetime(2020, 1, 1)
