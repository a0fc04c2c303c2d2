"""Every figure of guided-survey: `python papers/guided-survey/run.py`.

Finished pieces are kept in `work/` and not done again; `--fresh` forgets them. `--fast` is a small part, for tests.
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

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent))  # for `papers.data`, wherever this is started from

from papers.data import DataMissingError, load  # noqa: E402
from papers.store import Store  # noqa: E402
from tables import results_text  # noqa: E402
from tasks import Results, Task, all_tasks  # noqa: E402


def main(arguments: list[str] | None = None) -> int:
    """Do what is not done yet, then print and write the results."""
    options = _parser().parse_args(arguments)
    out = options.out or (HERE / "work" / "fast" if options.fast else HERE)
    path = (options.out or HERE / "work") / ("fast.jsonl" if options.fast else "full.jsonl")
    if options.fresh:
        path.unlink(missing_ok=True)
    store = Store(path)
    skipped = _without_votes()
    tasks = [task for task in all_tasks(options.fast) if not (skipped and task.needs_votes)]
    _do([task for task in tasks if task.key not in store], store, 1 if options.fast else options.jobs)
    results = Results({task: store[task.key] for task in tasks}, skipped, _through_server())
    text = results_text(results, sum(store[task.key]["cpu"] for task in tasks) / 60, options.fast)
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
    parser.add_argument("--fast", action="store_true", help="few people and runs: what the tests run")
    parser.add_argument("--fresh", action="store_true", help="forget what was done before")
    parser.add_argument(
        "--online", action="store_true", help="taken for the other papers' sake: Votes is not at OpenML"
    )
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1), help="processes (default: at most 2)")
    parser.add_argument("--out", type=Path, help="folder for results and figures (default: beside this file)")
    return parser


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


def _do(tasks: list[Task], store: Store, jobs: int) -> None:
    """All tasks in a few processes; each is kept as soon as it is done."""
    done = 0

    def keep(task: Task, value: dict[str, Any]) -> None:
        nonlocal done
        done += 1
        store.put(task.key, value)
        print(f"[{done}/{len(tasks)}] {task.key}  {value['cpu']:.1f} s", file=sys.stderr, flush=True)

    if jobs == 1:
        for task in tasks:
            keep(task, timed(task))
    elif tasks:
        with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
            waiting = {pool.submit(timed, task): task for task in tasks}
            for future in as_completed(waiting):
                keep(waiting[future], future.result())


def timed(task: Task) -> dict[str, Any]:
    """A task's figures, and the seconds of computing that they took."""
    started = time.process_time()
    return {**task.do(), "cpu": time.process_time() - started}


if __name__ == "__main__":
    sys.exit(main())
