"""Write THIRD_PARTY_NOTICES.md: what a plain install and each extra bring along, and under which licence.

Reads the metadata of installed packages, starting from what pyproject.toml declares. Spark and the site have
environments of their own: those of `make test-all` and `make docs`, or the folders that are named as arguments.
"""

from __future__ import annotations

import re
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "THIRD_PARTY_NOTICES.md"
EXTRAS = ("sql", "polars", "server", "statistics", "spark", "docs")
BESIDE = (ROOT / ".venv" / "spark", ROOT / ".venv" / "docs")
HEAD = """\
# Third-party notices

Sfumato contains no code of others. It depends on these packages, each under its own licence, whose text comes with
the package. What only developers need (`sfumato[dev]`) is not listed. Written by `python scripts/write_notices.py`.
"""


def needed(wanted: list[str]) -> dict[str, Requirement]:
    """Everything that these requirements bring along on this machine, by canonical name."""
    found: dict[str, Requirement] = {}
    waiting = [Requirement(text) for text in wanted]
    while waiting:
        one = waiting.pop()
        name = canonicalize_name(one.name)
        if name in found or (one.marker is not None and not _holds(one)):
            continue
        try:
            more = distribution(one.name).requires or []
        except PackageNotFoundError:
            continue  # for another platform
        found[name] = one
        for text in more:
            child = Requirement(text)
            asked = (
                any(child.marker.evaluate({"extra": extra}) for extra in one.extras or {""}) if child.marker else True
            )
            waiting += [Requirement(str(child).split(";")[0])] if asked else []
    return found


def _holds(requirement: Requirement) -> bool:
    assert requirement.marker is not None
    return requirement.marker.evaluate({"extra": ""})


def licence(name: str) -> str:
    """The licence as the package's metadata names it, in a few words."""
    about = distribution(name).metadata
    named = about.get("License-Expression") or ""
    if not named:
        classified = [line.rpartition(" :: ")[2] for line in about.get_all("Classifier", []) if "License ::" in line]
        named = ", ".join(word for word in classified if word != "OSI Approved") or about.get("License") or ""
    return re.sub(r"\s+", " ", named).strip()[:80] or _first_line_of_licence(name)


def _first_line_of_licence(name: str) -> str:
    """Where the metadata is silent: how the licence's own text begins."""
    files = [file for file in distribution(name).files or [] if "licen" in file.name.lower()]
    lines = [line.strip() for file in files for line in file.read_text().splitlines() if line.strip()]
    return lines[0] if lines else "not stated"


def page() -> str:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    plain = needed(project["dependencies"])
    lines = [HEAD, "## Plain install", "", *_table(plain)]
    for extra in EXTRAS:
        declared = project["optional-dependencies"][extra]
        more = needed(declared)
        here = [canonicalize_name(Requirement(text).name) for text in declared if Requirement(text).marker is None]
        if absent := [name for name in here if name not in more]:
            raise SystemExit(f"{absent[0]} of the extra {extra} is not installed: run make test-all and make docs.")
        lines += [
            "",
            f"## `sfumato[{extra}]`, in addition",
            "",
            *_table({n: r for n, r in more.items() if n not in plain}),
        ]
    return "\n".join(lines) + "\n"


def _table(found: dict[str, Requirement]) -> list[str]:
    rows = [f"| {distribution(name).metadata['Name']} | {licence(name)} |" for name in sorted(found)]
    return ["| package | licence |", "|---|---|", *rows]


if __name__ == "__main__":
    for folder in [Path(one) for one in sys.argv[1:]] or BESIDE:
        sys.path += [str(path) for path in folder.glob("lib/python*/site-packages")]
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE.name}")
