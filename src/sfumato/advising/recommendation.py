"""What is recommended, with its forecast, in figures and in a paragraph for whoever answers for the data."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from sfumato.advising.asked import RecommendAsked
from sfumato.advising.trial import (
    AUTO,
    Grounds,
    Outcome,
    Setting,
    Trial,
    averaged,
    keeps,
    of_table,
    proves,
    search,
    trial,
)
from sfumato.advising.wish import Candidate, Wish, candidates, in_words, why_not
from sfumato.auditing.extra import Points
from sfumato.core.errors import PrivacyLeakWarning, SchemaError, UnmetWishError, UsageError
from sfumato.core.processes import in_processes
from sfumato.core.progress import Progress
from sfumato.core.wording import counted, right_of_100, to_type
from sfumato.guarantee.cost import Values, but_for, practically_unprotected
from sfumato.guarantee.guarantee import CENTRAL_DP, EMPIRICAL, LOCAL_DP, worst_first
from sfumato.guarantee.rounding import rounded_up
from sfumato.ledger import Ledger
from sfumato.mechanisms import make_mechanism
from sfumato.release.release import Release
from sfumato.release.strength import LONGEST, RELEASED, TABLE, Config
from sfumato.table import Schema

CONFIRMED, NOT_REFUTED, REFUTED = "confirmed", "not refuted", "refuted"
"""What other rows say of a setting: within the wish there with every interval, too few of them to tell, or outside."""

CHOSEN_ON = {TABLE: "on these private rows", RELEASED: "on made-up rows released before"}
MEASURED = ("accuracy", "loss", "loss_at_most", "risk", "risk_at_most", "strongest", "untried")
"""What is told of every setting that was tried."""


@dataclass(frozen=True, repr=False)
class Recommendation:
    """verdict: what the rows that had no part in the choice say of the setting. forecast: what was found on them.

    nearest: of every mechanism that was tried its best setting, the best first. left_out: why others were not.
    """

    wish: Wish
    setting: Setting
    verdict: str
    forecast: Outcome
    nearest: Sequence[Setting]
    left_out: Mapping[str, str]
    looked_at: str
    rows: int
    label: str
    model: str | None = None
    """Of released rows that were looked at: the model they were drawn from, if the ledger charged it with a proof."""
    together: Values | None = None
    """What that release and the recommended one come to for anybody's values, where both are proved."""

    def __repr__(self) -> str:
        told = "" if self.met else ", which does not keep the wish"
        return f"<Recommendation: {self.setting.candidate.mechanism} {self.setting.parameters}{told}>"

    @property
    def met(self) -> bool:
        """Whether the setting keeps the wish, with its interval, on rows that had no part in the choice, and is of
        use."""
        return self.verdict == CONFIRMED and self.forecast.of_use

    @property
    def mechanism(self) -> str:
        return self.setting.candidate.mechanism

    @property
    def parameters(self) -> dict[str, Any]:
        return self.setting.parameters

    @property
    def interval(self) -> tuple[float, float]:
        """95%, of the accuracy that is forecast (Wilson)."""
        return self.forecast.interval

    @property
    def config(self) -> Config:
        """What `sanitize --config` takes."""
        limits = (("risk", self.wish.max_risk), ("loss", self.wish.max_loss), ("epsilon", self.wish.epsilon))
        wished = ", ".join(f"{name} at most {value:g}" for name, value in limits if value is not None)
        said = f"recommend, {CHOSEN_ON[self.looked_at]}: {wished}"
        return Config(self.mechanism, self.parameters, said[:LONGEST], self.looked_at, self.model)

    def command(self, table: str, *, schema: str | None = None, config: str | None = None) -> str:
        """The line that makes the release."""
        if self.looked_at == RELEASED:  # the release was looked at; the private table is the one to perturb
            table, schema = "TABLE", schema or "SCHEMA"
        values = [f"{name}={value}" for name, value in self.parameters.items()]
        return to_type(
            "sanitize",
            table,
            schema=schema,
            label=None if schema else self.label,
            **({"config": config} if config else {"mechanism": self.mechanism, "param": values}),
            out="release",
        )

    def paragraph(self) -> str:
        """For a data protection officer."""
        found, (low, high) = self.forecast, self.interval
        on = f"{counted(found.tested, 'row')} left out of it"
        unprotected = found.stated is not None and practically_unprotected(found.stated)
        begin = "The setting that keeps it" if unprotected else "Recommended"
        words = [
            f"The wish: {self.wish.words()}.",
            f"{begin if self.met else 'Nothing keeps it; nearest'}: {self.mechanism} with {in_words(self.parameters)}.",
            _proof(found),
            _strongest(found),
        ]
        if unprotected:
            words.insert(0, worst_first(found.stated or 0.0, "Wish for less.", proved=found.epsilon is not None))
        if found.untried:
            words.append(f"Not tried, and so taken for the worst: {', '.join(found.untried)}.")
        words.append(
            f"Learned from the release: "
            f"{right_of_100(found.accuracy, found.best or 'no learner', on, found.majority, found.ceiling)}; "
            f"the 95% interval is {100 * low:.0f} to {100 * high:.0f}."
        )
        words.append(self._what_was_looked_at())
        if self.verdict == NOT_REFUTED:
            words.append(
                "So few rows can neither promise the wish nor rule it out: an interval reaches beyond it, and a "
                "promise carries its interval."
            )
        return " ".join(words)

    def _what_was_looked_at(self) -> str:
        """What the choice itself tells of people, and what two releases come to."""
        if self.looked_at == TABLE:
            return (
                "The setting was chosen on one half of the private rows and measured on the other. So the choice "
                "itself tells a little about them, and no formal guarantee is claimed for it."
            )
        said = "The choice was made on one half of made-up rows that were released before, and measured"
        if self.model is None:
            return (
                f"{said} on the other. This ledger did not charge that release, or it proves nothing (a seed), so no "
                "formal guarantee is claimed for what is chosen on it."
            )
        said += (
            " on the other. It tells nothing about anybody beyond what that release told; the real rows may behave a "
            "little differently."
        )
        if self.together is None:
            return said
        delta = f" at delta {self.together.delta:g}" if self.together.delta else ""
        total = f"epsilon {rounded_up(self.together.epsilon)}{delta}"
        return f"{said} For anybody's values, that release and this one together come to {total}."

    def why_not(self) -> str:
        """In one sentence, with a way out."""
        nearest = in_short(self.setting.candidate.mechanism, self.parameters, self.forecast)
        if self.verdict == CONFIRMED:
            return (
                f"Nothing that keeps the wish is of use: {nearest}, no better than the commonest class as far as "
                f"{counted(self.forecast.tested, 'row')} can tell. Allow more risk, or bring more rows."
            )
        return (
            f"Nothing keeps the wish that {self.wish.words()}. Nearest: {nearest}. Allow more risk or loss, or bring "
            "more rows."
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain figures, for JSON."""
        found = self.forecast
        return {
            **{name: getattr(self, name) for name in ("met", "verdict", "mechanism", "parameters")},
            "wish": self.wish.to_dict(),
            "guarantee": {name: getattr(found, name) for name in ("kind", "epsilon", "presence", "delta")}
            | {"conditional_epsilon": found.conditional},
            "forecast": {
                **{name: getattr(found, name) for name in (*MEASURED, "majority", "ceiling", "learner")},
                "interval": list(self.interval),
                "tested_rows": found.tested,
                "extra": [{"attack": name, **asdict(one), "extra": one.extra} for name, one in by_extra(found)],
                "gains": [
                    {"attack": name, "gain": gain, "interval": ends}
                    for name, (gain, *ends) in sorted(found.gains.items(), key=lambda one: -one[1][0])
                ],
                "not_applicable": dict(found.not_applicable),
            },
            "nearest": [
                {
                    "mechanism": one.candidate.mechanism,
                    "parameters": one.parameters,
                    **{name: getattr(one.outcome, name) for name in (*MEASURED, "kind", "epsilon", "presence")},
                    "keeps": keeps(one.outcome, self.wish),
                }
                for one in self.nearest
            ],
            "left_out": dict(self.left_out),
            "looked_at": self.looked_at,
            "together": self.together and {"epsilon": self.together.epsilon, "delta": self.together.delta},
            "rows": self.rows,
            "rows_needed": None,
            "config": self.config.to_dict(),
            "explained": self.paragraph(),
        }


def by_extra(found: Outcome) -> list[tuple[str, Points]]:
    """Attackers with their points, the one with most extra first."""
    return sorted(found.extras.items(), key=lambda one: -one[1].extra)


def in_points(points: Points) -> str:
    """Extra and its interval."""
    return f"{points.extra:+.1f} of 100 (95%: {points.low:+.1f} to {points.high:+.1f})"


def _strongest(found: Outcome) -> str:
    """The largest extra, and how far chance reaches: so few rows cannot promise less than that."""
    if found.strongest is None:
        return "None of the attackers applies to such a release."
    points = found.extras[found.strongest]
    words = (
        f"Of {counted(len(found.extras), 'attacker')} that were tried {found.strongest} gets most: right "
        f"{points.right:.1f} of 100 times, {points.without:.1f} without the release, extra {in_points(points)}."
    )
    if found.widest is None or found.widest == found.strongest:
        return words
    return f"{words} By chance alone {found.widest} could get up to {found.extras[found.widest].high:+.1f}."


def refuted(found: Outcome, wish: Wish) -> bool:
    """Whether a risk was not tried, a proof is missing, or the whole 95% interval of an attacker's extra, or of the
    loss, lies outside the wish."""
    if found.apart or not proves(found, wish):
        return True
    extra = max(one.low for one in found.extras.values()) / 100.0
    return not wish.keeps(extra, found.ceiling - found.interval[1])


def in_short(mechanism: str, parameters: Mapping[str, Any], found: Outcome) -> str:
    """One line of a setting, as it was measured."""
    worst = f"not tried: {', '.join(found.untried) or 'any risk'}"
    if found.strongest is not None and found.widest is not None and not found.untried:
        worst = f"extra {found.extras[found.strongest].extra:+.1f} ({found.strongest})"
        worst += f", by chance up to {found.extras[found.widest].high:+.1f} ({found.widest})"
    low, high = found.interval
    right = f"right {100 * found.accuracy:.0f} of 100 ({100 * low:.0f} to {100 * high:.0f}"
    return f"{mechanism}, {in_words(parameters)}: {right}, originals {100 * found.ceiling:.0f}), {worst}"


def _proof(found: Outcome) -> str:
    if found.epsilon is not None:
        presence = "" if found.presence is None else f", {rounded_up(found.presence)} for presence"
        return f"Proved: epsilon {rounded_up(found.epsilon)} for anybody's values{presence}{but_for(found.delta or 0)}."
    if found.conditional is not None:
        return (
            f"Nothing is proved; an epsilon of {rounded_up(found.conditional)} for anybody's values would hold if "
            "ranges, categories and this choice owed nothing to the table. What stands below was measured."
        )
    return "Nothing is proved: what protects people here was measured, against the attackers below."


# A choice on rows: every method is tried on some of them, and what is chosen is confirmed on others.

TRIED_AGAIN = 3  # settings that are tried on the other rows, until one keeps the wish there too
LOOKED = (
    "These trials look at your private rows, so nothing can be proved of what is chosen by them: all that follows is "
    "measured."
)
NOT_CHARGED = "this ledger did not charge that release, or it proves nothing (a seed)"
ATTACKED = 1_000
WORTH_A_PROCESS = 10_000
"""Cells of a table from which on mechanisms are tried in several processes, which take two seconds to begin."""


def choose_on(
    rows: pa.Table, agreed: Schema, wish: Wish, asked: RecommendAsked, released: Release | None = None
) -> Recommendation:
    """The setting that keeps the wish best: on private rows, or on those of `released`, which cost nothing more.

    `asked.tries`: how many methods are tried, in their order; the clock has no say.
    """
    if agreed.label is None:
        raise SchemaError(
            "A choice on rows needs a column to predict: accuracy is how often it is. Name it with --label."
        )
    wish = wish.in_trials()
    grounds = _grounds(rows, agreed, wish, asked, released)
    found, left_out = candidates(wish, public=not agreed.learned)
    for one in found[asked.tries :] if asked.tries else ():
        left_out[one.mechanism] = "no further methods were to be tried (--tries)"
    best = _searched(found[: asked.tries], wish, grounds, left_out, asked)
    if not best:
        reasons = "; ".join(f"{name}: {why}" for name, why in left_out.items())
        raise UsageError(f"No method can be tried on this table. {reasons}"[:2000])
    setting, forecast, verdict = _confirmed(best, wish, grounds, asked.progress)
    together = None if released is None or grounds.model is None else _together(released, setting, forecast)
    told = (grounds.looked_at, grounds.rows, agreed.label.name, grounds.model)
    return Recommendation(wish, setting, verdict, forecast, best, left_out, *told, together)


def _grounds(rows: pa.Table, agreed: Schema, wish: Wish, asked: RecommendAsked, released: Release | None) -> Grounds:
    """Rows to try on. What is chosen on private ones, or on a release that no one was charged for, proves nothing:
    that is said beforehand, and a wish for a proof is refused."""
    model = None
    if released is None:
        warnings.warn(LOOKED, PrivacyLeakWarning, stacklevel=2)
    elif Ledger(None if asked.ledger is None else Path(asked.ledger)).has_charged(
        digest := released.card.made_by().model
    ):
        model = digest
    if wish.epsilon is not None and model is None:
        why = "the choice would look at private rows" if released is None else NOT_CHARGED
        raise UnmetWishError(
            f"--epsilon asks for a proof, and none can be kept here: {why}. Leave --use-table out, so that no row has "
            "a say; or wish for what trials can measure (--max-risk, --max-loss)."
        )
    looked_at = TABLE if released is None else RELEASED
    return replace(of_table(rows, agreed, asked.seed, looked_at), model=model)


def _together(released: Release, setting: Setting, forecast: Outcome) -> Values | None:
    """What the release that was looked at, with all before it, and the recommended one come to for anybody's values;
    None where one of them proves nothing."""
    first = released.card.all_releases().values
    if not first.bounded or forecast.epsilon is None:
        return None
    if forecast.kind == LOCAL_DP:
        return first + Values(local=forecast.epsilon)
    made = make_mechanism(setting.candidate.mechanism, setting.parameters)
    return first + Values(central=made.planned) if forecast.kind == CENTRAL_DP and made.planned is not None else None


def _searched(
    found: Sequence[Candidate], wish: Wish, grounds: Grounds, left_out: dict[str, str], asked: RecommendAsked
) -> list[Setting]:
    """The best setting of every candidate that can be tried, the best first; why others cannot goes to `left_out`."""
    best: list[Setting] = []
    progress, train = asked.progress, grounds.choosing[0].train
    usual = 1 if train.num_rows * train.num_columns < WORTH_A_PROCESS else os.cpu_count() or 1
    workers = min(asked.workers or usual, len(found) or 1)
    progress("Mechanisms", 0, len(found))

    with contextlib.closing(in_processes(found, _tried, (wish, grounds), workers)) as searches:
        for number, (candidate, tried) in enumerate(searches, start=1):
            progress("Mechanisms", number, len(found))
            if isinstance(tried, str):
                left_out[candidate.mechanism] = tried
            else:
                best.append(tried)
    order = [one.mechanism for one in found]
    best.sort(key=lambda one: order.index(one.candidate.mechanism))  # not as they happened to be finished
    return sorted(best, key=lambda one: one.rank(wish), reverse=True)


def _tried(candidate: Candidate, wish: Wish, grounds: Grounds) -> Setting | str:
    """The best setting of a candidate, or why there is none."""
    try:
        settings = search(candidate, wish, partial(_measured, candidate, grounds))
    except Exception as error:  # one mechanism that fails on odd rows must not cost the answer
        return why_not(error)
    return settings[0] if settings else "no strength of it could be tried"


def _measured(
    candidate: Candidate, grounds: Grounds, parameters: dict[str, Any], *, confirming: bool = False
) -> Outcome:
    """The mean over grounds to choose on, or to confirm on; it is proved only where no private row was looked at."""
    among, how, first = grounds.choosing, None, 0
    if confirming:
        how = Trial(learners=(AUTO,), attacked=ATTACKED, besides=grounds.besides)
        among, first = grounds.confirming, 100
    found = averaged([trial(one, candidate.mechanism, parameters, seed, how) for seed, one in enumerate(among, first)])
    if grounds.model is not None or found.kind == EMPIRICAL:
        return found
    return replace(found, kind=EMPIRICAL, epsilon=None, conditional=found.epsilon)


def _confirmed(
    best: Sequence[Setting], wish: Wish, grounds: Grounds, progress: Progress
) -> tuple[Setting, Outcome, str]:
    """The first setting that keeps the wish on rows which no search has seen; else the nearest that they do not refute;
    else the one that comes nearest there."""
    found = []
    keeping = [one for one in best if keeps(one.outcome, wish)] or list(best[:1])
    for number, setting in enumerate(keeping[:TRIED_AGAIN]):
        progress("Confirming", number, min(TRIED_AGAIN, len(keeping)))
        outcome = _measured(setting.candidate, grounds, setting.parameters, confirming=True)
        if keeps(outcome, wish):
            return setting, outcome, CONFIRMED
        better = wish.better(outcome.risk_at_most, outcome.loss_at_most)
        found.append((not refuted(outcome, wish), better, -number, setting, outcome))
    likely, _, _, setting, outcome = max(found, key=lambda one: one[:3])
    return setting, outcome, NOT_REFUTED if likely else REFUTED
