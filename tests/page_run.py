"""Run a page: its shell and Python blocks in order, in one folder, as a reader would who follows it."""

from __future__ import annotations

import shutil
import warnings
from pathlib import Path

from page_blocks import ROOT, SHELL, Block, blocks, lines, words
from page_folder import PREPARED
from sfumato.api.cli.app import app
from sfumato.api.cli.console import run_guarded

SETTING_UP = ("pip install", "make ", "cd ", "git ")
"""Lines that set the machine up; the tests run where that has been done."""


def run_page(page: Path, folder: Path) -> int:
    """Run every block that is not marked; returns how many ran. The working folder must be `folder`."""
    prepare = PREPARED.get(str(page.relative_to(ROOT)))
    names = {"__name__": "page", **(prepare(folder) if prepare else {})}
    ran = 0
    for block in blocks(page):
        if block.reason is None and (block.language in SHELL or block.language == "python"):
            where = f"{page.relative_to(ROOT)}:{block.line}"
            if block.language == "python":
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    exec(compile(block.text, where, "exec"), names)
            else:
                _shell(block, where)
            ran += 1
    return ran


def _shell(block: Block, where: str) -> None:
    for line in lines(block):
        if line.startswith(SETTING_UP):
            continue
        arguments = words(line)
        assert arguments is not None, f"{where}: {line}: mark the block, or show it in Python"
        _make_room(arguments)
        code = run_guarded(app, arguments)
        assert code == 0, f"{where}: {line}: exit code {code}"


def _make_room(arguments: list[str]) -> None:
    """Pages show several ways to one result: what an earlier one wrote goes first, unless it goes on from there."""
    if "--out" not in arguments or {"--force", "--resume"} & set(arguments):
        return
    target = Path(arguments[arguments.index("--out") + 1])
    if target.is_dir():
        shutil.rmtree(target)
    elif target.is_file():
        target.unlink()
