"""Every mechanism against every adversary: cells are kept, the audited epsilon stays below the claimed one."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import math
import re
import shutil
import subprocess
import warnings
from dataclasses import asdict

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.advising.compare import (
    audited_by_canaries,
    audited_epsilon,
    run_cell,
    settings,
    tidy,
    told_apart,
    worst_pair,
)
from sfumato.advising.trial import Outcome
from sfumato.api.cli.recommend import _lines
from sfumato.auditing.extra import Points
from sfumato.auditing.report.comparison import BESIDE, HEIGHT, LEFT, RIGHT, TOP, render_comparison
from sfumato.core.errors import OutputError, PrivacyLeakWarning, TableError, UsageError
from sfumato.guarantee.cost import epsilon_of
from sfumato.table import Encoding

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
KNOWN = {"source": "public", "reason": "the form"}
SCHEMA = sf.Schema(
    (
        sf.Column("age", "integer", low=0, high=100, **KNOWN),
        sf.Column("ward", "categorical", categories=("a", "b", "c"), **KNOWN),
        sf.Column("ill", "categorical", role="label", categories=("no", "yes"), **KNOWN),
    )
)


def people(rows=60, seed=0):
    rng = np.random.default_rng(seed)
    ill = rng.random(rows) < 0.5
    age = np.clip(np.rint(40 + 30 * ill + rng.normal(0, 8, rows)), 0, 100).astype(int)
    return pa.table({"age": age, "ward": rng.choice(["a", "b", "c"], rows), "ill": np.where(ill, "yes", "no")})


@pytest.mark.parametrize("epsilon", [0.5, 1.5])
def test_the_audited_epsilon_of_one_randomized_bit_comes_near_the_truth_and_not_above(epsilon):
    rng, keep = np.random.default_rng(1), math.exp(epsilon) / (1 + math.exp(epsilon))
    first, second = (rng.random((8_000, 1)) < share for share in (1 - keep, keep))
    found = told_apart(first.astype(float), second.astype(float))
    assert 0.7 * epsilon < found <= epsilon


def test_a_mechanism_that_claims_too_little_is_found_out():
    """Noise for epsilon 4 and a claim of 1: the experiment must say more than 1."""
    found = audited_epsilon("additive-noise", {"epsilon_record": 4.0}, SCHEMA, people(), seed=1)
    assert 1.3 < found <= 4.0
    honest = audited_epsilon("square-wave", {"epsilon_record": 1.0}, SCHEMA, people(), seed=1)
    assert 0.2 < honest <= 1.0


def test_the_worst_pair_differs_in_everything():
    first, second = worst_pair(Encoding(SCHEMA))
    np.testing.assert_array_equal(first, [0, 1, 0, 0])
    np.testing.assert_array_equal(second, [1, 0, 0, 1])


def compared(out, **words):
    chosen = {"mechanisms": ["square-wave", "condensation"], "attacks": ["naive-estimate", "membership"], "workers": 1}
    return sf.compare(people(), out, schema=SCHEMA, **{"strengths": (0.4, 0.8), "splits": 1, **chosen, **words})


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A comparison that nobody interrupted."""
    return compared(tmp_path_factory.mktemp("whole") / "c")


def test_cells_are_kept_and_used_again_and_the_page_shows_them(whole, monkeypatch):
    found, out = whole, whole.folder
    assert len(found.data["settings"]) == 4
    wave = next(one for one in found.data["settings"] if one["mechanism"] == "square-wave")
    assert wave["kind"] == "local-dp"
    assert wave["audited_epsilon"] <= wave["epsilon"]
    assert not any(one.get("above_claim") for one in found.data["settings"])
    assert all((path.stat().st_mode & 0o077) == 0 for path in out.rglob("*") if path.is_file())
    rows = found.table.to_pylist()
    assert {row["kind"] for row in rows} >= {"gain", "accuracy", "majority", "ceiling", "epsilon"}
    page = (out / "compare.html").read_text()
    assert "square-wave" in page
    script = page.split("<script>")[1].split("</script>")[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{digest}'" in (
        html.unescape(page)
    ), "the page's own script may run, and nothing else"
    assert not re.search(r"https?:|@import|url\(", page), "nothing comes from elsewhere"
    assert wave["columns"]["naive-estimate"].keys() == {"age", "ward"}
    assert found.data["limit"] is None
    mean = np.mean(list(wave["columns"]["naive-estimate"].values()))
    assert mean == pytest.approx(wave["gains"]["naive-estimate"]), "what filters by column show without a filter"
    assert wave["accuracy"] == max(wave["learners"].values())
    assert 1 <= min(wave["exposed"]["naive-estimate"]) <= max(wave["exposed"]["naive-estimate"]) <= 60

    def never(*_):
        raise AssertionError("a kept cell was computed again")

    monkeypatch.setattr("sfumato.advising.compare.run_cell", never)
    assert compared(out).data["settings"] == found.data["settings"]
    with pytest.raises(OutputError, match="another table"):
        compared(out, attacks=["membership"])


def test_an_interrupted_comparison_goes_on_and_ends_as_an_unbroken_one(whole, tmp_path, monkeypatch):
    """Stopped in the third of four cells, with one of the kept ones damaged: two are computed, and one again."""
    out, begun = tmp_path / "broken", []

    def stopped(cell, *given, **more):
        begun.append(cell.name)
        if len(begun) == 3:
            raise KeyboardInterrupt
        return run_cell(cell, *given, **more)

    with monkeypatch.context() as patched:
        patched.setattr("sfumato.advising.compare.run_cell", stopped)
        with pytest.raises(KeyboardInterrupt):
            compared(out)
    kept = {path.name: path.read_bytes() for path in (out / "cells").iterdir()}
    assert set(kept) == set(begun[:2])
    assert not (out / "compare.json").exists()
    (out / "cells" / begun[0]).write_text("{ half a ce")
    again = []

    def counted(cell, *given, **more):
        again.append(cell.name)
        return run_cell(cell, *given, **more)

    monkeypatch.setattr("sfumato.advising.compare.run_cell", counted)
    assert compared(out).data["settings"] == whole.data["settings"]
    assert len(again) == 3
    assert begun[1] not in again
    assert (out / "cells" / begun[1]).read_bytes() == kept[begun[1]]


def test_rows_that_belong_to_nobody_are_audited_by_planted_records():
    found = audited_by_canaries("tree-resampling", {"epsilon": 4.0, "delta": 1e-6}, SCHEMA, people(), seed=7)
    assert 0.8 < found["audited_epsilon"] <= 4.0
    assert not found["canaries_above"]
    mu = found["audited_mu"]
    assert mu["low"] < mu["claimed"] < 1.5 * mu["high"]
    assert epsilon_of(mu["low"] ** 2 / 2, 1e-6) == found["audited_epsilon"]


def test_one_column_of_epsilon_is_for_values_and_presence_stands_beside_it():
    """Planted records audit presence: 2.5 shown is above a claim of 2, though values are stated as 3.2."""
    made_up = cell("tree-resampling", 0.8, {"naive-estimate": 1.0})
    made_up["outcome"] |= {"kind": "central-dp", "epsilon": 3.2, "presence": 2.0, "delta": 1e-6}
    by = {"low": 0.5, "high": 0.7, "claimed": 0.6}
    (fine,) = settings([{**made_up, "audited_epsilon": 1.5, "audited_mu": by, "canaries_above": False}])
    (wrong,) = settings([{**made_up, "audited_epsilon": 2.5, "audited_mu": by, "canaries_above": False}])
    assert (fine["epsilon"], fine["presence"]) == (3.2, 2.0)
    assert (fine["above_claim"], wrong["above_claim"]) == (False, True)
    page = render_comparison(as_compared([made_up]))
    assert '<td class="number">3.2<small>presence 2</small></td>' in page
    assert {(row["kind"], row["value"]) for row in tidy([{**made_up, "split": 0}]).to_pylist()} >= {
        ("epsilon", 3.2),
        ("presence", 2.0),
    }


def test_it_says_beforehand_that_what_is_chosen_here_is_not_proved(tmp_path, monkeypatch):
    monkeypatch.setattr("sfumato.advising.compare._grounds", lambda *_: pytest.fail("rows were tried"))
    said = pytest.warns(PrivacyLeakWarning, match="nothing can be proved of a setting that is chosen by them")
    with said, pytest.raises(pytest.fail.Exception):
        compared(tmp_path / "c")


def test_an_epsilon_that_was_audited_above_its_claim_is_shouted(whole):
    data = whole.data
    wrong = json.loads(json.dumps(data))
    wrong["settings"][0] |= {"audited_epsilon": 9.0, "epsilon": 1.0, "above_claim": True}
    assert "AUDITED ABOVE CLAIMED" in render_comparison(wrong)
    assert "AUDITED ABOVE CLAIMED" not in render_comparison(data)


def test_a_release_that_no_named_learner_reads_is_attacked_all_the_same_and_says_so(tmp_path):
    chosen = {"mechanisms": ["staged-release", "randomized-response"], "attacks": ["pair"], "learners": ["logistic"]}
    found = compared(tmp_path / "c", **chosen).data
    staged = [one for one in found["settings"] if one["mechanism"] == "staged-release"]
    assert [one["accuracy"] for one in staged] == [None, None]
    assert all(one["gains"].keys() == {"pair"} for one in staged)
    assert found["no_learner"].keys() == {"staged-release"}, "once, not once for each strength"
    assert found["no_learner"]["staged-release"].startswith("logistic: ")
    assert "categories only" in found["not_compared"]["randomized-response"]
    page = render_comparison(found)
    assert "none can be trained" in page
    assert "<h3>No learner</h3>" in page


def marks(page):
    """Where every setting stands in the picture: its place in the list -> across, down, number."""
    found = re.findall(r'data-i="(\d+)" transform="translate\(([\d.]+) ([\d.]+)\)">.*?class="place">(\d*)</text>', page)
    return {int(i): (float(x), float(y), number) for i, x, y, number in found}


def as_compared(cells):
    data = {"rows": 90, "columns": 1, "splits": 1, "label": "ill", "column_names": ["age"], "limit": 15.0}
    return {**data, "settings": settings(cells), "not_compared": {}, "no_learner": {}}


def test_the_picture_comes_first_and_what_was_not_tried_stands_beside_its_axes():
    cells = [
        cell("known", 0.8, {"naive-estimate": 10.0, "nearest-row": 20.0}),
        cell("secret", 0.85, {"naive-estimate": 0.0}, ["nearest-row", "membership"]),
        cell("worse", 0.7, {"naive-estimate": 30.0, "nearest-row": 1.0}),
    ]
    data = as_compared(cells)
    page = render_comparison(data)
    places = [
        page.index(part)
        for part in ('class="frontier"', "Untick what does not concern you", 'id="table"', 'id="matrix"')
    ]
    assert places == sorted(places)
    drawn = marks(page)
    assert drawn[0] == (LEFT + (RIGHT - LEFT) * 20 / 30, drawn[0][1], "1"), "known: 20 extra of an axis that ends at 30"
    assert drawn[1][0] >= BESIDE, "secret: a whole risk was not tried, so it is not at 0"
    assert drawn[1][1] < drawn[0][1] < drawn[2][1], "the more is right, the higher"
    assert drawn[1][2] == drawn[2][2] == ""
    assert "your limit, 15" in page
    assert "originals, 90" in page
    assert "commonest class, 50" in page
    assert "+20 extra (+20 to +20, nearest-row)" in page
    assert "not tried: linkability" in page
    perfect = {**data, "settings": settings([cell("all", 1.0, {"naive-estimate": 0.0})])}
    assert TOP <= marks(render_comparison(perfect))[0][1] < HEIGHT, "100 of 100 is on the axis"
    matrix = page.split('id="matrix"')[1].split("</table>")[0]
    assert "<button" not in matrix, "the script makes one tab stop; without it there is nothing to press"
    assert "tabindex" not in matrix


def test_what_cannot_be_compared_is_refused(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(TableError, match="at least 40 rows"):
            sf.compare(people(3), tmp_path / "a", label="ill")
    for words in ({"mechanisms": ["magic"]}, {"attacks": ["magic"]}, {"learners": ["magic"]}, {"splits": 0}):
        with pytest.raises(UsageError):
            sf.compare(people(), tmp_path / "b", schema=SCHEMA, **words)
    assert not (tmp_path / "b").exists()
    (tmp_path / "b").write_text("mine")
    with pytest.raises(OutputError, match="a folder must be written there"):
        sf.compare(people(), tmp_path / "b", schema=SCHEMA)


def cell(mechanism, accuracy, extras, reasons=()):
    points = {name: Points(extra, 0.0, extra, extra) for name, extra in extras.items()}
    seen = Outcome(
        points,
        {"linear": accuracy},
        100,
        0.9,
        0.5,
        "empirical-only",
        None,
        not_applicable=dict.fromkeys(reasons, "needs the transform"),
        columns={name: {} for name in extras},
        exposed={name: [] for name in extras},
    )
    told = {"mechanism": mechanism, "parameters": {"b": 1}, "openness": 0.5, "refused": None}
    return {**told, "outcome": json.loads(json.dumps(asdict(seen)))}


def test_a_risk_that_nobody_tried_is_not_0_and_beats_nobody():
    known = cell("known", 0.8, {"naive-estimate": 10.0, "nearest-row": 20.0})
    secret = cell("secret", 0.85, {"naive-estimate": 0.0}, ["nearest-row", "membership", "known-rows"])
    worse = cell("worse", 0.7, {"naive-estimate": 30.0}, ["nearest-row"])
    nobody = cell("nobody", 0.89, {}, ["naive-estimate"])
    found = {one["mechanism"]: one for one in settings([known, secret, worse, nobody])}
    assert (found["secret"]["extra"], found["secret"]["untried"]) == (0.0, ["linkability"])
    assert not found["known"]["dominated"], "whom nobody linked with beats nobody"
    assert found["worse"]["dominated"], "it gains that much at least"
    assert (found["nobody"]["extra"], found["nobody"]["untried"]) == (None, ["inference"])
    assert found["known"]["untried"] == []
    assert [name for name, one in found.items() if one["worth"]] == ["known"]
    (useless,) = settings([cell("useless", 0.5, {"naive-estimate": 0.0})])
    assert not useless["worth"], "it is never right more often than the commonest class"


def test_extra_is_points_of_100_and_gains_stay_as_they_were():
    one = cell("one", 0.8, {"naive-estimate": 10.0})
    one["outcome"]["extras"]["membership"] = asdict(Points(53.0, 50.0, -1.0, 8.0, pairs=True))
    one["outcome"]["columns"]["membership"], one["outcome"]["exposed"]["membership"] = {}, []
    (found,) = settings([one])
    assert (found["extra"], found["extra_high"], found["strongest"]) == (10.0, 10.0, "naive-estimate")
    assert found["extras"]["membership"]["extra"] == pytest.approx(3.0)
    assert found["gains"] == {"naive-estimate": pytest.approx(0.1), "membership": pytest.approx(0.06)}
    assert found["intervals"]["membership"] == [0.0, pytest.approx(0.16)]
    kinds = {(row["kind"], row["name"]): row["value"] for row in tidy([{**one, "split": 0}]).to_pylist()}
    assert kinds["extra", "membership"] == pytest.approx(3.0)


def test_whoever_shares_the_key_of_a_rotation_is_an_adversary(tmp_path):
    attacks = ["nearest-row", "known-transform"]
    found = compared(tmp_path / "out", mechanisms=["random-rotation"], attacks=attacks, strengths=(1.0,))
    (one,) = found.data["settings"]
    assert one["untried"] == []
    assert one["extra"] > 20, "the key undoes the rotation"
    assert "not tried:" not in (tmp_path / "out" / "compare.html").read_text().split("<script")[0]


KEYS = """<!doctype html><body><iframe style="width:1000px;height:900px" srcdoc="{page}"></iframe><pre id="found"></pre>
<script>window.onload = () => {{
  const page = document.querySelector("iframe").contentDocument, told = [];
  const stops = () => [...page.querySelectorAll(".matrix [tabindex='0']")].filter((one) => !one.hidden);
  const say = () => told.push(stops().map((one) => one.dataset.i + " " + one.dataset.attack).join());
  say();
  for (const key of ["ArrowRight", "ArrowDown", "ArrowDown", "Home", "ArrowLeft"]) {{
    stops()[0].dispatchEvent(new KeyboardEvent("keydown", {{ key, bubbles: true }}));
    say();
  }}
  stops()[0].dispatchEvent(new KeyboardEvent("keydown", {{ key: "Enter", bubbles: true }}));
  told.push(page.querySelector("dialog").open, page.querySelector("dialog h3").textContent);
  page.querySelector("input[value='nearest-row']").click();
  say();
  const mark = page.querySelector(".point[data-i='0']");
  told.push(mark.getAttribute("transform"), page.querySelector("tr[data-i='0'] .gained").textContent);
  document.getElementById("found").textContent = JSON.stringify(told);
}};</script></body>"""


def test_the_terminal_lists_what_no_other_beats_the_least_extra_first():
    cells = [
        cell("useful", 0.85, {"naive-estimate": 10.0, "nearest-row": 20.0}),
        cell("secret", 0.9, {"naive-estimate": 0.0}, ["nearest-row"]),
        cell("careful", 0.7, {"naive-estimate": 3.0, "nearest-row": 1.0}),
        cell("beaten", 0.7, {"naive-estimate": 30.0, "nearest-row": 1.0}),
    ]
    first, *lines = _lines(as_compared(cells))
    by = "by linear on rows left out"
    assert first == "2 of 4 settings beaten by no other both in use and in extra; 1 within your limit of 15 extra."
    assert lines[1:] == [
        "Originals: 90 of 100 right; commonest class: 50.",
        "  1 careful, b 1",
        f"    70 of 100 right, {by}, +3 extra (+3 to +3, naive-estimate); measured, not proved; within your limit",
        "  2 useful, b 1",
        f"    85 of 100 right, {by}, +20 extra (+20 to +20, nearest-row); measured, not proved",
        f"  ? secret, b 1: 90 of 100 right, {by}, at least +0 extra (+0 to +0, naive-estimate), not tried: linkability",
    ]


@pytest.mark.system
@pytest.mark.skipif(BROWSER is None, reason="needs a browser: install Debian's package chromium")
def test_the_attackers_are_one_tab_stop_that_arrow_keys_move_and_the_picture_follows_what_is_ticked(tmp_path):
    cells = [
        cell("known", 0.8, {"naive-estimate": 10.0, "nearest-row": 20.0}),
        cell("worse", 0.7, {"naive-estimate": 30.0, "nearest-row": 1.0}),
    ]
    frame = tmp_path / "frame.html"
    frame.write_text(KEYS.format(page=html.escape(render_comparison(as_compared(cells)))), encoding="utf-8")
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--dump-dom"]
    command = [BROWSER, *flags, "--virtual-time-budget=3000", f"--user-data-dir={tmp_path / 'browser'}", frame.as_uri()]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    *walked, opened, title, after, where, gained = json.loads(
        html.unescape(re.search(r'<pre id="found">(.*?)</pre>', shown, re.DOTALL)[1])
    )
    first, second = "nearest-row", "naive-estimate"
    stops = [f"0 {first}", f"0 {second}", f"1 {second}", f"1 {second}", f"1 {first}", f"1 {first}"]
    assert walked == stops, "one at a time, and none beyond the edge"
    assert (opened, title) == (True, "nearest-row against worse, b 1")
    assert after == f"0 {second}", "what is hidden is no stop"
    assert float(re.search(r"[\d.]+", where)[0]) == pytest.approx(LEFT + (RIGHT - LEFT) * 10 / 30, abs=0.1)
    assert gained == "+10 extra (+10 to +10, naive-estimate)"


@pytest.mark.parametrize("mechanism", ["random-rotation", "principal-laplace"])
def test_a_trial_repeats_whatever_is_drawn_in_it(mechanism, tmp_path):
    """Keys too, which a release takes from the system: the same question gets the same answer."""
    asked = {"mechanisms": [mechanism], "attacks": ["naive-estimate", "bayes-window"], "strengths": (0.5,)}
    first, again = (compared(tmp_path / name, **asked).data["settings"] for name in ("first", "again"))
    assert first == again
    assert first
