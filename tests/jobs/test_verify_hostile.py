"""Whatever was done to a release: it is refused or told, never believed, and never ends in a traceback."""

import json
import random
import shutil
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato import sanitize, verify
from sfumato.api.cli.app import app
from sfumato.api.cli.console import run_guarded
from sfumato.core.errors import CardError, TableError
from sfumato.guarantee.card import MOST_VALUES, from_json
from sfumato.guarantee.signer import Signer, signer_beside
from sfumato.release import presented
from sfumato.table import Column, Schema

KNOWN = {"source": "public", "reason": "the form"}
SCHEMA = Schema(
    (
        Column("age", "integer", low=0, high=120, **KNOWN),
        Column("ward", "categorical", categories=("a", "b", "c"), **KNOWN),
        Column("ill", "categorical", role="label", categories=("no", "yes"), **KNOWN),
    )
)
ODD = (
    None,
    True,
    -1,
    0,
    10**30,
    10**400,
    1e308,
    -0.0,
    "",
    "../../etc/passwd",
    "a\x00b",
    "\ud800",
    [],
    {},
    [[]],
    {"kind": "x"},
    [0] * 50,
    "nobody",
    "secret",
    "identity",
)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A release of each kind, by a key that replaced another, so that there are statements to edit too."""
    folder, rng = tmp_path_factory.mktemp("hostile"), np.random.default_rng(0)
    people = {
        "age": rng.integers(0, 100, 40).tolist(),
        "ward": rng.choice(["a", "b", "c"], 40).tolist(),
        "ill": rng.choice(["no", "yes"], 40).tolist(),
    }
    ledger = folder / "ledger"
    first = Signer.at(signer_beside(ledger))
    first.rotated()
    for name, words in {"blurred": {"epsilon_record": 8}, "drawn": {"epsilon": 4}}.items():
        method = "additive-noise" if name == "blurred" else "tree-resampling"
        sanitize(people, schema=SCHEMA, mechanism=method, out=folder / name, ledger=ledger, **words)
    (folder / "first").write_text(first.fingerprint)
    return folder


def places(part, way=()):
    yield way
    items = part.items() if isinstance(part, dict) else enumerate(part) if isinstance(part, list) else ()
    for key, inner in items:
        yield from places(inner, (*way, key))


def structure(data, rng):
    """One value replaced, doubled or lost."""
    way = rng.choice([one for one in places(data) if one])
    place = data
    for key in way[:-1]:
        place = place[key]
    act = rng.randrange(4)
    if act == 0 and isinstance(place, dict):
        del place[way[-1]]
    elif act == 1 and isinstance(place[way[-1]], int | float) and not isinstance(place[way[-1]], bool):
        place[way[-1]] *= rng.choice([0, -1, 0.25, 4, 1e6])
    elif act == 2 and isinstance(place, list):
        place.append(place[way[-1]])
    else:
        place[way[-1]] = rng.choice(ODD)
    return data


def some_bytes(content, rng):
    content = bytearray(content)
    for _ in range(rng.choice([1, 1, 1, 4, 40])):
        at = rng.randrange(len(content))
        act = rng.randrange(4)
        if act == 0:
            content[at] ^= 1 << rng.randrange(8)
        elif act == 1:
            del content[at : at + rng.choice([1, 2, 100])]
        elif act == 2:
            content[at:at] = content[at : at + rng.choice([1, 30])]
        else:
            content = content[: at + 1]
        if not content:
            return b""
    return bytes(content)


def with_card(folder, text):
    """Beside the rows and, as an editor who knows the format would, inside their file."""
    (folder / "card.json").write_bytes(text)
    table = pq.read_table(folder / "release.parquet")
    words = {**table.schema.metadata, b"sfumato.card": text}
    pq.write_table(table.replace_schema_metadata(words), folder / "release.parquet")


def edited(folder, rng):
    """One random edit; whether it was one that leaves rows or card different."""
    act = rng.randrange(4)
    if act == 0:
        data = structure(json.loads((folder / "card.json").read_text()), rng)
        with_card(folder, json.dumps(data).encode())
    elif act == 1:
        table = pq.read_table(folder / "release.parquet")
        cells = table.to_pydict()
        column = rng.choice(list(cells))
        cells[column][rng.randrange(len(table))] = rng.choice(cells[column])
        made = pa.table({name: pa.array(some, table.schema.field(name).type) for name, some in cells.items()})
        pq.write_table(made.replace_schema_metadata(table.schema.metadata), folder / "release.parquet")
    else:
        name = rng.choice([path.name for path in sorted(folder.iterdir()) if path.name != "trace.parquet"])
        (folder / name).write_bytes(some_bytes((folder / name).read_bytes(), rng))
    if rng.random() < 0.3:
        (folder / "signed.txt").unlink()
        (folder / "signed.txt.sig").unlink()


def tried(home, tmp_path, times, seed):
    rng, first = random.Random(seed), (home / "first").read_text()
    for number in range(times):
        source = home / rng.choice(["blurred", "drawn"])
        folder = shutil.copytree(source, tmp_path / str(number))
        edited(folder, rng)
        found = verify(folder, owner=rng.choice([None, first]))
        json.dumps(found.to_dict(), allow_nan=False)
        assert found.in_words()
        assert found.to_html()
        if found.ok and found.signed_by is not None:
            assert (folder / "card.json").read_bytes() == (source / "card.json").read_bytes()
            one, other = (pq.read_table(place / "release.parquet").to_pydict() for place in (folder, source))
            assert one == other
        shutil.rmtree(folder)


def test_no_edit_is_believed(home, tmp_path):
    tried(home, tmp_path, 12, 1)


@pytest.mark.system
def test_none_of_two_thousand_edits_is_believed(home, tmp_path):
    tried(home, tmp_path, 2000, 2)


CARDS = {
    "deep": b"[" * 200_000,
    "deep objects": b'{"a":' * 200_000,
    "a key twice": b'{"format": "sfumato-card", "format": "sfumato-card"}',
    "not a number": b'{"format": NaN}',
    "beyond doubles": b'{"format": 1e999}',
    "digits without end": b'{"format": ' + b"9" * 10_000 + b"}",
    "no JSON": b"\xff\xfe",
    "empty": b"",
}


@pytest.mark.parametrize("what", CARDS)
def test_a_card_that_is_none_is_told(home, tmp_path, what, capsys):
    with pytest.raises(ValueError, match=r"(?s).*"):
        from_json(CARDS[what])
    folder = shutil.copytree(home / "blurred", tmp_path / "r")
    (folder / "card.json").write_bytes(CARDS[what])
    assert run_guarded(app, ["verify", str(folder), "--json"]) == CardError.exit_code
    said = capsys.readouterr()
    assert json.loads(said.out)["ok"] is False
    assert "Traceback" not in said.err


def test_a_key_that_stands_twice_is_refused_where_it_would_be_read_in_two_ways(home, tmp_path):
    """The first of two epsilons for one reader, the second for another."""
    folder = shutil.copytree(home / "blurred", tmp_path / "r")
    text = (
        (folder / "card.json").read_text().replace('"epsilon_record":', '"epsilon_record": 0.1, "epsilon_record":', 1)
    )
    with_card(folder, text.encode())
    (folder / "signed.txt").unlink()
    (folder / "signed.txt.sig").unlink()
    assert not verify(folder).ok


def test_a_file_that_unpacks_without_end_is_refused_before_it_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(presented, "ROOM", 1 << 10)
    monkeypatch.setattr(presented, "PACKED", 100)
    small = tmp_path / "release.parquet"
    pq.write_table(
        pa.table({"x": np.zeros(10_000_000, dtype=np.int8)}),
        small,
        compression="zstd",
        row_group_size=10**7,
        use_dictionary=False,
    )
    with pytest.raises(TableError, match="unpacks to more"):
        presented.check_unpacked(small)
    sheet = tmp_path / "release.xlsx"
    with zipfile.ZipFile(sheet, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("sheet1.xml", b"<" * 3_000_000)
    with pytest.raises(TableError, match="unpacks to more"):
        presented.check_unpacked(sheet)
    pq.write_table(pa.table({"x": np.random.default_rng(0).random(10_000)}), small)
    presented.check_unpacked(small)


def test_a_release_has_one_file_of_rows(home, tmp_path):
    """Whoever opens the other one reads rows that no check has seen."""
    folder = shutil.copytree(home / "blurred", tmp_path / "r")
    (folder / "notes.txt").write_text("a folder holds what it holds")
    found = verify(folder)
    assert found.ok
    assert any("notes.txt" in one and "trace.parquet" in one for one in found.cannot_check)
    (folder / "release.csv").write_text("age,ward,ill\n1,a,no\n")
    found = verify(folder)
    assert not found.ok
    assert "release.csv lies beside release.parquet" in found.in_words()


def test_a_card_of_millions_of_words_is_refused_before_it_is_validated(home, tmp_path):
    folder = shutil.copytree(home / "blurred", tmp_path / "r")
    card = json.loads((folder / "card.json").read_text())
    card["threat_model"]["adversary"] = [0] * (MOST_VALUES + 1)
    (folder / "card.json").write_text(json.dumps(card))
    assert "more values than any card" in verify(folder).in_words()


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (["--from", "abbot-acorn"], 2),
        (["--statements", "NOWHERE"], 2),
        (["--statements", "RELEASE/card.json"], 2),
        (["--log", "NOWHERE"], 2),
        (["--log-key", "x"], 2),
        (["--with-seed", "RELEASE/card.json"], 2),
        (["--page", "RELEASE/card.json"], 5),
        (["--page", "NOWHERE/at/all"], 5),
    ],
    ids=lambda one: " ".join(one) if isinstance(one, list) else None,
)
def test_a_reader_s_mistake_is_one_object_too_and_no_finding(home, tmp_path, options, code, capsys):
    given = [
        one.replace("NOWHERE", str(tmp_path / "none")).replace("RELEASE", str(home / "blurred")) for one in options
    ]
    assert run_guarded(app, ["verify", str(home / "blurred"), "--json", *given]) == code
    said = capsys.readouterr()
    found = json.loads(said.out)
    assert (found["ok"], found["signed_by"], found["cannot_check"]) == (False, None, [])
    assert found["error"]
    assert "Traceback" not in said.err
