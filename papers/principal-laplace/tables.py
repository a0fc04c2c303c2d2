"""RESULTS.md: every figure of the paper as a table, published beside reached."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from importlib.metadata import version

import published
from claims import OTHERS, above_the_line, claims, drop, regression
from papers.data import SHAPES
from papers.page import table
from splits import SYNTHETIC, TITLES
from tasks import B_FINE, RHO_1, B, Results

from sfumato.guarantee import posterior_bound

METHODS = {"rand-p": "Rand-P (m/4, m/2, m-1)", "rand-u": "Rand-U (.1, .25, .5)", "rand-n": "Rand-N (.1, .25, .5)"}


def results_text(results: Results, minutes: float, fast: bool) -> str:
    """The whole page."""
    parts = [
        *_head(results, minutes, fast),
        *_claims(results),
        *_figure_5(results),
        *_figure_6(results),
        *_figure_8(results),
        *_figure_9(results),
        *_figures_10_and_11(results),
        *_guarantees(results),
        *_product(results),
    ]
    # The fast run draws nothing.
    return "\n".join(part for part in parts if not (fast and part.startswith("!["))) + "\n"


def grid(header: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    """A table, and the blank line after it."""
    return [table(header, rows), ""]


def share(value: float) -> str:
    """In percent, without decimals."""
    return "" if math.isnan(value) else f"{round(100 * value)}"


def belief(probability: float) -> str:
    """A probability in percent that never rounds up to certainty."""
    return "over 99.9%" if probability > 0.999 else f"{100 * probability:.3g}%"


def _head(results: Results, minutes: float, fast: bool) -> Iterator[str]:
    yield "# principal-laplace: results\n"
    yield "Printed by `papers/principal-laplace/run.py" + (" --fast`" if fast else "`") + ", not written by hand."
    packages = ", ".join(f"{name} {version(name)}" for name in ("sfumato", "numpy", "scikit-learn"))
    yield f"{minutes:.0f} minutes of one core's time in all; {packages}."
    yield "What it means is in [README.md](README.md).\n"
    rows = []
    for name, title in TITLES.items():
        attributes, records, classes = SHAPES.get(name, (100, 100_000, 10))
        shape = [str(attributes), f"{records:,}", str(classes)]
        if name in results.data:
            rows.append([title, *shape, results.sources[name], str(results.runs(name))])
        elif name in results.skipped:
            rows.append([title, *shape, f"**skipped**: {results.skipped[name]}", "0"])
    yield from grid(["data set", "attributes", "records", "classes", "from", "runs"], rows)


def _claims(results: Results) -> Iterator[str]:
    yield "## Sentence by sentence\n"
    rows = [[f"Fig. {one.where}", one.published, one.reached, one.verdict] for one in claims(results)]
    yield from grid(["figure", "published", "reached", "verdict"], rows)


def _figure_5(results: Results) -> Iterator[str]:
    yield "## Figure 5: average privacy against accuracy\n"
    yield "Average privacy / accuracy in %, in the order of the settings (published: plot only). **Bold**: above"
    yield "PCA-Radius' line, so a better trade-off than the paper's method. Privacy is measured after"
    yield "reversing the transform and filtering.\n"
    better = set(above_the_line(results))
    rows = []
    for name in results.data:
        line = regression(results, name)
        cells = [
            " / ".join(share(results.get("pca-radius", name, b, key)) for key in ("filtered", "radius")) for b in B
        ]
        rows.append([TITLES[name], "PCA-Radius (b = .1, .2, .3)", *cells, f"{line.slope:+.2f}"])
        cells = [f"as above / {share(results.get('pca-radius', name, b, 'corrected'))}" for b in B]
        rows.append(["", "the same, votes over priors", *cells, f"{regression(results, name, 'corrected').slope:+.2f}"])
        for method, settings in OTHERS.items():
            cells = []
            for setting in settings:
                privacy, accuracy = (results.get(method, name, setting, key) for key in ("filtered", "best_k"))
                text = f"{share(privacy)} / {share(accuracy)}"
                cells.append(f"**{text}**" if (name, method, setting) in better else text)
            rows.append(["", METHODS[method], *cells, ""])
    yield from grid(["data set", "method", "first", "second", "third", "slope of the line"], rows)
    yield "![Figure 5](figures/fig5.svg)\n"


def _figure_6(results: Results) -> Iterator[str]:
    yield f"## Figure 6: amplification e^(1/b) of one component, and rho_2 at rho_1 = {RHO_1}\n"
    rows = []
    for b in B_FINE:
        gamma, rho_2 = (results.get("amplification", "all", b, name) for name in ("amplification", "rho_2"))
        texts = [said.get(b, ("plot only",))[0] for said in (published.AMPLIFICATION, published.RHO_2)]
        rows.append([f"{b}", texts[0], f"{gamma:,.1f}", texts[1], f"{rho_2:.4f}" if rho_2 < 0.9999 else "over 0.9999"])
    yield from grid(["b", "published", "amplification", "published", "rho_2"], rows)
    yield "![Figure 6](figures/fig6.svg)\n"


def _figure_8(results: Results) -> Iterator[str]:
    yield "## Figure 8: average privacy under filtering\n"
    yield "In % of the range (published: plot only). *Drop*: from No-Filtering. *Clipped*: PCA + Filtering by an"
    yield "adversary who knows that values lie in [0, 1]. *Linear*: the linear estimate with known column moments."
    yield "*Mean*: the adversary never sees the release; whatever is wider than that protects nothing more.\n"
    rows = []
    for name in results.data:
        for b in B:
            plain, filtered, clipped, linear, mean = (
                results.get("pca-radius", name, b, key)
                for key in ("reversed", "filtered", "filtered_clipped", "linear", "mean")
            )
            noise, without = (results.get("laplace", name, b, key) for key in ("unfiltered", "filtered"))
            rows.append(
                [
                    TITLES[name] if b == B[0] else "",
                    f"{b}",
                    share(plain),
                    share(filtered),
                    share(drop(plain, filtered)),
                    share(noise),
                    share(without),
                    share(drop(plain, without)),
                    share(clipped),
                    share(linear),
                    share(mean),
                ]
            )
    yield from grid(
        [
            "data set",
            "b",
            "No-Filtering",
            "PCA + Filtering",
            "drop %",
            "No-PCA",
            "No-PCA + Filtering",
            "drop %",
            "clipped",
            "linear",
            "mean",
        ],
        rows,
    )
    yield "![Figure 8](figures/fig8.svg)\n"


def _figure_9(results: Results) -> Iterator[str]:
    yield "## Figure 9: accuracy\n"
    yield "In %, ± standard error over the runs (published: plot only). *Elsewhere*: radius / best k / k = 5 of an"
    yield "earlier, independent implementation."
    yield "*In circle*: share of the released rows that vote. *Fallback*: queries left to the five nearest rows.\n"
    rows = []

    def cell(name: str, key: str, experiment: str = "pca-radius", b: float = 0) -> str:
        errors = 100 * results.error(experiment, name, b, key)
        return f"{share(results.get(experiment, name, b, key))} ± {errors:.0f}"

    for name in results.data:
        five, best = (cell(name, key, "original") for key in ("k5", "best_k"))
        rows.append([TITLES[name], "0", five, "", best, five, "", "", ""])
        for b in B:
            radius, corrected, best, five = (cell(name, key, b=b) for key in ("radius", "corrected", "best_k", "k5"))
            k, circle, fallback = (results.get("pca-radius", name, b, key) for key in ("k", "inside", "fallback"))
            elsewhere = "/".join(map(str, published.REFERENCE.get(name, ()))) if b == 0.3 else ""
            best = f"{best} (k about {k:.0f})"
            rows.append(["", f"{b}", radius, corrected, best, five, elsewhere, share(circle), share(fallback)])
    header = ["data set", "b", "radius", "over priors", "best k", "k = 5", "elsewhere", "in circle", "fallback"]
    yield from grid(header, rows)
    elsewhere = [
        f"{TITLES[name]} {text}" for name, text in published.REFERENCE_CORRECTED.items() if name in results.data
    ]
    if elsewhere:
        yield f"Over priors at b = .3 elsewhere: {', '.join(elsewhere)}.\n"
    for name in results.data:
        if name in SYNTHETIC:
            bound = results.get("original", name, 0, "nearest_mean")
            yield f"{TITLES[name]}: the nearest cluster mean gets {100 * bound:.1f}%; no classifier can do better.\n"
    yield "![Figure 9](figures/fig9.svg)\n"


def _figures_10_and_11(results: Results) -> Iterator[str]:
    yield "## Figures 10 and 11: time\n"
    yield "Core seconds to sanitize, core milliseconds per query (published: plot only, but for 2.6 s a query at"
    yield "100,000 x 100). Threads are added up, so that other work on the machine matters little; least of"
    yield "five repeats. Radius and k = 5: a batch of 1,000 queries.\n"
    names = ["load_csv", "pca", "noise", "save_csv", "exact_noise", "load_parquet", "save_parquet"]
    mining = ["radius", "k5", "alone"]
    rows = []
    for size in results.sizes:
        seconds = [f"{results.get('time', 'clusters', size, name):.2f}" for name in names]
        queries = [f"{1000 * results.get('time', 'clusters', size, name):.2f}" for name in mining]
        rows.append([f"{size[0]:,}", str(size[1]), *seconds, *queries])
    header = ["rows", "columns", "load CSV", "components", "noise", "save CSV", "exact noise", "load Parquet"]
    yield from grid([*header, "save Parquet", "radius (ms)", "k = 5 (ms)", "one at a time (ms)"], rows)
    yield "![Figures 10 and 11](figures/fig10-11.svg)\n"


def _guarantees(results: Results) -> Iterator[str]:
    yield "## What e^(1/b) per component means for a record\n"
    yield f"Epsilon of one component, one source column and the whole record, and what a prior of {RHO_1} can become"
    yield "given the record. All conditional: widths and basis were learned from the data. Unclipped: as published,"
    yield "where the score of another record may lie outside the range (left out where s is too large to enumerate).\n"
    rows = []
    for name in results.data:
        for b in B:
            s, component, column, record, free = (
                results.get("epsilons", name, b, key)
                for key in ("components", "component", "column", "record", "record_unclipped")
            )
            rows.append(
                [
                    TITLES[name] if b == B[0] else "",
                    f"{s:.0f}",
                    f"{b}",
                    f"{component:.1f}",
                    f"{column:.1f}",
                    f"{record:.1f}",
                    "" if math.isnan(free) else f"{free:.1f}",
                    belief(posterior_bound(RHO_1, record)),
                ]
            )
    header = ["data set", "s", "b", "component", "column", "record", "record, unclipped"]
    yield from grid([*header, f"{RHO_1} becomes at most"], rows)


def _product(results: Results) -> Iterator[str]:
    yield "## The product's default beside it\n"
    yield "Public widths, exact noise, votes over priors. *Same b*: b = .3, much more noise. *Same epsilon*: b derived"
    yield "from the record epsilon of the published release at .3. Accuracy and average privacy in % (after filtering,"
    yield "clipped; after the linear estimate).\n"
    rows = []
    for name in results.data:
        one = [share(results.get("pca-radius", name, 0.3, key)) for key in ("corrected", "filtered_clipped", "linear")]
        record = results.get("epsilons", name, 0.3, "record")
        rows.append([TITLES[name], "published, votes over priors", "0.3", f"{record:.1f}", *one])
        for same, words in (("b", "product, same b"), ("epsilon", "product, same epsilon")):
            b, record = (results.get("product", name, same, key) for key in ("b", "record"))
            bound = "" if results.get("product", name, same, "exact") else " (bound)"
            one = [share(results.get("product", name, same, key)) for key in ("accuracy", "filtered_clipped", "linear")]
            rows.append(["", words, f"{b:.3f}", f"{record:.1f}{bound}", *one])
    yield from grid(["data set", "release", "b", "record epsilon", "accuracy", "filtered", "linear"], rows)
