"""What travels beside the code: notices, container and workflow files, and words where a system lacks something."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_notices_name_every_package_that_an_install_brings():
    page = (ROOT / "THIRD_PARTY_NOTICES.md").read_text()
    named = {canonicalize_name(line.split("|")[1].strip()) for line in page.splitlines() if line.startswith("| ")}
    extras = [extra for extra in PROJECT["optional-dependencies"] if extra != "dev"]
    wanted = [*PROJECT["dependencies"], *(r for extra in extras for r in PROJECT["optional-dependencies"][extra])]
    missing = {canonicalize_name(Requirement(text).name) for text in wanted} - named
    assert not missing, "run python scripts/write_notices.py"


@pytest.mark.parametrize("module", ["fcntl", "resource"])
def test_the_server_says_what_it_needs_where_a_system_lacks_it(module):
    script = f"import sys; sys.modules[{module!r}] = None\nimport sfumato.study.server.app"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert "SfumatoError: The server needs a POSIX system" in done.stderr.splitlines()[-1]


def test_files_work_without_locks_of_the_system(tmp_path):
    script = (
        "import sys; sys.modules['fcntl'] = None; from sfumato.core.files import write_whole as w; w(sys.argv[1], 'y')"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path / "x")], check=True)
    assert (tmp_path / "x").read_text() == "y"


@pytest.mark.parametrize("name", ["Dockerfile", "compose.yaml", ".github/workflows/test.yml"])
def test_what_was_not_run_says_so(name):
    assert "Untested" in (ROOT / name).read_text()


def test_the_workflow_runs_the_command_of_the_readme_on_the_stated_pythons():
    job = yaml.safe_load((ROOT / ".github/workflows/test.yml").read_text())["jobs"]["test"]
    assert job["steps"][-1] == {"run": "make test"}
    stated = [line.rpartition(" ")[2] for line in PROJECT["classifiers"] if "Python :: 3." in line]
    assert job["strategy"]["matrix"]["python"] == stated


def test_the_compose_file_holds_no_password_and_listens_on_the_loopback_only():
    services = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
    assert services["server"]["ports"] == ["127.0.0.1:8000:8000"]
    assert services["database"]["environment"]["POSTGRES_PASSWORD"].startswith("${")
