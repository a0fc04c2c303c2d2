"""Tables and wishes that others would fall over, tried on the command line: each is served or refused with a reason."""

import json

import numpy as np
import pandas as pd
import pytest

from sfumato.api.cli.app import app
from sfumato.api.cli.console import run_guarded
from sfumato.table import Column, Schema

PUBLIC = {"source": "public", "reason": "the codebook"}


def table(rows, columns=3, classes=2):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.random((rows, columns)).round(3), columns=[f"x{j}" for j in range(columns)])
    return frame.assign(y=rng.integers(0, classes, rows))


def schema(frame, classes=2, missing=False, categories=(), **source):
    source = source or PUBLIC
    found = [
        Column(name, "categorical", categories=categories, **source)
        if name == "town"
        else Column(name, "numeric", low=0.0, high=1.0, missing=missing, **source)
        for name in frame.columns[:-1]
    ]
    labels = tuple(str(code) for code in range(classes))
    return Schema((*found, Column("y", "categorical", role="label", categories=labels, **source)))


@pytest.fixture
def say(tmp_path, capsys):
    def said(frame, schema, *words, epsilon="1"):
        frame.to_csv(tmp_path / "t.csv", index=False)
        schema.save(tmp_path / "s.yaml")
        call = ["sanitize", str(tmp_path / "t.csv"), "--schema", str(tmp_path / "s.yaml"), "--epsilon", epsilon]
        call += ["--mechanism", "tree-resampling", "--ledger", str(tmp_path / "ledger.json"), "--json"]
        code = run_guarded(app, [*call, "--out", str(tmp_path / "r"), "--force", *words])
        printed = capsys.readouterr()
        return code, json.loads(printed.out) if printed.out else printed.err

    return said


@pytest.mark.parametrize(
    ("frame", "more"),
    [
        (table(3), {}),
        (table(300).assign(y=0), {}),
        (table(800, classes=40), {"classes": 40}),
        (table(120, columns=300), {}),
        (table(300).assign(x0=0.5, x1=0.0), {}),
        (table(300).assign(x0=np.nan, x1=np.nan, x2=np.nan), {"missing": True}),
    ],
    ids=["3 rows", "one class", "40 classes", "300 columns", "constant columns", "all missing"],
)
def test_strange_tables_are_served(say, frame, more):
    code, told = say(frame, schema(frame, **more))
    assert code == 0
    assert told["guarantee"]["kind"] == "central-dp"
    assert told["rows"] >= 1
    assert told["clipped"] == {}


def test_thousands_of_categories_are_drawn_as_far_as_noise_lets_them(say):
    towns = tuple(f"t{j}" for j in range(5_000))  # most of them nobody has
    rng = np.random.default_rng(1)
    frame = table(500, columns=1).assign(town=[towns[0] if u < 0.5 else towns[int(5_000 * u)] for u in rng.random(500)])
    frame = frame[["x0", "town", "y"]]
    code, told = say(frame, schema(frame, categories=towns), epsilon="4")
    assert code == 0
    assert told["notes"]["categories_that_noise_hides_and_no_row_has"].startswith("town (4,")


def test_hardly_any_budget_says_what_is_left(say):
    frame = table(300)
    code, told = say(frame, schema(frame), epsilon="0.001")
    assert code == 0
    assert (
        "noise may hide the table, so that released rows say hardly more than the schema"
        in told["notes"]["too_little_budget"]
    )
    assert "too_little_budget" not in say(frame, schema(frame), epsilon="4")[1]["notes"]


def test_too_much_budget_is_no_protection(say):
    frame = table(300)
    code, told = say(frame, schema(frame), epsilon="100")
    assert code == 0
    assert told["guarantee"]["words"].startswith("Practically unprotected, formally bounded: epsilon ")


@pytest.mark.parametrize(
    ("words", "more", "code", "match"),
    [
        (("--delta", "0.005"), {}, 2, "well below one over the number of rows"),
        ((), {"source": "learned"}, 4, "public bounds, categories and classes"),
        (("--param", "parents=3"), {}, 2, "must be 1 or 2"),
        (("--rows", "5", "--param", "rows=6"), {}, 2, "--rows is given twice"),
    ],
    ids=["delta above 1/n", "no public bounds", "three parents", "rows twice"],
)
def test_what_cannot_be_claimed_is_refused(say, words, more, code, match):
    frame = table(300)
    found, said = say(frame, schema(frame, **more), *words)
    assert found == code
    assert match in " ".join(str(said).split())


def test_a_column_that_the_table_lacks_is_missed_even_without_a_row(say):
    """No cell is told by that: a wrong file would be charged and released, as rows that are proved."""
    whole = table(300)
    for frame in (whole.drop(columns="x1"), whole.drop(columns="x1")[:0]):
        code, said = say(frame, schema(whole))
        assert (code, "no column 'x1'" in said) == (4, True)
