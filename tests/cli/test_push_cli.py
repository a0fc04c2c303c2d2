"""push and withdraw as a site types them: shown first, asked first, sent once."""

import json
import sys

import pytest


@pytest.fixture
def at_a_terminal(monkeypatch):
    """Somebody sits there, and answers as told; returns the questions."""
    asked = []

    def answering(answer):
        monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
        monkeypatch.setattr("typer.confirm", lambda question: asked.append(question) or answer)
        return asked

    return answering


def test_the_first_push_is_shown_and_asked_about(command, served, site, release, at_a_terminal):
    _, there, token = site
    folder = release()
    asked = at_a_terminal(False)
    code, out, err = command("study", "push", folder, *there)
    assert (code, len(asked)) == (2, 1)
    assert "nothing was sent" in err
    for shown in ("age, height, ill (label)", served.hash, "What is not protected", "80, to train"):
        assert shown in out
    assert command("study", "status", served.id, *there[:2], *there[4:], "--json")[1].count('"sha256"') == 0
    at_a_terminal(True)
    code, out, err = command("study", "push", folder, *there)
    assert code == 0, err
    assert "Pushed 80 rows" in out
    at_a_terminal(False)
    code, out, err = command(
        "study", "push", folder, *there
    )  # agreed to before: nobody is asked, and it is not sent twice
    assert (code, len(asked)) == (0, 2)
    assert token not in out + err


def test_scripts_say_yes(command, site, release):
    name, there, _ = site
    folder = release()
    code, out, err = command("study", "push", folder, *there)
    assert (code, out) == (2, "")
    assert "--yes" in err
    code, out, _ = command("study", "push", folder, *there, "--yes", "--json")
    assert code == 0
    found = json.loads(out)
    assert found["receipt"]["site"] == name
    assert found["receipt"]["assertions"] == "site-asserted"
    assert json.loads((folder / f"receipt-{found['study']}.json").read_text())["receipt"] == found["receipt"]
    assert command("study", "push", folder, *there, "--quiet") == (0, "", "")


def test_a_dry_run_sends_nothing(command, served, site, release):
    _, there, _ = site
    code, out, _ = command("study", "push", release(), *there, "--dry-run")
    assert code == 0
    assert "would accept it. Nothing was sent." in out
    code, out, _ = command("study", "push", release("weak", parameters={"epsilon_record": 9.0}), *there, "--dry-run")
    assert code == 0
    assert "would not accept it:\n  - The study asks for an epsilon of at most 6" in out
    code, out, _ = command("study", "status", served.id, *there[:2], *there[4:])
    assert "Nothing was pushed yet" in out


def test_what_the_study_does_not_take_does_not_leave(command, site, release):
    code, out, err = command("study", "push", release(parameters={"epsilon_record": 9.0}), *site[1], "--yes")
    assert (code, out) == (6, "")
    assert "epsilon of at most 6" in err


def test_the_hash_is_compared(command, served, site, release):
    _, there, _ = site
    folder = release()
    assert command("study", "push", folder, *there, "--yes", "--study-hash", "sha256:" + "0" * 64)[0] == 8
    assert command("study", "push", folder, *there, "--yes", "--study-hash", "0" * 64)[0] == 2
    assert command("study", "push", folder, *there, "--yes", "--study-hash", served.hash)[0] == 0


def test_a_withdrawn_release_is_gone_for_good(command, served, site, release):
    _, there, _ = site
    folder = release()
    command("study", "push", folder, *there, "--yes")
    code, _, err = command("study", "withdraw", folder, *there)
    assert (code, "add --yes" in err) == (2, True)  # nobody is here to ask
    code, out, err = command("study", "withdraw", folder, *there, "--yes")
    assert code == 0, err
    assert "Withdrawn" in out
    code, _, err = command("study", "push", folder, *there)
    assert code == 8
    assert "withdrawn" in err
    code, out, _ = command("study", "status", served.id, *there[:2], *there[4:])
    assert "withdrawn" in out
    assert command("study", "withdraw", "0" * 64, *there, "--yes")[0] == 8


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        ({"--to": "http://study.example"}, 2, "not encrypted"),
        ({"--to": "study.example"}, 2, "https://"),
        ({"--study": "absent"}, 8, "no"),
        ({"--token-file": "absent"}, 2, "no token file"),
        ({"--purpose": "fun"}, 2, "train or test"),
    ],
    ids=str,
)
def test_mistakes_get_one_line(command, site, release, change, code, words):
    options = dict(zip(site[1][::2], site[1][1::2], strict=True))
    given = [word for pair in {**options, **change}.items() for word in pair]
    found, out, err = command("study", "push", release(), *given, "--yes")
    assert (found, out) == (code, "")
    assert words in err
    assert "Traceback" not in err


def test_a_revoked_token_is_told(command, served, site, release):
    name, there, token = site
    served.store.sites.revoke(served.id, name)
    code, _, err = command("study", "push", release(), *there, "--yes")
    assert code == 8
    assert "revoked" in err
    assert token not in err


def test_a_site_sanitizes_by_its_copy_of_the_study_file(command, served, site, people, tmp_path):
    study = served.owner.parent / "study.yaml"
    words = ("sanitize", people, "--study", study, "--out", tmp_path / "r")
    code, out, err = command(*words, "--only-new")
    assert code == 0, err
    assert served.hash in out
    assert "Left out because they were released before: 0 rows." in out
    code, out, _ = command("study", "push", tmp_path / "r", *site[1], "--dry-run", "--json")
    assert json.loads(out)["objections"] == []
    assert json.loads(out)["card"]["guarantee"]["epsilon_record"] == pytest.approx(6)
    code, _, err = command("sanitize", people, "--study", study, "--only-new", "--out", tmp_path / "again")
    assert code == 7
    assert "None of the 80 rows is new" in err
    assert not (tmp_path / "again").exists()


@pytest.mark.parametrize(
    "words", [["--schema", "study.yaml"], ["--mechanism", "random-rotation"], ["--study", "absent.yaml"]], ids=str
)
def test_what_contradicts_the_study_is_refused(command, served, people, tmp_path, words):
    study = served.owner.parent / "study.yaml"
    code, out, err = command("sanitize", people, "--study", study, *words, "--out", tmp_path / "r")
    assert (code, out) == (2, ""), err


def test_what_never_left_can_be_forgotten_and_what_left_cannot(command, served, site, people, tmp_path):
    study = served.owner.parent / "study.yaml"
    words = ("sanitize", people, "--study", study, "--only-new", "--quiet", "--out")
    assert command(*words, tmp_path / "mistake")[0] == 0
    code, _, err = command("ledger", "forget", tmp_path / "mistake")
    assert code == 2
    assert "add --yes" in err
    code, out, _ = command("ledger", "forget", tmp_path / "mistake", "--yes")
    assert code == 0
    assert "80 rows" in out
    assert command(*words, tmp_path / "right")[0] == 0
    assert command("study", "push", tmp_path / "right", *site[1], "--yes", "--quiet")[0] == 0
    assert command("ledger", "forget", tmp_path / "right", "--yes")[0] == 2
