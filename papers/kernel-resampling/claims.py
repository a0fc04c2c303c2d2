"""The paper's sentences, each with what was reached and a verdict that is computed, not typed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from papers.page import Claim
from published import CLASSIFIERS, SETS, TITLES, WORST_PHI
from tasks import Results

from sfumato.auditing.figures.kernel_resampling import SITES

NEAR = 0.02
"""Two errors count as the same within this."""


def claims(results: Results) -> Iterator[Claim]:
    """In the order of the paper."""
    yield from _limits(results)
    yield from _bounds(results)
    yield from _half(results)
    yield from _table_2(results)
    yield from _phi(results)
    yield from _dapl(results)
    yield from _privacy(results)


def titles(names: Iterable[str]) -> str:
    """Names of data sets as the paper writes them."""
    return ", ".join(SETS[name].title for name in names) or "none"


def verdict(good: int, of: int) -> str:
    """How many of how many."""
    return "reproduced" if good == of else "not reproduced" if good == 0 else "partly"


def _limits(results: Results) -> Iterator[Claim]:
    for d in results.dimensions:
        found = results.get("against_rows", d) or {}
        sizes = sorted({int(key.split("|")[1]) for key in found if key != "cpu"})
        hits = [float(np.mean(found[f"published|{n}|hits"])) for n in sizes]
        losses = [float(np.mean(found[f"published|{n}|dapl"])) for n in sizes]
        yield Claim(
            "5.2.1, 5.2.2",
            "samples are asymptotically independent and the estimate is consistent; with many rows inference is "
            "impossible",
            f"{d} column{'s' if d > 1 else ''}: from N = {sizes[0]:,} to {sizes[-1]:,} source hits fall from "
            f"{hits[0]:.2f} to {hits[-1]:.2f}, DAPL from {losses[0]:.2f} to {losses[-1]:.2f}",
            "the limits hold" if hits[-1] < hits[0] and losses[-1] < losses[0] else "not reproduced",
        )


def _bounds(results: Results) -> Iterator[Claim]:
    found = {name: results.over_seeds(name, "published|1", "interval").mean() for name in results.data}
    holds = min(results.over_seeds(name, "published|1", "holds").min() for name in results.data)
    yield Claim(
        "5.2.2, 8",
        "an intruder cannot establish bounds on the private data",
        f"the kernel is compact: the interval z ± h holds the source in {100 * holds:.0f}% of cases; its mean width "
        "is "
        f"{min(found.values()):.2f} to {max(found.values()):.2f} of a column's range",
        "false",
    )


def _half(results: Results) -> Iterator[Claim]:
    gaps = []
    for name in results.data:
        found = results.get("half", name) or {}
        for key in CLASSIFIERS:
            gaps += [float(np.mean(found[f"{L}|0.5"][key]) - np.mean(found[f"{L}|1"][key])) for L in (1, 4) if found]
    yield Claim(
        "5.1.1",
        "results do not change significantly with M = N/2",
        f"error changes by {min(gaps):+.3f} to {max(gaps):+.3f}, on average {np.mean(gaps):+.3f}",
        "reproduced" if max(gaps) < NEAR else "partly",
    )


def _table_2(results: Results) -> Iterator[Claim]:
    gaps = {
        (name, key): float(results.over_seeds(name, "original", key).mean()) - SETS[name].errors[key]
        for name in results.data
        for key in CLASSIFIERS
    }
    near = [place for place, gap in gaps.items() if abs(gap) <= NEAR]
    far = [f"{SETS[name].title} {TITLES[key]} {gaps[name, key]:+.3f}" for name, key in gaps if (name, key) not in near]
    yield Claim(
        "Table 2",
        f"{len(gaps)} errors with original training rows",
        f"within {NEAR} on {len(near)}; else: {', '.join(far) or 'none'}",
        verdict(len(near), len(gaps)),
    )
    if "ionosphere" in results.data:
        ours = results.over_seeds("ionosphere", "original", "nb").mean()
        yield Claim(
            "Table 2",
            "Ionosphere, NB: error 0.0000",
            f"{ours:.3f}; one column is constant, so its normal likelihood is not a number, and comparing with it is "
            "never wrong",
            "erratum",
        )


def _phi(results: Results) -> Iterator[Claim]:
    for rule in ("published", "scaled"):
        worst = {
            name: max((results.phi(name, rule, count, key)[0], key, count) for key in CLASSIFIERS for count in SITES)
            for name in results.data
        }
        good = [name for name in results.data if worst[name][0] <= WORST_PHI]
        bad = [
            f"{SETS[name].title} {worst[name][0]:+.3f} ({TITLES[worst[name][1]]}, L = {worst[name][2]})"
            for name in results.data
            if name not in good
        ]
        yield Claim(
            "Abstract, 7.4" if rule == "published" else "(ours)",
            f"phi is at most {WORST_PHI:.0%} on all sets"
            + ("" if rule == "published" else ", with the scaled bandwidth"),
            f"holds on {titles(good)}; else: {', '.join(bad) or 'none'}",
            verdict(len(good), len(results.data)),
        )
    slopes = {name: _slope(results, name) for name in results.data}
    rising = [name for name in results.data if slopes[name] > 0.005]
    yield Claim(
        "7.4",
        "except for Iris, phi does not depend on L",
        f"mean phi of the three classifiers rises by more than .005 from L = 1 to 8 on: {titles(rising)}",
        "reproduced" if set(rising) <= {"iris"} else "partly",
    )


def _slope(results: Results, name: str) -> float:
    ends = [np.mean([results.phi(name, "published", L, key)[0] for key in CLASSIFIERS]) for L in (SITES[0], SITES[-1])]
    return float(ends[1] - ends[0])


def _dapl(results: Results) -> Iterator[Claim]:
    rising = [
        name
        for name in results.data
        if all(results.dapl(name, "published", 8, code) > results.dapl(name, "published", 1, code) for code in (0, 1))
    ]
    yield Claim(
        "7.4",
        "DAPL rises with L on all sets",
        f"on {titles(rising)}, against rows held apart",
        verdict(len(rising), len(results.data)),
    )
    full = [name for name in results.data if min(results.dapl(name, "published", 1, code) for code in (0, 1)) > 0.85]
    yield Claim(
        "6.1",
        "DAPL is low when privacy loss is low",
        f"already at L = 1 it is above .85 on {titles(full)}, where every estimate is poor; the scaled bandwidth "
        "lowers it "
        "and source hits alike, more sites raise it and lower source hits: it is the error of the estimate",
        "not a measure of privacy",
    )


def _privacy(results: Results) -> Iterator[Claim]:
    for rule in ("published", "scaled"):
        hits = {name: results.over_seeds(name, f"{rule}|1", "hits").mean() for name in results.data}
        areas = {name: results.over_seeds(name, f"{rule}|1", "auc").mean() for name in results.data}
        said = "; ".join(f"{SETS[name].title} {hits[name]:.2f} / {areas[name]:.2f}" for name in results.data)
        yield Claim(
            "(ours)",
            f"source hits / membership AUC at L = 1, {rule} bandwidth",
            said,
            "rows are recognised" if max(hits.values()) > 0.5 else "some rows are recognised",
        )
