"""The papers' experiments on a table of one's own: Fig. 8 of principal-laplace, Figs 5-8 of random-rotation."""

import json

import pandas as pd
import pytest
from sklearn.datasets import load_iris, load_wine

import sfumato as sf
from sfumato.api.cli.app import app
from sfumato.api.cli.console import run_guarded
from sfumato.core.errors import UsageError

WINE = load_wine(as_frame=True).frame.rename(columns={"target": "cultivar"})
IRIS = load_iris(as_frame=True).frame.rename(columns={"target": "species"})
IRIS["species"] = IRIS["species"].astype(str)
WINE["cultivar"] = WINE["cultivar"].astype(str)


def test_filtering_gets_more_without_pca_than_with_it():
    """As the paper says; papers/principal-laplace reaches .78 to .82 (No-PCA + Filtering) on Wine at b = .3."""
    low, high = sf.figure_filtering(WINE, label="cultivar", scales=(0.1, 0.3))
    for one in (low, high):
        assert one.no_pca_filtering < one.pca_filtering <= one.no_filtering * 1.02
        assert one.linear_after_pca < one.pca_filtering
        assert one.linear_without_pca < one.no_pca_filtering
        assert one.linear_after_pca < one.guessing_the_mean
    assert high.no_filtering == pytest.approx(3 * low.no_filtering, rel=0.15)  # the noise is all there is to it
    # Laplace noise of scale b: its central 95% is 2 b log 20 wide
    assert high.no_pca == pytest.approx(2 * 0.3 * 2.9957, rel=0.06)
    assert high.guessing_the_mean == low.guessing_the_mean


def test_filtering_in_repeats_has_standard_errors(tmp_path, capsys):
    words = {"label": "cultivar", "scales": (0.3,)}
    first, second = (sf.figure_filtering(WINE, seed=seed, **words)[0] for seed in (5, 7))
    (both,) = sf.figure_filtering(WINE, seed=5, repeats=2, **words)
    assert first.standard_errors is None
    assert both.pca_filtering == pytest.approx((first.pca_filtering + second.pca_filtering) / 2)
    assert both.standard_errors["pca_filtering"] == pytest.approx(abs(first.pca_filtering - second.pca_filtering) / 2)
    WINE.to_csv(tmp_path / "wine.csv", index=False)
    asked = ["figure", "filtering", str(tmp_path / "wine.csv"), "--label", "cultivar", "--b", "0.3", "--repeats", "2"]
    assert run_guarded(app, asked) == 0
    assert "    ±  " in capsys.readouterr().out


def test_condensation_in_repeats_has_standard_errors(tmp_path, capsys):
    words = {"label": "species", "sizes": (5,), "rotations": 2}
    first, second = (sf.figure_condensation(IRIS, seed=seed, **words) for seed in (5, 6))
    both = sf.figure_condensation(IRIS, seed=5, repeats=2, **words)
    assert first.standard_errors is None
    assert both.published.minimum == pytest.approx((first.published.minimum + second.published.minimum) / 2)
    apart = abs(first.condensed[0].average - second.condensed[0].average) / 2
    assert both.standard_errors["k = 5"].average == pytest.approx(apart)
    IRIS.to_csv(tmp_path / "iris.csv", index=False)
    asked = ["figure", "condensation", str(tmp_path / "iris.csv"), "--label", "species", "--k", "5", "--rotations", "2"]
    assert run_guarded(app, [*asked, "--repeats", "2"]) == 0
    assert "±" in capsys.readouterr().out


def test_condensed_rows_lie_near_original_ones_and_rotated_ones_do_not():
    """Published for Iris: about .02 to .05 for condensation, .43 for the rotation (LOP_min)."""
    found = sf.figure_condensation(IRIS, label="species", sizes=(5, 20), rotations=10)
    small, large = found.condensed
    assert 0.01 < small.minimum < small.average < 0.06
    assert small.average < large.average
    assert found.published.minimum == pytest.approx(0.43, abs=0.04)
    assert found.measured.minimum <= found.mean.minimum + 1e-12  # capped
    assert found.published.minimum > found.mean.minimum  # and the paper's is not


def test_a_rare_class_does_not_hide_larger_groups(tmp_path, capsys):
    """E.Coli has a class of two rows; Figs 5 and 6 go to groups of 50 all the same."""
    rare = pd.concat([IRIS, IRIS.head(2).assign(species="rare")])
    found = sf.figure_condensation(rare, label="species", sizes=(2, 20, 60), rotations=2)
    assert [(one.k, one.in_smaller_groups) for one in found.condensed] == [(2, 0), (20, 2)]
    assert found.left_out == (60,)
    rare.to_csv(tmp_path / "rare.csv", index=False)
    words = ["figure", "condensation", str(tmp_path / "rare.csv"), "--label", "species", "--rotations", "2"]
    assert run_guarded(app, [*words, "--k", "2", "--k", "20", "--k", "60"]) == 0
    printed = capsys.readouterr().out
    assert "condensation, groups of 20" in printed
    assert "Rows in such classes, of 152: 2 for k = 20." in printed
    assert "Left out, since no class has so many rows: k = 60." in printed


def test_what_cannot_be_meant_is_refused():
    with pytest.raises(UsageError, match="positive number"):
        sf.figure_filtering(WINE, label="cultivar", scales=(0.0,))
    with pytest.raises(UsageError, match="between 2 and 50, the rows of the largest class"):
        sf.figure_condensation(IRIS, label="species", sizes=(1, 51))


def test_on_the_command_line(tmp_path, capsys):
    pd.DataFrame(IRIS).to_csv(tmp_path / "iris.csv", index=False)
    words = ["figure", "filtering", str(tmp_path / "iris.csv"), "--label", "species", "--b", "0.2"]
    assert run_guarded(app, words) == 0
    assert "No-PCA+Filtering" in capsys.readouterr().out
    words = ["figure", "condensation", str(tmp_path / "iris.csv"), "--label", "species", "--k", "5", "--rotations", "2"]
    assert run_guarded(app, [*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["condensed"][0]["k"] == 5
