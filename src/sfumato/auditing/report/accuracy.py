"""What the release is good for: accuracy of classifiers trained on original and on released rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from sfumato.auditing.report.bars import MIDDLE, chart_row, interval_mark, sign, whisker
from sfumato.auditing.report.bottom_line import asked_about, use
from sfumato.auditing.report.markup import Section, at, drawn, share, tag
from sfumato.auditing.report.wording import DASH, ends, figure, of_100, signed
from sfumato.core.wording import NO_BETTER, WORSE

VERDICTS = {NO_BETTER: "no better than the commonest class", WORSE: "worse than the commonest class"}
MOST_SHOWN = 5
SHARES = {"marginals": "Shares of one column", "pairs": "Shares of two columns together"}


@dataclass(frozen=True)
class Learned:
    """One classifier before and after."""

    classifier: str
    right: str
    original: str
    release: str
    phi: str
    interval: str
    chart: Markup | None
    failed: str
    commonest: str
    verdict: str


def use_section(audit: Mapping[str, Any]) -> Section:
    """What is left: learners where there is a column to predict, and how far shares of columns are off."""
    found = audit.get("fidelity") or {}
    off = [
        (words, of_100(found[part]["release"]), of_100(found[part].get("original")))
        for part, words in SHARES.items()
        if (found.get(part) or {}).get("release") is not None
    ]
    classifiers = learned(audit.get("utility") or ())
    marks = [(original_mark(), "learned from the original"), (release_mark(), "learned from the release")]
    marks += [(interval_mark(), "95% interval of the loss"), (commonest_mark(), "always the commonest class")]
    return drawn(
        "use",
        "Of use?",
        words=use(audit),
        tested=asked_about((audit.get("utility") or [{}])[0]),
        learned=classifiers[:MOST_SHOWN],
        more=len(classifiers[MOST_SHOWN:]),
        marks=[(sign(mark), words) for mark, words in marks],
        off=off,
        against=found.get("against") or "",
    )


def accuracy_section(audit: Mapping[str, Any]) -> Section:
    """The same classifiers, figure by figure."""
    found = learned(audit.get("utility") or ())
    title = "Accuracy before and after"
    if not found:
        return Section("accuracy", title, why="accuracy was not measured; the notes say why")
    return drawn("accuracy", title, learned=found)


def learned(utility: Sequence[Mapping[str, Any]]) -> list[Learned]:
    """The most accurate with the release first; classifiers that failed come last."""
    order = sorted(utility, key=lambda entry: -1.0 if entry.get("release") is None else entry["release"], reverse=True)
    return [_learned(entry) for entry in order]


def _learned(entry: Mapping[str, Any]) -> Learned:
    interval = ends(entry.get("interval"))
    return Learned(
        classifier=str(entry["classifier"]),
        right=of_100(entry.get("release")),
        original=figure(entry.get("original")),
        release=figure(entry.get("release")),
        phi=signed(entry.get("phi")),
        interval=DASH if interval is None else f"{signed(interval[0])} to {signed(interval[1])}",
        chart=dots(entry),
        failed=str(entry.get("failed") or ""),
        commonest=figure(entry.get("commonest")),
        verdict=VERDICTS.get(str(entry.get("than_commonest")), ""),
    )


def dots(entry: Mapping[str, Any]) -> Markup | None:
    """A ring for the original, a filled diamond for the release; the whisker is phi's interval seen from the ring."""
    before, after = entry.get("original"), entry.get("release")
    if before is None or after is None:
        return None
    interval = ends(entry.get("interval"))
    shapes = [
        tag("line", x1=0, x2="100%", y1=MIDDLE, y2=MIDDLE, class_="rail"),
        tag("line", x1=share(min(before, after)), x2=share(max(before, after)), y1=MIDDLE, y2=MIDDLE, class_="join"),
    ]
    if interval is not None:
        shapes += whisker(before - interval[1], before - interval[0])
    words = f"{entry['classifier']}: right {of_100(after)} of 100 with the release, {of_100(before)} with the original"
    if (commonest := entry.get("commonest")) is not None:
        shapes.append(at(commonest, commonest_mark()))
        words += f", {of_100(commonest)} by always answering the commonest class"
    shapes += [at(before, original_mark()), at(after, release_mark())]
    return chart_row(words, *shapes)


def commonest_mark() -> Markup:
    return tag("path", d="M0-10v20", class_="commonest")


def original_mark() -> Markup:
    return tag("circle", r=5, class_="ring")


def release_mark() -> Markup:
    return tag("path", d="M0-6l6 6l-6 6l-6-6z", class_="diamond")
