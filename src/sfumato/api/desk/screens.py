"""What each screen of the desk shows: taken from what the public functions return, and from the words of the page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from sfumato.advising.recommend import MOST, exposure
from sfumato.api.desk.heard import (
    NUMBERS,
    SOURCES,
    as_command,
    as_python,
    declared_as_commands,
    declared_in_python,
    in_words,
    shown,
    source_of,
)
from sfumato.api.desk.pages import FILES, Spot, scatter
from sfumato.api.desk.words import figure, say
from sfumato.api.desk.work import CHANCES, PUSH, SAME, STEPS, Work, lifted_to, name_of, said_of, strengths
from sfumato.auditing.extra import three_risks
from sfumato.auditing.report.bottom_line import proof
from sfumato.auditing.report.bottom_line import rows as bottom_line_rows
from sfumato.guarantee import AllReleases
from sfumato.mechanisms import MECHANISMS
from sfumato.release.asked import TRUSTS
from sfumato.release.signature import SIGNATURE, SIGNED
from sfumato.release.write_release import MODEL

if TYPE_CHECKING:
    from sfumato.advising.advice import Advice
    from sfumato.table import Column

HOME = "Sfumato"
ALL_STEPS = (*STEPS, PUSH)
ENCODINGS = ("utf-8", "cp1252", "iso8859-15", "cp1250", "cp850", "utf-16")
PRIVATE_FILES = ("key.json", "trace.parquet", "report.html", "audit.json", "audit.parquet")


def steps(work: Work | None, screen: str, language: str) -> list[dict[str, Any]]:
    """All steps with their states in words, visible at any time."""
    states = dict.fromkeys(ALL_STEPS, "") if work is None or not work.is_read else _states(work, language)
    return [
        {
            "screen": one,
            "title": f"{place} {say(f'step_{one}', language)}",
            "state": states[one],
            "current": one == screen,
        }
        for place, one in enumerate(ALL_STEPS, start=1)
        if one in (STEPS if work is None else work.screens)
    ]


def _states(work: Work, language: str) -> dict[str, str]:
    learned, tried = len(work.read_off), len(work.tried)
    found: dict[str, str] = {
        "columns": say("state_declared", language) if not learned else say("state_read_off", language, count=learned),
        "strength": "" if work.site else _bound_state(work, language),
        "try": say("state_tried", language, count=tried) if tried else say("state_not_tried", language),
        "release": say("state_released" if work.out else "state_not_released", language),
        "look": say("state_looked" if work.audit else "state_not_looked", language),
        "push": say("state_pushed" if work.pushed else "state_not_pushed", language),
    }
    return found if work.site is None else found | dict.fromkeys(("strength", "try"), say("state_settled", language))


def _bound_state(work: Work, language: str) -> str:
    """What was released is bounded by; before, what the release and the ledger will come to."""
    if work.released:
        stated = work.released["stated"]
        values = AllReleases.from_dict(stated["guarantee"], stated["release"]["earlier_releases"]).promised
    elif work.looked or work.read_off:
        return say("measured_word", language)
    else:
        ahead = work.ahead(work.held_by)
        values = ahead.together or ahead.alone
    chances = lifted_to(values)
    return say("state_no_bound", language) if chances is None else say("state_chances", language, chances=chances)


def _said(work: Work, column: Column) -> dict[str, str]:
    """What stands in the fields of a column: what is declared, or what was typed and refused."""
    if column.name in work.mistakes:
        return {name: work.typed.get((column.name, name), "") for name in SAME}
    public = column.source == "public"
    ends = (shown(column.low, work.dotted), shown(column.high, work.dotted)) if public else ("", "")
    source = source_of(column.reason or "") if public else ("", "")
    return dict(zip(SAME, (*ends, in_words(column), *source), strict=True))


def written(work: Work) -> dict[str, Any]:
    """What is asked where a file does not say itself how it is written."""
    files = [("", work.name, work.written)]
    if work.foreign is not None:
        files.append(("-theirs", work.foreign_name, work.foreign_written))
    return {"files_written": files, "encodings": ENCODINGS}


def columns(work: Work, language: str) -> dict[str, Any]:
    schema, exposed = work.schema, {one.column: one for one in exposure(work.schema)}
    found: list[dict[str, Any]] = []
    for place, column in enumerate(schema.columns):
        is_number, read = column.kind in NUMBERS, in_words(column)
        if is_number:
            read = " – ".join(shown(end, work.dotted) for end in (column.low, column.high))
        found.append(
            {
                "place": place,
                "name": column.name,
                "kind": column.kind,
                "role": column.role,
                "is_number": is_number,
                "read_off": "" if column.source == "public" else read,
                **_said(work, column),
                "exposure": exposed[column.name].level,
                "exposure_why": say(f"exposure_{exposed[column.name].why.replace(' ', '_')}", language),
                "mistake": work.mistakes.get(column.name, ""),
            }
        )
    private = [row for row in found if row["role"] in ("private", "label")]
    return {
        "rows": found,
        "identifiers": [row for row in private if exposed[row["name"]].is_identifier],
        "learned": len(work.read_off),
        "private": len(private),
        "labels": schema.names,
        "sources": SOURCES,
        "most": MOST,
        "undecided": work.undecided,
        "date": "31.12.2001" if work.dotted else "2001-12-31",
        "command": declared_as_commands(schema, _named(work), work.written),
        "python": declared_in_python(schema, _named(work), work.written),
    }


def strength(work: Work, language: str) -> dict[str, Any]:
    if work.site is not None:
        return _spelled(work)
    advice, ahead = work.advice(), work.ahead(work.held_by)
    together = None if ahead.together is None else lifted_to(ahead.together)
    return {
        "advice": advice,
        "unproved": _unproved(work, language),
        "said": said_of(advice.bound),
        "tables": {trust: strengths(trust, work.rows_per_person) for trust in TRUSTS},
        "promises": {trust: _promised(work, trust, language) for trust in TRUSTS},
        "missed": together is not None and together > work.chances,
        "expected": _expected(advice, language),
        "useless": _is_useless(advice),
        "least": CHANCES[0],
        "most": CHANCES[-1],
        "ahead": ahead,
        **_spelled(work),
    }


def _promised(work: Work, trust: str, language: str) -> Markup:
    """What can be promised before the click: of this release and the ledger, as its card will state it."""
    ahead = work.ahead(trust)
    chances = None if ahead.together is None else lifted_to(ahead.together)
    if ahead.together is not None and chances is None:
        return say("promise_none", language)
    moved = Markup('<span data-shows="chances">{}</span>').format(figure(chances or work.chances, language))
    values, but = ahead.together or ahead.alone, Markup()
    if values.delta:
        but = Markup(" ") + say("promise_but", language, count=round(1 / values.delta))
    own = say("own_rows" if work.rows_per_person > 1 else "own_row", language, count=work.rows_per_person)
    if not ahead.earlier:
        return say("promise", language, own=own, chances=moved) + but
    if ahead.together is None:
        after = Markup(" ") + say("promise_after", language, count=ahead.earlier)
        return say("promise_alone", language, own=own, chances=moved) + but + after
    return say("promise_together", language, chances=moved, count=ahead.earlier) + but


def _unproved(work: Work, language: str) -> str:
    """Why nothing is proved, where nothing is."""
    if work.looked:
        return say("unproved_looked", language)
    learned = len(work.read_off)
    return say("unproved_read", language, count=learned) if learned else ""


def trials(work: Work, language: str) -> dict[str, Any]:
    if work.site is not None:
        return {}
    settings = {name_of(one): one for one in work.tried}
    tried = {name: one for name, one in sorted(settings.items(), key=_best_first) if not one["refused"]}
    known = work.experience()
    first = [name for name in work.pinned if name in tried]
    return {
        "expected": _expected(work.advice(), language),
        "useless": _is_useless(work.advice()),
        "unproved": _unproved(work, language),
        "letters": work.letters,
        "present": _present(work, tried),
        "experience": {name: (one, said_of(one.bound)) for name, one in known.items()},
        "settings": {name: tried[name] for name in (*first, *(one for one in tried if one not in first))},
        "refused": [one for one in settings.values() if one["refused"]],
        "picture": _picture(work, tried, known, language),
        **_both("compare", _named(work), {"out": "compare", "schema": str(work.schema_file)}, work),
    }


def _present(work: Work, tried: Mapping[str, Mapping[str, Any]]) -> str:
    """The name of the setting that is chosen now."""
    if work.chosen is None:
        return f"{work.chances:g}"
    chosen = tuple(work.chosen)
    return next((name for name, one in tried.items() if (one["mechanism"], one["parameters"]) == chosen), "")


def _picture(
    work: Work, tried: Mapping[str, Mapping[str, Any]], known: Mapping[str, Advice], language: str
) -> Markup | str:
    """Settings by use and extra; what was not tried against a whole risk stands outside the axes, never at 0."""
    present = _present(work, tried)
    measured = [
        Spot(one["accuracy"], one["extra"], work.letters.get(name, ""), name == present)
        for name, one in tried.items()
        if not one["untried"] and None not in (one["extra"], one["accuracy"])
    ]
    public = [
        Spot(one.forecast.accuracy, said_of(one.bound)["points"], work.letters.get(name, ""), name == present)
        for name, one in known.items()
    ]
    return scatter(public, measured, _references(work, known, language), language) if public or measured else ""


def _best_first(setting: tuple[str, Mapping[str, Any]]) -> tuple[bool, float]:
    """By right of 100 less extra of 100; what was not tried in full comes last."""
    _, one = setting
    if one["refused"] or one["untried"] or None in (one["extra"], one["accuracy"]):
        return True, 0.0
    return False, one["extra"] - 100 * one["accuracy"]


def _expected(advice: Advice, language: str) -> str:
    """What public tables of about this size kept at this strength."""
    known, low, high = advice.forecast, *advice.forecast.rows
    rows = figure(low, language) if low == high else say("low_to_high", language, low=low, high=high)
    given: dict[str, Any] = {"tables": known.tables, "rows": rows}
    if advice.known.label is None:
        if known.one_column is None or known.two_columns is None:
            return say("expect_nothing", language)
        shares = {"one": f"{100 * known.one_column:.0f}", "two": f"{100 * known.two_columns:.0f}"}
        return say("expect_shares", language, **given, **shares)
    right = {"right": known.accuracy, "originals": known.originals, "commonest": known.majority}
    given |= {name: f"{100 * share:.0f}" for name, share in right.items()}
    least, most = (f"{100 * share:.0f}" for share in known.lost)
    return say("expect_right", language, **given, least=least, most=most)


def _is_useless(advice: Advice) -> bool:
    """Whether public tables like this one taught no more than their commonest answer."""
    known = advice.forecast
    equal = round(100 * known.accuracy) <= round(100 * known.majority)
    return advice.known.label is not None and (known.useless or equal)


def _references(work: Work, known: Mapping[str, Advice], language: str) -> list[tuple[str, float]]:
    """Originals and commonest class: of the table itself where it was tried on, else of public tables."""
    own = ((one["ceiling"], one["majority"]) for one in work.tried if one.get("majority") is not None)
    public = ((one.forecast.originals, one.forecast.majority) for one in known.values())
    ends = next(chain(own, public), ())
    return [(say(name, language), right) for name, right in zip(("originals", "commonest"), ends, strict=False)]


def release(work: Work, language: str) -> dict[str, Any]:
    advice = work.advice()
    files = sorted(file.name for file in work.out.iterdir()) if work.out and work.out.is_dir() else []
    model = [MODEL] if work.method.made_up else []
    return {
        "advice": advice,
        "unproved": _unproved(work, language),
        "useless": not work.chosen and work.site is None and _is_useless(advice),
        "promise": _promised(work, work.held_by, language),
        "proof": proof(work.released["stated"]) if work.released else "",
        "said": said_of(advice.bound),
        "folder": str(proposed_folder(work)),
        "understood": understood(work),
        "planned": [f"release.{work.format_of(None)}", "card.json", "certificate.html", *model, SIGNED, SIGNATURE],
        "leaves": [name for name in files if name not in PRIVATE_FILES],
        "stays": [name for name in files if name in PRIVATE_FILES],
        "files": _handed_out(work),
        "format": work.format_of(None),
        **_spelled(work),
    }


def understood(work: Work) -> list[str]:
    """What must be ticked before a release: each is a sentence of the page."""
    terms, own_rows = None if work.site is None else work.site.terms, not work.method.made_up
    boxes = {
        "label_exact": own_rows and work.schema.label is not None,
        "presence_open": own_rows,
        "measured": terms is None and bool(work.read_off),
        "study_unproved": terms is not None and terms.epsilon_record is None and terms.presence is None,
        "looked": work.looked,
    }
    return [box for box, stands in boxes.items() if stands]


def proposed_folder(work: Work) -> Path:
    """Beside a table that was named; for a dropped one in the owner's home, where nothing is overwritten."""
    place = Path.home() / HOME if work.is_dropped else work.table.parent
    stem = Path(work.name).stem or "table"
    if work.unfinished:
        return Path(work.folder)
    folders = (place / (f"{stem}-release" if number == 1 else f"{stem}-release-{number}") for number in count(1))
    return next(one for one in folders if not one.exists())


def _spelled(work: Work) -> dict[str, Any]:
    """The same release as a command and in Python."""
    keywords = work.keywords(proposed_folder(work), measured_only=bool(work.read_off))
    return _both("sanitize", _named(work), keywords, work)


def _both(job: str, first: str, keywords: Mapping[str, Any], work: Work) -> dict[str, Any]:
    """As a command, and in Python."""
    told = (job, first, keywords, work.written)
    return {"command": as_command(*told), "python": as_python(*told)}


def _named(work: Work) -> str:
    """The table as its owner knows it: a dropped one lies where the desk put it, under another name."""
    return work.name if work.is_dropped else str(work.table)


ASKED = {
    "Whose row is it?": "person_row",
    "Learn a value?": "look_value",
    "Pick out one?": "look_one",
    "Of use?": "look_use",
    "Not hidden": "look_open",
}
"""How the page says what the bottom line asks."""


def look(work: Work, language: str) -> dict[str, Any]:
    bottom, use_known, outside_missing = list[tuple[str, str]](), False, False
    if (found := work.audit) is not None:
        # The first row's left is a state, which takes a limit that is not asked for here; the last one names a command,
        # for which a button stands.
        (_, proved), *others, _ = bottom_line_rows(found, "")
        bottom = [
            (say("look_proved", language), proved),
            *((say(ASKED[left], language), said) for left, said in others),
        ]
        use_known = any(one["release"] is not None for one in found["utility"])
        tried = use_known and all(one.points is not None for one in three_risks(found["attacks"]))
        outside_missing = not tried and not found["settings"].get("holdout_rows")
    elif work.released:  # what is known before anybody attacks
        known = {"look_proved": proof(work.released["stated"]), "look_public": _public_use(work, language)}
        bottom = [(say(left, language), said) for left, said in known.items() if said]
    return {
        "person_fields": person_fields(work),
        "names": work.schema.names if work.foreign is not None and work.is_read else (),
        "bottom": bottom,
        "public_use": "" if found is None or use_known else _public_use(work, language),
        "outside_missing": outside_missing,
        "gaps": work.released is not None and MECHANISMS[work.released["mechanism"]].leaves_cells_out,
        **_audit_spelled(work),
        "files": _handed_out(work),
    }


def _handed_out(work: Work) -> list[str]:
    return [name for name in FILES if work.out is not None and (work.out / name).is_file()]


def _public_use(work: Work, language: str) -> str:
    """What public tables kept at the strength of this release: what can be said of its use where that was not measured
    on people outside the table, for which the rule's method was released."""
    made = work.released
    if not made or not made.get("chances"):
        return ""
    advice = work.advice(made["chances"], made["trust"])
    if advice.mechanism != made["mechanism"]:
        return ""
    return " ".join([_expected(advice, language), *([say("useless", language)] if _is_useless(advice) else [])])


def _audit_spelled(work: Work) -> dict[str, Any]:
    own = work.foreign is None
    release = str(work.out or "release") if own else work.foreign_name
    said = {"original": _named(work), "holdout": work.outside and work.outside[1]}
    said |= {} if own else {"label": work.label, "match": work.match}
    given = {name: value for name, value in said.items() if value is not None}
    names = [name for _, name in person_fields(work)]
    searched = {name: value for name, value in given.items() if name != "match"}
    found = _both("audit", release, given, work)
    if not own:
        found["command"] = as_command("audit", None, {"release": release} | given | {"out": "audit"}, work.written)
    return {
        **found,
        "find_command": as_command("audit find-person", release, searched, work.written),
        "find_python": as_python("find_person", release, searched, work.written, names),
    }


def person_fields(work: Work) -> list[tuple[int, str]]:
    """The released columns by their places: a person is typed in as values of these."""
    columns = enumerate(work.schema.columns) if work.is_read else ()
    return [(place, one.name) for place, one in columns if one.role in ("private", "label")]


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
