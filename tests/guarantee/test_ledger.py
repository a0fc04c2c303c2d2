"""The owner's ledger: every release of the same rows is counted, whatever their order."""

import json
import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from domains import seeds, steady
from sfumato.core.errors import CardError
from sfumato.ledger import Ledger
from sfumato.ledger.ledger import Fingerprint, Note, default_ledger

KEY = bytes(range(32))


def fingerprint(X, blocks=1, key=KEY):
    found = Fingerprint(key, X.shape[1])
    for block in np.array_split(X, blocks):
        found.add(block)
    return found.hexdigest()


def record(ledger, print_, epsilon):
    ledger.record(print_, mechanism="additive-noise", epsilon=epsilon, when="2026-01-01")


@given(seeds, st.integers(1, 30), st.integers(1, 5), st.integers(1, 4))
@steady(60)
def test_neither_order_nor_blocks_matter_to_the_fingerprint(seed, rows, width, blocks):
    rng = np.random.default_rng(seed)
    X = rng.random((rows, width)).round(1)
    assert fingerprint(X[rng.permutation(rows)], blocks) == fingerprint(X)


@given(seeds, st.integers(1, 30), st.integers(1, 5))
@steady(60)
def test_one_changed_cell_one_row_more_or_two_columns_swapped_are_other_rows(seed, rows, width):
    rng = np.random.default_rng(seed)
    X = rng.random((rows, width))
    changed = X.copy()
    changed[rng.integers(rows), rng.integers(width)] += 1e-12
    others = [changed, np.vstack([X, X[:1]]), np.vstack([X, 0 * X[:1]]), X[:-1]]
    if width > 1:
        others.append(X[:, ::-1].copy())
    prints = {fingerprint(other) for other in others}
    assert len(prints) == len(others)
    assert fingerprint(X) not in prints


def test_a_row_twice_and_another_row_twice_are_told_apart():
    """A sum alone would not tell {a, a, d} from {b, b, c}: its squares do."""
    a, b = np.array([[0.25]]), np.array([[0.75]])
    assert fingerprint(np.vstack([a, a, b])) != fingerprint(np.vstack([a, b, b]))


def test_minus_zero_is_zero_and_the_key_matters():
    X = np.array([[0.0, 1.0]])
    assert fingerprint(-X * [1, -1]) == fingerprint(X)
    assert fingerprint(X, key=bytes(32)) != fingerprint(X)


def now(epsilon):
    return Note(mechanism="m", epsilon=epsilon, when="2026-01-01").to_dict()


def figures(earlier, epsilon):
    found = earlier.to_dict(now(epsilon))
    return found["count"], found["total_epsilon_record"]


def test_whether_an_earlier_release_gave_the_label_exactly(tmp_path):
    """Entries of 0.1.0 do not say: they count as if it was."""
    ledger = Ledger(tmp_path / "ledger.json")
    about = {"mechanism": "m", "epsilon": 1.0, "when": "2026-01-01"}
    ledger.record("kept", **about, exact_label=False)
    ledger.record("exact", **about, exact_label=False)
    ledger.record("exact", **about, exact_label=True)
    ledger.record("old", **about)
    assert [ledger.earlier(name).exact_label for name in ("none", "kept", "exact", "old")] == [False, False, True, True]
    ledger.strike("exact", **about, exact_label=True)
    assert not ledger.earlier("exact").exact_label


def test_a_total_is_never_rounded_down(tmp_path):
    """Of ten times 0.1 a plain sum of doubles loses a little; as a card writes them they come to 1, and to no more."""
    ledger = Ledger(tmp_path / "ledger.json")
    for _ in range(9):
        record(ledger, "a", 0.1)
    total = ledger.earlier("a").to_dict(now(0.1))["total_epsilon_record"]
    assert total == 1.0 > sum([0.1] * 10)


def test_counts_and_sums(tmp_path):
    path = tmp_path / "deep" / "ledger.json"
    assert Ledger(path).earlier("a").to_dict(now(2.0)) == {
        "count": 0,
        "total_epsilon_record": 2.0,
        "exact_label": False,
    }
    for epsilon in (1.5, 2.5):
        record(Ledger(path), "a", epsilon)
    record(Ledger(path), "b", math.inf)
    ledger = Ledger(path)
    assert figures(ledger.earlier("a"), 1.0) == (2, 5.0)
    assert figures(ledger.earlier("a"), math.inf) == (2, None)
    assert figures(ledger.earlier("b"), 1.0) == (1, None)
    assert ledger.earlier("c").count == 0


def test_only_the_owner_can_read_it_and_it_holds_no_rows(tmp_path):
    path = tmp_path / "ledger.json"
    record(Ledger(path), "a", 1.0)
    assert path.stat().st_mode & 0o777 == 0o600
    assert set(json.loads(path.read_text())) == {"format", "version", "key", "mark", "tables"}


def test_the_key_stays_the_same_and_differs_between_owners(tmp_path):
    X = np.ones((2, 2))
    first, other = Ledger(tmp_path / "one.json"), Ledger(tmp_path / "two.json")
    prints = []
    for ledger in (first, other):
        found = ledger.fingerprint(2)
        found.add(X)
        prints.append(found.hexdigest())
        record(ledger, prints[-1], 1.0)
    again = Ledger(tmp_path / "one.json").fingerprint(2)
    again.add(X)
    assert again.hexdigest() == prints[0]
    assert prints[0] != prints[1]


def test_two_runs_at_once_lose_nothing_that_was_written_before_they_end(tmp_path):
    path = tmp_path / "ledger.json"
    record(Ledger(path), "a", 1.0)
    first, second = Ledger(path), Ledger(path)
    record(first, "a", 1.0)
    record(second, "a", 1.0)
    assert Ledger(path).earlier("a").count == 3


GOOD = {"format": "sfumato-ledger", "version": 1, "key": "ab" * 32, "tables": {}}


@pytest.mark.parametrize(
    "damaged",
    [
        "",
        json.dumps(GOOD)[:-9],
        "[]",
        "null",
        json.dumps({**GOOD, "key": "xyz"}),
        json.dumps({**GOOD, "key": "ab"}),
        json.dumps({"key": GOOD["key"]}),
        json.dumps({**GOOD, "tables": []}),
        json.dumps({**GOOD, "tables": {"a": [{}]}}),
        json.dumps({**GOOD, "tables": {"a": [{"epsilon_record": "much"}]}}),
        json.dumps({**GOOD, "tables": {"a": 5}}),
    ],
)
def test_a_damaged_ledger_is_told_and_not_started_anew(tmp_path, damaged):
    path = tmp_path / "ledger.json"
    path.write_text(damaged)
    with pytest.raises(CardError, match=r"ledger of releases .* cannot be read"):
        Ledger(path)
    assert path.read_text() == damaged


def test_the_environment_names_the_ledger(monkeypatch, tmp_path):
    monkeypatch.setenv("SFUMATO_LEDGER", str(tmp_path / "mine.json"))
    assert default_ledger() == tmp_path / "mine.json"
    monkeypatch.delenv("SFUMATO_LEDGER")
    assert default_ledger().name == "ledger.json"


def test_entries_of_simultaneous_runs_are_all_kept(tmp_path):
    """Every thread reads, adds and writes under one lock; without it most of these entries would be lost."""
    path = tmp_path / "ledger.json"
    Ledger(path).record("a", mechanism="m", epsilon=1.0, when="2026-01-01")
    ledgers = [Ledger(path) for _ in range(16)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda ledger: record(ledger, "a", 1.0), ledgers))
    assert Ledger(path).earlier("a").count == 17


def test_of_two_runs_at_once_the_second_counts_the_first(tmp_path):
    """What was released before is read in the moment of noting: of sixteen runs at once no two see the same count."""
    path = tmp_path / "ledger.json"
    Ledger(path).keep()
    ledgers = [Ledger(path) for _ in range(16)]
    with ThreadPoolExecutor(8) as pool:
        earlier = list(
            pool.map(lambda ledger: ledger.record("a", mechanism="m", epsilon=1.0, when="2026-01-01"), ledgers)
        )
    assert sorted(found.count for found in earlier) == list(range(16))
    assert sorted(found.epsilon for found in earlier) == list(range(16))


def test_a_note_is_taken_back_and_others_stay(tmp_path):
    path = tmp_path / "ledger.json"
    ledger = Ledger(path)
    for epsilon in (1.0, None, 2.0):
        ledger.record("a", mechanism="m", epsilon=epsilon, when="2026-01-01")
    ledger.strike("a", mechanism="m", epsilon=math.inf, when="2026-01-01")
    ledger.strike("a", mechanism="another", epsilon=1.0, when="2026-01-01")
    assert figures(Ledger(path).earlier("a"), 0.0) == (2, 3.0)
    ledger.strike("a", mechanism="m", epsilon=1.0, when="2026-01-01")
    ledger.strike("a", mechanism="m", epsilon=2.0, when="2026-01-01")
    assert Ledger(path).releases == 0


def test_a_key_that_was_kept_is_the_key_of_all_who_come_later(tmp_path):
    early, late = Ledger(tmp_path / "ledger.json"), Ledger(tmp_path / "ledger.json")
    assert early.key != late.key
    early.keep()
    late.keep()
    assert early.key == late.key
