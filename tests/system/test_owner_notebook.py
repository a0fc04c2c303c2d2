"""The owner's notebook: advice, a proved release, and every adversary on it."""

import pytest

from test_notebooks import run

pytestmark = pytest.mark.system


def test_the_owner_is_advised_proved_and_attacked(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = run("owner")
    assert found["release"].card.guarantee["kind"] == "local-dp"
    assert found["release"].card.guarantee["epsilon_record"] <= 4
    assert len(found["audit"].scores) > 5
    assert "Recommended" in capsys.readouterr().out
