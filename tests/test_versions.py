"""What owners keep is read by every later version and never reset; files of another version are refused by version."""

import json
import shutil
import zipfile
from pathlib import Path

import pytest
import yaml

from sfumato.api.cli.app import app
from sfumato.api.cli.console import run_guarded
from sfumato.core.errors import SfumatoError
from sfumato.guarantee import Card, Key
from sfumato.learn.model import Model
from sfumato.ledger import Ledger
from sfumato.mechanisms.principal_laplace import given_basis
from sfumato.release.release import Release
from sfumato.release.sanitize import Options, sanitize
from sfumato.study.client.private_notes import Agreements, RememberedHeads
from sfumato.study.protocol.study_file import load_study
from sfumato.table import Schema

FIRST = Path(__file__).parent / "vectors" / "0.1.0"
PEOPLE = {"who": ["P7", "01", "Ann Lee", "4", "5", "6"], "age": [10, 20, 30, 40, 50, 60], "ill": ["no", "yes"] * 3}
STUDY = {
    "kind": "pool",
    "name": "Study",
    "schema": {
        "columns": [
            {"name": "age", "kind": "integer", "low": 0, "high": 100, "source": "public", "reason": "form"},
            {"name": "ill", "kind": "categorical", "role": "label", "categories": ["no", "yes"]},
        ]
    },
    "mechanism": {"name": "additive-noise"},
    "guarantee": "empirical-allowed",
}


@pytest.fixture
def kept(tmp_path):
    """A copy of what 0.1.0 wrote, private as it was."""
    folder = tmp_path / "kept"
    shutil.copytree(FIRST, folder)
    for path in folder.rglob("*"):
        path.chmod(0o700 if path.is_dir() else 0o600)
    return folder


# What owners keep


def test_a_ledger_of_the_first_version_goes_on_counting(kept, tmp_path):
    path, schema = kept / "ledger.json", Schema.load(kept / "schema.yaml")
    before = json.loads(path.read_text())
    assert Ledger(path).releases == 2
    more = {
        name: [*values, *new]
        for (name, values), new in zip(PEOPLE.items(), (["8", "9"], [1, 2], ["no", "yes"]), strict=True)
    }
    options = {"mechanism": "additive-noise", "schema": schema, "max_rows_per_person": 1, "ledger": path}
    new = sanitize(more, tmp_path / "new", Options(only_new=True, **options))
    assert (new.card.rows, new.known) == (2, 6)  # whoever was released by 0.1.0 stays at home
    again = sanitize(PEOPLE, tmp_path / "again", Options(**options))
    assert again.card.earlier_releases["count"] == 2
    assert "Nothing is proved of all 3 releases together" in again.card.guarantee["words"]
    after = json.loads(path.read_text())
    assert after["key"] == before["key"]
    for fingerprint, releases in before["tables"].items():
        assert after["tables"][fingerprint][: len(releases)] == releases


def test_a_key_of_the_first_version_makes_the_same_space(kept, tmp_path):
    key, schema = kept / "rotated" / "key.json", Schema.load(kept / "schema.yaml")
    options = Options(mechanism="random-rotation", schema=schema, max_rows_per_person=1, key=key)
    made = sanitize(PEOPLE, tmp_path / "r", options)
    assert made.card.space == json.loads((kept / "rotated" / "card.json").read_text())["space"]


def test_agreements_and_heads_of_the_first_version_are_read_and_kept(kept):
    agreements, heads = Agreements(kept / "agreements.json"), RememberedHeads(kept / "survey-heads.json")
    assert agreements.hash_of("https://study.example", "abc") == "sha256:" + "1" * 64
    heads.remember("https://study.example/new", 1, "3" * 64)
    assert heads.head("https://study.example/abc") == (3, "2" * 64)
    assert heads.head("https://study.example/new") == (1, "3" * 64)


def test_releases_of_the_first_version_are_refused_by_version(kept):
    """Their card says how values came about in words that only 0.1 had."""
    with pytest.raises(SfumatoError, match=r"has version 1, and this program reads version 2\. Make the release again"):
        Release.open(kept / "release")


def test_models_of_the_first_version_are_read(kept):
    assert Model.load(kept / "model.skops").classes == ["no", "yes"]


# Other versions


def with_version(path, version):
    data = json.loads(path.read_text())
    path.write_text(json.dumps({**data, "version": version}))
    return path


def with_model_version(path, version):
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    schema = json.loads(parts["schema.json"])
    node = schema["content"]["about"]
    node["content"] = json.dumps(json.dumps({**json.loads(json.loads(node["content"])), "version": version}))
    schema["content"]["classifier"]["__class__"] = "SomethingNew"  # the version is told first
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in {**parts, "schema.json": json.dumps(schema).encode()}.items():
            archive.writestr(name, content)
    return path


def ledger(kept, version):
    return Ledger, with_version(kept / "ledger.json", version)


def key(kept, version):
    return Key.load, with_version(kept / "rotated" / "key.json", version)


def agreements(kept, version):
    return lambda path: Agreements(path).agree("a", "b", "c"), with_version(kept / "agreements.json", version)


def heads(kept, version):
    path = kept / "survey-heads.json"
    RememberedHeads(path).remember("a", 1, "b")
    return lambda path: RememberedHeads(path).remember("a", 2, "c"), with_version(path, version)


def card(kept, version):
    return Card.load, with_version(kept / "release" / "card.json", version)


def basis(kept, version):
    return lambda path: given_basis(str(path), 1), with_version(kept / "release" / "card.json", version)


def model(kept, version):
    return Model.load, with_model_version(kept / "model.skops", version)


def study(kept, version):
    path = kept / "study.yaml"
    path.write_text(yaml.safe_dump({**STUDY, "version": version}))
    return load_study, path


def schema(kept, version):
    path = kept / "schema.yaml"
    path.write_text(path.read_text().replace("version: 1", f"version: {version}"))
    return Schema.load, path


FILES = (ledger, key, agreements, heads, card, basis, model, study, schema)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.__name__)
@pytest.mark.parametrize(("newer", "advice"), [(True, "a newer sfumato wrote it. Upgrade sfumato."), (False, "")])
def test_another_version_is_refused_by_version_and_stays_what_it_is(kept, file, newer, advice):
    known = 2 if file in (card, basis) else 1
    version = known + 1 if newer else 0
    read, path = file(kept, version)
    content = path.read_bytes()
    with pytest.raises(SfumatoError) as told:
        read(path)
    words = str(told.value)
    assert f"has version {version}, and this program reads version {known}" in words
    assert words.endswith(advice or ".")
    assert words.partition(f"reads version {known}")[2].strip(" .:")  # and what to do
    assert "\n" not in words
    assert path.read_bytes() == content


def test_a_file_without_a_version_is_damaged(kept):
    for file in (ledger, key, card, model):
        read, path = file(kept, None)
        with pytest.raises(SfumatoError, match="states no version: it was edited or is damaged"):
            read(path)


def test_the_version_of_a_study_changes_no_hash(kept):
    read, path = study(kept, 1)
    stated = read(path)
    path.write_text(yaml.safe_dump(STUDY))
    assert read(path).hash == stated.hash


def test_the_command_line_says_it_in_one_line(kept, capsys):
    with_version(kept / "release" / "card.json", 3)
    assert run_guarded(app, ["show", str(kept / "release")]) != 0
    (line,) = capsys.readouterr().err.splitlines()
    assert "has version 3, and this program reads version 2: a newer sfumato wrote it. Upgrade sfumato." in line
