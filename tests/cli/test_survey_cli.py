"""A survey from the command line: make it, answer it, verify it, witness it, fetch the bits, train on them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import uvicorn
import yaml

from sfumato.api.cli.app import app as cli
from sfumato.api.cli.console import run_guarded
from sfumato.core.errors import CoordinatorError
from sfumato.study.client.survey_server import SurveyServer
from sfumato.study.server.app import create_app
from sfumato.study.server.settings import Settings
from sfumato.study.server.store import Store

SURVEY = {
    "kind": "survey",
    "name": "Habits",
    "by": "Example University",
    "questions": [{"name": name, "kind": "yesno"} for name in ("smokes", "runs", "reads")],
    "label": {"name": "ill", "kind": "yesno"},
    "batch": 3,
    "invitations": True,
}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "server"


@pytest.fixture
def address(data: Path) -> Iterator[str]:
    config = uvicorn.Config(create_app(Settings(data=data, worker=False)), port=0, log_config=None, access_log=False)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join(10)


@pytest.fixture(autouse=True)
def _own_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SFUMATO_LEDGER", str(tmp_path / "memory" / "ledger.json"))


def _away(*_: object) -> bool:
    raise CoordinatorError("The server is away.")


def run(*words: object) -> int:
    return run_guarded(cli, [str(word) for word in words])


def test_a_survey_from_beginning_to_end(
    tmp_path: Path, data: Path, address: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file, answers = tmp_path / "survey.yaml", tmp_path / "me.yaml"
    file.write_text(yaml.safe_dump(SURVEY))
    assert run("survey", "new", file, "--data", data, "--json") == 0
    made = json.loads(capsys.readouterr().out)
    owner = ["--to", address, "--token-file", made["token_file"]]
    link = f"{address}/survey/#survey={made['id']}&hash={made['hash'].removeprefix('sha256:')}"
    assert run("survey", "codes", made["id"], "--number", 4, "--out", tmp_path / "codes", *owner) == 0
    codes = (tmp_path / "codes").read_text().split()
    assert (tmp_path / "codes").stat().st_mode & 0o077 == 0
    capsys.readouterr()
    for number, code in enumerate(codes):
        # The label is yes or no; one question is left out, which counts as "prefer not to say".
        answers.write_text(f"smokes: {'yes' if number % 2 else 'no'}\nruns: no\nill: {'yes' if number % 2 else 'no'}\n")
        monkeypatch.setenv("SFUMATO_CODE", code)
        assert run("respond", link, "--answers", answers, "--max-level", 9, "--yes", "--again") == 0
        said = capsys.readouterr().out
        assert "smokes: no=" in said
        assert f"{made['hash']} (as in the link)" in said
        assert "cannot be withdrawn" in said
    assert run("respond", link, "--answers", answers, "--max-level", 9, "--yes") == 7  # this file was answered from
    assert "another draw would reveal more" in capsys.readouterr().err
    answers = tmp_path / "you.yaml"
    answers.write_text("smokes: no\nill: no\n")
    assert run("respond", link, "--answers", answers, "--max-level", 9, "--yes") == 8  # the code was used
    assert "already used" in capsys.readouterr().err
    assert not any("bits" in file.read_text() for file in (tmp_path / "memory").glob("answer-*.json"))
    assert run("survey", "codes", made["id"], "--number", 1, "--out", tmp_path / "more", *owner) == 0
    assert f"{link}&code=CODE" in capsys.readouterr().out
    monkeypatch.setenv("SFUMATO_CODE", (tmp_path / "more").read_text().strip())
    dry = ["respond", link, "--answers", answers, "--max-level", 9, "--dry-run"]
    assert run(*dry) == 0
    assert "draws bits of its own" in capsys.readouterr().out
    with monkeypatch.context() as broken:
        broken.setattr(SurveyServer, "send", _away)
        assert run("respond", link, "--answers", answers, "--max-level", 9, "--yes") == 8
    capsys.readouterr()
    assert run(*dry, "--json") == 0
    waiting = json.loads(capsys.readouterr().out)
    assert waiting["waiting"]
    with monkeypatch.context() as silent:
        posted: list[dict[str, object]] = []
        silent.setattr(SurveyServer, "send", lambda _, answer: bool(posted.append(answer)) or True)
        assert run("respond", link, "--answers", answers, "--max-level", 9, "--yes") == 0  # the new code helps
    assert posted[0]["bits"] == waiting["bits"]  # the very bits that the dry run showed
    assert "code" not in posted[0]
    assert len(str(posted[0]["ticket"])) == 342
    assert not list((tmp_path / "memory").glob("ticket-*.json"))
    capsys.readouterr()

    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        assert run("survey", "verify", link, "--json") == 0
        verified = json.loads(capsys.readouterr().out)
        if verified["answers"] == 3:
            break
        time.sleep(0.1)
    assert (verified["answers"], verified["version"], verified["recomputed"]) == (3, 2, 2)
    assert (verified["survey"], verified["pinned"]) == (made["hash"], True)
    assert run("survey", "witness", link, "--out", tmp_path / "head.json") == 0
    assert json.loads((tmp_path / "head.json").read_text())["hash"] == verified["head"]
    assert run("survey", "witness", link, "--out", tmp_path / "head.json") == 0
    (tmp_path / "head.json").write_text(json.dumps({"survey": made["hash"], "version": 1, "hash": "0" * 64}))
    assert run("survey", "witness", link, "--out", tmp_path / "head.json") == 6
    capsys.readouterr()

    assert run("survey", "status", made["id"], *owner, "--json") == 0
    status = json.loads(capsys.readouterr().out)
    assert (status["answers"], status["counted"], status["codes"]) == (4, 3, {"given": 5, "used": 5})
    assert status["versions"][-1]["epsilon"] > 0
    even = status["disclosure_at_even_choices"]
    assert 0 < even["share"] < 1 < even["of_bits"]
    assert status["state"] == "open"
    assert run("survey", "status", made["id"], *owner) == 0
    printed = capsys.readouterr().out
    assert re.search(r"No guidance of level \d discloses more than [\d.]+ bits", printed)
    assert f"of the {even['of_bits']:.1f} bits that answers hold if every choice is equally likely" in printed
    assert run("survey", "close", made["id"], *owner, "--yes") == 0
    assert run("survey", "status", made["id"], *owner) == 0
    assert "The survey is closed: no more answers are accepted." in capsys.readouterr().out
    assert run("survey", "export", made["id"], "--out", tmp_path / "bits", *owner) == 0
    parts = sorted((tmp_path / "bits").iterdir())
    assert sum(json.loads((part / "card.json").read_text())["rows"] for part in parts) == 4
    card = json.loads((parts[0] / "card.json").read_text())
    assert card["guarantee"]["kind"] == "local-dp"
    assert run("train", *parts, "--classifier", "naive-bayes", "--out", tmp_path / "m.skops") == 0


def test_of_several_programs_that_answer_from_one_file_one_draws(
    tmp_path: Path, data: Path, address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file, answers = tmp_path / "survey.yaml", tmp_path / "me.yaml"
    file.write_text(yaml.safe_dump({**SURVEY, "invitations": False}))
    answers.write_text("smokes: no\nill: no\n")
    assert run("survey", "new", file, "--data", data, "--json") == 0
    identity = json.loads(capsys.readouterr().out)["id"]
    link = f"{address}/survey/#survey={identity}"
    program = "from sfumato.api.cli import main; main()"
    words = [sys.executable, "-c", program, "respond", link, "--answers", str(answers), "--max-level", "9", "--yes"]
    programs = [subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) for _ in range(2)]
    said = [one.communicate(timeout=100)[1] for one in programs]
    assert sorted(one.returncode for one in programs) == [0, 7], said
    assert Store.open(Settings(data=data, worker=False)).surveys.count(identity) == 1


def test_a_new_survey_tells_its_link_and_cannot_be_over(
    tmp_path: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "survey.yaml"
    file.write_text(yaml.safe_dump(SURVEY))
    assert run("survey", "new", file, "--data", data) == 0
    assert re.search(
        r"https://your-host/survey/#survey=\w+&hash=[0-9a-f]{64}  \(for respondents\)", capsys.readouterr().out
    )
    file.write_text(yaml.safe_dump({**SURVEY, "closes": "2020-01-01"}))
    assert run("survey", "new", file, "--data", data) == 2
    assert "closed on 2020-01-01: people could no longer answer it" in capsys.readouterr().err
    assert len(list(data.glob("owner-*.token"))) == 1


def test_mistakes_are_one_clear_line(tmp_path: Path, address: str, capsys: pytest.CaptureFixture[str]) -> None:
    file, answers = tmp_path / "pool.yaml", tmp_path / "me.yaml"
    file.write_text("kind: pool\n")
    assert run("survey", "new", tmp_path / "none.yaml", "--data", tmp_path) == 2
    assert run("survey", "new", file, "--data", tmp_path) in (2, 4)
    assert run("respond", f"{address}/survey/#survey=x", "--answers", tmp_path / "none", "--max-level", 1) == 2
    answers.write_text("- a list\n")
    assert run("respond", f"{address}/survey/#survey=x", "--answers", answers, "--max-level", 1) == 2
    answers.write_text("smokes: yes\nill: no\n")
    assert run("respond", "https://host/", "--answers", answers, "--max-level", 1) == 2
    assert run("respond", f"{address}/survey/#survey=x", "--answers", answers, "--max-level", 1) == 8
    assert run("survey", "verify", f"{address}/survey/#survey=x") == 8
    errors = capsys.readouterr().err
    assert errors.count("sfumato: ") == 7
    assert "Traceback" not in errors


def test_a_survey_is_audited_before_anybody_is_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, people = tmp_path / "survey.yaml", tmp_path / "people.csv"
    questions = [*SURVEY["questions"], {"name": "age", "kind": "number", "edges": [30, 60]}]  # type: ignore[misc]
    file.write_text(yaml.safe_dump({**SURVEY, "questions": questions}))
    rows = [
        f"{'yes' if n % 2 else 'no'},{'yes' if n % 3 else 'no'},{('yes' if n % 5 else 'no') if n % 7 else ''},"
        f"{n % 90 if n % 11 else ''},"  # who leaves a cell empty prefers not to say
        f"{'yes' if n % 2 else 'no'}"
        for n in range(120)
    ]
    people.write_text("smokes,runs,reads,age,ill\n" + "\n".join(rows) + "\n")
    command = ["survey", "audit", file, "--population", people, "--out", tmp_path / "audit", "--json"]
    assert run(*command) == 0
    found = json.loads(capsys.readouterr().out)
    miners = {(one["kind"], one["floor"]): one for one in found["miners"]}
    assert miners["unit", 0.0]["identified"] == 1.0  # without a floor unit vectors read a question of everybody
    assert all(one["identified"] == 0.0 for (_, floor), one in miners.items() if floor > 0)
    attacks = {attack["name"]: attack for attack in found["attacks"]}
    assert attacks["posterior-guess"]["score"] is not None
    assert "simulated" in (tmp_path / "audit" / "answers" / "report.html").read_text()
    measures = found["measures"]
    most = measures["most_disclosure"]
    assert (
        measures["disclosure"]["bits"] <= most["found"]["bits"] + 5 * most["found"]["error"] <= most["at_most"]["bits"]
    )
    assert 0 < most["at_most"]["bits"] <= measures["anybody_bits"]
    assert measures["degree_of_error"]["exact"]
    assert "Degree of disclosure (Definition 2)" in (tmp_path / "audit" / "answers" / "report.html").read_text()
    assert {path.name for path in (tmp_path / "audit").iterdir()} == {
        "answers",
        "respondents.parquet",
        "others.parquet",
    }
    assert {path.stat().st_mode & 0o077 for path in (tmp_path / "audit").glob("*.parquet")} == {0}
    assert run(*command) == 5  # the folder exists


def test_a_plan_says_how_many_are_needed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, people = tmp_path / "survey.yaml", tmp_path / "people.csv"
    file.write_text(
        yaml.safe_dump({**SURVEY, "batch": 100, "start_up": [[1, 0, 0, 1], [0, 0, 1, 0], [1, 1, 1, 1], [0, 1, 0, 0]]})
    )
    rows = [
        ("yes", "no", "no", "yes"),
        ("no", "no", "yes", "no"),
        ("yes", "yes", "yes", "yes"),
        ("no", "yes", "no", "no"),
    ]
    people.write_text("smokes,runs,reads,ill\n" + "\n".join(",".join(row) for row in rows * 30) + "\n")
    command = ["survey", "plan", file, "--accuracy", 0.9, "--population", people, "--floor", 0.1]
    assert run(*command) == 0
    said = capsys.readouterr().out
    assert "Plain answers would reach 1.000" in said
    assert "accuracy 0.9 needs 200 respondents" in said
    more = ["--limits", "17/56/27", "--limit-levels", "1/1", "--classifier", "id3", "--whole-tuple", 0.9]
    assert run(*command, *more) == 0
    said = capsys.readouterr().out
    assert re.search(r"fundamentalists \(level 1\): \d+% sent", said)
    assert "marginally concerned (any level): 100% sent, after 0 others arrived (95%: 0)" in said
    assert "Whole-tuple response with theta 0.9 and" in said
    assert run(*command, *more, "--json") == 0
    assert json.loads(capsys.readouterr().out)["cases"][0]["kinds"][2]["sent"] == 1
    assert run(*command, "--limits", "17/56") == 2
    assert run("survey", "plan", file, "--accuracy", 2) == 2
    people.write_text("smokes,runs\nyes,no\n")
    assert run(*command) == 4
    assert "no column 'reads'" in capsys.readouterr().err


def test_edges_of_an_earlier_table_go_into_survey_and_schema(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    earlier, file, cut = tmp_path / "earlier.csv", tmp_path / "survey.yaml", tmp_path / "cut.yaml"
    earlier.write_text(
        "hours,other,ill\n" + "".join(f"{n % 24},{n},{'yes' if n % 24 < 6 else 'no'}\n" for n in range(240))
    )
    questions = [{"name": "hours", "kind": "number"}, {"name": "smokes", "choices": ["no", "yes"]}]
    file.write_text(yaml.safe_dump({**SURVEY, "questions": questions}))
    by_class = ["--by", "class", "--label", "ill", "--survey", file, "--out", cut]
    assert run("survey", "edges", earlier, *by_class) == 0
    assert "hours: [5.5]" in capsys.readouterr().out
    written = yaml.safe_load(cut.read_text())["questions"]
    assert (written[0]["edges"], written[1]["choices"]) == ([5.5], ["no", "yes"])
    assert run("survey", "edges", earlier, *by_class) == 5  # it exists
    schema = tmp_path / "schema.yaml"
    assert run("schema", earlier, "--label", "ill", "--out", schema, "--quiet") == 0
    with_edges = ["--column", "hours", "--schema", schema, "--reason", "a public table", "--out", tmp_path / "s.yaml"]
    assert run("survey", "edges", earlier, *with_edges, "--json") == 0
    assert json.loads(capsys.readouterr().out)["edges"] == {"hours": [5.75, 11.5, 17.2]}
    column = next(one for one in yaml.safe_load((tmp_path / "s.yaml").read_text())["columns"] if one["name"] == "hours")
    assert (column["kind"], column["edges"], column["source"]) == ("categorical", [5.75, 11.5, 17.2], "public")
    assert run("survey", "edges", earlier, "--out", tmp_path / "none.yaml") == 2
    assert run("survey", "edges", earlier, "--column", "hour") == 4
    assert "Did you mean 'hours'" in capsys.readouterr().err
    file.write_text("- hours")
    assert run("survey", "edges", earlier, "--survey", file, "--out", tmp_path / "none.yaml") == 4
    assert "needs a list of `questions`" in capsys.readouterr().err


def test_plain_answers_are_classified_in_the_words_of_the_survey(
    tmp_path: Path, data: Path, address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A number is an interval to the model; the survey file says which."""
    file, bits, people = tmp_path / "survey.yaml", tmp_path / "bits", tmp_path / "people.csv"
    file.write_text(
        yaml.safe_dump(
            SURVEY
            | {
                "questions": [{"name": "hours", "kind": "number", "edges": [5, 7]}],
                "floor": 0.05,
                "invitations": False,
                "start_up": [[0, 1], [2, 0]],
            }
        )
    )
    assert run("survey", "new", file, "--data", data, "--json") == 2
    assert "a class has 1 start-up row," in capsys.readouterr().err
    assert run("survey", "new", file, "--data", data, "--public-start-up", "--json") == 0
    made = json.loads(capsys.readouterr().out)
    for number in range(12):
        answers = tmp_path / f"{number}.yaml"
        answers.write_text(f"hours: {9 - 5 * (number % 2)}\nill: {'yes' if number % 2 else 'no'}\n")
        link = f"{address}/survey/#survey={made['id']}"
        assert run("respond", link, "--answers", answers, "--max-level", 9, "--yes", "--quiet") == 0
    assert run("survey", "export", made["id"], "--out", bits, "--to", address, "--token-file", made["token_file"]) == 0
    model = tmp_path / "m.skops"
    assert run("train", *sorted(bits.iterdir()), "--classifier", "bernoulli-naive-bayes", "--out", model) == 0
    people.write_text("hours,other\n8.5,a\n4,b\n")  # the label is what is asked
    assert run("predict", model, people, "--unknown", "refuse", "--out", tmp_path / "raw.csv") != 0
    assert run("predict", model, people, "--survey", file, "--out", tmp_path / "p.csv") == 0
    rows = (tmp_path / "p.csv").read_text().splitlines()[1:]
    assert [row.split(",")[0].strip('"') for row in rows] == ["no", "yes"]
    people.write_text("hours,ill\n8.5,no\n4,no\n")
    assert run("evaluate", model, people, "--survey", file) == 0
    assert "Error 0.500" in capsys.readouterr().out
