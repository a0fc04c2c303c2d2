"""What every adversary gets: success against baseline and control, worst first, and which columns give most away."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from sfumato.report.markup import at, share, tag
from sfumato.report.wording import detail_rows, ends, figure, known_words, quantity

GAINS, POPULATION, UNCLEAR, NO_GAIN = "gains", "population", "unclear", "no-gain"
VERDICTS = {
    GAINS: ("▲", "gains from the release", "More than without the release, beyond chance."),
    POPULATION: ("◆", "as much about strangers", "More than without the release, but as much about people not in it."),
    UNCLEAR: ("?", "within chance", "More than without the release, but that may be chance."),
    NO_GAIN: ("▽", "no gain", "No more than somebody who never saw the release."),
}
FEW_COLUMNS = 8
MOST_EXPOSED = 12


@dataclass(frozen=True)
class Told:
    """One attack that was scored, ready to be shown."""

    entry: Mapping[str, Any]
    verdict: str

    @property
    def name(self) -> str:
        return str(self.entry["name"])

    @property
    def story(self) -> str:
        return str(self.entry.get("story") or "")

    @property
    def assumes(self) -> list[str]:
        return [str(line) for line in self.entry.get("assumes") or ()]

    @property
    def upper_bound(self) -> bool:
        return bool(self.entry.get("upper_bound"))

    @property
    def score(self) -> str:
        return figure(self.entry["score"])

    @property
    def interval(self) -> str:
        interval = ends(self.entry.get("interval"))
        return "" if interval is None else f"{figure(interval[0])} to {figure(interval[1])}"

    @property
    def beside(self) -> list[tuple[str, str]]:
        """What success is to be read against."""
        words = {
            "baseline": "without the release",
            "control": "on people not in the table",
            "worst": "on the worst 1% of records",
        }
        return [(text, figure(self.entry.get(key))) for key, text in words.items()]

    @property
    def symbol(self) -> str:
        return VERDICTS[self.verdict][0]

    @property
    def in_short(self) -> str:
        return VERDICTS[self.verdict][1]

    @property
    def in_words(self) -> str:
        return VERDICTS[self.verdict][2]

    @property
    def knows(self) -> list[str]:
        return known_words(list(self.entry.get("knows") or ()))

    @property
    def measure(self) -> str:
        return measure(self.entry)

    @property
    def chart(self) -> Markup:
        return bar(self.entry, self.verdict)

    @property
    def details(self) -> list[tuple[str, str]]:
        return detail_rows(self.entry.get("details") or {})

    @property
    def columns(self) -> list[dict[str, str]]:
        return column_rows(self.entry)

    @property
    def has_errors(self) -> bool:
        return any(column.get("rmse") is not None for column in self.entry.get("columns") or ())

    @property
    def long(self) -> bool:
        return len(self.entry.get("columns") or ()) > FEW_COLUMNS


def told_attacks(attacks: Sequence[Mapping[str, Any]]) -> list[Told]:
    """Scored attacks, those that gain from the release first, then by success."""
    scored = [Told(entry, verdict(entry)) for entry in attacks if entry.get("score") is not None]
    order = list(VERDICTS)
    return sorted(scored, key=lambda told: (order.index(told.verdict), -told.entry["score"], told.entry["name"]))


def verdict(entry: Mapping[str, Any]) -> str:
    """Compare the interval's lower end with those who never saw the release, and with people who are not in it."""
    score, baseline, control = entry["score"], entry.get("baseline"), entry.get("control")
    low = (ends(entry.get("interval")) or (score, score))[0]
    if score <= (baseline or 0.0):
        return NO_GAIN
    if low <= (baseline or 0.0):
        return UNCLEAR
    return POPULATION if control is not None and low <= control else GAINS


def measure(entry: Mapping[str, Any]) -> str:
    """What success counts; told by the figures that come with it, so that new attacks of a known kind are covered."""
    details = entry.get("details") or {}
    if "auc" in details:
        return "Success: 0 if members and strangers cannot be told apart, 1 if always."
    if "eligible" in details:
        return "Success: the share of people about whom an unlikely property became believable, and is true."
    if "median_distance" in details:
        return "Success: the share of people whose own released row was found."
    return "Success: the share of private values that were guessed right."


def bar(entry: Mapping[str, Any], state: str) -> Markup:
    """Success from 0 to 1 as a bar with its interval; a line for the baseline, a ring for the control."""
    score, baseline, control = entry["score"], entry.get("baseline"), entry.get("control")
    interval = ends(entry.get("interval"))
    words = [f"{entry['name']}: success {figure(score)}"]
    shapes = [
        tag("rect", x=0, y=5, width="100%", height=16, class_="track"),
        tag("rect", x=0, y=5, width=share(score), height=16, class_=f"bar {state}"),
    ]
    if interval is not None:
        low, high = interval
        words.append(f"95% interval {figure(low)} to {figure(high)}")
        shapes += [
            tag("line", x1=share(low), x2=share(high), y1=13, y2=13, class_="whisker"),
            *[at(end, tag("path", d="M0-4v8", class_="whisker")) for end in (low, high)],
        ]
    if baseline is not None:
        words.append(f"without the release {figure(baseline)}")
        shapes.append(at(baseline, baseline_mark()))
    if control is not None:
        words.append(f"on people not in the table {figure(control)}")
        shapes.append(at(control, control_mark()))
    return tag("svg", tag("title", ", ".join(words)), *shapes, class_="row", role="img", height=26, width="100%")


def baseline_mark() -> Markup:
    return tag("path", d="M0-12v24", class_="baseline")


def control_mark() -> Markup:
    return tag("circle", r=4.5, class_="control")


def column_rows(entry: Mapping[str, Any]) -> list[dict[str, str]]:
    """Figures per column, the largest gain first; only what the audit holds."""
    columns = sorted(entry.get("columns") or (), key=lambda column: -_gain(column))
    return [
        {
            "name": column["name"],
            "score": figure(column.get("score")),
            "baseline": figure(column.get("baseline")),
            "control": figure(column.get("control")),
            "rmse": quantity(column.get("rmse")),
            "rmse_of_mean": quantity(column.get("rmse_of_mean")),
            "interval_width": quantity(column.get("interval_width")),
        }
        for column in columns
    ]


def _gain(column: Mapping[str, Any]) -> float:
    return float(column.get("score") or 0.0) - float(column.get("baseline") or 0.0)


@dataclass(frozen=True)
class Exposed:
    """The attack that tells most about one column."""

    name: str
    attack: str
    chart: Markup
    score: str
    baseline: str


def exposed_columns(attacks: Sequence[Mapping[str, Any]]) -> tuple[list[Exposed], int]:
    """The columns about which some attack tells most more than the baseline does, and how many columns there are."""
    best: dict[str, tuple[float, str, Mapping[str, Any]]] = {}
    for entry in attacks:
        for column in entry.get("columns") or ():
            found = (_gain(column), str(entry["name"]), column)
            if column["name"] not in best or found[0] > best[column["name"]][0]:
                best[column["name"]] = found
    ranked = sorted(best.items(), key=lambda item: (-item[1][0], item[0]))
    rows = [
        Exposed(
            name=name,
            attack=attack,
            chart=bar({**column, "interval": None}, GAINS if gain > 0 else NO_GAIN),
            score=figure(column.get("score")),
            baseline=figure(column.get("baseline")),
        )
        for name, (gain, attack, column) in ranked[:MOST_EXPOSED]
    ]
    return rows, len(best)
