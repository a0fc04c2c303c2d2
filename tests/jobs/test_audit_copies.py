"""Copies, crowds and fidelity of any tool's table: found where they were planted, and not where they were not."""

import json

import numpy as np
import pandas as pd
import pytest
from scipy.stats import wasserstein_distance

import sfumato as sf
from sfumato.auditing.copies import _ratio, _without_self, row_keys
from sfumato.auditing.report.page import render_report
from sfumato.core.errors import PrivacyLeakWarning, UsageError

QUICK = {"attacks": ["naive-estimate"], "repeats": 0}
COLUMNS = ["age", "sex", "zip", "bmi", "ill"]


def people(count, seed):
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 90, count)
    return pd.DataFrame(
        {
            "age": age,
            "sex": rng.choice(["f", "m"], count),
            "zip": rng.choice([f"z{i}" for i in range(8)], count),
            "bmi": np.round(20 + age / 15 + rng.normal(0, 3, count), 1),
            "ill": np.where(rng.random(count) < 1 / (1 + np.exp(-(age - 60) / 10)), "yes", "no"),
        }
    )


ORIGINAL, HOLDOUT, FRESH = people(600, 1), people(600, 2), people(600, 3)
COPYING = FRESH.copy()
COPYING.iloc[:120] = ORIGINAL.iloc[100:220].to_numpy()
COPYING = COPYING.astype(FRESH.dtypes.to_dict()).sample(frac=1, random_state=4)


def audited(release, **more):
    return sf.audit(release, original=ORIGINAL, label="ill", **{"holdout": HOLDOUT, **QUICK, **more})


@pytest.fixture(scope="module")
def copying():
    return audited(COPYING, quasi_identifiers=["age", "sex", "zip"], population=60_000, repeats=1)


@pytest.fixture(scope="module")
def fresh():
    return audited(FRESH, repeats=1)


def test_exact_copies_are_those_that_pandas_finds(copying):
    private = COLUMNS[:-1]
    expected = COPYING.merge(ORIGINAL[private].drop_duplicates(), on=private)
    strangers = HOLDOUT.merge(ORIGINAL[private].drop_duplicates(), on=private)
    exact = copying.copies["exact"]
    assert exact["share"] == pytest.approx(len(expected) / 600)
    assert exact["control"] == pytest.approx(len(strangers) / 600)
    assert exact["share"] > 0.19
    assert exact["of_unique"] > 0.19
    assert exact["interval"][0] > exact["control"]


def test_copies_show_in_distances_and_fresh_rows_do_not(copying, fresh):
    near, clean = copying.copies["near"], fresh.copies["near"]
    assert near["interval"][0] > near["expected"]
    assert near["nearer_interval"][0] > 0.5
    assert near["dcr"]["release"]["p05"] == 0
    assert clean["interval"][0] < clean["expected"] + 0.03
    assert clean["nearer_interval"][0] < 0.5 < clean["nearer_interval"][1]


def test_a_generalised_row_is_no_copy_even_where_a_mean_is_somebodys_value():
    wide = ORIGINAL.assign(age=np.where(ORIGINAL.age < 19, "10-19", ORIGINAL.age.astype(str)))
    found = audited(wide).copies["exact"]
    assert found["share"] == pytest.approx((ORIGINAL.age >= 19).mean())


def test_a_small_holdout_says_what_a_full_copy_would_show():
    near = audited(ORIGINAL.sample(frac=1, random_state=5), holdout=HOLDOUT[:60]).copies["near"]
    assert near["nearer_at_most"] == pytest.approx(0.55)
    assert near["nearer"] == pytest.approx(0.55, abs=0.05)


def test_distances_are_those_of_a_plain_search(fresh):
    """Every pair of rows, one column after the other."""

    def far(one, other):
        squares = 0.0
        for name in ("age", "bmi"):
            span = ORIGINAL[name].max() - ORIGINAL[name].min()
            low = ORIGINAL[name].min()
            a, b = ((table[name].to_numpy() - low) / span for table in (one, other))
            squares = squares + (a[:, None] - b[None]) ** 2
        for name in ("sex", "zip"):
            squares = squares + (one[name].to_numpy()[:, None] != other[name].to_numpy()[None])
        return np.sort(np.sqrt(squares), axis=1)[:, :2]

    found = far(FRESH, ORIGINAL)
    near = fresh.copies["near"]
    assert near["dcr"]["release"]["median"] == pytest.approx(np.median(found[:, 0]))
    ratio = np.where(found[:, 1] > 0, found[:, 0] / np.where(found[:, 1] > 0, found[:, 1], 1), 1)
    assert near["nndr"]["release"]["median"] == pytest.approx(np.median(ratio))
    clipped = HOLDOUT.assign(
        **{name: HOLDOUT[name].clip(ORIGINAL[name].min(), ORIGINAL[name].max()) for name in ("age", "bmi")}
    )
    assert near["dcr"]["control"]["median"] == pytest.approx(np.median(far(clipped, ORIGINAL)[:, 0]))


def test_without_a_holdout_people_are_compared_with_each_other():
    found = audited(FRESH, holdout=None)
    assert found.copies["near"]["against"] == "others"
    assert found.copies["near"]["nearer"] is None
    assert found.copies["near"]["interval"][0] < 0.08
    assert found.fidelity["against"] == "original"
    distance = np.array([[0.0, 0.2, 0.3], [0.0, 0.0, 0.0], [0.0, 0.4, 0.5]])
    index, own = np.array([[7, 1, 2], [4, 5, 6], [3, 9, 8]]), np.array([7, 1, 9])
    assert _without_self(distance, index, own).tolist() == [[0.2, 0.3], [0.0, 0.0], [0.0, 0.5]]
    assert _ratio(np.array([[0.0, 0.0], [0.0, 2.0], [1.0, 4.0]])).tolist() == [1.0, 0.0, 0.25]


def test_equal_rows_share_a_key_and_others_do_not():
    rows = np.random.default_rng(0).integers(3, size=(2_000, 6)) / 3
    rows[0], rows[1] = 0.0, -0.0
    keys = row_keys(rows)
    pairs = {(tuple(row), int(key)) for row, key in zip((rows + 0.0).tolist(), keys, strict=True)}
    assert len(pairs) == len({row for row, _ in pairs}) == len({key for _, key in pairs})


def test_crowds_are_those_that_pandas_counts(copying):
    quasi = ["age", "sex", "zip"]
    for name, table in (("release", COPYING), ("original", ORIGINAL)):
        sizes = table.groupby(quasi)["ill"].transform("size")
        found = copying.uniqueness[name]
        assert found["k"] == sizes.min()
        assert found["unique"] == pytest.approx((sizes == 1).mean())
        assert found["below"]["5"] == pytest.approx((sizes < 5).mean())
        assert found["sensitive"][0]["distinct"] == table.groupby(quasi)["ill"].nunique().min()
        assert 0 < found["pitman"]["uniques"] < 1
        assert 0 <= found["log_linear"]["uniques"] < 1
    alone = [table[table.groupby(quasi)["ill"].transform("size") == 1] for table in (ORIGINAL, COPYING)]
    assert copying.uniqueness["still_unique"] == pytest.approx(len(alone[0].merge(alone[1], on=quasi)) / 600)


def test_numbers_are_moved_along_their_ranks():
    """t of a number, crowd by crowd, by the distance of two samples of ranks."""
    found = audited(FRESH, quasi_identifiers=["sex", "zip"], sensitive=["bmi"]).uniqueness["release"]["sensitive"][0]
    ranks = FRESH.bmi.rank(method="dense")
    far = [wasserstein_distance(ranks[rows], ranks) for rows in FRESH.groupby(["sex", "zip"]).groups.values()]
    assert found["ordered"]
    assert found["t"] == pytest.approx(max(far) / (ranks.max() - 1))
    assert found["distinct"] == FRESH.groupby(["sex", "zip"]).bmi.nunique().min()


def test_generalised_cells_are_values_of_a_crowd():
    wide = ORIGINAL.assign(age=[f"{age // 20 * 20}-{age // 20 * 20 + 19}" for age in ORIGINAL.age], zip="*")
    found = audited(wide, quasi_identifiers=["age", "sex", "zip"]).uniqueness
    assert found["release"]["k"] == wide.groupby(["age", "sex", "zip"]).size().min() > found["original"]["k"]
    assert found["release"]["pitman"] is None


def test_a_schema_can_mark_the_quasi_identifiers(tmp_path):
    with pytest.warns(PrivacyLeakWarning):
        schema = sf.Schema.infer(ORIGINAL, label="ill").with_column("sex", quasi_identifier=True)
    schema.save(tmp_path / "schema.yaml")
    found = audited(FRESH, schema=tmp_path / "schema.yaml").uniqueness
    assert found["quasi_identifiers"] == ["sex"]
    assert found["release"]["k"] == FRESH.groupby("sex").size().min()


def test_fidelity_has_the_originals_chance_beside_it(fresh):
    found = fresh.fidelity
    assert found["against"] == "holdout"
    for name in ("marginals", "pairs", "correlations"):
        assert found[name]["release"] < 2 * found[name]["original"] + 0.02
    assert found["discriminator"]["release"]["interval"][0] < 0.55
    assert found["targets"][0]["name"] == "ill"
    assert abs(found["targets"][0]["release"] - found["targets"][0]["original"]) < 0.1


def test_fidelity_sees_a_column_that_was_shuffled():
    rng = np.random.default_rng(6)
    shuffled = FRESH.assign(bmi=rng.permutation(FRESH.bmi), sex="f")
    found = audited(shuffled, repeats=1).fidelity
    columns = {one["name"]: one for one in found["columns"]}
    assert columns["sex"]["release"] == pytest.approx(abs((HOLDOUT.sex == "f").mean() - 1))
    assert columns["bmi"]["release"] < 0.1
    assert found["correlations"]["release"] > 2 * found["correlations"]["original"]
    assert found["discriminator"]["release"]["auc"] > 0.7


def test_the_page_and_the_tidy_table_show_all_three(copying, tmp_path):
    page = render_report(copying.data)
    for words in ("Exact copies", "k-anonymity", "Alone in the population", "Discriminator", "more than chance"):
        assert words in page
    copying.save(tmp_path)
    tidy = pd.read_parquet(tmp_path / "audit.parquet")
    assert {"copies", "uniqueness", "fidelity"} <= set(tidy.kind)
    assert json.loads((tmp_path / "audit.json").read_text())["uniqueness"]["release"]["k"] == 1


def test_a_public_audit_keeps_the_originals_crowds_to_itself():
    noisy = ORIGINAL.assign(age=ORIGINAL.age + np.random.default_rng(6).normal(0, 3, 600))
    found = audited(noisy, quasi_identifiers=["sex"], public=True, with_audit=True)
    assert found.uniqueness["original"] is None
    errors = next(column for column in found.data["attacks"][0]["columns"] if column["name"] == "age")
    assert errors["interval_width"] > 0  # as a share of the range; in years beside it, it would tell the oldest's age
    assert "rmse" not in errors
    assert "k-anonymity" in render_report(found.data)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"quasi_identifiers": ["agee"]}, "Did you mean 'age'"),
        ({"quasi_identifiers": ["age"], "sensitive": ["age"]}, "both"),
        ({"quasi_identifiers": ["age"], "population": 1}, "--population"),
        ({"quasi_identifiers": ["age"], "population": 599}, "600 people"),
        ({"population": 1_000}, "need --quasi-identifiers"),
    ],
)
def test_what_cannot_be_meant_is_refused(asked, words):
    with pytest.raises(UsageError, match=words):
        audited(FRESH, **asked)
