"""What the repository promises to a newcomer: documented commands, a plain lock, nothing of one machine in it."""

from __future__ import annotations

import os
import pkgutil
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
import typer
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"

# Written in pieces, so that this file does not find itself.
REGISTRY = re.compile(
    r"python" r"hosted|https?://[^\s\"]*(?:pypi|registry\.npm|deb\.debian|/simple\b)|registry\.npm" r"js"
)
MACHINE = re.compile(
    r"(?<![\w.*/~-])/(?:work|root|farm|home/[a-z][\w-]*|Users/[A-Za-z][\w-]*)(?=[/\s\"'`]|$)", re.MULTILINE
)


def tracked() -> list[Path]:
    """Every tracked file, or a skip where this is no checkout (an unpacked source package)."""
    if not (ROOT / ".git").exists() or not shutil.which("git"):
        pytest.skip("not a git checkout")
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [ROOT / name for name in listing.split("\0") if name and (ROOT / name).is_file()]


def findings(pattern: re.Pattern[str], paths: list[Path]) -> list[str]:
    found = []
    for path in paths:
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # a picture
        found += [f"{path.name}: {match.group()}" for match in pattern.finditer(text)]
    return found


def read(name: str) -> str:
    path = ROOT / name
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def test_no_two_modules_of_the_tests_have_one_name():
    """Rooms are no packages, so that two files of one name cannot be collected in one run."""
    names = [path.name for path in (ROOT / "tests").rglob("*.py") if path.name != "conftest.py"]
    assert sorted({name for name in names if names.count(name) > 1}) == []


# -- nothing of one machine or one registry ---------------------------------------------------------------------------


@pytest.mark.parametrize("pattern", [REGISTRY, MACHINE], ids=["registry address", "machine path"])
def test_tracked_files_name_no(pattern):
    assert findings(pattern, tracked()) == []


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (REGISTRY, "see https://files.python" + "hosted.org/x"),
        (REGISTRY, "--index-url https://mirror.example/py" + "pi/"),
        (MACHINE, "open('/" + "work/main/x')"),
        (MACHINE, "in /" + "home/ada/tables"),
        (MACHINE, "cd /" + "root\n"),
    ],
)
def test_a_planted_address_is_found(pattern, text, tmp_path):
    (tmp_path / "planted.txt").write_text(text)
    assert findings(pattern, [tmp_path / "planted.txt"])


def test_releases_are_never_called_anonymous():
    """No perturbation earns that word; what is true stands on the card."""
    word = re.compile(r"\banonymous(?:ly)?\b|\banonymi[sz]ed\b", re.IGNORECASE)
    spoken = [p for p in tracked() if p.suffix in {".py", ".md", ".html", ".j2"} and "tests" not in p.parts]
    assert findings(word, spoken) == []


# -- the lock ---------------------------------------------------------------------------------------------------------


def locked(lock: str = "requirements-dev.txt") -> dict[str, set[str]]:
    """Package -> the versions that the lock pins, one for each range of Pythons."""
    pins: dict[str, set[str]] = {}
    for name, version in re.findall(r"^([A-Za-z0-9_.\-]+)==([^\s;]+)", read(lock), re.MULTILINE):
        pins.setdefault(canonicalize_name(name), set()).add(version)
    return pins


APART = {"spark": "requirements-spark.txt", "docs": "requirements-docs.txt"}
"""Extras that are too heavy for everybody's lock, and the lock that each has."""


def test_the_lock_satisfies_every_declared_dependency():
    project = tomllib.loads(read("pyproject.toml"))
    wanted = [*project["project"]["dependencies"], *project["build-system"]["requires"]]
    asked = {lock: list(wanted) for lock in ("requirements-dev.txt", *APART.values())}
    for name, extra in project["project"]["optional-dependencies"].items():
        asked[APART.get(name, "requirements-dev.txt")] += extra
    behind = []
    for lock, requirements in asked.items():
        pins = locked(lock)
        for requirement in map(Requirement, requirements):
            found = pins.get(canonicalize_name(requirement.name))
            if not found or not all(requirement.specifier.contains(pin) for pin in found):
                behind.append(f"{requirement} in {lock}")
    assert behind == [], "run make lock"


PEERS = ("requirements-peers.txt", "requirements-peers-central.txt")


@pytest.mark.parametrize("lock", ["requirements-dev.txt", *PEERS, *APART.values()])
def test_every_pin_has_its_hashes(lock):
    blocks = re.split(r"\n(?=[a-z0-9])", read(lock))
    assert len(blocks) > 5
    assert [block.split()[0] for block in blocks if "--hash=sha256:" not in block] == []


# -- the two commands -------------------------------------------------------------------------------------------------


def test_readme_names_the_two_commands_and_ci_runs_one_of_them():
    for command in ("make demo", "make test"):
        assert command in read("README.md")
        assert re.search(rf"^{command.split()[1]}:", read("Makefile"), re.MULTILINE)
    assert "make test" in read(".ci/run")
    assert os.access(ROOT / ".ci" / "run", os.X_OK)


@pytest.fixture
def debian(tmp_path):
    """A pretended Debian on which nothing is installed: returns a function that runs scripts/system-packages."""
    log = tmp_path / "log"

    def run(*packages: str, user: int, sudo: bool = False) -> tuple[subprocess.CompletedProcess[str], str]:
        log.write_text("")
        commands = {
            "dpkg-query": "exit 1",
            "apt-get": f'echo "$@" >> "{log}"',
            "id": f"echo {user}",
            "sudo": 'shift; exec "$@"' if sudo else "exit 1",
        }
        for name, body in commands.items():
            (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n")
            (tmp_path / name).chmod(0o755)
        path = f"{tmp_path}:{os.environ['PATH']}"
        command = [str(ROOT / "scripts" / "system-packages"), *packages]
        return subprocess.run(
            command, env={**os.environ, "PATH": path}, capture_output=True, text=True
        ), log.read_text()

    return run


@pytest.mark.parametrize("who", [{"user": 0}, {"user": 1000, "sudo": True}], ids=["root", "sudo"])
def test_missing_system_packages_are_installed(debian, who):
    result, log = debian("python3.11-venv", "chromium", **who)
    assert result.returncode == 0
    assert re.search(r"install .*python3\.11-venv chromium", log)


def test_without_the_right_to_install_one_line_says_what_to_install(debian):
    result, log = debian("chromium", user=1000)
    assert result.returncode == 1
    assert log == ""
    assert result.stderr.splitlines() == ["Please install these system packages and try again: chromium"]


def test_nothing_to_install_is_no_work(debian):
    result, log = debian(user=1000)
    assert (result.returncode, result.stderr, log) == (0, "", "")


# -- documentation ----------------------------------------------------------------------------------------------------


OF_0_2 = {"rows", "search", "search_goal", "search_scoring"}
"""Options that are parameters of a method now; for one version they work unlisted."""


def commands() -> dict[str, list[str]]:
    """Every command of the command line -> its long options, by asking the program itself."""
    from sfumato.api.cli import app

    found: dict[str, list[str]] = {}

    def walk(command, words):
        if below := getattr(command, "commands", None):
            for name, child in below.items():
                walk(child, [*words, name])
        elif not command.hidden:
            shown = [option for option in command.params if option.name not in OF_0_2]
            options = [flag for option in shown for flag in option.opts if flag.startswith("--")]
            found[" ".join(words)] = [flag for flag in options if flag not in {"--help"}]

    walk(typer.main.get_command(app), ["sfumato"])
    return found


def test_every_command_and_option_is_documented():
    reference = read("docs/reference/cli.md")
    sections = {part.split("\n", 1)[0].strip("` "): part for part in re.split(r"^## ", reference, flags=re.MULTILINE)}
    found = commands()
    assert found
    assert sorted(found.keys() - sections.keys()) == [], "each needs a heading in docs/reference/cli.md"
    missing = [
        f"{name} {flag}"
        for name, flags in found.items()
        for flag in flags
        if not re.search(rf"(?<![\w-]){flag}(?![\w-])", sections[name])
    ]
    assert missing == []


BUILT = re.compile(r"[\"'` (]sfumato (?!cannot)[a-z][a-z -]*[^\"'`\n.|]*\{(?!to_type)")
"""A command with something filled in by hand: a path or a column in it may hold spaces or quotes."""


def test_printed_commands_are_written_by_one_function():
    assert BUILT.search('f"Type sfumato show {folder}"')
    sources = [path for path in tracked() if path.is_relative_to(ROOT / "src") and path.suffix == ".py"]
    assert findings(BUILT, sources) == [], "core.wording.to_type quotes what a shell would take apart"


def test_every_mechanism_is_documented_with_its_limits():
    """Its card says what it does not protect; docs/limits.md says more of those where there is more to say."""
    from sfumato.mechanisms import MECHANISMS

    assert MECHANISMS
    assert [name for name in MECHANISMS if f"`{name}`" not in read("docs/mechanisms.md")] == []
    silent = {name for name, made in MECHANISMS.items() if not made.not_protected}
    assert [name for name in silent if f"`{name}`" not in read("docs/limits.md")] == []


def test_every_attack_is_documented():
    from sfumato.attacks import ATTACKS

    assert ATTACKS
    assert [name for name in ATTACKS if f"`{name}`" not in read("docs/attacks.md")] == []


def test_every_exit_code_is_documented():
    from sfumato.core.errors import SfumatoError

    codes = {error.exit_code for error in [SfumatoError, *SfumatoError.__subclasses__()]}
    rows = {int(code) for code in re.findall(r"^\| (\d+) \|", read("docs/reference/cli.md"), re.MULTILINE)}
    assert codes <= rows


def test_links_between_pages_lead_somewhere():
    broken = []
    for page in [ROOT / "README.md", *DOCS.rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8")):
            if "://" not in target and not (page.parent / target).exists():
                broken.append(f"{page.relative_to(ROOT)}: {target}")
    assert broken == []


FILE = re.compile(r"`([\w.-]+(?:/[\w.-]+)*/[\w.-]+\.(?:py|js|mjs|css|json|toml))`")
NAME = re.compile(r"`((?!sfumato\.db\b)sfumato(?:\.\w+)+)\b")
IMPORT = re.compile(r"^from (sfumato[\w.]*) import ([\w, ]+)$", re.MULTILINE)
WRITTEN = re.compile(r"^(?:release|january|public)/")
"""Folders in our examples that users' own commands write."""


def gone(text: str) -> list[str]:
    """Source files, modules and names that a page mentions and that do not exist (any more)."""
    places = (ROOT, ROOT / "src", ROOT / "src" / "sfumato")
    files = [name for name in FILE.findall(text) if not any((place / name).is_file() for place in places)]
    names = {*NAME.findall(text)}
    for module, imported in IMPORT.findall(text):
        names |= {f"{module}.{name.strip()}" for name in imported.split(",")}
    return [
        *(name for name in files if not WRITTEN.match(name)),
        *(name for name in sorted(names) if not exists(name)),
    ]


def exists(dotted: str) -> bool:
    """Whether a dotted name leads to a module or to something in one."""
    try:
        pkgutil.resolve_name(dotted)
    except (ImportError, AttributeError):
        return False
    return True


def test_pages_name_only_what_exists():
    pages = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")] + list(DOCS.rglob("*.md"))
    found = {str(page.relative_to(ROOT)): gone(page.read_text(encoding="utf-8")) for page in pages}
    assert {page: names for page, names in found.items() if names} == {}, "these have moved or gone"


def test_programs_beside_the_package_import_only_what_exists():
    """Read, not run: papers and benchmarks take hours, and nobody sees that an import of theirs has moved."""
    missing = []
    for folder in ("papers", "benchmarks", "scripts"):
        for path in (ROOT / folder).rglob("*.py"):
            for module, imported in IMPORT.findall(path.read_text(encoding="utf-8")):
                place = ROOT / "src" / module.replace(".", "/")
                file = place.with_suffix(".py") if place.with_suffix(".py").is_file() else place / "__init__.py"
                source = file.read_text(encoding="utf-8") if file.is_file() else ""
                for name in (one.split(" as ")[0].strip() for one in imported.split(",")):
                    stated = re.search(rf"\b{name}\b", source) or (place / f"{name}.py").is_file()
                    if not stated and not exists(f"{module}.{name}"):
                        missing.append(f"{path.relative_to(ROOT)}: {module}.{name}")
    assert missing == []


def test_a_module_that_has_moved_is_found():
    assert gone("see `guarantee/no_longer.py` and `src/sfumato/core/errors.py`") == ["guarantee/no_longer.py"]
    assert gone("`sfumato.attacks.metrics.no_longer(x)`, `sfumato.attacks.metrics.phi`") == [
        "sfumato.attacks.metrics.no_longer"
    ]
    assert gone("from sfumato.attacks.metrics import phi, no_longer\n") == ["sfumato.attacks.metrics.no_longer"]
