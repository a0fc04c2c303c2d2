"""Categories and classes that training did not see: counted, treated as missing, or refused where that is asked for."""

import numpy as np
import pandas as pd
import pytest

from sfumato.api.cli.app import app
from sfumato.api.cli.console import run_guarded
from sfumato.auditing.audit import audit
from sfumato.core.errors import TableError, UsageError
from sfumato.learn.model import evaluate, load_model
from sfumato.learn.train import train
from sfumato.release.sanitize import Options, sanitize
from sfumato.table.encoding import UnknownCategoryWarning

pytestmark = [
    pytest.mark.filterwarnings("ignore::sfumato.core.errors.PrivacyLeakWarning"),
    pytest.mark.filterwarnings("ignore::sfumato.table.infer.TableWarning"),
]

CLASSIFIERS = ("radius-vote", "reconstructed-naive-bayes", "naive-bayes", "forest", "noise-aware-lda")


def people(rows=300, seed=0):
    """Country tells the class; `pet` has empty cells, `country` has none."""
    rng = np.random.default_rng(seed)
    country = rng.choice(["de", "fr", "it"], rows)
    return pd.DataFrame(
        {
            "age": rng.integers(20, 80, rows),
            "country": country,
            "pet": np.where(np.arange(rows) % 7 == 0, None, rng.choice(["cat", "dog"], rows)),
            "label": np.where(country == "de", "yes", "no"),
        }
    )


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("unknown")
    options = Options(mechanism="additive-noise", parameters={"scale": 0.05}, label="label", seed=1)
    sanitize(people(), folder / "r", options)
    sanitize(
        people(),
        folder / "mixed",
        Options(mechanism="principal-laplace", parameters={"b": 0.05}, label="label", seed=1),
    )
    for name in CLASSIFIERS:
        train([folder / "r"], classifier=name).save(folder / f"{name}.skops")
    train([folder / "mixed"], classifier="radius-vote").save(folder / "mixed.skops")
    return folder


@pytest.fixture
def strangers():
    found = people(60, seed=1)
    found.loc[[3, 4, 5], "country"] = "secretland"
    found.loc[7, "pet"] = "secretpet"
    return found


@pytest.mark.parametrize("name", [*CLASSIFIERS, "mixed"])
def test_they_are_answered_counted_and_never_quoted(home, strangers, name):
    with pytest.warns(UnknownCategoryWarning, match=r"country \(3 cells\), pet \(1 cell\)") as caught:
        found = load_model(home / f"{name}.skops").classify(strangers)
    assert found.rows == 60
    assert found.unknown == {"country": 3, "pet": 1}
    assert "secret" not in str([str(one.message) for one in caught])
    known = load_model(home / f"{name}.skops").classify(people(60, seed=1))
    others = np.setdiff1d(np.arange(60), [3, 4, 5, 7])
    assert np.array_equal(found.codes[others], known.codes[others]), "other rows are answered as before"


def test_a_category_that_can_be_missing_is_answered_like_an_empty_cell(home, strangers):
    empty = strangers.assign(pet=strangers["pet"].where(strangers["pet"] != "secretpet", None))
    with pytest.warns(UnknownCategoryWarning):
        one = load_model(home / "naive-bayes.skops").classify(strangers)
    with pytest.warns(UnknownCategoryWarning):
        other = load_model(home / "naive-bayes.skops").classify(empty)
    np.testing.assert_array_equal(one.probabilities, other.probabilities)


def test_an_unknown_category_speaks_for_no_class(home):
    """Taken for the first of the list, "de", it would have answered yes with certainty."""
    rows = people(40, seed=2)
    with pytest.warns(UnknownCategoryWarning):
        unknown = load_model(home / "reconstructed-naive-bayes.skops").classify(rows.assign(country="xx"))
    sure = load_model(home / "reconstructed-naive-bayes.skops").classify(rows.assign(country="de"))
    yes = 1
    assert sure.probabilities[:, yes].min() > 0.8
    assert unknown.probabilities[:, yes].max() < 0.7


def test_refusing_is_still_there(home, strangers, tmp_path):
    with pytest.raises(TableError, match=r"'country' holds a category .* first in row 4") as caught:
        load_model(home / "naive-bayes.skops").classify(strangers, unknown="refuse").save(tmp_path / "p.csv")
    assert "secret" not in str(caught.value)
    assert not (tmp_path / "p.csv").exists()
    with pytest.raises(UsageError, match="--unknown must be missing or refuse"):
        load_model(home / "naive-bayes.skops").classify(strangers, unknown="ignore").save(tmp_path / "p.csv")


def test_classes_that_training_did_not_see_count_as_errors(home):
    rows = people(50, seed=3)
    before = evaluate(home / "naive-bayes.skops", rows)
    rows.loc[rows.index[:5], "label"] = "secretclass"
    with pytest.warns(UnknownCategoryWarning, match="5 rows of classes that training did not see") as caught:
        found = evaluate(home / "naive-bayes.skops", rows)
    assert "secret" not in str([str(one.message) for one in caught])
    assert (found.rows, found.unseen, before.unseen) == (50, 5, 0)
    assert found.errors == 5 + (found.confusion.sum() - np.trace(found.confusion))
    assert found.confusion.sum() == 45
    assert found.to_dict()["rows_of_unseen_classes"] == 5
    with pytest.raises(TableError, match="class that the schema does not list, first in row 1"):
        evaluate(home / "naive-bayes.skops", rows, unknown="refuse")


def test_as_commands(home, strangers, tmp_path, capsys):
    strangers.loc[0, "label"] = "secretclass"
    strangers.to_csv(tmp_path / "t.csv", index=False)
    model = str(home / "naive-bayes.skops")
    assert run_guarded(app, ["predict", model, str(tmp_path / "t.csv"), "--out", str(tmp_path / "p.csv")]) == 0
    told = capsys.readouterr()
    assert "country (3 cells), pet (1 cell)" in told.err
    assert run_guarded(app, ["evaluate", model, str(tmp_path / "t.csv")]) == 0
    told_too = capsys.readouterr()
    assert "1 row of classes that training did not see" in told_too.err
    assert run_guarded(app, ["evaluate", model, str(tmp_path / "t.csv"), "--unknown", "refuse"]) == 3
    assert "secret" not in told.err + told.out + told_too.err + told_too.out + capsys.readouterr().err


class TestHoldout:
    def test_people_with_unknown_categories_stay_in_the_control(self, home, strangers):
        with pytest.warns(UnknownCategoryWarning, match=r"the original does not have .* country \(3 cells\)"):
            found = audit(home / "r", original=people(), holdout=strangers, repeats=0, out=home / "a")
        assert found.data["settings"]["holdout_rows"] == 60
        assert any("country (3 cells), pet (1 cell)" in note for note in found.data["notes"])
        assert "secretland" not in str(found.data)
        assert all(attack.get("failed") is None for attack in found.data["attacks"])

    def test_classes_and_numbers_that_nobody_has_are_left_out(self, home):
        odd = people(40, seed=5).astype({"age": float})
        odd.loc[0, "label"] = "perhaps"
        odd.loc[1, "age"] = np.nan
        found = audit(home / "r", original=people(), holdout=odd, repeats=0, out=home / "b", attacks=())
        assert found.data["settings"]["holdout_rows"] == 38
        assert any("2 rows of people not in the table" in note for note in found.data["notes"])

    def test_refused_where_asked_for_by_the_row_of_the_file(self, home, strangers):
        strangers.loc[0, "label"] = "perhaps"  # left out, and still counted
        with pytest.raises(TableError, match=r"'country' .* first in row 4"):
            audit(home / "r", original=people(), holdout=strangers, repeats=0, unknown="refuse")


def test_a_real_table_with_a_rare_category(data_folder, tmp_path):
    table = pd.read_csv(data_folder / "credit_g.csv")
    words = table.drop(columns="label").select_dtypes(exclude="number")
    column = next(name for name in words if words[name].nunique() > 3)
    rare = table[column].value_counts().index[-1]
    seen = table[table[column] != rare]
    sanitize(
        seen, tmp_path / "r", Options(mechanism="additive-noise", parameters={"scale": 0.3}, label="label", seed=1)
    )
    train([tmp_path / "r"], classifier="forest").save(tmp_path / "m.skops")
    with pytest.warns(UnknownCategoryWarning, match=column):
        found = load_model(tmp_path / "m.skops").classify(table[table[column] == rare].head(5))
    assert found.unknown == {column: min(5, int((table[column] == rare).sum()))}
