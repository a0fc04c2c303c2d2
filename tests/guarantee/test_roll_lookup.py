"""Which fingerprints are known, looked up a few at a time, is what comparing with every one of them says."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from sfumato.guarantee.person_hash import PersonHash
from sfumato.ledger import roll


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
    made.add(made.told([*words.T.astype(np.uint32)], None))
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
