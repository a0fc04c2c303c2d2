"""What runs in the children of the server: each limits itself before it loads anything large."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sfumato.study.server.child_process import FOLDER, confine


def own_output() -> Callable[[object], None]:
    """Says one answer a line; whatever a library prints goes nowhere."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return lambda answer: print(json.dumps(answer, allow_nan=False), file=answers, flush=True)


def limit(what: int, most: int) -> None:
    """Lower a limit of this process."""
    _, hard = resource.getrlimit(what)
    resource.setrlimit(what, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def check_files() -> None:
    """Read one job a line, answer one verdict a line, until the input ends, which it does when the parent does. Memory
    is limited for good, processor time anew for every job, and no file can be written. Where the system allows, there
    is no network and only the received files are seen (`confine`). A file that kills the child is refused."""
    say = own_output()
    limit(resource.RLIMIT_CORE, 0)
    limit(resource.RLIMIT_FSIZE, 0)
    confined = confine([Path(os.environ[FOLDER])])
    import pyarrow as pa  # everything that takes time to load, before the first job

    from sfumato.study.server.validation.checker_pool import Limits, Verdict
    from sfumato.study.server.validation.file_checks import check_release, check_table

    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    checks = {"release": check_release, "table": check_table}
    say({"confined": confined})
    for line in sys.stdin:
        job = json.loads(line)
        limits = Limits(**job["limits"])
        limit(resource.RLIMIT_AS, limits.memory)
        used = resource.getrusage(resource.RUSAGE_SELF)  # the clock of the limit runs over the whole life: move it
        limit(resource.RLIMIT_CPU, int(used.ru_utime + used.ru_stime) + limits.seconds + 1)
        try:
            verdict = checks[job["check"]](Path(job["path"]), job["study"], limits)
        except MemoryError:
            verdict = Verdict.refused("Reading the file takes more memory than any release needs.")
        say(verdict.to_dict())


_SIGNAL_AT_PARENTS_DEATH = 1
NO_MEMORY = "Training this classifier on this pool needs more memory than the server allows. Choose another one."


def train_models() -> None:
    """Read one job, tell how far it is line by line, and end with the results or the reason. It gives way to the
    server's own work, may take only so much memory, is the first to go when the machine has none left, and ends when
    its parent does: the input stays open as long as the parent lives, and Linux tells of its death even where a library
    that waits for memory lets no thread of ours run."""
    say, stated = own_output(), json.loads(sys.stdin.readline())
    os.nice(int(stated["niceness"]))
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")
    limit(resource.RLIMIT_CORE, 0)
    limit(resource.RLIMIT_AS, int(stated["memory"]))

    def end_with_parent() -> None:
        while os.read(0, 1):
            pass
        os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SIGNAL_AT_PARENTS_DEATH, signal.SIGKILL, 0, 0, 0)
    say(trained(stated, say))


def trained(stated: dict[str, Any], say: Callable[[object], None]) -> dict[str, Any]:
    """The last line: `done` with results and the model's card (or the distribution of a column in their place), or
    `failed` with words for the owner."""
    from sfumato.core.errors import SfumatoError
    from sfumato.study.pooling.train_pool import reconstruct_pool, train_pool
    from sfumato.study.server.worker.job import Job

    job = Job.from_dict(stated)

    def progress(step: str, done: int, total: int | None) -> None:
        say({"step": step, "progress": 0.0 if not total else done / total})

    try:
        request = job.request()
        if job.column is None:
            model, results = train_pool(request, Path(job.out), progress)
            return {"done": {"results": results, "card": dict(model.about)}}
        from sfumato.reconstruction.density import to_plain

        density, used = reconstruct_pool(
            request.releases, job.column, method=job.classifier, largest_share=job.largest_share, progress=progress
        )
        return {"done": {"results": to_plain(density), "card": {"releases": used, "contains_rows": False}}}
    except SfumatoError as error:
        return {"failed": job.without_paths(str(error))}
    except MemoryError:
        return {"failed": NO_MEMORY}
    except Exception as error:
        name = type(error).__name__
        if job.column is not None:
            return {"failed": f"This column cannot be reconstructed from this pool ({name}). Try another method."}
        return {"failed": f"{job.classifier} cannot be trained on this pool ({name}). Choose another classifier."}


if __name__ == "__main__":
    {"check": check_files, "train": train_models}[sys.argv[1]]()
