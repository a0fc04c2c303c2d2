"""RESULTS.md: what was reached, beside what was published."""

from __future__ import annotations

import math

from papers.page import table
from published import DISCLOSURE, FUNCTIONS, K_AFTER_50, LEVELS, ORIGINAL, REACHED_AT
from tasks import DEFINITION_2, FIG_3, FIG_4, FIG_5, MIXED, RUNS, THETAS, Results

from sfumato.auditing.figures.guided_survey import SCHEMES

INTRODUCTION = """# guided-survey: published and reached

Printed by `run.py`; do not edit. Disclosure is I(t; R) / sum_j H(a_j), by Monte Carlo, the mean over respondents.
**As published**: eigenvalues ordered by value, classes weighed by their size, no floor, plain answers classified as
they are.
**Repaired**: ordered by magnitude, classes weigh alike; naive Bayes takes the expected bits of an answer.
**As it comes**: the same with the floor of .25. Accuracy in %."""


def results_text(results: Results, minutes: float, fast: bool) -> str:
    """The whole file."""
    parts = [INTRODUCTION]
    if fast:
        parts.append("**A fast run**: few people, few runs. Not the paper's setting.")
    parts.append(f"{minutes:.1f} minutes of computing; {RUNS} random splits of Votes in a full run.")
    if results.skipped:
        parts.append(f"Skipped: {results.skipped}")
    parts += _functions(results)
    if results.get("original"):
        parts += _levels(results) + _whole_tuple(results) + _server(results) + _arriving(results) + _mixed(results)
    parts += _theorems(results) + _definition_2(results) + _miners(results)
    return "\n\n".join(parts) + "\n"


def percent(value: float | None, digits: int = 1) -> str:
    return "-" if value is None else f"{100 * value:.{digits}f}"


def _functions(results: Results) -> list[str]:
    rows = []
    for kind in ("quartiles", "supervised"):
        found = [results.get("ceiling", f, kind) for f in FUNCTIONS]
        rows.append([f"ceiling: ID3 on plain bits, {kind}", *[percent(x and x["accuracy"]) for x in found]])
    for kind, scheme, start in FIG_3:
        found = [results.get("guided", f, kind, scheme, start) for f in FUNCTIONS]
        cells = [f"{percent(x['accuracy'])} ({percent(x['disclosure'], 0)}%, k={x['k']})" if x else "-" for x in found]
        rows.append([f"{SCHEMES[scheme].title}, {kind}, {start} start-up rows", *cells])
    found = [results.get("by_class", f) for f in FUNCTIONS]
    rows.append(["ByClass, Gaussian noise (25%)", *[percent(x and x["accuracy"]) for x in found]])
    any_guided = [results.get("guided", f) for f in FUNCTIONS]
    rows.append(["larger class", *[percent(x and x["larger_class"]) for x in any_guided]])
    return [
        "## Fig. 3: ID3 at 25% disclosure, against ByClass",
        "Published: both perfect on F1, the scheme better on F2 to F5 (a plot without numbers). Reached, with "
        f"disclosure and level in brackets; the level is the one nearest to {DISCLOSURE:.0%} disclosure without a "
        "floor. Start-up rows are real ones; the paper asks for at least as many as there are attributes.",
        table(["", *[f"F{f}" for f in FUNCTIONS]], rows),
    ]


def _levels(results: Results) -> list[str]:
    original = results.get("original")
    assert original is not None
    rows = []
    for place, k in enumerate(LEVELS):
        cells = [str(k)]
        for scheme in FIG_4:
            found = results.get("levels", scheme)
            if found is None:
                cells.append("-")
                continue
            hit, sd = found["accuracy"][place]
            cells.append(f"{percent(hit)} ± {percent(sd)} at {percent(found['disclosure'][place][0])}")
        default = results.get("levels", "default")
        cells.append(f"{default['epsilon'][place][0]:.1f}" if default else "-")
        rows.append(cells)
    return [
        "## Fig. 4: Votes, naive Bayes, everybody at the same level k",
        f"Original data: published {ORIGINAL}, reached {percent(original['mean'])} ± {percent(original['sd'])}. "
        f"Published: {REACHED_AT[0]} at {REACHED_AT[1]}% disclosure (level not printed). Accuracy at disclosure, both "
        "in %; the last column is the record's epsilon with the floor of .25 (without a floor it is infinite).",
        table(["k", *[SCHEMES[scheme].title for scheme in FIG_4], "epsilon"], rows),
    ]


def _server(results: Results) -> list[str]:
    title = "## Fig. 4 through the server"
    if results.server is None:
        return [title, "Not run here. `through_server.py` asks a running server and keeps its figures in `work/`."]
    rows = [
        [
            f"{row['mu']:.1%}",
            f"{row['k']:.1f} / {row['k_in_process']:.1f}",
            percent(row["accuracy"]),
            f"{percent(row['in_process'])} ± {percent(row['in_process_sd'])}",
            percent(row["disclosure"]),
            row["respondents"],
        ]
        for row in results.server["levels"]
    ]
    return [
        title,
        "Each respondent's program asks a running server over HTTP for level and guidance, checks them and the log, "
        "and sends its bits (`through_server.py`). A server takes its level from mu, so nine values of mu stand for "
        "nine levels; floor .25, batches of 50, one split. Beside it the same survey of the same people simulated in "
        "process, with 20 draws of the noise.",
        table(("mu", "mean k*, server / in process", "accuracy", "in process", "disclosure %", "respondents"), rows),
    ]


def _arriving(results: Results) -> list[str]:
    rows = []
    for scheme, mu, start in FIG_5:
        found = results.get("arriving", scheme, mu, start)
        if found:
            marks = [found["received"].index(n) for n in (0, 10, 50, 100, 200, 400)]
            rows.append([SCHEMES[scheme].title, f"{mu:.1%}", start, *[f"{found['k'][m]:.1f}" for m in marks]])
    return [
        "## Fig. 5: k* while answers arrive",
        f'Published: k* = {K_AFTER_50} after 50 answers at mu = 15%; at 2.5% it "still decreases fairly quickly". '
        "Guidance every ten answers, mean over orders of arrival; start-up rows are 16 real ones, or 16 random ones.",
        table(["scheme", "mu", "start-up", *[f"after {n}" for n in (0, 10, 50, 100, 200, 400)]], rows),
    ]


def _mixed(results: Results) -> list[str]:
    rows = []
    for scheme, low, middle in MIXED:
        found = results.get("mixed", scheme, low, middle)
        if not found:
            continue
        for name, kind in found["kinds"].items():
            limit = {"fundamentalists": low, "pragmatists": middle}.get(name, "any")
            waited = "-" if kind["waited"] < 0 else f"{kind['waited']:.0f} (95%: {kind['waited_95']:.0f})"
            rows.append(
                [SCHEMES[scheme].title, name, limit, percent(kind["sent"], 0), waited, percent(kind["disclosure"])]
            )
        rows.append(["", "**all**", f"k* {found['first']} to {found['last']}", "", "", percent(found["disclosure"])])
        rows.append(["", "accuracy", percent(found["accuracy"]), "", "", ""])
    return [
        "## Respondents of mixed limits (2.2: 17%, 56%, 27%)",
        "10,000 respondents drawn from the training records of Votes, batches of 100, mu = 15%. "
        "Waiting is counted in people who arrive meanwhile.",
        table(("scheme", "who", "k_i", "sent %", "waited", "disclosure %"), rows),
    ]


def _theorems(results: Results) -> list[str]:
    rows = []
    first = results.get("theorem_1")
    if first:
        for name, setting in (("value", "value"), ("magnitude", "magnitude"), ("floor", "magnitude, floor .25")):
            found = first[name]
            verdict = "exceeded" if found["error"] > found["estimate"] else "kept here"
            sizes = " / ".join(f"{value:.3f}" for value in found["by_size"])
            rows.append(
                [
                    "5.1: Votes, mu = 2.5%",
                    setting,
                    f"{found['estimate']:.3f}",
                    f"{found['error']:.3f} ({sizes})",
                    verdict,
                ]
            )
    second = results.get("theorem_2")
    if second:
        for floor, told in second["disclosed"].items():
            verdict = "exceeded" if told > second["estimate"] else "kept here"
            rows.append(
                [
                    "5.2: eight equal questions, k = 1",
                    f"floor {floor}",
                    f"{second['estimate']:.2f}",
                    f"{told:.2f}",
                    verdict,
                ]
            )
    return [
        "## Theorems 5.1 and 5.2 are estimates, not bounds",
        "The degree of error is that of Definition 1: the largest over sets of answers of every size; in brackets "
        "for one, two, three and four answers together.",
        table(("case", "setting", '"bound"', "measured", ""), rows),
    ]


def _whole_tuple(results: Results) -> list[str]:
    rows = []
    for theta in THETAS:
        found = results.get("whole_tuple", theta)
        if found:
            hit, sd = found["accuracy"]
            rows.append([f"{theta:g}", f"{percent(hit)} ± {percent(sd)}", percent(found["disclosure"])])
    if not rows:
        return []
    return [
        "## Whole-tuple response (Eq. 2), the older scheme",
        "Votes, naive Bayes: with probability theta the whole answer is sent as it is, else all of it turned over. "
        "In %; the guided survey's figures are those of Fig. 4.",
        table(("theta", "accuracy", "disclosure"), rows),
    ]


def _definition_2(results: Results) -> list[str]:
    rows = []
    for k, floor in DEFINITION_2:
        found = results.get("definition_2", k, floor)
        if found:
            shares = [percent(found["honest"]), percent(found["found"])]
            shares.append(f"{min(100.0, math.ceil(found['bound'] * 1000) / 10):.1f}")  # upper bounds are rounded up
            bits = [f"{math.ceil(found[name] * 100) / 100:.2f}" for name in ("bits", "anybody_bits")]
            rows.append([f"{floor:g}", k, *shares, *bits, percent(found["estimate"])])
    if not rows:
        return []
    heads = ("floor", "k", "honest", "worst found", "bound", "bound, bits", "any population, bits", "Theorem 5.2")
    return [
        "## Definition 2: the most that any guidance discloses",
        "I(t; R) / H(t) in %, Votes: of the guidance that these answers lead to, of the worst guidance that a search "
        "found, and the certified bound over all guidance of at most k directions.",
        table(heads, rows),
    ]


def _miners(results: Results) -> list[str]:
    found = results.get("miners")
    if not found:
        return []
    rows = []
    for key, reading in found.items():
        if key == "cpu":
            continue
        kind, _, floor = key.split("|")
        rows.append(
            [
                kind,
                f"{reading['row_norm']:.2f}",
                floor,
                percent(reading["identified"]),
                percent(reading["right"]),
                percent(reading["baseline"]),
            ]
        )
    return [
        "## A collector who sends guidance of its own making (ours)",
        "One of 16 random yes-or-no questions. All pass V'V = I. *Certain*: posterior above "
        "99.9% and right; *right*: guessed correctly. In %.",
        table(("guidance", "longest row", "floor", "certain", "right", "guessing"), rows),
    ]
