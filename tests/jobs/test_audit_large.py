"""A release that is too large to hold is read as a sample, and says so; holes and encodings are told apart."""

import numpy as np
import pandas as pd
import pytest

import sfumato as sf
from sfumato.auditing import read_tables
from sfumato.auditing import read_tables as large_release
from sfumato.auditing.generalised import Generalised
from sfumato.channels import NotApplicableError
from sfumato.core.errors import TableError

RNG = np.random.default_rng(8)
ROWS = 3_000
ORIGINAL = pd.DataFrame({"a": RNG.normal(size=ROWS), "b": RNG.normal(size=ROWS), "c": RNG.choice(list("xyz"), ROWS)})
ORIGINAL["id"] = [f"p{i}" for i in range(ROWS)]
NOISY = ORIGINAL.assign(a=ORIGINAL.a + RNG.normal(0, 0.1, ROWS), b=ORIGINAL.b + RNG.normal(0, 0.1, ROWS))
QUICK = {"attacks": ["naive-estimate"], "repeats": 0, "max_rows": 400}


@pytest.fixture
def small_limits(monkeypatch):
    monkeypatch.setattr(read_tables, "LARGE", 1_000)
    monkeypatch.setattr(large_release, "HEAD", 300)


def told(release, **more):
    return sf.audit(release, original=ORIGINAL, **{**QUICK, **more})


@pytest.mark.usefixtures("small_limits")
def test_a_sample_says_that_it_is_one_and_scores_what_the_whole_does():
    found = told(NOISY.drop(columns="id"), quasi_identifiers=["c"])
    whole = told(NOISY.drop(columns="id"), max_rows=ROWS)
    assert found.data["settings"]["alignment"] == "same-order"
    assert found.data["settings"]["rows_used"] == 400
    assert found.data["release"]["rows"] == ROWS
    assert any("3,000 rows: a random sample of 400" in note for note in found.notes)
    low, high = found.attack("naive-estimate")["interval"]
    assert low <= whole.attack("naive-estimate")["score"] <= high
    assert found.copies["exact"]["rows"] == 400
    assert found.uniqueness["release"]["rows"] == ROWS
    assert found.uniqueness["release"]["k"] == NOISY.groupby("c").size().min()


@pytest.mark.parametrize("names", [{}, {"a": "A"}])
@pytest.mark.usefixtures("small_limits")
def test_rows_in_another_order_are_told_by_an_id_or_not_at_all(names):
    shuffled = NOISY.sample(frac=1, random_state=2).rename(columns=names)
    by_id = told(shuffled, match="id", columns=names)
    assert by_id.data["settings"]["alignment"] == "id"
    whole = told(NOISY.drop(columns="id"), max_rows=ROWS).attack("naive-estimate")["score"]
    low, high = by_id.attack("naive-estimate")["interval"]
    assert low <= whole <= high
    unknown = told(shuffled.drop(columns="id"), columns=names, attacks=None)
    assert unknown.data["settings"]["alignment"] == "unknown"
    assert any("too large to be matched" in note for note in unknown.notes)
    assert unknown.attack("singling-out")["score"] is not None


def test_a_hierarchy_without_a_line_for_a_value_is_refused(tmp_path):
    path = tmp_path / "c.csv"
    path.write_text("x;letter;*\ny;letter;*\n")
    with pytest.raises(TableError, match="no line for 1 of the 3 values"):
        told(ORIGINAL.assign(c="letter"), hierarchies={"c": path})
    path.write_text("x;letter;*\ny;letter;*\nz;letter;*\n")
    assert told(ORIGINAL.assign(c="letter"), hierarchies={"c": path}).copies["exact"]["share"] == 0


def test_an_estimated_channel_is_never_stated():
    with pytest.raises(NotApplicableError, match="never stated"):
        Generalised.from_dict({})
