"""An owner logs a release, a witness signs what it saw, and anybody adds up what was logged: over a real socket."""

from __future__ import annotations

import json

import consortium
import pytest
from live import live

from sfumato import Schema, commit, sanitize, verify
from sfumato.api.cli.app import app as commands
from sfumato.api.cli.console import run_guarded
from sfumato.core.errors import CardError, CoordinatorError, UsageError
from sfumato.ledger.notes import COSIGNATURE, NoteSigner, time_signed
from sfumato.ledger.public_log import LogCopy
from sfumato.release.auditable import new_auditor, spoken
from sfumato.study.client.coordinator import follow, open_log, witness

NAME = "patients of North"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A coordinator that knows one witness, an owner's release, and a token."""
    folder = tmp_path_factory.mktemp("published")
    signer = NoteSigner.new("w", COSIGNATURE)
    (folder / "w.key").write_text(signer.text + "\n")
    (folder / "w.key").chmod(0o600)
    settings = consortium.settings(folder / "data", stranger_rate=consortium.PLENTY, witnesses=signer.key.text)
    consortium.release(folder, ledger=folder / "ledger")
    with live(settings) as (url, app):
        study, _ = app.state.store.studies.create(consortium.study())
        token = app.state.store.sites.invite(study, "North").token
        (folder / "token").write_text(token)
        (folder / "token").chmod(0o600)
        yield folder, url, signer.key


def run(*words, capsys):
    code = run_guarded(commands, [str(word) for word in words])
    said = capsys.readouterr()
    return code, said.out + said.err


def publish(place, capsys, name=NAME):
    folder, url, _ = place
    about = ("--population", name, "--to", url, "--token-file", folder / "token", "--ledger", folder / "ledger")
    return run("ledger", "publish", folder / "release", *about, capsys=capsys)


def test_published_followed_witnessed_and_verified(place, capsys, tmp_path, monkeypatch):
    folder, url, key = place
    monkeypatch.setenv("SFUMATO_LEDGER", str(tmp_path / "none" / "ledger"))
    code, said = publish(place, capsys)
    assert code == 0, said
    assert "'patients of North', epsilon 8" in said
    assert json.loads((folder / "release" / "logged.json").read_text())["server"] == url
    for where in (url, f"{url}/log"):
        found = verify(folder / "release", log=where)
        assert found.ok
        assert "1 release of 'patients of North', in all epsilon 8 for a person's values" in found.in_words()
    code, said = run(
        "study", "log", "--to", url, "--out", tmp_path / "copy", "--cosign", folder / "w.key", capsys=capsys
    )
    assert code == 0, said
    assert key.text in said
    copy = open_log(url)
    assert time_signed(copy.note, key) > 1_700_000_000
    assert copy.witnessed([key]).keys() == {"w"}
    assert verify(folder / "release", log=tmp_path / "copy", log_key=copy.key.text).ok
    code, said = run("verify", folder / "release", "--log", tmp_path / "copy", capsys=capsys)
    assert (code, "At least, of what was logged" in said) == (0, True)
    assert not (tmp_path / "none").exists()


def test_a_log_that_is_not_the_one_expected(place, tmp_path):
    folder, url, _ = place
    copy = follow(url, tmp_path / "copy")
    other = NoteSigner.new(copy.key.name).key.text
    for where in (url, tmp_path / "copy"):
        with pytest.raises(CardError, match="another key"):
            open_log(where, other)
    with pytest.raises(CardError, match="another key"):
        follow(url, tmp_path / "copy", key=other)
    with pytest.raises(UsageError, match="cannot be read"):
        open_log(url, "nonsense")
    with pytest.raises(UsageError, match="There is no folder"):
        verify(folder / "release", log=tmp_path / "nothing")
    longer = LogCopy(copy.key, copy.note, (*copy.entries, b"{}"))
    with pytest.raises(CardError, match="became shorter"):
        LogCopy.read(lambda path: (tmp_path / "copy" / path).read_bytes(), copy.key, longer)


def test_only_known_witnesses_are_shown(place, tmp_path):
    _, url, _ = place
    copy = follow(url, tmp_path / "copy")
    with pytest.raises(CoordinatorError, match="No witness that this server knows"):
        witness(url, copy, tmp_path / "stranger.key")
    assert b"stranger" not in open_log(url).note.encode()
    (tmp_path / "log.key").write_text(NoteSigner.new("x").text)
    with pytest.raises(UsageError, match="the key of a log"):
        witness(url, copy, tmp_path / "log.key")


def test_no_token_no_entry(place, capsys, tmp_path):
    folder, url, _ = place
    (tmp_path / "token").write_text("sfu_site_" + "x" * 43)
    (tmp_path / "token").chmod(0o600)
    about = ("--population", NAME, "--to", url, "--token-file", tmp_path / "token", "--ledger", folder / "ledger")
    before = len(open_log(url).entries)
    code, said = run("ledger", "publish", folder / "release", *about, capsys=capsys)
    assert (code, "token" in said) == (8, True)
    assert len(open_log(url).entries) == before


def test_noise_that_a_log_answered_can_be_recomputed(place, capsys, tmp_path, monkeypatch):
    """The owner cannot know the log's answer before the commitment stands there; others stand there too."""
    _, url, _ = place
    monkeypatch.setenv("SFUMATO_LEDGER", str(tmp_path / "ledger"))
    new_auditor(tmp_path / "a.key")
    table, schema = consortium.people(), Schema.from_dict({"columns": consortium.COLUMNS})
    asked = {"schema": schema, "epsilon": 2.0, "trust": "nobody", "out": tmp_path / "r"}
    asked["auditable"] = tmp_path / "a.key.pub"
    told = commit(table, **asked)
    to = ("--to", url, "--token-file", place[0] / "token")
    answers = [run("ledger", "publish", told.published, *to, "--json", capsys=capsys) for _ in range(2)]
    assert [code for code, _ in answers] == [0, 0]
    first, again = (json.loads(said)["answer"] for _, said in answers)
    assert first == again  # one that was lost on the way is asked for again
    sanitize(table, **asked, answer=first)
    audit = {"with_seed": told.sealed, "auditor_key": tmp_path / "a.key", "table": table}
    found = verify(tmp_path / "r", log=url, **audit)
    assert found.ok, found.in_words()
    assert "The answer is that of the log" in found.in_words()
    assert "owner may have tried out seeds" in verify(tmp_path / "r", **audit).in_words()
    other = commit(table, **{**asked, "out": tmp_path / "dropped"})
    assert run("ledger", "publish", other.published, *to, capsys=capsys)[0] == 0
    assert "The log has 1 other commitment to this auditor" in verify(tmp_path / "r", log=url, **audit).in_words()
    own = spoken(other.commitment.commitment, "ab" * 32)  # logged, and released with an answer of the owner's own
    sanitize(table, **{**asked, "out": tmp_path / "dropped"}, answer=own)
    found = verify(tmp_path / "dropped", log=url, **{**audit, "with_seed": other.sealed})
    assert "owner may have tried out seeds" in found.in_words()


@pytest.mark.parametrize(
    "sent", [{}, {"commitment": "ab" * 32}, {"commitment": "AB" * 32, "auditor": "age1" + "q" * 58}]
)
def test_what_is_no_commitment_to_noise_is_not_logged(client, study, sent):
    before = study.store.log.size()
    for token, status in ((study.owner, 422), ("sfu_site_" + "x" * 43, 401)):
        answer = client.post("/api/v1/log/noise", json=sent, headers={"Authorization": f"Bearer {token}"})
        assert answer.status_code == status, answer.text
    assert study.store.log.size() == before


def test_a_commitment_that_was_not_signed_is_not_logged(client, study):
    before = study.store.log.size()
    for body in ({"text": "{}", "signature": "x"}, {"text": "{}"}, {"text": "x" * 5000, "signature": "x"}):
        answer = client.post("/api/v1/log", json=body, headers={"Authorization": f"Bearer {study.owner}"})
        assert answer.status_code == 422, answer.text
    assert study.store.log.size() == before
