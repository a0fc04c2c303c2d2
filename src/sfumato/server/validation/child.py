"""The child: reads one job a line from its input, answers one verdict a line, and can do little else.

It is started as `python -m sfumato.server.validation.child`. Memory is limited for good, processor time anew for every
job; it can write no file. Where the system has the means, it has no network and sees no file but what was received
(`confinement`). A file that makes it die was refused by that.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from collections.abc import Callable
from pathlib import Path

from sfumato.server.child import limit, own_output, say
from sfumato.server.confinement import confine
from sfumato.server.validation.limits import FOLDER



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
        _limit_seconds(int(job["limits"]["seconds"]))
        say(answers, check(job))


def _load() -> Callable[[dict[str, object]], dict[str, object]]:
    """Everything that takes time to import, before the first job."""
    import pyarrow as pa

    from sfumato.server.validation.limits import Limits
    from sfumato.server.validation.plain_table import check_table
    from sfumato.server.validation.release_file import check_release, identify_release
    from sfumato.server.validation.verdict import Verdict

    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    checks = {"release": check_release, "table": check_table, "identity": identify_release}

    def check(job: dict[str, object]) -> dict[str, object]:
        limits = Limits(**job["limits"])  # type: ignore[arg-type]
        try:
            verdict = checks[str(job["check"])](Path(str(job["path"])), job["study"], limits)  # type: ignore[arg-type]
        except MemoryError:
            verdict = Verdict.refused("The file needs more memory to be read than any release does.")
        return verdict.to_dict()

    return check


def _limit_seconds(seconds: int) -> None:
    """The clock of the limit runs over the process's whole life: move it."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    limit(resource.RLIMIT_CPU, int(used.ru_utime + used.ru_stime) + seconds + 1)


if __name__ == "__main__":
    main()
