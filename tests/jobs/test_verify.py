"""verify: honest releases are consistent, edited ones are not, and neither ledger nor key is needed or made."""

import json
import shutil

import numpy as np
import pyarrow.parquet as pq
import pytest

from sfumato import sanitize, verify
from sfumato.api.cli.app import app
from sfumato.api.cli.console import run_guarded
from sfumato.guarantee.signer import Signer, signer_beside
from sfumato.table import Column, Schema

KNOWN = {"source": "public", "reason": "the form"}
SCHEMA = Schema(
    (
        Column("age", "integer", low=0, high=120, **KNOWN),
        Column("weight", "numeric", low=0.0, high=200.0, **KNOWN),
        Column("ward", "categorical", categories=("a", "b", "c"), **KNOWN),
        Column("ill", "categorical", role="label", categories=("no", "yes"), **KNOWN),
    )
)


def people(rows=200, seed=0):
    rng = np.random.default_rng(seed)
    return {
        "age": rng.integers(0, 100, rows).tolist(),
        "weight": rng.normal(75, 12, rows).clip(1, 199).tolist(),
        "ward": rng.choice(["a", "b", "c"], rows).tolist(),
        "ill": rng.choice(["no", "yes"], rows).tolist(),
    }


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("verify")
    words = {"schema": SCHEMA, "mechanism": "additive-noise", "epsilon_record": 8}
    sanitize(people(), out=folder / "r", ledger=folder / "ledger", **words)
    sanitize(people(seed=1), out=folder / "csv", format="csv", ledger=folder / "ledger", **words)
    return folder


def edited(home, folder, change, name="r"):
    """A copy with its card changed, beside the rows and inside."""
    copy = folder / "edited"
    shutil.copytree(home / name, copy)
    card = json.loads((copy / "card.json").read_text())
    change(card)
    (copy / "card.json").write_text(json.dumps(card, indent=1))
    if name == "r":
        table = pq.read_table(copy / "release.parquet")
        words = {**table.schema.metadata, b"sfumato.card": json.dumps(card, indent=1).encode()}
        pq.write_table(table.replace_schema_metadata(words), copy / "release.parquet")
    return copy


@pytest.mark.parametrize("name", ["r", "csv"])
def test_an_honest_release_is_consistent(home, name):
    found = verify(home / name)
    assert found.ok, found.in_words()
    assert found.cannot_check
    assert found.signed_by == Signer.at(signer_beside(home / "ledger")).fingerprint
    assert "unsigned" not in found.in_words().lower()
    assert "verified" not in found.in_words().lower()


def test_a_smaller_epsilon_is_told(home, tmp_path):
    def quarter(card):
        told = card["guarantee"]
        told.update({name: told[name] / 4 for name in ("epsilon_component", "epsilon_record", "epsilon_person")})

    assert not verify(edited(home, tmp_path, quarter)).ok


def test_rows_of_another_release_are_told(home, tmp_path):
    copy = tmp_path / "stolen"
    shutil.copytree(home / "r", copy)
    table = pq.read_table(copy / "release.parquet")
    pq.write_table(table.slice(1), copy / "release.parquet")
    found = verify(copy)
    assert not found.ok
    assert "number of rows" in found.in_words()


def test_the_command_answers_machines(home, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("SFUMATO_LEDGER", str(tmp_path / "none" / "ledger"))
    assert run_guarded(app, ["verify", str(home / "r"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["ok"] is True
    shutil.copytree(home / "r", tmp_path / "c")
    (tmp_path / "c" / "card.json").write_text("{}")
    assert run_guarded(app, ["verify", str(tmp_path / "c"), "--json"]) == 6
    found = json.loads(capsys.readouterr().out)
    assert found["ok"] is False
    assert found["signed_by"] is None
    assert run_guarded(app, ["verify", str(tmp_path / "nowhere"), "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["ok"] is False
    assert not (tmp_path / "none").exists()
