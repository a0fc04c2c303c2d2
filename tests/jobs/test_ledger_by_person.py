"""The ledger adds up by person: overlapping tables, months and schemas, however they are written."""

import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import sfumato as sf
from sfumato.core.errors import BudgetError, CardError
from sfumato.guarantee import Card
from sfumato.guarantee.all_releases import AllReleases
from sfumato.guarantee.cost import epsilon_of, rho_for
from sfumato.guarantee.person_hash import Tally
from sfumato.ledger import Ledger
from sfumato.ledger.ledger import Budget
from sfumato.ledger.roll import Roll
from sfumato.mechanisms.central.column_codes import replacing_costs
from sfumato.table import Column, Schema

PUBLIC = {"source": "public", "reason": "the form"}
SCHEMA = Schema(
    (
        Column("age", "integer", low=0, high=120, **PUBLIC),
        Column("weight", "numeric", low=0, high=200, **PUBLIC),
        Column("ward", "categorical", categories=("north", "south"), **PUBLIC),
        Column("day", "date", low="2020-01-01", high="2020-12-31", **PUBLIC),
    )
)
N = 60
RNG = np.random.default_rng(5)
PEOPLE, OTHERS, STRANGERS = (
    pd.DataFrame(
        {
            "age": RNG.integers(20, 90, N),
            "weight": RNG.normal(80, 9, N).round(3),
            "ward": RNG.choice(["north", "south"], N),
            "day": pd.to_datetime("2020-01-01") + pd.to_timedelta(RNG.integers(0, 365, N), unit="D"),
        }
    )
    for _ in range(3)
)


@pytest.fixture
def book(tmp_path):
    return tmp_path / "book.json"


@pytest.fixture
def release(book):
    def run(rows, record=1.0, schema=SCHEMA, **words):
        given = {"mechanism": "additive-noise", "epsilon_record": record, "schema": schema, "ledger": book}
        return sf.sanitize(rows, **{**given, **words}).card.earlier_releases

    return run


def without(name):
    return Schema(tuple(column for column in SCHEMA.columns if column.name != name))


WIDER = Schema((*SCHEMA.columns, Column("height", "numeric", low=0, high=250, **PUBLIC)))
AS_TEXT = PEOPLE.assign(
    age=PEOPLE["age"].map("{:.2f}".format),
    weight=PEOPLE["weight"].map("{:.5e}".format),
    ward=PEOPLE["ward"],
    day=PEOPLE["day"].dt.strftime("%Y-%m-%d"),
)
WORDS = Schema(tuple(replace(c, categories=("North", "SOUTH")) if c.name == "ward" else c for c in SCHEMA.columns))
SAME = {
    "one row less": (PEOPLE[1:], SCHEMA),
    "other bounds": (PEOPLE, SCHEMA.with_column("weight", low=60, high=90)),
    "reordered": (PEOPLE.iloc[::-1, ::-1], Schema(SCHEMA.columns[::-1])),
    "another format": (AS_TEXT, SCHEMA),
    "single precision": (PEOPLE.astype({"weight": np.float32, "age": np.int16}), SCHEMA),
    "other letters": (PEOPLE.replace({"ward": {"north": "North", "south": "SOUTH"}}), WORDS),
    "a column less": (PEOPLE, without("day")),
    "a column more": (PEOPLE.assign(height=RNG.normal(170, 9, N)), WIDER),
    "one less and one more": (
        PEOPLE.assign(height=RNG.normal(170, 9, N)),
        Schema((*without("day").columns, WIDER["height"])),
    ),
    "a number as a category": (
        PEOPLE,
        SCHEMA.with_column("age", kind="categorical", low=None, high=None, categories=tuple(map(str, range(121)))),
    ),
}


def with_a_cell_changed(table, rng, every=1):
    """In every row (or every third, say) one cell is another, in any of the columns."""
    changed = table.copy().astype({"day": object, "ward": object})
    values = {"age": 1, "weight": 0.5, "day": pd.Timedelta(days=1)}
    for row in range(0, len(table), every):
        column = rng.choice([*values, "ward"])
        old = changed[column].iloc[row]
        new = {"north": "south", "south": "north"}[old] if column == "ward" else old + values[column]
        changed.iloc[row, changed.columns.get_loc(column)] = new
    return changed.astype(table.dtypes.to_dict())


@pytest.mark.parametrize("every", [1, 3, 10])
@pytest.mark.parametrize("names", [False, True])
def test_one_changed_cell_makes_no_other_person_not_even_with_new_pseudonyms(release, book, every, names):
    given = {"person": "id", "max_rows_per_person": 1} if names else {}
    first, second = (
        frame.assign(id=[f"{word}{i}" for i in range(N)]) if names else frame
        for word, frame in (("a", PEOPLE), ("b", with_a_cell_changed(PEOPLE, np.random.default_rng(0), every)[::-1]))
    )
    release(first, 3.0, **given)
    strangers = OTHERS.assign(id=[f"c{i}" for i in range(N)]) if names else OTHERS
    assert release(with_a_cell_changed(strangers, np.random.default_rng(1), every), 3.0, **given)["count"] == 0
    found = release(second, 2.0, **given)
    assert (found["count"], found["total_epsilon_record"]) == (1, pytest.approx(5.0))
    assert found["people"]["local_epsilon"] == {"worst": pytest.approx(5.0), "median": pytest.approx(5.0)}
    if names:
        shown = [one.totals.worst for one in sf.show_ledger(book, people=True).releases]
        assert sorted(shown) == pytest.approx([3.0, 5.0, 5.0])


@pytest.mark.parametrize("how", SAME)
def test_the_same_people_are_known_again(release, how):
    release(PEOPLE, 1.5)
    found = release(SAME[how][0], 2.0, schema=SAME[how][1])
    assert found["count"] == 1
    assert found["total_epsilon_record"] == pytest.approx(3.5)
    assert found["people"]["local_epsilon"] == {"worst": pytest.approx(3.5), "median": pytest.approx(3.5)}


def test_other_people_are_not_and_neither_are_columns_that_tell_nobody_apart(release):
    release(PEOPLE)
    assert release(OTHERS)["count"] == 0
    few = Schema((SCHEMA["ward"], WIDER["height"]))
    assert release(PEOPLE.assign(height=RNG.normal(170, 9, N)), schema=few)["count"] == 0


def test_totals_are_those_of_each_person(release):
    """Brute force: 60 people in overlapping tables, some of them without a proof."""
    everybody = pd.concat([PEOPLE, OTHERS])
    parts, epsilons = [slice(0, 40), slice(20, 80), slice(70, 120)], [1.0, 2.0, None]
    for part, epsilon in zip(parts, epsilons, strict=True):
        law = {} if epsilon else {"epsilon_record": None, "parameters": {"law": "normal"}}
        release(everybody[part], epsilon, **law)
    found = release(everybody[10:75], 4.0)
    sums = [4.0 + (i < 40) * 1.0 + (20 <= i < 80) * 2.0 for i in range(10, 75)]
    times = [1 + (i < 40) + (20 <= i < 80) + (i >= 70) for i in range(10, 75)]
    assert found["count"] == 3
    assert found["total_epsilon_record"] is None
    assert found["people"] == {
        "by": "row",
        "releases": {"worst": max(times), "median": sorted(times)[32]},
        "local_epsilon": {"worst": pytest.approx(max(sums)), "median": pytest.approx(sorted(sums)[32])},
        "unproved_releases": {"worst": 1, "median": 0},
    }


def test_a_person_is_known_by_name_whatever_the_values_are(release):
    named = Schema((*SCHEMA.columns, Column("id", "categorical", role="person")))
    words = {"schema": named, "max_rows_per_person": 2}
    ids = np.repeat(np.arange(30), 2)
    release(PEOPLE.assign(id=ids), 1.0, **words)
    months = release(OTHERS.assign(id=[f" 0{i}.0" for i in ids + 20]), 2.0, **words)
    assert months["count"] == 1
    assert months["people"]["local_epsilon"] == {"worst": pytest.approx(6.0), "median": pytest.approx(4.0)}
    asked = release(STRANGERS[1:].assign(number=ids[1:] + 100), 1.0, max_rows_per_person=2, person="number")
    assert asked["people"]["by"] == "person"
    assert asked["count"] == 0


def test_new_pseudonyms_do_not_make_other_people_of_the_same_rows(release, book):
    """50 of 60 rows come again under other names: they count, and the budget holds for them. Strangers do not."""
    words = {"person": "id", "max_rows_per_person": 1}
    release(PEOPLE.assign(id=[f"P{i}" for i in range(N)]), 3.0, **words)
    renamed = pd.concat([PEOPLE[:50], OTHERS[:10]]).assign(id=[f"case-{i}" for i in range(N)])
    Ledger(book).set_budget(Budget(5.0))
    with pytest.raises(BudgetError, match="would bring a person to epsilon 6"):
        release(renamed, 3.0, **words)
    assert release(STRANGERS.assign(id=[f"S{i}" for i in range(N)]), 3.0, **words)["count"] == 0
    Ledger(book).set_budget(None)
    found = release(renamed, 3.0, **words)
    assert (found["count"], found["total_epsilon_record"]) == (1, pytest.approx(6.0))
    assert found["people"]["releases"] == {"worst": 2, "median": 2}
    narrower = release(renamed[40:].assign(id=range(20)), 1.0, schema=without("day"), **words)
    assert narrower["total_epsilon_record"] == pytest.approx(7.0), "as known over the columns that both have"


def test_strangers_who_look_alike_are_told_apart_by_their_names(release):
    few, words = without("weight"), {"person": "id", "max_rows_per_person": 1}
    rng = np.random.default_rng(1)

    def table(word):
        days = pd.to_datetime("2020-01-01") + pd.to_timedelta(rng.integers(0, 9, 200), unit="D")
        wards = rng.choice(["north", "south"], 200)
        return pd.DataFrame({"age": rng.integers(40, 60, 200), "ward": wards, "day": days}).assign(
            id=[f"{word}{i}" for i in range(200)]
        )

    first = table("a")
    release(first, schema=few, **words)
    assert release(table("b"), schema=few, **words)["count"] == 0
    assert release(first[1:].assign(id=first["id"] + "x"), schema=few, **words)["count"] == 1, "chance explains b alone"


def test_made_up_rows_leave_no_fingerprint_and_ask_for_none(release, book, monkeypatch):
    words = {"person": "id", "max_rows_per_person": 1}
    named = PEOPLE.assign(id=range(N))
    release(named, **words)
    kept = sorted(book.with_name("book.json.people").iterdir())
    monkeypatch.setattr(Roll, "told", lambda *_: pytest.fail("a row was fingerprinted"))
    monkeypatch.setattr(Roll, "known_to", lambda *_: pytest.fail("rows were compared"))
    drawn = {"mechanism": "tree-resampling", "epsilon_record": None, "epsilon_presence": 1.0, "delta": 1e-6, **words}
    assert "people" not in release(named.assign(id=range(N, 2 * N)), **drawn)
    assert sorted(book.with_name("book.json.people").iterdir()) == kept


@pytest.fixture
def on_disk(tmp_path):
    """The same as files: a table, and releases beside it."""
    PEOPLE.to_parquet(tmp_path / "people.parquet")
    words = {"schema": SCHEMA, "mechanism": "additive-noise", "epsilon_record": 1.0}

    def run(out, ledger, table=tmp_path / "people.parquet", **more):
        where = None if out is None else tmp_path / out
        return sf.sanitize(table, **{**words, "out": where, "ledger": tmp_path / ledger, **more})

    return run


def test_the_first_release_of_a_ledger_is_told(on_disk, tmp_path):
    on_disk(None, "one.json", dry_run=True)
    assert not (tmp_path / "one.json").exists()
    Ledger(tmp_path / "one.json").set_budget(Budget(9.0))  # a ledger begins with its first release
    assert on_disk("a", "one.json").told.new_ledger == tmp_path / "one.json"
    assert on_disk("b", "one.json").told.new_ledger is None
    assert on_disk(None, "one.json", dry_run=True).told.new_ledger is None


def test_a_card_that_another_ledger_counted_is_found_where_releases_and_tables_lie(on_disk, tmp_path):
    first, second = on_disk("a", "one.json").card, on_disk("b", "one.json").card
    mark = first.earlier_releases["ledger"]
    assert (len(mark), mark) == (16, Ledger(tmp_path / "one.json").mark)
    assert second.earlier_releases["ledger"] == mark
    assert "counted_elsewhere" not in {**first.earlier_releases, **second.earlier_releases}
    (tmp_path / "elsewhere").mkdir()
    for out, more in {"c": {"table": PEOPLE}, "elsewhere/d": {}, "a": {"force": True}}.items():
        card = on_disk(out, f"{out.replace('/', '')}.json", **more).card
        assert card.earlier_releases["counted_elsewhere"] is True
        assert card.earlier_releases["ledger"] != mark
        assert "this ledger is younger than the table's first release, or not" in card.guarantee["words"]
        first_line = AllReleases.from_dict(card.guarantee, card.earlier_releases).bottom_line()
        assert "all releases of this ledger counted, not another's" in first_line
        assert Card.load(tmp_path / out) == card
    (tmp_path / "alone").mkdir()
    assert "counted_elsewhere" not in on_disk("alone/e", "e.json", table=PEOPLE).card.earlier_releases
    assert "ledger" not in on_disk("s", "s.json", seed=1).card.earlier_releases, "a seed repeats everything"
    tried = on_disk(None, "f.json", dry_run=True).card.earlier_releases
    assert "ledger" not in tried
    assert tried["counted_elsewhere"]


def test_cards_of_other_tables_and_what_is_no_card_say_nothing(on_disk, tmp_path):
    on_disk("a", "one.json")
    other = pd.DataFrame({"x": np.arange(9.0)})
    schema = Schema((Column("x", "numeric", low=0, high=9, **PUBLIC),))
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "card.json").write_text("[" * 100_000)
    (tmp_path / "short").mkdir()
    (tmp_path / "short" / "card.json").write_text('{"earlier_releases": {"ledger": 7}, "source_schema": [1]}')
    card = on_disk("b", "two.json", table=other, schema=schema).card
    assert "counted_elsewhere" not in card.earlier_releases
    assert "another ledger" not in card.guarantee["words"]


def test_a_ledger_without_a_mark_gets_one_that_stays(on_disk, tmp_path):
    book = tmp_path / "one.json"
    on_disk("a", "one.json")
    data = json.loads(book.read_text())
    del data["mark"]
    book.write_text(json.dumps(data))
    found = {on_disk(out, "one.json").card.earlier_releases["ledger"] for out in "bc"}
    assert found == {Ledger(book).mark}


def test_what_is_kept_tells_nothing_without_the_key_and_is_private(release, book):
    release(PEOPLE)
    release(PEOPLE)
    kept = sorted(book.with_name("book.json.people").iterdir())
    assert {path.stat().st_mode & 0o777 for path in kept} == {0o600}
    assert kept[0].parent.stat().st_mode & 0o777 == 0o700
    sealed = [path.read_bytes() for path in kept if path.suffix == ".cells"]
    assert len(sealed[0]) == len(sealed[1]) == 16 + 4 + 4 * N * 4
    assert sealed[0][:16] != sealed[1][:16]
    assert np.mean(np.frombuffer(sealed[0], np.uint8) == np.frombuffer(sealed[1], np.uint8)) < 0.05
    other = Ledger(book.with_name("other.json"))
    rolls = [book_.people_hash.of_rows([np.arange(9, dtype=np.uint32)], ["a"]) for book_ in (other, Ledger(book))]
    assert not np.isin(rolls[0], rolls[1]).any()


@pytest.mark.parametrize("left", [3, 100, -1])
def test_a_damaged_roll_is_told(release, book, left):
    release(PEOPLE)
    (cells,) = book.with_name("book.json.people").glob("*.cells")
    cells.write_bytes(cells.read_bytes()[:left])
    with pytest.raises(CardError, match="Take it from a backup"):
        release(PEOPLE[1:])


def test_the_budget_refuses_beforehand_and_a_dry_run_says_so(release, book, tmp_path):
    release(PEOPLE, 3.0)
    Ledger(book).set_budget(Budget(5.0))
    assert release(PEOPLE[:20], 2.0)["total_epsilon_record"] == pytest.approx(5.0)
    before = book.read_bytes()
    for words in ({"dry_run": True}, {"out": tmp_path / "r"}):
        with pytest.raises(BudgetError, match=r"epsilon 5\.5.* budget is epsilon 5\. Nothing was released") as told:
            release(PEOPLE[10:], 0.5, **words)
        assert told.value.exit_code == 10
    with pytest.raises(BudgetError, match="no bound that is proved"):
        release(OTHERS, seed=3)
    assert book.read_bytes() == before
    assert not (tmp_path / "r").exists()
    assert release(PEOPLE[20:], 2.0)["count"] == 1
    Ledger(book).set_budget(None)
    assert release(PEOPLE[10:], 0.5)["count"] == 3


def test_the_budget_of_both_kinds_together(release, book):
    """Somebody's values: of made-up rows the cost of one replaced record."""
    words = {"mechanism": "tree-resampling", "epsilon_record": None, "delta": 1e-6}
    once, twice = (epsilon_of(times * replacing_costs(2) * rho_for(1.5, 1e-6), 1e-6) for times in (1, 2))
    Ledger(book).set_budget(Budget(once + 0.05, delta=1e-6))
    with pytest.raises(BudgetError, match="delta"):
        release(PEOPLE, **{**words, "epsilon_presence": 1.0, "delta": 1e-4})
    release(PEOPLE, **{**words, "epsilon_presence": 1.5})
    with pytest.raises(BudgetError, match="would bring a person to epsilon") as refused:
        release(OTHERS, **{**words, "epsilon_presence": 1.5})
    said = float(re.search(r"to epsilon ([\d.]+\d)", str(refused.value))[1])
    assert 0.9 * twice < said <= twice * 1.01  # rounded up to three digits
    release(PEOPLE, 0.04)
    with pytest.raises(BudgetError, match="would bring a person to epsilon"):
        release(PEOPLE, 0.4)


def test_a_person_with_several_rows_has_spent_all_of_them(release, book):
    """Two rows at epsilon 1, then one record of a noisy model at 0.5: 2 x 1 and, for both rows' values, 4 x 0.5."""
    words = {"person": "id", "max_rows_per_person": 2}
    named = PEOPLE.assign(id=np.repeat(np.arange(30), 2))
    release(named, 1.0, **words)
    drawn = {"mechanism": "tree-resampling", "epsilon_record": None, "epsilon_presence": 0.5, "delta": 0.0, **words}
    Ledger(book).set_budget(Budget(3.9))
    with pytest.raises(BudgetError, match="would bring a person to epsilon 4"):
        release(named, **drawn, dry_run=True)
    Ledger(book).set_budget(Budget(4.0))
    release(named, **drawn, dry_run=True)


def test_people_who_were_named_once_stay_people_where_no_column_names_them(release, book):
    """Two rows of a person at epsilon 1, then both without a name at 0.5: 2 x 1 + 2 x 0.5."""
    release(PEOPLE.assign(id=np.repeat(np.arange(30), 2)), 1.0, person="id", max_rows_per_person=2)
    Ledger(book).set_budget(Budget(2.9))
    with pytest.raises(BudgetError, match="would bring a person to epsilon 3"):
        release(PEOPLE, 0.5, dry_run=True)
    release(OTHERS, 2.5, dry_run=True)  # other people, of whom nobody said that they have several rows
    Ledger(book).set_budget(Budget(3.0))
    release(PEOPLE, 0.5, dry_run=True)


def test_the_owner_sees_releases_with_and_without_names_added_up(release, book):
    """Two rows of a person at epsilon 1, then both without a name at 0.5: for each of both releases 2 x 1 + 2 x 0.5."""
    release(PEOPLE.assign(id=np.repeat(np.arange(30), 2)), 1.0, person="id", max_rows_per_person=2)
    release(PEOPLE, 0.5)
    release(OTHERS, 4.0)
    named, unnamed, others = sf.show_ledger(book, people=True).releases
    assert (named.totals.by, named.totals.releases.worst, named.totals.worst) == ("person", 2, pytest.approx(3.0))
    assert (unnamed.totals.by, unnamed.totals.worst) == ("row", pytest.approx(1.5))
    assert [one.values.epsilon for one in (named, unnamed, others)] == pytest.approx([3.0, 3.0, 4.0])
    release(PEOPLE.assign(id=np.repeat(np.arange(30) + 500, 2)), 2.0, person="id", max_rows_per_person=2)
    named, _, pseudonyms, _ = sf.show_ledger(book, people=True).releases  # of one day, by table
    assert named.totals.worst == pseudonyms.totals.worst == pytest.approx(7.0)


def test_a_refused_release_deletes_nothing_that_the_ledger_still_names(release, book):
    release(PEOPLE)
    data = json.loads(book.read_text())
    for releases in data["tables"].values():
        releases[0]["when"] = "2020-01-01"
    book.write_text(json.dumps({**data, "budget": {"epsilon": 0.5}, "keep_days": 30}))
    with pytest.raises(BudgetError):
        release(OTHERS)
    assert sf.show_ledger(book).releases[0].people == N
    Ledger(book).set_budget(None)
    assert sf.show_ledger(book).releases[0].people is None
    assert not list(book.with_name("book.json.people").iterdir())


def test_a_note_whose_fingerprints_have_expired_can_be_taken_back(book):
    ledger, note = Ledger(book), {"mechanism": "m", "epsilon": 1.0, "when": "2020-01-01"}
    note["roll"] = {"name": "ab", "tags": [], "people": False}
    ledger.record("a", **note)
    ledger.set_keep_days(30)
    ledger.strike("a", **note)
    assert ledger.releases == 0


def test_fingerprints_are_kept_for_as_long_as_the_owner_wants(release, book):
    release(PEOPLE)
    data = json.loads(book.read_text())
    for releases in data["tables"].values():
        releases[0]["when"] = "2020-01-01"
    book.write_text(json.dumps(data))
    Ledger(book).set_keep_days(30)
    assert not list(book.with_name("book.json.people").iterdir())
    assert Ledger(book).releases == 1
    assert release(PEOPLE[1:])["count"] == 0
    assert release(PEOPLE)["count"] == 2, "the whole table is still known"


def test_a_killed_run_never_leaves_a_release_without_a_mark(book, tmp_path):
    PEOPLE.to_parquet(tmp_path / "people.parquet")
    SCHEMA.save(tmp_path / "schema.yaml")
    program = """
import os, signal, sys
from pathlib import Path
import sfumato as sf
from sfumato.release.write_release import InFolder
InFolder.take = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
here = Path(sys.argv[1])
sf.sanitize(here / "people.parquet", schema=here / "schema.yaml", mechanism="additive-noise", epsilon_record=1,
            ledger=here / "book.json", out=here / "out")
"""
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], env=os.environ, check=False)
    assert done.returncode == -signal.SIGKILL
    assert not (tmp_path / "out").exists()
    assert Ledger(book).releases == 1
    words = {"schema": SCHEMA, "mechanism": "additive-noise", "epsilon_record": 1, "ledger": book}
    assert sf.sanitize(PEOPLE[3:], **words).card.earlier_releases["count"] == 1


def test_a_tally_against_brute_force():
    rng = np.random.default_rng(0)
    seen, epsilons = rng.random((6, 50)) < 0.4, [0.5, 1.0, 2.0, 4.0, 8.0, np.inf]
    tally = Tally(50)
    for number, one in enumerate(seen):
        tally.add(number, one)
    proved = 1.0 + np.array(epsilons[:5]) @ seen[:5]
    found = tally.totals(epsilons, 1.0)
    assert (found.epsilon.worst, found.epsilon.median) == (proved.max(), np.sort(proved)[25])
    assert (found.unproved.worst, found.unproved.median) == (seen[5].max(), np.sort(seen[5])[25])
    assert found.worst == np.inf
