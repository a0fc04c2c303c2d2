"""Which fingerprints are known, looked up a few at a time, is what comparing with every one of them says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from sfumato.guarantee.person_hash import PersonHash
from sfumato.ledger import Ledger, roll


@pytest.mark.parametrize(("asked", "known"), [(1000, 300), (7, 1), (64, 500), (0, 5), (5, 0)])
def test_known_fingerprints_are_found_where_they_stand(monkeypatch, asked, known):
    monkeypatch.setattr(roll, "ASKED_AT_A_TIME", 64)
    rng = np.random.default_rng(asked)
    theirs = np.sort(rng.integers(0, 1 << 64, size=known, dtype=np.uint64))
    prints = rng.integers(0, 1 << 64, size=asked, dtype=np.uint64)
    if known and asked:
        prints[::3] = rng.choice(theirs, size=len(prints[::3]))
        prints[-1] = np.uint64((1 << 64) - 1)  # beyond the last one
    assert roll.among(theirs, theirs).all()  # the smallest and the largest too
    found = roll.among(prints, theirs)
    assert_array_equal(found, np.array([print_ in set(theirs.tolist()) for print_ in prints.tolist()], dtype=bool))


@pytest.mark.parametrize(
    ("kinds", "rows", "others"), [(1000, 300, 300), (10_000, 50, 600), (1000, 200, 40), (40, 99, 99)]
)
def test_rows_of_strangers_are_told_from_rows_that_come_again(kinds, rows, others):
    """Of rows of so many kinds, chance makes some equal. A few more that were copied are noticed, mostly."""
    rng = np.random.default_rng(kinds + rows)

    def noticed(copied):
        ours, theirs = (rng.integers(0, kinds, count).astype(np.uint64) for count in (rows, others))
        found = min(rows, others) * copied // 100
        ours[:found] = theirs[:found]
        return roll.beyond_chance(ours, theirs)

    assert np.mean([noticed(0) for _ in range(200)]) < 0.03
    if kinds > 40:  # where everybody looks like many others, nobody can be known again
        assert np.mean([noticed(70) for _ in range(200)]) > 0.9


def test_one_row_that_comes_again_is_enough_where_no_two_are_alike():
    theirs = np.arange(100, dtype=np.uint64)
    assert roll.beyond_chance(np.array([99, 500], dtype=np.uint64), theirs)
    assert not roll.beyond_chance(np.array([400, 500], dtype=np.uint64), theirs)
    assert not roll.beyond_chance(np.array([99, 500], dtype=np.uint64), theirs // np.uint64(2) * np.uint64(3))


def rolled(words, folder, name):
    """A table of whole numbers as a roll: the one being made, and as it is kept."""
    hasher, columns = PersonHash(b"k" * 32), [f"c{j}" for j in range(words.shape[1])]
    made = roll.Roll(hasher, columns, people=False)
    made.add(made.told(len(words), lambda place: words[:, place].astype(np.uint32), None))
    made.save(folder, name)
    return made, roll.KeptRoll(folder, name, made.tags, hasher)


@pytest.mark.parametrize(("columns", "kinds"), [(4, 60), (12, 8), (20, 3)])
def test_rows_with_a_changed_cell_are_known_and_strangers_are_not(tmp_path, columns, kinds):
    """Of 150 rows half are of the kept table, with one cell changed; the others are of people like them."""
    rng, known, mistaken = np.random.default_rng(columns), [], []
    for n in range(25):
        ours, theirs = rng.integers(0, kinds, (2, 150, columns))
        kept = rolled(theirs, tmp_path, f"kept{n}")[1]
        mistaken.append(rolled(ours, tmp_path, f"strangers{n}")[0].known_to(kept).any())
        ours[:75] = theirs[:75]
        ours[np.arange(75), rng.integers(0, columns, 75)] += kinds
        found = rolled(ours, tmp_path, f"changed{n}")[0].known_to(kept)
        known.append(found[:75].all() and found[75:].mean() < 0.1)
    assert np.mean(mistaken) <= 0.04
    assert np.mean(known) > 0.9


KEPT = Path(__file__).parents[1] / "vectors" / "before-0.3.0"


@pytest.mark.parametrize("name", ["ledger.json", "bits.ledger.json"])
def test_fingerprints_that_are_made_when_they_are_needed_are_those_that_earlier_versions_wrote(name):
    ledger = Ledger(KEPT / name)
    rolls = [found for _, entry in ledger.entries() if (found := ledger.roll_of(entry)) is not None]
    assert rolls
    for kept in rolls:
        written = np.frombuffer((kept.folder / f"{kept.name}.rows").read_bytes(), dtype="<u8")
        assert_array_equal(kept.rows(), written)
        assert_array_equal(np.unique(kept.sorted_over(kept.tags)), written)
        assert len(kept) >= len(written)


@pytest.mark.parametrize("block", [7, 33, 300])
def test_some_columns_are_opened_as_all_are(tmp_path, block):
    words = np.random.default_rng(block).integers(0, 1 << 32, (300, 9), dtype=np.uint32)
    made = roll.Roll(PersonHash(b"k" * 32), [f"c{j}" for j in range(9)], people=False)
    for start in range(0, 300, block):
        piece = words[start : start + block]
        made.add(made.told(len(piece), lambda place, piece=piece: piece[:, place], None))
    made.save(tmp_path, "kept")
    kept = roll.KeptRoll(tmp_path, "kept", made.tags, made.hasher)
    ordered = words[:, [[made.hasher.tag(f"c{j}") for j in range(9)].index(tag) for tag in made.tags]]
    for wanted in ([0], [4, 1], [8, 0, 3], list(range(9)), list(range(9))[::-1]):
        tags = [made.tags[j] for j in wanted]
        for one in (made, kept):
            assert_array_equal(np.hstack([np.stack(found) for found in one._words(tags)]).T, ordered[:, wanted])
    parts = zip(made.first_without(made.tags, 4), kept.first_without(made.tags, 4), strict=True)
    for n, (one, other) in enumerate(parts):
        rest = [tag for tag in made.tags if tag not in made.tags[n::4]]
        assert_array_equal(one, other)
        assert_array_equal(one, roll.joined(made.hasher.sums(found, rest) for found in made._words(rest)))
    assert len(kept) == len(made) == 300


@pytest.mark.parametrize(("columns", "kinds", "copied"), [(3, 5, 0), (6, 4, 0), (6, 9, 1), (20, 2, 3), (20, 60_000, 1)])
def test_a_few_columns_that_are_looked_at_first_hide_no_row_that_comes_again(
    tmp_path, monkeypatch, columns, kinds, copied
):
    """Against brute force, the same wherever the copies stand and however much the first columns have in common."""
    monkeypatch.setattr(roll, "nearly_known", lambda *given: np.zeros(len(given[-1]), dtype=bool))
    rng = np.random.default_rng(columns * kinds + copied)
    for n in range(10):
        ours, theirs = rng.integers(0, kinds, (2, 200, columns))
        theirs[-1 - copied : -1] = ours[3 : 3 + copied]
        kept = rolled(theirs, tmp_path, f"kept{n}")[1]
        made = rolled(ours, tmp_path, f"made{n}")[0]
        rows = [tuple(row) for row in theirs.tolist()]
        equal = np.array([rows.count(tuple(row)) for row in ours.tolist()])
        assert_array_equal(made.known_to(kept), equal > 0)
        assert_array_equal(made.times_in(kept), equal)
        assert_array_equal(roll.rows_known(made, kept), equal > 0)


def test_strangers_with_columns_of_their_own_are_compared_over_a_few_columns_only(tmp_path, monkeypatch):
    """What no comparison needs is not made: neither fingerprints of all columns nor a file of them."""
    opened = []
    real = roll.unsealed
    monkeypatch.setattr(roll, "TRIED", 1)
    monkeypatch.setattr(
        roll,
        "unsealed",
        lambda hasher, file, columns, wanted: opened.append(len(wanted)) or real(hasher, file, columns, wanted),
    )
    ours, theirs = np.random.default_rng(1).integers(0, 1 << 31, (2, 500, 40))
    kept = rolled(theirs, tmp_path, "kept")[1]
    made = rolled(ours, tmp_path, "made")[0]
    assert not made.known_to(kept).any()
    assert sorted(opened) == [roll.FEW, roll.FEW, 40, 40, 40], "the first rows alone are looked at whole"
    made.save(tmp_path, "again")
    assert not list(tmp_path.glob("*.rows"))
    assert rolled(theirs, tmp_path, "same")[0].known_to(kept).all()


def test_of_columns_that_are_spelt_alike_the_first_counts():
    words = np.arange(12, dtype=np.uint32).reshape(4, 3)
    made = roll.Roll(PersonHash(b"k" * 32), ["Age", "sex", "age"], people=False)
    assert set(made.tags) == {made.hasher.tag("age"), made.hasher.tag("sex")}
    made.add(made.told(4, lambda place: words[:, place], None))
    (found,) = made._words([made.hasher.tag("age")])
    assert_array_equal(found[0], words[:, 0])
