"""Numbers that one can test against: runs the commands below and writes `papers/results.json`.

Every value stands there with what the paper prints, what the command reached, the interval of 95% of that mean
(Student's t over the repeats; none where nothing is drawn), and the command. Sets that do not come with scikit-learn
are looked for in the folder that SFUMATO_DATA names; of a set that is not there the file's values stay.

    SFUMATO_DATA=data .venv/bin/python papers/results.py            # all
    SFUMATO_DATA=data .venv/bin/python papers/results.py table-2    # the commands with this word in them
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import multiprocessing
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from scipy import stats
from threadpoolctl import threadpool_limits

import sfumato
from sfumato.api.cli import app
from sfumato.api.cli.console import run_guarded
from sfumato.auditing.figures import density_reconstruction, kernel_resampling, random_rotation
from sfumato.auditing.figures.principal_laplace import REAL
from sfumato.core.files import write_whole

FILE = Path(__file__).resolve().parent / "results.json"
VERSION = 1
"""Of the file's form."""
COMMANDS = (
    *(f"kernel-resampling/table-1 --set {name}" for name in kernel_resampling.SETS),
    *(f"kernel-resampling/table-2 --set {name} --repeats 10" for name in kernel_resampling.SETS if name != "svmguide1"),
    "kernel-resampling/table-2 --set svmguide1 --repeats 3",
    *(f"kernel-resampling/figure-{n} --repeats 5 --set {name}" for n, name in ((3, "iris"), (5, "pima"))),
    "kernel-resampling/equations-13-17 --repeats 3",
    f"density-reconstruction/table-1 --set {density_reconstruction.COUNTY} --repeats 10",
    *(f"random-rotation/table-1 --set {name} --repeats 3" for name in random_rotation.TABLE_1),
    *(f"principal-laplace/table-2 --set {name}" for name in REAL),
    "principal-laplace/figure-6",
    *(f"principal-laplace/figure-8 --set {name} --repeats 5" for name in ("wine", "iris", "wdbc")),
    *(f"principal-laplace/figure-9 --set {name} --repeats 5" for name in ("wine", "iris", "wdbc", "waveform")),
    "principal-laplace/figure-9 --set synthetic-8 --repeats 2",
    "principal-laplace/equations-12-13 --set wine --repeats 10",
    "guided-survey/figure-4 --set votes --repeats 5",
    "guided-survey/figure-5 --set votes --repeats 5",
    "guided-survey/figure-3 --set agrawal-srikant-1 --repeats 2",
)


def values_of(arguments: str) -> tuple[str, list[dict[str, Any]] | str]:
    """What a command reached, as the file holds it; a sentence where it failed."""
    words = ["figure", *arguments.split(), "--seed", "1"]
    command = " ".join(["sfumato", *words])
    told, said = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(told), contextlib.redirect_stderr(said), threadpool_limits(1):
        code = run_guarded(app, [*words, "--json", "--quiet"])
    if code != 0:
        return command, said.getvalue().strip()
    found = json.loads(told.getvalue())
    return command, [entry(found, one, command) for one in found["values"]]


def entry(found: dict[str, Any], one: dict[str, Any], command: str) -> dict[str, Any]:
    """One value with its interval."""
    error, repeats = one["standard_error"], found["repeats"]
    half = 0.0 if error is None else float(stats.t.ppf(0.975, repeats - 1)) * error
    paper, item = found["item"].split("/")
    return {
        "paper": paper,
        "item": item,
        "set": found["set"],
        "what": one["what"],
        "printed": one["printed"],
        "reached": significant(one["reached"]),
        "low": significant(one["reached"] - half, down=True),
        "high": significant(one["reached"] + half, up=True),
        "command": command,
    }


def significant(value: float, *, up: bool = False, down: bool = False) -> float:
    """Six digits, rounded outwards where an end of an interval is meant."""
    if value == 0 or not math.isfinite(value):
        return value
    unit = 10.0 ** (math.floor(math.log10(abs(value))) - 5)
    rounded = math.ceil(value / unit) if up else math.floor(value / unit) if down else round(value / unit)
    return float(f"{rounded * unit:.6g}")


def main(arguments: list[str]) -> int:
    """Run what was asked for, and write the file again with what was there of the others."""
    wanted = [one for one in COMMANDS if all(word in one for word in arguments)]
    kept = json.loads(FILE.read_text(encoding="utf-8"))["values"] if FILE.is_file() else []
    by_command: dict[str, list[dict[str, Any]]] = {}
    for one in kept:
        by_command.setdefault(one["command"], []).append(one)
    failed = 0
    with ProcessPoolExecutor(min(2, os.cpu_count() or 1), multiprocessing.get_context("spawn")) as pool:
        for command, values in pool.map(values_of, wanted):
            if isinstance(values, str):
                failed += 1
                print(f"{command}: {values}", file=sys.stderr, flush=True)
            else:
                by_command[command] = values
                print(f"{command}: {len(values)} values", file=sys.stderr, flush=True)
                write(by_command)
    return 1 if failed else 0


def write(by_command: dict[str, list[dict[str, Any]]]) -> None:
    """In the order of the commands; what no command gives any more goes."""
    order = [f"sfumato figure {one} --seed 1" for one in COMMANDS]
    values = [one for command in order for one in by_command.get(command, [])]
    lines = ",\n".join(f"  {json.dumps(one)}" for one in values)
    about = f' "version": {VERSION},\n "sfumato": {json.dumps(sfumato.__version__)},\n'
    write_whole(FILE, f'{{\n{about} "values": [\n{lines}\n ]\n}}\n')


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
