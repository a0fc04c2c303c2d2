"""Frequencies of pairs and association rules from randomized answers, unbiased, with intervals.

An answer that is kept with probability p among k, else any other one, is made unbiased: w = (z - q) / (p - q) with
q = (1 - p) / (k - 1) has E[w | x] = x. Columns are randomized independently, so the product of entries of different
columns has the mean of the product of the truths: the mean over rows of w_a w_b is an unbiased estimate of how many
people have both. Its variance is that of the products, over the number of rows.

Bits of guided surveys have no columns that stand alone: there the product is that of `WholeAnswers`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa
from scipy import stats

from sfumato.channels import NotApplicableError
from sfumato.channels.guidance.space import IMPOSSIBLE, AnswerSpace
from sfumato.core.array_types import Codes, Flags, Floats, Matrix
from sfumato.core.asked import asks
from sfumato.core.errors import UsageError
from sfumato.learn.asked import RulesAsked
from sfumato.learn.mining.seen import Mined, Part, parts_of, pieces_of, pooled
from sfumato.release.release import Release, Releases

MOST_SETS = 100_000
WIDEST = 0.125
"""A share of answers behind bits is told where its standard error is at most this: half of [0, 1] lies outside."""
SURE_OF_ANTECEDENT = 3.0
"""A share below so many of its standard errors may be none at all, and nothing is divided by it."""

# Shares of answers behind the bits of guided surveys, unbiased.
#
# Every bit depends on all answers of a person, t V V', so no column stands alone: what can be estimated is how many
# people give each whole answer t. Of bits R that were sent under guidance v with known law P_v(R | t), let
#
#     l(t) = P_v(R | t) / P_v(R),  K = sum over v of share_v sum over R of P_v(R | t) P_v(R | t') / P_v(R),
#
# where P_v(R) is any positive function of R. Then K^-1 l has the mean e_t over the bits of a person who answered t,
# with v drawn like its share of the rows: it is an unbiased row of whole answers, and the sum of its entries over the
# answers with `smokes=yes` and `coughs=yes` an unbiased count of both. What lies outside K's range has the same law
# whatever people answer, and no estimate. With P_v(R) a product over bits of their mean probability m, K is a product
# as well: q q' / m + (1 - q)(1 - q') / (1 - m) over all bits.

MOST_ANSWERS = 256
"""Different answers of a person; the work grows with the square of their number."""
MOST_CELLS = 1 << 27
"""Rows times different answers that are held at a time: one gibibyte."""
TOLD = 1e-10
"""Directions of K below this part of its largest are taken for none."""
OUTSIDE = 1e-8
"""A set of answers is not estimated where more of it than this, by squares, lies outside K's range."""


@dataclass(frozen=True, eq=False)
class WholeAnswers:
    """`rows`: of each part what K^-1 is applied to, distinct bits x answers; `which`: the place of each row in it.

    `inverse` is that of K, and `inside` the projection to its range. `items`: which answers have each item.
    """

    rows: tuple[Matrix, ...]
    which: tuple[Codes, ...]
    inverse: Matrix
    inside: Matrix
    items: dict[tuple[str, str], Flags]

    @classmethod
    def of(cls, parts: Sequence[Part], columns: Sequence[str] = ()) -> WholeAnswers:
        """Of parts that went through guided maps, all with the same questions; with the items of all or these."""
        encoding = parts[0].recipe.encoding
        space = AnswerSpace([group.width for group in encoding.groups])
        if len(space) > MOST_ANSWERS:
            raise UsageError(
                f"Not applicable: {len(space):,} different answers are possible. Every bit of a guided survey depends "
                f"on all answers of a person, so rules are found only where at most {MOST_ANSWERS} are possible. Train "
                "a classifier on the bits instead (bernoulli-naive-bayes, id3)."
            )
        T = space.onehot(space.every()).astype(np.float64)
        total, ratios, which = np.zeros((len(T), len(T))), [], []
        for part in parts:
            x, one = part.recipe.map.apply(T), np.ones((1, 1))  # q: P(1) of every bit, for every answer
            bits = [bit.log_likelihood(one, x[:, [j]])[0] for j, bit in enumerate(part.channels)]
            q = np.exp(np.column_stack(bits))
            mean = q.mean(axis=0)
            yes, no = q / np.maximum(mean, IMPOSSIBLE), (1.0 - q) / np.maximum(1.0 - mean, IMPOSSIBLE)
            K = np.ones_like(total)
            for bit in range(q.shape[1]):
                K *= np.outer(yes[:, bit], q[:, bit]) + np.outer(no[:, bit], 1.0 - q[:, bit])
            total += len(part.Z) * K
            distinct, back = np.unique(part.Z > 0.5, axis=0, return_inverse=True)
            ratio = np.ones((len(distinct), len(T)))
            for bit in range(q.shape[1]):
                ratio *= np.where(distinct[:, bit, None], yes[:, bit], no[:, bit])
            ratios.append(ratio)
            which.append(np.asarray(back).ravel())
            if sum(map(np.size, ratios)) > MOST_CELLS:
                raise UsageError("There are too many different rows for the memory. Give fewer releases at a time.")
        values, vectors = np.linalg.eigh(total / sum(len(part.Z) for part in parts))
        kept = values > TOLD * values[-1]
        inside = vectors[:, kept] @ vectors[:, kept].T
        inverse = (vectors[:, kept] / values[kept]) @ vectors[:, kept].T
        items = {
            (group.column.name, slot): T[:, group.start + place] > 0.5
            for group in encoding.groups
            for place, slot in enumerate(group.slots)
            if len(group.slots) > 1 and (not columns or group.column.name in columns)
        }
        return cls(tuple(ratios), tuple(which), inverse, inside, items)

    def counts(self, part: int, items: Sequence[tuple[str, str]]) -> Floats:
        """For every row of a part an unbiased count of its person among those who gave all of these answers; NaN where
        the bits do not tell."""
        among = np.all([self.items[item] for item in items], axis=0).astype(np.float64)
        if np.sum((among - self.inside @ among) ** 2) > OUTSIDE * np.sum(among**2):
            return np.full(len(self.which[part]), np.nan)
        return np.asarray((self.rows[part] @ (self.inverse @ among))[self.which[part]])


# Frequencies and rules.

Item = tuple[str, str]
Label = tuple[str, tuple[str, ...], Codes, float]
"""Name, classes, codes and how often they are kept."""


class Estimate(NamedTuple):
    """An unbiased estimate, which may lie outside [0, 1], with its interval cut to it."""

    value: float
    low: float
    high: float
    error: float


@dataclass(frozen=True)
class Rule:
    """`when` -> `then`. `chance`: P-value of no connection, times the number of rules that were looked at."""

    when: tuple[Item, ...]
    then: Item
    support: Estimate
    confidence: Estimate
    lift: float
    chance: float


@dataclass(frozen=True, eq=False)
class Answers:
    """Unbiased entries of every item, part by part; NaN where a row does not report the column.

    `gains`: p - q of each item's column, by part: how much of an answer is left. `whole`: behind bits, which estimate
    sets of answers at once and not item by item.
    """

    entries: tuple[dict[Item, Floats], ...]
    gains: tuple[dict[Item, float], ...]
    left_out: tuple[str, ...]
    whole: WholeAnswers | None = None

    @property
    def items(self) -> list[Item]:
        return [*(self.whole.items if self.whole else ()), *self.entries[0]]

    @property
    def rows(self) -> int:
        return sum(map(len, self.whole.which if self.whole else (next(iter(part.values())) for part in self.entries)))

    def counts(self, part: int, items: Sequence[Item]) -> Floats:
        """For every row an unbiased count of its person among those who have all of these."""
        cells = [self.entries[part][item] for item in items if item in self.entries[part]]
        if self.whole is not None and (behind := [item for item in items if item in self.whole.items]):
            cells.append(self.whole.counts(part, behind))
        return np.asarray(np.prod(cells, axis=0))


def answers_of(parts: Sequence[Part], labels: Sequence[Label | None], columns: Sequence[str]) -> Answers:
    """Of all categorical columns, or those named."""
    whole = None
    if all(_holds_bits(part) for part in parts):
        several = [pair for pair in zip(parts, labels, strict=True) if len(pair[0].Z) > 1]  # one row has no spread
        parts, labels = zip(*several, strict=True)
        whole = WholeAnswers.of(parts, columns)
    entries: list[dict[Item, Floats]] = []
    gains: list[dict[Item, float]] = []
    left_out: dict[str, None] = {}
    for part, label in zip(parts, labels, strict=True):
        blocks, numbers = _blocks(part, label, columns)
        left_out |= dict.fromkeys(numbers)
        entries.append({})
        gains.append({})
        for name, slots, Z, keep in blocks:
            if len(slots) < 2:
                continue
            other = (1.0 - keep) / (len(slots) - 1)
            if abs(keep - other) < 1e-9:
                raise UsageError(f"The answers of column {name!r} tell nothing of the truth. Leave it out.")
            for place, slot in enumerate(slots):
                entries[-1][name, slot], gains[-1][name, slot] = (Z[:, place] - other) / (keep - other), keep - other
    answers = Answers(tuple(entries), tuple(gains), tuple(left_out), whole)
    known = dict(answers.items)
    if unknown := [name for name in columns if name not in known]:
        raise UsageError(f"The release has no categorical column {unknown[0]!r}.")
    if len(known) < 2:
        raise UsageError(
            "Rules need two categorical columns at least (the column to predict counts). Give numbers bins in "
            "the schema."
        )
    return answers


def _holds_bits(part: Part) -> bool:
    """Whether the rows are bits that each depend on all answers of a person."""
    return not part.recipe.is_columnwise and not any(channel.numbers for channel in part.channels)


def _blocks(
    part: Part, label: Label | None, columns: Sequence[str]
) -> tuple[list[tuple[str, Sequence[str], Floats, float]], list[str]]:
    """Name, answers, released cells and how often they are kept, of every column of answers; and columns of numbers."""
    if not part.recipe.is_columnwise and not _holds_bits(part):
        raise UsageError(
            "Not applicable: the release mixes its columns, so it holds no answers. Use one that keeps them."
        )
    blocks: list[tuple[str, Sequence[str], Floats, float]] = []
    numbers = []
    for piece in () if _holds_bits(part) else pieces_of(part.recipe, part.channels):
        if columns and piece.name not in columns:
            continue
        if not piece.is_category or piece.group is None:
            numbers.append(piece.name)
            continue
        try:
            keep = float(piece.channel.kept)
        except NotApplicableError as error:
            raise UsageError(f"Not applicable: column {piece.name!r}: {error}.") from None
        blocks.append((piece.name, piece.group.slots, part.Z[:, piece.place], keep))
    if label is not None and (not columns or label[0] in columns):
        name, classes, codes, keep = label
        blocks.append((name, classes, np.eye(len(classes))[codes], keep))
    return blocks, numbers


def frequency(answers: Answers, items: Sequence[Item], confidence: float) -> Estimate:
    """How many people have all of these, as a share of those who report the columns."""
    products, weights = _products(answers, [items])
    value = sum(w * float(p[0].mean()) for p, w in zip(products, weights, strict=True))
    return _estimate(value, [p[0] for p in products], weights, confidence)


def rule_of(answers: Answers, when: tuple[Item, ...], then: Item, confidence: float, looked_at: int) -> Rule | None:
    """None where too few have `when` to divide by them."""
    products, weights = _products(answers, [(*when, then), when, (then,)])
    both, first, second = (
        sum(w * float(p[place].mean()) for p, w in zip(products, weights, strict=True)) for place in range(3)
    )
    alone = _estimate(first, [p[1] for p in products], weights, confidence)
    if first < SURE_OF_ANTECEDENT * alone.error:
        return None
    share = both / first
    support = _estimate(both, [p[0] for p in products], weights, confidence)
    # the ratio's linear part, row by row; and that of both - first * second, which is 0 without a connection
    ratio = _estimate(share, [(p[0] - share * p[1]) / first for p in products], weights, confidence)
    apart = _estimate(0.0, [p[0] - second * p[1] - first * p[2] for p in products], weights, confidence)
    chance = 2.0 * float(stats.norm.sf(abs(both - first * second) / apart.error))
    lift = share / second if second > 0 else math.nan
    return Rule(when, then, support, ratio, lift, min(1.0, chance * looked_at))


def _products(answers: Answers, sets: Sequence[Sequence[Item]]) -> tuple[list[list[Floats]], Floats]:
    """Row by row the product of every set's entries, of rows that report all of them; parts weigh by their precision,
    about rows times the squared gains."""
    products, weights = [], []
    needed = set(itertools.chain(*sets))
    for part, gain in enumerate(answers.gains):
        cells = [answers.entries[part][item] for item in needed if item in answers.entries[part]]
        there = ~np.isnan(cells).any(axis=0) if cells else slice(None)
        products.append([answers.counts(part, items)[there] for items in sets])
        precision = 1.0 if answers.whole else math.prod(gain[item] ** 2 for item in sorted(needed))
        weights.append(len(products[-1][0]) * precision)  # whole answers are unbiased over all parts together only
    used = [place for place, one in enumerate(products) if len(one[0]) > 1]
    if not used:
        raise UsageError("No two rows report these columns together.")
    total = np.array([weights[place] for place in used])
    return [products[place] for place in used], total / total.sum()


def _estimate(value: float, rows: Sequence[Floats], weights: Floats, confidence: float) -> Estimate:
    # never surer than one person more or less: answers that no one gave would have no variance
    least = 1.0 / sum(len(one) for one in rows)
    variance = sum(w**2 * float(one.var(ddof=1)) / len(one) for w, one in zip(weights, rows, strict=True))
    error = max(math.sqrt(variance), least)
    half = float(stats.norm.ppf(0.5 + confidence / 2)) * error
    return Estimate(value, min(max(value - half, 0.0), 1.0), max(min(value + half, 1.0), 0.0), error)


def frequent(
    answers: Answers, longest: int, min_support: float, confidence: float
) -> tuple[dict[tuple[Item, ...], Estimate], int]:
    """Sets of items of different columns that may be as frequent as wanted, by the upper end of their interval; and how
    many were left out, since bits hardly tell how frequent they are.

    True frequencies of larger sets are never larger; estimates may be. So a set is looked at if the upper end of each
    of its parts reaches `min_support`.
    """
    seen: dict[tuple[Item, ...], Estimate] = {(item,): frequency(answers, [item], confidence) for item in answers.items}
    found: dict[tuple[Item, ...], Estimate] = {}
    untold: list[float] = []
    for size in range(2, longest + 2):
        vague = {items: one.error for items, one in seen.items() if answers.whole and not one.error <= WIDEST}
        untold += vague.values()
        kept = {items: one for items, one in seen.items() if one.high >= min_support and items not in vague}
        found |= kept
        if size == 2:
            single = [one[0] for one in kept]
        larger = list(itertools.islice(_extended(sorted(kept), single, size), MOST_SETS + 1)) if size <= longest else []
        if len(larger) > MOST_SETS:
            raise UsageError(f"More than {MOST_SETS:,} sets of answers would be looked at. Raise the support.")
        seen = {items: frequency(answers, items, confidence) for items in larger}
    _check_told(answers, found, untold)
    return found, len(untold)


def _check_told(answers: Answers, found: Collection[tuple[Item, ...]], untold: Sequence[float]) -> None:
    """Refuse bits that tell no pair's share; `untold`: standard errors of what was left out."""
    if not untold or any(len(items) > 1 for items in found):
        return
    least = min((one for one in untold if math.isfinite(one)), default=math.inf)
    rows = "more than any number of"
    if least < math.inf:
        rows = f"about {math.ceil(answers.rows * (least / WIDEST) ** 2):,}"
    raise UsageError(
        "Not applicable: guidance of so few directions leaves the bits of different answers too much alike: no "
        f"pair of answers has a share that is known to {WIDEST} (one standard error). The surest would take "
        f"{rows} such rows. A survey of a higher level k tells more of everybody."
    )


def _extended(bases: Sequence[tuple[Item, ...]], items: Sequence[Item], size: int) -> Iterator[tuple[Item, ...]]:
    """Each of the bases with one more item, of a column that it has not, where all parts of the set are bases."""
    known = set(bases)
    for base, item in itertools.product(bases, items):
        one = (*base, item)
        fits = item > base[-1] and item[0] not in dict(base)
        if fits and all(part in known for part in itertools.combinations(one, size - 1)):
            yield one


def sure_rules(answers: Answers, sets: dict[tuple[Item, ...], Estimate], wanted: RulesAsked) -> tuple[list[Rule], int]:
    """Rules whose estimates reach both limits, the surest first, and how many were looked at."""
    possible = [(items, then) for items in sets if len(items) > 1 for then in items]
    found = []
    for items, then in possible:
        if sets[items].value >= wanted.min_support:
            when = tuple(one for one in items if one != then)
            rule = rule_of(answers, when, then, wanted.confidence, len(possible))
            if rule is not None and rule.confidence.value >= wanted.min_confidence:
                found.append(rule)
    return sorted(found, key=lambda rule: (rule.chance, -rule.confidence.value)), len(possible)


# Releases of randomized answers in, frequencies of pairs and rules out: pairs.csv, rules.csv, rules.json.

SURE = 0.05


@dataclass(frozen=True, repr=False)
class Rules(Mined):
    """What goes together among the people behind releases of randomized answers.

    Attributes
    ----------
    pairs : pyarrow.Table
        Estimated share of every pair of answers, with its interval.
    rules : pyarrow.Table
        Support, confidence, lift and chance of every rule, the surest first.
    about : dict
        Limits, how many rules were looked at, and warnings.
    """

    name: ClassVar[str] = "rules"
    pairs: pa.Table
    rules: pa.Table
    about: dict[str, Any]

    def __repr__(self) -> str:
        return f"<Rules: {self.rules.num_rows} from {self.about['rows']:,} released rows>"

    def files(self) -> dict[str, pa.Table]:
        """pairs.csv and rules.csv."""
        return {"pairs.csv": self.pairs, "rules.csv": self.rules}


@asks(RulesAsked)
def rules(releases: Releases, options: RulesAsked) -> Rules:
    """Association rules and frequencies of pairs behind randomized answers, unbiased and with intervals.

    Parameters
    ----------
    releases : Release, path, or a sequence of them
        Of one space, with at least two categorical columns; the label counts as one.
    {options}

    Returns
    -------
    Rules
        `pairs` and `rules` (Arrow tables), `about` and `warnings`; `save(folder)` writes them.

    Examples
    --------
    >>> import sfumato as sf
    >>> people = {"smokes": ["yes", "no", "no", "no"] * 250, "coughs": ["yes", "no", "no", "yes"] * 250}
    >>> release = sf.sanitize(people, mechanism="randomized-response", epsilon_record=6, seed=1)
    >>> found = sf.rules(release).rules.to_pylist()[0]
    >>> found["when"], found["then"], found["confidence"] > 0.8
    ('smokes=yes', 'coughs=yes', True)
    """
    limits = {name: getattr(options, name) for name in ("min_support", "min_confidence", "longest", "confidence")}
    for name in ("min_support", "min_confidence", "confidence"):
        if not 0 < limits[name] < 1:
            raise UsageError(f"The {name!r} parameter must lie between 0 and 1. Got {limits[name]} instead.")
    releases = pooled(releases, public=True)
    if any(release.card.made_by().by_class for release in releases):
        raise UsageError("Not applicable: the noise of these releases differs by class, and holds numbers only.")
    parts = [part for release in releases for part in parts_of(release)]
    labels: list[Label | None] = []
    for release in releases:
        card, named = release.card, release.card.release_schema["label"]
        labels.append(None if release.y is None else (named["name"], card.classes, release.y, card.label_keep))
    answers = answers_of(parts, labels, options.columns)
    sets, untold = frequent(answers, options.longest, options.min_support, options.confidence)
    found, looked_at = sure_rules(answers, sets, options)
    about: dict[str, Any] = {
        "rows": answers.rows,
        **limits,
        "rules": len(found),
        "sure": sum(rule.chance <= SURE for rule in found),
        "looked_at": looked_at,
        "left_out": list(answers.left_out),
    } | ({"untold": untold} if answers.whole else {})
    about["warnings"] = _warnings(about, releases)
    return Rules(*_tables(sets, found), about)


def _warnings(about: dict[str, Any], releases: Sequence[Release]) -> list[str]:
    found = []
    if about["left_out"]:
        found.append(f"Columns of numbers have no answers and are left out: {', '.join(about['left_out'])}.")
    if "untold" in about:
        found.append("Shares rest on this: people's answers do not depend on when, or under which guidance, they came.")
    if about.get("untold"):
        found.append(f"{about['untold']} sets of answers are left out: the bits do not tell their share to {WIDEST}.")
    if about["rules"] > about["sure"]:
        found.append(
            f"{about['rules'] - about['sure']} of {about['rules']} rules may be chance: {about['looked_at']} were "
            f"looked at, and so often a connection as strong turns up where there is none (chance above {SURE})."
        )
    if any(release.card.made_by().rows != "perturbed" for release in releases):
        found.append("Released rows were drawn, so several can come from one person: intervals are too narrow.")
    return found


def _tables(sets: dict[tuple[Item, ...], Estimate], found: Sequence[Rule]) -> tuple[pa.Table, pa.Table]:
    """Pairs and rules; an empty table has the same columns."""

    def words(items: Sequence[Item]) -> str:
        return " and ".join(f"{name}={slot}" for name, slot in items)

    def table(rows: Sequence[tuple[Any, ...]], names: Sequence[str]) -> pa.Table:
        fields = [(name, pa.string() if place < 2 else pa.float64()) for place, name in enumerate(names)]
        return pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows], pa.schema(fields))

    pairs = [(words(items[:1]), words(items[1:]), *one[:3]) for items, one in sets.items() if len(items) == 2]
    rows = [
        (words(one.when), words([one.then]), *one.support[:3], *one.confidence[:3], one.lift, one.chance)
        for one in found
    ]
    ends = [f"{name}{end}" for name in ("support", "confidence") for end in ("", "_low", "_high")]
    of_rules = table(rows, ["when", "then", *ends, "lift", "chance"])
    return table(pairs, ["first", "second", "share", "low", "high"]), of_rules
