"""Accuracy at a record epsilon, on both axes: `python papers/frontier/run.py`.

Finished pieces are kept in `work/` and not done again; `--fresh` forgets them. `--fast` is a small part, for tests.
The held-out sets are opened only when everything else is done.
"""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent))  # for `papers.runner`, wherever this is started from

from papers.runner import do_tasks, look_for, open_store, parse_options, write_results  # noqa: E402
from results import Results  # noqa: E402
from sets import encoded  # noqa: E402
from tables import results_text  # noqa: E402
from tasks import held_out_tasks, known_tasks  # noqa: E402


def main(arguments: list[str] | None = None) -> int:
    """Do what is not done yet, then print and write the results."""
    flags = {"--so-far": "compute nothing, write the page from the pieces that are done"}
    options = parse_options(arguments, __doc__, fast="generated waveforms, one split, two epsilons", flags=flags)
    store = open_store(HERE, options)
    found, skipped, sources = {}, {}, {}
    for tasks in (list(known_tasks(options.fast)), [] if options.fast else list(held_out_tasks())):
        missing, there = look_for((task.data for task in tasks), lambda name: encoded(name).source)
        skipped |= missing
        sources |= there
        wanted = [task for task in tasks if task.data not in missing and (not options.so_far or task.key in store)]
        found |= do_tasks(wanted, store, options)
    results = Results(found, skipped, sources)
    minutes = sum(value["cpu"] for value in found.values()) / 60
    write_results(HERE, options, results, results_text(results, minutes))
    return 0


if __name__ == "__main__":
    sys.exit(main())
