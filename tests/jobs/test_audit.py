"""The owner's road: sanitize, then audit against the original and a holdout."""

import json
import stat

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from daily import first_daily
from scores import scores_of
from sfumato.attacks import ATTACKS
from sfumato.attacks.linear_estimate import NaiveEstimate
from sfumato.auditing.attacking import beyond_chance
from sfumato.auditing.audit import audit
from sfumato.auditing.document import audit_validator
from sfumato.auditing.report.page import render_report, write_report
from sfumato.core.errors import CardError, TableError, UsageError
from sfumato.release.sanitize import Options, sanitize
from sfumato.table import open_table

pytestmark = pytest.mark.filterwarnings("ignore")
ELSEWHERE = {"hard-interval", "posterior-guess"}
"""Attacks on column-wise releases with bounded noise, and on surveys."""
SINGLING_OUT = {"singling-out", "singling-out-one-column"}
REAL = ("hepatitis", "credit_g", "credit_a_crx", "votes", "wine", "pima")


def halves(table, members=120, strangers=60):
    """People of a table, and others who are not in it."""
    order = np.random.default_rng(3).permutation(table.num_rows)
    return table.take(order[:members]), table.take(order[members : members + strangers])


@pytest.fixture(scope="module")
def wine(data_folder):
    return halves(open_table(data_folder / "wine.csv").read())


@pytest.fixture(scope="module")
def released(wine, tmp_path_factory):
    """A folder for each mechanism and its parameters, made once."""
    made = {}

    def make(mechanism="principal-laplace", like_original=False, **parameters):
        name = f"{mechanism}-{like_original}-{parameters}".replace("/", "")
        if name not in made:
            made[name] = tmp_path_factory.mktemp("release") / "out"
            options = Options(
                mechanism=mechanism, parameters=parameters, label="label", seed=2, like_original=like_original
            )
            sanitize(wine[0], made[name], options)
        return made[name]

    return make


@pytest.fixture(scope="module")
def owners(wine, released):
    """One whole audit, as the owner gets it."""
    return audit(released(b=0.1), original=wine[0], holdout=wine[1], repeats=3, out=released(b=0.1))


def test_how_many_strangers_are_twins_is_their_number_over_all(wine, released):
    strangers = pa.concat_tables([wine[0].slice(0, 17), wine[1].slice(0, 23)])  # 42.5%
    found = audit(released(b=0.1), original=wine[0], holdout=strangers, repeats=0, attacks=["known-transform"])
    assert any(note.startswith("42% of the holdout rows are identical") for note in found.data["notes"])


def test_extra_stands_beside_every_attack_and_the_three_risks(owners):
    """Right minus right without the release, in points of 100; what did not run has none, and never 0."""
    for entry in owners.data["attacks"]:
        if entry["score"] is None or entry["upper_bound"]:
            assert entry["extra"] is None
        elif "auc" in entry["details"]:
            assert entry["extra"] == pytest.approx(100 * entry["details"]["auc"] - 50)
        else:
            assert entry["extra"] == pytest.approx(100 * (entry["score"] - entry["baseline"]))
    extra = owners.data["extra"]
    assert (extra["state"], extra["limit"]) == ("your decision", None)
    most = {entry["name"]: entry["extra"] for entry in owners.data["attacks"]}
    for risk in extra["risks"]:
        own = [most[name] for name in ATTACKS if ATTACKS[name].risk == risk["risk"] and most[name] is not None]
        assert risk["extra"] == most[risk["attacker"]] == max(own)
        assert risk["high"] >= risk["extra"] >= risk["low"]


def test_every_attack_is_scored_against_baseline_and_control(owners):
    entries = {entry["name"]: entry for entry in owners.data["attacks"]}
    assert set(entries) == set(ATTACKS)
    for entry in entries.values():
        assert "failed" not in entry, entry
        if entry["name"] == "independent-components" and entry["score"] is None:
            assert "ICA" in entry["not_applicable"]
            continue
        if entry["name"] in ELSEWHERE:
            assert len(entry["not_applicable"]) > 20
            continue
        assert 0 <= entry["interval"][0] <= entry["score"] <= entry["interval"][1] <= 1
        assert entry["story"].startswith("The adversary")
        assert entry["knows"] == sorted(ATTACKS[entry["name"]].knows)
    assert entries["linear-estimate"]["control"] is not None
    assert entries["linear-estimate"]["columns"][0]["rmse"] > 0
    assert entries["principal-filter"]["details"]["own_choice"] <= entries["principal-filter"]["score"]


def test_the_file_follows_the_published_schema_and_says_first_that_it_is_private(owners, released):
    path = released(b=0.1) / "audit.json"
    data = json.loads(path.read_text())
    assert data == owners.data
    assert next(iter(data)) == "private"
    assert data["private"] is True
    assert data["format"] == "sfumato-audit"
    assert data["version"] == 1
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert not list(audit_validator().iter_errors(data))
    assert data["guarantee"]["kind"] == "empirical-only"
    assert data["release"]["mechanism"]["name"] == "principal-laplace"
    assert data["threat_model"]["not_protected"]


def test_the_schema_rejects_a_missing_score_without_a_reason(owners):
    data = json.loads(json.dumps(owners.data))
    data["attacks"][0]["score"] = None
    assert list(audit_validator().iter_errors(data))


def test_every_result_is_in_one_tidy_table(owners, released):
    path = released(b=0.1) / "audit.parquet"
    table = pq.read_table(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert table.column_names == ["kind", "attack", "column", "metric", "value", "low", "high", "baseline", "control"]
    rows = table.to_pylist()
    assert {row["kind"] for row in rows} == {
        "attack",
        "measure",
        "utility",
        "distribution",
        "correlation",
        "copies",
        "fidelity",
    }
    whole = [
        row for row in rows if row["attack"] == "linear-estimate" and row["metric"] == "score" and not row["column"]
    ]
    assert [row["value"] for row in whole] == [owners.attack("linear-estimate")["score"]]
    assert whole[0]["control"] == owners.attack("linear-estimate")["control"]


def test_an_audit_repeats(owners, wine, released):
    again = audit(released(b=0.1), original=wine[0], holdout=wine[1], repeats=3)
    assert again.data == owners.data


def test_the_riskiest_records_are_those_of_whom_the_release_adds_most(wine, released):
    found = audit(released(b=0.005), original=wine[0], holdout=wine[1], repeats=0)
    riskiest = found.data["riskiest"]
    assert len(riskiest) == 20
    more = [entry["score"] - entry["without"] for entry in riskiest]
    assert more == sorted(more, reverse=True)
    assert more[-1] > 0.4
    assert all(1 <= entry["record"] <= wine[0].num_rows for entry in riskiest)
    assert len({entry["record"] for entry in riskiest}) == len(riskiest)
    for entry, gained in zip(riskiest, more, strict=True):
        assert len(entry["columns"]) >= round(13 * gained), "what is guessed anyway is not added"


def test_where_the_release_adds_nothing_no_record_is_riskiest(wine, released):
    found = audit(released(b=50.0), original=wine[0], holdout=wine[1], repeats=0)
    assert found.attack("bayes-window")["worst"] > 0.4, "typical people are guessed with or without it"
    assert found.data["riskiest"] == []
    assert "adds nothing about any one record beyond chance" in render_report(found.data)


def test_chance_is_what_guesses_seem_to_add_about_others():
    rng = np.random.default_rng(0)
    nobody, by_chance = rng.normal(0, 0.1, 500), rng.normal(0, 0.1, 2_500)
    assert beyond_chance(nobody, by_chance) == np.inf
    some = np.concatenate([nobody, np.full(30, 0.6)])
    least = beyond_chance(some, by_chance)
    assert 0.15 < least <= 0.6
    assert np.count_nonzero(some[:500] >= least) <= 5
    assert beyond_chance(np.full(10, -0.1), by_chance) == np.inf


def test_the_words_stand_beside_every_attack_that_does_worse_than_guessing_and_no_other(owners):
    scored = [entry for entry in owners.data["attacks"] if entry["score"] is not None]
    below = [entry["name"] for entry in scored if entry["score"] < entry["baseline"] - 1e-9]
    assert below
    assert [
        entry["name"] for entry in scored if "less often than without the release" in entry.get("remark", "")
    ] == below


def test_utility_compares_training_on_release_and_original(owners):
    entries = {entry["classifier"]: entry for entry in owners.data["utility"]}
    assert {"knn", "naive-bayes", "forest", "radius-vote"} <= set(entries)
    for entry in entries.values():
        assert "failed" not in entry
        assert entry["phi"] == pytest.approx(entry["original"] - entry["release"])
        assert entry["interval"][0] <= entry["phi"] <= entry["interval"][1]
    assert entries["naive-bayes"]["original"] > 0.9


def test_a_public_audit_shows_nothing_of_the_original(wine, released, tmp_path):
    owner = audit(released(b=0.1), original=wine[0], holdout=wine[1], repeats=0, out=tmp_path / "own")
    public = audit(
        released(b=0.1),
        original=wine[0],
        holdout=wine[1],
        repeats=0,
        public=True,
        with_audit=True,
        out=tmp_path / "public",
    )
    data = json.loads((tmp_path / "public" / "audit.json").read_text())
    assert data == public.data
    assert data["private"] is False
    assert data["riskiest"] == []
    assert data["correlations"]["original"] is None
    assert all(entry["original"] is None for entry in data["distributions"])
    assert not [key for entry in data["attacks"] for key in entry if "riskiest" in key]
    for shown, whole in zip(data["attacks"], owner.data["attacks"], strict=True):
        assert shown["score"] == (None if whole["score"] is None else pytest.approx(whole["score"], rel=0.005))
    for file in (tmp_path / "public").iterdir():
        assert stat.S_IMODE(file.stat().st_mode) & 0o077 == 0o044


def test_a_public_audit_tells_no_statistic_of_the_original_in_full(wine, released, tmp_path):
    """Two audits of tables that differ in one person would show the person in the last digits of a deviation."""
    data = audit(released(b=0.1), original=wine[0], holdout=wine[1], repeats=1, public=True, with_audit=True).data
    figures = [data["attacks"], data["utility"], [entry["distance"] for entry in data["distributions"]]]
    written = json.dumps(figures)
    assert "rmse_of_mean" not in written
    assert "vod_of_mean" not in written
    found: list[float] = []
    json.loads(written, parse_float=lambda text: found.append(float(text)))
    assert len(found) > 100
    assert all(float(f"{value:.3g}") == value for value in found)
    page = tmp_path / "report.html"
    write_report(data, page)
    assert "mean: " not in page.read_text()


def test_an_audit_for_others_does_not_change_with_the_private_table(wine, released):
    """What follows from the released files alone: other people in the table, and not a byte is another."""
    folder = released(b=0.1)
    others = wine[0].set_column(0, wine[0].column_names[0], pa.array(np.linspace(11.5, 14.5, wine[0].num_rows)))
    one, other = (
        audit(folder, original=people, holdout=away, public=True, repeats=3, out=folder / "public").data
        for people, away in ((wine[0], wine[1]), (others, None))
    )
    assert one == other
    assert "extra" not in one
    assert (one["attacks"], one["utility"], one["notes"], one["riskiest"]) == ([], [], [], [])
    assert sum(one["distributions"][0]["release"]) == one["release"]["rows"]
    page = render_report(one).partition("<body>")[2]
    assert "WHAT IS PROVED" in page
    assert not any(word in page for word in ("of 100", "commonest", "strongest attacker", "Every attacker"))
    with pytest.raises(UsageError, match="Add --public"):
        audit(folder, original=wine[0], with_audit=True)


def test_histograms_count_every_row(owners, wine):
    for entry in owners.data["distributions"]:
        assert sum(entry["original"]) == sum(entry["release"]) == wine[0].num_rows
        assert len(entry["edges"]) == len(entry["release"]) + 1
        assert 0 <= entry["distance"] <= 1


def test_without_a_holdout_membership_is_not_applicable_and_says_why(wine, released):
    found = audit(released(b=0.1), original=wine[0], repeats=0, out=None)
    entry = found.attack("membership")
    assert entry["score"] is None
    assert "holdout" in entry["not_applicable"]
    assert found.attack("naive-estimate")["control"] is None
    assert any("No table of people not in the original" in note for note in found.data["notes"])


def test_an_attack_that_breaks_is_reported_as_failed_and_never_as_privacy(wine, released, monkeypatch):
    secret = "41.7"

    class Broken(NaiveEstimate):
        def guess(self, known):  # noqa: ARG002
            raise ValueError(f"cannot handle {secret}")

    monkeypatch.setitem(ATTACKS, "naive-estimate", Broken)
    found = audit(released(b=0.1), original=wine[0], repeats=0)
    entry = found.attack("naive-estimate")
    assert entry["failed"] == "ValueError"
    assert entry["score"] is None
    assert secret not in json.dumps(found.data["attacks"])
    assert found.attack("linear-estimate")["score"] is not None
    assert any("failed" in note for note in found.data["notes"])


def test_an_attack_cannot_reach_what_it_did_not_declare(wine, released, monkeypatch):
    class Cheat(NaiveEstimate):
        def guess(self, known):
            return known.targets

    monkeypatch.setitem(ATTACKS, "naive-estimate", Cheat)
    found = audit(released(b=0.1), original=wine[0], repeats=0)
    assert found.attack("naive-estimate")["failed"] == "UndeclaredKnowledgeError"


def test_a_secret_transform_is_attacked_as_if_the_key_had_leaked(wine, released, tmp_path):
    folder = released("random-projection", components=1.0)
    found = audit(folder, original=wine[0], holdout=wine[1], repeats=0, out=tmp_path)
    assert found.attack("known-transform")["assumes"] == ["the attacker shares the secret key, or it has leaked"]
    assert found.attack("known-transform")["score"] == 1.0
    assert "assumes" not in found.attack("naive-estimate")
    assert all("not_applicable" in entry for entry in found.data["distributions"])


def test_without_the_key_attacks_on_a_secret_transform_are_not_applicable(wine, released, tmp_path):
    for file in released("random-projection", components=1.0).iterdir():
        if file.name != "key.json":
            (tmp_path / file.name).write_bytes(file.read_bytes())
    found = audit(tmp_path, original=wine[0], holdout=wine[1], repeats=2)
    assert "secret key" in found.attack("known-transform")["not_applicable"]
    assert found.data["utility"] == []
    assert found.attack("naive-estimate")["score"] is not None


def test_a_folder_without_a_trace_says_that_nobody_knows_whose_row_is_whose(wine, released, tmp_path):
    for name in ("release.parquet", "card.json"):
        (tmp_path / name).write_bytes((released(b=0.1) / name).read_bytes())
    found = audit(tmp_path, original=wine[0], holdout=wine[1], repeats=2)
    assert found.data["settings"]["alignment"] == "unknown"
    for name in ("naive-estimate", "linear-estimate", "posterior-breach", "nearest-row"):
        assert "no private match file" in found.attack(name)["not_applicable"]
    assert scores_of(found).keys() == {"membership", "attribute-inference", *SINGLING_OUT}
    assert found.attack("nearest-row")["details"]["strangers_as_near"] > 0
    assert {entry["splits"] for entry in found.data["utility"]} == {1}, "tested on the holdout"


def test_a_release_like_the_original_is_attacked_with_the_strength_of_its_change(wine, released):
    found = audit(released("additive-noise", True, scale=0.02), original=wine[0], repeats=0)
    assert any("rounded and clipped" in note for note in found.data["notes"])
    assert found.attack("posterior-breach")["score"] > 0.5
    assert found.attack("linear-estimate")["score"] > 0.7


@pytest.mark.system
def test_randomized_labels_are_corrected_for_and_tested_on_true_ones(wine, tmp_path):
    options = Options(
        mechanism="additive-noise",
        parameters={"scale": 0.01},
        label="label",
        seed=1,
        private_label=True,
        label_epsilon=2.0,
    )
    sanitize(wine[0], tmp_path / "out", options)
    found = audit(tmp_path / "out", original=wine[0], repeats=3)
    entries = {entry["classifier"]: entry for entry in found.data["utility"]}
    assert "failed" not in entries["naive-bayes"]
    assert entries["naive-bayes"]["release"] > 0.8


def test_a_sample_of_a_large_table_is_audited_and_the_audit_says_so(wine, released):
    found = audit(released(b=0.1), original=wine[0], repeats=0, max_rows=50)
    assert found.data["settings"]["sampled"]
    assert found.data["settings"]["rows_used"] == 50
    assert found.data["release"]["rows"] == wine[0].num_rows
    assert any("sample of 50" in note for note in found.data["notes"])


class TestBadInput:
    def test_another_table_as_original(self, wine, released):
        shuffled = wine[0].take(np.random.default_rng(0).permutation(wine[0].num_rows))
        with pytest.raises(TableError, match="classes differ"):
            audit(released(b=0.1), original=shuffled)

    def test_an_original_that_is_too_short(self, wine, released):
        with pytest.raises(TableError, match="names later ones"):
            audit(released(b=0.1), original=wine[0].slice(0, 50))

    def test_no_card(self, wine, tmp_path):
        with pytest.raises(CardError, match="no card"):
            audit(tmp_path, original=wine[0])

    def test_another_label_than_the_card_names(self, wine, released):
        with pytest.raises(UsageError, match="not 'hue'"):
            audit(released(b=0.1), original=wine[0], label="hue")

    def test_unknown_attack(self, wine, released):
        with pytest.raises(UsageError, match="no attacker 'naive'"):
            audit(released(b=0.1), original=wine[0], attacks=("naive",))

    def test_a_holdout_without_a_column(self, wine, released):
        with pytest.raises(TableError, match="lacks the column 'hue'"):
            audit(released(b=0.1), original=wine[0], holdout=wine[1].drop_columns("hue"))

    def test_nothing_is_written_when_the_audit_fails(self, wine, released, tmp_path):
        with pytest.raises(TableError):
            audit(released(b=0.1), original=wine[0].slice(0, 50), out=tmp_path)
        assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", first_daily(REAL))
def test_mixed_tables_with_missing_values_work_end_to_end(data_folder, tmp_path, name):
    members, strangers = halves(open_table(data_folder / f"{name}.csv").read(), 80, 40)
    # Numbers alone need no second mechanism here: other tests have it.
    for mechanism in ("additive-noise",) if name in ("wine", "pima") else ("principal-laplace", "additive-noise"):
        folder = tmp_path / f"{name}-{mechanism}"
        sanitize(members, folder, Options(mechanism=mechanism, label="label", seed=1, unprotected=True))
        found = audit(folder, original=members, holdout=strangers, repeats=1 if name == "votes" else 0)
        failed = [entry["name"] for entry in found.data["attacks"] if "failed" in entry]
        assert not failed, (name, mechanism, failed)
        reasons = {entry["name"]: entry.get("not_applicable") for entry in found.data["attacks"]}
        abstained = set(ATTACKS) - set(scores_of(found))
        unable = {"independent-components", "eigen-alignment", "distance-bound", *SINGLING_OUT}
        assert abstained <= unable | ELSEWHERE
        assert all(reasons[attack] for attack in abstained)
