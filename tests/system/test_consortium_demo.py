"""`sfumato demo --consortium` as a user types it: ends in time, says what it found, leaves nothing."""

import json
import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.system

RUN = [sys.executable, "-c", "from sfumato.api.cli import main; main()", "demo", "--consortium"]


@pytest.fixture
def environment(tmp_path):
    return {**os.environ, "TMPDIR": str(tmp_path), "SFUMATO_LEDGER": str(tmp_path / "never" / "ledger.json")}


def test_four_sites_and_a_coordinator(environment, tmp_path):
    done = subprocess.run([*RUN, "--json"], env=environment, capture_output=True, text=True, timeout=1000, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert set(found["alone"]) == {"North", "East", "South", "West"}
    assert sum(found["rows"].values()) == 427
    for error in (found["original"], found["pooled"], found["counts"], *found["alone"].values()):
        low, high = error["interval"]
        assert 0 <= low <= error["error"] <= high
        assert error["error"] < found["commonest"]  # 142 people test noise that is fresh each time
    assert {entry["site"] for entry in found["pooled"]["alone"]} == set(found["alone"])
    assert found["proof"].startswith("Proved: ")
    assert found["risk"]["site"] == "North"
    for name in ("nearest-row", "pair"):  # the worst news is not left out
        assert found["risk"]["attacks"][name]["score"] > 0.9
    assert [path.name for path in tmp_path.iterdir()] == []  # no ledger, no data, no token


def test_quiet_is_silent(environment):
    done = subprocess.run([*RUN, "--quiet"], env=environment, capture_output=True, text=True, timeout=1000, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
