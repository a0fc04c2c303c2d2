"""One desk: what is being worked on, which screen shows what, and what each form does."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sfumato.api.demo import example_table
from sfumato.api.desk import screens
from sfumato.api.desk.door import Door, RefusedError
from sfumato.api.desk.job import Job
from sfumato.api.desk.pages import FILES, Answer, file_answer, page, without_options
from sfumato.api.desk.upload import Part
from sfumato.api.desk.words import ENGLISH, LANGUAGES, language_of
from sfumato.api.desk.work import STEPS, Work
from sfumato.core.errors import OutputError, SfumatoError, UsageError
from sfumato.core.files import explained, lock_of, sole_writer
from sfumato.table import write_table

PREFIX = "sfumato-desk-"
MOMENT = 60.0
SCREENS = ("start", *STEPS)
KINDS = (".csv", ".tsv", ".txt", ".parquet", ".arrow", ".feather", ".xlsx", ".ods", ".sav", ".dta", ".xpt", ".sas7bdat")
"""Endings that readers go by; a dropped file keeps its own if it is one of these."""
WHILE_BUSY = ("stop", "language", "end")
"""Forms that are taken while a job works on what the others would change."""
BUSY = "A job is running. Wait for it, or stop it."
Take = Callable[["Desk", Mapping[str, str]], "str | Answer"]
"""What a form does; it names the screen that comes next, or gives the page itself."""


@dataclass
class Desk:
    """The state of one desk. Requests come in threads of their own, and one at a time passes here."""

    door: Door
    folder: Path
    work: Work | None = None
    job: Job | None = None
    notice: str = ""
    person_found: Mapping[str, Any] | None = None
    """What attackers found about one person: shown once, kept nowhere."""
    language: str | None = None
    left_behind: Work | None = None
    """What a desk that was killed was working on."""
    ended: threading.Event = field(default_factory=threading.Event)
    last_asked: float = field(default_factory=time.monotonic)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    @classmethod
    @contextlib.contextmanager
    def begun(cls, table: Path | None, door: Door) -> Iterator[Desk]:
        """A desk with a private folder of its own, which is gone at the end, whatever happens."""
        left_behind = _tidy()
        folder = Path(tempfile.mkdtemp(prefix=PREFIX))  # 0700
        with sole_writer(folder / "open"):
            desk = cls(door, folder, left_behind=left_behind)
            try:
                if table is not None:
                    desk.begin_work(table.resolve(), table.name)
                yield desk
            finally:
                if desk.job is not None and desk.job.running:
                    desk.job.stop()
                shutil.rmtree(folder, ignore_errors=True)

    # What is asked

    @property
    def first_screen(self) -> str:
        return "start" if self.work is None else self.work.first_screen

    @property
    def busy(self) -> bool:
        return self.job is not None and self.job.running

    def show(self, screen: str, languages: str, *, watching: bool = False) -> Answer:
        """The page of a screen, or a file of the release. `watching`: the script looks whether a job has ended; what is
        shown once is not yet shown by that."""
        with self._lock:
            self.last_asked = time.monotonic()
            language = self.language or language_of(languages)
            if screen.startswith("files/"):
                return self._file(screen.removeprefix("files/"))
            if screen not in SCREENS:
                raise RefusedError(404, "There is no such page.")
            if screen != "start" and (self.work is None or screen not in self.work.screens):
                return self._to(self.first_screen)
            over = not self.busy  # beforehand: what comes while the page is made is not on it
            answer = page(screen, language, self._values(screen, language))
            if over and not watching:
                self.notice, self.person_found = "", None
            return answer

    def take(self, screen: str, sent: Mapping[str, str]) -> Answer:
        """Do what a form says, once. A form that was sent before, or is older than another, does nothing."""
        with self._lock:
            self.last_asked = time.monotonic()
            if screen not in FORMS:
                raise RefusedError(404, "There is no such page.")
            if not self.door.check_number(sent["number"]):
                self.notice = "old_form"
                return self._to(self._screen_of(screen))
            if self.busy and screen not in WHILE_BUSY:
                self.notice = BUSY
                return self._to(self._screen_of(screen))
            self.door.next_number()
            self.person_found = None
            try:
                found = FORMS[screen](self, sent)
                if self.work is not None:
                    self.work.keep()
                return found if isinstance(found, Answer) else self._to(found)
            except SfumatoError as error:
                self.notice = str(error)
                return self._to(self._screen_of(screen))

    def take_files(self, screen: str, parts: Iterator[Part]) -> Answer:
        """Store dropped files privately, and go on with them."""
        if screen != "drop":
            raise RefusedError(404, "There is no such page.")
        if self.busy:
            raise RefusedError(409, BUSY)
        stored = self._store(parts)
        with self._lock:
            self.last_asked = time.monotonic()
            self.door.next_number()
            try:
                self._begin_dropped(stored)
            except SfumatoError as error:
                self.notice = str(error)
                return self._to("start")
            return self._to(self.first_screen)

    def _to(self, screen: str) -> Answer:
        return Answer(b"", 303, {"Location": self.door.root + screen})

    def _screen_of(self, form: str) -> str:
        """Where a form stands that could not be taken."""
        screen = form.partition("-")[0]
        return screen if screen == "start" or (self.work and screen in self.work.screens) else self.first_screen

    def plainly(self, told: str) -> str:
        """A sentence of the engine as pages say it: without options, and with the name that the owner knows."""
        work = self.work
        return without_options(told if work is None else told.replace(str(work.table), work.name))

    def _values(self, screen: str, language: str) -> dict[str, Any]:
        work = self.work
        values: dict[str, Any] = {"desk": self, "work": work, "job": self.job, "screen": screen, "root": self.door.root}
        values["steps"] = screens.steps(work, screen, language)
        if work is not None:
            values |= screens.written(work)
        if work is not None and screen != "start" and (work.is_read or screen == "look"):
            values |= screens.SHOWN[screen](work, language)
        return values

    # Tables

    def begin_work(self, table: Path, name: str) -> Work:
        """Take up a table, and read what its columns are."""
        private = Path(tempfile.mkdtemp(prefix="work-", dir=self.folder))
        if self.work is not None:
            shutil.rmtree(self.work.private, ignore_errors=True)
        self.work = Work(table, name, private)
        self.read(self.work)
        return self.work

    def read(self, work: Work, label: str | None = None, person: str | None = None) -> None:
        """Read the columns (again), where these two have another meaning now."""
        asked = {"table": work.as_asked(), "label": label, "person": person, "schema": str(work.schema_file)}

        def then(found: Mapping[str, Any]) -> None:
            work.label, work.person, work.rows, work.notes = label, person, found["rows"], tuple(found["told"])
            work.keep()

        self.begin("read", asked, then)

    def begin(self, name: str, asked: Mapping[str, Any], then: Callable[[Any], None]) -> None:
        """Start a job; one at a time."""
        if self.busy:
            raise UsageError(BUSY)
        self.job = Job(name, asked, then)

    def _store(self, parts: Iterator[Part]) -> dict[str, tuple[Path, str]]:
        """Files in a private folder, under names of ours; an interrupted upload leaves nothing."""
        private = Path(tempfile.mkdtemp(prefix="dropped-", dir=self.folder))
        stored = dict[str, tuple[Path, str]]()
        try:
            for part in parts:
                if part.filename is None:
                    continue
                shown = part.filename.replace("\\", "/").rpartition("/")[2][:200]
                ending = Path(shown).suffix.lower()
                file = private / f"{len(stored)}{ending if ending in KINDS else '.csv'}"
                with explained(file), open(file, "xb", opener=_privately) as out:
                    for piece in part.content:
                        out.write(piece)
                if file.stat().st_size:
                    stored[part.name] = file, shown
        except BaseException:
            shutil.rmtree(private, ignore_errors=True)
            raise
        return stored

    def _begin_dropped(self, stored: Mapping[str, tuple[Path, str]]) -> None:
        if "table" in stored:
            self.begin_work(*stored["table"])
            return
        if "original" in stored and "release" in stored:
            work = self.begin_work(*stored["original"])
            work.foreign, work.foreign_name = stored["release"]
            return
        raise UsageError("No file came with the form. Choose a table first.")

    # Files of the release

    def _file(self, name: str) -> Answer:
        work = self.work
        if work is None or work.out is None or name not in FILES:
            raise RefusedError(404, "There is no such file.")
        path = work.out / name
        if not path.is_file():
            raise RefusedError(404, "There is no such file.")
        return file_answer(path)


def _privately(name: str, flags: int) -> int:
    return os.open(name, flags, 0o600)


def _tidy() -> Work | None:
    """Remove what desks left that did not come to their end, dropped tables among it; the last work on a table that
    its owner named is kept, to be gone on with."""
    kept: Work | None = None
    for folder in sorted(Path(tempfile.gettempdir()).glob(f"{PREFIX}*"), key=_when):
        with contextlib.suppress(OSError, OutputError):  # it is in use, or another's
            if folder.is_symlink() or not _is_ours(folder) or _is_being_made(folder):
                continue
            with sole_writer(folder / "open"):
                works = [work for one in folder.glob("work-*") if (work := Work.kept(one)) is not None]
                if not works:
                    shutil.rmtree(folder, ignore_errors=True)
                    continue
            if kept is not None:
                shutil.rmtree(kept.private.parent, ignore_errors=True)
            kept = works[-1]
            for dropped in folder.glob("dropped-*"):
                shutil.rmtree(dropped, ignore_errors=True)
    return kept


def _when(folder: Path) -> float:
    return folder.stat().st_mtime if folder.exists() else 0.0


def _is_being_made(folder: Path) -> bool:
    """Another desk makes its folder a moment before it locks it."""
    return not lock_of(folder / "open").exists() and time.time() - _when(folder) < MOMENT


def _is_ours(folder: Path) -> bool:
    """In a folder that everybody may write to, others may have laid something out for us."""
    return not hasattr(os, "getuid") or folder.stat().st_uid == os.getuid()


# What each form does


def _example(desk: Desk, sent: Mapping[str, str]) -> str:  # noqa: ARG001
    private = Path(tempfile.mkdtemp(prefix="dropped-", dir=desk.folder))
    file = private / "patients.csv"
    write_table(example_table(), file)
    file.chmod(0o600)
    desk.begin_work(file, file.name)
    return "columns"


def _written(desk: Desk, sent: Mapping[str, str]) -> str:
    """How the file is written: it is read again."""
    work = _work(desk)
    work.take_written(sent)
    work.schema_file.unlink(missing_ok=True)
    desk.read(work)
    return work.first_screen


def _columns(desk: Desk, sent: Mapping[str, str]) -> str:
    work = _work(desk)
    work.take_columns(sent)
    roles = sent.get("label") or None, sent.get("person") or None
    if roles != (work.label, work.person):
        desk.read(work, *roles)
        return "columns"
    return "columns" if work.mistakes or "next" not in sent else "strength"


def _strength(desk: Desk, sent: Mapping[str, str]) -> str:
    work = _work(desk)
    work.take_strength(sent)
    return "release" if "next" in sent else "strength"


def _release(desk: Desk, sent: Mapping[str, str]) -> str:
    work = _work(desk)
    missing = [box for box in screens.understood(work) if box not in sent]
    if missing:
        raise UsageError("Tick what you have read before you release.")
    out = Path(sent.get("folder", "").strip() or screens.proposed_folder(work)).expanduser()
    if not out.is_absolute():
        raise UsageError("Give the whole path of the folder.")
    keywords = work.keywords(out, measured_only="measured" in sent)

    def then(found: Mapping[str, Any]) -> None:
        work.out, work.released = out, found

    desk.begin("release", {"table": work.as_asked(), "keywords": keywords}, then)
    return "release"


def _look(desk: Desk, sent: Mapping[str, str]) -> str:
    """Attack the release; from here on the table was looked at."""
    work = _work(desk)
    if work.out is None and work.foreign is None:
        raise UsageError("There is no release yet. Release first.")
    work.take_look(sent)
    release, keywords, folder = screens.audit_asked(work)

    def then(found: Mapping[str, Any]) -> None:
        work.audit, work.sides = found["audit"], found["sides"]
        work.out = work.out or work.private

    desk.begin("audit", {"release": release, "keywords": keywords, "folder": folder}, then)
    return "look"


def _find(desk: Desk, sent: Mapping[str, str]) -> str:
    """Look for one person; whoever sees the answer and chooses anew has looked at private rows."""
    work = _work(desk)
    if work.out is None and work.foreign is None:
        raise UsageError("Release first. Then attackers can look for a person in it.")
    work.take_look(sent)
    release, keywords, _ = screens.audit_asked(work)
    keywords.pop("match", None)
    person = {name: sent.get(f"value-{place}", "") for place, name in screens.person_fields(work)}

    def then(found: Mapping[str, Any]) -> None:
        desk.person_found = found

    desk.begin("find", {"release": release, "keywords": keywords, "person": person}, then)
    return "look"


def _try(desk: Desk, sent: Mapping[str, str]) -> str:  # noqa: ARG001
    """Try settings on the table itself: whoever chooses by them has looked at private rows."""
    work = _work(desk)
    work.looked = True
    out = work.private / "compare"
    schema = work.schema
    keywords = {"schema": str(work.schema_file), "label": None if schema.label is None else schema.label.name}

    def then(found: Mapping[str, Any]) -> None:
        work.compared = found["compared"]

    desk.begin("compare", {"table": work.as_asked(), "out": str(out), "keywords": keywords}, then)
    return "try"


def _choose(desk: Desk, sent: Mapping[str, str]) -> str:
    work = _work(desk)
    work.choose(sent.get("setting", ""))
    return "release"


def _stop(desk: Desk, sent: Mapping[str, str]) -> str:  # noqa: ARG001
    if desk.job is not None and desk.job.running:
        desk.job.stop()
        desk.notice = "stopped"
    return desk.first_screen


def _language(desk: Desk, sent: Mapping[str, str]) -> str:
    desk.language = sent.get("language") if sent.get("language") in LANGUAGES else None
    return sent.get("screen", "") if sent.get("screen", "") in SCREENS else desk.first_screen


def _end(desk: Desk, sent: Mapping[str, str]) -> Answer:  # noqa: ARG001
    desk.ended.set()
    return page("ended", desk.language or ENGLISH, {})


def _go_on(desk: Desk, sent: Mapping[str, str]) -> str:
    """Take up the work of a desk that was killed, or remove what is left of it."""
    found, desk.left_behind = desk.left_behind, None
    if found is None or "go-on" not in sent:
        if found is not None:
            shutil.rmtree(found.private.parent, ignore_errors=True)
        return desk.first_screen
    private = Path(tempfile.mkdtemp(prefix="work-", dir=desk.folder))
    shutil.copytree(found.private, private, dirs_exist_ok=True)
    shutil.rmtree(found.private.parent, ignore_errors=True)
    desk.work = Work.kept(private)
    return "columns"


def _work(desk: Desk) -> Work:
    if desk.work is None:
        raise UsageError("There is no table. Begin with one.")
    return desk.work


FORMS: dict[str, Take] = {
    "start-example": _example,
    "start-go-on": _go_on,
    "columns": _columns,
    "columns-written": _written,
    "strength": _strength,
    "try": _try,
    "try-choose": _choose,
    "release": _release,
    "look": _look,
    "look-person": _find,
    "stop": _stop,
    "language": _language,
    "end": _end,
}
