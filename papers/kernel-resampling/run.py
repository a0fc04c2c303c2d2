"""Every table and figure of kernel-resampling: `python papers/kernel-resampling/run.py`.

Finished pieces are kept in `work/` and not done again; `--fresh` forgets them. `--fast` is a small part, for tests.
`--server` also runs the L-site experiment through a server on the loopback, in one configuration.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent))  # for `papers.data`, wherever this is started from

from papers.data import DataMissingError, load  # noqa: E402
from papers.store import Store  # noqa: E402
from sites import names_of  # noqa: E402
from tables import results_text  # noqa: E402
from tasks import Results, Task, all_tasks  # noqa: E402

SERVER = "through the server"


def main(arguments: list[str] | None = None) -> int:
    """Do what is not done yet, then print and write the results."""
    options = _parser().parse_args(arguments)
    out = options.out or (HERE / "work" / "fast" if options.fast else HERE)
    path = (options.out or HERE / "work") / ("fast.jsonl" if options.fast else "full.jsonl")
    if options.fresh:
        path.unlink(missing_ok=True)
    store = Store(path)
    tasks = list(all_tasks(options.fast))
    skipped, sources = _look_for_data(tasks, options.online)
    wanted = [task for task in tasks if task.data not in skipped]
    _do([task for task in wanted if task.key not in store], store, options)
    if options.server and SERVER not in store:
        from through_server import compare

        store.put(SERVER, compare())
    results = Results({task: store[task.key] for task in wanted}, skipped, sources)
    if SERVER in store:
        results.server = store[SERVER]
    minutes = sum(store[task.key]["cpu"][0] for task in wanted) / 60
    text = results_text(results, minutes, options.fast)
    out.mkdir(parents=True, exist_ok=True)
    (out / "RESULTS.md").write_text(text, encoding="utf-8")
    if options.fast:
        (out / "results.json").write_text(json.dumps(results.to_dict(), indent=1), encoding="utf-8")
    else:
        from plots import draw

        draw(results, out / "figures")
    print(text)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fast", action="store_true", help="iris, six seeds: what the tests run")
    parser.add_argument("--fresh", action="store_true", help="forget what was done before")
    parser.add_argument("--online", action="store_true", help="fetch missing data sets from OpenML")
    parser.add_argument("--server", action="store_true", help="also push, pool and train through a server")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1), help="processes (default: at most 2)")
    parser.add_argument("--out", type=Path, help="folder for results and figures (default: beside this file)")
    return parser


def _look_for_data(tasks: list[Task], online: bool) -> tuple[dict[str, str], dict[str, str]]:
    """Which data sets cannot be had, and why; where the others come from."""
    skipped, sources = {}, {}
    for name in dict.fromkeys(task.data for task in tasks if isinstance(task.data, str)):
        try:
            sources[name] = ", ".join(load(part, online=online).source for part in names_of(name))
        except DataMissingError as error:
            skipped[name] = str(error)
            print(f"skipped {error}", file=sys.stderr, flush=True)
    return skipped, sources


def _do(tasks: list[Task], store: Store, options: argparse.Namespace) -> None:
    """All tasks in a few processes; each is kept as soon as it is done."""
    done = 0

    def keep(task: Task, value: dict[str, Any]) -> None:
        nonlocal done
        done += 1
        store.put(task.key, value)
        print(f"[{done}/{len(tasks)}] {task.key}  {value['cpu'][0]:.1f} s", file=sys.stderr, flush=True)

    if options.fast or options.jobs == 1:
        for task in tasks:
            keep(task, timed(task))
    elif tasks:
        with ProcessPoolExecutor(options.jobs, multiprocessing.get_context("spawn")) as pool:
            waiting = {pool.submit(timed, task): task for task in tasks}
            for future in as_completed(waiting):
                keep(waiting[future], future.result())


def timed(task: Task) -> dict[str, Any]:
    """A task's figures, and the seconds of computing that they took."""
    started = time.process_time()
    return {**task.do(), "cpu": [time.process_time() - started]}


if __name__ == "__main__":
    sys.exit(main())
