"""The child: reads one job from its input, tells how far it is line by line, and ends with the results or the reason.

It is started as `python -m` with its name. It gives way to the server's own work, may take only so much
memory, is the first to go when the machine has none left, and ends when its parent does.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import sys
import threading
from pathlib import Path
from typing import IO, Any

from sfumato.study.server.child_process import limit, own_output, say

NO_MEMORY = "Training this classifier on this pool needs more memory than the server allows. Choose another one."


def main() -> None:
    answers = own_output()
    stated = json.loads(sys.stdin.readline())
    os.nice(int(stated["niceness"]))
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")
    limit(resource.RLIMIT_CORE, 0)
    limit(resource.RLIMIT_AS, int(stated["memory"]))
    threading.Thread(target=_end_with_parent, daemon=True).start()
    say(answers, trained(stated, answers))


def trained(stated: dict[str, Any], answers: IO[str]) -> dict[str, Any]:
    """The last line: `done` with results and the model's card (or the distribution of a column in their place), or
    `failed` with words for the owner."""
    # The child limits itself before it loads anything large.
    from sfumato.core.errors import SfumatoError
    from sfumato.study.pooling.train_pool import reconstruct_pool, train_pool
    from sfumato.study.server.worker.job import Job

    job = Job.from_dict(stated)

    def progress(step: str, done: int, total: int | None) -> None:
        say(answers, {"step": step, "progress": 0.0 if not total else done / total})

    try:
        request = job.request()
        if job.column is not None:
            from sfumato.reconstruction.density import to_plain

            density, used = reconstruct_pool(
                request.releases, job.column, method=job.classifier, largest_share=job.largest_share, progress=progress
            )
            return {"done": {"results": to_plain(density), "card": {"releases": used, "contains_rows": False}}}
        model, results = train_pool(request, Path(job.out), progress)
    except SfumatoError as error:
        return {"failed": job.without_paths(str(error))}
    except MemoryError:
        return {"failed": NO_MEMORY}
    except Exception as error:
        name = type(error).__name__
        if job.column is not None:
            return {"failed": f"This column cannot be reconstructed from this pool ({name}). Try another method."}
        return {"failed": f"{job.classifier} cannot be trained on this pool ({name}). Choose another classifier."}
    return {"done": {"results": results, "card": dict(model.about)}}


def _end_with_parent() -> None:
    """The input stays open as long as the parent lives."""
    while os.read(0, 1):
        pass
    os._exit(1)


if __name__ == "__main__":
    main()
