"""What every paper's `run.py` does alike: options, finished pieces, processes, missing data, the written page.

A paper brings its own tasks (each with a `key` and a `do`), results, text and figures.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from papers.data import DataMissingError
from papers.store import Store

Value = dict[str, Any]


def parse_options(
    arguments: list[str] | None,
    about: str | None,
    fast: str,
    online: str = "fetch missing data sets from OpenML",
    flags: dict[str, str] | None = None,
) -> argparse.Namespace:
    """The options of a paper: what its fast part is, what `--online` does there, flags of its own with their help."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fast", action="store_true", help=f"{fast}: what the tests run")
    parser.add_argument("--fresh", action="store_true", help="forget what was done before")
    parser.add_argument("--online", action="store_true", help=online)
    for flag, meaning in (flags or {}).items():
        parser.add_argument(flag, action="store_true", help=meaning)
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1), help="processes (default: at most 2)")
    parser.add_argument("--out", type=Path, help="folder for results and figures (default: beside this file)")
    return parser.parse_args(arguments)


def open_store(here: Path, options: argparse.Namespace) -> Store:
    """The finished pieces of the paper in `here`; none after `--fresh`."""
    path = (options.out or here / "work") / ("fast.jsonl" if options.fast else "full.jsonl")
    if options.fresh:
        path.unlink(missing_ok=True)
    return Store(path)


def look_for(names: Iterable[str], source_of: Callable[[str], Any]) -> tuple[dict[str, str], dict[str, Any]]:
    """Which data sets cannot be had, and why; where the others come from."""
    skipped, sources = {}, {}
    for name in dict.fromkeys(names):
        try:
            sources[name] = source_of(name)
        except DataMissingError as error:
            skipped[name] = str(error)
            print(f"skipped {error}", file=sys.stderr, flush=True)
    return skipped, sources


def measured(task: Any, **settings: Any) -> Value:
    """A task's figures, and the seconds of computing that they took."""
    started = time.process_time()
    return {**task.do(**settings), "cpu": time.process_time() - started}


def do_tasks(
    tasks: list[Any],
    store: Store,
    options: argparse.Namespace,
    measure: Callable[[Any], Value] = measured,
    alone: Callable[[Any], bool] = lambda _: False,
    shown: Callable[[Value], float] = lambda value: value["cpu"],
) -> dict[Any, Value]:
    """Every task's figures: those not done yet in a few processes, each kept as soon as it is done.

    `measure` must be picklable. Tasks that want the machine `alone` come last, one at a time, in this process;
    `shown` are the seconds in the line that is printed for a finished task.
    """
    left = [task for task in tasks if task.key not in store]
    together = [task for task in left if not alone(task)]
    done = 0

    def keep(task: Any, value: Value) -> None:
        nonlocal done
        done += 1
        store.put(task.key, value)
        print(f"[{done}/{len(left)}] {task.key}  {shown(value):.1f} s", file=sys.stderr, flush=True)

    if options.fast or options.jobs == 1:
        for task in together:
            keep(task, measure(task))
    elif together:
        with ProcessPoolExecutor(options.jobs, multiprocessing.get_context("spawn")) as pool:
            waiting = {pool.submit(measure, task): task for task in together}
            for future in as_completed(waiting):
                keep(waiting[future], future.result())
    for task in left:
        if alone(task):
            keep(task, measure(task))
    return {task: store[task.key] for task in tasks}


def write_results(here: Path, options: argparse.Namespace, results: Any, text: str) -> None:
    """Write and print the page; beside it all figures as JSON after a fast run, else drawn by the paper's `plots`."""
    out = options.out or (here / "work" / "fast" if options.fast else here)
    out.mkdir(parents=True, exist_ok=True)
    (out / "RESULTS.md").write_text(text, encoding="utf-8")
    if options.fast:
        (out / "results.json").write_text(json.dumps(results.to_dict(), indent=1), encoding="utf-8")
    else:
        from papers.figures import write_figures
        from plots import figures  # the one in `here`, which Python has put on the path

        write_figures(figures(results), out / "figures")
    print(text)
