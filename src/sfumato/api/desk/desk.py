"""One desk: what is being worked on, and which screen shows what."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sfumato.api.desk import screens
from sfumato.api.desk.door import Door, Part, RefusedError
from sfumato.api.desk.heard import sentence_of
from sfumato.api.desk.job import DONE, Job, Site
from sfumato.api.desk.pages import FILES, REPORT_POLICY, Answer, page
from sfumato.api.desk.words import ENGLISH, language_of
from sfumato.api.desk.work import LOOK, PUSH, STEPS, Work
from sfumato.core.errors import OutputError, SfumatoError, UsageError
from sfumato.core.files import explained, lock_of, sole_writer

PREFIX = "sfumato-desk-"
MOMENT = 60.0
KINDS = (".csv", ".tsv", ".txt", ".parquet", ".arrow", ".feather", ".xlsx", ".ods", ".sav", ".dta", ".xpt", ".sas7bdat")
"""Endings that readers go by; a dropped file keeps its own if it is one of these."""
NO_TABLE = (
    "{name} is no table. Choose CSV, Excel, Parquet, SPSS, Stata or SAS; other programs can save as one of these."
)
JOB_SCREENS = {"release": "release", "audit": LOOK, "find": LOOK, "compare": "try", "show": PUSH, "push": PUSH}
"""Where a job is told of when it has ended; one that reads, on the first screen."""
Stored = tuple[Path, str]  # a file of ours, and its owner's name for it
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
    lost: str = ""
    """The owner's name for a dropped table that such a desk was working on, and that is gone with it."""
    pending: Mapping[str, Stored] | None = None
    """Files that came while another table is worked on: the owner is asked first."""
    goes_on: bool = False
    """Whether the step after COLUMNS comes once the table is read."""
    spoken: str = ENGLISH
    """The language of the page that was shown last."""
    over: bool = False
    """Whether its owner ended it: it is `ended` once the page that says so was sent."""
    ended: threading.Event = field(default_factory=threading.Event)
    last_asked: float = field(default_factory=time.monotonic)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    @classmethod
    @contextlib.contextmanager
    def begun(
        cls, table: Path | None, door: Door, forms: Mapping[str, Take], site: Site | None = None
    ) -> Iterator[Desk]:
        """A desk with a private folder of its own, which is gone at the end, whatever happens."""
        left_behind, lost = _tidy()
        folder = Path(tempfile.mkdtemp(prefix=PREFIX))  # 0700
        with sole_writer(folder / "open"):
            desk = cls(door, folder, forms, site, left_behind=left_behind, lost=lost)
            try:
                if table is not None:
                    desk.begin_work(table.resolve(), table.name)
                yield desk
            finally:
                if desk.job is not None and desk.job.running:
                    desk.job.stop()
                shutil.rmtree(folder, ignore_errors=True)
        shutil.rmtree(folder, ignore_errors=True)  # Windows kept the lock, which was open

    @property
    def first_screen(self) -> str:
        return "start" if self.work is None else self.work.screens[0]

    @property
    def there(self) -> tuple[str, ...]:
        """The screens that can be shown now."""
        return ("start", *(() if self.work is None else self.work.screens))

    @property
    def busy(self) -> bool:
        return self.job is not None and self.job.running

    def show(self, screen: str, languages: str, *, watching: bool = False) -> Answer:
        """The page of a screen, or a file of the release. `watching`: the script looks whether a job has ended; what is
        shown once is not yet shown by that."""
        with self._lock:
            self.last_asked = time.monotonic()
            language = self.spoken = self.language or language_of(languages)
            if (other := self._instead_of(screen)) is not None:
                return other
            while True:
                if self.goes_on and not self.busy and not watching:
                    self.goes_on = False
                    if screen == STEPS[0] and self.job is not None and self.job.state == DONE:
                        return self._to(STEPS[1])
                over = not self.busy  # beforehand: what comes while the page is made is not on it
                answer = page(screen, language, self._values(screen, language))
                if over or self.busy:  # else it ended while the page was made, which says half of that
                    break
            if over and not watching:
                self.notice, self.person_found = "", None
            return answer

    def _instead_of(self, screen: str) -> Answer | None:
        """A file, or the way to the first screen where the work has no such one; None where it has."""
        if screen.startswith("files/"):
            return self._file(screen.removeprefix("files/"))
        if screen not in SCREENS:
            raise RefusedError(404, "There is no such page.")
        return None if screen in self.there else self._to(self.first_screen)

    def answer(self, screen: str, told: str, **more: Any) -> Answer:
        """A form is answered with its page: why it was not taken, and what stood in it, which is kept nowhere."""
        values = {**self._values(screen, self.spoken), **more}
        return page(screen, self.spoken, {**values, "desk": replace(self, notice=told)})

    @property
    def job_screen(self) -> str:
        """Where it is told how the job ended."""
        return "" if self.job is None else JOB_SCREENS.get(self.job.name, self.first_screen)

    def take(self, screen: str, sent: Mapping[str, str]) -> Answer:
        """Do what a form says, once. A form that was sent before, or is older than another, does nothing."""
        with self._lock:
            self.last_asked = time.monotonic()
            if screen not in self.forms:
                raise RefusedError(404, "There is no such page.")
            if not self.door.check_number(sent["number"]):
                return self._back(screen, "old_form")
            if self.busy and screen not in WHILE_BUSY:
                return self._back(screen, BUSY)
            self.door.next_number()
            self.person_found = None
            try:
                found = self.forms[screen](self, sent)
                if self.work is not None:
                    self.work.keep()
                return found if isinstance(found, Answer) else self._to(found)
            except SfumatoError as error:
                return self._back(screen, sentence_of(error))

    def take_files(self, screen: str, parts: Iterator[Part]) -> Answer:
        """Store dropped files privately, and go on with them."""
        if screen != "drop":
            raise RefusedError(404, "There is no such page.")
        if self.busy:
            raise RefusedError(409, BUSY)
        stored, wrong = self._store(parts)
        with self._lock:
            self.last_asked = time.monotonic()
            self.door.next_number()
            try:
                if wrong is not None:
                    raise wrong
                if "outside" in stored and self.work is not None:
                    self.work.outside = stored["outside"]
                    self.forget_dropped()
                    return self._to(LOOK)
                if not ("table" in stored or {"original", "release"} <= stored.keys()):
                    raise UsageError("No file came with the form. Choose a table first.")
                return self._to(self.offer(stored))
            except SfumatoError as error:
                self.notice = sentence_of(error)
                self.forget_dropped()
                return self._to(LOOK if "outside" in stored and self.work is not None else "start")

    def _to(self, screen: str) -> Answer:
        return Answer(b"", 303, {"Location": self.door.root + screen})

    def _back(self, form: str, notice: str) -> Answer:
        """To where a form stands that could not be taken, and why."""
        self.notice, screen = notice, form.partition("-")[0]
        return self._to(screen if screen in self.there else self.first_screen)

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

    def begin_work(self, table: Path, name: str) -> Work:
        """Take up a table, and read what its columns are."""
        private = Path(tempfile.mkdtemp(prefix="work-", dir=self.folder))
        if self.work is not None:
            shutil.rmtree(self.work.private, ignore_errors=True)
        self.work, self.push_shown, self.lost = Work(table, name, private, site=self.site), None, ""
        self.read(self.work)
        return self.work

    def read(self, work: Work, label: str | None = None, person: str | None = None) -> None:
        """Read the columns (again), where these two have another meaning now."""
        work.stamp = work.stamp_now
        asked = {"table": work.as_asked(), "label": label, "person": person, "schema": str(work.schema_file)}
        asked["study"] = None if work.site is None else str(work.site.file)

        def then(found: Mapping[str, Any]) -> None:
            work.label, work.person, work.rows, work.notes = label, person, found["rows"], tuple(found["told"])
            work.dotted = found["dotted"]
            work.keep()

        self.begin("read", asked, then)

    def begin(self, name: str, asked: Mapping[str, Any], then: Callable[[Any], None]) -> None:
        """Start a job; one at a time."""
        if self.busy:
            raise UsageError(BUSY)
        self.goes_on = False
        self.job = Job(name, asked, then)

    def _store(self, parts: Iterator[Part]) -> tuple[dict[str, Stored], UsageError | None]:
        """Files in a private folder, named by us, and what is wrong with one; an interrupted upload leaves none."""
        private, wrong = Path(tempfile.mkdtemp(prefix="dropped-", dir=self.folder)), None
        stored = dict[str, Stored]()
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
                stored[part.name] = file, shown
                if not shown:
                    wrong = UsageError("No file came with the form. Choose a table first.")
                elif not file.stat().st_size:
                    wrong = UsageError("The file {name} is empty.", name=shown)
                elif ending not in KINDS:  # a document or a program, and no table that somebody named otherwise
                    with file.open("rb") as opened:
                        head = opened.read(1 << 12)
                    plain = b"\0" not in head or head.startswith((b"\xff\xfe", b"\xfe\xff"))
                    wrong = wrong if plain and not head.startswith(b"%PDF") else UsageError(NO_TABLE, name=shown)
        except BaseException:
            shutil.rmtree(private, ignore_errors=True)
            raise
        return stored, wrong

    def offer(self, stored: Mapping[str, Stored]) -> str:
        """Take files up, unless that would give up what another table has come to: then it is asked first."""
        if self.work is not None and self.work.is_read:
            self.pending = stored
            return "start"
        return self.take_up(stored)

    def take_up(self, stored: Mapping[str, Stored]) -> str:
        """Begin with a table, or with the release of another tool; older copies of ours are removed."""
        work, self.pending = self.begin_work(*(stored.get("table") or stored["original"])), None
        if "release" in stored:
            (work.foreign, work.foreign_name), work.site = stored["release"], None
        self.forget_dropped()
        return self.first_screen

    def forget_dropped(self) -> None:
        """Remove copies that nothing here is made of any more."""
        files = [file for file, _ in (self.pending or {}).values()]
        if self.work is not None:
            files += [self.work.table, *([self.work.foreign] if self.work.foreign else [])]
            files += [self.work.outside[0]] if self.work.outside else []
        for folder in set(self.folder.glob("dropped-*")) - {file.parent for file in files}:
            shutil.rmtree(folder, ignore_errors=True)

    def _file(self, name: str) -> Answer:
        """Pages keep the policy that they were written under."""
        if self.work is None or self.work.out is None or name not in FILES or not (self.work.out / name).is_file():
            raise RefusedError(404, "There is no such file.")
        attached = {"Content-Disposition": f'attachment; filename="{name}"'}
        policy = {"Content-Security-Policy": REPORT_POLICY} if name.endswith(".html") else attached
        return Answer(self.work.out / name, 200, {"Content-Type": FILES[name], **policy})


def _tidy() -> tuple[Work | None, str]:
    """Remove what desks left that did not come to their end, dropped tables among it; the last work on a table that
    its owner named is kept, to be gone on with. Of a dropped one that was worked on, its name is told."""
    kept: Work | None = None
    lost = ""
    for folder in sorted(Path(tempfile.gettempdir()).glob(f"{PREFIX}*"), key=_when):
        with contextlib.suppress(OSError, OutputError):  # it is in use, or another's
            # In a folder that everybody may write to, others may have laid something out for us; and another desk makes
            # its folder a moment before it locks it.
            ours = not hasattr(os, "getuid") or folder.stat().st_uid == os.getuid()
            being_made = not lock_of(folder / "open").exists() and time.time() - _when(folder) < MOMENT
            if folder.is_symlink() or not ours or being_made:
                continue
            with sole_writer(folder / "open"):
                noted = [*filter(None, map(Work.kept, folder.glob("work-*")))]
            works = [work for work in noted if work.table.exists() and not work.is_dropped]
            if not works:
                lost = next((work.name for work in noted if work.is_dropped), lost)
                shutil.rmtree(folder, ignore_errors=True)
                continue
            if kept is not None:
                shutil.rmtree(kept.private.parent, ignore_errors=True)
            kept = works[-1]
            for dropped in folder.glob("dropped-*"):
                shutil.rmtree(dropped, ignore_errors=True)
    return kept, lost


def _when(folder: Path) -> float:
    return folder.stat().st_mtime if folder.exists() else 0.0
