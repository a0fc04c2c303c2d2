"""Every figure of guided-survey: `python papers/guided-survey/run.py`.

Finished pieces are kept in `work/` and not done again; `--fresh` forgets them. `--fast` is a small part, for tests.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent))  # for `papers.runner`, wherever this is started from

from papers.data import DataMissingError, load  # noqa: E402
from papers.runner import do_tasks, open_store, parse_options, write_results  # noqa: E402
from tables import results_text  # noqa: E402
from tasks import Results, all_tasks  # noqa: E402


def main(arguments: list[str] | None = None) -> int:
    """Do what is not done yet, then print and write the results."""
    options = parse_options(
        arguments,
        __doc__,
        fast="few people and runs",
        online="taken for the other papers' sake: Votes is not at OpenML",
    )
    store = open_store(HERE, options)
    skipped = _without_votes()
    tasks = [task for task in all_tasks(options.fast) if not (skipped and task.needs_votes)]
    found = do_tasks(tasks, store, options)
    results = Results(found, skipped, _through_server())
    minutes = sum(value["cpu"] for value in found.values()) / 60
    write_results(HERE, options, results, results_text(results, minutes, options.fast))
    return 0


def _without_votes() -> str | None:
    try:
        load("votes")
    except DataMissingError as error:
        return str(error)
    return None


def _through_server() -> dict[str, Any] | None:
    """Figures of Fig. 4 through a running server, where `through_server.py` has left them."""
    path = HERE / "work" / "through_server.json"
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else None


if __name__ == "__main__":
    sys.exit(main())
