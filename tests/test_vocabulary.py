"""Readers meet one word for one thing: help texts, terminal, owners' pages and documentation do without the words that
`sfumato.core.wording` puts out of use. Options, fields, files and names in code keep theirs."""

from __future__ import annotations

import ast
import contextlib
import html
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import typer

from page_blocks import BLOCK, ROOT
from sfumato.api.cli import app
from sfumato.api.cli.console import run_guarded
from sfumato.core.wording import EXPERTS, OWN, UNNAMED, WORDS
from sfumato.table import Column, Schema

OTHER_MEANINGS = re.compile(r"value labels|disclosure control|classes of the label", re.IGNORECASE)
ENDINGS = "(?:s|es|ed|d|ing|e|y|ies|ies'|er|ers|or|ors)?"
BESIDE = {one.strip() for word in WORDS.values() for one in word.known_as.split(",") if one}

# fmt: off
EXPERTS_PAGES = {
    "architecture", "as-published", "attacks", "classifiers", "clustering", "errata", "guided-survey", "invariance",
    "mechanisms", "reconstruction", "regression", "rules", "survey-protocol",
}
"""For those who read papers or code; docs/decisions, docs/reference/python.md and papers/ are theirs too."""
PAGES = {
    "README.md": ROOT / "README.md",
    **{f"docs/{page.name}": page for page in sorted((ROOT / "docs").glob("*.md")) if page.stem not in EXPERTS_PAGES},
}
ROOMS = {path.stem: path for path in (ROOT / "src/sfumato").iterdir() if path.suffix in ("", ".py")}
EXPERTS_ROOMS = {"attacks", "channels", "classifiers", "noise"}
"""Whose errors answer those who write code."""
NOT_YET: set[str] = set()
"""Places that still say an old word. Take a name away when its text is clean; put none in."""
# fmt: on


def pattern(word: str) -> str:
    """A word with its endings, or a phrase as it is; a name with hyphens (`known-rows`) is no word."""
    ending = "" if " " in word else ENDINGS
    return rf"(?<![\w-]){re.escape(word if ending == '' else word.rstrip('ey'))}{ending}(?![\w-])"


OUT = {
    **{old: f"say {new!r}" for new, word in WORDS.items() for old in word.out},
    **{old: "for experts only" for word in EXPERTS.values() for old in word.out},
    **dict.fromkeys(UNNAMED, "say who"),
}
FINDS = {old: re.compile(pattern(old), re.IGNORECASE) for old in OUT}


def found(text: str) -> list[str]:
    """One line for every word that is out, with what stands around it. Beside the right word, in parentheses, law and
    papers may be named."""
    text = OTHER_MEANINGS.sub(" ", re.sub(r"\s+", " ", text))
    text = re.sub(r"\((?:elsewhere: )?([^()]*)\)", lambda one: "" if beside(one[1]) else one[0], text)
    return [
        f"{old!r} ({OUT[old]}): ...{text[max(0, one.start() - 40) : one.end() + 40]}..."
        for old, finds in FINDS.items()
        for one in finds.finditer(text)
    ]


def beside(words: str) -> bool:
    return all(one.strip() in BESIDE for one in words.split(","))


def prose(markdown: str) -> str:
    """What a page says in sentences: without blocks, code, comments and the addresses of links."""
    text = re.sub(r"<!--.*?-->", " ", BLOCK.sub(" ", markdown), flags=re.DOTALL)
    return re.sub(r"`[^`]*`", " ", re.sub(r"\]\([^)]*\)", "]", text))


COMMAND_LINE = re.compile(r"^.*\bsfumato [a-z].*$", re.MULTILINE)
NOT_PROSE = re.compile(
    r"--trust nobody|--[\w-]+|`[^`]*`|(?<!\w)'[^']*'|\"[^\"]*\"|\b[A-Z][A-Z_]+\b|\w+=\S+|\S+[/.]\w\S*"
)


def said(terminal: str) -> str:
    """Help or terminal in sentences: without example commands, options, NAMES, quoted names and names of files."""
    return NOT_PROSE.sub(" ", COMMAND_LINE.sub(" ", terminal))


def visible(page: str) -> str:
    """What owners read on a page: without code, what stands small beside (legal words), and the experts' part."""
    page = re.sub(r'<section id="experts">.*?</section>', " ", page, flags=re.DOTALL)
    page = re.sub(r"<(script|style|code|small)\b.*?</\1>", " ", page, flags=re.DOTALL)
    return said(html.unescape(re.sub(r"<[^>]+>", " ", page)))


def leaves(command, words):
    if hasattr(command, "commands"):
        for name, child in command.commands.items():
            yield from leaves(child, [*words, name])
    elif not command.hidden:
        yield " ".join(words), command


COMMANDS = dict(leaves(typer.main.get_command(app), ["sfumato"]))


def check(place: str, text: str) -> None:
    old = found(text)
    if place in NOT_YET:
        assert old, f"{place} is clean: take it from NOT_YET"
    else:
        assert old == [], place


@pytest.mark.parametrize("page", PAGES)
def test_pages_say_it_in_readers_words(page):
    check(page, prose(PAGES[page].read_text(encoding="utf-8").partition("\n## For experts\n")[0]))


@pytest.mark.parametrize("notebook", sorted((ROOT / "notebooks").glob("*.ipynb")), ids=lambda one: one.stem)
def test_notebooks_say_it_in_readers_words(notebook):
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    check(notebook.stem, prose("\n".join("".join(one["source"]) for one in cells if one["cell_type"] == "markdown")))


@pytest.mark.parametrize("name", COMMANDS)
def test_help_says_it_in_readers_words(name):
    command = COMMANDS[name]
    options = [one.help or "" for one in command.params if not getattr(one, "hidden", False)]
    check(name, said("\n".join([command.help or "", *options])))


@pytest.mark.parametrize(
    "page", sorted((ROOT / "src/sfumato/study/server/web/templates").glob("*.j2")), ids=lambda one: one.stem
)
def test_the_coordinators_pages_say_it_in_readers_words(page):
    check(page.stem, visible(re.sub(r"\{[%{#].*?[%}#]\}", " ", page.read_text(encoding="utf-8"), flags=re.DOTALL)))


def messages(room: Path) -> Iterator[str]:
    """What errors and warnings of a room's modules say, `x` for what they fill in."""
    for path in sorted(room.rglob("*.py")) if room.is_dir() else [room]:
        if EXPERTS_ROOMS & set(path.relative_to(room).parts):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
                yield from map(literal, node.exc.args)
            elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "warn":
                yield from map(literal, node.args[:1])


def literal(node: ast.expr) -> str:
    if isinstance(node, ast.JoinedStr):
        return "".join(map(literal, node.values))
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else "x"


@pytest.mark.parametrize("room", sorted(ROOMS.keys() - EXPERTS_ROOMS))
def test_errors_and_warnings_say_it_in_readers_words(room):
    check(room, "\n".join(map(said, messages(ROOMS[room]))))


RUNS = {
    "recommend": "recommend t.csv --schema s.yaml --max-posterior 0.4",
    "sanitize": "sanitize t.csv --schema s.yaml --epsilon 4 --out proved",
    "show": "show proved",
    "audit": "audit proved --original t.csv --holdout o.csv --repeats 2",
    "certificate": "certificate proved",
    "sanitize, ranges read": "sanitize t.csv --label ill --mechanism additive-noise --out measured",
    "show, ranges read": "show measured",
    "audit, ranges read": "audit measured --original t.csv --holdout o.csv --repeats 2",
    "certificate, ranges read": "certificate measured",
    "compare": "compare t.csv --label ill --mechanism additive-noise --strengths 0.5 --splits 1 --workers 1 --out c",
}


@pytest.fixture(scope="module")
def owner(tmp_path_factory):
    """What an owner meets: the terminal of each command, and every page that is written."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("owner")
        patch.chdir(folder)
        patch.setenv("SFUMATO_LEDGER", str(folder / "ledger.json"))
        rng = np.random.default_rng(0)
        age, size = rng.normal(50, 12, 160).clip(0, 100).round(), rng.normal(30, 5, 160).clip(0, 60).round()
        people = pd.DataFrame(
            {"age": age, "size": size, "ill": np.where(age + rng.normal(0, 6, 160) > 50, "yes", "no")}
        )
        people[:100].to_csv("t.csv", index=False)
        people[100:].to_csv("o.csv", index=False)
        form = {"source": "public", "reason": "the form"}
        numbers = [Column(name, "numeric", low=0, high=100, **form) for name in ("age", "size")]
        ill = Column("ill", "categorical", role="label", categories=("no", "yes"), **form)
        Schema([*numbers, ill]).save("s.yaml")
        told = {}
        for name, line in RUNS.items():
            out, err = io.StringIO(), io.StringIO()
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                assert run_guarded(app, line.split()) == 0, (line, err.getvalue())
            told[name] = said(f"{out.getvalue()}\n{err.getvalue()}")
        pages = sorted(folder.rglob("*.html"))
        assert {page.name for page in pages} == {"report.html", "certificate.html", "compare.html"}
        yield told | {str(page.relative_to(folder)): visible(page.read_text(encoding="utf-8")) for page in pages}


def test_terminal_and_pages_say_it_in_readers_words(owner):
    assert {place: old for place, text in owner.items() if (old := found(text))} == {}


@pytest.mark.parametrize("old", OUT)
def test_a_planted_word_is_found(old):
    assert found(prose(f"It is said that {old} is here, `and` not there.")), old
    assert (
        not found(prose(f"It stands in code: `{old}`, and in a name: x-{old}-y.\n\n```sh\n{old}\n```\n")) or " " in old
    )


@pytest.mark.parametrize("text", ["adversaries", "sanitizing", "perturbed", "Scores", "succeeds", "gained", "labels"])
def test_endings_are_found(text):
    assert found(text)


def test_what_law_and_papers_say_may_stand_beside_it():
    assert found("pick out one person (singling out)") == []
    assert found("the risk of singling out")
    assert found("against all of them, again, scoreboard, mechanistic, gainful") == []


def test_a_reader_learns_at_most_a_dozen_words():
    assert len(OWN) <= 12
    assert set(OWN) <= WORDS.keys() | EXPERTS.keys()
