"""A run that is killed goes on where it stopped, and makes the release that it would have made."""

from __future__ import annotations

import io
import json
import os
import pickle
import resource
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

from sfumato.channels.maps import NoisyMoments
from sfumato.core.errors import InterruptedRunError, OutputError, UsageError
from sfumato.ledger import Ledger
from sfumato.mechanisms.principal_laplace import PairedProducts
from sfumato.noise import Streams
from sfumato.release import engine as release_module
from sfumato.release import shuffle as shuffle_module
from sfumato.release import source as source_module
from sfumato.release import unfinished as unfinished_module
from sfumato.release.sanitize import Options, sanitize
from sfumato.table import Column, Schema

ROWS, BLOCK = 600, 64
KNOWN = {"source": "public", "reason": "a form"}
SCHEMA = Schema(
    (
        *(Column(name, "numeric", low=0.0, high=1.0, **KNOWN) for name in "ab"),
        Column("colour", "categorical", categories=("red", "green"), **KNOWN),
        Column("ill", "categorical", role="label", categories=("no", "yes"), **KNOWN),
    )
)
NUMBERS = Schema(tuple(one for one in SCHEMA.columns if one.name != "colour"))
CASES = {
    "exact noise": ("principal-laplace", {"basis": "private", "epsilon_record": 4.0}, "Perturbing", "parquet", SCHEMA),
    "float noise": ("principal-laplace", {"noise": "float", "component_bounds": "data"}, "Perturbing", "csv", SCHEMA),
    "while it is written": ("additive-noise", {"epsilon_record": 4.0}, "Writing", "parquet", SCHEMA),
    "in stages": ("staged-release", {"epsilon_record": 4.0}, "Guiding", "parquet", SCHEMA),
    "with a key": ("random-rotation", {}, "Perturbing", "parquet", NUMBERS),
    "nobody's rows": ("tree-resampling", {"epsilon": 2.0, "delta": 1e-6}, "Counting", "parquet", SCHEMA),
}


def small_blocks(patch):
    patch(source_module, "block_rows_for", lambda _: BLOCK)
    patch(release_module, "block_rows_for", lambda _: BLOCK)
    patch(shuffle_module, "MOST_BUCKET_ROWS", 90)


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    small_blocks(monkeypatch.setattr)


def options(case, folder, **words):
    name, parameters, _, format, schema = CASES[case]
    words = {"engine": "stream", "ledger": folder / f"{case}.json", "schema": schema, "format": format, **words}
    return Options(mechanism=name, parameters=dict(parameters), **words)


def die(folder):
    """Every case in a child of its own, which kills itself half-way."""
    small_blocks(setattr)
    for case, (_, _, step, format, _) in CASES.items():

        def told(now, done, _, step=step):
            if now == step and done >= ROWS // 2:
                os.kill(os.getpid(), signal.SIGKILL)

        child = os.fork()
        if not child:
            try:
                sanitize(folder / f"table.{format}", folder / case, options(case, folder), told)
            finally:
                os._exit(0)
        assert os.waitpid(child, 0)[1] == signal.SIGKILL, case


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """The folder in which all runs were killed."""
    folder = tmp_path_factory.mktemp("killed")
    rng = np.random.default_rng(2)
    table = pa.table(
        {
            "a": rng.random(ROWS) + 0.01,
            "b": rng.random(ROWS),
            "colour": rng.choice(["red", "green"], ROWS),
            "ill": rng.choice(["no", "yes"], ROWS),
        }
    )
    pq.write_table(table, folder / "table.parquet")
    pacsv.write_csv(table, folder / "table.csv")
    script = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); from pathlib import Path; "
    script += f"from test_resume import die; die(Path({str(folder)!r}))"
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)
    return folder


def blocks_of(folder):
    index = folder / ".run" / "buckets" / "index"
    return index.stat().st_size if index.exists() else 0


@pytest.mark.parametrize("case", CASES)
def test_a_killed_run_goes_on_and_makes_the_release_that_it_would_have_made(killed, case, monkeypatch):
    unfinished = killed / f".{case}.unfinished"
    format, step = CASES[case][3], CASES[case][2]
    secret = unfinished / ".run" / "noise.key"
    run_key = bytes.fromhex(secret.read_text())
    for path in unfinished.rglob("*"):
        assert not path.stat().st_mode & 0o077 or path.name.startswith(".release")
    assert (blocks_of(unfinished) > 0) == (step in ("Perturbing", "Writing") and case != "nobody's rows")
    again = killed / f"{case} unbroken"
    if (unfinished / ".run" / "key.json").exists():
        shutil.copy(unfinished / ".run" / "key.json", killed / "secret.json")
    perturbed = []
    hashed = Streams.content
    monkeypatch.setattr(Streams, "content", lambda run, X, y: perturbed.append(len(X)) or hashed(run, X, y))
    told = sanitize(killed / f"table.{format}", killed / case, options(case, killed, resume=True))
    assert not unfinished.exists()
    if step == "Perturbing":
        assert 0 < sum(perturbed) <= 0.6 * ROWS
    elif step == "Writing":
        assert not perturbed
    ledger = json.loads((killed / f"{case}.json").read_text())
    assert [len(notes) for notes in ledger["tables"].values()] == [1]
    if case != "nobody's rows":
        (people,) = (killed / f"{case}.json.people").glob("*.cells")
        assert people.stat().st_size > 4 * ROWS, "its people are known again, though that pass was made before the kill"
    assert told.card.earlier_releases["count"] == 0

    class Known(Streams):
        def __init__(self, key=run_key, **words):
            super().__init__(key, **words)

    monkeypatch.setattr(unfinished_module, "Streams", Known)
    key = killed / "secret.json" if (killed / "secret.json").exists() and case == "with a key" else None
    other = sanitize(
        killed / f"table.{format}", again, options(case, killed, ledger=killed / f"{case} other.json", key=key)
    )
    for name in {path.name for path in again.iterdir()} - {"card.json", "key.json", "signed.txt", "signed.txt.sig"}:
        one, two = (folder / name for folder in (killed / case, again))
        if name.endswith(".parquet"):
            assert pq.read_table(one).replace_schema_metadata().equals(pq.read_table(two).replace_schema_metadata())
        else:
            assert one.read_bytes() == two.read_bytes()
    assert told.clipped == other.clipped
    assert case == "nobody's rows" or told.clipped["a"] > 0
    assert told.card.stated_guarantee() == other.card.stated_guarantee()


@pytest.fixture
def stopped(tmp_path):
    """A table and a run into `out` that was interrupted, with its work kept."""
    rng = np.random.default_rng(4)
    pq.write_table(pa.table({"a": rng.random(ROWS), "ill": ["no", "yes"] * (ROWS // 2)}), tmp_path / "t.parquet")
    schema = Schema(tuple(SCHEMA[name] for name in ("a", "ill")))
    given = Options(
        mechanism="additive-noise",
        parameters={"epsilon_record": 2.0},
        schema=schema,
        engine="stream",
        ledger=tmp_path / "l",
        resume=True,
    )

    def interrupt(step, done, _):
        if step == "Perturbing" and done > ROWS / 2:
            raise KeyboardInterrupt

    with pytest.raises(InterruptedRunError, match="go on with the same command"):
        sanitize(tmp_path / "t.parquet", tmp_path / "out", given, interrupt)
    return tmp_path, given


def test_another_table_or_another_order_is_refused_and_the_work_stays(stopped):
    folder, given = stopped
    with pytest.raises(UsageError, match="another mechanism"):
        sanitize(folder / "t.parquet", folder / "out", replace(given, parameters={"epsilon_record": 1.0}))
    with pytest.raises(UsageError, match="another --format"):
        sanitize(folder / "t.parquet", folder / "out", replace(given, format="csv"))
    with pytest.raises(UsageError, match="another --ledger"):
        sanitize(folder / "t.parquet", folder / "out", replace(given, ledger=folder / "m"))
    pq.write_table(pq.read_table(folder / "t.parquet"), folder / "t.parquet")
    with pytest.raises(UsageError, match="changed since it began"):
        sanitize(folder / "t.parquet", folder / "out", given)
    with pytest.raises(OutputError, match="--resume"):
        sanitize(folder / "t.parquet", folder / "out", replace(given, resume=False))
    assert blocks_of(folder / ".out.unfinished")
    sanitize(folder / "t.parquet", folder / "out", replace(given, resume=False, force=True))
    assert sorted(path.name for path in folder.iterdir()) == [
        ".l.lock",
        ".l.read.lock",
        ".l.signer.lock",
        ".m.lock",
        "l",
        "l.people",
        "l.read",
        "l.signer",
        "m",
        "out",
        "t.parquet",
    ]


def test_a_run_that_ended_is_ended_whatever_was_restored(stopped):
    """A copy of its folder gave fresh noise at no charge: a digit changed in place, and the times put back."""
    folder, given = stopped
    work, copy, second = (folder / name for name in (".out.unfinished", "copy", ".second.unfinished"))
    shutil.copytree(work, copy)
    shutil.copytree(work, second)
    sanitize(folder / "t.parquet", folder / "out", given)
    shutil.copytree(copy, work)
    table, times = folder / "t.parquet", (folder / "t.parquet").stat()
    content = bytearray(table.read_bytes())
    content[200] ^= 1
    with table.open("r+b") as file:
        file.write(content)
    os.utime(table, ns=(times.st_atime_ns, times.st_mtime_ns))
    book = (folder / "l").read_bytes()
    for out in ("out", "second"):  # a copy beside it is no other run
        with pytest.raises(UsageError, match="has ended: its release was written, and counted once"):
            sanitize(table, folder / out, replace(given, force=True))
    assert (folder / "l").read_bytes() == book
    sanitize(table, folder / "out", replace(given, resume=False, force=True))
    assert Ledger(folder / "l").releases == 2


def test_of_two_copies_of_a_run_one_ends(stopped, monkeypatch):
    """Both were charged once, before either ended: what the second drew is never seen."""
    folder, given = stopped
    shutil.copytree(folder / ".out.unfinished", folder / ".second.unfinished")
    landed = unfinished_module.Unfinished.finish

    def meanwhile(run):
        monkeypatch.setattr(unfinished_module.Unfinished, "finish", landed)
        sanitize(folder / "t.parquet", folder / "out", given)
        landed(run)

    monkeypatch.setattr(unfinished_module.Unfinished, "finish", meanwhile)
    with pytest.raises(UsageError, match="has ended"):
        sanitize(folder / "t.parquet", folder / "second", given)
    assert (folder / "out" / "release.parquet").exists()
    assert not (folder / "second").exists()
    assert Ledger(folder / "l").releases == 1


@pytest.mark.parametrize("which", [".", ".run"])
def test_a_folder_that_others_could_write_into_is_not_gone_on_with(stopped, which, monkeypatch):
    folder, given = stopped
    private = folder / ".out.unfinished" / which
    private.chmod(0o777)
    with pytest.raises(UsageError, match="others than you"):
        sanitize(folder / "t.parquet", folder / "out", given)
    assert blocks_of(folder / ".out.unfinished")
    private.chmod(0o700)
    with monkeypatch.context() as patch:
        patch.setattr(os, "geteuid", lambda: os.getuid() + 1)
        with pytest.raises(UsageError, match="others than you"):
            sanitize(folder / "t.parquet", folder / "out", given)
    assert sanitize(folder / "t.parquet", folder / "out", given).card.rows == ROWS


def test_a_block_that_was_damaged_on_the_disk_is_made_again(stopped):
    folder, given = stopped
    whole = sanitize(folder / "t.parquet", folder / "whole", replace(given, resume=False, seed=1))
    run = folder / ".out.unfinished" / ".run"
    with (run / "buckets" / "buckets").open("r+b") as file:
        file.seek(BLOCK * 8 * 3 * 2 + 5)  # in the third block
        file.write(b"damage")
    before = blocks_of(run.parent)
    perturbed = []
    sanitize(folder / "t.parquet", folder / "out", given, lambda step, done, _: perturbed.append((step, done)))
    first = min(done for step, done in perturbed if step == "Perturbing")
    assert first == 3 * BLOCK
    assert before > 3 * (8 + 1 + 32)
    trace = pq.read_table(folder / "out" / "trace.parquet")["source"].to_numpy()
    assert (np.sort(trace) == np.arange(ROWS)).all()
    labels = pq.read_table(folder / "out" / "release.parquet")["ill"].to_pylist()
    assert labels == [("no", "yes")[number % 2] for number in trace]
    assert whole.card.rows == ROWS


def test_a_file_that_may_not_grow_is_told_and_the_work_kept(stopped):
    folder, given = stopped
    sanitize(folder / "t.parquet", folder / "out", given)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (9_000, hard))
        with pytest.raises(OutputError, match=r"ulimit -f.*What is finished is kept"):
            sanitize(folder / "t.parquet", folder / "second", given)
        with pytest.raises(OutputError, match=r"raise the limit\.$"):
            sanitize(folder / "t.parquet", folder / "third", replace(given, resume=False))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert blocks_of(folder / ".second.unfinished")
    assert not (folder / ".third.unfinished").exists()
    sanitize(folder / "t.parquet", folder / "second", given)


@pytest.mark.parametrize(
    ("words", "why"),
    [({"engine": "memory"}, "--engine stream"), ({"only_new": True}, "--only-new")],
)
def test_what_cannot_be_resumed_is_refused_with_words(tmp_path, words, why):
    pq.write_table(pa.table({"a": [0.1, 0.2], "ill": ["no", "yes"]}), tmp_path / "t.parquet")
    schema = Schema(tuple(SCHEMA[name] for name in ("a", "ill")))
    given = {"engine": "stream", "schema": schema, "ledger": tmp_path / "l", "resume": True, **words}
    with pytest.raises(UsageError, match=why):
        sanitize(
            tmp_path / "t.parquet",
            tmp_path / "out",
            Options(mechanism="additive-noise", parameters={"scale": 1.0}, **given),
        )
    with pytest.raises(UsageError, match="a table of files"):
        sanitize(pa.table({"a": [0.1, 0.2]}), tmp_path / "out", Options(engine="stream", resume=True))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["t.parquet"]


@pytest.mark.parametrize("planted", [SCHEMA, (None, {}, 1), 7], ids=["ours", "alike", "number"])
def test_a_sum_that_the_run_did_not_write_is_refused(stopped, planted):
    """One of our own classes too, or something shaped like a sum."""
    folder, given = stopped
    given = replace(given, mechanism="principal-laplace", parameters={"basis": "private", "epsilon_record": 4.0})

    def interrupt(step, _, __):
        if step == "Perturbing":
            raise KeyboardInterrupt

    with pytest.raises(InterruptedRunError):
        sanitize(folder / "t.parquet", folder / "fitted", given, interrupt)
    path = folder / ".fitted.unfinished" / ".run" / "pass-0"
    whole = path.read_bytes()
    path.write_bytes(pickle.dumps(planted))
    with pytest.raises(UsageError, match=r"pass-0 is not what it wrote.*--force"):
        sanitize(folder / "t.parquet", folder / "fitted", given)
    path.write_bytes(whole)
    assert sanitize(folder / "t.parquet", folder / "fitted", given).card.rows == ROWS


def test_a_planted_sum_runs_nothing():
    """A pickle may name what a module of ours imports; only classes that are ours are built."""
    for module, name in (
        ("sfumato.study.server.child_process", "subprocess.Popen"),
        ("os", "system"),
        ("builtins", "eval"),
    ):
        planted = (
            pickle.PROTO
            + b"\x04"
            + b"".join(pickle.SHORT_BINUNICODE + bytes([len(text)]) + text.encode() for text in (module, name))
        )
        with pytest.raises(pickle.UnpicklingError, match="no sum"):
            unfinished_module._SumsOnly(io.BytesIO(planted + pickle.STACK_GLOBAL + pickle.STOP)).load()


def test_a_sum_that_an_earlier_version_kept_is_read():
    """The class of a sum may have moved to another module since the run was killed."""
    terms = NoisyMoments(log2_scale=3, pair=100, size=100)
    kept = pickle.dumps(PairedProducts(terms, 2, np.eye(2, dtype=np.int64), 7), protocol=3)  # with names in plain
    assert b"sfumato.mechanisms.principal_laplace" in kept
    earlier = kept.replace(b"sfumato.mechanisms.principal_laplace", b"sfumato.mechanisms.basis")
    found = unfinished_module._SumsOnly(io.BytesIO(earlier)).load()
    assert (type(found), found.pairs, found.size) == (PairedProducts, 2, 7)
