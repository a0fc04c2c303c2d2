"""What a release is still good for, by classifiers trained on it and on the original; and the papers' own measures."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import stats
from sklearn.model_selection import ShuffleSplit, StratifiedShuffleSplit

from sfumato.attacks.metrics.information import mutual_information
from sfumato.attacks.metrics.utility import RowDensity, accuracy, half_l1, phi
from sfumato.auditing.case import Case, present, sampled
from sfumato.channels import Channel, NotApplicableError, Recipe
from sfumato.core.array_types import Codes, Matrix
from sfumato.core.errors import SfumatoError, UsageError
from sfumato.core.wording import than_commonest
from sfumato.learn.classifiers.factory import CLASSIFIERS as CLASSIFIERS_BY_NAME
from sfumato.learn.classifiers.factory import make_classifier
from sfumato.learn.classifiers.reads_noise import Part
from sfumato.learn.classifiers.training import answers_plain_rows, fit_on_parts, public_map
from sfumato.mechanisms import find_mechanism, make_mechanism
from sfumato.release.source import in_order
from sfumato.table import Group
from sfumato.table.statistics import NO_CLASS

CLASSIFIERS = ("radius-vote", "knn", "naive-bayes", "mlp", "forest")
WITH_CARD = ("reconstructed-naive-bayes", "reconstructed-tree", "noise-aware-lda", "noise-aware-qda")
"""What an analyst reaches who reads the noise off the card; without noise they are ordinary learners."""
TEST_SHARE = 0.3
MOST_PEOPLE = 5_000
"""Noise averages out over rows, so that a small sample would make a release look worse than it is."""
MOST_TRAINED = 15_000
LEFT_OUT, HOLDOUT = "left-out", "holdout"
FEWEST_SPLITS = 3
"""Large tables need fewer splits: people x splits stays below `MOST_TRAINED` as long as `FEWEST_SPLITS` are left."""


class Trial:
    """Rows to train on, original and released, and plain rows `X` to be classified with their true classes `y`."""

    def __init__(self, case: Case, people: Codes, rows: Codes, X: Matrix, y: Codes) -> None:
        assert case.people.y is not None
        assert case.y is not None
        card, self.X, self.y, self.why = case.card, X, y, ""
        # The test rows in the release's space, None where that cannot be said (`why`), and for who answers plain rows.
        self.queries = self.plain = case.embed(X)
        if card is not None and card.is_columnwise:
            self.plain = X
            try:
                matrix, offset = public_map(card.made_by()) or (np.eye(X.shape[1]), np.zeros(X.shape[1]))
                self.queries = np.asarray(X @ matrix.T + offset)
            except UsageError as error:
                self.queries, self.why = None, str(error)
        Z, classes = case.Z[rows], case.y[rows]
        self.original = Part(case.people.X[people], case.people.y[people])
        self.release = Part(Z, classes) if card is None else Part.of_card(Z, classes, card)
        # Of the release's method, where classifiers are to be as published.
        self.papers = (card.papers if card else ()) if case.options.published else None

    def predictions(self, name: str) -> tuple[Codes, Codes]:
        """Classes of the test rows, after training on the original and on the release."""
        # As `sfumato train` makes it, but with a smaller forest: it is trained many times here.
        paper = None if self.papers is None else CLASSIFIERS_BY_NAME[name].variant(self.papers)
        parameters = {**(paper or {}), **({"trees": 50} if name == "forest" else {})}
        on_original, on_release = (make_classifier(name, parameters=parameters) for _ in range(2))
        queries = self.plain if answers_plain_rows(on_release) else self.queries
        if queries is None:
            raise UsageError(self.why)
        second = fit_on_parts(on_release, [self.release]).predict(queries)
        first = fit_on_parts(on_original, [self.original]).predict(self.X)
        return np.asarray(first), np.asarray(second)


def utility(case: Case) -> list[dict[str, Any]]:
    """One entry per classifier; empty, with a note, where accuracy has no meaning.

    Where it is known which release row is whose, the people are split several times: classifiers learn from the
    (original or released) rows of one part and are tested on the original rows of the other. Else they learn from
    everything and are tested on the holdout.
    """
    options, progress = case.options, case.options.progress
    reason = _why_not(case)
    if reason is not None:
        case.notes.append(f"No utility: {reason}.")
        return []
    rng = np.random.default_rng(options.seed)
    splits = case.behind is not None and not case.unowned.any() and case.people.y is not None
    trials = _splits(case, rng) if splits else []
    if not splits and case.holdout is not None and case.holdout.y is not None:
        people, rows = (sampled(len(part), MOST_PEOPLE, rng) for part in (case.people.X, case.Z))
        trials = [Trial(case, people, rows, case.holdout.X, case.holdout.y)]
    tested = {"tested_rows": len(trials[0].y), "tested_on": LEFT_OUT if splits else HOLDOUT}
    names = (*CLASSIFIERS, *WITH_CARD) if _noise_is_known(case) else CLASSIFIERS
    entries, refused = [], dict[str, list[str]]()
    progress("Training", 0, len(names))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a network that has not converged is still measured
        for number, found in enumerate(in_order(names, lambda name: _entry(name, trials))):
            if isinstance(found, SfumatoError):
                refused.setdefault(str(found), []).append(names[number])
            else:
                entries.append({**found, **tested})
            progress("Training", number + 1, len(names))
    case.notes.extend(f"No utility of {', '.join(those)}: {reason}" for reason, those in refused.items())
    return entries


def _noise_is_known(case: Case) -> bool:
    """Whether the card tells an analyst more than that the rows are noisy."""
    channels = () if case.card is None or case.is_guided else case.card.made_by().channels
    return any(channel.is_stated and not channel.is_exact for channel in channels)


def _why_not(case: Case) -> str | None:
    if case.options.splits == 0:
        return "it was not asked for (repeats is 0, as where attacks are named)"
    if case.encoding.schema.label is None:
        return "no label was named"
    if case.y is None or case.people.y is None:
        return "the release or the original does not contain the label"
    if case.embed(case.people.X[:1]) is None:
        return "plain rows cannot be mapped into the release's space without the key"
    unknown = case.behind is None or case.unowned.any()
    if unknown and (case.holdout is None or case.holdout.y is None):
        return "it is unknown which release row is whose, and there is no labelled holdout table to test on"
    if len(np.unique(case.people.y)) < 2 or len(np.unique(case.y)) < 2:
        return "all rows have the same label"
    return None


def _splits(case: Case, rng: np.random.Generator) -> list[Trial]:
    people, behind = case.people, case.behind
    assert people.y is not None
    assert behind is not None
    assert case.y is not None
    chosen = sampled(len(people.X), MOST_PEOPLE, rng)
    y = people.y[chosen]
    few = np.bincount(y)[np.unique(y)].min() < 2
    repeats = min(case.options.splits, max(FEWEST_SPLITS, MOST_TRAINED // len(chosen)))
    splitter = (ShuffleSplit if few else StratifiedShuffleSplit)(
        repeats, test_size=TEST_SHARE, random_state=int(rng.integers(2**31))
    )
    trials = []
    for train, test in splitter.split(chosen, y):
        inside = np.zeros(len(people.X), dtype=bool)
        inside[chosen[train]] = True
        rows = inside[behind]
        trials.append(Trial(case, chosen[train], np.flatnonzero(rows), people.X[chosen[test]], people.y[chosen[test]]))
    return trials


def _entry(name: str, trials: list[Trial]) -> dict[str, Any] | SfumatoError:
    """Accuracies and phi over all trials, or why it refuses. A classifier that fails here is reported, not fatal."""
    entry: dict[str, Any] = {"classifier": name, "original": None, "release": None, "phi": None}
    try:
        first, second = zip(*(trial.predictions(name) for trial in trials), strict=True)
    except SfumatoError as error:
        return error
    except Exception as error:
        return {**entry, "interval": [None, None], "failed": type(error).__name__}
    usual = [np.full(len(trial.y), np.bincount(trial.original.y).argmax()) for trial in trials]
    before, after, lost, interval = _lost(trials, first, second)
    commonest, _, _, (low, high) = _lost(trials, usual, second)
    entry |= {"original": before, "release": after, "phi": lost}
    entry |= {"commonest": commonest, "than_commonest": than_commonest(low, high)}
    ends = [float(np.clip(end, -1.0, 1.0)) for end in interval]  # a difference of two shares
    return {**entry, "interval": ends, "splits": len(trials)}


def _lost(
    trials: Sequence[Trial], first: Sequence[Codes], second: Sequence[Codes]
) -> tuple[float, float, float, tuple[float, float]]:
    """Mean accuracies of two ways to answer, how much the second loses, and its interval."""
    before, after = (
        [accuracy(trial.y, one) for trial, one in zip(trials, way, strict=True)] for way in (first, second)
    )
    value, (low, high) = phi(before, after, test_share=TEST_SHARE)
    if len(trials) == 1:  # normal 95% interval of the mean difference of errors on the same test rows
        difference = (second[0] != trials[0].y).astype(float) - (first[0] != trials[0].y)
        middle, half, count = float(difference.mean()), float("nan"), len(difference)
        if count > 1:
            half = float(stats.norm.ppf(0.975)) * float(difference.std(ddof=1)) / float(np.sqrt(count))
        low, high = middle - half, middle + half
    return float(np.mean(before)), float(np.mean(after)), value, (low, high)


MOST_ROWS = 2_000
DRAWS = 400


def density_gap(case: Case) -> dict[str, Any] | None:
    """How far the density that rows were drawn from lies from the same estimate from rows held apart.

    Half the L1 distance, weighted over the classes by the table's rows; `held_apart` rows made the other estimate. It
    is what DAPL [kernel-resampling, Eq. 18] comes to with an estimate in place of the true density f. Both sides then
    err, by how much depends on the rows held apart too, so it is another figure and has another name. From the table's
    own rows it would be 0 by construction. None for other mechanisms, without a holdout, and where no class has rows
    in both.
    """
    card, holdout, register = case.card, case.holdout, case.register
    if card is None or holdout is None or (register.y is not None and holdout.y is None):
        return None
    made_by, recipe = find_mechanism(card.mechanism["name"]), card.made_by()
    if made_by is None or not made_by.estimates_density:
        return None
    fresh = make_mechanism(made_by.name, dict(card.mechanism["parameters"]))
    rng = np.random.default_rng(0)  # fixed: measuring twice gives the same figure
    total, weight, variance, held_apart = 0.0, 0, 0.0, 0
    for code in [None] if register.y is None else np.unique(register.y).tolist():
        mine, theirs = (part.X if code is None else part.X[part.y == code] for part in (register, holdout))
        theirs = theirs[:MOST_ROWS]
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                apart = fresh.fit(theirs, None if code is None else np.full(len(theirs), code), recipe.encoding)
        except SfumatoError:  # too few rows of this class
            continue
        f = RowDensity.of(apart, theirs, None, code)
        channels = recipe.of_class(NO_CLASS if code is None else code)
        found = half_l1(f, RowDensity(mine[:MOST_ROWS], channels), rng, DRAWS)
        total += len(mine) * found.loss
        variance += (len(mine) * found.error) ** 2
        weight, held_apart = weight + len(mine), held_apart + len(f.rows)
    if not weight:
        return None
    error = float(np.sqrt(variance)) / weight
    return {"loss": total / weight, "error": error, "rows": weight, "held_apart": held_apart}


MOST_COLUMNS = 200
"""Columns of which it is computed; a wider table has the first of them, evenly spread."""
BINS, POINTS = 60, 600
SECRET = "columns are mixed by a secret key"


def told_by_channels(case: Case) -> list[dict[str, Any]]:
    """What each released cell tells of its own source, on average: mutual information I, and privacy loss 1 - 2^-I.

    One entry for each released column, or why there is none; empty without a card. The values are spread as in the
    audited table. Where a class has channels of its own, as resampled rows have, I is that within classes, weighted by
    their released rows: the label is public beside it.
    """
    if case.card is None or case.is_guided:
        return []
    recipe, given = case.card.made_by(), None
    known = None if case.key_used else case.affine
    if recipe.is_columnwise:
        given = case.people.X
    elif known is not None:
        given = np.asarray(case.people.X @ known[0].T + known[1])
    columns = recipe.of_columns() if recipe.is_columnwise else None
    places, found = np.linspace(0, len(recipe.channels) - 1, min(len(recipe.channels), MOST_COLUMNS)), []
    for place in places.astype(int).tolist():
        groups = None if columns is None else columns[place][1]
        name = recipe.names()[recipe.places[place].start] if groups is None else groups[0].column.name
        found.append({"name": name, **_told(case, recipe, place, groups, given)})
    return found


def _told(case: Case, recipe: Recipe, place: int, groups: list[Group] | None, given: Matrix | None) -> dict[str, Any]:
    if given is None:
        return {"bits": None, "privacy_loss": None, "not_applicable": SECRET}
    values = given[:, recipe.places[place]]
    parts = [(recipe.by_class.get(NO_CLASS, recipe.channels), values, 1.0)]
    if recipe.by_class and case.people.y is not None and case.y is not None:
        parts = [
            (recipe.of_class(code), values[case.people.y == code], float((case.y == code).mean()))
            for code in np.unique(case.y).tolist()
        ]
    try:
        total = 0.0
        for channels, x, weight in parts:
            total += weight * bits_told(channels[place], x, groups)
    except NotApplicableError as error:
        return {"bits": None, "privacy_loss": None, "not_applicable": str(error)}
    if math.isinf(total):
        return {"bits": None, "privacy_loss": 1.0}
    return {"bits": total, "privacy_loss": 1.0 - math.exp2(-total)}


def bits_told(channel: Channel, x: Matrix, groups: list[Group] | None = None) -> float:
    """I(X; Z) in bits of one channel, with x spread as given (n x width); infinite where a number is shown as it is.

    Of a number that may be missing: in the cells that hold one and show it.
    """
    if not len(x):
        return 0.0
    if channel.numbers == 0 or (groups is not None and groups[0].is_onehot):
        return channel.reported * _of_categories(channel, x)
    there = x[:, 1] < 0.5 if channel.width > 1 else np.ones(len(x), dtype=bool)
    numbers = np.clip(x[there, 0], *channel.interval)
    if not len(numbers) or np.ptp(numbers) == 0:
        return 0.0
    low, high = (0.0, 1.0) if groups is None else groups[0].column.bounds
    noise = channel.raw_noise(high - low, low)
    if noise is None:
        return math.inf
    return channel.reported * mutual_information(noise, low + (high - low) * numbers, bins=BINS, points=POINTS)


def _of_categories(channel: Channel, x: Matrix) -> float:
    shares = x.mean(axis=0)
    slots = np.eye(x.shape[1])
    said_slots = slots[:-1] if channel.hides_missing else slots
    likelihood = np.exp(channel.log_likelihood(said_slots, slots))  # said x true
    likelihood /= likelihood.sum(axis=0)  # of those who report it

    def entropy(p: Any) -> float:
        shown = p[p > 0]
        return float(-(shown * np.log2(shown)).sum())

    conditional = float(sum(share * entropy(likelihood[:, true]) for true, share in enumerate(shares)))
    return max(0.0, entropy(likelihood @ shares) - conditional)


FILTERED = "principal-filter"
"""The attack after which the paper reports average privacy: reverse the transform, keep the best components."""
CONFIDENCE = 0.95


def measures(case: Case, attacks: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Average privacy [principal-laplace, 6.1.3], privacy loss [density-reconstruction, Eq. 19], the final multi-column
    guarantee [random-rotation, 4.2] and the gap of two density estimates. All are measured, none is a guarantee.

    `attacks` as they stand in audit.json; those that assume a leak, as of a secret key, do not count."""
    expected = [attack for attack in attacks if not attack.get("assumes")]
    return {
        "average_privacy": average_privacy(case, expected),
        "unified": final_guarantee(expected),
        "channels": told_by_channels(case),
        "density_gap": density_gap(case),
    }


def average_privacy(case: Case, attacks: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Width of the interval that holds 95% of an attack's errors over the column's range, by column and on average.

    `width` is that of the attack that leaves the least on average, `filtered` that of the paper's attack. Every column
    has the least that any attack leaves. Numbers only. `width_of_mean`: the same for a guesser who always takes the
    mean, the width of the column's own central 95%.
    """
    key = "interval_width"
    widths = {
        attack["name"]: {one["name"]: one[key] for one in attack["columns"] if one.get(key) is not None}
        for attack in attacks
    }
    averages = {name: float(np.mean(list(found.values()))) for name, found in widths.items() if found}
    if not averages:
        return None
    strongest, tail, columns = min(averages, key=lambda name: averages[name]), (1.0 - CONFIDENCE) / 2.0, []
    for group in case.encoding.groups:
        name, values = group.column.name, case.people.X[present(group, case.people.X), group.start]
        least = [found[name] for found in widths.values() if name in found]
        if least and len(values):
            low, high = np.quantile(values, [tail, 1.0 - tail])
            of_mean = float(high - low) / (float(np.ptp(values)) or 1.0)
            columns.append({"name": name, "width": min(least), "width_of_mean": of_mean})
    return {
        "width": averages[strongest],
        "attack": strongest,
        "filtered": averages.get(FILTERED),
        "width_of_mean": float(np.mean([one["width_of_mean"] for one in columns])),
        "columns": columns,
    }


def final_guarantee(attacks: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """The lowest unified privacy over all attacks, with the attack that leaves so little; None where none was measured.

    `minimum` is on the column guessed best, `average` over columns: variance of difference, weighted by the schema and
    at most that of guessing the mean. `sigma_min` and `sigma_avg` are standard deviations, unweighted and uncapped as
    published [random-rotation, 5.3].
    """
    found: dict[str, Any] = {}
    details = {"minimum": "unified_min", "average": "unified_avg", "sigma_min": "sigma_min", "sigma_avg": "sigma_avg"}
    for figure, detail in details.items():
        left = [(one["details"][detail], one["name"]) for one in attacks if one["details"].get(detail) is not None]
        if not left:
            return None
        found[figure], found[f"{figure}_attack"] = min(left, key=lambda one: one[0])
    return found
