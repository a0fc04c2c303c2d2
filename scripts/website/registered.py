"""A page for each mechanism and adversary: what is registered, what the long pages say, what was measured."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from measured import EPSILON, Measured
from pictures import draw_adversary, draw_mechanism

from sfumato.attacks import ATTACKS
from sfumato.mechanisms import MECHANISMS

TABLE = (
    "Measured by this build on a small made-up table: 300 people in two groups, three columns with public limits, 200 "
    "other people as control, one release. On your table: `sfumato compare`."
)


def story(thing: type) -> str:
    """The docstring up to its parameters and examples, as a page shows it."""
    text = inspect.cleandoc(thing.__doc__ or "")
    text = re.split(r"\n(?:Parameters|Attributes|Examples|Notes)\n-{3,}|\n>>> ", text)[0].strip()
    return re.sub(r"``([^`]+)``", r"`\1`", text)


def section(page: Path, name: str) -> str:
    """What a long page says under the headings that name this; links hold from one folder further down."""
    parts = re.split(r"^## ", page.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    found = [part.split("\n", 1)[1] for part in parts if f"`{name}`" in part.split("\n", 1)[0]]
    text = re.sub(r"\]\(#", f"]({page.name}#", "\n\n".join(part.strip() for part in found))
    return re.sub(r"\]\((?!\w+:|/)", "](../", text)


def write_mechanisms(pages: Path, measured: dict[str, Measured]) -> list[str]:
    """Returns the pages, in the order of their names."""
    return [_mechanism(name, pages, measured[name]) for name in MECHANISMS]


def _mechanism(name: str, pages: Path, found: Measured) -> str:
    known, path = MECHANISMS[name], pages / "docs" / "mechanism" / f"{name}.md"
    drawn = draw_mechanism(found, path.with_suffix(".svg"))
    proof = "Some settings of it are proved" if known.proves else "Nothing is proved of it: empirical only"
    papers = ", ".join(
        f"[{key}](../../papers/{key}/README.md)" if (pages / "papers" / key / "README.md").exists() else key
        for key in known.papers
    )
    lines = [f"# {name}", story(known)]
    if drawn:
        kind = f"This release: {found.setting}; {found.words}."
        lines += [f"![Rows of two groups before and after {name}]({name}.svg)"]
        lines += [
            '*The first two columns of the small table under "Measured", and of its release; a row that leaves one of '
            f"them out is a mark along the other's axis. {kind}*"
        ]
    keeps = "the columns and units of its source" if known.columnwise else "columns of its own, c000, c001, ..."
    secret = " It needs a secret key." if known.needs_key else ""
    lines += [f"**{proof}.** The release has {keeps}.{secret} Behind it: {papers}.", "## In full"]
    lines += [section(pages / "docs" / "mechanisms.md", name), "## What breaks it"]
    lines += ["\n".join(f"- {one}" for one in known.not_protected)]
    if known.rests_on:
        lines += ["What a proof rests on:", "\n".join(f"- {one}" for one in known.rests_on)]
    lines += [section(pages / "docs" / "limits.md", name), "## Measured"]
    lines += [f"{TABLE} Setting: {found.setting}." if drawn else f"Not measured on the site's table: {found.words}"]
    rows = [
        f"| [{one['name']}](../adversary/{one['name']}.md) | {one['score']:.3f} | {one['baseline']:.3f} |"
        for one in sorted(scored(found), key=lambda one: one["baseline"] - one["score"])
    ]
    if rows:
        lines += ["\n".join(["| adversary | success | without the release |", "|---|---|---|", *rows])]
    return _written(path, lines, pages)


def scored(found: Measured) -> list[dict]:
    """The adversaries that could attack, with success and baseline."""
    return [one for one in found.scores if one.get("score") is not None and one.get("baseline") is not None]


def write_adversaries(pages: Path, measured: dict[str, Measured]) -> list[str]:
    """Returns the pages, in the order of their names."""
    return [_adversary(name, pages, measured) for name in ATTACKS]


def _adversary(name: str, pages: Path, measured: dict[str, Measured]) -> str:
    known, path = ATTACKS[name], pages / "docs" / "adversary" / f"{name}.md"
    rows = [
        (mechanism, float(one["score"]), float(one["baseline"]))
        for mechanism, found in measured.items()
        for one in scored(found)
        if one["name"] == name
    ]
    rows.sort(key=lambda row: row[2] - row[1])
    lines = [f"# {name}", story(known)]
    if draw_adversary(rows, path.with_suffix(".svg")):
        lines += [f"![Success of {name} on every release, beside guessing]({name}.svg)"]
    lines += [f"**Must know:** {_said(known.knows)}. **Uses where it has it:** {_said(known.helps)}."]
    lines += ["Names and settings of all adversaries: [Attacks](../attacks.md)."]
    if more := section(pages / "docs" / "attacks.md", name):
        lines += ["## In full", more]
    lines += ["## Measured", f"{TABLE} Epsilon {EPSILON:g} for a record where it can be asked for."]
    if rows:
        table = [f"| [{row[0]}](../mechanism/{row[0]}.md) | {row[1]:.3f} | {row[2]:.3f} |" for row in rows]
        lines += ["\n".join(["| mechanism | success | without the release |", "|---|---|---|", *table])]
    else:
        lines += ["It can use none of these releases."]
    return _written(path, lines, pages)


def _said(items: frozenset[str]) -> str:
    return ", ".join(sorted(item.replace("_", " ") for item in items)) or "nothing else"


def _written(path: Path, lines: list[str], pages: Path) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n\n".join(line for line in lines if line) + "\n", encoding="utf-8")
    return str(path.relative_to(pages))
