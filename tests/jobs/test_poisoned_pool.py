"""A site that pushes rows with flipped labels, many more than all others together: what is seen of it, what helps."""

import json

import numpy as np
import pandas as pd
import pytest

from sfumato.core.errors import UsageError
from sfumato.release.sanitize import Options, sanitize
from sfumato.study.pooling.gather import Pushed, Request, capped_rows, spread
from sfumato.study.pooling.train_pool import train_pool
from sfumato.study.pooling.trials import TOLERANCE, _agreement
from sfumato.table import Column, Schema

WIDTH = 4
SCHEMA = Schema(
    (
        *[Column(f"x{n}", "numeric", low=-5.0, high=6.0, source="public", reason="test") for n in range(WIDTH)],
        Column("y", "categorical", role="label", categories=("no", "yes"), source="public", reason="test"),
    )
)


def people(rows, seed, flipped=False):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, rows)
    X = rng.normal(0, 1, (rows, WIDTH)) + y[:, None] * [1.8, 1.4, 1.0, 0.4]
    told = 1 - y if flipped else y
    return pd.DataFrame({f"x{n}": X[:, n].clip(-5, 6) for n in range(WIDTH)} | {"y": np.where(told, "yes", "no")})


@pytest.fixture(scope="module")
def pool(tmp_path_factory):
    """Three honest sites of 100 rows, one of 1,000 with flipped labels, and public rows to test with."""
    folder = tmp_path_factory.mktemp("poisoned")

    def push(site, frame, name=None):
        name = name or site
        sanitize(
            frame, folder / name, Options(mechanism="additive-noise", parameters={"scale": 0.05}, schema=SCHEMA, seed=1)
        )
        return Pushed(folder / name / "release.parquet", site, f"sha256:{name}")

    honest = [push(site, people(100, seed)) for seed, site in enumerate(("north", "south", "east"))]
    hostile = push("hostile", people(1000, 9, flipped=True))
    people(600, 5).to_csv(folder / "test.csv", index=False)
    return honest, hostile, folder / "test.csv", push


def trained(releases, test, out, classifier="naive-bayes", **more):
    model, results = train_pool(Request(releases, classifier, test, **more), out / "m.skops")
    json.dumps(results, allow_nan=False)
    return model, results, results["test"][0]["error"] if results["test"] else None


def test_a_poisoned_pool_is_seen_capped_and_cured(pool, tmp_path):
    honest, hostile, test, _ = pool
    *_, good = trained(honest, test, tmp_path)
    model, results, poisoned = trained([*honest, hostile], test, tmp_path)
    assert good < 0.2
    assert poisoned > 0.75
    first, *others = results["trust"]["sites"]
    assert first["site"] == "hostile"
    assert first["without"]["error"] == pytest.approx(good, abs=0.02)
    assert first["without"]["influence"] == pytest.approx(poisoned - good, abs=0.02)
    assert first["without"]["on_its_rows"] > 0.7
    assert (first["agrees"], [one["agrees"] for one in others]) == (False, [True] * 3)
    assert all(abs(one["without"]["influence"]) < 0.1 for one in others)
    assert results["trust"]["withstands"] == 1
    card = model.about["trust"]
    assert card["leave_one_site_out"][0]["influence"] == first["without"]["influence"]
    assert (card["sites_there"], card["sites_used"], card["trained_on"]) == (4, 4, "all")
    assert "hostile" not in json.dumps(card)  # which of the sites it is, is the owner's business

    _, results, capped = trained([*honest, hostile], test, tmp_path, largest_share=0.25)
    assert results["trained_rows"] == 400
    assert capped < good + 0.1
    assert any("at most 25%" in note and "900 rows of 1 site" in note for note in results["notes"])

    model, results, robust = trained([*honest, hostile], test, tmp_path, agreeing=True)
    assert robust == good
    assert {entry["site"] for entry in model.about["releases"]} == {"north", "south", "east"}
    assert model.about["rows"] == 300
    assert any("3 of 4 sites that agree" in note and "Up to 1 of 4" in note for note in results["notes"])
    (left,) = [one for one in results["trust"]["sites"] if one["site"] == "hostile"]
    assert (left["trained_rows"], left["agrees"], left["without"]) == (0, False, None)


def test_without_rows_to_test_with_a_site_is_judged_by_the_others_rows(pool, tmp_path):
    """Folds of the pool believe the majority of rows, which is the hostile site's."""
    honest, hostile, *_ = pool
    _, results, _ = trained([*honest, hostile], None, tmp_path)
    first, *others = results["trust"]["sites"]
    assert first["site"] == "hostile"
    assert first["without"]["influence"] > 0.3
    assert all(abs(one["without"]["influence"]) < 0.1 for one in others)
    assert "not its own" in results["trust"]["words"]


def test_a_cap_counts_sites_and_not_releases(pool, tmp_path):
    honest, _, test, push = pool
    many = [push("many", people(60, 50 + n, flipped=True), f"many{n}") for n in range(6)]
    _, results, _ = trained([*honest, *many], test, tmp_path, largest_share=0.25)
    rows = {one["site"]: one["trained_rows"] for one in results["trust"]["sites"]}
    assert rows == {"north": 100, "south": 100, "east": 100, "many": 100}
    again = trained([*honest, *many], test, tmp_path, largest_share=0.25)[1]
    assert again == results  # the same pool, the same rows


def test_two_sites_cannot_outvote_each_other(pool, tmp_path):
    honest, hostile, test, _ = pool
    with pytest.raises(UsageError, match="3 or more"):
        trained([honest[0], hostile], test, tmp_path, agreeing=True)
    _, results, _ = trained([honest[0], hostile], test, tmp_path)
    assert results["trust"]["withstands"] is None
    assert len(results["trust"]["sites"]) == 2
    _, alone, _ = trained(honest[:1], test, tmp_path)
    assert alone["trust"]["sites"][0]["without"] is None


def test_a_classifier_of_plain_rows_is_judged_by_another(pool, tmp_path):
    honest, hostile, test, _ = pool
    _, results, _ = trained([*honest, hostile], test, tmp_path, classifier="noise-aware-lda", agreeing=True)
    assert [one["site"] for one in results["trust"]["sites"] if not one["agrees"]] == ["hostile"]


def test_flipped_labels_are_left_out_also_where_honest_sites_hardly_agree(tmp_path):
    """Under strong noise three honest sites disagreed by .27 to .41, so the flipped one, at .76, was within 2 r."""

    def push(site, frame):
        options = Options(
            mechanism="additive-noise",
            parameters={"scale": 0.3},
            schema=SCHEMA,
            seed=1,
            ledger=tmp_path / f"{site}.json",
        )
        sanitize(frame, tmp_path / site, options)
        return Pushed(tmp_path / site / "release.parquet", site, f"sha256:{site}")

    weak = [push(site, people(150, seed)) for seed, site in enumerate(("north", "south", "east"))]
    flipped = push("hostile", people(1500, 9, flipped=True))
    people(600, 5).to_csv(tmp_path / "test.csv", index=False)
    *_, good = trained(weak, tmp_path / "test.csv", tmp_path)
    _, results, robust = trained([*weak, flipped], tmp_path / "test.csv", tmp_path, agreeing=True)
    assert [one["site"] for one in results["trust"]["sites"] if not one["agrees"]] == ["hostile"]
    assert robust == good
    assert any("hardly more than by chance" in note for note in results["notes"])


@pytest.mark.parametrize("share", [0.05, 0.2, 0.25, 0.3, 0.4, 0.5, 0.7, 0.99])
def test_no_site_exceeds_its_share_and_no_row_is_wasted(share):
    rng = np.random.default_rng(7)
    for _ in range(300):
        rows = {
            f"s{n}": int(count) for n, count in enumerate(rng.integers(1, 10 ** rng.integers(1, 5), rng.integers(2, 9)))
        }
        used = capped_rows(rows, share)
        allowed = max(share, 1 / len(rows))
        total = sum(used.values())
        assert all(used[site] <= rows[site] for site in rows)
        assert max(used.values()) <= allowed * total + 1
        if max(rows.values()) <= allowed * sum(rows.values()):
            assert used == rows
        most = max(used.values())  # large sites are cut to one number, small ones are not cut
        assert all(used[site] in (rows[site], most) for site in rows)
    assert capped_rows({"a": 5}, 0.1) == {"a": 5}
    assert capped_rows({"a": 5, "b": 7}, None) == {"a": 5, "b": 7}


def test_rows_are_spread_over_releases():
    rng = np.random.default_rng(2)
    for _ in range(200):
        rows = rng.integers(0, 50, rng.integers(1, 20)).tolist()
        total = int(rng.integers(0, sum(rows) + 1))
        found = spread(rows, total)
        assert sum(found) == (total if sum(rows) else 0)
        assert all(0 <= one <= there for one, there in zip(found, rows, strict=True))


@pytest.mark.parametrize("sites", [3, 4, 5, 8, 11])
def test_fewer_than_half_of_the_sites_cannot_spoil_the_choice(sites):
    """Answers of honest sites differ in up to D of 400 rows; the others answer whatever serves them best, also like
    one honest site, or like each other. Every kept site is within 3 D of an honest one, by counting."""
    rng = np.random.default_rng(sites)
    hostile = (sites - 1) // 2
    for trial in range(200):
        truth = rng.integers(0, 2, 400)
        noise = rng.uniform(0.0, 0.3)
        answers = [np.where(rng.random(400) < noise / 2, 1 - truth, truth) for _ in range(sites)]
        for n in range(hostile):
            near = answers[-1] if trial % 3 == 0 else 1 - truth
            answers[n] = np.where(rng.random(400) < rng.uniform(0, 1), 1 - near, near)
        distances = np.array([[np.mean(a != b) for b in answers] for a in answers])
        names = [f"s{n}" for n in range(sites)]
        found = _agreement(names, np.array(answers), 2)
        honest = range(hostile, sites)
        widest = max(distances[a, b] for a in honest for b in honest)
        assert found.radius <= widest
        assert found.withstands == hostile
        for name in found.kept:
            assert min(distances[names.index(name), b] for b in honest) <= 3 * widest + TOLERANCE
        assert len(found.kept) > sites // 2
