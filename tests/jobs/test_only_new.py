"""`sanitize --only-new`: every row leaves once, whatever happens in between."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest

from daily import first_daily
from sfumato.core.errors import CardError, NothingNewError, PrivacyLeakWarning, TableError, UsageError
from sfumato.ledger import Ledger
from sfumato.ledger.memories import RowHash
from sfumato.release.only_new import ledger_forget
from sfumato.release.release import Release
from sfumato.release.sanitize import Options, sanitize, sanitize_in_memory
from sfumato.table import Column, Schema, SqlQuery

PUBLIC = {"source": "public", "reason": "known from the form"}
SCHEMA = Schema(
    (
        Column("age", "integer", low=0, high=120, **PUBLIC),
        Column("height", "numeric", low=100, high=250, missing=True, **PUBLIC),
        Column("ill", "categorical", role="label", categories=("no", "yes"), **PUBLIC),
    )
)
PERSONS = Schema((*SCHEMA.columns, Column("who", "integer", role="person")))


def people(n, seed=0, first=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": rng.integers(18, 90, n),
            "height": rng.normal(170, 10, n),
            "ill": rng.choice(["no", "yes"], n),
            "who": first + np.arange(n) // 2,
        }
    )


@pytest.fixture
def release(tmp_path):
    """Release the new rows of a table; returns the numbers of the rows that left, in order."""

    def run(table, name, schema=SCHEMA, **words):
        options = Options(mechanism="additive-noise", schema=schema, **{"only_new": True, **words})
        done = sanitize(table, tmp_path / name, options)
        rows = sorted(Release.open(tmp_path / name).source.tolist())
        assert done.card.rows == len(rows)
        return rows

    return run


NAMED = Schema((*SCHEMA.columns, Column("who", "categorical", role="person")))
SPELLINGS = ["1", "1.0", " 1", "1 ", "01", "2", "P7", "p7 "]


@pytest.mark.parametrize("engine", ["memory", "stream"])
def test_five_spellings_of_one_person_are_one_person_under_a_cap(release, engine):
    table = people(8).assign(who=SPELLINGS)
    assert release(table, "a", NAMED, engine=engine, only_new=False, max_rows_per_person=1) == [0, 5, 6]


def test_a_person_is_known_again_however_the_name_is_written(release):
    release(people(3).assign(who=["1", "P7", "2"]), "a", NAMED, max_rows_per_person=1)
    later = people(10).assign(who=[*SPELLINGS, "3", "4"])
    assert release(later, "b", NAMED, max_rows_per_person=1) == [8, 9]


def test_what_an_earlier_version_remembered_stays_known(release, monkeypatch):
    """0.1.0 hashed names as they are written: whoever it released is not released again."""
    with monkeypatch.context() as earlier:
        earlier.setattr("sfumato.table.cell_sets.one_spelling", lambda word: word)
        release(people(2).assign(who=["P7", "01"]), "a", NAMED, max_rows_per_person=1)
    table = people(6).assign(who=["p7", "P7", "1", "01", "8", "9"])
    assert release(table, "b", NAMED, max_rows_per_person=1) == [4, 5]


@pytest.mark.parametrize("engine", ["memory", "stream"])
def test_only_rows_that_never_left_are_released(release, engine):
    january, february = people(300), people(200, seed=1)
    assert release(january, "a", engine=engine) == list(range(300))
    both = pd.concat([february[:100], january[::-1], february[100:]], ignore_index=True)
    assert release(both, "b", engine=engine) == [*range(100), *range(400, 500)]
    with pytest.raises(NothingNewError, match="None of the 500 rows is new"):
        release(both.sample(frac=1, random_state=0), "c", engine=engine)


def test_nothing_new_leaves_nothing_behind(release, tmp_path):
    release(people(50), "a")
    with pytest.raises(NothingNewError):
        release(people(50), "b")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_equal_rows_are_counted(release):
    """Three people with the same values were released, a fourth comes: one of the four is new."""
    one, other = people(2)[:1], people(2, seed=5)[:1]
    release(pd.concat([one] * 3 + [other] * 2), "a")
    assert len(release(pd.concat([one] * 4 + [other] * 3), "b")) == 2
    with pytest.raises(TableError, match="Only one row is new"):
        release(pd.concat([one] * 5 + [other] * 3), "c")
    assert len(release(pd.concat([one] * 6 + [other] * 3), "d")) == 2


def test_many_buckets_and_blocks_give_what_a_set_gives(release, monkeypatch):
    monkeypatch.setattr("sfumato.release.source.BLOCK_CELLS", 1024)
    rng = np.random.default_rng(3)
    first = people(3000)
    release(first, "a", engine="stream")
    second = pd.concat([first.sample(1500, random_state=1), people(1000, seed=9)], ignore_index=True)
    second = second.iloc[rng.permutation(len(second))].reset_index(drop=True)
    known = set(first["height"])
    wanted = [row for row, height in enumerate(second["height"]) if height not in known]
    assert release(second, "b", engine="stream") == wanted


def test_with_a_person_column_a_person_leaves_once(release):
    """New rows of people who were released before stay at home: what the card says about a person stays true."""
    release(people(100), "a", PERSONS)
    later = pd.concat([people(10, seed=1), people(10, seed=2, first=900)], ignore_index=True)
    assert release(later, "b", PERSONS) == list(range(10, 20))
    with pytest.raises(NothingNewError):
        release(later.assign(age=50), "c", PERSONS)


def test_a_cap_counts_the_rows_of_new_people(release):
    release(people(10), "a", PERSONS, max_rows_per_person=1)
    both = pd.concat([people(10), people(6, first=50)], ignore_index=True)
    assert release(both, "b", PERSONS, max_rows_per_person=1) == [10, 12, 14]


def test_a_ledger_that_remembers_rows_remembers_every_release(release):
    release(people(40), "a")
    release(people(20, seed=1), "b", only_new=False)
    assert release(pd.concat([people(20, seed=1), people(5, seed=2)], ignore_index=True), "c") == list(range(20, 25))


OTHER_BOUNDS = Schema((Column("age", "integer", low=0, high=150, **PUBLIC), *SCHEMA.columns[1:]))


@pytest.mark.parametrize("engine", ["memory", "stream"])
@pytest.mark.parametrize("first", [SCHEMA, OTHER_BOUNDS, PERSONS], ids=["plain", "another schema", "named"])
@pytest.mark.parametrize("only_new", [False, True])
def test_whoever_was_released_in_any_way_is_known(release, engine, first, only_new):
    release(people(40), "a", first, only_new=only_new)
    both = pd.concat([people(20, seed=1), people(40)], ignore_index=True)
    assert release(both, "b", engine=engine) == list(range(20))
    with pytest.raises(NothingNewError, match="add --again"):
        release(both, "c", engine=engine)


@pytest.mark.parametrize("first", [PERSONS, SCHEMA], ids=["named", "plain"])
def test_exactly_the_new_people_go_out_after_a_release_of_everybody(release, first):
    release(people(40), "a", first, only_new=False, max_rows_per_person=2 if first is PERSONS else None)
    grown = pd.concat([people(40), people(10, seed=1, first=70)], ignore_index=True)
    assert release(grown, "b", PERSONS, max_rows_per_person=1) == list(range(40, 50, 2))
    assert release(people(4, seed=2, first=69), "c", PERSONS) == [0, 1], "70 is known by name, 69 is new"


@pytest.mark.parametrize("only_new", [False, True])
def test_new_pseudonyms_are_not_new_people(release, only_new):
    release(people(40), "a", PERSONS, only_new=only_new)
    renamed = pd.concat([people(40, first=500), people(10, seed=1, first=70)], ignore_index=True)
    assert release(renamed, "b", PERSONS) == list(range(40, 50))


def test_equal_rows_of_all_releases_are_counted(release):
    """One in a plain release, then one more with --only-new: of four equal rows two are new."""
    one, other = people(2)[:1], people(2, seed=5)
    release(pd.concat([one, other]), "a", only_new=False)
    assert len(release(pd.concat([one] * 2 + [people(3, seed=6)]), "b")) == 4
    assert len(release(pd.concat([one] * 4 + [other]), "c")) == 2


def test_repeating_needs_a_word_of_its_own(release, tmp_path):
    release(people(40), "a")
    both = pd.concat([people(40), people(10, seed=1)], ignore_index=True)
    assert release(both, "b", again=True) == list(range(50))
    assert Release.open(tmp_path / "b").card.earlier_releases["count"] == 1
    with pytest.raises(NothingNewError):
        release(both, "c")
    assert len(release(both, "d", only_new=False)) == 50, "a plain repeat is allowed"
    with pytest.raises(UsageError, match="--again concerns --only-new alone"):
        release(both, "e", only_new=False, again=True)


def test_made_up_rows_make_nobody_known(release):
    drawn = Options(mechanism="tree-resampling", schema=SCHEMA, epsilon=1.0, delta=1e-6)
    sanitize_in_memory(people(40), drawn)
    assert len(release(people(40), "a")) == 40


def test_the_owner_is_warned_of_releases_that_left_no_fingerprints(release):
    release(people(40), "a", only_new=False)
    data = json.loads(Ledger().path.read_text())
    for entries in data["tables"].values():
        entries[0]["when"] = "2020-01-01"
    Ledger().path.write_text(json.dumps(data))
    Ledger().set_keep_days(30)
    with pytest.warns(PrivacyLeakWarning, match="no fingerprints of 1 earlier release "):
        release(people(40, seed=1), "b")
    with pytest.warns(PrivacyLeakWarning, match="no fingerprints of 1 earlier release "):
        release(people(40, seed=2), "c")


def test_a_seeded_run_is_remembered_like_any_other(release):
    release(people(40), "a", seed=1)
    with pytest.raises(NothingNewError):
        release(people(40), "b")


def test_what_cannot_be_compared_is_refused(tmp_path):
    with pytest.raises(UsageError, match="--schema"):
        sanitize(people(9), tmp_path / "a", Options(only_new=True, label="ill"))
    query = SqlQuery("sqlite://", "select 1")
    with pytest.raises(UsageError, match="differently"):
        sanitize(query, tmp_path / "a", Options(only_new=True, schema=SCHEMA, engine="stream"))


def test_the_memory_is_private_and_holds_no_row(release, tmp_path, monkeypatch):
    monkeypatch.setenv("SFUMATO_LEDGER", str(tmp_path / "own" / "ledger.json"))
    release(people(40), "a")
    home = tmp_path / "own" / "ledger.json.rows"
    files = sorted((path for path in home.rglob("*") if path.is_file()), key=lambda path: path.suffix, reverse=True)
    assert [path.suffix for path in files] == [".rows", ".released"]
    assert files[0].stat().st_size == 40 * 16
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}
    assert {path.stat().st_mode & 0o777 for path in (home, files[0].parent)} == {0o700}
    before = files[0].read_bytes()
    monkeypatch.setenv("SFUMATO_LEDGER", str(tmp_path / "other" / "ledger.json"))
    release(people(40), "b")
    after = next((tmp_path / "other").rglob("*.rows/*/*.rows")).read_bytes()
    assert not {before[i : i + 16] for i in range(0, 640, 16)} & {after[i : i + 16] for i in range(0, 640, 16)}


def test_hashes_tell_rows_apart_and_minus_zero_is_zero():
    rng = np.random.default_rng(0)
    X = rng.random((2000, 5)).round(2)
    hasher = RowHash(bytes(32), "s", 5)
    hashes = hasher.of_rows(X)
    assert len(np.unique(hashes)) == len(np.unique(X, axis=0))
    assert (hasher.of_rows(X[::-1]) == hashes[::-1]).all()
    assert hasher.of_rows(np.array([[-0.0] * 5])) == hasher.of_rows(np.zeros((1, 5)))
    assert RowHash(bytes(32), "t", 5).of_rows(X)[0] != hashes[0]
    words = np.frombuffer(hashes.tobytes(), dtype=np.uint8)
    bits = np.unpackbits(words).mean()
    assert abs(bits - 0.5) < 0.01


KILLED = """
import os, sys
from sfumato.ledger.memories import RowMemory
from sfumato.release.sanitize import Options, sanitize
import sfumato.core.files
from sfumato.table import Schema

def die(*_, **__):
    os._exit(9)

moment, out, table, schema = sys.argv[1:]
if moment == "before the announcement":
    RowMemory.announce = die
elif moment == "before the rename":
    sfumato.core.files._swap = die
else:
    RowMemory.settle = die
sanitize(table, out, Options(mechanism="additive-noise", schema=Schema.load(schema), only_new=True))
"""


@pytest.fixture
def killed(tmp_path):
    """A run that dies as by kill -9 at a given moment."""
    people(30).to_csv(tmp_path / "t.csv", index=False)

    def run(moment, schema=SCHEMA):
        schema.save(tmp_path / "s.yaml")
        words = [moment, tmp_path / "a", tmp_path / "t.csv", tmp_path / "s.yaml"]
        done = subprocess.run([sys.executable, "-c", KILLED, *map(str, words)], env=dict(os.environ), check=False)
        assert done.returncode == 9

    return run


@pytest.mark.parametrize("schema", [SCHEMA, PERSONS], ids=["rows", "people"])
@pytest.mark.parametrize("moment", first_daily(["before the rename", "before the announcement"]))
def test_rows_of_a_run_that_was_killed_before_its_release_stood_are_not_lost(release, killed, tmp_path, moment, schema):
    killed(moment, schema)
    assert not (tmp_path / "a").exists()
    assert len(release(people(30), "b", schema)) == 30


def test_rows_of_a_run_that_was_killed_after_its_release_stood_are_not_released_again(release, killed, tmp_path):
    killed("after the rename")
    (tmp_path / "a").rename(tmp_path / "elsewhere")
    with pytest.raises(CardError, match="put its folder back"):  # released or not? nobody can know
        release(people(30), "b")
    (tmp_path / "elsewhere").rename(tmp_path / "a")
    with pytest.raises(NothingNewError):
        release(people(30), "b")


def test_a_run_that_fails_is_neither_counted_nor_remembered(release, monkeypatch):
    def fail(*_, **__):
        raise OSError(28, "full")

    with monkeypatch.context() as broken:
        broken.setattr("sfumato.core.files._swap", fail)
        with pytest.raises(Exception, match="full"):
            release(people(30), "a")
    assert Ledger().releases == 0
    assert len(release(people(30), "a")) == 30
    assert Ledger().releases == 1


def test_two_runs_at_once_release_every_row_once(release):
    """The second waits for the first, and then finds nothing new."""

    def run(name):
        try:
            return len(release(people(2000), name))
        except NothingNewError:
            return 0

    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(run, "ab")) == [0, 2000]


def test_the_files_of_hashes_do_not_outlive_the_run(release, tmp_path):
    release(people(30), "a")
    shared = {"card.json", "release.parquet", "trace.parquet", "signed.txt", "signed.txt.sig"}
    assert {path.name for path in (tmp_path / "a").iterdir()} == shared


def test_a_release_that_never_left_can_be_forgotten(release, tmp_path):
    release(people(30), "a")
    release(pd.concat([people(30), people(20, seed=1)]), "b")
    assert ledger_forget(tmp_path / "b") == 20
    assert Ledger().releases == 1
    with pytest.raises(UsageError, match="no run with --only-new"):
        ledger_forget(tmp_path / "b")
    sanitize(people(30), tmp_path / "plain", Options(mechanism="additive-noise", label="ill"))
    listed = Ledger().releases
    with pytest.raises(UsageError, match=r"only such a release can be forgotten.*goes on counting"):
        ledger_forget(tmp_path / "plain")
    assert Ledger().releases == listed
    assert len(release(pd.concat([people(30), people(20, seed=1)]), "c")) == 20
    (tmp_path / "c" / "receipt-k3f9.json").write_text("{}")
    with pytest.raises(UsageError, match="was pushed"):
        ledger_forget(tmp_path / "c")
    with pytest.raises(TableError, match=r"no release\.parquet"):
        ledger_forget(tmp_path)
    release(people(10, seed=2), "d", format="xlsx")
    assert ledger_forget(tmp_path / "d") == 10
