"""Rows that belong to nobody beside real ones and other releases: `python papers/central/run.py`.

Finished pieces are kept in `work/` and not done again; `--fresh` forgets them. `--fast` is a small part, for tests.
`--peers` also runs MST and AIM of dpmm, where the environment of peers has it (see `benchmarks/peers.py`).
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

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
    peers = {"--peers": "also run peers in their own environment"}
    options = parse_options(arguments, __doc__, fast="a small generated table at epsilon 1", flags=peers)
    store = open_store(HERE, options)
    tasks = [*all_tasks(options.fast), *(peer_tasks(options.fast) if options.peers else ())]
    skipped, _ = look_for((task.data for task in tasks), lambda name: table_of(name)[0].shape)
    found = do_tasks([task for task in tasks if task.data not in skipped], store, options)
    results = Results(found, skipped)
    minutes = sum(value["cpu"] for value in found.values()) / 60
    write_results(HERE, options, results, results_text(results, minutes, options.fast))
    return 0


if __name__ == "__main__":
    sys.exit(main())
