"""Build the site: lay the pages out, let mkdocs check every link, and see that no page asks another address."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from measured import measure
from registered import write_adversaries, write_mechanisms

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build" / "website"
PAGES, SITE = FOLDER / "pages", FOLDER / "site"
SHOWN = {".md", ".svg", ".png"}
ROOTS = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "THIRD_PARTY_NOTICES.md", "LICENSE")

OUTSIDE = re.compile(
    r"""<(?:script|img|iframe|source|video|audio|embed|object|use)\b[^>]*?\b(?:src|data|srcset|href)=["']?(?:https?:)?//[^\s"'>]+
    |<link\b(?![^>]*rel=["']?canonical)[^>]*?\bhref=["']?(?:https?:)?//[^\s"'>]+
    |@import\s+["'](?:https?:)?//[^\s"']+
    |url\(["']?(?:https?:)?//[^\s"')]+""",
    re.VERBOSE | re.IGNORECASE,
)
"""What a browser would fetch by itself from elsewhere; a link that a reader follows is not meant."""


def lay_out() -> None:
    """Every page and picture at its place in the repository: relative links then hold as they stand."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    for name in ROOTS:
        _copy(ROOT / name)
    for name in ("site.css", "site.js"):
        shutil.copy(Path(__file__).with_name(name), PAGES)
    for room in ("docs", "papers", "benchmarks"):
        for path in sorted((ROOT / room).rglob("*")):
            if path.suffix in SHOWN and not any(part.startswith((".", "__")) for part in path.parts):
                _copy(path)


def _copy(path: Path) -> None:
    target = PAGES / path.relative_to(ROOT)
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(path, target)


def papers() -> list[Any]:
    """What each paper was, which commands do it, what differs, and the figures beside the published ones."""
    found = []
    for folder in sorted(path.parent for path in PAGES.glob("papers/*/README.md")):
        pages = [folder / "README.md", *sorted(set(folder.glob("*.md")) - {folder / "README.md"})]
        found.append({folder.name: [str(page.relative_to(PAGES)) for page in pages]})
    return found


def configured() -> Path:
    """mkdocs.yml with the pages that were found in the place of the entries that begin with "each"."""
    settings = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    measured = measure()
    each = {
        "each paper": papers,
        "each mechanism": lambda: write_mechanisms(PAGES, measured),
        "each adversary": lambda: write_adversaries(PAGES, measured),
    }
    for section in settings["nav"]:
        for name, entries in section.items():
            section[name] = [one for entry in entries for one in (each[entry]() if str(entry) in each else [entry])]
    settings |= {"docs_dir": str(PAGES), "site_dir": str(SITE)}
    path = FOLDER / "mkdocs.yml"
    path.write_text(yaml.safe_dump(settings, allow_unicode=True, sort_keys=False), encoding="utf-8")
    return path


def asked_elsewhere(site: Path) -> Iterator[str]:
    """Everything in the built pages that a browser would fetch from another address."""
    for path in sorted(site.rglob("*")):
        if path.suffix in {".html", ".css", ".svg"}:
            for match in OUTSIDE.finditer(path.read_text(encoding="utf-8")):
                yield f"{path.relative_to(site)}: {match.group()[:120]}"


def without_empty_headings(site: Path) -> None:
    """The corner of a table whose rows have names heads nothing, so it is no heading."""
    for path in site.rglob("*.html"):
        page = path.read_text(encoding="utf-8")
        path.write_text(re.sub(r"<th( [^>]*)?></th>", r"<td\1></td>", page), encoding="utf-8")


def main() -> int:
    """0 where the site stands, every link leads somewhere, and nothing is fetched from elsewhere."""
    lay_out()
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", str(configured())]
    # Its notice about its successor is for whoever maintains this (decision 0081), not for every build.
    if subprocess.run(command, check=False, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}).returncode:
        return 1
    without_empty_headings(SITE)
    if found := list(asked_elsewhere(SITE)):
        print("These pages would ask another address:", *found[:10], sep="\n  ")
        return 1
    print(f"{len(list(SITE.rglob('*.html')))} pages, every link checked, nothing is fetched from elsewhere.")
    print(f"Open {SITE / 'index.html'}; for its search: python -m http.server --bind 127.0.0.1 --directory {SITE}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
