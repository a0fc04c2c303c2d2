"""A release with generalised cells: ranges, stars and words of a hierarchy are sets of values with a likelihood."""

import numpy as np
import pyarrow as pa
import pytest

from sfumato.auditing.audit import audit
from sfumato.auditing.generalised import Generalised, Sets
from sfumato.channels import Exact
from sfumato.core.errors import TableError

pytestmark = pytest.mark.filterwarnings("ignore")
TOWNS = ("Aachen", "Bonn", "Calw", "Dachau")


def people(rows=300, seed=0):
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 90, rows)
    town = rng.choice(TOWNS, rows, p=[0.4, 0.3, 0.2, 0.1])
    return pa.table({"age": age, "town": town, "income": rng.normal(30_000 + 200 * age, 5_000)})


def in_tens(table):
    words = [f"{age // 10 * 10}-{age // 10 * 10 + 9}" for age in table["age"].to_pylist()]
    return table.set_column(0, "age", pa.array(words))


def test_ranges_and_stars_are_read():
    table, others = people(), people(seed=1)
    release = in_tens(table)
    towns = ["*" if town == "Dachau" else town for town in table["town"].to_pylist()]
    release = release.set_column(1, "town", pa.array(towns))
    found = audit(release, original=table, holdout=others, repeats=0)
    naive = {column["name"]: column["score"] for column in found.attack("naive-estimate")["columns"]}
    assert naive["income"] == 1.0
    assert naive["town"] == pytest.approx(np.mean(np.array(towns) != "*")), "a star tells the commonest town"
    assert 0.3 < naive["age"] < 1, "the middle of ten years is near to some of them"
    bounds = {column["name"]: column["score"] for column in found.attack("hard-interval")["columns"]}
    assert bounds["age"] == pytest.approx(1 - 9 / 71, abs=0.02), "ten of 72 years are left"
    assert any("several values (age, town)" in note for note in found.data["notes"])
    coarser = release.set_column(0, "age", pa.array(["*"] * 300))
    less = audit(coarser, original=table, holdout=others, repeats=0)
    assert less.attack("naive-estimate")["score"] < found.attack("naive-estimate")["score"]
    assert less.attack("hard-interval")["score"] < found.attack("hard-interval")["score"]


def test_a_hierarchy_says_what_a_word_stands_for(tmp_path):
    table = people()
    words = {"Aachen": "west", "Bonn": "west", "Calw": "south", "Dachau": "south"}
    (tmp_path / "towns.csv").write_text("\n".join(f"{town};{word};*" for town, word in words.items()))
    release = table.set_column(1, "town", pa.array([words[town] for town in table["town"].to_pylist()]))
    found = audit(release, original=table, repeats=0, hierarchies={"town": tmp_path / "towns.csv"})
    town = found.attack("naive-estimate")["columns"][1]["score"]
    usual = {"Aachen", "Calw"}  # the commoner one of each half
    assert town == pytest.approx(np.mean([t in usual for t in table["town"].to_pylist()]))
    with pytest.raises(TableError, match="no column 'city'"):
        audit(release, original=table, repeats=0, hierarchies={"city": tmp_path / "towns.csv"})
    ages = table.set_column(0, "age", pa.array(["old"] * 300))
    with pytest.raises(TableError, match="'age'"):
        audit(ages, original=table, repeats=0)


def test_the_likelihood_of_a_set_is_its_share_among_those_that_allow_the_value():
    sets = Sets(np.array([0, 0, 0, 1, -1]), np.array([[0.0], [0.0]]), np.array([[0.5], [1.0]]))
    channel = Generalised(Exact(), Exact(), sets, np.array([[0.2], [0.6]]))
    values = np.array([[0.1], [0.9]])
    found = np.exp(channel.log_likelihood(np.array([[0.2], [0.6], [0.9]]), values))
    assert found[0] == pytest.approx([0.75, 0.0], abs=1e-5), "three of four rows that allow 0.1 say so"
    assert found[1] == pytest.approx([0.25, 1.0])
    assert found[2] == pytest.approx([0.0, 1.0], abs=1e-5)
    low, high = channel.possible(np.array([[0.2], [0.9]]))
    assert low.tolist() == [[0.0], [0.9]]
    assert high.tolist() == [[0.5], [0.9]]


def test_the_bayesian_adversary_reads_sets_and_the_single_values_between_them():
    table, others = people(), people(seed=1)
    income = table["income"].to_numpy()
    words = [f"{one // 10_000 * 10_000:.0f}-{one // 10_000 * 10_000 + 10_000:.0f}" for one in income]
    words[::3] = [f"{one:.6f}" for one in income[::3]]
    release = in_tens(table).set_column(2, "income", pa.array(words))
    found = audit(release, original=table, holdout=others, repeats=0)
    assert [entry["name"] for entry in found.data["attacks"] if entry.get("failed")] == []
    bayes, naive = (
        {column["name"]: column["score"] for column in found.attack(name)["columns"]}
        for name in ("bayes-window", "naive-estimate")
    )
    assert bayes["town"] == 1.0
    assert bayes["age"] >= naive["age"] - 0.02, "whoever knows the law does not lose to who reads off the middle"
    assert bayes["income"] >= naive["income"] - 0.02
    assert bayes["income"] > 1 / 3 + 0.1, "every third income stands there as it is, and ranges tell of the others"


def test_a_drawn_cell_names_a_set_as_often_as_the_release_does():
    sets = Sets(np.array([0, 0, 0, 1, -1]), np.array([[0.0], [0.0]]), np.array([[0.5], [1.0]]))
    channel = Generalised(Exact(), Exact(), sets, np.array([[0.2], [0.6]]))
    drawn = channel.draw(np.tile([[0.1], [0.9]], (20_000, 1)), np.random.default_rng(0))
    low, high = drawn[::2, 0], drawn[1::2, 0]
    assert [np.mean(low == value) for value in (0.2, 0.6, 0.1)] == pytest.approx([0.6, 0.2, 0.2], abs=0.015)
    assert [np.mean(high == value) for value in (0.2, 0.6, 0.9)] == pytest.approx([0.0, 0.8, 0.2], abs=0.015)
