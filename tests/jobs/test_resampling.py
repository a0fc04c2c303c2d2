"""Kernel resampling from table to audit: both engines, sources that position does not betray, the card, the figures."""

import json

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from scipy import stats

from sfumato.attacks import ATTACKS
from sfumato.auditing.audit import audit
from sfumato.core.errors import TableError, UsageError
from sfumato.guarantee import Card
from sfumato.release import source as source_module
from sfumato.release.release import Release
from sfumato.release.sanitize import Options, sanitize

pytestmark = pytest.mark.filterwarnings("ignore")


def table(rows=2_000, seed=0):
    """Sorted by its first column, so that a row's place is its value."""
    rng = np.random.default_rng(seed)
    y = rng.integers(3, size=rows)
    x = np.sort(rng.normal(50, 10, rows))
    town = rng.choice(["a", "b", "c"], rows)
    return pd.DataFrame(
        {"x": x, "z": rng.normal(y, 1), "town": town, "k": rng.integers(5, size=rows), "y": y.astype(str)}
    )


def options(**changes):
    return Options(**{"mechanism": "kernel-resampling", "label": "y", "seed": 3, **changes})


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(source_module, "MOST_BLOCK_ROWS", 256)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("engine", ["memory", "stream"])
@pytest.mark.parametrize("rows", [None, 0.5, 3_001])
def test_both_engines_draw_from_every_block_and_shuffle(tmp_path, engine, rows):
    frame = table()
    wanted = {None: 2_000, 0.5: 1_000}.get(rows, rows)
    parameters = {"rows": rows, "category_mixing": 0.0}
    done = sanitize(frame, tmp_path / "r", options(engine=engine, parameters=parameters))
    release = Release.open(tmp_path / "r")
    assert done.card.rows == len(release.Z) == wanted
    shares = np.bincount(release.y) / wanted
    assert np.allclose(shares, frame["y"].value_counts(normalize=True).sort_index(), atol=1 / wanted + 1e-9)
    recipe = done.card.made_by()
    for place, name in enumerate(("x", "z")):
        widths = [
            recipe.of_class(code)[place].raw_noise(done.card.source_encoding().scale[place]).law.scale
            for code in range(3)
        ]
        released = pq.read_table(tmp_path / "r" / "release.parquet")[name].to_numpy()
        moved = np.abs(released - frame[name].to_numpy()[release.source])
        assert (moved <= np.array(widths)[release.y] + 1e-9).all()
        assert (frame["y"].to_numpy()[release.source] == release.y.astype(str)).all()
    assert abs(stats.spearmanr(release.source, np.arange(wanted)).statistic) < 4.5 / np.sqrt(wanted)
    drawn = np.bincount(release.source, minlength=2_000)
    expected = stats.poisson(wanted / 2_000).pmf(0)
    assert abs((drawn == 0).mean() - expected) < 0.05
    blocks = drawn.reshape(-1, 250).sum(axis=1)  # neither all the same nor far apart
    assert 0.1 < blocks.var() / (wanted / 8 * 7 / 8) < 4
    assert not list((tmp_path / "r").glob(".buckets"))


def test_the_card_says_what_must_be_said(tmp_path):
    sanitize(table(), tmp_path / "r", options())
    card = Card.load(tmp_path / "r")
    assert card.guarantee["kind"] == "empirical-only"
    assert (
        "Every row lies within h of a real person, and there is no guarantee for the record" in card.guarantee["words"]
    )
    assert "per draw only" in card.guarantee["words"]
    assert any("bandwidths" in item for item in card.learned_from_data)
    by_class = list(card.recipe["channels_by_class"].values())
    assert len(by_class) == len(card.classes) == 3
    assert card.recipe["channels"][0]["noise"]["law"] == "epanechnikov"
    assert card.recipe["channels"][0]["noise"]["scale"] == max(of[0]["noise"]["scale"] for of in by_class)
    town = card.recipe["channels"][[column["name"] for column in card.release_schema["columns"]].index("town")]
    assert town["channel"] == "randomized-response"


def test_every_attack_runs_on_drawn_rows_and_the_two_figures_stand_in_the_audit(tmp_path):
    frame, others = table(600), table(500, seed=1)
    sanitize(frame, tmp_path / "r", options(parameters={"bandwidth": "published"}))
    done = audit(tmp_path / "r", original=frame, holdout=others, out=tmp_path / "a", repeats=2)
    entries = {entry["name"]: entry for entry in done.data["attacks"]}
    assert set(entries) == set(ATTACKS)
    assert not [name for name, entry in entries.items() if "failed" in entry]
    hits = entries["nearest-source"]["details"]
    assert entries["nearest-source"]["score"] == hits["source_hits"] > 0.3
    assert hits["never_drawn"] == pytest.approx(np.exp(-1), abs=0.06)
    assert 0.5 < entries["membership"]["details"]["auc"] < 1
    assert any("drawn at random, and 3" in note and "of the people have none" in note for note in done.data["notes"])
    assert done.data["settings"]["candidates"] > 900
    assert "source_hits" in pq.read_table(tmp_path / "a" / "audit.parquet")["metric"].to_pylist()


def test_people_whom_no_row_was_drawn_from_are_members_all_the_same(tmp_path):
    """Left out, they would make members look better hidden or worse than they are: here a tenth is drawn."""
    frame, others = table(600), table(500, seed=1)
    found = {}
    for rows in (0.1, 5.0):
        sanitize(frame, tmp_path / f"r{rows}", options(parameters={"bandwidth": 0.001, "rows": rows}))
        found[rows] = audit(
            tmp_path / f"r{rows}", original=frame, holdout=others, attacks=("membership",), repeats=0
        ).data["attacks"][0]["details"]["auc"]
    assert found[5.0] > 0.95
    assert found[0.1] < 0.7


def test_a_release_of_some_rows_says_that_the_others_are_unknown(tmp_path):
    """Rows may have been left out beforehand (persons' caps, earlier releases): they were never to be drawn from."""
    frame = table(600)
    sanitize(frame, tmp_path / "r", options())
    longer = pd.concat([frame, table(50, seed=5)])
    done = audit(tmp_path / "r", original=longer, attacks=("nearest-source",), repeats=0)
    assert any("not made from all rows of the original" in note for note in done.data["notes"])
    assert done.data["attacks"][0]["details"]["never_drawn"] == 0


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"parameters": {"rows": 0}}, UsageError, "'rows' parameter"),
        ({"parameters": {"kernel": "box"}}, UsageError, "'kernel' parameter"),
        ({"parameters": {"h": 1}}, UsageError, "has no parameter 'h'"),
        ({"label": "x"}, TableError, "classes have a single row"),
    ],
)
def test_bad_input_is_told(tmp_path, changes, error, message):
    with pytest.raises(error, match=message):
        sanitize(table(60), tmp_path / "r", options(**changes))
    assert not (tmp_path / "r").exists()


def test_without_a_label_there_is_one_class(tmp_path):
    frame = table(300).drop(columns="y")
    done = sanitize(frame, tmp_path / "r", options(label=None))
    recipe = json.loads(done.card.to_json())["recipe"]
    assert len(recipe.get("channels_by_class", {})) <= 1
    assert recipe["channels"][0]["noise"]["law"] == "epanechnikov"
    assert done.card.rows == 300
