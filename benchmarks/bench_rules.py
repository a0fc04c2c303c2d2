"""Rules from randomized answers against those of the original: the votes of 435 members of parliament, 16 questions.

Every column is randomized with the same epsilon. "covered": 95% intervals of pairs that hold the original's share.
"naive" takes answers for true ones. "found": of the original's rules (support .2, confidence .8) those that are found;
"wrong": rules called sure whose confidence in the original is no more than the share of what they conclude.

The second table is of the bits of a guided survey: four of the questions, 5,000 people drawn from the 435. "told":
pairs of answers whose share has a standard error of at most 0.125; else how many rows the surest would take.

Run: python benchmarks/bench_rules.py [--repeats 5]
"""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path

import numpy as np
import pyarrow.csv as pc

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # for `papers.data`

from papers.data import ROOT

import sfumato as sf

LIMITS = {"min_support": 0.2, "min_confidence": 0.8}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--repeats", type=int, default=5)
    options.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    chosen = options.parse_args()
    warnings.simplefilter("ignore")
    path = chosen.data / "votes.csv"
    if not path.is_file():
        print(f"{path} is not there: left out. Name the folder with --data.")
        return
    table = pc.read_csv(path, convert_options=pc.ConvertOptions(strings_can_be_null=False))
    columns = {name: [str(v) for v in table[name].to_pylist()] for name in table.column_names}
    words = {"mechanism": "randomized-response", "seed": 0}
    truth = sf.rules(sf.sanitize(columns, parameters={"epsilon": 30.0}, **words), **LIMITS)
    shares = {(one["first"], one["second"]): one["share"] for one in truth.pairs.to_pylist()}
    wanted = {(one["when"], one["then"]) for one in truth.rules.to_pylist()}
    lifts = {(o["when"], o["then"]): o["lift"] for o in _all(columns, words).rules.to_pylist()}
    print(f"{table.num_rows} rows, {len(columns)} columns, {len(shares)} pairs, {len(wanted)} rules in the original")
    print("| epsilon of a column | covered | error of a share, naive | half width | found | sure | wrong |")
    print("|---|---|---|---|---|---|---|")
    for epsilon in (4.0, 3.0, 2.0, 1.0):
        runs = []
        for seed in range(chosen.repeats):
            release = sf.sanitize(columns, parameters={"epsilon": epsilon}, **{**words, "seed": seed})
            found = sf.rules(release, **LIMITS)
            pairs = [
                (o, shares[o["first"], o["second"]])
                for o in found.pairs.to_pylist()
                if (o["first"], o["second"]) in shares
            ]
            seen = release.arrow
            naive = [_share(seen, o["first"], o["second"]) - t for o, t in pairs]
            sure = {(o["when"], o["then"]) for o in found.rules.to_pylist() if o["chance"] <= 0.05}
            all_found = {(o["when"], o["then"]) for o in found.rules.to_pylist()}
            runs.append(
                [
                    np.mean([o["low"] <= t <= o["high"] for o, t in pairs]),
                    np.mean(np.abs([o["share"] - t for o, t in pairs])),
                    np.mean(np.abs(naive)),
                    np.mean([(o["high"] - o["low"]) / 2 for o, _ in pairs]),
                    len(all_found & wanted) / len(wanted),
                    len(sure),
                    sum(lifts.get(rule, 2.0) <= 1.0 for rule in sure),
                ]
            )
        m = np.mean(runs, axis=0)
        errors = f"{m[1]:.3f}, {m[2]:.3f} | {m[3]:.3f}"
        print(f"| {epsilon:g} | {m[0]:.2f} | {errors} | {m[4]:.2f} | {m[5]:.0f} | {m[6]:.1f} |", flush=True)
    bits(columns, chosen.repeats)


QUESTIONS = 4
PEOPLE = 5_000


def bits(columns, repeats):
    """Rules behind the bits of a survey, by level, link and floor."""
    label = list(columns)[-1]
    names = [*list(columns)[2 : 2 + QUESTIONS], label]
    print("| level k | link | floor | epsilon | told | covered | half width |")
    print("|---|---|---|---|---|---|---|")
    cases = [(k, "square", floor) for floor in (0.25, 0.05) for k in (1, 2, 3, 4, 6, 8)]
    for k, link, floor in [*cases, *((k, "linear", 0.25) for k in (1, 2, 3, 4, 6, 8))]:
        runs, refused = [], ""
        for seed in range(repeats):
            some = np.random.default_rng(seed).integers(0, len(columns[label]), PEOPLE)
            people = {name: [columns[name][i] or "n" for i in some] for name in names}
            parameters = {"k": k, "link": link, "floor": floor}
            release = sf.sanitize(people, label=label, mechanism="guided-projection", parameters=parameters, seed=seed)
            try:
                pairs = sf.rules(release, min_support=0.001).pairs.to_pylist()
            except sf.core.errors.UsageError as error:
                refused = str(error).partition("would take ")[2].partition(" such")[0]
                continue
            pairs = [o for o in pairs if label not in (o["first"].partition("=")[0], o["second"].partition("=")[0])]
            if pairs:
                true = [_share_of(people, o["first"], o["second"]) for o in pairs]
                held = [o["low"] <= t <= o["high"] for o, t in zip(pairs, true, strict=True)]
                runs.append([len(pairs), np.mean(held), np.median([(o["high"] - o["low"]) / 2 for o in pairs])])
        epsilon = release.card.guarantee["conditional_epsilon"]["record"]
        m = np.mean(runs, axis=0) if runs else None
        told = (
            f"{m[0]:.0f} of {QUESTIONS * (QUESTIONS - 1) * 2} | {m[1]:.2f} | {m[2]:.3f}"
            if runs
            else f"none{refused and ': ' + refused} | |"
        )
        print(f"| {k} | {link} | {floor} | {epsilon:.1f} | {told} |", flush=True)


def _share_of(people, first, second):
    masks = [np.array(people[item.partition("=")[0]]) == item.partition("=")[2] for item in (first, second)]
    return float(np.mean(masks[0] & masks[1]))


def _all(columns, words):
    release = sf.sanitize(columns, parameters={"epsilon": 30.0}, **words)
    return sf.rules(release, min_support=0.001, min_confidence=0.001)


def _share(table, first, second):
    masks = []
    for item in (first, second):
        name, _, slot = item.partition("=")
        masks.append(np.array([str(v) == slot for v in table[name].to_pylist()]))
    return float(np.mean(masks[0] & masks[1]))


if __name__ == "__main__":
    main()
