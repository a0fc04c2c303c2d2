"""The paper's sentences, each beside what was reached."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import published
from papers.page import Claim
from splits import SYNTHETIC, TITLES
from tasks import COLUMNS, DEVIATIONS, B, Results

TIE = 0.001
"""A tenth of a point of accuracy: where everybody is right, nobody is above the line."""
OTHERS = {"rand-p": COLUMNS, "rand-u": DEVIATIONS, "rand-n": DEVIATIONS}


class Line(NamedTuple):
    """Accuracy against average privacy of PCA-Radius, by least squares through its three points."""

    slope: float
    intercept: float

    def above(self, privacy: float, accuracy: float) -> float:
        """How far (in accuracy) a point lies above the line: positive contradicts the paper."""
        return accuracy - (self.intercept + self.slope * privacy)


def regression(results: Results, data: str, vote: str = "radius", attack: str = "filtered") -> Line:
    """PCA-Radius' line of Fig. 5; `attack` is the one after which privacy is measured."""
    x = [results.get("pca-radius", data, b, attack) for b in B]
    y = [results.get("pca-radius", data, b, vote) for b in B]
    return Line(*(float(value) for value in np.polyfit(x, y, 1)))


def above_the_line(results: Results, vote: str = "radius", attack: str = "filtered") -> list[tuple[str, str, object]]:
    """Points of the other methods that lie above the line, i.e. are the better trade-off."""
    found = []
    for data in results.data:
        line = regression(results, data, vote, attack)
        for method, settings in OTHERS.items():
            for setting in settings:
                point = (results.get(method, data, setting, name) for name in (attack, "best_k"))
                if line.above(*point) > TIE:
                    found.append((data, method, setting))
    return found


def drop(before: float, after: float) -> float:
    """Share of the average privacy that an attack takes away."""
    return 1 - after / before


def claims(results: Results) -> Iterator[Claim]:
    """All sentences that can be checked with what was run."""
    yield from _figure_5(results)
    yield from _figure_6(results)
    yield from _figure_8(results)
    yield from _figure_9(results)
    yield from _figures_10_and_11(results)


def _figure_5(results: Results) -> Iterator[Claim]:
    total = len(results.data) * sum(map(len, OTHERS.values()))
    sentence = "almost all points of other methods (all but 2 of 81) lie below and left of PCA-Radius' line"
    for vote, attack, words in (
        ("radius", "filtered", sentence),
        ("corrected", "filtered", "(ours) the same, PCA-Radius with votes over priors"),
        ("radius", "linear", "(ours) the same, privacy measured after the linear estimate"),
    ):
        above = above_the_line(results, vote, attack)
        kept = verdict(len(above) <= 0.1 * total, len(above) <= 0.5 * total)
        yield Claim("5", words, f"{total - len(above)} of {total} do", kept)
    for vote, words in (("radius", "a PCA-Radius point"), ("corrected", "one with votes over priors")):
        beaten = sum(_is_beaten(results, name, b, vote) for name in results.data for b in B)
        yield Claim(
            "5",
            f"(ours) no point of others is better than {words} in both",
            f"{beaten} of {len(results.data) * len(B)} are beaten",
            "as measured",
        )
    real = [name for name in results.data if name not in SYNTHETIC]
    for b, (low, high) in published.ACCURACY.items():
        reached = [100 * results.get("pca-radius", name, b, "radius") for name in real]
        good = [low - 5 <= value <= high + 5 for value in reached]
        yield Claim(
            "5",
            f"b = {b}: accuracy around {low:.0f}-{high:.0f}% on real data",
            f"{min(reached):.0f}-{max(reached):.0f}%",
            verdict(all(good), np.mean(good) >= 0.5),
        )
        for name in results.data:
            if name in SYNTHETIC:
                value = 100 * results.get("pca-radius", name, b, "radius")
                yield Claim(
                    "5", f"b = {b}: accuracy 100% on {TITLES[name]}", f"{value:.0f}%", verdict(value > 99, value > 90)
                )
    wide = {name: results.get("pca-radius", name, 0.3, "filtered") for name in results.data}
    there = [name for name in published.WIDE if name in wide]
    if there:
        yield Claim(
            "5",
            "b = .3: average privacy above 100% of the range on " + names(there),
            ", ".join(f"{100 * wide[name]:.0f}%" for name in there),
            verdict(all(wide[name] > 1 for name in there), any(wide[name] > 1 for name in there)),
        )
    there = [name for name in published.NARROW if name in wide]
    if there:
        yield Claim(
            "5",
            "b = .3: average privacy around 80% on " + names(there),
            ", ".join(f"{100 * wide[name]:.0f}%" for name in there),
            verdict(*(all(abs(wide[name] - 0.8) < near for name in there) for near in (0.1, 0.2))),
        )


def _is_beaten(results: Results, data: str, b: float, vote: str) -> bool:
    """Whether another method has both more privacy and more accuracy than PCA-Radius with this b."""
    mine = [results.get("pca-radius", data, b, key) for key in ("filtered", vote)]
    return any(
        all(
            results.get(method, data, setting, key) > own for key, own in zip(("filtered", "best_k"), mine, strict=True)
        )
        for method, settings in OTHERS.items()
        for setting in settings
    )


def _figure_6(results: Results) -> Iterator[Claim]:
    for b, (text, factor) in published.AMPLIFICATION.items():
        value = results.get("amplification", "all", b, "amplification")
        off = abs(value / factor - 1)
        yield Claim("6a", f"b = {b}: amplification {text}", f"{value:.1f}", verdict(off < 0.1, off < 0.3))
    for b, (text, most) in published.RHO_2.items():
        value = results.get("amplification", "all", b, "rho_2")
        held = verdict(value <= most, value <= 1.3 * most)
        yield Claim("6b", f"b = {b}: rho_2 at most {text}", f"{100 * value:.2f}%", held)


def _figure_8(results: Results) -> Iterator[Claim]:
    with_pca, without, gains = [], [], []
    for name in results.data:
        for b in B:
            plain = results.get("pca-radius", name, b, "reversed")
            with_pca.append(drop(plain, results.get("pca-radius", name, b, "filtered")))
            without.append(drop(plain, results.get("laplace", name, b, "filtered")))
            gains.append(drop(*(results.get("laplace", name, b, key) for key in ("unfiltered", "filtered"))))
    small = float(np.mean(np.array(with_pca) <= 0.05))
    yield Claim(
        "8",
        "PCA + Filtering is very close to No-Filtering: the biggest drop is about 10%, in most cases at most 5%",
        f"biggest {100 * max(with_pca):.0f}%, at most 5% in {100 * small:.0f}% of cases",
        verdict(max(with_pca) < 0.15 and small > 0.5, small > 0.5),
    )
    large = float(np.mean(np.array(without) > 0.2))
    yield Claim(
        "8",
        "No-PCA + Filtering drops by more than 20% in more than half of all cases",
        f"in {100 * large:.0f}% of cases",
        verdict(large > 0.5, False),
    )
    more = float(np.mean(np.array(without) > np.array(with_pca)))
    yield Claim(
        "8",
        "the drop without PCA is always larger than with PCA (both from No-Filtering)",
        f"in {100 * more:.0f}% of cases",
        verdict(more == 1, more > 0.9),
    )
    more = float(np.mean(np.array(gains) > np.array(with_pca)))
    yield Claim(
        "8",
        "(ours) filtering takes a larger share from noise on columns than from noise on components",
        f"in {100 * more:.0f}% of cases",
        verdict(more == 1, more > 0.75),
    )


def _figure_9(results: Results) -> Iterator[Claim]:
    cells = [(name, b) for name in results.data for b in B]
    loss = {
        cell: 100 * (results.get("pca-radius", *cell, "best_k") - results.get("pca-radius", *cell, "radius"))
        for cell in cells
    }
    small = float(np.mean([value < 2 for value in loss.values()]))
    worst = max(loss, key=loss.__getitem__)
    yield Claim(
        "9",
        "radius is less than 5 points below the best k in all cases, less than 2 in most",
        f"less than 2 in {100 * small:.0f}% of cases; "
        f"worst {loss[worst]:.0f} points ({TITLES[worst[0]]}, b = {worst[1]})",
        verdict(small > 0.5 and max(loss.values()) < 5, small > 0.5),
    )
    for (name, b), points in published.K5_DROP.items():
        if name in results.data:
            found = 100 * (results.get("pca-radius", name, b, "radius") - results.get("pca-radius", name, b, "k5"))
            yield Claim(
                "9",
                f"{TITLES[name]}, b = {b}: k = 5 is {points:.0f} points below the radius",
                f"{found:.0f} points",
                verdict(abs(found - points) <= 10, found > 5),
            )


def _figures_10_and_11(results: Results) -> Iterator[Claim]:
    if (100_000, 100) not in results.sizes:
        return
    whole = {name: results.get("time", "clusters", (100_000, 100), name) for name in ("pca", "noise", "radius")}
    files = sum(results.get("time", "clusters", (100_000, 100), name) for name in ("load_csv", "save_csv"))
    yield Claim(
        "10",
        "components and noise take little time beside loading and saving",
        f"{whole['pca'] + whole['noise']:.1f} s beside {files:.1f} s (CSV)",
        verdict(whole["pca"] + whole["noise"] < files / 2, whole["pca"] + whole["noise"] < files),
    )
    yield Claim(
        "11",
        f"{published.SECONDS_PER_QUERY} s a query at 100,000 x 100",
        f"{1000 * whole['radius']:.2f} ms in a batch of 1,000, "
        f"{1000 * results.get('time', 'clusters', (100_000, 100), 'alone'):.0f} ms one at a time",
        "another machine",
    )
    for part, ends in (("columns", ((100_000, 20), (100_000, 100))), ("rows", ((20_000, 100), (100_000, 100)))):
        few, many = (results.get("time", "clusters", size, "radius") for size in ends)
        yield Claim(
            "11",
            f"mining time grows about linearly with {part} (5 times as many)",
            f"{many / few:.1f} times as long",
            "better than linear" if many / few < 2.5 else verdict(many / few < 7.5, many / few < 10),
        )


def verdict(whole: bool, partly: bool) -> str:
    """In words."""
    return "reproduced" if whole else "partly" if partly else "not reproduced"


def names(data: list[str]) -> str:
    """Titles in a row."""
    return ", ".join(TITLES[name] for name in data)
