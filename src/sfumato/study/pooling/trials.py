"""What a pool of releases is worth: wrong answers of queries and folds, what each site adds, and which are believed."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from sfumato.attacks.metrics.privacy import proportion_interval
from sfumato.core.array_types import Codes, Floats
from sfumato.core.errors import UsageError
from sfumato.core.wording import counted
from sfumato.learn.classifiers.factory import choose_classifier, make_classifier
from sfumato.learn.classifiers.reads_noise import Part
from sfumato.learn.classifiers.training import answers_plain_rows, fit_on_parts
from sfumato.study.pooling.gather import Pool, Request, rows_of, thinned

# How often a classifier is wrong, with an interval, also where the labels it is held against were randomized.


@dataclass(frozen=True)
class ErrorRate:
    """Share of wrong answers among `rows`; lower is better. The interval is Wilson's, of 95%."""

    error: float
    low: float
    high: float
    rows: int

    @classmethod
    def of(cls, wrong: float, rows: int, *, keep: float = 1.0, classes: int = 2) -> ErrorRate:
        """From `wrong` disagreements among `rows` (a mean over repeats need not be whole).

        A label that randomized response kept with probability p, and else replaced by one of the k - 1 others,
        disagrees with a right answer with probability 1 - p, and with a wrong one with 1 - (1 - p)/(k - 1). So

            seen = (1 - p) + c error,    c = p - (1 - p)/(k - 1),

        which is solved for the error, and for both ends of the interval.
        """
        if rows < 1:
            raise ValueError(f"The 'rows' parameter of ErrorRate.of must be at least 1. Got {rows!r} instead.")
        seen = wrong / rows
        figures = (seen, *proportion_interval(wrong, rows))
        contrast = keep - (1.0 - keep) / max(classes - 1, 1)
        if contrast <= 0.0:  # labels that tell nothing of the truth
            return cls(math.nan, 0.0, 1.0, rows)
        error, low, high = ((min(1.0, max(0.0, (figure - (1.0 - keep)) / contrast))) for figure in figures)
        return cls(error, low, high, rows)

    def to_dict(self) -> dict[str, Any]:
        known = not math.isnan(self.error)
        return {"error": self.error if known else None, "interval": [self.low, self.high], "rows": self.rows}


FOLDS = 5
SWEPT_TREES = 50


@dataclass(frozen=True)
class Queries:
    """Rows to be classified, and labels that answers are held against; a part without `source` holds plain rows."""

    parts: Sequence[Part]
    classes: int

    @property
    def y(self) -> Codes:
        return np.concatenate([part.y for part in self.parts])

    @property
    def rows(self) -> int:
        return rows_of(self.parts)

    def error_rate(self, wrong: float) -> ErrorRate:
        """Labels of several parts were kept with the average probability."""
        keep = float(np.average([part.label_keep for part in self.parts], weights=[len(part.y) for part in self.parts]))
        return ErrorRate.of(wrong, self.rows, keep=keep, classes=self.classes)

    def commonest(self) -> ErrorRate:
        """Always answering the class that is commonest here: the figure to beat."""
        return self.error_rate(self.rows - int(np.bincount(self.y).max()))

    def answers(self, fitted: Any) -> Codes:
        """Of a trained classifier; learners that answer for plain rows are told when these are not."""
        if answers_plain_rows(fitted) and any(part.source is not None for part in self.parts):
            found = [fitted.predict_released(part.Z, part.source) for part in self.parts if len(part.y)]
        else:
            found = [fitted.predict(np.concatenate([part.Z for part in self.parts]))]
        return np.concatenate(found)

    def wrong_of(self, answers: Codes) -> int:
        """How many answers disagree with the labels."""
        return int(np.count_nonzero(answers != self.y))


def joined(queries: Iterable[Queries]) -> Queries:
    """The rows of all of them."""
    found = list(queries)
    return Queries([part for one in found for part in one.parts], found[0].classes)


def answers_released(name: str, parts: Sequence[Part]) -> bool:
    """Whether the classifier can be held against perturbed rows, and not only against plain ones."""
    made = make_classifier(name)
    corrected_outside = any(part.label_keep < 1.0 for part in parts) and not getattr(made, "corrects_labels", False)
    return not answers_plain_rows(made) or (hasattr(made, "predict_released") and not corrected_outside)


@dataclass(frozen=True)
class Trainings:
    """Many trainings of one classifier; `step` is called after each, and where one was left out."""

    classifier: str
    rng: np.random.Generator
    step: Callable[[], None]

    def wrong_answers(self, parts: Sequence[Part], queries: Queries) -> int:
        """Disagreements after training on `parts`."""
        return queries.wrong_of(self.answering(parts)(queries))

    def answering(self, parts: Sequence[Part]) -> Callable[[Queries], Codes]:
        """What is answered after training on `parts`. Where these know one class only, that one is always answered."""
        labels = np.unique(np.concatenate([part.y for part in parts]))
        if len(labels) == 1:
            self.step()
            return lambda queries: np.full(queries.rows, labels[0])
        chosen = choose_classifier(self.classifier)
        if chosen.name == "forest":  # as the model itself is made, but smaller: it is trained many times here
            chosen = choose_classifier(chosen, {"trees": min(chosen.get_params()["trees"], SWEPT_TREES)})
        # So few rows are learned fastest by one thread: several would spend their time waiting for each other. A
        # network that has not converged is still measured.
        with warnings.catch_warnings(action="ignore"), threadpool_limits(1):
            fitted = fit_on_parts(make_classifier(chosen), parts)
        self.step()

        def answers(queries: Queries) -> Codes:
            with threadpool_limits(1):
                return queries.answers(fitted)

        return answers


def dealt(part: Part, folds: int, rng: np.random.Generator) -> Codes:
    """A fold for every row, the rows of each class dealt evenly."""
    fold = np.empty(len(part.y), dtype=np.int64)
    start = 0
    for code in np.unique(part.y):
        rows = rng.permutation(np.flatnonzero(part.y == code))
        fold[rows] = (start + np.arange(len(rows))) % folds
        start += len(rows)
    return fold


def split(parts: Sequence[Part], folds: Sequence[Codes], out: int, classes: int) -> tuple[list[Part], Queries]:
    """Everything but the fold `out` to learn from, and that fold to be classified; parts without rows are left out,
    since radii are computed part by part."""

    def picked(chosen: Callable[[Codes], Any]) -> list[Part]:
        rows = ((part, chosen(fold)) for part, fold in zip(parts, folds, strict=True))
        return [replace(part, Z=part.Z[mine], y=part.y[mine]) for part, mine in rows if mine.any()]

    return picked(lambda fold: fold != out), Queries(picked(lambda fold: fold == out), classes)


def cross_validation(run: Trainings, parts: Sequence[Part], classes: int) -> tuple[ErrorRate, ErrorRate]:
    """Error of the rows of each fold after training on the others; and of always answering the commonest class."""
    rows, wrong = Queries(parts, classes), 0
    dealings = [dealt(part, FOLDS, run.rng) for part in parts]
    for fold in range(FOLDS):
        left, held = split(parts, dealings, fold, classes)
        if held.rows:
            wrong += run.wrong_answers(left, held)
        else:
            run.step()
    return rows.error_rate(wrong), rows.commonest()


# What another site adds: error against the number of sites that take part, and of each site alone.

MOST_ALONE, MOST_COUNTS = 60, 12
FEWEST_ORDERS, MOST_ORDERS = 2, 6
SWEPT_ROWS = 400_000
"""Rows that all trainings of the curve may see together, as long as `FEWEST_ORDERS` are left."""


@dataclass(frozen=True)
class Plan:
    """Which sites are measured alone, which numbers of sites (above one), and how many choices of sites for each."""

    alone: list[str]
    counts: list[int]
    orders: int

    def trainings(self, sites: int) -> int:
        return len(self.alone) + sum(self._times(sites, count) for count in self.counts)

    def choices(self, sites: int, count: int, rng: np.random.Generator) -> list[tuple[int, ...]]:
        """Different choices of `count` among the sites, at random."""
        found: dict[tuple[int, ...], None] = {}
        while len(found) < self._times(sites, count):
            found[tuple(np.sort(rng.choice(sites, count, replace=False)).tolist())] = None
        return list(found)

    def _times(self, sites: int, count: int) -> int:
        return min(self.orders, math.comb(sites, count))


def plan_of(sites: Mapping[str, Sequence[Part]], rng: np.random.Generator) -> Plan:
    """All sites and numbers of them where there are few; a random choice and a ladder where there are many."""
    names = list(sites)
    alone = names if len(names) <= MOST_ALONE else [names[i] for i in np.sort(rng.permutation(len(names))[:MOST_ALONE])]
    steps = np.geomspace(2, len(names), min(MOST_COUNTS, len(names) - 1)) if len(names) > 1 else np.empty(0)
    few = range(2, len(names) + 1)
    counts = list(few) if len(few) <= MOST_COUNTS else sorted({round(float(value)) for value in steps})
    sweep = sum(map(rows_of, sites.values())) * sum(counts) / len(names)
    orders = int(np.clip(SWEPT_ROWS // max(sweep, 1), FEWEST_ORDERS, MOST_ORDERS))
    return Plan(alone, counts, orders)


def by_number_of_sites(
    run: Trainings, sites: Mapping[str, Sequence[Part]], queries: Queries, plan: Plan
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Error against the number of sites that take part, over a few random orders of them; and of each site alone.

    The queries are the same every time, so that orders differ by the sites only; the interval is that of one
    measurement with the mean error, and so does not shrink with the number of orders.
    """
    names = list(sites)
    alone = {name: run.wrong_answers(sites[name], queries) for name in plan.alone}
    points = [_point(1, list(alone.values()), queries)]
    for count in plan.counts:
        choices = plan.choices(len(names), count, run.rng)
        pooled = ([part for place in taken for part in sites[names[place]]] for taken in choices)
        points.append(_point(count, [run.wrong_answers(parts, queries) for parts in pooled], queries))
    lonely = [
        {"site": name, "trained_rows": rows_of(sites[name]), **queries.error_rate(wrong).to_dict()}
        for name, wrong in alone.items()
    ]
    return points, lonely


def _point(count: int, wrong: list[int], queries: Queries) -> dict[str, Any]:
    lowest, highest = (queries.error_rate(end).to_dict()["error"] for end in (min(wrong), max(wrong)))
    mean = queries.error_rate(float(np.mean(wrong))).to_dict()
    return {"sites": count, **mean, "lowest": lowest, "highest": highest, "choices": len(wrong)}


# How far each site is believed: its share of the pool, whether it agrees with others, what it does to the model.

# Which sites agree: a choice of sites that fewer than half of them cannot spoil, whatever they push.
#
# Every site trains a classifier of its own, and all classify the same rows, as many of each site. The disagreement of
# two sites is the share of rows to which their classifiers answer differently: a distance. Of k sites let h = k // 2 +
# 1 be the smallest majority. The middle site is the one whose h nearest sites, itself among them, lie closest around
# it, within r; kept are all sites within 2 r of it (and `TOLERANCE`, since no two samples teach exactly the same).
# Where noise is strong or sites are small, honest sites disagree so much that 2 r is more than chance: then whoever
# disagrees with the middle site more than answers drawn at random would is left out, be it not among its h nearest.
# Such answers are not merely unlike, they are turned round.
#
# *Breakdown point.* Let at most (k - 1) // 2 sites push whatever they like, together and knowing everything, and let
# honest sites disagree with each other by at most D. At least h sites are honest, so r <= D. Any h sites include an
# honest one, also those around the middle site: so every kept site, hostile or not, disagrees with that honest one by
# at most 3 r + TOLERANCE <= 3 D + TOLERANCE. Half of the sites or more can be the majority, and then they are.

FEWEST_SITES = 3
TOLERANCE = 0.02
JUDGED_ROWS = 2000  # rows that all classifiers answer to, in all
STANDS_IN = "naive-bayes"  # judges for classifiers that cannot answer to perturbed rows


@dataclass(frozen=True)
class Agreement:
    """`disagreement`: of every site with the middle one, and `chance`, what it would be were both drawn at random with
    the classes' shares; `withstands`: so many hostile sites cannot spoil it."""

    disagreement: dict[str, float]
    chance: dict[str, float]
    middle: str
    radius: float

    @property
    def kept(self) -> list[str]:
        most = 2 * self.radius + TOLERANCE
        limits = {site: max(self.radius, min(most, chance)) for site, chance in self.chance.items()}
        return [site for site, distance in self.disagreement.items() if distance <= limits[site]]

    @property
    def is_vague(self) -> bool:
        """Whether the nearest majority disagrees nearly as much as chance would."""
        others = [chance for site, chance in self.chance.items() if site != self.middle]
        return 2 * self.radius + TOLERANCE > min(others)

    @property
    def withstands(self) -> int:
        return (len(self.disagreement) - 1) // 2


def agreement_of(run: Trainings, sites: Mapping[str, Sequence[Part]], classes: int) -> Agreement:
    """Train on every site alone and let all answer to the same rows."""
    if not answers_released(run.classifier, [part for parts in sites.values() for part in parts]):
        run = replace(run, classifier=STANDS_IN)
    each = max(10, JUDGED_ROWS // len(sites))
    rows = Queries([part for site in sites for part in thinned({site: sites[site]}, each, run.rng)[site]], classes)
    return _agreement(list(sites), np.array([run.answering(parts)(rows) for parts in sites.values()]), classes)


def _agreement(names: Sequence[str], answers: Codes, classes: int) -> Agreement:
    """The middle site by the radius of its nearest majority; of several the one nearest to all; `answers`: by site."""
    distances: Floats = np.array([(answers != one).mean(axis=1) for one in answers])
    shares = np.array([np.bincount(one, minlength=classes) / len(one) for one in answers])
    majority = len(names) // 2 + 1
    radii = np.sort(distances, axis=1)[:, majority - 1]
    middle = int(np.lexsort((distances.mean(axis=1), radii))[0])
    found = dict(zip(names, distances[middle].tolist(), strict=True))
    chance = dict(zip(names, (1.0 - shares @ shares[middle]).tolist(), strict=True))
    return Agreement(found, chance, names[middle], float(radii[middle]))


# What one site does to the model: the error without it, and by how much the site changes it.
#
# Influence is the error with the site less the error without it, on the same rows: above zero, the model is better
# without. Where there are no rows to test with but those held out of the pool, a site is judged by the rows of the
# others: its own say what it would like them to.

MOST_LEFT_OUT = 30  # sites that are left out in turn: the largest ones, which can do the most
LEFT_OUT_ROWS = 200_000  # rows that all these trainings may see together


def left_out_in_turn(sites: Mapping[str, Sequence[Part]]) -> list[str]:
    """The sites to leave out, the largest first; none where there is only one."""
    if len(sites) < 2:
        return []
    return sorted(sites, key=lambda site: -rows_of(sites[site]))[:MOST_LEFT_OUT]


def influence_of_sites(
    run: Trainings,
    sites: Mapping[str, Sequence[Part]],
    queries: Queries,
    held: Mapping[str, Queries],
    own: Mapping[str, Sequence[Part]],
) -> list[dict[str, Any]]:
    """Train without each site in turn. How often the others' model is wrong on a site's own rows (`own`, where the
    classifier can answer to them) says how far it is from them.

    A site is judged by the same `queries` as all, or, where rows of every site were `held` out of the training, by
    those of the others.
    """
    names = left_out_in_turn(sites)
    sites = thinned(sites, LEFT_OUT_ROWS // (len(names) + 1), run.rng)
    together = run.answering([part for parts in sites.values() for part in parts])
    found = []
    for name in names:
        others = run.answering([part for site, parts in sites.items() if site != name for part in parts])
        rows = joined(those for site, those in held.items() if site != name) if held.keys() - {name} else queries
        rate, full = (rows.error_rate(rows.wrong_of(answer(rows))).to_dict() for answer in (others, together))
        known = full["error"] is not None and rate["error"] is not None
        influence = full["error"] - rate["error"] if known else None
        entry = {"site": name, **rate, "with": full["error"], "influence": influence}
        if own:
            mine = Queries(own[name], queries.classes)
            entry["on_its_rows"] = mine.error_rate(mine.wrong_of(others(mine))).to_dict()["error"]
        found.append(entry)
    return sorted(found, key=lambda entry: -(entry["influence"] or 0.0))


TOO_FEW = (
    f"Sites that agree can be identified only among {FEWEST_SITES} or more: with two, nobody knows which one to "
    "believe. Train on all sites, or invite more."
)
VAGUE = (
    " But the sites' own classifiers agree hardly more than by chance: rows of one site alone tell too little, so only "
    "sites that answer the opposite are left out. Ask for more rows a site, or less noise."
)
OWN_ROWS = "Rows held out of the other sites: each site is judged by rows that are not its own."
SAME_ROWS = "The same rows for every site."


@dataclass
class Trust:
    """What is found about the sites of one pool, before and after those that do not agree are left out."""

    largest_share: float | None
    agreeing: bool
    pushed: dict[str, int]
    agreement: Agreement | None = None
    notes: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, request: Request, pool: Pool, run: Trainings) -> Trust:
        """Judge the sites, and leave out those that do not agree where that was asked for."""
        pushed: dict[str, int] = {}
        for release, card in zip(request.releases, pool.cards, strict=True):
            pushed[release.site] = pushed.get(release.site, 0) + card.rows
        found = cls(request.largest_share, request.agreeing, pushed)
        if len(pool.sites) >= FEWEST_SITES:
            sample = thinned(pool.sites, request.limits.measured_rows, run.rng)
            found.agreement = agreement_of(run, sample, pool.classes)
        elif request.agreeing:
            raise UsageError(TOO_FEW)
        if request.agreeing and found.agreement is not None:
            pool.sites = {site: parts for site, parts in pool.sites.items() if site in found.agreement.kept}
            pool.cap(request.largest_share, run.rng)
            there, withstood = len(found.agreement.disagreement), found.agreement.withstands
            found.notes.append(
                f"Trained on the {len(pool.sites)} of {there} sites that agree with most others. Up to {withstood} of "
                f"{there} sites could push whatever they like without deciding which sites are believed."
                + (VAGUE if found.agreement.is_vague else "")
            )
        cut = [site for site, parts in pool.sites.items() if rows_of(parts) < pushed[site]]
        if request.largest_share is not None and cut:
            left = sum(pushed[site] - rows_of(pool.sites[site]) for site in cut)
            found.notes.append(
                f"A site may be at most {request.largest_share:.0%} of the training rows: {left:,} rows of "
                f"{counted(len(cut), 'site')} were left out."
            )
        return found

    def told(self, pool: Pool, without: Sequence[Mapping[str, Any]], kind: str) -> dict[str, Any]:
        """For the study's owner: everything by site, those first that the model would be better without."""
        known = {entry["site"]: entry for entry in without}
        names = [*known, *[site for site in self.pushed if site not in known]]
        agreement = self.agreement
        return {
            "tested_on": kind,
            "words": SAME_ROWS if kind in pool.tests else OWN_ROWS,
            "largest_share": self.largest_share,
            "trained_on": "agreeing" if self.agreeing else "all",
            "withstands": None if agreement is None else agreement.withstands,
            "sites": [
                {
                    "site": name,
                    "rows": self.pushed[name],
                    "trained_rows": rows_of(pool.sites.get(name, ())),
                    "disagreement": None if agreement is None else agreement.disagreement.get(name),
                    "agrees": None if agreement is None else name in agreement.kept,
                    "without": known.get(name),
                }
                for name in names
            ],
        }

    def on_card(self, told: Mapping[str, Any]) -> dict[str, Any]:
        """For whoever gets the model: the same figures, in falling order of influence, without the sites' names."""
        sites = [entry["without"] for entry in told["sites"] if entry["without"]]
        return {
            "largest_share": self.largest_share,
            "trained_on": told["trained_on"],
            "sites_there": len(self.pushed),
            "sites_used": sum(entry["trained_rows"] > 0 for entry in told["sites"]),
            "tested_on": told["tested_on"],
            "leave_one_site_out": [
                {name: entry[name] for name in ("error", "interval", "with", "influence")} for entry in sites
            ],
        }
