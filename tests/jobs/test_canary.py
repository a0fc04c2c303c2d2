"""The canary audit: the program as it is stays within its claim, and faults that are planted in it are found."""

import json
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import sfumato as sf
from sfumato.auditing.canary import _part
from sfumato.core.errors import SchemaError, UsageError
from sfumato.ledger import Ledger
from sfumato.mechanisms.central import column_codes, model
from sfumato.mechanisms.tree_resampling import TreeResampling
from sfumato.noise import grid as exact_choice
from sfumato.table import Column, Schema

PUBLIC = {"source": "public", "reason": "the form"}
SCHEMA = Schema(
    (
        Column("a", "numeric", low=0.0, high=1.0, **PUBLIC),
        Column("b", "numeric", low=0.0, high=1.0, **PUBLIC),
        Column("c", "categorical", categories=("x", "y", "z"), **PUBLIC),
        Column("y", "categorical", role="label", categories=("no", "yes"), **PUBLIC),
    )
)


def rows(n=600):
    rng = np.random.default_rng(0)
    a = rng.beta(2, 3, n)
    b = np.clip(a + rng.normal(0, 0.1, n), 0, 1)
    return pd.DataFrame(
        {"a": a, "b": b, "c": rng.choice(list("xyz"), n), "y": np.where(rng.random(n) < a, "yes", "no")}
    )


def audited(**words):
    return sf.canary(rows(), **{"schema": SCHEMA, "epsilon": 4.0, "fits": 120, "seed": 5, **words})


def parts_of(found):
    return {part.what: part for part in found.parts}


def test_the_program_stays_within_its_claim_and_close_to_it():
    found = audited()
    assert not found.above
    assert "Nothing above the claim" in found.in_words()
    parts = parts_of(found)
    released = {"released rows", "released cells"}
    assert set(parts) == {"rows", "edges", "columns", "forest", "pairs", "together"} | released
    for name in ("rows", "columns", "pairs", "released rows"):  # counts are measured as precisely as is paid for
        assert parts[name].low < parts[name].claimed < parts[name].high
    assert parts["columns"].measured > 0.7 * parts["columns"].claimed
    apart = [part.claimed for name, part in parts.items() if name not in released | {"together"}]
    assert parts["together"].claimed == pytest.approx(math.hypot(*apart), rel=1e-6)
    assert Ledger().releases == 0


def test_noise_that_is_30_percent_low_is_found(monkeypatch):
    honest = exact_choice.discrete_gaussian
    monkeypatch.setattr(
        column_codes, "discrete_gaussian", lambda rng, variance, shape: honest(rng, 0.49 * variance, shape)
    )
    found = audited(fits=400)
    assert found.above
    assert found.in_words().startswith("MORE IS TOLD THAN IS CLAIMED")
    assert parts_of(found)["columns"].above


def test_an_exact_number_of_rows_is_found(monkeypatch):
    honest = column_codes.Budget.count

    def leaky(self, what, share, tables):
        noisy = honest(self, what, share, tables)
        if what == "rows":
            self.answers["rows"] = noisy = [tables[0]]
        return noisy

    monkeypatch.setattr(column_codes.Budget, "count", leaky)
    assert parts_of(audited(fits=30))["rows"].above


def remember_truth(monkeypatch, leak):
    """A model that measures as it should, and lets `leak` put what is true into what goes out."""
    measure, drawn = model.TreeModel.measure, model.TreeModel.drawn

    def remembering(self, counts):
        if (0,) in counts.tables:
            self.true_ = counts.tables[(0,)].sum(axis=1)
        measure(self, counts)

    monkeypatch.setattr(model.TreeModel, "measure", remembering)
    monkeypatch.setattr(model.TreeModel, "drawn", lambda self: leak(drawn(self), self.true_))


@pytest.mark.parametrize("where", ["model", "mechanism"])
def test_an_exact_number_that_bypasses_the_answers_is_found(where, monkeypatch):
    """The measured number has its noise, as is claimed; the one that goes out has none."""
    if where == "model":
        remember_truth(monkeypatch, lambda out, true: replace(out, rows=int(true.sum())))
    else:
        monkeypatch.setattr(TreeResampling, "released", lambda _, rows: rows)
    parts = parts_of(audited(fits=30))
    assert parts["released rows"].above
    assert not parts["rows"].above


def test_exact_classes_that_bypass_the_answers_are_found(monkeypatch):
    def leak(out, true):
        even = [one._replace(shares=np.full_like(one.shares, 1 / one.shares.shape[1])) for one in out.columns]
        return replace(out, sizes=true.astype(float), columns=even)

    remember_truth(monkeypatch, leak)
    assert parts_of(audited(fits=80))["released cells"].above


def test_edges_that_were_learned_are_found(monkeypatch):
    def quantiles(fine, depth, chooser):  # noqa: ARG001
        wanted = np.arange(1, 1 << depth) / (1 << depth) * fine.sum()
        return sorted(set(np.searchsorted(np.cumsum(fine), wanted).tolist()) - {0})

    monkeypatch.setattr(model, "halved", quantiles)
    assert parts_of(audited(fits=30))["edges"].above


def test_honest_noise_is_not_called_above_by_chance():
    """Two figures that lie as far apart as is claimed, 20 of each: an interval by the error of what was measured called
    every eighth of them above, and its reader was told to release nothing."""
    rng, claimed, z = np.random.default_rng(5), 1.5, 3.0
    above = [
        _part("columns", claimed, rng.normal(size=20), rng.normal(claimed, size=20), z).above for _ in range(2_000)
    ]
    assert sum(above) <= 12
    told = [
        _part("columns", claimed, rng.normal(size=80), rng.normal(2 * claimed, size=80), z).above for _ in range(50)
    ]
    assert sum(told) >= 45


def test_wrong_wishes():
    with pytest.raises(UsageError, match="--delta above 0"):
        audited(delta=0.0)
    with pytest.raises(UsageError, match="--fits"):
        audited(fits=3)
    learned = Schema(tuple(Column(c.name, c.kind, c.role, c.low, c.high, c.categories) for c in SCHEMA.columns))
    with pytest.raises(SchemaError, match="public bounds"):
        audited(schema=learned)


def test_on_the_command_line(tmp_path, capsys):
    from sfumato.api.cli.app import app
    from sfumato.api.cli.console import run_guarded

    rows(100).to_csv(tmp_path / "t.csv", index=False)
    SCHEMA.save(tmp_path / "s.yaml")
    words = ["canary", str(tmp_path / "t.csv"), "--schema", str(tmp_path / "s.yaml"), "--fits", "20", "--json"]
    assert run_guarded(app, words) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["above"] is False
    assert told["copies"] > 1
