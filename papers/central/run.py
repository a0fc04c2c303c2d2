"""Rows that belong to nobody beside real ones and other releases: `python papers/central/run.py`.

Finished pieces are kept in `work/` and not done again; `--fresh` forgets them. `--fast` is a small part, for tests.
`--peers` also runs MST and AIM of dpmm, in the environment that `make peers-central` makes. `--done` does nothing
more and writes the page from what is done.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent))  # for `papers.runner`, wherever this is started from

from frames import table_of  # noqa: E402
from papers.runner import do_tasks, look_for, open_store, parse_options, write_results  # noqa: E402
from peer_tasks import peer_tasks  # noqa: E402
from tables import Results, results_text  # noqa: E402
from tasks import all_tasks  # noqa: E402


def main(arguments: list[str] | None = None) -> int:
    """Do what is not done yet, then print and write the results."""
    warnings.simplefilter("ignore")
    flags = {
        "--peers": "also run peers in their own environment",
        "--done": "do nothing more, and write the page from what is done",
    }
    options = parse_options(arguments, __doc__, fast="a small generated table at epsilon 1", flags=flags)
    store = open_store(HERE, options)
    own, beside = list(all_tasks(options.fast)), list(peer_tasks(options.fast))
    tasks: list[Any] = [*own, *(task for task in beside if options.peers or task.key in store)]
    skipped, _ = look_for((task.data for task in tasks), lambda name: table_of(name)[0].shape)
    wanted = [task for task in tasks if task.data not in skipped and (task.key in store or not options.done)]
    found = do_tasks(wanted, store, options)
    results = Results(found, skipped)
    write_results(HERE, options, results, results_text(results, (len(found), len(own) + len(beside)), options.fast))
    return 0


if __name__ == "__main__":
    sys.exit(main())
