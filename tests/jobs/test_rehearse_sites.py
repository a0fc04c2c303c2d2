"""One's own table dealt to L sites: what the figures are, how they move with L, and what is refused."""

import json
from xml.etree import ElementTree

import numpy as np
import pytest

import sfumato as sf
from sfumato.api.cli.app import app
from sfumato.api.cli.console import run_guarded
from sfumato.api.demo import make_consortium
from sfumato.core.errors import SfumatoError, TableError, UsageError
from sfumato.study.rehearse_sites import Dealing, dealt

pytestmark = pytest.mark.filterwarnings("ignore::sfumato.core.errors.PrivacyLeakWarning")


@pytest.fixture(scope="module")
def people():
    """Two classes that overlap, and a category that belongs to one of them more often."""
    rng = np.random.default_rng(0)
    ill = np.arange(400) % 2
    shade = np.where(rng.random(400) < 0.3 + 0.4 * ill, "dark", "light")
    return {
        "age": (50 + 8 * ill + 6 * rng.standard_normal(400)).tolist(),
        "bmi": (25 - 2 * ill + 3 * rng.standard_normal(400)).tolist(),
        "shade": shade.tolist(),
        "ill": [("no", "yes")[code] for code in ill],
    }


def test_rows_are_dealt_once_and_every_site_has_its_share_of_each_class():
    y = np.array([0] * 31 + [1] * 10)
    parts = dealt(y, 4, np.random.default_rng(0))
    assert sorted(np.concatenate(parts)) == list(range(41))
    assert all(abs((y[part] == 1).sum() - 2.5) <= 1 for part in parts)


def test_skewed_sites_differ_by_as_much_as_is_asked():
    rng = np.random.default_rng(0)
    y, x, rows = np.arange(2_000) % 2, rng.random(1_000), rng.permutation(2_000)[:1_000]
    y = y[rows]
    order = np.empty(2_000)
    order[rows] = x
    for share in (0.0, 0.5, 1.0):  # by a column: every site has its share of each class, and its own range
        parts = Dealing(order=order, share=share).sites(rows, y, 4, rng)
        assert sorted(np.concatenate(parts)) == list(range(1_000))
        assert all(abs(int((y[part] == 1).sum()) - (y == 1).sum() / 4) <= 2 for part in parts)
        means = [x[part].mean() for part in parts]
        assert means[3] - means[0] == pytest.approx(0.75 * share, abs=0.08)
    classes = np.zeros(2_000)
    classes[rows] = y
    first, *_, last = Dealing(order=classes, share=0.8, by_class=True).sites(rows, y, 4, rng)
    assert (y[first] == 1).mean() == pytest.approx(0.1, abs=0.03)
    assert (y[last] == 1).mean() == pytest.approx(0.9, abs=0.03)


def test_sites_of_a_column_and_skewed_ones(people):
    skewed = sf.rehearse(people, (1, 4), label="ill", repeats=4, skew="ill")
    even = sf.rehearse(people, (1, 4), label="ill", repeats=4)
    assert skewed.found[0].original == even.found[0].original  # one site has everybody, however rows are dealt
    assert skewed.found[1].alone > even.found[1].alone + 0.1  # sites of almost one class learn little alone
    assert skewed.found[1].pooled < skewed.found[1].alone
    own = {**people, "clinic": [("north", "south", "south", "west")[i // 2 % 4] for i in range(400)]}
    named = sf.rehearse(own, (1, 3), label="ill", repeats=2, site="clinic")
    assert [one.sites for one in named.found] == [1, 3]
    assert named.found[0].alone == named.found[0].original  # the largest alone: south, 200 of 400
    assert named.found[1].original != named.found[0].original
    for words, why in [
        ({"site": "clinic", "skew": "age"}, "--skew deals them"),
        ({"site": "ward"}, "no column 'ward'"),
        ({"site": "clinic", "sites": (1, 4)}, "at least 4. It names 3"),
        ({"skew": "ward"}, "no private column 'ward'"),
        ({"skew": "ill", "skew_share": 1.0}, "too few rows"),
    ]:
        words = dict(words)
        with pytest.raises(SfumatoError, match=why):
            sf.rehearse(own, words.pop("sites", (1, 2)), label="ill", repeats=1, **words)


def test_figures_against_the_number_of_sites(people):
    rehearsal = sf.rehearse(people, (1, 2, 8), label="ill", repeats=6)
    picture = ElementTree.fromstring(rehearsal.plot())
    assert len(picture.findall(".//{*}polyline")) == 6
    assert len(picture.findall(".//{*}circle")) == 18  # a point for every number of sites on every line
    found = {one.sites: one for one in rehearsal.found}
    for one in found.values():
        assert one.phi == pytest.approx(one.pooled - one.original)
        assert 0 < one.density_gap < 1
        assert 0.1 < one.original < 0.35
    assert found[1].alone == found[1].original  # one site that stays alone has all rows
    assert len({round(one.original, 9) for one in found.values()}) == 1  # the same people are held apart
    assert found[8].density_gap > found[1].density_gap + 0.03  # small sites estimate worse [Figs 3-7]
    assert found[8].hits < found[1].hits  # while their rows are recognised less among all others


def test_a_wider_kernel_hides_more_and_no_kernel_hides_nothing(people):
    wide, narrow = (
        sf.rehearse(people, (2,), label="ill", repeats=3, parameters={"bandwidth": h, "category_mixing": 0.0}).found[0]
        for h in (0.5, 1e-6)
    )
    assert narrow.hits == 1
    assert narrow.membership > 0.75  # who was not drawn cannot be told
    assert wide.hits < 0.1
    assert wide.membership < 0.65


def test_other_mechanisms_have_no_density(people):
    found = sf.rehearse(people, (2,), label="ill", repeats=1, mechanism="additive-noise", parameters={"scale": 0.1})
    assert found.found[0].density_gap is None
    assert len(found.table) == 1


@pytest.mark.parametrize(
    ("words", "error", "message"),
    [
        ({"sites": ()}, UsageError, "different numbers of sites"),
        ({"sites": (0,)}, UsageError, "different numbers of sites"),
        ({"sites": (100,)}, TableError, r"too few rows for 100 sites.*At most 75 sites"),
        ({"sites": (2,), "label": None}, UsageError, "needs classes to predict"),
        ({"sites": (2,), "mechanism": "random-rotation"}, UsageError, "does not keep the table's columns"),
        ({"sites": (2,), "repeats": 0}, UsageError, "--repeats must be at least 1"),
    ],
)
def test_what_cannot_be_is_said(people, words, error, message):
    with pytest.raises(error, match=message):
        sf.rehearse(people, **{"label": "ill", **words})


def test_on_the_command_line(people, tmp_path, capsys):
    import pandas as pd

    pd.DataFrame(people).to_csv(tmp_path / "t.csv", index=False)
    fixed = ["study", "rehearse", str(tmp_path / "t.csv"), "--label", "ill", "--sites", "1,4", "--repeats", "1"]
    assert run_guarded(app, [*fixed, "--out", str(tmp_path / "found.csv")]) == 0
    told = capsys.readouterr().out
    assert "original  pooled  alone" in told
    assert list(pd.read_csv(tmp_path / "found.csv")["sites"]) == [1, 4]
    assert run_guarded(app, [*fixed, "--json"]) == 0
    assert [one["sites"] for one in json.loads(capsys.readouterr().out)["sites"]] == [1, 4]
    assert run_guarded(app, [*fixed[:5], "--sites", "four"]) != 0
    assert "numbers with commas" in capsys.readouterr().err


def test_a_consortium_of_any_size():
    dealt_to = make_consortium(count=8)
    assert len(dealt_to.sites) == 8
    assert {table.num_rows for table in dealt_to.sites.values()} <= {53, 54}
    assert sum(table.num_rows for table in dealt_to.sites.values()) == 427
    with pytest.raises(UsageError, match="--sites must be from 1 to 20"):
        make_consortium(count=21)
