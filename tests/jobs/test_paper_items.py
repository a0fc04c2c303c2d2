"""Numbered tables and figures of the papers: declared, found by name, computed in repeats, printed beside reached."""

import json
import math

import numpy as np
import pytest
from sklearn.datasets import load_wine

import sfumato as sf
from sfumato.api.cli.app import app
from sfumato.api.cli.console import run_guarded
from sfumato.auditing.figures import sets
from sfumato.auditing.figures.item import PAPERS, _jackknife, find_item, items
from sfumato.auditing.figures.principal_laplace import Split, swapping
from sfumato.auditing.figures.sets import BUNDLED, GENERATED, SHAPES, SPLIT, generated
from sfumato.core.errors import TableError, UsageError

QUICK = (
    "kernel-resampling/table-1",
    "kernel-resampling/figure-2",
    "principal-laplace/table-2",
    "principal-laplace/figure-6",
)
"""Nothing is learned for these."""


def test_every_item_says_what_it_shows_and_on_which_tables():
    known = items()
    assert {one.paper for one in known.values()} <= set(PAPERS)
    for one in known.values():
        assert one.shows
        assert set(one.sets) <= {*SHAPES, *SPLIT, *GENERATED, "county_income"}
        assert set(one.printed) <= {*one.sets, ""}, one.name
        if one.sets:
            assert {*BUNDLED, *GENERATED} & set(one.sets), f"{one.name} can be tried by nobody without a file"


@pytest.mark.parametrize("name", QUICK)
def test_what_is_printed_is_a_figure_of_the_item(name):
    found = sf.figure(name)
    printed = find_item(name).printed
    wanted = {**printed.get("", {}), **printed.get(found.set, {})}
    assert {one.name for one in found.values} >= set(wanted)
    for one in found.values:
        assert one.standard_error is None
        assert math.isfinite(one.reached)
    assert found.picture().startswith("<svg")


def test_a_table_of_ones_own_is_computed_or_refused_in_a_sentence(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(240, 3))
    own = {"a": x[:, 0], "b": x[:, 1], "c": x[:, 2], "kind": np.where(x[:, 0] + x[:, 1] > 0, "yes", "no")}
    values = {one.what: one.reached for one in sf.figure("guided-survey/figure-3", own, label="kind").values}
    assert values["quartile bits as they are"] > 0.7
    assert "k = 9: accuracy, %" in {one.what for one in sf.figure("guided-survey/figure-4", own, label="kind").values}
    numbers = {name: own[name] for name in "abc"}
    for name in ("kernel-resampling/table-2", "random-rotation/table-1", "principal-laplace/figure-9"):
        with pytest.raises(UsageError, match=f"{name} learns classes, and all rows are of one"):
            sf.figure(name, numbers)
    with pytest.raises(UsageError, match="takes the first column of a table: one of numbers that differ"):
        sf.figure("density-reconstruction/figure-3", {"kind": own["kind"], **numbers})
    (tmp_path / "empty.csv").write_text("a,b,c,kind\n")
    with pytest.raises(TableError, match="The table of --test has no rows"):
        sf.figure("principal-laplace/figure-9", own, label="kind", test=str(tmp_path / "empty.csv"))
    assert run_guarded(app, ["figure", "principal-laplace/figure-6", "--out", str(tmp_path / "x.exe")]) == 2
    assert not (tmp_path / "x.exe").exists()


def test_amplification_is_that_of_the_text():
    values = {one.what: one for one in sf.figure("principal-laplace/figure-6").values}
    assert values["amplification, b = 0.3"].reached == pytest.approx(28.03, abs=0.01)
    assert values["amplification, b = 0.3"].printed == 28
    assert values["rho_2, b = 0.3"].reached == pytest.approx(0.0273, abs=1e-4)
    assert values["amplification, b = 0.2"].printed is None


def test_swapping_keeps_columns_and_leaves_many_values_as_they_were():
    data = sets.load("wine")
    split = Split.of(data, np.random.default_rng(0))
    plain, half, all_of_it = (swapping(split, share, np.random.default_rng(1)) for share in (0.0, 0.5, 1.0))
    assert (plain["filtered"], plain["near"]) == (0.0, 1.0)
    assert all_of_it["near"] < half["near"] < 1
    assert half["near"] == pytest.approx(0.5 + 0.5 * all_of_it["near"], abs=0.02)
    x = split.X[:, split.varies]  # two values of a column taken at random, over all pairs
    apart = np.mean([(np.abs(one[:, None] - one) <= 0.05).mean() for one in x.T])
    assert all_of_it["near"] == pytest.approx(apart, abs=0.01)
    assert all_of_it["best_k"] < plain["best_k"] - 0.2  # nothing of the rows is left


def test_a_split_of_ones_own_is_kept(tmp_path, capsys):
    wine = load_wine(as_frame=True).frame.astype({"target": str})
    train, test = wine.iloc[::2], wine.iloc[1::2]
    words = {"label": "target", "seed": 1}
    rows = {one.what: one.reached for one in sf.figure("kernel-resampling/table-1", train, test=test, **words).values}
    assert (rows["training rows"], rows["test rows"]) == (89, 89)
    one, two = (
        sf.figure("principal-laplace/figure-9", train, test=test, repeats=1, **words | {"seed": s}) for s in (1, 2)
    )
    plain = [{value.what: value.reached for value in found.values}["k = 5, b = 0"] for found in (one, two)]
    assert plain[0] == plain[1]  # nothing is drawn but the noise
    for part, name in ((train, "train"), (test, "test")):
        part.to_csv(tmp_path / f"{name}.csv", index=False)
    asked = ["figure", "kernel-resampling/table-1", str(tmp_path / "train.csv"), "--test", str(tmp_path / "test.csv")]
    assert run_guarded(app, [*asked, "--label", "target"]) == 0
    assert "89" in capsys.readouterr().out
    for name, table, more, why in (
        ("random-rotation/figure-5", train, {}, "items of kernel-resampling and principal-laplace"),
        ("principal-laplace/figure-9", None, {}, "Name the table to train on"),
        ("principal-laplace/figure-9", train, {"test": test.drop(columns="alcohol")}, "no column 'alcohol'"),
        ("principal-laplace/figure-6", None, {}, "computed from no table"),
    ):
        with pytest.raises(UsageError, match=why):
            sf.figure(name, table, **{"test": test, **words, **more})


def test_repeats_have_standard_errors_and_a_seed_repeats_them():
    first, again, other = (sf.figure("kernel-resampling/table-2", repeats=2, seed=s).to_dict() for s in (1, 1, 2))
    assert first == again
    assert first["values"] != other["values"]
    for one in first["values"]:
        assert one["standard_error"] >= 0
        assert abs(one["reached"] - one["printed"]) < 0.12
    assert [one["printed"] for one in first["values"]] == [0.0352, 0.0346, 0.123]
    single = sf.figure("kernel-resampling/table-2", repeats=1)
    assert all(one.standard_error is None for one in single.values)


def test_distortion_is_what_the_formulas_say_and_not_a_third_more():
    """Eqs 12 and 13 on Wine; the normal assumption of A.2 costs some of the variance."""
    values = {one.what: one.reached for one in sf.figure("principal-laplace/equations-12-13", repeats=4).values}
    assert values["E(D), measured, b = 0.3"] == pytest.approx(values["E(D), Eq. 12, b = 0.3"], rel=0.1)
    assert values["Var(D), measured, b = 0.3"] == pytest.approx(values["Var(D), Eq. 13, b = 0.3"], rel=0.25)


def test_a_table_of_ones_own_has_no_printed_figures(tmp_path):
    wine = load_wine(as_frame=True).frame.rename(columns={"target": "cultivar"})
    own = sf.figure("kernel-resampling/table-2", wine, label="cultivar", repeats=2)
    assert own.set == ""
    assert [one.printed for one in own.values] == [None] * 3
    assert own.rows == 178
    wine.rename(columns={"cultivar": "label"}).to_csv(tmp_path / "wine.csv", index=False)
    given = sf.figure("principal-laplace/table-2", tmp_path / "wine.csv", set="wine")
    assert [one.printed for one in given.values] == [13, 178, 3] == [one.reached for one in given.values]
    with pytest.raises(UsageError, match=r"The paper used \(4, 150, 3\)"):
        sf.figure("principal-laplace/table-2", tmp_path / "wine.csv", set="iris")


def test_what_is_no_item_set_or_table_is_refused_with_what_is_near():
    with pytest.raises(UsageError, match=r"kernel-resampling/figure-[3-7]"):
        sf.figure("kernel-resampling/figure-99")
    with pytest.raises(UsageError, match="principal-laplace/figure-9"):
        sf.figure("principal-laplace/fig-9")
    with pytest.raises(UsageError, match="is about iris, svmguide1"):
        sf.figure("kernel-resampling/table-2", set="wine")
    with pytest.raises(UsageError, match="from no table"):
        sf.figure("principal-laplace/figure-6", set="iris")


def test_a_set_that_does_not_come_with_the_product_is_looked_for(tmp_path, monkeypatch):
    monkeypatch.delenv("SFUMATO_DATA", raising=False)
    with pytest.raises(UsageError, match=r"ionosphere\.csv.*SFUMATO_DATA"):
        sf.figure("kernel-resampling/table-1", set="ionosphere")
    rng = np.random.default_rng(0)
    rows = [",".join(f"{x:.3f}" for x in rng.random(34)) + f",{code}" for code in rng.integers(0, 2, 351)]
    head = ",".join([*(f"x{number}" for number in range(34)), "label"])
    (tmp_path / "ionosphere.csv").write_text("\n".join([head, *rows]))
    monkeypatch.setenv("SFUMATO_DATA", str(tmp_path))
    found = sf.figure("kernel-resampling/table-1", set="ionosphere")
    assert [one.reached for one in found.values] == [34, 263, 88] == [one.printed for one in found.values]


@pytest.mark.parametrize("name", GENERATED)
def test_generated_rows_are_as_many_as_asked_and_as_drawn_before(name):
    first, again, other = (generated(name, 300, seed) for seed in (1, 1, 2))
    assert len(first.X) == len(first.y) == 300
    np.testing.assert_array_equal(first.X, again.X)
    assert not np.array_equal(first.X, other.X)
    assert len(np.unique(first.y)) > 1


def test_on_the_command_line(tmp_path, capsys):
    assert run_guarded(app, ["figure"]) == 0
    listed = capsys.readouterr().out
    assert all(name in listed for name in items())
    assert run_guarded(app, ["figure", "--list", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["items"]) == len(items())
    words = ["figure", "principal-laplace/figure-6", "--out", str(tmp_path / "six.svg"), "--json"]
    assert run_guarded(app, words) == 0
    told = json.loads(capsys.readouterr().out)
    assert any(one["printed"] == 28 and abs(one["reached"] - 28.03) < 0.1 for one in told["values"])
    assert (tmp_path / "six.svg").read_text().startswith("<svg")
    assert run_guarded(app, ["figure", "kernel-resampling/figure-99"]) == 2
    assert "kernel-resampling/figure-" in capsys.readouterr().err


def test_the_error_of_what_follows_from_means_is_that_of_the_mean():
    """Of a plain mean the jackknife is the usual standard error, and not one 30% off."""
    drawn = np.random.default_rng(0).normal(size=12)
    found = _jackknife(lambda means: {"twice": 2 * means["x"]}, [{"x": one} for one in drawn])
    usual = 2 * drawn.std(ddof=1) / math.sqrt(12)
    assert found["twice"] == pytest.approx(usual)
    assert found["twice"] != pytest.approx(1.3 * usual)
    assert _jackknife(dict, [{"x": 1.0}]) == {}
