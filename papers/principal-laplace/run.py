"""Every table and figure of principal-laplace: `python papers/principal-laplace/run.py`.

Finished pieces are kept in `work/` and not done again; `--fresh` forgets them. `--fast` is a small part, for tests.
"""

from __future__ import annotations

import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent))  # for `papers.runner`, wherever this is started from

from papers.runner import do_tasks, look_for, open_store, parse_options, write_results  # noqa: E402
from splits import TITLES, table  # noqa: E402
from tables import results_text  # noqa: E402
from tasks import Results, Task, all_tasks  # noqa: E402


def main(arguments: list[str] | None = None) -> int:
    """Do what is not done yet, then print and write the results."""
    options = parse_options(arguments, __doc__, fast="iris and wine, three runs")
    store = open_store(HERE, options)
    tasks = list(all_tasks(options.fast))
    skipped, sources = _look_for_data(tasks, options.online)
    wanted = [task for task in tasks if task.data not in skipped]
    found = do_tasks(
        wanted,
        store,
        options,
        measure=partial(timed, online=options.online),
        alone=lambda task: task.timed,
        shown=lambda value: value["seconds"],
    )
    results = Results(found, skipped, sources)
    minutes = sum(value["cpu"] for value in found.values()) / 60
    write_results(HERE, options, results, results_text(results, minutes, options.fast))
    return 0


def _look_for_data(tasks: list[Task], online: bool) -> tuple[dict[str, str], dict[str, str]]:
    """Only what has a title is a data set; tasks on anything else are never skipped."""
    names = (task.data for task in tasks if task.data in TITLES)
    return look_for(names, lambda name: table(name, online).source)


def timed(task: Task, online: bool) -> dict[str, Any]:
    """A task's result, how long it took, and how much of that it had a core to itself."""
    started, working = time.perf_counter(), time.process_time()
    found = task.do(online)
    return {**found, "seconds": time.perf_counter() - started, "cpu": time.process_time() - working}


if __name__ == "__main__":
    sys.exit(main())
