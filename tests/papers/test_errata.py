"""docs/errata.md: each row names what shows it, and that is there; what needs a line of arithmetic is shown here."""

import re
from pathlib import Path

import numpy as np
import pytest

from sfumato.auditing.figures.item import items

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "errata.md").read_text()
PAPERS = ("kernel-resampling", "density-reconstruction", "random-rotation", "principal-laplace", "guided-survey")
ROWS = [line for line in TEXT.splitlines() if line.startswith("| ") and not line.startswith(("| where", "|--"))]


def test_all_papers_are_there():
    assert all(f"## {paper}" in TEXT for paper in PAPERS)
    assert len(ROWS) > 35


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[2:40])
def test_each_row_names_a_test_a_page_or_an_item_that_exists(row):
    cells = row.strip().strip("|").split("|")
    assert len(cells) == 5, "where, printed, what holds, readings, shown by"
    named = re.findall(r"`([^`]+)`", cells[4])
    assert named
    for one in named:
        if not one.startswith("sfumato figure "):
            assert (ROOT / one).is_file(), one
            continue
        item, *options = one.removeprefix("sfumato figure ").split()
        assert item in items(), one
        if options:
            assert options[0] == "--set"
            assert options[1] in items()[item].sets


def test_columns_lie_between_0_and_1_less_their_least_value_and_not_its_share_of_the_range():
    """random-rotation, 4.2: t = min / (max - min) is what is printed, to be taken off before the division."""
    x = np.random.default_rng(0).uniform(20, 60, 1_000)
    low, width = x.min(), np.ptp(x)
    assert ((x - low) / width).min() == 0
    assert ((x - low) / width).max() == 1
    assert ((x - low / width) / width).max() > 1


def test_a_kernel_of_distances_has_their_square():
    """random-rotation, 3.2: exp(-|x - x'| / w) without the square is the kernel of another law."""
    from sklearn.metrics.pairwise import laplacian_kernel, rbf_kernel

    x, other = np.array([[0.2]]), np.array([[0.7]])
    assert rbf_kernel(x, other, gamma=2.0)[0, 0] == pytest.approx(np.exp(-2.0 * 0.5**2))
    assert laplacian_kernel(x, other, gamma=2.0)[0, 0] == pytest.approx(np.exp(-2.0 * 0.5))


def test_eq_10_at_two_deviations_is_not_above_nine_tenths():
    """principal-laplace: Vysochanskij and Petunin, 1 - 4 / (9 n^2), which is sharp: this unimodal law attains it."""
    n = 2.0
    bound = 1 - 4 / (9 * n**2)
    assert bound == pytest.approx(0.889, abs=5e-4)
    share = 4 / (3 * n**2)  # a spike at 0, else uniform on [-a, a] with a = 3 n / 2 deviations
    a = 1.5 * n
    assert share * a**2 / 3 == pytest.approx(1.0)  # the variance
    assert 1 - share * (a - n) / a == pytest.approx(bound)  # what lies within n deviations


def test_eq_11_divides_by_the_sum():
    """principal-laplace: weights of 1/d^2 alone do not add up to one; the votes of the classifier do."""
    from sfumato.learn.classifiers import Part, RadiusVote, fit_on_parts

    rng = np.random.default_rng(1)
    X, y = rng.random((60, 2)), np.arange(60) % 3
    vote = fit_on_parts(RadiusVote(prior_correction=False, radius=0.25), [Part(X, y)])
    assert vote.vote_shares(rng.random((5, 2))).sum(axis=1) == pytest.approx(1.0)
