"""What public tables lost under each method: `python papers/advice/run.py`.

Finished pieces are kept in `work/` and not done again; `--fresh` forgets them. `--fast` is a small part, for tests.
`--done` does nothing more: it writes the experience that the product ships, and the page, from what is done.
`--shares` measures again how far shares are off, and nothing else: about three minutes of one processor.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent))  # for `papers.runner`, wherever this is started from

from frames import table_of  # noqa: E402
from papers.runner import do_tasks, look_for, open_store, parse_options, write_results  # noqa: E402
from tasks import Shares, all_shares, all_tasks  # noqa: E402


def main(arguments: list[str] | None = None) -> int:
    """Do what is not done yet, then print and write the results."""
    warnings.simplefilter("ignore")
    flags = {"--done": "do nothing more, and write from what is done", "--shares": "measure shares, and nothing else"}
    options = parse_options(arguments, __doc__, fast="a generated table at epsilon 4", flags=flags)
    store = open_store(HERE, options)
    tasks = [*(() if options.shares else all_tasks(options.fast)), *(() if options.fast else all_shares())]
    skipped, _ = look_for((task.data for task in tasks), lambda name: table_of(name)[0].shape)
    wanted = [task for task in tasks if task.data not in skipped and (task.key in store or not options.done)]
    found = do_tasks(wanted, store, options)
    from results import Results, put_shares, results_text

    shares = {task: found.pop(task) for task in list(found) if isinstance(task, Shares)}
    if found:
        results = Results(found, skipped)
        write_results(HERE, options, results, results_text(results))
    if shares:
        put_shares(shares)
    return 0


if __name__ == "__main__":
    sys.exit(main())
