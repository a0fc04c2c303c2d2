"""Pages do not rot: every `sfumato` command on them names commands and options that exist, with all that they need."""

from __future__ import annotations

import re
import shlex

import pytest
import typer

from page_blocks import INLINE, PAGES, ROOT, SHELL, blocks, lines, words
from page_run import run_page
from sfumato.api.cli import app

TREE = typer.main.get_command(app)


def wrong(arguments: list[str], *, whole: bool = True) -> str | None:
    """What the program would object to before it looks at a file; `whole`: arguments may not be left out."""
    command, path = TREE, []
    while hasattr(command, "commands"):
        if hasattr(command, "otherwise"):
            arguments = command.otherwise(arguments)
        if not arguments or arguments[0].startswith("-"):
            return None if not whole or arguments else f"{' '.join(path)} needs a command"
        if arguments[0] not in command.commands:
            return f"no command {' '.join([*path, arguments[0]])!r}"
        words = 2 if " ".join(arguments[:2]) in command.commands else 1  # "schema declare" stands beside "schema"
        name, arguments = " ".join(arguments[:words]), arguments[words:]
        command, path = command.commands[name], [*path, name]
    if not whole:
        known = {flag for option in command.params for flag in (*option.opts, *option.secondary_opts)}
        missing = [word for word in arguments if word.startswith("--") and word.split("=")[0] not in known | {"--help"}]
        return f"{' '.join(path)} has no {missing[0]}" if missing else None
    context = command.context_class(command, info_name=path[-1])
    try:
        values, left, _ = command.make_parser(context).parse_args(list(arguments))
    except Exception as error:  # click's own errors, whichever copy of click the command line brings
        return f"{' '.join(path)}: {error}"
    needed = [one.name for one in command.params if one.required and not values.get(one.name)]
    if needed or left:
        return f"{' '.join(path)}: " + (f"needs {needed}" if needed else f"does not take {left}")
    return None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_in_blocks_can_be_typed_as_they_stand(page):
    found = []
    for block in blocks(page):
        for line in lines(block):
            whole = block.language in SHELL  # a transcript may leave out what its page says that it leaves out
            if (arguments := words(line)) and (fault := wrong(arguments, whole=whole)):
                found.append(f"line {block.line}: {line}: {fault}")
    assert found == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_in_sentences_exist_with_their_options(page):
    found = []
    for text in INLINE.findall(page.read_text(encoding="utf-8")):
        spoken = re.sub(r"[\[\]]|\.\.\.", " ", text.replace("\n", " "))
        if fault := wrong(shlex.split(spoken)[1:], whole=False):
            found.append(f"{text}: {fault}")
    assert found == []


@pytest.mark.parametrize(
    "line",
    [
        "sfumato sanitise t.csv --out x",
        "sfumato sanitize t.csv --label y --out x --epsilon-recrod 4",
        "sfumato sanitize t.csv --label y --out",
        "sfumato study trian ID",
        "sfumato predict model.skops one.csv two.csv --out x",
        "sfumato certificate",
    ],
)
def test_a_command_that_does_not_exist_is_found(line):
    assert wrong(words(line))


def test_comments_pipes_and_quotes_are_read_as_a_shell_reads_them():
    assert words("cat t | sfumato sanitize - --out 'a b' --stdout | other  # why") == [
        "sanitize",
        "-",
        "--out",
        "a b",
        "--stdout",
    ]
    assert words("make test") is None


def test_few_blocks_are_marked_as_not_run():
    marked = [block for page in PAGES for block in blocks(page) if block.reason]
    assert all(len(block.reason) > 10 for block in marked)
    assert len(marked) <= 24, "a block that cannot run should be the exception: one that needs somebody else's answer"


QUICK = ("docs/guided-survey.md", "docs/rules.md", "docs/large-tables.md")
"""Pages that take a second or two each; tests/system/test_pages_run.py runs them all."""


@pytest.mark.parametrize("page", QUICK)
def test_a_quick_page_runs_as_it_stands(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run_page(ROOT / page, tmp_path)


def test_a_page_that_fails_is_found(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "page.md").write_text("```sh\nsfumato show nothing-here\n```\n")
    monkeypatch.setattr("page_run.ROOT", tmp_path)
    with pytest.raises(AssertionError, match="exit code"):
        run_page(tmp_path / "page.md", tmp_path)
