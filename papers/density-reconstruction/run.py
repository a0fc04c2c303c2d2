"""Every table and figure of density-reconstruction: `python papers/density-reconstruction/run.py`.

Finished pieces are kept in `work/` and not done again; `--fresh` forgets them. `--fast` is a small part, for tests.
"""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent))  # for `papers.runner`, wherever this is started from

from experiments import original  # noqa: E402
from papers.runner import do_tasks, look_for, open_store, parse_options, write_results  # noqa: E402
from tables import results_text  # noqa: E402
from tasks import COUNTY, Results, all_tasks  # noqa: E402


def main(arguments: list[str] | None = None) -> int:
    """Do what is not done yet, then print and write the results."""
    options = parse_options(
        arguments,
        __doc__,
        fast="simulated values, a few runs",
        online="taken for the other papers' sake: nothing is fetched",
    )
    store = open_store(HERE, options)
    skipped = {} if options.fast else _missing()
    tasks = list(all_tasks(options.fast, county=not options.fast and not skipped))
    found = do_tasks(tasks, store, options)
    results = Results(found, skipped)
    minutes = sum(value["cpu"] for value in found.values()) / 60
    write_results(HERE, options, results, results_text(results, minutes, options.fast))
    return 0


def _missing() -> dict[str, str]:
    """Why county income cannot be had, if so; everything is then run on simulated values alone."""
    skipped, _ = look_for([COUNTY], original)
    return skipped


if __name__ == "__main__":
    sys.exit(main())
