"""One cell of a comparison: a mechanism at a strength on one split. What it finds is kept as soon as it is found."""

from __future__ import annotations

import hashlib
import json
import math
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from scipy import stats

from sfumato.advising.ground import Ground
from sfumato.advising.trial import Outcome, Trial, averaged, trial
from sfumato.advising.wish import Candidate, in_words, why_not
from sfumato.auditing.asked import CanaryAsked
from sfumato.auditing.canary import plant
from sfumato.auditing.extra import Points
from sfumato.core.array_types import Floats, Matrix
from sfumato.core.errors import UsageError
from sfumato.core.files import write_whole
from sfumato.guarantee.cost import epsilon_of
from sfumato.mechanisms import MECHANISMS, make_mechanism
from sfumato.noise import Streams
from sfumato.table import Encoding, Schema

# The epsilon that an experiment proves: how well two worst-case records are told apart by what is released of them.
#
# Both records are perturbed many times. A linear test is fitted on one half of the outcomes and its threshold chosen
# there; the other half is counted. By Clopper and Pearson the true rate of finding the one is at least `low`, and that
# of a false alarm at most `high`, together with 99.9% confidence: epsilon is then at least log(low / high). That is a
# lower bound, and 4,000 outcomes show no more than 7. Where the audited epsilon lies above the claimed one, the
# mechanism is wrong, or its card is.


DRAWS = 4_000
FITS = 100
"""With planted records, and as many without."""
ERROR = 0.0005
"""Of each of the two one-sided bounds: a comparison has many cells, and none of them should be shouted by chance."""


def audited_epsilon(
    mechanism: str, parameters: Mapping[str, Any], schema: Schema, rows: pa.Table, *, seed: int, draws: int = DRAWS
) -> float:
    """A lower bound of the record's epsilon, with 99.9% confidence; 0 where nothing was told apart."""
    made = make_mechanism(mechanism, dict(parameters))
    if made.made_up:
        raise UsageError("its rows are made up: planted records audit it (sfumato canary)")
    if made.whole_table or getattr(made, "rounds", 1) > 1:
        raise UsageError("what becomes of one record depends on all others: planted records would have to audit it")
    encoding = Encoding(schema)
    rng = np.random.default_rng(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        streams = Streams.seeded(seed)  # a trial repeats
        made.fit(encoding.encode(rows).X, encoding.encode_label(rows), encoding=encoding, streams=streams)
        if made.recipe_.rows != "perturbed":
            raise UsageError("it draws rows, so a record may be drawn often or never")
        first, second = worst_pair(encoding)
        outcomes = [made.perturb(np.tile(one, (2 * draws, 1)), None, rng).X for one in (first, second)]
    return told_apart(*(np.nan_to_num(outcome, nan=0.5) for outcome in outcomes))


def audited_by_canaries(
    mechanism: str, parameters: Mapping[str, Any], schema: Schema, rows: pa.Table, *, seed: int, fits: int = FITS
) -> dict[str, Any]:
    """For made-up rows: planted records, found again by the noise that is between (`auditing/canary.py`).

    k planted records show a mu of at least `low` (99.9%), so that one record costs rho = (low / k)^2 / 2 or more, and
    epsilon follows at the same delta as for the claim. `above`: some part of the measurements tells more than it costs.
    """
    made = make_mechanism(mechanism, dict(parameters))
    asked = made.get_params()
    if not made.made_up or not {"epsilon", "delta"} <= asked.keys():
        raise UsageError("its rows are made up, and it does not say how planted records would show in them")
    sure = 1.0 - 2.0 * ERROR  # as sure as of other mechanisms: at 95% one setting in forty is above its claim by chance
    delta = float(asked["delta"])
    claim = CanaryAsked(schema=schema, epsilon=asked["epsilon"], delta=delta, fits=fits, seed=seed)
    found = plant(rows, claim, sure)
    together = replace(found.parts[-1], low=max(0.0, found.parts[-1].low))
    rho = (together.low / found.copies) ** 2 / 2.0
    mu = {name: getattr(together, name) / found.copies for name in ("measured", "low", "high", "claimed")}
    return {
        "audited_epsilon": epsilon_of(rho, delta) if rho > 0.0 else 0.0,
        "audited_mu": mu,
        "canaries_above": found.above,
    }


def worst_pair(encoding: Encoding) -> tuple[Floats, Floats]:
    """Two records at opposite corners of the domain: every number low or high, another category in each column."""
    first, second = np.zeros(encoding.width), np.zeros(encoding.width)
    for group in encoding.groups:
        first[group.start] = float(group.is_onehot)
        second[group.stop - 1 if group.is_onehot else group.start] = 1.0
    return first, second


def told_apart(first: Matrix, second: Matrix) -> float:
    """The bound from outcomes of the two records: half of each chooses the test, the other half counts."""
    half = len(first) // 2
    spread = np.concatenate([first[:half], second[:half]]).std(axis=0) + 1e-9
    direction = (second[:half].mean(axis=0) - first[:half].mean(axis=0)) / spread**2
    scores = [one @ direction for one in (first, second)]
    best = 0.0
    chosen: tuple[float, bool] | None = None
    tried = np.quantile(np.concatenate([scores[0][:half], scores[1][:half]]), np.linspace(0.005, 0.995, 100))
    for upper in (True, False):  # either record may be the one that stands out
        for threshold in tried:
            bound = _bound(*_counts(scores[0][:half], scores[1][:half], threshold, upper), half)
            if bound > best:
                best, chosen = bound, (float(threshold), upper)
    if chosen is None:
        return 0.0
    return max(0.0, _bound(*_counts(scores[0][half:], scores[1][half:], *chosen), len(first) - half))


def _counts(first: Floats, second: Floats, threshold: float, upper: bool) -> tuple[int, int]:
    """How often the test names the right record, and how often the other one."""
    right, other = (second > threshold, first > threshold) if upper else (first < threshold, second < threshold)
    return int(right.sum()), int(other.sum())


def _bound(found: int, alarms: int, trials: int) -> float:
    """log of the lower end of one share over the upper end of the other."""
    low = float(stats.beta.ppf(ERROR, found, trials - found + 1)) if found else 0.0
    high = float(stats.beta.ppf(1.0 - ERROR, alarms + 1, trials - alarms)) if alarms < trials else 1.0
    return math.log(low / high) if low > 0.0 else -math.inf


@dataclass(frozen=True)
class Cell:
    """A candidate at an openness (0 protects most, 1 tells most) on the split of this number."""

    candidate: Candidate
    openness: float
    split: int

    @property
    def name(self) -> str:
        """Of the file that holds what was found."""
        parameters = self.candidate.parameters(self.openness)
        text = json.dumps([self.candidate.mechanism, parameters, self.split], sort_keys=True, default=str)
        return f"{self.candidate.mechanism}-{hashlib.sha256(text.encode()).hexdigest()[:16]}.json"


def run_cell(cell: Cell, grounds: Sequence[Ground], how: Trial, folder: Path) -> dict[str, Any]:
    """Try it and keep the result. Whatever happens to one cell, the others go on."""
    begun = time.monotonic()
    parameters, name = cell.candidate.parameters(cell.openness), cell.candidate.mechanism
    found: dict[str, Any] = {"mechanism": name, "parameters": parameters, "openness": cell.openness}
    found |= {"split": cell.split, "refused": None}
    try:
        ground = grounds[cell.split]
        seen = trial(ground, name, parameters, cell.split, how)
        numbers = np.arange(ground.train.num_rows) if ground.numbers is None else ground.numbers
        exposed = {attack: [int(numbers[place]) + 1 for place in places] for attack, places in seen.exposed.items()}
        found["outcome"] = asdict(replace(seen, exposed=exposed))
        if cell.split == 0:
            found |= _audited(name, parameters, ground)
    except Exception as error:
        found["refused"] = why_not(error)
    found["seconds"] = round(time.monotonic() - begun, 2)
    write_whole(folder / cell.name, json.dumps(found), private=True)
    return found


def _audited(name: str, parameters: dict[str, Any], ground: Ground) -> dict[str, Any]:
    try:
        if MECHANISMS[name].made_up:
            return audited_by_canaries(name, parameters, ground.schema, ground.train, seed=7)
        return {"audited_epsilon": audited_epsilon(name, parameters, ground.schema, ground.train, seed=7)}
    except Exception as error:
        return {"audited_epsilon": None, "not_audited": why_not(error)}


# All cells of a comparison, added up over the splits, and which settings are worth looking at.


LONG = pa.schema(
    [
        ("mechanism", pa.string()),
        ("parameters", pa.string()),
        ("openness", pa.float64()),
        ("split", pa.int64()),
        ("kind", pa.string()),
        ("name", pa.string()),
        ("value", pa.float64()),
        ("low", pa.float64()),
        ("high", pa.float64()),
    ]
)


def tidy(cells: Sequence[Mapping[str, Any]]) -> pa.Table:
    """One row, one figure. kind: extra (of an attacker, points of 100; gain as 0.2 had it), accuracy (of a learner),
    majority, ceiling, epsilon (for anybody's values), presence."""
    rows: list[dict[str, Any]] = []
    for cell in cells:
        of = {name: cell[name] for name in ("mechanism", "openness", "split")}
        of["parameters"] = in_words(cell["parameters"])
        if cell["refused"] is not None:
            continue
        seen = _outcome(cell)
        extras = {name: (one.extra, one.low, one.high) for name, one in seen.extras.items()}
        for kind, attackers in (("extra", extras), ("gain", seen.gains)):
            for name, (value, low, high) in attackers.items():
                rows.append({**of, "kind": kind, "name": name, "value": value, "low": low, "high": high})
        rows += [{**of, "kind": "accuracy", "name": name, "value": value} for name, value in seen.reached.items()]
        single = {name: getattr(seen, name) for name in ("majority", "ceiling", "epsilon", "presence")}
        single |= {"conditional_epsilon": seen.conditional, "audited_epsilon": cell.get("audited_epsilon")}
        told = ((name, value) for name, value in single.items() if value is not None)
        rows += [{**of, "kind": name, "name": name, "value": value} for name, value in told]
    return pa.Table.from_pylist([{**dict.fromkeys(LONG.names), **row} for row in rows], schema=LONG)


def settings(cells: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One entry for every mechanism and strength: means over its splits, whether another one beats it in both, and
    whether it is `worth` a look: not beaten, every risk tried, and more right than the commonest class."""
    found: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for cell in cells:
        found.setdefault((cell["mechanism"], in_words(cell["parameters"])), []).append(cell)
    entries = [_entry(name, words, group) for (name, words), group in found.items()]
    measured = [one for one in entries if one["refused"] is None and None not in (one["accuracy"], one["extra"])]
    for one in measured:  # where a risk was not tried, what is known is the least: it beats no other
        one["dominated"] = any(
            other["extra"] <= one["extra"]
            and other["accuracy"] >= one["accuracy"]
            and (other["extra"], other["accuracy"]) != (one["extra"], one["accuracy"])
            for other in measured
            if not other["untried"]
        )
        one["worth"] = not (one["dominated"] or one["untried"]) and one["accuracy"] > one["majority"]
    return entries


def not_compared(entries: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Why settings were refused: said once of a mechanism where all its settings have the same reason."""
    return _in_short(entries, [one["refused"] for one in entries])


def no_learner(entries: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Why no learner could be trained on the releases of a setting, which adversaries were tried on all the same."""
    reasons = []
    for one in entries:
        without = one["refused"] is None and one["accuracy"] is None
        told: dict[str, list[str]] = {}
        for name, why in one["untrained"].items() if without else ():
            told.setdefault(why.rstrip("."), []).append(name)
        words = "; ".join(f"{', '.join(names)}: {why}" for why, names in told.items())
        reasons.append((words or "no learner fits such a release") if without else None)
    return _in_short(entries, reasons)


def _in_short(entries: Sequence[Mapping[str, Any]], reasons: Sequence[str | None]) -> dict[str, str]:
    by_mechanism: dict[str, list[tuple[str, str | None]]] = {}
    for one, why in zip(entries, reasons, strict=True):
        by_mechanism.setdefault(one["mechanism"], []).append((one["setting"], why))
    found = {}
    for name, told in by_mechanism.items():
        first = told[0][1]
        if first is not None and all(why == first for _, why in told):
            found[name] = first
        else:
            found |= {f"{name}, {setting}": why for setting, why in told if why is not None}
    return found


def _outcome(cell: Mapping[str, Any]) -> Outcome:
    told = cell["outcome"]
    return Outcome(**{**told, "extras": {name: Points(**one) for name, one in told["extras"].items()}})


def _entry(name: str, words: str, group: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    there = [cell for cell in group if cell["refused"] is None]
    given = {"setting": words, "parameters": group[0]["parameters"], "openness": group[0]["openness"]}
    entry: dict[str, Any] = {"mechanism": name, **given, "refused": None}
    if not there:
        return {**entry, "refused": group[0]["refused"]}
    outcomes = [_outcome(cell) for cell in there]
    mean = averaged(outcomes)
    best = mean.best
    accuracies = [] if best is None else [one.reached[best] for one in outcomes]
    return {
        **entry,
        "splits": len(there),
        **_attacked(mean),
        "learners": mean.reached,
        "best_learner": best,
        "untrained": mean.untrained,
        "accuracy": None if best is None else mean.accuracy,
        "spread": float(np.std(accuracies, ddof=1)) if len(accuracies) > 1 else None,
        "ceiling": mean.ceiling,
        "majority": mean.majority,
        "kind": mean.kind,
        "epsilon": mean.epsilon,
        "presence": mean.presence,
        "conditional_epsilon": mean.conditional,
        "delta": mean.delta,
        **_mean_audited(mean, next((cell for cell in there if "audited_epsilon" in cell), {})),
        "dominated": False,
        "worth": False,
    }


def _attacked(mean: Outcome) -> dict[str, Any]:
    """What attackers got: extra in points of 100, and gains as 0.2 had them."""
    strongest, widest = mean.strongest, mean.widest
    return {
        "extra": None if strongest is None else max(0.0, mean.extras[strongest].extra),
        "extra_high": None if widest is None else mean.extras[widest].high,
        "extras": {attack: {**asdict(one), "extra": one.extra} for attack, one in mean.extras.items()},
        "extra_columns": mean.columns,
        "gains": {attack: told[0] for attack, told in mean.gains.items()},
        "intervals": {attack: list(told[1:]) for attack, told in mean.gains.items()},
        "columns": {attack: {name: one / 100.0 for name, one in own.items()} for attack, own in mean.columns.items()},
        "exposed": mean.exposed,
        "not_applicable": mean.not_applicable,
        "untried": mean.untried,
        "risk": max(0.0, *(told[0] for told in mean.gains.values())) if strongest else None,
        "strongest": strongest,
    }


def _mean_audited(mean: Outcome, cell: Mapping[str, Any]) -> dict[str, Any]:
    """What an experiment proves of epsilon, beside the claim: planted records show that for presence, two records that
    are blurred again and again that for values."""
    claimed, audited = mean.stated if mean.presence is None else mean.presence, cell.get("audited_epsilon")
    above = audited is not None and claimed is not None and audited > claimed * (1 + 1e-9)
    return {
        "audited_epsilon": audited,
        "not_audited": cell.get("not_audited"),
        "audited_mu": cell.get("audited_mu"),
        "above_claim": above or bool(cell.get("canaries_above")),
    }
