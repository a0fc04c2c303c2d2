"""Releases are signed where they land, by whatever road; a reader tells whose they are, and what was exchanged."""

import hashlib
import io
import json
import shutil
import stat
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato import open_release, redraw, sanitize, verify
from sfumato.api.cli.app import app
from sfumato.api.cli.console import run_guarded
from sfumato.core.errors import CardError, PrivacyLeakWarning, UsageError
from sfumato.guarantee.signer import Signer, signer_beside
from sfumato.release.signature import COUNTS, SIGNATURE, SIGNED, STATEMENTS, rows_digest, sign_release, signer_of
from sfumato.release.write_release import pipe_release
from sfumato.table import Column, Schema

KNOWN = {"source": "public", "reason": "the form"}
SCHEMA = Schema(
    (
        Column("age", "integer", low=0, high=120, **KNOWN),
        Column("ward", "categorical", categories=("a", "b", "c"), **KNOWN),
        Column("ill", "categorical", role="label", categories=("no", "yes"), **KNOWN),
    )
)
WORDS = {"schema": SCHEMA, "mechanism": "additive-noise", "epsilon_record": 8}
FILES = {SIGNED, SIGNATURE}


def people(rows=120, seed=0):
    rng = np.random.default_rng(seed)
    ward, ill = rng.choice(["a", "b", "c"], rows), rng.choice(["no", "yes"], rows)
    return {"age": rng.integers(0, 100, rows).tolist(), "ward": ward.tolist(), "ill": ill.tolist()}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Two owners, each with a release."""
    folder = tmp_path_factory.mktemp("signed")
    for who in "ab":
        sanitize(people(), out=folder / who, ledger=folder / f"{who}.ledger", **WORDS)
    return folder


def key_of(home, who="a"):
    found = Signer.known(signer_beside(home / f"{who}.ledger"))
    assert found is not None
    return found


def copied(home, tmp_path, who="a"):
    return shutil.copytree(home / who, tmp_path / "copy")


def test_the_key_lies_beside_the_ledger_and_only_its_owner_reads_it(home):
    assert stat.S_IMODE(signer_beside(home / "a.ledger").stat().st_mode) == 0o600
    assert key_of(home).secret.hex() not in "".join(p.read_bytes().hex() for p in (home / "a").iterdir())


@pytest.mark.parametrize("like_original", [False, True])
def test_rows_are_hashed_while_they_are_written_as_their_file_is_read(tmp_path, like_original):
    """Every kind of column, with empty cells, in several blocks, and a target that is written as it is."""
    rng = np.random.default_rng(1)
    rows = 3000
    empty = rng.random(rows) < 0.1
    days = np.datetime64("2020-01-01") + rng.integers(0, 300, rows)
    table = pa.table(
        {
            "age": pa.array(rng.integers(0, 99, rows)),
            "dose": pa.array(rng.random(rows), mask=empty),
            "day": pa.array(days),
            "ward": pa.array(rng.choice(["a", "b"], rows), mask=empty),
            "smokes": pa.array(rng.random(rows) < 0.5),
            "ill": pa.array(rng.choice(["no", "yes"], rows)),
            "cost": pa.array(rng.random(rows)),
        }
    )
    pq.write_table(table, tmp_path / "table.parquet")
    words = {"mechanism": "additive-noise", "label": "ill", "target": "cost", "engine": "stream"}
    with pytest.warns(PrivacyLeakWarning):
        sanitize(tmp_path / "table.parquet", out=tmp_path / "r", like_original=like_original, **words)
    assert rows_digest(tmp_path / "r" / "release.parquet") in (tmp_path / "r" / SIGNED).read_text()
    assert signer_of(tmp_path / "r", tmp_path / "r" / "release.parquet") is not None


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="ssh-keygen is not installed")
def test_plain_tools_check_a_release(home, tmp_path):
    """As the page on verifying says: the text by ssh-keygen, the card by its hash."""
    folder = copied(home, tmp_path)
    (tmp_path / "allowed").write_text(f"owner {key_of(home).public.in_ssh()}\n")
    asked = ["ssh-keygen", "-Y", "verify", "-f", tmp_path / "allowed", "-I", "owner", "-n", "sfumato"]

    def good():
        with (folder / SIGNED).open("rb") as text:
            done = subprocess.run([*asked, "-s", folder / SIGNATURE], stdin=text, capture_output=True, check=False)
        return done.returncode == 0

    assert good()
    first = (folder / SIGNED).read_text().splitlines()[0]
    assert first == f"{hashlib.sha256((folder / 'card.json').read_bytes()).hexdigest()}  card.json"
    (folder / SIGNED).write_text((folder / SIGNED).read_text().replace("card.json", "card.jsom"))
    assert not good()


def test_what_is_not_for_release_is_never_signed(tmp_path):
    for name, words in {"seeded": {"seed": 1}, "tried": {"experiment": True}}.items():
        sanitize(people(), out=tmp_path / name, ledger=tmp_path / "ledger", **WORDS, **words)
        assert not FILES & {path.name for path in (tmp_path / name).iterdir()}
    sanitize(people(), ledger=tmp_path / "ledger", dry_run=True, **WORDS)
    assert not signer_beside(tmp_path / "ledger").exists()


def test_every_format_engine_and_road_signs(tmp_path):
    ledger, table = tmp_path / "ledger", tmp_path / "people.csv"
    columns = people()
    table.write_text(
        "\n".join([",".join(columns), *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))])
    )
    sanitize(table, out=tmp_path / "csv", format="csv", ledger=ledger, **WORDS)
    sanitize(table, out=tmp_path / "stream", engine="stream", ledger=ledger, **WORDS)
    sanitize(table, out=tmp_path / "resumed", engine="stream", resume=True, ledger=ledger, **WORDS)
    made = sanitize(table, ledger=ledger, **WORDS)
    made.save(tmp_path / "saved")
    made.save(tmp_path / "again", format="csv")
    sanitize(table, schema=SCHEMA, mechanism="tree-resampling", epsilon=4, out=tmp_path / "drawn", ledger=ledger)
    signer = Signer.known(signer_beside(ledger))
    for name in ("csv", "stream", "resumed", "saved", "again", "drawn"):
        found = verify(tmp_path / name, owner=signer.fingerprint)
        assert found.ok, (name, found.in_words())
        assert found.signed_by == signer.fingerprint


def test_a_copy_keeps_the_signature_while_it_fits_and_nobody_signs_for_another(home, tmp_path):
    open_release(home / "a").save(tmp_path / "same")
    assert verify(tmp_path / "same").signed_by == key_of(home).fingerprint
    open_release(home / "a").save(tmp_path / "other", format="csv")
    assert verify(tmp_path / "other").signed_by is None
    sanitize(people(), schema=SCHEMA, mechanism="tree-resampling", epsilon=4, out=tmp_path / "d", ledger=tmp_path / "l")
    redraw(tmp_path / "d", rows=50, out=tmp_path / "redrawn", ledger=tmp_path / "l")
    found = verify(tmp_path / "redrawn")
    assert found.ok
    assert found.signed_by is None


def test_a_stream_carries_card_and_signature(home):
    out = io.BytesIO()
    pipe_release(home / "a", "parquet", out)
    words = pa.ipc.open_stream(out.getvalue()).schema.metadata
    assert words[SIGNATURE.encode()] == (home / "a" / SIGNATURE).read_bytes()
    assert words[SIGNED.encode()] == (home / "a" / SIGNED).read_bytes()


def test_rows_are_hashed_by_what_they_are(tmp_path):
    """However they are cut and packed; a cell, a name, a type, an order that is another gives another hash."""
    plain = pa.table(
        {
            "x": pa.array([1.0, None, 3.0, -0.5]),
            "word": pa.array(["a", "bc", None, ""]),
            "yes": pa.array([True, False, None, True]),
            "day": pa.array([1, 2, None, 4], pa.int32()).cast(pa.date32()),
        }
    )

    def digest(table, **how):
        pq.write_table(table, tmp_path / "t.parquet", **how)
        return rows_digest(tmp_path / "t.parquet")

    same = {digest(plain), digest(plain, row_group_size=1), digest(plain, compression="zstd", use_dictionary=False)}
    same.add(digest(plain.replace_schema_metadata({b"more": b"words"})))
    assert len(same) == 1
    cells = plain.to_pydict()
    others = {
        "order": plain.take([1, 0, 2, 3]),
        "fewer": plain.slice(1),
        "names": plain.rename_columns(["y", "word", "yes", "day"]),
        "columns": plain.select(["word", "x", "yes", "day"]),
        "kind": plain.set_column(0, "x", plain["x"].cast(pa.string())),
        "a gap that is a nought": plain.set_column(0, "x", pa.array([1.0, 0.0, 3.0, -0.5])),
        "words cut elsewhere": plain.set_column(1, "word", pa.array(["ab", "c", None, ""])),
        "no word": plain.set_column(1, "word", pa.array([*cells["word"][:3], None])),
    }
    found = {name: digest(table) for name, table in others.items()}
    assert len({*found.values(), *same}) == len(others) + 1


def test_whose_it_is(home):
    mine, other = key_of(home).fingerprint, key_of(home, "b").fingerprint
    assert verify(home / "a", owner=mine.upper().replace("-", " ")).ok
    refused = verify(home / "b", owner=mine)
    assert not refused.ok
    assert refused.signed_by == other
    with pytest.raises(UsageError, match="A fingerprint is 16 words"):
        verify(home / "a", owner="acorn")


def test_an_unsigned_release_is_told_and_fails_where_an_owner_was_asked_for(home, tmp_path):
    folder = copied(home, tmp_path)
    for name in FILES:
        (folder / name).unlink()
    found = verify(folder)
    assert found.ok
    assert found.signed_by is None
    assert "unsigned" in found.headline
    assert not verify(folder, owner=key_of(home).fingerprint).ok


def exchanged(folder, home, name):
    shutil.copy(home / "b" / name, folder / name)


def rows_reversed(folder, _):
    table = pq.read_table(folder / "release.parquet")
    pq.write_table(table.take(list(range(len(table)))[::-1]), folder / "release.parquet")


EDITS = {
    "the card of another": lambda folder, home: exchanged(folder, home, "card.json"),
    "the rows of another": lambda folder, home: exchanged(folder, home, "release.parquet"),
    "what another signed": lambda folder, home: exchanged(folder, home, SIGNED),
    "the signature of another": lambda folder, home: exchanged(folder, home, SIGNATURE),
    "all of another but the card": lambda folder, home: [
        exchanged(folder, home, name) for name in ("release.parquet", *FILES)
    ],
    "rows in another order": rows_reversed,
    "no text": lambda folder, _: (folder / SIGNED).unlink(),
    "no signature": lambda folder, _: (folder / SIGNATURE).unlink(),
    "a longer text": lambda folder, _: (folder / SIGNED).write_text((folder / SIGNED).read_text() + "more\n"),
    "statements that are none": lambda folder, _: (folder / STATEMENTS).write_text("{}"),
}


@pytest.mark.parametrize("what", EDITS)
def test_what_was_exchanged_is_told(home, tmp_path, what):
    folder = copied(home, tmp_path)
    EDITS[what](folder, home)
    found = verify(folder)
    assert not found.ok, what
    assert found.findings[0].check in ("signature", "card")


def command(capsys, *words):
    code = run_guarded(app, [*map(str, words), "--json"])
    return code, json.loads(capsys.readouterr().out or "null")


def test_rotation_is_followed_and_revocation_honoured(tmp_path, capsys):
    ledger, release = tmp_path / "ledger", tmp_path / "r"
    at = ["--ledger", ledger]
    assert command(capsys, "signer", "rotate", *at)[0] == 2  # there is no key yet
    first = command(capsys, "signer", "show", *at)[1]["fingerprint"]
    sanitize(people(), out=tmp_path / "old", ledger=ledger, **WORDS)
    second = command(capsys, "signer", "rotate", *at, "--out", tmp_path / "said.json")[1]["fingerprint"]
    assert second != first
    sanitize(people(), out=release, ledger=ledger, **WORDS)
    assert verify(release, owner=first).ok
    assert verify(tmp_path / "old", owner=first).ok
    assert not verify(tmp_path / "old", owner=second).ok
    (release / STATEMENTS).unlink()
    assert not verify(release, owner=first).ok
    assert verify(release, owner=first, statements=tmp_path / "said.json").ok
    assert command(capsys, "signer", "revoke", *at, "--out", tmp_path / "gone.json")[0] == 0
    third = command(capsys, "signer", "show", *at)[1]["fingerprint"]
    assert third not in (first, second)
    assert verify(release).ok  # who was not told cannot know
    revoked = verify(release, statements=tmp_path / "gone.json")
    assert not revoked.ok
    assert revoked.signed_by is None
    assert command(capsys, "signer", "revoke", first, *at, "--out", tmp_path / "first.json")[0] == 0
    assert not verify(tmp_path / "old", statements=tmp_path / "first.json").ok
    sanitize(people(), out=tmp_path / "new", ledger=ledger, **WORDS)
    assert verify(tmp_path / "new", owner=third).ok
    assert not verify(tmp_path / "new", owner=second).ok


def test_checking_makes_neither_ledger_nor_key(home, tmp_path, monkeypatch):
    monkeypatch.setenv("SFUMATO_LEDGER", str(tmp_path / "none" / "ledger"))
    before = sorted(path.name for path in (home / "a").iterdir())
    assert verify(home / "a").ok
    assert not (tmp_path / "none").exists()
    assert sorted(path.name for path in (home / "a").iterdir()) == before


@pytest.mark.skipif(sys.platform == "win32", reason="files have no such modes there")
def test_a_key_that_others_could_read_stops_a_release_before_it_is_charged(tmp_path):
    ledger = tmp_path / "ledger"
    sanitize(people(), out=tmp_path / "r", ledger=ledger, **WORDS)
    before = ledger.read_bytes()
    signer_beside(ledger).chmod(0o644)
    with pytest.raises(CardError, match="can be read by others"):
        sanitize(people(seed=1), out=tmp_path / "s", ledger=ledger, **WORDS)
    assert ledger.read_bytes() == before


def test_noisy_counts_are_signed_too(home, tmp_path):
    """What a site of a study pushes lies beside the rows."""
    folder = copied(home, tmp_path)
    counts = folder / COUNTS
    pq.write_table(pa.table({"count": [1, 2]}), counts)
    with pytest.raises(CardError, match="noisy counts"):
        signer_of(folder, folder / "release.parquet")
    sign_release(folder, folder / "release.parquet", signer_beside(home / "a.ledger"))
    assert hashlib.sha256(counts.read_bytes()).hexdigest() in (folder / SIGNED).read_text()
    open_release(folder).save(tmp_path / "again")
    for place in (folder, tmp_path / "again"):
        assert verify(place, owner=key_of(home).fingerprint).ok
    for content in (b"others", None):
        counts.unlink()
        if content is not None:
            counts.write_bytes(content)
        found = verify(folder)
        assert not found.ok
        assert "noisy counts is not the one" in found.in_words()
