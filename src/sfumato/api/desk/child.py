"""What runs in the child process of a job: one function that Python users call, with progress as lines of JSON."""

from __future__ import annotations

import _thread
import json
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from sfumato.api.desk.heard import packed, sentence_of
from sfumato.api.desk.site import push
from sfumato.core.errors import SfumatoError
from sfumato.core.progress import Progress
from sfumato.core.wording import said

if TYPE_CHECKING:
    from sfumato.table import Schema

QUIET_SECONDS = 0.2
"""Between two words of the same step."""
ROWS_SHOWN = 5
NOT_NOTED = ("IdentifierWarning", "PrivacyLeakWarning")
UNEXPECTED = "Something went wrong that should not have ({kind}). Nothing was released."


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
    from sfumato.ledger.read_off import ReadOff
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
        if file.exists():
            schema = _as_declared(schema, Schema.load(file))
    schema.save(file)
    file.chmod(0o600)
    dates = [one.name for one in schema.columns if one.kind == "date"]
    first = next(iter(table.blocks(ROWS_SHOWN)))
    dotted = any("." in str(cell) for name in dates for cell in first[name].to_pylist())
    return {"rows": sum(block.num_rows for block in table.blocks(1 << 16)), "dotted": dotted}


def _as_declared(schema: Schema, before: Schema) -> Schema:
    """What the owner had said of the columns stays, of those that are of the same kind and role."""
    from sfumato.table import Schema

    said = {one.name: one for one in before.columns if one.source == "public" or one.role == "identifier"}
    columns = []
    for one in schema.columns:
        known = said.get(one.name, one)
        if known.role != one.role and {known.role, one.role} <= {"private", "label"}:
            known = replace(known, role=one.role)
        columns.append(known if (known.kind, known.role) in ((one.kind, one.role), (one.kind, "identifier")) else one)
    return Schema(tuple(columns))


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
    return {name: [_cell(value) for value in block[name].to_pylist()] for name in block.schema.names}


def _cell(value: Any) -> str:
    return "" if value is None else f"{value:.5g}" if isinstance(value, float) else str(value)


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
