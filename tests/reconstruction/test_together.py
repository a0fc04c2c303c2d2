"""Two columns together, and weighted sums: against what is known of the truth, and with power."""

import numpy as np
import pytest

import sfumato as sf
from sfumato.core.errors import CardError, UsageError
from sfumato.learn.asked import ReconstructAsked
from sfumato.learn.reconstruct import Projection, Wish, reconstruct_each, save_each
from sfumato.reconstruction.joint_density import Pairs, Side, path
from sfumato.reconstruction.reconstruct import make_method

PUBLIC = {"source": "public", "reason": "made up"}
SCHEMA = sf.Schema.from_dict(
    {
        "columns": [
            {"name": "a", "kind": "numeric", "low": 0, "high": 100, **PUBLIC},
            {"name": "b", "kind": "numeric", "low": 0, "high": 40, **PUBLIC},
            {"name": "net pay", "kind": "numeric", "low": -10, "high": 10, **PUBLIC},
            {"name": "sex", "kind": "categorical", "categories": ["f", "m"], **PUBLIC},
        ]
    }
)


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(5)
    x, y = rng.multivariate_normal([0, 0], [[1, 0.8], [0.8, 1]], 20_000).T
    return {
        "a": np.clip(50 + 10 * x, 0, 100),
        "b": np.clip(20 + 4 * y, 0, 40),
        "net pay": rng.uniform(-10, 10, len(x)),
        "sex": np.where(x + rng.normal(0, 1, len(x)) > 0, "f", "m"),
    }


@pytest.fixture(scope="module")
def release(people):
    parameters = {"law": "normal", "scale": 0.1, "category_epsilon": 1.0}
    return sf.sanitize(people, schema=SCHEMA, mechanism="additive-noise", parameters=parameters, seed=8)


def test_two_columns_come_back_together(people, release):
    """Three times nearer to the truth than the product of the columns, which loses all that they have in common."""
    found = sf.reconstruct(release, joint=("a", "b"))
    apart = sf.reconstruct(release, joint=("a", "b"), independent=True)
    assert found.information_loss(people["a"], people["b"]) < 0.1
    assert apart.information_loss(people["a"], people["b"]) > 0.3
    assert found.correlation == pytest.approx(0.8, abs=0.08)
    assert apart.correlation == pytest.approx(0.0, abs=1e-9)
    assert apart.mutual_information == pytest.approx(0.0, abs=1e-9)
    assert found.mass.sum() == pytest.approx(1.0)


def test_columns_that_have_nothing_in_common_stay_apart(release):
    assert abs(sf.reconstruct(release, joint=("a", "net pay")).correlation) < 0.05


def test_a_number_and_a_category_together(people, release):
    found = sf.reconstruct(release, joint=("a", "sex"))
    middles, (f, m) = found.axes[0].cells.middles, found.mass.T
    truth = [people["a"][people["sex"] == sex].mean() for sex in ("f", "m")]
    assert (f @ middles) / f.sum() == pytest.approx(truth[0], abs=2.0)
    assert (m @ middles) / m.sum() == pytest.approx(truth[1], abs=2.0)
    assert truth[0] - truth[1] > 8  # noise of 73% truth alone would leave half of it
    assert found.correlation is None
    assert found.table().column_names == ["a_low", "a_high", "sex", "probability"]


def test_a_step_is_bayes_rule_for_pairs():
    """Against the sums written out, cell by cell."""
    rng = np.random.default_rng(0)
    A, B = (matrix / matrix.sum(axis=0) for matrix in (rng.random((4, 3)), rng.random((5, 2))))
    sides = Side(None, np.arange(4.0), A), Side(None, np.arange(3.0), B)
    pairs = Pairs(rng.integers(1, 9, (4, 5)).astype(float), sides)
    steps = path([pairs], rng.dirichlet(np.ones(6)).reshape(3, 2))
    before, after = next(steps), next(steps)
    wanted = np.zeros((3, 2))
    for z in range(4):
        for w in range(5):
            posterior = A[z, :, None] * B[w, None, :] * before
            wanted += pairs.counts[z, w] * posterior / posterior.sum()
    assert after == pytest.approx(wanted / wanted.sum())


def test_a_weighted_sum_comes_back(people, release):
    """Var(a - 2 b): without the covariance it would be 164 instead of 36; without the noise's part taken out, 200."""
    found = sf.reconstruct(release, along="a - 2*b + 5", resamples=0)
    truth = people["a"] - 2 * people["b"] + 5
    assert found.mean == pytest.approx(truth.mean(), abs=0.5)
    assert found.variance == pytest.approx(truth.var(), rel=0.3)
    assert found.variance < 60
    assert found.name == "a - 2*b + 5"


def test_expressions_that_are_sums_and_others():
    names = ["a", "b", "net pay"]
    assert Projection.read("(a + `net pay`) / 2 - 3", names) == Projection(
        {"net pay": 0.5, "a": 0.5}, -3.0, "(a + `net pay`) / 2 - 3"
    )
    assert Projection.read("2*(a - b) + b", names).weights == {"a": 2.0, "b": -1.0}
    for wrong, words in (
        ("a * b", "not a weighted sum"),
        ("abs(a)", "not a weighted sum"),
        ("a - a", "not 0"),
        ("c + 1", "no variable 'c'"),
        ("`c` + 1", "no column 'c'"),
        ("a +", "cannot be read"),
    ):
        with pytest.raises(UsageError, match=words):
            Projection.read(wrong, names)


def test_more_than_two_columns_are_the_product_of_theirs(people, release):
    """As published [density-reconstruction, 3.3]; every share is that of the pairs and of the columns alone."""
    found = sf.reconstruct(release, joint=("a", "b", "sex"), bins=6, published=False, independent=True)
    two = sf.reconstruct(release, joint=("a", "b"), bins=6, independent=True)
    assert found.mass.shape == (6, 6, 2)
    assert found.mass.sum(axis=2) == pytest.approx(two.mass)
    assert found.mutual_information == pytest.approx(0.0, abs=1e-9)
    assert found.correlation is None
    table = found.table()
    assert table.num_rows == 72
    assert table.column_names == ["a_low", "a_high", "b_low", "b_high", "sex", "probability"]
    assert sum(table["probability"].to_pylist()) == pytest.approx(1.0)
    near, far = (
        found.information_loss(people["a"], people["b"], people["sex"]),
        found.information_loss([min(people["a"])] * len(people["a"]), people["b"], people["sex"]),
    )
    assert near < far
    assert found.plot().count("Shares of") >= 3


def test_what_cannot_be_had_together_is_refused(people, release):
    with pytest.raises(UsageError, match="Give one of"):
        sf.reconstruct(release, "a", along="a")
    with pytest.raises(UsageError, match="'a' is named twice"):
        sf.reconstruct(release, joint=("a", "a"))
    with pytest.raises(UsageError, match="as their product only: add --independent"):
        sf.reconstruct(release, joint=("a", "b", "sex"))
    with pytest.raises(UsageError, match=r"2,000,000 cells, and 1,000,000 are possible"):
        sf.reconstruct(release, joint=("a", "b", "sex"), bins=1_000, independent=True)
    with pytest.raises(UsageError, match="no column 'c'"):
        sf.reconstruct(release, joint=("a", "c"))
    with pytest.raises(CardError, match="no additive noise"):
        sf.reconstruct(release, along="a + sex")
    gaps = {"a": [None, *people["a"][1:500]], "b": people["b"][:500]}
    schema = sf.Schema.from_dict(
        {"columns": [{**column, "missing": True} for column in SCHEMA.to_dict()["columns"][:2]]}
    )
    left_out = sf.sanitize(gaps, schema=schema, mechanism="additive-noise", seed=1)
    with pytest.raises(CardError, match="may be missing"):
        sf.reconstruct(left_out, joint=("a", "b"))


def test_all_wishes_of_one_run_get_folders(people, release, tmp_path):
    release.save(tmp_path / "release")
    options = ReconstructAsked(resamples=0, atoms=False, bins=20)
    wishes = [Wish(("a",)), Wish(("a", "b")), Wish(along="a - 2*b")]
    done = reconstruct_each(tmp_path / "release", wishes, options, people)
    (tmp_path / "out").mkdir()
    save_each([(one.wish.name, one.found) for one in done], tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["a", "a - 2_b", "a and b"]
    assert all(0 <= one.information_loss < 0.25 for one in done)
    picture = (tmp_path / "out" / "a and b" / "density.svg").read_text()
    assert picture.count("<rect") == 401
    assert make_method("parzen-program").name in done[0].found.summary()["method"]
