"""Every mechanism against every adversary: cells are kept, the audited epsilon stays below the claimed one."""

from __future__ import annotations

import json
import math
import warnings

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import OutputError, TableError, UsageError
from sfumato.jobs.comparing.audited import audited_epsilon, told_apart, worst_pair
from sfumato.report.comparison import render_comparison
from sfumato.table import Encoding

KNOWN = {"source": "public", "reason": "the form"}
SCHEMA = sf.Schema(
    (
        sf.Column("age", "integer", low=0, high=100, **KNOWN),
        sf.Column("ward", "categorical", categories=("a", "b", "c"), **KNOWN),
        sf.Column("ill", "categorical", role="label", categories=("no", "yes"), **KNOWN),
    )
)


def people(rows=60, seed=0):
    rng = np.random.default_rng(seed)
    ill = rng.random(rows) < 0.5
    age = np.clip(np.rint(40 + 30 * ill + rng.normal(0, 8, rows)), 0, 100).astype(int)
    return pa.table({"age": age, "ward": rng.choice(["a", "b", "c"], rows), "ill": np.where(ill, "yes", "no")})


@pytest.mark.parametrize("epsilon", [0.5, 1.5])
def test_the_audited_epsilon_of_one_randomized_bit_comes_near_the_truth_and_not_above(epsilon):
    rng, keep = np.random.default_rng(1), math.exp(epsilon) / (1 + math.exp(epsilon))
    first, second = (rng.random((8_000, 1)) < share for share in (1 - keep, keep))
    found = told_apart(first.astype(float), second.astype(float))
    assert 0.7 * epsilon < found <= epsilon


def test_a_mechanism_that_claims_too_little_is_found_out():
    """Noise for epsilon 4 and a claim of 1: the experiment must say more than 1."""
    found = audited_epsilon("additive-noise", {"epsilon_record": 4.0}, SCHEMA, people(), seed=1)
    assert 1.3 < found <= 4.0
    honest = audited_epsilon("square-wave", {"epsilon_record": 1.0}, SCHEMA, people(), seed=1)
    assert 0.2 < honest <= 1.0


def test_the_worst_pair_differs_in_everything():
    first, second = worst_pair(Encoding(SCHEMA))
    np.testing.assert_array_equal(first, [0, 1, 0, 0])
    np.testing.assert_array_equal(second, [1, 0, 0, 1])


def compared(out, **words):
    chosen = {"mechanisms": ["square-wave", "condensation"], "attacks": ["naive-estimate", "membership"], "workers": 1}
    return sf.compare(people(), out, schema=SCHEMA, strengths=(0.4, 0.8), splits=1, **{**chosen, **words})


def test_cells_are_kept_and_used_again_and_the_page_shows_them(tmp_path, monkeypatch):
    out = tmp_path / "c"
    found = compared(out)
    assert len(found.data["settings"]) == 4
    wave = next(one for one in found.data["settings"] if one["mechanism"] == "square-wave")
    assert wave["kind"] == "local-dp"
    assert wave["audited_epsilon"] <= wave["epsilon"]
    assert not any(one.get("above_claim") for one in found.data["settings"])
    assert all((path.stat().st_mode & 0o077) == 0 for path in out.rglob("*") if path.is_file())
    rows = found.table.to_pylist()
    assert {row["kind"] for row in rows} >= {"gain", "accuracy", "majority", "ceiling", "epsilon"}
    page = (out / "compare.html").read_text()
    assert "<script" not in page
    assert "square-wave" in page

    def never(*_):
        raise AssertionError("a kept cell was computed again")

    monkeypatch.setattr("sfumato.jobs.compare.run_cell", never)
    assert compared(out).data["settings"] == found.data["settings"]
    with pytest.raises(OutputError, match="another table"):
        compared(out, attacks=["membership"])


def test_an_epsilon_that_was_audited_above_its_claim_is_shouted(tmp_path):
    data = compared(tmp_path / "c").data
    wrong = json.loads(json.dumps(data))
    wrong["settings"][0] |= {"audited_epsilon": 9.0, "epsilon": 1.0, "above_claim": True}
    assert "AUDITED ABOVE CLAIMED" in render_comparison(wrong)
    assert "AUDITED ABOVE CLAIMED" not in render_comparison(data)


def test_what_cannot_be_compared_is_refused(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(TableError, match="at least 40 rows"):
            sf.compare(people(3), tmp_path / "a", label="ill")
    for words in ({"mechanisms": ["magic"]}, {"attacks": ["magic"]}, {"learners": ["magic"]}, {"splits": 0}):
        with pytest.raises(UsageError):
            sf.compare(people(), tmp_path / "b", schema=SCHEMA, **words)
    assert not (tmp_path / "b").exists()
