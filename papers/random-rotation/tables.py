"""RESULTS.md: what was reached, beside what was published."""

from __future__ import annotations

from claims import claims
from papers.page import sentences, table
from published import TABLE_1
from tasks import ICA_SEARCHES, ITERATIONS, ROTATIONS, SIZE, SWEPT, Results

INTRODUCTION = """# random-rotation: published and reached

Printed by `run.py`; do not edit. sigma = standard deviation of an attack's error on columns scaled to [0, 1].
**Not applied**: errata left in, ICA's components of variance 1 held against the columns (`scoring="published"`).
**Applied**: components rescaled, matched and signed; no figure above what guessing the column's mean gives."""


def results_text(results: Results, minutes: float, fast: bool) -> str:
    """The whole file."""
    parts = [INTRODUCTION]
    if fast:
        parts.append(
            "**A fast run**: two sets, 3 rotations, ICA on 12 rotations, 2 searches of 50. Not the paper's setting."
        )
    parts.append(f"{minutes:.1f} minutes of computing. Sets: {', '.join(f'`{s}`' for s in results.sources.values())}.")
    parts += [f"Skipped: {reason}" for reason in results.skipped.values()]
    parts += sentences(claims(results))
    parts += _accuracy(results) + _privacy(results) + _condensation(results) + _known_rows(results)
    if not fast:
        parts += _figures()
    return "\n\n".join(parts) + "\n"


def _difference(found: dict[str, float]) -> str:
    return f"{100 * found['difference']:+.1f} ± {100 * found['sd']:.1f}"


def _accuracy(results: Results) -> list[str]:
    rows = []
    for name in results.data:
        paper, found = TABLE_1[name], results.get("accuracy", name)
        cells = [paper.title]
        for key in ("knn", "svm", "perceptron"):
            orig, change = getattr(paper, key), getattr(paper, f"{key}_rotated")
            ours = found.get(key)
            cells.append(f"{orig:.1f} / {100 * ours['orig']:.1f}" if ours else "-")
            cells.append(f"{change} / {_difference(ours)}" if ours else "-")
        off = found.get("perceptron, random centre")
        cells.append(_difference(off) if off else "-")
        cells.append(
            f"{100 * min(found['shares'], key=lambda s: abs(100 * s - (paper.perceptron or 100))):.1f}" if off else "-"
        )
        cells.append(_difference(found["tree"]))
        rows.append(cells)
    head = ("set", "KNN", "R", "SVM", "R", "perceptron", "R, centre 0", "R, random centre", "one class", "tree, R")
    return [
        "## Table 1, left: accuracy in %, and its change on rotated data",
        f"Published / reached; {ROTATIONS} rotations in a full run, each cross-validated once in the same 10 folds. "
        "KNN: k = 5. SVM: C = 1, gamma = 1/d. *One class*: accuracy of always answering the class whose share is "
        "nearest to the published perceptron. *Tree*: a decision tree, which is not invariant, for contrast.",
        table(head, rows),
    ]


def _privacy(results: Results) -> list[str]:
    rows = []
    for name in results.data:
        paper, ours = TABLE_1[name], results.privacy(name)
        star = "*" if paper.not_converged else ""
        guess = results.get("iterations", name)["mean_guess"]
        deviation = results.get("iterations", name)["lop"]["lop_min"][1]
        spread = results.get("ica_searches", name)["ica_avg"][1]
        rows.append(
            [
                paper.title,
                f"{paper.lop_min:.2f} / {ours['lop_min']:.2f} ± {deviation:.2f}",
                f"{paper.lop_avg:.2f} / {ours['lop_avg']:.2f}",
                f"{paper.ica_min:.2f}{star} / {ours['ica_min']:.2f}",
                f"{paper.ica_avg:.2f}{star} / {ours['ica_avg']:.2f} ± {spread:.2f}",
                f"{100 * ours['not_converged']:.0f}%" + (" *" if ours["not_converged"] > 0.5 else ""),
                f"{ours['naive']:.2f}",
                f"{ours['true_min']:.3f}",
                f"{ours['true_avg']:.2f}",
                f"{guess[0]:.2f} / {guess[1]:.2f}",
                f"{ours['left']:.2f}",
            ]
        )
    head = ("set", "LOP_min", "LOP_avg", "ICA_min", "ICA_avg", "ICA did not converge")
    head += ("naive_min", "ICA_min applied", "ICA_avg applied", "guessing the mean, min / avg", "best recovered column")
    return [
        "## Table 1, right: privacy",
        "Columns 2-5 published / reached, errata not applied; the rest applied. "
        f"{ITERATIONS} iterations in a full run; LOP and ICA are the mean ± deviation over 20 such searches "
        f"(ICA: {ICA_SEARCHES} in a full run), the rest is of one. *ICA_avg*: of the ordering with the lowest "
        "minimum (4.4), as the mean over all that tie. "
        "*: published, or on most rotations here, ICA did not converge (two starts of 200 iterations), so that its "
        "figure is no privacy. *Best recovered column*: error as a part of that column's own deviation (0 is "
        "everything, 1 is nothing learned).",
        table(head, rows),
    ]


def _condensation(results: Results) -> list[str]:
    parts = []
    for number, name in zip((5, 6), SWEPT, strict=True):
        if name in results.data:
            sizes = results.get("condensation", name)["by size"]
            rows = [[label, *(f"{pair[i]:.3f}" for pair in sizes.values())] for i, label in enumerate(("min", "avg"))]
            parts += [
                f"## Figure {number}: condensation on {TABLE_1[name].title}, by group size",
                table(("privacy", *sizes), rows),
            ]
    rows = []
    for name in results.data:
        ours, (least, mean) = results.privacy(name), results.condensed(name)
        rows.append(
            [
                TABLE_1[name].title,
                *(f"{ours[key]:.2f}" for key in ("kept", "kept_avg")),
                *(f"{least:.3f}", f"{mean:.3f}", f"{ours['true_min']:.3f}", f"{ours['true_avg']:.2f}"),
            ]
        )
    head = ("set", "rotation min", "rotation avg", "condensation min", "condensation avg")
    head += ("rotation min, applied", "rotation avg, applied")
    return [
        *parts,
        "## Figures 7 and 8: rotation and condensation",
        f"Published: plots only. Groups of {SIZE} (the paper does not say); mean of 5 condensations. *Rotation* is "
        "the best of min(LOP, ICA) over the iterations of one search, errata not applied; *applied* is what ICA leaves."
        " "
        "Condensation has met the nearest-row attack only.",
        table(head, rows),
    ]


def _known_rows(results: Results) -> list[str]:
    rows = []
    for name in results.data:
        found = results.get("attacks", name)
        d, curve = found["d"], found["curve"]
        counts = (1, d // 2, d, d + 1, 2 * (d + 1), 3 * (d + 1))
        cells = [f"{100 * curve[str(count)]:.0f}" if str(count) in curve else "-" for count in counts]
        blind = f"{found['blind'][0]:.2f} / {found['blind'][1]:.2f}" if found["blind"] else "did not converge"
        rows.append([TABLE_1[name].title, d, *cells, found["rows"], f"{found['error']:.0e}", blind])
    head = ("set", "d", "1 row", "d/2", "d", "d + 1", "2(d + 1)", "3(d + 1)", "independent rows", "largest error")
    return [
        "## Known rows: d + 1 recover everything",
        "% of the other people's values told (`recovery_curve`) by so many rows picked at random, which may repeat "
        "each other where columns have few values (and up to d rows the mean of all columns helps as one row more). "
        "*Independent rows* are picked so that each adds a direction (at most d + 1, fewer where a column is "
        "constant); *largest error* is what they leave on any value of any row. *ICA, blind*: min / avg sigma of "
        "`IndependentComponents`, which matches components by the columns' distributions alone.",
        table((*head, "ICA, blind"), rows),
    ]


def _figures() -> list[str]:
    names = {
        "fig3-4": "Figures 3 and 4: privacy over the iterations",
        "fig5-6": "Figures 5 and 6: condensation by group size",
        "fig7-8": "Figures 7 and 8: rotation and condensation",
    }
    return ["## Figures", *(f"![{title}](figures/{name}.svg)" for name, title in names.items())]
