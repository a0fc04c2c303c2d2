"""compare: methods x strengths x attackers x learners on one's own table; cells that are finished are kept."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from scipy import stats

from sfumato.advising.asked import KEY_HOLDERS, CompareAsked
from sfumato.advising.trial import TEST_SHARE, Ground, Outcome, Trial, averaged, in_parts, sampled, trial, trial_schema
from sfumato.advising.wish import Candidate, Wish, candidates, in_words, why_not
from sfumato.auditing.asked import CanaryAsked, chosen_attacks
from sfumato.auditing.canary import plant
from sfumato.auditing.extra import Points
from sfumato.auditing.report.comparison import render_comparison
from sfumato.core.array_types import Floats, Matrix
from sfumato.core.asked import asks
from sfumato.core.errors import OutputError, PrivacyLeakWarning, SchemaError, UsageError
from sfumato.core.files import check_folder, explained, write_whole
from sfumato.core.processes import in_processes
from sfumato.guarantee.cost import epsilon_of
from sfumato.learn.classifiers.factory import CLASSIFIERS
from sfumato.mechanisms import MECHANISMS, make_mechanism
from sfumato.noise import Streams
from sfumato.release.sanitize import schema_for
from sfumato.table import Encoding, Schema, open_table, write_table
from sfumato.table.cell_sets import as_frame, kind_of

LOOKS = (
    "These trials look at your private rows, so nothing can be proved of a setting that is chosen by them. Where "
    '"proved" stands beside one, that holds for whoever chose it without looking.'
)
MOST_ROWS = 5_000
ATTACKED = 500
CELLS = "cells-6"  # what a kept cell holds; those of another kind are not taken up


class Comparison:
    """What a comparison found; private, since it was measured on private rows.

    Attributes
    ----------
    data : mapping
        As it stands in compare.json: one entry for every setting.
    folder : Path
        compare.json, compare.parquet and compare.html.
    """

    def __init__(self, data: dict[str, Any], folder: Path, kind: str) -> None:
        self.data, self.folder, self._kind = data, folder, kind

    def __repr__(self) -> str:
        return f"<Comparison of {len(self.data['settings'])} settings in {self.folder}>"

    @property
    def table(self) -> Any:
        """One row, one figure; a frame of the kind that was given."""
        found: pa.Table = open_table(self.folder / "compare.parquet").read()
        return as_frame(found, self._kind)


@asks(CompareAsked)
def compare(table: Any, out: Path | str, options: CompareAsked) -> Comparison:
    """Try every method at several strengths against every attacker, and see what learners keep.

    Nothing is released, and the ledger is not told. Trials that are finished are kept in `out`: the same call goes on
    where an interrupted one stopped.

    Parameters
    ----------
    table : DataFrame, Arrow table, dict of columns, path or SqlQuery
        The private table; of more than 5,000 rows a sample is used.
    out : path
        Folder to write: compare.json, compare.parquet, compare.html, all of them private.
    {options}

    Returns
    -------
    Comparison
        `comparison.table` has one row for each figure.
    """
    if not options.strengths or not all(0.0 <= one <= 1.0 for one in options.strengths):
        raise UsageError("Strengths must lie between 0 (protects most) and 1 (tells most).")
    chosen_attacks(options.named[0])
    if unknown := sorted(set(options.learners or ()) - set(CLASSIFIERS)):
        raise UsageError(f"There is no classifier {unknown[0][:60]!r}. Choose from: {', '.join(CLASSIFIERS)}.")
    folder, opened = Path(out), open_table(table)
    schema = schema_for(opened, options.schema, options.label)
    if schema.label is None:
        raise SchemaError(
            "Accuracy is how often the column to predict is right, and there is none. Name it with --label."
        )
    found, left_out = _compared(options, schema)
    warnings.warn(LOOKS, PrivacyLeakWarning, stacklevel=2)
    rows = opened.read()
    grounds = _grounds(rows, schema, options)
    kept = _folder(folder, rows, schema, options)
    cells = [
        Cell(one, level, number) for number in range(options.splits) for one in found for level in options.strengths
    ]
    results = _run(cells, grounds, options, kept)
    entries = settings(results)
    data = {
        "format": "sfumato-compare",
        "version": 1,
        "private": True,
        "rows": rows.num_rows,
        "rows_used": grounds[0].train.num_rows + grounds[0].test.num_rows,
        "splits": options.splits,
        "label": schema.label.name,
        "columns": len(schema.private),
        "column_names": [column.name for column in schema.private],
        "limit": options.max_extra,
        "settings": entries,
        "not_compared": _in_short(entries, [one["refused"] for one in entries]) | left_out,
        "no_learner": no_learner(entries),
        "seconds": round(sum(one["seconds"] for one in results), 1),
    }
    write_whole(folder / "compare.json", json.dumps(data, indent=1), private=True)
    write_table(tidy(results), folder / "compare.parquet", private=True)
    write_whole(folder / "compare.html", render_comparison(data), private=True)
    return Comparison(data, folder, kind_of(table))


def _compared(options: CompareAsked, schema: Schema) -> tuple[list[Candidate], dict[str, str]]:
    """The methods to compare, and why others are not."""
    found, left_out = candidates(Wish(trust=KEY_HOLDERS), public=not schema.learned)
    named = {one.mechanism for one in found} if options.mechanisms is None else set(options.mechanisms)
    if unknown := sorted(named - {one.mechanism for one in found}):
        why = left_out.get(unknown[0], "there is no such mechanism")
        raise UsageError(f"{unknown[0][:60]} cannot be compared: {why}.")
    return [one for one in found if one.mechanism in named], left_out


def _grounds(rows: pa.Table, schema: Schema, options: CompareAsked) -> list[Ground]:
    rng, shown = np.random.default_rng(options.seed), trial_schema(schema)
    numbers = sampled(rows, MOST_ROWS, rng)
    rows = rows.take(numbers)
    grounds = []
    for _ in range(options.splits):
        parts = in_parts(rows, schema, (1.0 - TEST_SHARE, TEST_SHARE), rng)
        train, test = (rows.take(part).select(shown.names) for part in parts)
        grounds.append(replace(Ground.of(shown, train, test), numbers=numbers[parts[0]]))
    return grounds


def _folder(out: Path, rows: pa.Table, schema: Schema, options: CompareAsked) -> Path:
    """Where cells are kept; cells of another table or split are not taken for these."""
    digest = hashlib.sha256(json.dumps([schema.to_dict(), options.seed], default=str).encode())
    for batch in rows.to_batches():
        for column in batch.columns:
            digest.update(repr(column.to_pylist()).encode())
    about = f"{CELLS} {digest.hexdigest()} {' '.join(map(str, options.named))}"
    note, cells = out / "about.txt", out / "cells"
    check_folder(out, force=True)
    with explained(out):
        if out.exists() and any(out.iterdir()) and (not note.is_file() or note.read_bytes() != about.encode()):
            raise OutputError(
                f"{out} contains something else, or the comparison of another table. Choose another folder."
            )
        out.mkdir(mode=0o700, parents=True, exist_ok=True)
        cells.mkdir(mode=0o700, exist_ok=True)
    write_whole(note, about, private=True)
    return cells


def _run(cells: Sequence[Cell], grounds: list[Ground], options: CompareAsked, folder: Path) -> list[dict[str, Any]]:
    """In processes of their own, a few at a time; interrupted, what is finished stays."""
    done: dict[str, dict[str, Any]] = {}
    for cell in cells:
        with contextlib.suppress(OSError, ValueError):  # not there yet, or damaged: it is computed again
            done[cell.name] = json.loads((folder / cell.name).read_text(encoding="utf-8"))
    todo = [cell for cell in cells if cell.name not in done]
    workers = min(options.workers or os.cpu_count() or 1, max(1, len(todo)))
    attacks, learners = options.named
    how = Trial(learners=learners, attacks=attacks, attacked=ATTACKED, needs_learner=False)

    with contextlib.closing(in_processes(todo, run_cell, (grounds, how, folder), workers)) as results:
        for cell, result in results:
            done[cell.name] = result
            options.progress("Trials", len(done), len(cells))
    return [done[cell.name] for cell in cells]


# One cell of a comparison: a mechanism at a strength on one split. What it finds is kept as soon as it is found.


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
    begun, ground = time.monotonic(), grounds[cell.split]
    parameters, name = cell.candidate.parameters(cell.openness), cell.candidate.mechanism
    found: dict[str, Any] = {"mechanism": name, "parameters": parameters, "openness": cell.openness}
    found |= {"split": cell.split, "refused": None}
    try:
        seen = trial(ground, name, parameters, cell.split, how)
        numbers = np.arange(ground.train.num_rows) if ground.numbers is None else ground.numbers
        exposed = {attack: [int(numbers[place]) + 1 for place in places] for attack, places in seen.exposed.items()}
        found["outcome"] = asdict(replace(seen, exposed=exposed))
    except Exception as error:
        found["refused"] = why_not(error)
    if cell.split == 0 and found["refused"] is None:
        given = (name, parameters, ground.schema, ground.train)
        try:
            if MECHANISMS[name].made_up:
                found |= audited_by_canaries(*given, seed=7)
            else:
                found["audited_epsilon"] = audited_epsilon(*given, seed=7)
        except Exception as error:
            found |= {"audited_epsilon": None, "not_audited": why_not(error)}
    found["seconds"] = round(time.monotonic() - begun, 2)
    write_whole(folder / cell.name, json.dumps(found), private=True)
    return found


# The epsilon that an experiment proves: how well two worst-case records are told apart by what is released of them.
#
# Both records are perturbed many times. A linear test is fitted on one half of the outcomes and its threshold chosen
# there; the other half is counted. By Clopper and Pearson the true rate of finding the one is at least `low`, and that
# of a false alarm at most `high`, together with 99.9% confidence: epsilon is then at least log(low / high). That is a
# lower bound, and 4,000 outcomes show no more than 7. Where the audited epsilon lies above the claimed one, the
# mechanism is wrong, or its card is.

DRAWS = 4_000
FITS = 100  # with planted records, and as many without
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
    encoding, rng = Encoding(schema), np.random.default_rng(seed)
    with warnings.catch_warnings(action="ignore"):
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
    one, other = second @ direction, first @ direction
    tried = np.quantile(np.concatenate([other[:half], one[:half]]), np.linspace(0.005, 0.995, 100))
    # Either record may be the one that stands out: above a threshold, or, with turned signs, below it.
    ways = [(one, other, threshold) for threshold in tried] + [(-other, -one, -threshold) for threshold in tried]
    bounds = [_bound(right[:half], wrong[:half], threshold) for right, wrong, threshold in ways]
    right, wrong, threshold = ways[int(np.argmax(bounds))]
    return max(0.0, _bound(right[half:], wrong[half:], threshold)) if max(bounds) > 0.0 else 0.0


def _bound(right: Floats, wrong: Floats, threshold: float) -> float:
    """log of how often at least the test names the right record, over how often at most the other one."""
    found, alarms, trials = int((right > threshold).sum()), int((wrong > threshold).sum()), len(right)
    low = float(stats.beta.ppf(ERROR, found, trials - found + 1)) if found else 0.0
    high = float(stats.beta.ppf(1.0 - ERROR, alarms + 1, trials - alarms)) if alarms < trials else 1.0
    return math.log(low / high) if low > 0.0 else -math.inf


# All cells of a comparison, added up over the splits, and which settings are worth looking at.

WORDS, FIGURE = pa.string(), pa.float64()
LONG = pa.schema(
    {"mechanism": WORDS, "parameters": WORDS, "openness": FIGURE, "split": pa.int64(), "kind": WORDS, "name": WORDS}
    | {"value": FIGURE, "low": FIGURE, "high": FIGURE}
)


def tidy(cells: Sequence[Mapping[str, Any]]) -> pa.Table:
    """One row, one figure. kind: extra (of an attacker, points of 100; gain as 0.2 had it), accuracy (of a learner),
    majority, ceiling, epsilon (for anybody's values), presence."""
    rows: list[tuple[Any, ...]] = []
    for cell in (one for one in cells if one["refused"] is None):
        of, seen = (cell["mechanism"], in_words(cell["parameters"]), cell["openness"], cell["split"]), _outcome(cell)
        rows += [(*of, "extra", name, one.extra, one.low, one.high) for name, one in seen.extras.items()]
        rows += [(*of, "gain", name, *ends) for name, ends in seen.gains.items()]
        rows += [(*of, "accuracy", name, value, None, None) for name, value in seen.reached.items()]
        single = {name: getattr(seen, name) for name in ("majority", "ceiling", "epsilon", "presence")}
        single |= {"conditional_epsilon": seen.conditional, "audited_epsilon": cell.get("audited_epsilon")}
        rows += [(*of, name, name, value, None, None) for name, value in single.items() if value is not None]
    return pa.Table.from_pylist([dict(zip(LONG.names, row, strict=True)) for row in rows], schema=LONG)


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
    """Reasons by setting; said once of a mechanism where all its settings have the same."""
    by_mechanism: dict[str, dict[str, str | None]] = {}
    for one, why in zip(entries, reasons, strict=True):
        by_mechanism.setdefault(one["mechanism"], {})[one["setting"]] = why
    found: dict[str, str] = {}
    for name, told in by_mechanism.items():
        said = {f"{name}, {setting}": why for setting, why in told.items() if why is not None}
        same = len(said) == len(told) and len({*said.values()}) == 1
        found |= {name: next(iter(said.values()))} if same else said
    return found


def _outcome(cell: Mapping[str, Any]) -> Outcome:
    told = cell["outcome"]
    return Outcome(**{**told, "extras": {name: Points(**one) for name, one in told["extras"].items()}})


def _entry(name: str, words: str, group: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    there = [cell for cell in group if cell["refused"] is None]
    entry = {"mechanism": name, "setting": words, **{one: group[0][one] for one in ("parameters", "openness")}}
    if not there:
        return {**entry, "refused": group[0]["refused"]}
    outcomes = [_outcome(cell) for cell in there]
    mean = averaged(outcomes)
    best = mean.best
    accuracies = [] if best is None else [one.reached[best] for one in outcomes]
    return {
        **entry,
        "refused": None,
        "splits": len(there),
        **_attacked(mean, next((cell for cell in there if "audited_epsilon" in cell), {})),
        "learners": mean.reached,
        "best_learner": best,
        "accuracy": None if best is None else mean.accuracy,
        "spread": float(np.std(accuracies, ddof=1)) if len(accuracies) > 1 else None,
        "conditional_epsilon": mean.conditional,
        **{one: getattr(mean, one) for one in ("kind", "epsilon", "presence", "delta", "majority", "ceiling")},
        "untrained": mean.untrained,
        "dominated": False,
        "worth": False,
    }


def _attacked(mean: Outcome, audit: Mapping[str, Any]) -> dict[str, Any]:
    """What attackers got: extra in points of 100, and gains as 0.2 had them. What an experiment proves of epsilon,
    beside the claim: planted records show that for presence, two records that are blurred again and again for values.
    """
    strongest, widest = mean.strongest, mean.widest
    claimed, audited = mean.stated if mean.presence is None else mean.presence, audit.get("audited_epsilon")
    above = audited is not None and claimed is not None and audited > claimed * (1 + 1e-9)
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
        **{one: audit.get(one) for one in ("audited_epsilon", "not_audited", "audited_mu")},
        "above_claim": above or bool(audit.get("canaries_above")),
    }
