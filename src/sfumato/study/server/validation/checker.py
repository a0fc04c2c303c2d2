"""The process that checks files: it reads one job a line, answers one verdict a line, and can do little else.

It is started as `python -m` with its name. Its memory is limited for good, its processor time anew
for every job, and it can write no file. Where the system allows, it has no network and sees only the received files
(`confinement`). A file that kills it is refused.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from collections.abc import Callable
from pathlib import Path

from sfumato.study.server.child_process import confine, limit, own_output, say
from sfumato.study.server.validation.checker_pool import FOLDER


def main() -> None:
    """Serve until the input ends, which it does when the parent does."""
    answers = own_output()
    limit(resource.RLIMIT_CORE, 0)
    limit(resource.RLIMIT_FSIZE, 0)
    confined = confine([Path(os.environ[FOLDER])])
    check = _load()
    say(answers, {"ready": True, "confined": confined})
    for line in sys.stdin:
        job = json.loads(line)
        limit(resource.RLIMIT_AS, int(job["limits"]["memory"]))
        used = resource.getrusage(resource.RUSAGE_SELF)  # the clock of the limit runs over the whole life: move it
        limit(resource.RLIMIT_CPU, int(used.ru_utime + used.ru_stime) + int(job["limits"]["seconds"]) + 1)
        say(answers, check(job))


def _load() -> Callable[[dict[str, object]], dict[str, object]]:
    """Everything that takes time to import, before the first job."""
    import pyarrow as pa

    from sfumato.study.server.validation.checker_pool import Limits, Verdict
    from sfumato.study.server.validation.file_checks import check_release, check_table

    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    checks = {"release": check_release, "table": check_table}

    def check(job: dict[str, object]) -> dict[str, object]:
        limits = Limits(**job["limits"])  # type: ignore[arg-type]
        try:
            verdict = checks[str(job["check"])](Path(str(job["path"])), job["study"], limits)  # type: ignore[arg-type]
        except MemoryError:
            verdict = Verdict.refused("Reading the file takes more memory than any release needs.")
        return verdict.to_dict()

    return check


if __name__ == "__main__":
    main()
