"""What each screen of the desk shows: taken from what the public functions return, and from the words of the page."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.advising.exposure import MOST
from sfumato.api.desk.pages import FILES
from sfumato.api.desk.picture import Spot, scatter
from sfumato.api.desk.spelled import as_command, as_python, declared_as_commands, declared_in_python
from sfumato.api.desk.words import say
from sfumato.api.desk.work import CHANCES, NUMBERS, PUSH, SOURCES, STEPS, Work, in_words, shown, source_of
from sfumato.auditing.report.bottom_line import rows as bottom_line_rows
from sfumato.ledger.asked import show_ledger
from sfumato.mechanisms import MECHANISMS

if TYPE_CHECKING:
    from sfumato.advising.advice import Advice
    from sfumato.release.asked import Terms
    from sfumato.table import Column, Schema

HOME = "Sfumato"
ALL_STEPS = (*STEPS, PUSH)
PRIVATE_FILES = ("key.json", "trace.parquet", "report.html", "audit.json")


@dataclass(frozen=True)
class Step:
    """One of the five steps, with its state in words."""

    screen: str
    number: int
    title: str
    state: str
    current: bool


def steps(work: Work | None, screen: str, language: str) -> list[Step]:
    """All steps, visible at any time."""
    states = dict.fromkeys(ALL_STEPS, "") if work is None or not work.is_read else _states(work, language)
    return [
        Step(one, place, say(f"step_{one}", language), states[one], one == screen)
        for place, one in enumerate(ALL_STEPS, start=1)
        if one in (STEPS if work is None else work.screens)
    ]


def _states(work: Work, language: str) -> dict[str, str]:
    learned = len(work.schema.learned)
    tried = len((work.compared or {}).get("settings", ()))
    found: dict[str, str] = {
        "columns": say("state_declared", language) if not learned else say("state_read_off", language, count=learned),
        "strength": say("state_chances", language, chances=f"{work.chances:g}"),
        "try": say("state_tried", language, count=tried) if tried else say("state_not_tried", language),
        "release": say("state_released" if work.out else "state_not_released", language),
        "look": say("state_looked" if work.audit else "state_not_looked", language),
        "push": say("state_pushed" if work.pushed else "state_not_pushed", language),
    }
    return found if work.site is None else found | dict.fromkeys(("strength", "try"), say("state_settled", language))


# 1


@dataclass(frozen=True)
class Row:
    """One column as the first screen shows it."""

    place: int
    name: str
    kind: str
    role: str
    is_number: bool
    read_off: str
    low: str
    high: str
    words: str
    known: str
    why: str
    exposure: int
    exposure_why: str
    mistake: str

    @property
    def bars(self) -> str:
        return "#" * self.exposure + "." * (MOST - self.exposure)


def _ends(work: Work, column: Column, public: bool) -> tuple[str, str]:
    """What stands in the two fields: what is declared, or what was typed and refused."""
    if column.name in work.mistakes:
        return work.typed.get((column.name, "low"), ""), work.typed.get((column.name, "high"), "")
    return (shown(column.low), shown(column.high)) if public else ("", "")


ENCODINGS = ("utf-8", "cp1252", "iso8859-15", "cp1250", "cp850", "utf-16")


def written(work: Work) -> dict[str, Any]:
    """What is asked where a file does not say itself how it is written."""
    files = [("", work.name, work.written)]
    if work.foreign is not None:
        files.append(("-theirs", work.foreign_name, work.foreign_written))
    return {"files_written": files, "encodings": ENCODINGS}


def columns(work: Work, language: str) -> dict[str, Any]:
    schema, mistakes = work.schema, work.mistakes
    exposed = work.exposure(schema)
    found = []
    for place, column in enumerate(schema.columns):
        public = column.source == "public"
        is_number = column.kind in NUMBERS
        known, why = source_of(column.reason or "") if public else ("", "")
        if column.name in mistakes:  # what was typed is shown again
            known, why = (work.typed.get((column.name, name), "") for name in ("known", "why"))
        read = f"{shown(column.low)} – {shown(column.high)}" if is_number else in_words(column)
        found.append(
            Row(
                place,
                column.name,
                column.kind,
                column.role,
                is_number,
                "" if public else read,
                *_ends(work, column, public),
                in_words(column),
                known,
                why,
                exposed[column.name].level,
                say(f"exposure_{exposed[column.name].why.replace(' ', '_')}", language),
                mistakes.get(column.name, ""),
            )
        )
    private = [row for row in found if row.role in ("private", "label")]
    return {
        "rows": found,
        "identifiers": [row for row in private if exposed[row.name].is_identifier],
        "learned": len(schema.learned),
        "private": len(private),
        "labels": schema.names,
        "sources": SOURCES,
        "most": MOST,
        "command": declared_as_commands(schema, _named(work), work.written),
        "python": declared_in_python(schema, _named(work), work.written),
    }


# 2


def strength(work: Work, language: str) -> dict[str, Any]:
    if work.site is not None:
        return _spelled(work)
    advice = work.advice()
    return {
        "advice": advice,
        "unproved": _unproved(work, language),
        "bound": advice.bound.to_dict(),
        "table": work.strengths(),
        "least": CHANCES[0],
        "most": CHANCES[-1],
        "spent": _spent(),
        **_spelled(work),
    }


def _unproved(work: Work, language: str) -> str:
    """Why nothing is proved, where nothing is."""
    if work.looked:
        return say("unproved_looked", language)
    learned = len(work.schema.learned)
    return say("unproved_read", language, count=learned) if learned else ""


def _spent() -> Sequence[Any]:
    """What this owner released before, of whomever."""
    return show_ledger().releases


# 3


def trials(work: Work, language: str) -> dict[str, Any]:
    if work.site is not None:
        return {}
    settings = [_setting(place, one) for place, one in enumerate((work.compared or {}).get("settings", ()))]
    tried = [one for one in settings if not one["refused"]]
    # What was not tried against a whole risk stands outside the axes, never at 0.
    placed = [one for one in tried if not one["untried"] and None not in (one["extra"], one["right"])]
    measured = [Spot(one["right"], one["extra"]) for one in placed]
    known = work.experience()
    public = [Spot(one.forecast.accuracy, 100 * one.bound.to_dict()["max_risk"]) for one in known]
    return {
        "advice": work.advice(),
        "experience": known,
        "settings": tried,
        "refused": [one for one in settings if one["refused"]],
        "picture": scatter(public, measured, _references(work, known, language), language) if public or placed else "",
        **_both("compare", _named(work), {"out": "compare", "schema": str(work.schema_file)}, work),
    }


def _references(work: Work, known: Sequence[Advice], language: str) -> list[tuple[str, float]]:
    """Originals and commonest class: of the table itself where it was tried on, else of public tables."""
    own = next((one for one in (work.compared or {}).get("settings", ()) if one.get("majority") is not None), None)
    if own is not None:
        return [(say("originals", language), own["ceiling"]), (say("commonest", language), own["majority"])]
    first = next((one.forecast for one in known), None)
    if first is None:
        return []
    return [(say("originals", language), first.originals), (say("commonest", language), first.majority)]


def _setting(place: int, found: Mapping[str, Any]) -> dict[str, Any]:
    """A setting that was tried: right about others, and the most extra of any attacker."""
    return {
        "place": place,
        "method": found["mechanism"],
        "setting": found["setting"],
        "right": found.get("accuracy"),
        "extra": found.get("extra"),
        "untried": found.get("untried") or (),
        "refused": found["refused"],
    }


# 4


def release(work: Work, language: str) -> dict[str, Any]:
    advice = work.advice()
    files = sorted(file.name for file in work.out.iterdir()) if work.out and work.out.is_dir() else []
    return {
        "advice": advice,
        "unproved": _unproved(work, language),
        "bound": advice.bound.to_dict(),
        "folder": str(proposed_folder(work)),
        "understood": understood(work),
        "leaves": [name for name in files if name not in PRIVATE_FILES],
        "stays": [name for name in files if name in PRIVATE_FILES],
        **_spelled(work),
    }


def understood(work: Work) -> list[str]:
    """What must be ticked before a release: each is a sentence of the page."""
    schema = work.schema
    if work.site is not None:
        return _understood_of_study(schema, work.site.terms) + (["looked"] if work.looked else [])
    boxes = []
    if schema.label is not None and work.advice().bound.delta == 0:
        boxes.append("label_exact")
    if work.advice().bound.delta == 0:
        boxes.append("presence_open")
    if schema.learned:
        boxes.append("measured")
    if work.looked:
        boxes.append("looked")
    return boxes


def _understood_of_study(schema: Schema, terms: Terms) -> list[str]:
    boxes = []
    if not MECHANISMS[terms.mechanism].made_up:
        boxes += ["label_exact"] if schema.label is not None else []
        boxes.append("presence_open")
    if terms.epsilon_record is None and terms.presence is None:
        boxes.append("study_unproved")
    return boxes


def proposed_folder(work: Work) -> Path:
    """Beside a table that was named; for a dropped one in the owner's home, where nothing is overwritten."""
    place = Path.home() / HOME if _is_dropped(work) else work.table.parent
    stem = Path(work.name).stem or "table"
    number = 1
    while (folder := place / (f"{stem}-release" if number == 1 else f"{stem}-release-{number}")).exists():
        number += 1
    return folder


def _spelled(work: Work) -> dict[str, Any]:
    """The same release as a command and in Python."""
    table = _named(work)
    keywords = work.keywords(proposed_folder(work), measured_only=bool(work.schema.learned))
    return _both("sanitize", table, keywords, work)


def _both(job: str, first: str, keywords: Mapping[str, Any], work: Work) -> dict[str, Any]:
    """As a command, and in Python."""
    return {
        "command": as_command(job, first, keywords, work.written),
        "python": as_python(job, first, keywords, work.written),
    }


def _named(work: Work) -> str:
    """The table as its owner knows it: a dropped one lies where the desk put it, under another name."""
    return work.name if _is_dropped(work) else str(work.table)


def _is_dropped(work: Work) -> bool:
    return work.private.parent in work.table.parents


# 5


def look(work: Work, language: str) -> dict[str, Any]:  # noqa: ARG001
    found = work.audit
    return {
        "person_fields": person_fields(work),
        "names": work.schema.names if work.foreign is not None and work.is_read else (),
        # The last row names a command; here a button stands for it.
        "bottom": [] if found is None else bottom_line_rows(found, "")[:-1],
        "sides": work.sides,
        **_audit_spelled(work),
        "files": [name for name in FILES if work.out is not None and (work.out / name).is_file()],
    }


def _audit_spelled(work: Work) -> dict[str, Any]:
    outside = {"holdout": work.outside} if work.outside else {}
    if work.foreign is None:
        return _both("audit", str(work.out or "release"), {"original": _named(work)} | outside, work)
    said = {"original": _named(work), "label": work.label, "match": work.match} | outside
    given = {name: value for name, value in said.items() if value is not None}
    command = as_command("audit", None, {"release": work.foreign_name} | given | {"out": "audit"}, work.written)
    return {"command": command, "python": as_python("audit", work.foreign_name, given, work.written)}


def person_fields(work: Work) -> list[tuple[int, str]]:
    """The released columns by their places: a person is typed in as values of these."""
    columns = enumerate(work.schema.columns) if work.is_read else ()
    return [(place, one.name) for place, one in columns if one.role in ("private", "label")]


def audit_asked(work: Work) -> tuple[Any, dict[str, Any], str]:
    """What `sf.audit` is asked: of our own release its folder, of another tool's its rows."""
    outside = {"holdout": work.as_asked(work.outside)} if work.outside else {}
    if work.foreign is not None:
        given = {"original": work.as_asked(), "label": work.label, "match": work.match} | outside
        return {"path": str(work.foreign), **asdict(work.foreign_written)}, given, str(work.private)
    return str(work.out), {"original": work.as_asked()} | outside, str(work.out)


# 6


def push(work: Work, language: str) -> dict[str, Any]:  # noqa: ARG001
    """The same as a command; Python users push by the command too."""
    site = work.site
    assert site is not None
    said = {"study": site.study, "to": site.to, "token_file": site.token_file, "insecure_http": site.insecure_http}
    said |= {"study_hash": site.terms.hash}
    given = {name: value for name, value in said.items() if value}
    return {"command": as_command("study push", str(work.out), given), "python": ""}


SHOWN: dict[str, Callable[[Work, str], dict[str, Any]]] = {
    "columns": columns,
    "strength": strength,
    "try": trials,
    "release": release,
    "look": look,
    "push": push,
}
