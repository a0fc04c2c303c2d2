"""Every table and figure of kernel-resampling: `python papers/kernel-resampling/run.py`.

Finished pieces are kept in `work/` and not done again; `--fresh` forgets them. `--fast` is a small part, for tests.
`--server` also runs the L-site experiment through a server on the loopback, in one configuration.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent))  # for `papers.runner`, wherever this is started from

from papers.data import load  # noqa: E402
from papers.runner import do_tasks, look_for, measured, open_store, parse_options, write_results  # noqa: E402
from sites import names_of  # noqa: E402
from tables import results_text  # noqa: E402
from tasks import Results, Task, all_tasks  # noqa: E402

SERVER = "through the server"


def main(arguments: list[str] | None = None) -> int:
    """Do what is not done yet, then print and write the results."""
    server = {"--server": "also push, pool and train through a server"}
    options = parse_options(arguments, __doc__, fast="iris, six seeds", flags=server)
    store = open_store(HERE, options)
    tasks = list(all_tasks(options.fast))
    skipped, sources = _look_for_data(tasks, options.online)
    wanted = [task for task in tasks if task.data not in skipped]
    found = do_tasks(wanted, store, options, timed, shown=lambda value: value["cpu"][0])
    if options.server and SERVER not in store:
        from through_server import compare

        store.put(SERVER, compare())
    results = Results(found, skipped, sources)
    if SERVER in store:
        results.server = store[SERVER]
    minutes = sum(value["cpu"][0] for value in found.values()) / 60
    write_results(HERE, options, results, results_text(results, minutes, options.fast))
    return 0


def _look_for_data(tasks: list[Task], online: bool) -> tuple[dict[str, str], dict[str, str]]:
    def source_of(name: str) -> str:
        return ", ".join(load(part, online=online).source for part in names_of(name))

    return look_for((task.data for task in tasks if isinstance(task.data, str)), source_of)


def timed(task: Task) -> dict[str, Any]:
    """A task's figures and its seconds of computing, kept as a list of one."""
    found = measured(task)
    return {**found, "cpu": [found["cpu"]]}


if __name__ == "__main__":
    sys.exit(main())
