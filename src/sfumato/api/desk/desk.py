"""One desk: what is being worked on, and which screen shows what."""

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

from sfumato.api.desk import screens
from sfumato.api.desk.door import Door, RefusedError
from sfumato.api.desk.heard import sentence_of
from sfumato.api.desk.job import Job
from sfumato.api.desk.pages import FILES, Answer, file_answer, page
from sfumato.api.desk.site import Site
from sfumato.api.desk.upload import Part
from sfumato.api.desk.words import language_of
from sfumato.api.desk.work import LOOK, PUSH, STEPS, Work
from sfumato.core.errors import OutputError, SfumatoError, UsageError
from sfumato.core.files import explained, lock_of, sole_writer

PREFIX = "sfumato-desk-"
MOMENT = 60.0
KINDS = (".csv", ".tsv", ".txt", ".parquet", ".arrow", ".feather", ".xlsx", ".ods", ".sav", ".dta", ".xpt", ".sas7bdat")
"""Endings that readers go by; a dropped file keeps its own if it is one of these."""
SCREENS = ("start", *STEPS, PUSH)
WHILE_BUSY = ("stop", "language", "end")
"""Forms that are taken while a job works on what the others would change."""
Take = Callable[["Desk", Mapping[str, str]], "str | Answer"]
"""What a form does; it names the screen that comes next, or gives the page itself."""
BUSY = "A job is running. Wait for it, or stop it."


@dataclass
class Desk:
    """The state of one desk. Requests come in threads of their own, and one at a time passes here."""

    door: Door
    folder: Path
    forms: Mapping[str, Take]
    site: Site | None = None
    work: Work | None = None
    job: Job | None = None
    notice: str = ""
    person_found: Mapping[str, Any] | None = None
    """What attackers found about one person: shown once, kept nowhere."""
    push_shown: Mapping[str, Any] | None = None
    """What would leave this site, as it was shown last; only that is sent."""
    language: str | None = None
    left_behind: Work | None = None
    """What a desk that was killed was working on."""
    ended: threading.Event = field(default_factory=threading.Event)
    last_asked: float = field(default_factory=time.monotonic)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    @classmethod
    @contextlib.contextmanager
    def begun(
        cls, table: Path | None, door: Door, forms: Mapping[str, Take], site: Site | None = None
    ) -> Iterator[Desk]:
        """A desk with a private folder of its own, which is gone at the end, whatever happens."""
        left_behind = _tidy()
        folder = Path(tempfile.mkdtemp(prefix=PREFIX))  # 0700
        with sole_writer(folder / "open"):
            desk = cls(door, folder, forms, site, left_behind=left_behind)
            try:
                if table is not None:
                    desk.begin_work(table.resolve(), table.name)
                yield desk
            finally:
                if desk.job is not None and desk.job.running:
                    desk.job.stop()
                shutil.rmtree(folder, ignore_errors=True)
        shutil.rmtree(folder, ignore_errors=True)  # Windows kept the lock, which was open

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
            if screen not in self.forms:
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
                found = self.forms[screen](self, sent)
                if self.work is not None:
                    self.work.keep()
                return found if isinstance(found, Answer) else self._to(found)
            except SfumatoError as error:
                self.notice = sentence_of(error)
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
                return self._to(self._begin_dropped(stored))
            except SfumatoError as error:
                self.notice = sentence_of(error)
                return self._to("start")

    def _to(self, screen: str) -> Answer:
        return Answer(b"", 303, {"Location": self.door.root + screen})

    def _screen_of(self, form: str) -> str:
        """Where a form stands that could not be taken."""
        screen = form.partition("-")[0]
        return screen if screen == "start" or (self.work and screen in self.work.screens) else self.first_screen

    def plainly(self, told: str) -> str:
        """A sentence with the table's name that the owner knows, in place of where it lies."""
        return told if self.work is None else told.replace(str(self.work.table), self.work.name)

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
        self.work, self.push_shown = Work(table, name, private, site=self.site), None
        self.read(self.work)
        return self.work

    def read(self, work: Work, label: str | None = None, person: str | None = None) -> None:
        """Read the columns (again), where these two have another meaning now."""
        asked = {"table": work.as_asked(), "label": label, "person": person, "schema": str(work.schema_file)}
        asked["study"] = None if work.site is None else str(work.site.file)

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
                with explained(file), open(file, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as out:
                    for piece in part.content:
                        out.write(piece)
                if file.stat().st_size:
                    stored[part.name] = file, shown
        except BaseException:
            shutil.rmtree(private, ignore_errors=True)
            raise
        return stored

    def _begin_dropped(self, stored: Mapping[str, tuple[Path, str]]) -> str:
        """What comes next."""
        if "table" in stored:
            self.begin_work(*stored["table"])
        elif "original" in stored and "release" in stored:
            work = self.begin_work(*stored["original"])
            (work.foreign, work.foreign_name), work.site = stored["release"], None
        elif "outside" in stored and self.work is not None:
            self.work.outside = stored["outside"]
            return LOOK
        else:
            raise UsageError("No file came with the form. Choose a table first.")
        return self.first_screen

    # Files of the release

    def _file(self, name: str) -> Answer:
        if self.work is None or self.work.out is None or name not in FILES or not (self.work.out / name).is_file():
            raise RefusedError(404, "There is no such file.")
        return file_answer(self.work.out / name)


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
