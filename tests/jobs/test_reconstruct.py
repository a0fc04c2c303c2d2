"""From a release to the distribution behind a column, through files: every kind of column, every clear error."""

import json

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from sfumato.api.cli import app
from sfumato.api.cli.console import run_guarded
from sfumato.core.errors import CardError, OutputError, SchemaError, TableError, UsageError
from sfumato.core.files import new_folder
from sfumato.guarantee import Card
from sfumato.learn.asked import ReconstructAsked
from sfumato.learn.reconstruct import Projection, Wish, folder_names, reconstruct_each, save_each
from sfumato.reconstruction.reconstruct import reconstruct
from sfumato.release.sanitize import Options, sanitize

pytestmark = pytest.mark.filterwarnings("ignore")

ROWS = 6000


def reconstruct_column(folders, column, out, **words):
    """One column: its files lie directly in `out`."""
    original = words.pop("original", None)
    with new_folder(out) as folder:
        (found,) = reconstruct_each(folders, [Wish((column,))], ReconstructAsked(**words), original)
        save_each([(column, found.found)], folder)
    return found


def people(seed=0):
    rng = np.random.default_rng(seed)
    income = 20 + rng.gamma(4, 10, ROWS)
    wealth = income * rng.uniform(0.8, 1.2, ROWS) + 5
    return pd.DataFrame(
        {
            "income": income,
            "wealth": wealth,
            "gap": np.where(rng.random(ROWS) < 0.25, np.nan, 100 + 10 * rng.normal(size=ROWS)),
            "children": 1 + rng.binomial(6, 0.3, ROWS),
            "colour": rng.choice(["red", "green", "blue"], ROWS, p=[0.6, 0.3, 0.1]),
            "born": pd.to_datetime("1990-01-01") + pd.to_timedelta(rng.integers(0, 3000, ROWS), unit="D"),
        }
    )


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    folder = tmp_path_factory.mktemp("people")
    for seed in (0, 1):
        people(seed).to_parquet(folder / f"{seed}.parquet")
    return folder


def release(tables, out, mechanism, table=0, **parameters):
    like = parameters.pop("like_original", False)
    sanitize(
        tables / f"{table}.parquet",
        out,
        Options(mechanism=mechanism, parameters=parameters, seed=5, like_original=like),
    )
    return out


@pytest.fixture(scope="module")
def multiplied(tables):
    return release(tables, tables / "multiplied", "multiplicative-noise", low=1, high=3, category_epsilon=2.0)


@pytest.fixture(scope="module")
def added(tables):
    return release(tables, tables / "added", "additive-noise", scale=0.1, category_epsilon=2.0)


@pytest.mark.parametrize("folder", ["multiplied", "added"])
@pytest.mark.parametrize(
    ("column", "most"), [("income", 0.12), ("gap", 0.16), ("children", 0.12), ("colour", 0.05), ("born", 0.2)]
)
def test_every_kind_of_column_comes_back(folder, column, most, tables, request, tmp_path):
    done = reconstruct_column(
        [request.getfixturevalue(folder)], column, tmp_path / "d", original=tables / "0.parquet", resamples=10
    )
    assert done.information_loss < most
    assert sorted(path.name for path in (tmp_path / "d").iterdir()) == ["density.csv", "density.parquet", "density.svg"]
    table = pq.read_table(tmp_path / "d" / "density.parquet")
    assert table["probability"].to_numpy().sum() == pytest.approx(1)
    assert (tmp_path / "d" / "density.svg").read_text().startswith("<svg")
    if column == "gap":
        assert done.found.missing == pytest.approx(0.25, abs=0.04)
        assert done.found.mean == pytest.approx(100, abs=1.0)
    if column == "children":
        assert done.found.cells.atoms


def test_values_that_stand_in_for_missing_ones_do_not_count(tables, tmp_path):
    """With "missing" told truly only 62% of the time, a third of the shown values are noise about the middle."""
    folder = release(tables, tmp_path / "r", "additive-noise", scale=0.05, category_epsilon=0.5)
    found = reconstruct_column([folder], "gap", tmp_path / "d", resamples=0).found
    true = people()["gap"].dropna().to_numpy()
    low, high = found.cells.edges[[0, -1]]
    assert abs((low + high) / 2 - true.mean()) > 0.2  # the stand-ins would show
    assert found.mean == pytest.approx(true.mean(), abs=0.6)
    assert np.sqrt(found.variance) == pytest.approx(true.std(), rel=0.12)


def test_several_folders_are_one_joint_estimate(tables, multiplied, tmp_path):
    schema = Card.load(multiplied).source_schema
    (tmp_path / "schema.json").write_text(json.dumps(schema))
    other = tmp_path / "other"
    options = Options(mechanism="additive-noise", parameters={"scale": 0.1}, schema=tmp_path / "schema.json", seed=6)
    sanitize(tables / "1.parquet", other, options)
    both = pd.concat([people(0), people(1)])
    both.to_parquet(tmp_path / "both.parquet")
    joint = reconstruct_column([multiplied, other], "income", tmp_path / "j", original=tmp_path / "both.parquet")
    alone = reconstruct_column([multiplied], "income", tmp_path / "a", original=tmp_path / "both.parquet")
    assert joint.found.rows == 2 * ROWS
    assert joint.information_loss < 0.05
    assert joint.found.about["width"] != alone.found.about["width"]  # one window for each part


def test_a_component_of_a_mixing_release_comes_back(tables, tmp_path):
    folder = tmp_path / "r"
    sanitize(tables / "0.parquet", folder, Options(mechanism="principal-laplace", parameters={"b": 0.05}, seed=3))
    found = reconstruct_column([folder], "c000", tmp_path / "d", resamples=0).found
    card = Card.load(folder)
    X = card.source_encoding().encode(pq.read_table(tables / "0.parquet")).X
    matrix, offset = card.made_by().map.affine()
    scores = X @ matrix[0] + offset[0]
    assert found.mean == pytest.approx(scores.mean(), abs=0.02)
    assert np.sqrt(found.variance) == pytest.approx(scores.std(), rel=0.05)


def reconstruct_along(columns, weights, card):
    projection = Projection(weights, 0.0, "sum")
    noise, low, high = projection.noise(card)
    return reconstruct(projection.values(columns), noise, support=(low, high), resamples=0)


def test_projections(added):
    card = Card.load(added)
    frame, truth = pq.read_table(added / "release.parquet").to_pandas(), people()
    columns = {name: frame[name] for name in ("income", "wealth")}
    along = reconstruct_along(columns, {"income": 1.0, "wealth": -1.0}, card)
    gap = truth["income"] - truth["wealth"]
    assert along.mean == pytest.approx(gap.mean(), abs=1.0)
    assert np.sqrt(along.variance) < 0.5 * np.hypot(truth["income"].std(), truth["wealth"].std())
    with pytest.raises(CardError, match="may be missing"):
        reconstruct_along({"gap": frame["gap"]}, {"gap": 1.0}, card)
    with pytest.raises(CardError, match="no additive noise"):
        reconstruct_along({"colour": frame["colour"]}, {"colour": 1.0}, card)


def test_the_command_writes_and_tells(tables, multiplied, tmp_path, capsys):
    arguments = ["reconstruct", str(multiplied), "--column", "income", "--out", str(tmp_path / "d"), "--json"]
    assert run_guarded(app, [*arguments, "--original", str(tables / "0.parquet"), "--resamples", "5"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["information_loss"] < 0.12
    assert told["rows"] == ROWS
    assert told["method"] == "parzen-program"
    assert run_guarded(app, arguments) == OutputError.exit_code
    em = ["--method", "expectation-maximization", "--force"]
    assert run_guarded(app, [*arguments, *em]) == 0
    assert "information_loss" not in json.loads(capsys.readouterr().out)
    assert run_guarded(app, [*arguments, "--penalty", "0", "--force", "--resamples", "0"]) == 0
    assert json.loads(capsys.readouterr().out)["penalty"] == 0
    assert run_guarded(app, [*arguments, "--penalty", "much", "--force"]) == UsageError.exit_code
    assert run_guarded(app, [*arguments, *em, "--penalty", "1"]) == UsageError.exit_code


def test_every_column_that_is_named_is_reconstructed(tables, multiplied, tmp_path, capsys):
    """The last one alone was, and nothing said so."""
    wanted = ["--column", "income", "--column", "colour", "--column", "children"]
    arguments = ["reconstruct", str(multiplied), "--resamples", "5", "--original", str(tables / "0.parquet")]
    assert run_guarded(app, [*arguments, *wanted, "--out", str(tmp_path / "d"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["columns"]
    assert [one["column"] for one in told] == ["income", "colour", "children"]
    assert all(one["information_loss"] < 0.12 for one in told)
    for one in told:
        names = [f"{one['column']}/density.{kind}" for kind in ("csv", "parquet", "svg")]
        assert one["files"] == names
        assert all((tmp_path / "d" / name).is_file() for name in names)
    alone = reconstruct_column([multiplied], "income", tmp_path / "alone", resamples=5)
    np.testing.assert_array_equal(
        pq.read_table(tmp_path / "d" / "income" / "density.parquet")["probability"].to_numpy(), alone.found.mass
    )
    assert run_guarded(app, [*arguments, *wanted, "--out", str(tmp_path / "e")]) == 0
    said = capsys.readouterr().out
    assert all(f"Reconstructed {name} " in said for name in ("income", "colour", "children"))
    assert said.count("The band is meant to hold") == 2, "of numbers"


def test_one_column_that_fails_leaves_nothing_of_the_others(multiplied, tmp_path, capsys):
    for columns in (["income", "age"], ["income", "income"], []):
        wanted = [word for column in columns for word in ("--column", column)]
        words = ["reconstruct", str(multiplied), *wanted, "--out", str(tmp_path / "d"), "--resamples", "0"]
        assert run_guarded(app, words) == 2
        assert list(tmp_path.iterdir()) == []
    assert "Name at least one column" in capsys.readouterr().err


def test_no_columns_name_leads_out_of_its_folder():
    names = ["../a", "a/b", "a_b", "A_b", "..", "", "x" * 300, "größe", "a b"]
    made = folder_names(names)
    assert made == ["___a", "a_b", "a_b-2", "A_b-3", "__", "_", "x" * 80, "größe", "a b"]
    assert len({name.casefold() for name in made}) == len(names)


def edited(folder, out, change):
    """A copy of a release whose card was changed, beside it and inside it."""
    out.mkdir()
    card = json.loads((folder / "card.json").read_text())
    change(card)
    (out / "card.json").write_text(json.dumps(card))
    released = pq.read_table(folder / "release.parquet")
    pq.write_table(released.replace_schema_metadata({"sfumato.card": json.dumps(card)}), out / "release.parquet")
    return out


def column_noise(card, name="income"):
    names = [column["name"] for column in card["release_schema"]["columns"]]
    return card["recipe"]["channels"][names.index(name)]


EDITS = {
    "no such law": (lambda card: column_noise(card)["noise"].update(law="cubic"), CardError, "impossible"),
    "no such operator": (lambda card: column_noise(card).update(operator="cubic"), CardError, "impossible"),
    "narrower noise": (
        lambda card: column_noise(card)["noise"].update(high=1.1, scale=0.1 / 12**0.5),
        TableError,
        "outside what this noise",
    ),
    "other rows": (lambda card: card.update(rows=7), CardError, "states 7 rows"),
    "own operator": (
        lambda card: column_noise(card).update(operator="custom", parameters={}),
        CardError,
        "give it in Python",
    ),
}


@pytest.mark.parametrize("name", EDITS)
def test_a_card_that_does_not_fit_is_a_clear_error(name, multiplied, tmp_path):
    change, error, words = EDITS[name]
    with pytest.raises(error, match=words):
        reconstruct_column([edited(multiplied, tmp_path / "e", change)], "income", tmp_path / "d", resamples=0)
    assert not (tmp_path / "d").exists()


def test_what_cannot_be_reconstructed_is_said(tables, multiplied, tmp_path):
    with pytest.raises(UsageError, match="no column 'age'"):
        reconstruct_column([multiplied], "age", tmp_path / "d")
    with pytest.raises(CardError, match="no card"):
        reconstruct_column([tmp_path], "income", tmp_path / "d")
    people()[["wealth"]].to_parquet(tmp_path / "w.parquet")
    with pytest.raises(SchemaError, match="no column 'income'"):
        reconstruct_column([multiplied], "income", tmp_path / "d", original=tmp_path / "w.parquet", resamples=0)
    like = release(tables, tmp_path / "like", "additive-noise", like_original=True)
    with pytest.raises(CardError, match="rounded and clipped"):
        reconstruct_column([like], "income", tmp_path / "d")
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "card.json").write_text((multiplied / "card.json").read_text())
    with pytest.raises(TableError, match=r"no release\.parquet"):
        reconstruct_column([tmp_path / "empty"], "income", tmp_path / "d")


def test_of_several_columns_one_must_be_named(multiplied):
    card = Card.load(multiplied)
    values = pq.read_table(multiplied / "release.parquet")["income"].to_numpy()
    assert reconstruct(values, card, column="income", resamples=0).rows == ROWS
    with pytest.raises(UsageError, match="Which column"):
        reconstruct(values, card)


def test_sites_that_randomized_answers_differently_give_one_estimate(tables, multiplied, tmp_path):
    """Their reports cannot be counted together: each site's own probability must be undone."""
    other = release(tables, tmp_path / "r", "additive-noise", table=1, scale=0.1, category_epsilon=0.5)
    done = reconstruct_column([multiplied, other], "colour", tmp_path / "d", original=tables / "0.parquet")
    assert done.found.rows == 2 * ROWS
    assert done.information_loss < 0.03


def test_categories_that_the_card_does_not_name_are_refused(multiplied):
    with pytest.raises(TableError, match="does not name"):
        reconstruct(["red", "violet"] * 20, Card.load(multiplied), column="colour")


def test_a_constant_column_is_refused(tmp_path):
    pd.DataFrame({"a": np.full(50, 3.0), "b": np.linspace(1, 2, 50)}).to_csv(tmp_path / "t.csv", index=False)
    sanitize(tmp_path / "t.csv", tmp_path / "r", Options(mechanism="multiplicative-noise", seed=1))
    with pytest.raises(TableError, match="constant"):
        reconstruct_column([tmp_path / "r"], "a", tmp_path / "d")
