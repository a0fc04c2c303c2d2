"""A release of any tool: two tables, no card; an identical copy must be the worst of all; guesses of others."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from daily import first_daily
from scores import scores_of
from sfumato.auditing.audit import audit
from sfumato.auditing.matching import identical_rows, same_order
from sfumato.core.errors import TableError
from sfumato.release.sanitize import Options, sanitize
from sfumato.table import Schema, open_table, write_table

pytestmark = pytest.mark.filterwarnings("ignore")

STRENGTHS = [
    ("principal-laplace", {"b": 0.001, "components": 1.0}, False),
    ("principal-laplace", {"b": 0.3}, False),
    ("principal-laplace", {"b": 0.02, "components": 1.0}, True),
    ("additive-noise", {"scale": 0.001}, False),
    ("additive-noise", {"scale": 0.1}, False),
    ("additive-noise", {"law": "uniform", "scale": 0.05}, True),
    ("random-projection", {"components": 1.0}, False),
    ("random-projection", {"components": 0.3}, False),
]


def some(data_folder, name, members=90, strangers=60):
    table = open_table(data_folder / f"{name}.csv").read()
    order = np.random.default_rng(5).permutation(table.num_rows)
    return table.take(order[:members]), table.take(order[members : members + strangers])


@pytest.mark.parametrize(
    ("name", "strengths"),
    first_daily(
        [("wine", STRENGTHS[1::5]), ("wine", STRENGTHS), ("hepatitis", STRENGTHS[::3]), ("votes", STRENGTHS[1::3])]
    ),
)
def test_an_identical_copy_scores_worst_on_every_attack(name, strengths, data_folder, tmp_path):
    """The measure of all measures: nothing that anybody does to a table can be worse than publishing it."""
    members, strangers = some(data_folder, name)
    copy = audit(members, original=members, holdout=strangers, label="label", repeats=0)
    left_out = {entry["name"]: entry["not_applicable"] for entry in copy.data["attacks"] if entry["score"] is None}
    assert set(left_out) == {"eigen-alignment", "independent-components", "posterior-guess"}, "others apply to a copy"
    assert all("no mixing to undo" in left_out[name] for name in ("eigen-alignment", "independent-components"))
    bets = copy.attack("singling-out-one-column")["details"]["predicates"]
    scores = scores_of(copy) if bets else {**scores_of(copy), "singling-out-one-column": 1.0}  # no vote is one person's
    assert min(scores.values()) > 0.9
    for number, (mechanism, parameters, like) in enumerate(strengths):
        folder = tmp_path / str(number)
        sanitize(
            members,
            folder,
            Options(mechanism=mechanism, parameters=parameters, label="label", seed=1, like_original=like),
        )
        found = audit(folder, original=members, holdout=strangers, repeats=0)
        for attack, score in scores_of(found).items():
            assert score <= scores.get(attack, 1.0) + 1e-12, (attack, mechanism, parameters)


def test_a_copy_in_another_order_is_recognized(data_folder):
    members, strangers = some(data_folder, "wine")
    shuffled = members.take(np.random.default_rng(1).permutation(members.num_rows))
    found = audit(shuffled, original=members, holdout=strangers, label="label", repeats=0)
    assert found.data["settings"]["alignment"] == "identical-rows"
    assert min(scores_of(found).values()) > 0.995, "intervals have the width of a grid"
    assert sorted(scores_of(found).values())[1] == 1.0


def test_a_synthetic_table_without_a_way_back_gets_no_value_scores(data_folder):
    members, strangers = some(data_folder, "wine")
    rng = np.random.default_rng(0)
    synthetic = pa.table({name: members[name].take(rng.integers(0, 90, 70)) for name in members.column_names})
    found = audit(synthetic, original=members, holdout=strangers, label="label", repeats=2)
    assert found.data["settings"]["alignment"] == "unknown"
    assert set(scores_of(found)) == {"membership", "attribute-inference", "singling-out", "singling-out-one-column"}
    assert found.data["release"]["card"] is False
    assert found.data["guarantee"] is None
    assert found.data["release"]["rows"] == 70
    assert found.data["utility"], "tested on the holdout"


def test_noise_of_another_tool_is_found_by_comparing_rows(data_folder):
    members, _ = some(data_folder, "wine")
    rng = np.random.default_rng(0)
    numeric = {
        name: pc.add(
            members[name].cast(pa.float64()), pa.array(rng.normal(0, 0.05 * pc.stddev(members[name]).as_py(), 90))
        )
        for name in members.column_names[:-1]
    }
    release = pa.table({**numeric, "label": members["label"], "extra": members["label"]})
    found = audit(release, original=members, label="label", repeats=0)
    assert found.data["settings"]["alignment"] == "same-order"
    assert found.attack("naive-estimate")["score"] > 0.9
    assert any("extra" in note for note in found.data["notes"])


def test_categories_that_only_the_release_has_can_be_read():
    colours = ["red", "green", "blue"] * 20
    plain = pa.table({"colour": colours, "size": np.arange(60) / 7})
    strange = pa.table({"colour": [*colours[:-1], "mauve"], "size": pa.array([None, *(np.arange(1, 60) / 7)])})
    found = audit(strange.set_column(1, "size", plain["size"]), original=plain, repeats=0)
    assert found.data["distributions"][0]["categories"] == ["blue", "green", "red", "mauve"]
    assert found.data["utility"] == []
    public = audit(plain, original=strange, repeats=0, public=True, with_audit=True)
    assert "mauve" not in str(public.data)
    assert public.data["distributions"][1]["missing"]["original"] is None


def test_empty_cells_of_a_release_must_be_a_declared_kind_of_missing():
    """Taken for the middle of the range, an emptied cell would look like a value that was changed."""
    original = pa.table({"colour": ["red", "green"] * 30, "size": np.arange(60) / 7})
    release = original.set_column(1, "size", pa.array([None, *(np.arange(1, 60) / 7)]))
    with pytest.raises(TableError, match=r"'size' of the release is empty in row 1 .* given with --schema"):
        audit(release, original=original, repeats=0)
    declared = Schema.infer(original).with_column("size", missing=True)
    found = audit(release, original=original, schema=declared, repeats=0)
    assert found.data["distributions"][1]["missing"]["release"] == pytest.approx(1 / 60)
    same = audit(release, original=release, repeats=0)
    assert same.data["distributions"][1]["missing"]["release"] == pytest.approx(1 / 60)


def test_a_table_that_is_merely_sorted_alike_is_not_taken_for_the_same_people():
    rng = np.random.default_rng(0)
    first, second = np.sort(rng.normal(size=(500, 1)), axis=0), np.sort(rng.normal(size=(500, 1)), axis=0)
    noise = rng.normal(size=(500, 3))
    X, Z = np.hstack([first, noise]), np.hstack([second, rng.normal(size=(500, 3))])
    assert not same_order(X, Z)
    assert same_order(X, X + rng.laplace(scale=0.3, size=X.shape))
    assert not same_order(X, X[:-1])


def test_rows_that_match_by_chance_are_no_trace():
    rng = np.random.default_rng(0)
    few_values = rng.integers(0, 2, size=(200, 2)).astype(float)
    assert identical_rows(few_values, rng.permutation(few_values), rng) is None
    many = rng.normal(size=(200, 4))
    order = rng.permutation(200)
    assert np.array_equal(identical_rows(many, many[order], rng), order)
    assert identical_rows(many, rng.normal(size=(200, 4)), rng) is None


class TestGuess:
    """Somebody else's attack, from a file."""

    @pytest.fixture
    def folder(self, data_folder, tmp_path):
        members, _ = some(data_folder, "credit_a_crx")
        sanitize(
            members,
            tmp_path / "out",
            Options(mechanism="additive-noise", parameters={"scale": 0.2}, label="label", seed=1),
        )
        return members, tmp_path / "out"

    def test_the_truth_itself_scores_one(self, folder, tmp_path):
        members, out = folder
        source = open_table(out / "trace.parquet").read()["source"]
        write_table(members.take(source).drop_columns("label"), tmp_path / "oracle.parquet")
        found = audit(out, original=members, guess=tmp_path / "oracle.parquet", repeats=0)
        assert found.attack("oracle")["score"] == 1.0
        assert found.attack("oracle")["columns"][1]["rmse"] == pytest.approx(0)
        assert found.data["riskiest"][0]["score"] == 1.0

    def test_one_column_of_the_release_scores_like_the_naive_estimate(self, folder, tmp_path):
        members, out = folder
        release = open_table(out / "release.parquet").read().select(["a1"])
        write_table(release, tmp_path / "one.parquet")
        found = audit(out, original=members, guess=tmp_path / "one.parquet", repeats=0)
        naive = {column["name"]: column["score"] for column in found.attack("naive-estimate")["columns"]}
        assert found.attack("one")["score"] == pytest.approx(naive["a1"])

    def test_bad_files_are_refused(self, folder, tmp_path):
        members, out = folder
        write_table(members.slice(0, 5).select(["a1"]), tmp_path / "short.csv")
        with pytest.raises(TableError, match=r"5 rows, but the release has 90"):
            audit(out, original=members, guess=tmp_path / "short.csv", repeats=0, attacks=())
        write_table(members.select(["a9"]).rename_columns(["age"]), tmp_path / "strange.csv")
        with pytest.raises(TableError, match=r"'age'"):
            audit(out, original=members, guess=tmp_path / "strange.csv", repeats=0, attacks=())
        write_table(members.select(["label"]), tmp_path / "label.csv")
        with pytest.raises(TableError, match=r"no private column"):
            audit(out, original=members, guess=tmp_path / "label.csv", repeats=0, attacks=())
