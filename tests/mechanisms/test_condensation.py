"""Condensation: exact groups, the law of new rows, and honest words about small groups."""

import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from domains import any_records, domain, seeds, steady
from sfumato.core.errors import UsageError
from sfumato.guarantee import EMPIRICAL
from sfumato.mechanisms import Condensation
from sfumato.mechanisms import condensation as grouping
from sfumato.mechanisms.condensation import CondensationWarning, nearest_groups, redraw
from sfumato.release.sanitize import Options, sanitize


def one_after_another(X, k, rng):
    """The definition: a random free row takes its k - 1 nearest free rows; one search per group."""
    free = list(range(len(X)))
    groups = []
    for centre in rng.permutation(len(X)):
        if len(groups) == len(X) // k:
            break
        if centre in free:
            near = sorted(free, key=lambda row: (row != centre, ((X[row] - X[centre]) ** 2).sum()))[:k]
            groups.append(set(near))
            free = [row for row in free if row not in near]
    return groups, free


@given(st.integers(0, 80), st.integers(2, 9), st.integers(1, 4), seeds)
@steady(80)
def test_groups_are_those_of_one_search_after_another(rows, k, width, seed):
    X = np.random.default_rng(seed).random((rows, width))
    found = nearest_groups(X, k, np.random.default_rng(seed))
    assert sorted(np.concatenate(found).tolist()) == list(range(rows))
    if rows < 2 * k:
        assert len(found) == 1
        return
    assert min(len(group) for group in found) >= k
    wanted, left = one_after_another(X, k, np.random.default_rng(seed))
    assert [set(group[:k].tolist()) for group in found] == wanted
    for row in left:
        distances = [((X[row] - X[list(group)].mean(axis=0)) ** 2).sum() for group in wanted]
        assert row in found[int(np.argmin(distances))]


def test_groups_stay_exact_where_lists_of_neighbours_run_out(monkeypatch):
    """Two crowds: short lists are eaten up by earlier groups, and the centre is looked up again."""
    monkeypatch.setattr(grouping, "CANDIDATES", 1)
    rng = np.random.default_rng(3)
    X = np.vstack([rng.normal(0, 0.01, (150, 2)), rng.normal(1, 0.01, (90, 2)), np.zeros((30, 2))])
    found = nearest_groups(X[:240], 7, np.random.default_rng(5))
    assert [set(group[:7].tolist()) for group in found] == one_after_another(X[:240], 7, np.random.default_rng(5))[0]
    crowded = nearest_groups(X, 7, np.random.default_rng(5))  # equal rows: any of them will do
    assert sorted(np.concatenate(crowded).tolist()) == list(range(270))
    assert min(map(len, crowded)) >= 7


def test_new_rows_have_the_groups_moments_and_are_uniform_along_its_axes():
    rng = np.random.default_rng(0)
    group = rng.standard_normal((20, 3)) @ np.diag([3.0, 1.0, 0.2]) @ rng.standard_normal((3, 3)) + 5
    drawn = np.vstack([redraw(group, rng) for _ in range(2_000)])
    covariance = np.cov(group.T, bias=True)
    values, axes = np.linalg.eigh(covariance)
    along = (drawn - group.mean(axis=0)) @ axes
    for value, scores in zip(values, along.T, strict=True):
        law = stats.uniform(-np.sqrt(3 * value), 2 * np.sqrt(3 * value))
        assert stats.kstest(scores, law.cdf).pvalue > 1e-6
        wider = stats.uniform(-1.3 * np.sqrt(3 * value), 2.6 * np.sqrt(3 * value))
        assert stats.kstest(scores, wider.cdf).pvalue < 1e-20
    assert np.abs(np.corrcoef(along.T) - np.eye(3)).max() < 6 / np.sqrt(len(along))
    assert np.allclose(np.cov(drawn.T, bias=True), covariance, rtol=0.1, atol=0.02 * values[-1])


def released(X, y=None, k=10, seed=0, encoding=None):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        mechanism = Condensation(k)
        block = mechanism.release(X, y, rng=np.random.default_rng(seed), encoding=encoding)
    return mechanism, block, [str(warning.message) for warning in caught if warning.category is CondensationWarning]


def test_classes_are_condensed_apart_and_rows_are_traced_to_the_nearest_member():
    rng = np.random.default_rng(1)
    X, y = rng.random((300, 3)), rng.integers(3, size=300)
    mechanism, block, said = released(X, y)
    assert np.array_equal(np.sort(block.y), np.sort(y))
    assert np.array_equal(block.y, y[block.source])
    nearest = np.linalg.norm(block.X[:, None] - X[None], axis=2)
    own = nearest[np.arange(300), block.source]
    assert own.mean() < 2 * nearest.min(axis=1).mean()
    assert mechanism.notes() == {"groups": mechanism.groups_, "smallest_group": 10, "degenerate_groups": 0}
    assert said == []
    again = released(X, y)[1]
    assert np.array_equal(block.X, again.X)
    assert not np.array_equal(block.X, released(X, y, seed=1)[1].X)


def test_degenerate_groups_lie_in_the_plane_of_the_old_rows_and_are_counted():
    X = np.random.default_rng(2).random((60, 8))
    mechanism, block, said = released(X, k=4)
    assert mechanism.degenerate_groups_ == mechanism.groups_ == 15
    assert "15 of 15 groups have no more rows than the 8 encoded columns" in said[0]
    group = X[:4]
    plane = np.linalg.svd(group - group.mean(axis=0))[2][3:]
    assert np.abs((redraw(group, np.random.default_rng(0)) - group.mean(axis=0)) @ plane.T).max() < 1e-12
    assert len(block.X) == 60


def test_small_and_single_classes_are_told():
    X = np.random.default_rng(3).random((45, 2))
    y = np.repeat([0, 1, 2], [40, 4, 1])
    mechanism, block, said = released(X, y)
    assert mechanism.smallest_group_ == 1
    assert "2 of 6 groups have fewer than k = 10 rows" in said[0]
    assert "1 of them have one row, which is released unchanged" in said[0]
    assert np.allclose(block.X[block.y == 2], X[44])


@given(st.text("nmoce23?", min_size=1, max_size=5), seeds)
@steady(30)
def test_every_kind_of_column_comes_through(shape, seed):
    encoding = domain(shape)
    X = any_records(encoding, np.random.default_rng(seed), 25)
    mechanism, block, _ = released(X, k=5, encoding=encoding)
    assert np.isfinite(block.X).all()
    constant = [group.start for group in encoding.groups if group.is_constant]
    assert np.allclose(block.X[:, constant], 0.5)
    assert len(encoding.decode(block.X, like_original=True)) == 25
    assert mechanism.guarantee().kind == EMPIRICAL
    assert "neither k-anonymity nor differential privacy" in mechanism.guarantee().in_words()
    assert any("groups of neighbours" in item for item in mechanism.learned())


@pytest.mark.parametrize("k", [1, 0, -3, 2.5, True, "ten"])
def test_k_is_checked(k):
    with pytest.raises(UsageError, match="'k' parameter of condensation must be a whole number above 1"):
        Condensation(k).fit(np.zeros((4, 2)))


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_a_table_of_many_pieces_is_condensed_as_one(tmp_path, kind):
    """Row groups and read blocks must not become groups' borders: every group would be cut at them."""
    rng = np.random.default_rng(4)
    frame = pd.DataFrame(rng.random((500, 2)), columns=["a", "b"])
    path = tmp_path / f"table.{kind}"
    if kind == "parquet":
        pq.write_table(pa.Table.from_pandas(frame), path, row_group_size=7)
    else:
        frame.to_csv(path, index=False)
    options = Options(mechanism="condensation", parameters={"k": 10})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        done = sanitize(path, tmp_path / "r", options)
    assert done.notes == {"groups": 50, "smallest_group": 10, "degenerate_groups": 0}
    assert done.card.noise_path == "none"
    with pytest.raises(UsageError, match=r"condensation needs the whole table at once. Use --engine memory"):
        sanitize(path, tmp_path / "s", Options(mechanism="condensation", engine="stream"))
