"""A long job of the desk: a child process that runs one function of Python users, tells how far it is, can be stopped.

A process of its own, so that every screen stays quick while it runs, and so that stopping it stops all of it. What it
is asked and what it answers travels through pipes: never in arguments, which other accounts of the computer can read.
"""

from __future__ import annotations

import _thread
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from sfumato.api.desk.heard import packed, sentence_of, unpacked
from sfumato.core.errors import CardError, SfumatoError
from sfumato.core.progress import Progress
from sfumato.core.wording import said
from sfumato.guarantee.words import card_in_words
from sfumato.release.asked import Terms

if TYPE_CHECKING:
    from sfumato.study.client import Coordinator


@dataclass(frozen=True)
class Site:
    """Which study the site takes part in, by its own copy of the study file, and where the coordinator is.

    The token stays in its file or variable: only the job that speaks with the coordinator reads it.
    """

    file: Path
    study: str
    to: str
    token_file: Path | None = None
    insecure_http: bool = False

    @cached_property
    def terms(self) -> Terms:
        """What the study settles."""
        from sfumato.api.sanitize import study_terms

        return study_terms(self.file)

    def check(self) -> None:
        """Refuse what could not be pushed in the end, before any work is done for it."""
        from sfumato.study.client.connection import read_token

        self.terms  # noqa: B018 (read, and refused where it is none)
        self.connected(read_token(self.token_file)).__exit__()

    def connected(self, token: str) -> Coordinator:
        from sfumato.study.client.coordinator import Coordinator, site_signer

        return Coordinator(self.to, token, insecure_http=self.insecure_http, signer=site_signer())


def push(asked: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
    """What would leave, in words; sent only where what is `sent` is just what was shown."""
    from sfumato.core.wording import plain
    from sfumato.study.client import carry_out, plan_push
    from sfumato.study.client.connection import read_token

    said = asked["site"]
    token_file = None if said["token_file"] is None else Path(said["token_file"])
    site = Site(**{**said, "file": Path(said["file"]), "token_file": token_file})
    with site.connected(read_token(token_file)) as connected:
        plan = plan_push(connected, asked["folder"], site.study, study_hash=site.terms.hash)
        told, parcel = plan.to_dict(), plan.parcel
        facts = {name: told[name] for name in ("file", "bytes", "rows", "server", "study_name", "study", "study_hash")}
        shown = {
            **facts,
            "sha256": parcel.sha256,
            "columns": None if plan.counts else told["columns"],
            "counts": plan.counts,
            "proof": parcel.card.all_releases().bottom_line(),
            "card": card_in_words(parcel.card),
            "objections": list(plan.objections),
        }
        if asked.get("sent") is None:
            return {"shown": shown}
        if asked["sent"] != plan.parcel.sha256:
            raise CardError("The release changed since it was shown. Nothing was sent: look at it again.")
        receipt = carry_out(plan, connected, progress=progress).receipt
    return {"shown": shown, "receipt": {"site": plain(receipt.site), "bytes": receipt.bytes, "rows": receipt.rows}}


# A consortium's site: the study that its release is made for, and the push, as `sfumato study push` does it.

RUNNING, DONE, STOPPED, FAILED = "running", "done", "stopped", "failed"
PATIENCE = 10.0  # seconds that a child has to tidy up once it is told to stop
NOT_SAID = "It ended without saying why, perhaps for want of memory. Nothing was released."
QUIET_SECONDS = 0.2  # between two words of the same step
ROWS_SHOWN = 5
NOT_NOTED = ("IdentifierWarning", "PrivacyLeakWarning")
UNEXPECTED = "Something went wrong that should not have ({kind}). Nothing was released."
# A child in a new group is not reached by a Ctrl-C that ends the desk, which stops it in its own way.
_APART: dict[str, Any] = (
    {"creationflags": getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)}
    if os.name == "nt"
    else {"start_new_session": True}
)


class Job:
    """One call of a function by its name, in a child. `then` is told the answer as soon as it is there."""

    def __init__(self, name: str, asked: Mapping[str, Any], then: Callable[[Any], None]) -> None:
        self.name, self.state = name, RUNNING
        self.step, self.done, self.total = "", 0, 0
        self.error = ""
        self._then, self._began = then, time.monotonic()
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "sfumato.api.desk.job"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            **_APART,
        )
        self._reader = threading.Thread(
            target=self._read, args=(json.dumps({"job": name, **asked}, default=str),), daemon=True
        )
        self._reader.start()

    @property
    def running(self) -> bool:
        return self.state == RUNNING

    @property
    def share(self) -> float | None:
        """How much of the present step is done; None while that is unknown."""
        return min(1.0, self.done / self.total) if self.total else None

    @property
    def seconds_left(self) -> float | None:
        """Of the present step, if it goes on as it went."""
        share, passed = self.share, time.monotonic() - self._began
        return passed * (1 - share) / share if share and passed > 1 else None

    def wait(self, seconds: float | None = None) -> None:
        """Until it ended, and its answer was passed on."""
        self._reader.join(seconds)

    def stop(self) -> None:
        """End it and wait until it is gone."""
        if self.running:
            self.state = STOPPED
        self._let_go()
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if threading.current_thread() is not self._reader:
            self._reader.join(PATIENCE)

    def _let_go(self) -> None:
        """The child ends when this end of its pipe is closed, by us or because we died: on Windows too, where no signal
        would let it tidy up."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError, ValueError):
            self._process.stdin.close()

    def _read(self, asked: str) -> None:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        with contextlib.suppress(OSError, ValueError):  # it died at once, or was stopped
            stdin.write(asked.encode() + b"\n")
            stdin.flush()
        answer = None
        for line in stdout:  # until it ends; the last word is its answer
            word: dict[str, Any] = json.loads(line, object_hook=unpacked)
            if "step" not in word:
                answer = word
                continue
            if word["step"] != self.step:
                self._began = time.monotonic()
            self.step, self.done, self.total = word["step"], word["done"], word["total"] or 0
        self._let_go()
        stdout.close()
        self._process.wait()
        if self.state != RUNNING:
            return
        if answer is None or "error" in answer:
            self.state, self.error = FAILED, NOT_SAID if answer is None else answer["error"]
            return
        try:
            self._then(answer["result"])
            self.state = DONE
        except SfumatoError as error:  # the answer could not be kept
            self.state, self.error = FAILED, sentence_of(error)


# What runs in the child.


def main() -> None:
    """Read what is asked, do it, answer in one line."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever a library prints goes nowhere
    asked = json.loads(sys.stdin.buffer.readline())
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell that starts us in the background ignores it
    # Nothing may wait on standard input itself: on Windows numpy, which asks what it is when loaded, would wait too.
    held = os.dup(0)
    with Path(os.devnull).open() as nothing:
        os.dup2(nothing.fileno(), 0)
    threading.Thread(target=_end_with_the_desk, args=(held, threading.main_thread().ident), daemon=True).start()
    try:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            found = JOBS[asked.pop("job")](asked, _progress(answers))
        # The pages say themselves what was read off; which columns may name people is told by names and kinds alone.
        noted = [one.message for one in told if one.category.__name__ not in NOT_NOTED]
        found["told"] = list(dict.fromkeys(sentence_of(one) for one in noted if isinstance(one, Warning)))
        _say(answers, {"result": found})
    except SfumatoError as error:
        _say(answers, {"error": sentence_of(error)})
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    except Exception as error:  # its words may quote a cell: only its kind is told
        _say(answers, {"error": said(UNEXPECTED, kind=type(error).__name__)})


def _end_with_the_desk(held: int, main: int | None) -> None:
    """The desk holds the other end of the pipe: when it lets go, to stop this job or because it died, we tidy up."""
    while os.read(held, 1 << 10):
        pass
    if main is not None and hasattr(signal, "pthread_kill"):
        signal.pthread_kill(main, signal.SIGINT)  # it may be waiting, which only a signal ends
    else:  # Windows
        _thread.interrupt_main()


def _say(answers: IO[str], word: Mapping[str, Any]) -> None:
    answers.write(json.dumps(packed(word)) + "\n")
    answers.flush()


def _progress(answers: IO[str]) -> Progress:
    said: list[Any] = [None, 0.0]

    def progress(step: str, done: int, total: int | None) -> None:
        now = time.monotonic()
        if step != said[0] or now - said[1] >= QUIET_SECONDS or done == total:
            said[:] = step, now
            _say(answers, {"step": step, "done": done, "total": total})

    return progress


def _opened(said: Any) -> Any:
    """A table as its owner says that it is written; the folder of a release stays a path."""
    from sfumato.table import open_table
    from sfumato.table.csv_table import Dialect

    if isinstance(said, str):
        return said
    written = {name: value for name, value in said.items() if name != "path"}
    return open_table(said["path"], dialect=Dialect(**{**written, "missing": tuple(written["missing"])}))


def _keywords(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the call, with its tables opened."""
    given = asked["keywords"].items()
    return {name: _opened(one) if name in ("original", "holdout") else one for name, one in given}


def _read(asked: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
    """The schema of a table as a private file, and how many rows there are."""
    from sfumato.api.sanitize import study_terms
    from sfumato.ledger.memories import ReadOff
    from sfumato.table import Schema
    from sfumato.table.infer import check_column

    progress("reading the table", 0, None)
    table, file = _opened(asked["table"]), Path(asked["schema"])
    if asked["study"] is not None:
        schema = study_terms(asked["study"]).schema
        for name in schema.names:
            check_column(table, name)
    else:
        schema = Schema.infer(table, label=asked["label"], person=asked["person"], refuse=False)
        ReadOff(None).remember(schema.columns, shown=True)
        if file.exists():  # what the owner had said stays, of columns that are of the same kind and role
            before = Schema.load(file)
            said = {one.name: one for one in before.columns if one.source == "public" or one.role == "identifier"}
            columns = []
            for one in schema.columns:
                known = said.get(one.name, one)
                if {known.role, one.role} <= {"private", "label"}:
                    known = replace(known, role=one.role)
                same = (known.kind, known.role) in ((one.kind, one.role), (one.kind, "identifier"))
                columns.append(known if same else one)
            schema = Schema(tuple(columns))
    schema.save(file)
    file.chmod(0o600)
    dates = [one.name for one in schema.columns if one.kind == "date"]
    first = next(iter(table.blocks(ROWS_SHOWN)))
    dotted = any("." in str(cell) for name in dates for cell in first[name].to_pylist())
    return {"rows": sum(block.num_rows for block in table.blocks(1 << 16)), "dotted": dotted}


def _release(asked: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
    """Made as `sf.sanitize` makes it."""
    from sfumato.api.sanitize import sanitize

    made = sanitize(_opened(asked["table"]), **asked["keywords"], progress=progress)
    card = made.card
    stated = {"guarantee": card.guarantee, "release": {"earlier_releases": card.earlier_releases}}
    return {"stated": stated, "rows": card.rows, "mechanism": card.mechanism["name"]}


def _audit(asked: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
    """Attacked as `sf.audit` attacks it, with the report beside the release."""
    from sfumato.auditing.audit import audit

    release, given = _opened(asked["release"]), _keywords(asked)
    found = audit(release, **given, progress=progress)
    found.save_report(Path(asked["folder"]) / "report.html")
    if isinstance(release, str):
        release = _opened({"path": next(Path(release).glob("release.*")), "missing": ()})
    return {"audit": found.data, "sides": {"before": _first_rows(given["original"]), "after": _first_rows(release)}}


def _first_rows(table: Any) -> dict[str, list[str]]:
    block = next(iter(table.blocks(ROWS_SHOWN))).slice(0, ROWS_SHOWN)
    cells = {name: block[name].to_pylist() for name in block.schema.names}
    return {
        name: ["" if one is None else f"{one:.5g}" if isinstance(one, float) else str(one) for one in column]
        for name, column in cells.items()
    }


def _compare(asked: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
    """Settings that are tried on the table itself."""
    from sfumato.advising.compare import compare

    compare(_opened(asked["table"]), asked["out"], **asked["keywords"], progress=progress)
    return {}


def _find(asked: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
    """Attackers look for one person, as `sf.find_person` lets them; nothing of it is written."""
    from sfumato.auditing.find_person import find_person

    release, given = _opened(asked["release"]), _keywords(asked)
    return find_person(release, asked["person"], **given, progress=progress).to_dict()


JOBS: dict[str, Callable[[dict[str, Any], Progress], dict[str, Any]]] = {
    "read": _read,
    "release": _release,
    "audit": _audit,
    "compare": _compare,
    "find": _find,
    "show": push,
    "push": push,
}

if __name__ == "__main__":
    main()
