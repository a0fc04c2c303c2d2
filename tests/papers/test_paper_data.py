"""Where the papers' data come from, and data that they generated."""

import numpy as np
import pytest
from papers.data import SHAPES, DataMissingError, load
from papers.store import Store

from papers import data
from sfumato.auditing.figures.sets import gaussian_clusters, waveform


@pytest.mark.parametrize("name", SHAPES)
def test_shapes_are_those_of_table_2(name, data_folder):
    found = load(name, folder=data_folder)
    assert (found.X.shape[1], len(found.X), len(np.unique(found.y))) == SHAPES[name]
    assert found.unit().min() == 0
    assert found.unit().max() == 1


@pytest.mark.parametrize("name", ["iris", "wine", "wdbc"])
def test_bundled_copies_are_the_same(name, data_folder, tmp_path):
    here, bundled = load(name, folder=data_folder), load(name, folder=tmp_path)
    assert bundled.source == "scikit-learn"
    np.testing.assert_allclose(np.sort(here.X, axis=0), np.sort(bundled.X, axis=0))
    assert sorted(np.bincount(here.y)) == sorted(np.bincount(bundled.y))


def test_missing_data_say_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setattr(data.datasets, "fetch_openml", lambda **_: pytest.fail("nobody asked to go online"))
    with pytest.raises(DataMissingError, match=r"magic04\.csv .*SFUMATO_DATA"):
        load("magic04", folder=tmp_path)
    with pytest.raises(DataMissingError, match="no data set 'covtype'"):
        load("covtype", folder=tmp_path)


def test_openml_is_asked_when_wanted_and_checked(tmp_path, monkeypatch):
    import pandas as pd

    class Fetched:
        data = pd.DataFrame(np.random.default_rng(0).random((19020, 11)), columns=["ID:", *"abcdefghij"])
        target = pd.Series(["g", "h"] * 9510)

    monkeypatch.setattr(data.datasets, "fetch_openml", lambda **_: Fetched)
    assert load("magic04", folder=tmp_path, online=True).X.shape == (19020, 10)
    Fetched.data = Fetched.data.drop(columns="a")
    with pytest.raises(DataMissingError, match=r"The paper used \(10, 19020, 2\)"):
        load("magic04", folder=tmp_path, online=True)

    def offline(**_):
        raise OSError("no route to host")

    monkeypatch.setattr(data.datasets, "fetch_openml", offline)
    with pytest.raises(DataMissingError, match="did not answer"):
        load("magic04", folder=tmp_path, online=True)


def test_a_table_of_another_shape_is_refused(tmp_path):
    (tmp_path / "iris.csv").write_text("a,b,label\n1,2,x\n3,4,y\n")
    with pytest.raises(DataMissingError, match=r"\(2, 2, 2\)"):
        load("iris", folder=tmp_path)


@pytest.mark.parametrize("sigma", [2.0, 8.0])
def test_clusters_have_their_spread_and_no_other(sigma):
    X, y = gaussian_clusters(np.random.default_rng(1), rows=20_000, columns=10, sigma=sigma)
    means = np.array([X[y == code].mean(axis=0) for code in range(10)])
    spread = (X - means[y]).std()
    assert spread == pytest.approx(sigma, rel=0.02)
    assert np.abs(means).max() < 5 + 5 * sigma / np.sqrt(len(X) / 10)
    assert np.ptp(means) > 8, "centres fill [-5, 5]"
    assert np.bincount(y).min() > 1800


def test_waveforms_are_those_of_the_uci_sample(data_folder):
    """Class means and spreads, within the error of 5,000 rows; the sample numbers its classes in another order."""
    real = load("waveform", folder=data_folder)
    X, y = waveform(np.random.default_rng(2), rows=30_000)
    ours, theirs = ([x[codes == code] for code in range(3)] for x, codes in ((X, y), (real.X, real.y)))
    apart = np.array([[np.abs(a.mean(axis=0) - b.mean(axis=0)).max() for b in theirs] for a in ours])
    twin = apart.argmin(axis=1)
    assert sorted(twin) == [0, 1, 2]
    assert apart.min(axis=1).max() < 0.2, "means of the same class agree"
    assert np.sort(apart, axis=1)[:, 1].min() > 1, "and those of other classes do not"
    for code in range(3):
        assert np.abs(ours[code].std(axis=0) - theirs[twin[code]].std(axis=0)).max() < 0.12


def test_the_store_forgets_nothing_but_a_line_cut_short(tmp_path):
    path = tmp_path / "work" / "full.jsonl"
    store = Store(path)
    store.put("a|b|0.1", {"mean": {"x": 0.1}})
    store.put("a|b|0.2", {"mean": {"x": 0.2}})
    path.write_text(path.read_text()[:-5])  # killed while writing
    again = Store(path)
    assert "a|b|0.1" in again
    assert "a|b|0.2" not in again
    again.put("a|b|0.2", 3)
    assert Store(path)["a|b|0.2"] == 3
    assert Store(path)["a|b|0.1"]["mean"]["x"] == 0.1
