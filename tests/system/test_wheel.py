"""The package as users get it: built, installed into an empty environment, demo and a push run from it."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.system
ROOT = Path(__file__).resolve().parents[2]
VERSIONS = ("3.11", "3.12", "3.13", "3.14")


def run(*command, cwd, **more):
    """Outside the checkout and without its path, as a user would."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    clean |= {"SFUMATO_LEDGER": str(cwd / "ledger.json"), **more}
    done = subprocess.run([*map(str, command)], cwd=cwd, env=clean, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def interpreters() -> dict[str, str]:
    """Every Python from 3.11 to 3.14 that this machine has: on the path, or beside others of pyenv."""
    found = {}
    for version in VERSIONS:
        beside = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
        path = shutil.which(f"python{version}") or (str(beside[-1]) if beside else None)
        if (
            path
            and subprocess.run([path, "-c", "import venv, ensurepip"], capture_output=True, check=False).returncode == 0
        ):
            found[version] = path
    return found


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dist")
    command = (sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", folder, ROOT)
    subprocess.run([*map(str, command)], check=True)
    (built,) = folder.glob("*.whl")
    return built


@pytest.mark.parametrize("version", VERSIONS)
def test_an_empty_environment(wheel, tmp_path, version):
    found = interpreters()
    if version not in found:
        pytest.skip(f"this machine has no Python {version}")
    run(found[version], "-m", "venv", "env", cwd=tmp_path)
    run("env/bin/pip", "install", "-q", f"{wheel}[server]", cwd=tmp_path)
    where = run("env/bin/python", "-c", "import sfumato; print(sfumato.__file__)", cwd=tmp_path)
    assert str(tmp_path / "env") in where
    assert run("env/bin/sfumato", "--version", cwd=tmp_path).startswith("sfumato ")
    run("env/bin/sfumato", "demo", "--out", "demo", cwd=tmp_path)
    assert list((tmp_path / "demo").rglob("report.html"))
    assert not list((tmp_path / "demo").glob("*ledger*"))
    told = run("env/bin/sfumato", "demo", "--consortium", cwd=tmp_path)  # four sites push to a server of their own
    assert "all four together" in told


def test_pipx(wheel, tmp_path):
    run(sys.executable, "-m", "venv", "tools", cwd=tmp_path)
    run("tools/bin/pip", "install", "-q", "pipx", cwd=tmp_path)
    places = {"PIPX_HOME": str(tmp_path / "pipx"), "PIPX_BIN_DIR": str(tmp_path / "bin")}
    run("tools/bin/pipx", "install", "--python", sys.executable, wheel, cwd=tmp_path, **places)
    (tmp_path / "t.csv").write_text("a,b,y\n1,2,x\n2,1,z\n3,3,x\n4,1,z\n")
    run("bin/sfumato", "sanitize", "t.csv", "--label", "y", "--out", "r", cwd=tmp_path)
    assert json.loads((tmp_path / "r" / "card.json").read_text())["rows"] == 4
