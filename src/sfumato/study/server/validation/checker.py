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
from pathlib import Path

from sfumato.study.server.child_process import confine, limit, own_output, say
from sfumato.study.server.validation.checker_pool import FOLDER, Limits, Verdict


def main() -> None:
    """Serve until the input ends, which it does when the parent does."""
    answers = own_output()
    limit(resource.RLIMIT_CORE, 0)
    limit(resource.RLIMIT_FSIZE, 0)
    confined = confine([Path(os.environ[FOLDER])])
    import pyarrow as pa  # everything that takes time to load, before the first job

    from sfumato.study.server.validation.file_checks import check_release, check_table

    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    checks = {"release": check_release, "table": check_table}
    say(answers, {"confined": confined})
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
        say(answers, verdict.to_dict())


if __name__ == "__main__":
    main()
