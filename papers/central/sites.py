"""Several sites at epsilon 1: rows that are pooled, or noisy counts that are added: `python papers/central/sites.py`.

A table is dealt to 2, 4 or 16 sites of equal size. Everybody's presence costs epsilon 1 at delta 1e-6 in every way.
Finished pieces are kept in `work/` and not done again; `--fresh` forgets them. `--fast` is a small part, for tests.
"""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from operator import add
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent))  # for `papers.runner`, wherever this is started from

from frames import LABEL, table_of  # noqa: E402
from papers.page import table  # noqa: E402
from papers.runner import do_tasks, look_for, parse_options  # noqa: E402
from papers.store import Store  # noqa: E402
from sklearn.model_selection import train_test_split  # noqa: E402
from tasks import _encoded, scores  # noqa: E402

from sfumato.guarantee.cost import epsilon_of, rho_for  # noqa: E402
from sfumato.mechanisms.central.plan import plan_from_model, plan_from_scores, public_plan  # noqa: E402
from sfumato.mechanisms.central.scoring import ScoringPlan  # noqa: E402
from sfumato.mechanisms.tree_resampling import TreeResampling  # noqa: E402
from sfumato.study.plan_counts import FOR_SCORES  # noqa: E402
from sfumato.table import Encoding  # noqa: E402

SETS = ("magic04", "pendigits")
SITES = (2, 4, 16)
SEEDS = 4
EPSILON, DELTA = 1.0, 1e-6
FOR_THE_PLAN = 0.5
"""Of the rho of the site that gives the plan. It pushes its counts with the rest; all others push theirs with all."""
MOST_ROWS = 4_000
"""Rows that learners are trained on, in every way: drawn rows are no scarcer with more of them."""
WAYS = {
    "alone": "one site alone",
    "rows": "rows of all sites, pooled",
    "public": "counts added, public plan without pairs",
    "counts": "counts added, plan of one site's model",
    "scores": "counts added, plan of scores that all sites add",
    "whole": "one fit of all tables together (needs somebody who may see them)",
}
GAINS = {
    ("counts", "rows"): "one site's plan, beside pooled rows",
    ("counts", "alone"): "beside one site alone",
    ("scores", "rows"): "plan of added scores, beside pooled rows",
    ("scores", "counts"): "beside one site's plan",
    ("scores", "whole"): "beside one fit of everybody",
}
DONE = {"--done": "do nothing more, and write the page from what is done"}
T = {2: 12.71, 3: 4.303, 4: 3.182, 5: 2.776}
"""Two-sided 95% points of Student's law, by the number of seeds."""


@dataclass(frozen=True)
class Task:
    """All ways for one table, dealt to so many sites under the split and the noise of `seed`."""

    data: str
    sites: int
    seed: int

    @property
    def key(self) -> str:
        return f"three plans {self.data} {self.sites} {self.seed}"

    def do(self) -> dict[str, Any]:
        """Mean accuracy and AUC of three ordinary learners by way."""
        frame, schema = table_of(self.data)
        train, test = train_test_split(frame, test_size=0.3, stratify=frame[LABEL], random_state=self.seed)
        encoding = Encoding(schema)
        (X, y), tested = _encoded(encoding, train), _encoded(encoding, test)
        rng = np.random.default_rng(1_000 * self.sites + self.seed)
        parts = np.array_split(rng.permutation(len(X)), self.sites)

        def fit(rows: Any, epsilon: float = EPSILON, plan: Any = None) -> TreeResampling:
            return TreeResampling(epsilon, DELTA, plan=plan).fit(X[rows], y[rows], encoding)

        own = [fit(part) for part in parts]
        drawn = [one.drawn_.draw(one.drawn_.rows, rng) for one in own]
        pooled = tuple(np.concatenate(some) for some in zip(*drawn, strict=True))
        whole = fit(np.arange(len(X))).drawn_
        rho = rho_for(EPSILON, DELTA)
        planner = fit(parts[0], epsilon_of(FOR_THE_PLAN * rho, DELTA))
        left = epsilon_of((1 - FOR_THE_PLAN) * rho, DELTA)
        plan = plan_from_model(planner.drawn_, TreeResampling(EPSILON, DELTA).budget(rng), self.sites).to_dict()
        counts = [fit(part, left if place == 0 else EPSILON, plan) for place, part in enumerate(parts)]
        public = [fit(part, plan=public_plan(encoding).to_dict()) for part in parts]

        def added(fits: list[TreeResampling]) -> Any:
            return reduce(add, [one.model_.noisy for one in fits])

        def sum_of(fits: list[TreeResampling]) -> Any:
            model = added(fits).drawn()
            return model.draw(model.rows, rng)

        first, second = (epsilon_of(share * rho, DELTA) for share in (FOR_SCORES, 1 - FOR_SCORES))
        scores = added([fit(part, first, ScoringPlan(encoding).to_dict()) for part in parts])
        forest = plan_from_scores(scores, self.sites, TreeResampling(second, DELTA).budget(rng)).to_dict()

        made = {
            "alone": drawn[0],
            "rows": pooled,
            "public": sum_of(public),
            "counts": sum_of(counts),
            "scores": sum_of([fit(part, second, forest) for part in parts]),
            "whole": whole.draw(whole.rows, rng),
        }
        return {"ways": {way: self._scored(*rows, *tested, rng) for way, rows in made.items()}}

    def _scored(self, Z: Any, z: Any, X: Any, y: Any, rng: np.random.Generator) -> list[float]:
        some = rng.permutation(len(Z))[:MOST_ROWS]
        found = scores(Z[some], z[some], X, y, without=("boosting",))
        return [mean(pair[which] for pair in found.values()) for which in (0, 1)]


def all_tasks(fast: bool) -> Iterator[Task]:
    for seed in range(1 if fast else SEEDS):
        for data in ("pima",) if fast else SETS:
            yield from (Task(data, sites, seed) for sites in ((2,) if fast else SITES))


def cell(runs: list[dict[str, Any]], way: str, against: str | None = None) -> str:
    """Mean accuracy / AUC with the half-width of a 95% interval over seeds; `against`: what it gains, pair by pair."""
    found = [run["ways"][way][0] - (run["ways"][against][0] if against else 0.0) for run in runs]
    width = T[len(found)] * stdev(found) / math.sqrt(len(found)) if len(found) > 1 else math.nan
    if against:
        return f"{mean(found):+.3f} ± {width:.3f}"
    return f"{mean(found):.3f}/{mean(run['ways'][way][1] for run in runs):.3f} ± {width:.3f}"


def text(found: dict[Task, dict[str, Any]], of: int, fast: bool) -> str:
    """SITES.md."""
    done = sorted({(task.data, task.sites) for task in found})
    ahead = f"""# Several sites: rows that are pooled, or counts that are added

Written by `papers/central/sites.py`: {len(found)} of {of} tasks. A table is dealt to S sites of equal size. Everybody's
presence costs epsilon 1 at delta 1e-6 in every way: the site that gives the plan spends half of its rho on it and
pushes its counts with the other half; where all sites add scores, each spends {100 * FOR_SCORES:.0f}% of its rho on
them. Each cell: mean accuracy / AUC of naive Bayes, logistic regression and a forest on 30% real rows, trained on
{MOST_ROWS:,} drawn rows, and the half-width of a 95% interval of the accuracy over the seeds (Student's law; splits,
dealing and noise all differ).

The half was fixed before these runs; trials with a fifth and a half on one split of both sets had been seen before. The
share for scores was chosen on generated tables alone."""
    rows, gains = [], []
    for data, sites in done:
        runs = [value for task, value in found.items() if (task.data, task.sites) == (data, sites)]
        rows.append([data, sites, len(runs), *(cell(runs, way) for way in WAYS)])
        gains.append([data, sites, *(cell(runs, *pair) for pair in GAINS)])
    parts = [
        ahead,
        table(["set", "S", "seeds", *WAYS.values()], rows),
        "## What added counts gain, in accuracy\n\nPair by pair, under the same split and dealing.",
        table(["set", "S", *GAINS.values()], gains),
    ]
    return "\n\n".join(parts) + ("\n\nA fast run, for tests.\n" if fast else "\n")


def main(arguments: list[str] | None = None) -> int:
    """Do what is not done yet, then print and write the results."""
    warnings.simplefilter("ignore")
    options = parse_options(arguments, __doc__, fast="pima, two sites, one split", flags=DONE)
    path = (options.out or HERE / "work") / ("sites-fast.jsonl" if options.fast else "sites.jsonl")
    if options.fresh:
        path.unlink(missing_ok=True)
    tasks = list(all_tasks(options.fast))
    skipped, _ = look_for((task.data for task in tasks), lambda name: table_of(name)[0].shape)
    store, tasks = Store(path), [task for task in tasks if task.data not in skipped]
    found = do_tasks([task for task in tasks if task.key in store or not options.done], store, options)
    out = options.out or (HERE / "work" / "fast" if options.fast else HERE)
    out.mkdir(parents=True, exist_ok=True)
    written = text(found, len(tasks), options.fast)
    (out / "SITES.md").write_text(written, encoding="utf-8")
    print(written)
    return 0


if __name__ == "__main__":
    sys.exit(main())
