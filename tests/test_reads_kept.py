"""What 0.2.0 and the program before 0.3.0 left with users is read, learned from, attacked, charged after, resumed."""

import csv
import json
import shutil
from pathlib import Path

import pandas as pd
import pytest

import sfumato as sf
from sfumato.api.cli.app import app
from sfumato.api.cli.console import run_guarded
from sfumato.study.protocol.study_file import load_study

VECTORS = Path(__file__).parent / "vectors"
RELEASED, LATER = "0.2.0", "before-0.3.0"
EXPECTED = {version: json.loads((VECTORS / version / "expected.json").read_text()) for version in (RELEASED, LATER)}
ON_BITS = ("bernoulli-naive-bayes", "id3")
CLOSED = ("knn", "naive-bayes", "noise-aware-lda", "noise-aware-qda", "reconstructed-naive-bayes")
"""Learners that take no rounds: trained again on the same rows by the same rule, they answer the same."""
KILLED = sorted(path.parent.name for path in (VECTORS / LATER / "killed").glob("*/.run"))

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def copied(version, folder):
    """What a user of that version has, private as it was."""
    shutil.copytree(VECTORS / version, folder)
    for path in folder.rglob("*"):
        path.chmod(0o700 if path.is_dir() else 0o600)
    return folder


@pytest.fixture(params=[RELEASED, LATER])
def kept(request, tmp_path):
    return copied(request.param, tmp_path / request.param)


@pytest.fixture
def later(tmp_path):
    return copied(LATER, tmp_path / LATER)


def each(what):
    return [(version, name) for version, expected in EXPECTED.items() for name in expected[what]]


def answers(model, table, out):
    assert run_guarded(app, ["predict", str(model), str(table), "--out", str(out), "--quiet"]) == 0
    with out.open(encoding="utf-8") as file:
        said = list(csv.DictReader(file))
    sure = sum(float(row["probability"]) for row in said if row.get("probability"))
    return ["".join(row["prediction"][0] for row in said), round(sure / len(said), 6)]


# Releases and their cards


@pytest.mark.parametrize(("version", "name"), each("guarantees"))
def test_a_release_is_opened_shown_and_promises_what_it_promised(version, name, tmp_path, capsys):
    folder = VECTORS / version / name
    release = sf.open_release(folder)
    assert release.arrow.num_rows == release.card.rows
    assert run_guarded(app, ["show", str(folder), "--json"]) == 0
    stated = json.loads(capsys.readouterr().out)["card"]["guarantee"]
    expected = EXPECTED[version]["guarantees"][name]
    assert {field: stated.get(field) for field in expected} == expected
    release.save(tmp_path / "again")
    assert sf.open_release(tmp_path / "again").arrow.equals(release.arrow)


def test_rows_that_were_made_up_are_drawn_again(later):
    redrawn = sf.redraw(later / "made-up", rows=500, seed=1)
    assert redrawn.arrow.num_rows == 500
    assert redrawn.card.space == sf.open_release(later / "made-up").card.space


def test_a_key_makes_the_same_space(kept, tmp_path):
    words = {"schema": kept / "schema.yaml", "mechanism": "random-rotation", "max_rows_per_person": 1}
    made = sf.sanitize(kept / "table.csv", **words, key=kept / "key.json", ledger=tmp_path / "ledger.json")
    assert made.card.space == sf.open_release(kept / "rotated").card.space


def test_an_audit_finds_what_was_to_be_found(kept):
    """The key gives everybody away; without it noise leaves a naive guess nearly as wrong as none."""
    about = {"original": kept / "table.csv"}
    rotated = sf.audit(kept / "rotated", **about, key=kept / "key.json", attacks=["known-rows"])
    assert rotated.attack("known-rows")["score"] == 1.0
    local = sf.audit(kept / "local", **about, attacks=["known-rows", "naive-estimate"])
    assert 0.2 < local.attack("naive-estimate")["score"] < local.attack("known-rows")["score"] < 0.9


# Models


@pytest.mark.parametrize(("version", "name"), each("answers"))
def test_a_model_answers_as_it_did(version, name, tmp_path):
    folder = VECTORS / version
    asked = folder / ("asked-choices.csv" if name in ON_BITS else "asked.csv")
    assert (
        answers(folder / "models" / f"{name}.skops", asked, tmp_path / "said.csv")
        == (EXPECTED[version]["answers"][name])
    )


@pytest.mark.parametrize("name", CLOSED)
def test_training_on_its_release_gives_the_same_model(later, name, tmp_path):
    sf.train(later / "local", classifier=name).save(tmp_path / "model.skops")
    assert (
        answers(tmp_path / "model.skops", later / "asked.csv", tmp_path / "said.csv")
        == EXPECTED[LATER]["answers"][name]
    )


# The ledger


def test_the_ledger_lists_what_was_released(later, capsys):
    assert run_guarded(app, ["ledger", "show", "--ledger", str(later / "ledger.json"), "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["releases"]
    assert [[one["mechanism"], one["kind"], one["epsilon"]] for one in listed] == EXPECTED[LATER]["ledger"]


def test_the_next_release_is_charged_after_the_earlier_ones(kept, tmp_path):
    """Two releases and one with a key before: 20 and 4 add up, whoever was released stays at home with only_new."""
    words = {"schema": kept / "schema.yaml", "max_rows_per_person": 1, "ledger": kept / "ledger.json"}
    words |= {"mechanism": "additive-noise", "epsilon_record": 4.0}
    with pytest.raises(sf.SfumatoError) as told:
        sf.sanitize(kept / "table.csv", **words, only_new=True)
    assert told.value.exit_code == 7
    made = sf.sanitize(kept / "table.csv", **words, out=tmp_path / "next")
    earlier = made.card.earlier_releases
    assert earlier["count"] == (2 if kept.name == RELEASED else 3)
    assert earlier["total_epsilon_record"] is None, "a rotation has no bound"
    assert earlier["people"]["local_epsilon"]["worst"] == pytest.approx(24.0)
    assert earlier["people"]["unproved_releases"]["worst"] == 1
    more = tmp_path / "more.csv"
    more.write_text((kept / "table.csv").read_text() + "P990,50,80,once,no\nP991,60,80,yes,yes\n")
    assert sf.sanitize(more, **words, only_new=True).arrow.num_rows == 2


# What settles a release: config, study, plan


def test_a_config_settles_the_same_release(later):
    words = {"schema": later / "schema.yaml", "max_rows_per_person": 1, "ledger": later / "other.json"}
    made = sf.sanitize(later / "table.csv", **words, config=later / "config.yaml")
    assert made.card.mechanism["name"] == "tree-resampling"
    assert made.card.guarantee["central"]["epsilon"] == pytest.approx(
        EXPECTED[LATER]["guarantees"]["made-up"]["central"]["epsilon"], rel=1e-9
    )


@pytest.mark.parametrize(("version", "name"), each("studies"))
def test_a_study_keeps_its_hash(version, name):
    """Sites compared it by telephone."""
    assert load_study(VECTORS / version / name).hash == EXPECTED[version]["studies"][name]


def test_a_study_settles_the_same_release(kept):
    made = sf.sanitize(kept / "table.csv", study=kept / "study.yaml", ledger=kept / "other.json")
    assert made.card.guarantee["kind"] == "local-dp"
    assert made.card.guarantee["epsilon_record"] == pytest.approx(4.0)


def test_a_plan_is_counted(later):
    made = sf.sanitize(later / "table.csv", study=later / "plan.json", ledger=later / "other.json")
    assert made.card.guarantee["central"]["epsilon"] == pytest.approx(1.0)
    assert made.counts is not None


# Runs that were killed


@pytest.mark.parametrize("mechanism", KILLED)
def test_a_killed_run_goes_on_and_makes_the_release_that_it_would_have_made(later, mechanism):
    """Its sums are Python objects by the name of their class: whoever moves a class moves this."""
    work = later / "killed" / mechanism
    plan = json.loads((work / ".run" / "plan.json").read_text())
    about = (later / "table.csv").stat()
    if mechanism == "principal-laplace":
        del plan["recipe"]  # another processor's eigenvectors have other last digits
    plan["files"] = [[str(later / "table.csv"), about.st_size, about.st_mtime_ns, about.st_ino]]
    (work / ".run" / "plan.json").write_text(json.dumps(plan))
    work.rename(later / "killed" / f".{mechanism}.unfinished")
    words = {"schema": later / "schema.yaml", "mechanism": mechanism, "engine": "stream", "seed": 3}
    words |= {"max_rows_per_person": 1, "unprotected": True}
    ledger = later / "killed" / f"{mechanism}.ledger.json"
    if plan["version of sfumato"] != sf.__version__:
        with pytest.raises(sf.SfumatoError, match="it was begun with another version of sfumato"):
            sf.sanitize(later / "table.csv", **words, resume=True, ledger=ledger, out=work)
        return
    gone_on = sf.sanitize(later / "table.csv", **words, resume=True, ledger=ledger, out=work)
    unbroken = sf.sanitize(later / "table.csv", **words, ledger=later / "other.json", out=later / "unbroken")
    again, exact = unbroken.arrow.to_pandas(), mechanism != "principal-laplace"
    pd.testing.assert_frame_equal(gone_on.arrow.to_pandas(), again, check_exact=exact, rtol=1e-12)
    assert gone_on.card.earlier_releases["count"] == 0
    assert not list((later / "killed").glob(".*.unfinished"))
