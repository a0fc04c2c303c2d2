"""The first screen shows commands by who needs them; old commands and options work, and name the new ones."""

from __future__ import annotations

import json
import re

import pytest
from typer.main import get_command

from sfumato.api.cli.app import BESIDE, GROUPS, app
from sfumato.api.cli.blocks import OLD_COMMANDS


def test_the_first_screen_is_short_and_in_groups(command):
    code, out, _ = command("--help")
    assert code == 0
    listed: dict[str, list[str]] = {}
    heading = ""
    for line in out.splitlines():
        if found := re.fullmatch(r"([A-Z][a-z ]+):", line):
            heading = found[1]
        elif found := re.match(r" {2}([a-z]+) {2,}\S", line):
            listed.setdefault(heading, []).append(found[1])
    assert {name: sorted(commands) for name, commands in GROUPS.items()} == {
        name: sorted(commands) for name, commands in listed.items()
    }
    assert sum(len(commands) for name, commands in listed.items() if name != "Laboratory") <= 20
    assert set(get_command(app).commands) == {name for commands in GROUPS.values() for name in commands} | set(BESIDE)


def test_what_is_not_listed_is_named_where_it_belongs(command):
    assert re.search(r"Commands:\n  declare ", command("schema", "--help")[1])
    assert "sfumato compare" in command("recommend", "--help")[1]


@pytest.mark.parametrize(("old", "new"), OLD_COMMANDS.items())
def test_an_old_command_is_the_new_one_and_says_so(command, old, new):
    told = f"sfumato: `sfumato {old}` is now `sfumato {new}`. The old spelling works for one more version.\n"
    code, out, err = command(old, "--help")
    assert (code, err) == (0, told)
    assert (code, out, "") == command(*new.split(), "--help")
    code, _, err = command(old)
    after = command(*new.split())
    assert (code, err) == (after[0], told + after[2])
    assert command(old, "--quiet") == command(*new.split(), "--quiet")


def test_an_option_of_one_method_says_that_it_is_a_parameter(command, tmp_path):
    (tmp_path / "t.csv").write_text("a,b,y\n" + "".join(f"{i % 7},{i % 5},{i % 2}\n" for i in range(40)))
    words = ["sanitize", tmp_path / "t.csv", "--label", "y", "--mechanism", "random-rotation", "--search", "2"]
    told = "sfumato: `--search` is now `--param search=...`. The old spelling works for one more version.\n"
    assert told in command(*words, "--out", tmp_path / "loud")[2]
    assert told not in command(*words, "--out", tmp_path / "quiet", "--quiet")[2]


def test_auditors_are_given_a_key_and_told_what_to_hand_on(command, tmp_path):
    code, out, err = command("auditor", "key", tmp_path / "a.key")
    public = (tmp_path / "a.key.pub").read_text().strip()
    assert (code, err) == (0, "")
    assert f"({public})" in out
    code, out, err = command("auditor", "key", tmp_path / "a.key")
    assert (code, "exists already" in err, "--force" in err) == (5, True, False)

    asked = {"format": "sfumato-noise-commitment", "commitment": "ab" * 32, "auditor": public}
    (tmp_path / "c.json").write_text(json.dumps(asked))
    code, out, err = command("auditor", "answer", tmp_path / "c.json", "--key", tmp_path / "a.key", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["answered"] == 1
