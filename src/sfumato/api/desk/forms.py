"""What each form of the desk does; it names the screen that comes next, or gives the page itself."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sfumato.api.demo import example_table
from sfumato.api.desk import screens
from sfumato.api.desk.desk import SCREENS, Desk, Take
from sfumato.api.desk.heard import dialect_of, sentence_of
from sfumato.api.desk.pages import Answer, page
from sfumato.api.desk.words import LANGUAGES
from sfumato.api.desk.work import MOST_PINNED, PUSH, Work, name_of
from sfumato.api.sanitize import certificate
from sfumato.auditing.find_person import check_person
from sfumato.core.errors import SfumatoError, UsageError
from sfumato.table import write_table


def _example(desk: Desk, sent: Mapping[str, str]) -> str:  # noqa: ARG001
    private = Path(tempfile.mkdtemp(prefix="dropped-", dir=desk.folder))
    file = private / "patients.csv"
    write_table(example_table(), file)
    file.chmod(0o600)
    return desk.offer({"table": (file, file.name)})


def _replace(desk: Desk, sent: Mapping[str, str]) -> str:
    """Give up the work on the present table for the files that came, or leave them."""
    if desk.pending is not None and "replace" in sent:
        return desk.take_up(desk.pending)
    desk.pending = None  # and the present table is worked on
    desk.forget_dropped()
    return desk.first_screen


def _written(desk: Desk, sent: Mapping[str, str]) -> str:
    """How the file is written: it is read again."""
    work = _work(desk)
    work.written = dialect_of(sent, "")
    if work.foreign is not None:
        work.foreign_written = dialect_of(sent, "-theirs")
    work.schema_file.unlink(missing_ok=True)
    desk.read(work)
    return work.screens[0]


def _columns(desk: Desk, sent: Mapping[str, str]) -> str:
    work = _work(desk)
    work.take_columns(sent)
    if work.site is not None:
        return "columns" if "next" not in sent else "strength"
    roles = sent.get("label") or None, sent.get("person") or None
    if roles != (work.label, work.person) or work.taken_back:
        desk.read(work, *roles)
        desk.goes_on = "next" in sent and not (work.mistakes or work.taken_back)
        desk.notice = "taken_back" if work.taken_back and "next" in sent else ""
        return "columns"
    return "columns" if work.mistakes or "next" not in sent else "strength"


def _strength(desk: Desk, sent: Mapping[str, str]) -> str:
    _work(desk).take_strength(sent)
    return "try" if "next" in sent else "strength"


def _release(desk: Desk, sent: Mapping[str, str]) -> str:
    work = _work(desk)
    if any(box not in sent for box in screens.understood(work)):
        raise UsageError("Tick what you have read before you release.")
    if work.undecided:
        told = "Say first in step 1 whether these are kept or left out: {names}."
        raise UsageError(told, names=", ".join(work.undecided))
    if work.stamp != work.stamp_now:
        desk.read(work, work.label, work.person)
        desk.notice = "table_changed"
        return work.screens[0]
    typed = sent.get("folder", "").strip().strip('"')  # Windows copies a path with quotes
    out = Path(typed or screens.proposed_folder(work)).expanduser()
    if not (out.is_absolute() and out.name):  # a disk itself is no new folder
        raise UsageError("Give the whole path of a new folder.")
    work.format, work.folder = work.format_of(sent.get("format")), str(out)
    keywords = work.keywords(out, measured_only="measured" in sent)
    made_by = {"chances": None if work.chosen or work.site else work.chances, "trust": work.held_by}

    def then(found: Mapping[str, Any]) -> None:
        work.out, work.released, work.pushed, desk.push_shown = out, {**found, **made_by}, None, None
        work.audit = work.sides = None
        certificate(out, force=True)

    desk.begin("release", {"table": work.as_asked(), "keywords": keywords}, then)
    return "release"


def _attacked(desk: Desk, sent: Mapping[str, str]) -> tuple[Work, Any, dict[str, Any], str]:
    """What attackers are given, of our own release its folder, of another tool's its rows, and where the report goes;
    from here on the table was looked at."""
    work = _work(desk)
    if work.out is None and work.foreign is None:
        raise UsageError("There is no release yet. Release first.")
    work.looked = True
    outside = {} if work.outside is None else {"holdout": work.as_asked(work.outside[0])}
    if work.foreign is None:
        return work, str(work.out), {"original": work.as_asked()} | outside, str(work.out)
    work.label, work.match = sent.get("label") or None, sent.get("match") or None
    given = {"original": work.as_asked(), "label": work.label, "match": work.match} | outside
    return work, {"path": str(work.foreign), **asdict(work.foreign_written)}, given, str(work.private)


def _look(desk: Desk, sent: Mapping[str, str]) -> str:
    """Attack the release."""
    work, release, keywords, folder = _attacked(desk, sent)

    def then(found: Mapping[str, Any]) -> None:
        work.audit, work.sides = found["audit"], found["sides"]
        work.out = work.out or work.private

    desk.begin("audit", {"release": release, "keywords": keywords, "folder": folder}, then)
    return "look"


def _find(desk: Desk, sent: Mapping[str, str]) -> str | Answer:
    """Look for one person; whoever sees the answer and chooses anew has looked at private rows."""
    work, release, keywords, _ = _attacked(desk, sent)
    keywords.pop("match", None)
    typed = {name: sent.get(f"value-{place}", "").strip() for place, name in screens.person_fields(work)}
    person = work.as_written(typed)
    try:
        check_person(work.schema, person)
    except SfumatoError as error:
        return desk.answer("look", sentence_of(error), typed=typed)

    def then(found: Mapping[str, Any]) -> None:
        desk.person_found = found

    desk.begin("find", {"release": release, "keywords": keywords, "person": person}, then)
    return "look"


def _try(desk: Desk, sent: Mapping[str, str]) -> str:  # noqa: ARG001
    """Try settings on the table itself: whoever chooses by them has looked at private rows."""
    work = _work(desk)
    work.looked, label = True, work.schema.label
    keywords = {"schema": str(work.schema_file), "label": None if label is None else label.name}
    desk.begin("compare", {"table": work.as_asked(), "out": str(work.trials), "keywords": keywords}, lambda _: None)
    return "try"


def _choose(desk: Desk, sent: Mapping[str, str]) -> str:
    work = _work(desk)
    if "pin" in sent:  # mark a point of the picture, or take its mark away
        kept = tuple(one for one in work.pinned if one != sent["pin"])
        work.pinned = kept if sent["pin"] in work.pinned else (*kept, sent["pin"])[-MOST_PINNED:]
        return "try"
    tried = {name_of(one): one for one in work.tried if not one["refused"]}
    if (found := tried.get(sent.get("setting", ""))) is None:
        raise UsageError("Choose one of the settings that were tried.")
    work.looked, work.chosen = True, (found["mechanism"], found["parameters"])
    return "release"


def _push(desk: Desk, sent: Mapping[str, str]) -> str:  # noqa: ARG001
    """Show what would leave the site; the coordinator is asked about its study, and gets nothing."""
    asked = _pushed(desk)

    def then(found: Mapping[str, Any]) -> None:
        desk.push_shown = found["shown"]

    desk.push_shown = None
    desk.begin("show", asked, then)
    return PUSH


def _send(desk: Desk, sent: Mapping[str, str]) -> str:
    """Send what was shown, and nothing else."""
    asked, shown, work = _pushed(desk), desk.push_shown, _work(desk)
    if shown is None or shown["objections"]:
        raise UsageError("Look first at what would leave.")
    if "agreed" not in sent:
        raise UsageError("Say first that this is the study that you agreed to, and that this may leave.")

    def then(found: Mapping[str, Any]) -> None:
        work.pushed = found["receipt"]
        work.keep()

    desk.push_shown = None
    desk.begin("push", {**asked, "sent": shown["sha256"]}, then)
    return PUSH


def _pushed(desk: Desk) -> dict[str, Any]:
    """As a job is asked to push."""
    work = _work(desk)
    if work.site is None:
        raise UsageError("The desk was not opened for a study.")
    if work.out is None:
        raise UsageError("There is no release yet. Release first.")
    return {"site": asdict(work.site), "folder": work.out}


def _stop(desk: Desk, sent: Mapping[str, str]) -> str:  # noqa: ARG001
    if desk.job is not None and desk.busy:
        desk.job.stop()
        desk.notice = "stopped_push" if desk.job.name == "push" else "stopped"
    return desk.first_screen


def _language(desk: Desk, sent: Mapping[str, str]) -> str:
    desk.language = sent.get("language") if sent.get("language") in LANGUAGES else None
    return sent.get("screen", "") if sent.get("screen", "") in SCREENS else desk.first_screen


def _end(desk: Desk, sent: Mapping[str, str]) -> Answer:  # noqa: ARG001
    desk.over = True
    return page("ended", desk.spoken, {})


def _go_on(desk: Desk, sent: Mapping[str, str]) -> str:
    """Take up the work of a desk that was killed, or remove what is left of it."""
    found, desk.left_behind = desk.left_behind, None
    if found is None:
        return desk.first_screen
    if "go-on" in sent:
        private = Path(tempfile.mkdtemp(prefix="work-", dir=desk.folder))
        shutil.copytree(found.private, private, dirs_exist_ok=True)
        if (work := Work.kept(private)) is not None and work.table.exists():
            desk.work, work.site = work, desk.site
    shutil.rmtree(found.private.parent, ignore_errors=True)
    return "columns" if "go-on" in sent else desk.first_screen


def _work(desk: Desk) -> Work:
    if desk.work is None:
        raise UsageError("There is no table. Begin with one.")
    return desk.work


FORMS: dict[str, Take] = {
    "start-example": _example,
    "start-go-on": _go_on,
    "start-replace": _replace,
    "columns": _columns,
    "columns-written": _written,
    "strength": _strength,
    "try": _try,
    "try-choose": _choose,
    "release": _release,
    "look": _look,
    "look-person": _find,
    "push": _push,
    "push-send": _send,
    "stop": _stop,
    "language": _language,
    "end": _end,
}
