"""study and serve as a coordinator types them."""

import errno
import json
import os
import re
import signal
import stat
import subprocess
import sys
import time

import pytest
from example_study import STUDY

from sfumato.study.client.coordinator import until_done
from sfumato.study.server.settings import Settings
from sfumato.study.server.store import Store


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_study_has_an_owner_and_a_hash(command, tmp_path):
    (tmp_path / "study.yaml").write_text(STUDY)
    code, out, err = command("study", "new", tmp_path / "study.yaml", "--data", tmp_path / "data")
    assert code == 0, err
    token = next((tmp_path / "data").glob("owner-*.token"))
    assert mode(token) == 0o600
    assert token.read_text().strip() not in out
    assert token.name in out
    code, out, _ = command("study", "new", tmp_path / "study.yaml", "--data", tmp_path / "data", "--json")
    assert json.loads(out)["hash"].startswith("sha256:")
    assert len(list((tmp_path / "data").glob("owner-*.token"))) == 2


def test_an_owner_who_lost_her_token_gets_another(command, tmp_path):
    (tmp_path / "study.yaml").write_text(STUDY)
    data = tmp_path / "data"
    made = json.loads(command("study", "new", tmp_path / "study.yaml", "--data", data, "--json")[1])
    token = data / f"owner-{made['id']}.token"
    first = token.read_text()
    code, out, err = command("study", "owner-token", made["id"], "--data", data)
    assert code == 0, err
    assert token.read_text() != first
    assert token.read_text().strip() not in out
    assert mode(token) == 0o600
    assert command("study", "owner-token", "../x", "--data", data)[0] == 2
    assert command("study", "owner-token", made["id"], "--data", tmp_path / "elsewhere")[0] == 2
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize(
    ("text", "code"),
    [(None, 2), ("kind: poll", 4), ("a: [", 4), (STUDY.replace("additive-noise", "magic"), 2)],
    ids=str,
)
def test_a_study_file_that_is_none(command, tmp_path, text, code):
    if text is not None:
        (tmp_path / "study.yaml").write_text(text)
    found, out, err = command("study", "new", tmp_path / "study.yaml", "--data", tmp_path / "data")
    assert (found, out) == (code, ""), err
    assert not (tmp_path / "data").exists()


def test_sites_are_invited_and_revoked(command, served, tmp_path):
    invited = ("study", "invite", served.id, "--site", "Saint Mary", *served.as_owner)
    code, out, err = command(*invited, "--out", tmp_path / "mary.token")
    assert code == 0, err
    token = (tmp_path / "mary.token").read_text().strip()
    assert mode(tmp_path / "mary.token") == 0o600
    assert token not in out
    assert command(*invited, "--out", tmp_path / "mary.token")[0] == 5
    assert command(*invited, "--out", tmp_path / "mary.token", "--force")[0] == 0
    assert (tmp_path / "mary.token").read_text().strip() != token
    assert mode(tmp_path / "mary.token") == 0o600
    code, out, _ = command(*invited, "--json")
    assert json.loads(out)["token"].startswith("sfu_site_")  # inviting again replaces the token
    code, out, _ = command("study", "status", served.id, *served.as_owner)
    assert "Saint Mary" in out
    assert served.hash in out
    assert command("study", "revoke", served.id, "--site", "Saint Mary", *served.as_owner)[0] == 0
    code, out, _ = command("study", "status", served.id, *served.as_owner)
    assert "revoked" in out
    code, _, err = command("study", "revoke", served.id, "--site", "nobody", *served.as_owner)
    assert code == 8
    assert command("study", "invite", served.id, "--site", "../x", *served.as_owner)[0] == 8
    assert command("study", "invite", served.id, "--site", "x", "--days", "0", *served.as_owner)[0] == 8


def test_from_push_to_a_model_judged_at_home(command, served, site, release, people, tmp_path):
    _, there, _ = site
    assert command("study", "push", release(), *there, "--yes", "--quiet")[0] == 0
    code, _, err = command("study", "test", served.id, people, *served.as_owner)
    assert code == 2
    assert "public" in err
    code, out, err = command("study", "test", served.id, people, *served.as_owner, "--yes")
    assert code == 0, err
    assert "80 rows" in out
    code, out, err = command("study", "train", served.id, "--wait", *served.as_owner)
    assert code == 0, err
    assert "naive-bayes" in out
    assert "cross-validation error" in out
    code, out, _ = command("study", "models", served.id, *served.as_owner, "--json")
    model = json.loads(out)["models"][0]
    assert model["state"] == "done"
    download = ("study", "download", served.id, model["id"], "--out", tmp_path / "m.skops")
    assert command(*download, *there[:2], *there[4:])[0] == 0  # a site may have it: it contains no rows
    assert command(*download, *served.as_owner)[0] == 5
    code, out, err = command("evaluate", tmp_path / "m.skops", people)
    assert code == 0, err
    assert "95% interval" in out


def test_a_site_is_not_an_owner(command, served, site):
    there = (*site[1][:2], *site[1][4:])
    for words in (["invite", served.id, "--site", "x"], ["train", served.id], ["revoke", served.id, "--site", "x"]):
        code, _, err = command("study", *words, *there)
        assert code == 8
        assert "owner" in err


def test_an_unknown_classifier_is_told(command, served):
    code, _, err = command("study", "train", served.id, "--classifier", "oracle", *served.as_owner)
    assert code == 8
    assert "naive-bayes" in err


def test_without_the_servers_parts_one_line_says_what_to_install(command, tmp_path, monkeypatch):
    (tmp_path / "study.yaml").write_text(STUDY)
    monkeypatch.setitem(sys.modules, "sfumato.study.server.settings", None)
    code, _, err = command("study", "new", tmp_path / "study.yaml", "--data", tmp_path / "data")
    assert code == 2
    assert "pip install 'sfumato[server]'" in err


def test_waiting_ends_when_all_are_done_or_failed():
    class Model:
        def __init__(self, state):
            self.state, self.progress = state, 1.0 if state in ("done", "failed") else 0.5

    answers = iter([Model("queued"), Model("running"), Model("done"), Model("failed")])
    seen = []
    models = until_done(lambda: [next(answers), next(answers)], "Training", lambda *step: seen.append(step), pause=0.0)
    assert [model.state for model in models] == ["done", "failed"]
    assert seen == [("Training", 100, 200), ("Training", 200, 200)]


def test_serve_tells_its_address_and_stops_politely(tmp_path):
    data = tmp_path / "data"
    run = [
        sys.executable,
        "-c",
        "from sfumato.api.cli import main; main()",
        "serve",
        "--data",
        str(data),
        "--port",
        "0",
    ]
    process = subprocess.Popen(run, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=dict(os.environ))
    try:
        until = time.monotonic() + 200
        while not (data / "address").exists():
            assert process.poll() is None
            assert time.monotonic() < until
            time.sleep(0.05)
        import httpx

        address = (data / "address").read_text().strip()
        assert httpx.get(f"{address}/healthz", trust_env=False, timeout=100).json()["status"] == "ok"
        assert mode(data) == 0o700
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=200)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0
    assert f"at {address}." in out
    assert out.endswith("Stopped.\n")
    assert not (data / "address").exists()


@pytest.mark.parametrize(("words", "code"), [(["--port", "70000"], 2), (["--data", "FILE"], 5)], ids=str)
def test_serve_refuses_what_cannot_be(command, tmp_path, words, code):
    (tmp_path / "file").write_text("")
    words = [str(tmp_path / "file") if word == "FILE" else word for word in words]
    data = [] if "--data" in words else ["--data", str(tmp_path / "d")]
    assert command("serve", *data, *words)[0] == code


def test_a_token_that_cannot_be_written_does_not_lose_the_study(command, tmp_path, monkeypatch):
    (tmp_path / "study.yaml").write_text(STUDY)
    data = tmp_path / "data"

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("sfumato.core.files.os.fsync", full)
        code, _, err = command("study", "new", tmp_path / "study.yaml", "--data", data)
    assert code == 5
    identity = re.search(r"The study (\w+) was created", err)[1]
    assert list(data.glob("*.token")) == []
    assert command("study", "owner-token", identity, "--data", data)[0] == 0
    assert [path.name for path in data.glob("*.token")] == [f"owner-{identity}.token"]


def test_keys_of_a_site(command, tmp_path):
    (tmp_path / "study.yaml").write_text(STUDY)
    data = tmp_path / "data"
    made = json.loads(command("study", "new", tmp_path / "study.yaml", "--data", data, "--json")[1])["id"]
    key = "Abbot acorn " * 8
    assert "No key is enrolled" in command("study", "keys", made, "--data", data)[1]
    assert command("study", "keys", made, "--data", data, "--enroll", key)[0] == 2
    assert "no site with this name" in command("study", "keys", made, "--data", data, "--site", "N", "--enroll", key)[2]
    store = Store.open(Settings(data))
    store.sites.invite(made, "N")
    store.close()
    assert command("study", "keys", made, "--data", data, "--site", "N", "--enroll", "abbot")[0] == 2
    code, out, err = command("study", "keys", made, "--data", data, "--site", "N", "--enroll", key, "--json")
    assert code == 0, err
    assert json.loads(out)["keys"][0]["fingerprint"] == "-".join(["abbot", "acorn"] * 8)
    assert "N: abbot-acorn" in command("study", "keys", made, "--data", data)[1]
    assert "No key" in command("study", "keys", made, "--data", data, "--site", "N", "--remove", key)[1]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--certificate", "none.pem"), "needs both files"),
        (("--certificate", "none.pem", "--certificate-key", "none.key"), "no file none.pem"),
        (("--self-made-certificate", "--certificate", "none.pem"), "Choose one"),
    ],
)
def test_serve_says_what_is_wrong_with_a_certificate(command, tmp_path, words, why):
    code, _, err = command("serve", "--data", tmp_path / "data", "--port", "0", *words)
    assert (code, why in err) == (2, True), err
