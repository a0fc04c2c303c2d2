"""The code on the pages: its blocks, the commands in them, and the one mark that says that a block cannot run."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
GENERATED = ROOT / "docs" / "reference"
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
    *(page for page in sorted((ROOT / "docs").rglob("*.md")) if GENERATED not in page.parents),
    *sorted((ROOT / "papers").glob("**/README.md")),
]
BLOCK = re.compile(r"^(?:<!-- not run: (.+?) -->\n)?^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
"""`<!-- not run: why -->` on the line before a block: it needs a server, another program, or what only prose gives."""
INLINE = re.compile(r"(?<!`)`(sfumato [a-z-]+(?:\s[^`]*)?)`(?!`)")
SHELL, TRANSCRIPTS = {"sh", "bash"}, {"console", "text"}


class Block(NamedTuple):
    """One block of code: its language, its text, the line it begins at, and why it does not run, if so."""

    language: str
    text: str
    line: int
    reason: str | None


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [
        Block(found[2], found[3], text[: found.start(2)].count("\n") + 1, found[1]) for found in BLOCK.finditer(text)
    ]


def lines(block: Block) -> Iterator[str]:
    """The commands of a shell block or a transcript, continued lines joined."""
    text = block.text.replace("\\\n", " ")
    for line in text.splitlines():
        if block.language in SHELL and line.strip() and not line.lstrip().startswith("#"):
            yield line.strip()
        elif block.language in TRANSCRIPTS and line.startswith("$ "):
            yield line[2:].strip()


def words(line: str) -> list[str] | None:
    """The arguments of `sfumato` in a line, without what follows in a pipe; None where it is not called."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;<>")
    lexer.whitespace_split, lexer.commenters = True, "#"
    found = list(lexer)
    if "sfumato" not in found:
        return None
    found = found[found.index("sfumato") + 1 :]
    ends = [place for place, word in enumerate(found) if set(word) <= set("|&;<>")]
    return found[: ends[0]] if ends else found
