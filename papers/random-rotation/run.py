"""Every table and figure of random-rotation: `python papers/random-rotation/run.py`.

Finished pieces are kept in `work/` and not done again; `--fresh` forgets them. `--fast` is a small part, for tests.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent))  # for `papers.runner`, wherever this is started from

from papers.data import load  # noqa: E402
from papers.runner import do_tasks, look_for, measured, open_store, parse_options, write_results  # noqa: E402
from tables import results_text  # noqa: E402
from tasks import Results, Task, all_tasks  # noqa: E402


def main(arguments: list[str] | None = None) -> int:
    """Do what is not done yet, then print and write the results."""
    options = parse_options(arguments, __doc__, fast="iris and wine, three rotations")
    store = open_store(HERE, options)
    tasks = list(all_tasks(options.fast))
    skipped, sources = _look_for_data(tasks, options.online)
    wanted = [task for task in tasks if task.data not in skipped]
    found = do_tasks(wanted, store, options, partial(measured, online=options.online))
    results = Results(found, skipped, sources)
    minutes = sum(value["cpu"] for value in found.values()) / 60
    write_results(HERE, options, results, results_text(results, minutes, options.fast))
    return 0


def _look_for_data(tasks: list[Task], online: bool) -> tuple[dict[str, str], dict[str, str]]:
    return look_for((task.data for task in tasks), lambda name: load(name, online=online).source)


if __name__ == "__main__":
    sys.exit(main())
