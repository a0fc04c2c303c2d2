"""What a release is still good for: accuracy of classifiers trained on it, against training on the original."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import stats
from sklearn.model_selection import ShuffleSplit, StratifiedShuffleSplit

from sfumato.attacks.metrics import accuracy, phi
from sfumato.auditing.case import Case, sampled
from sfumato.core.array_types import Codes, Matrix
from sfumato.core.errors import SfumatoError, UsageError
from sfumato.core.wording import than_commonest
from sfumato.learn.classifiers.factory import CLASSIFIERS as CLASSIFIERS_BY_NAME
from sfumato.learn.classifiers.factory import make_classifier
from sfumato.learn.classifiers.reads_noise import Part
from sfumato.learn.classifiers.training import answers_plain_rows, fit_on_parts, public_map
from sfumato.release.engines.passes import in_order

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


@dataclass(frozen=True)
class Trial:
    """Rows to train on, original and released, and plain rows to be classified with their true classes.

    queries: the same test rows in the release's space; None where that cannot be said (`why`). plain: the test rows for
    learners that answer for plain rows.
    """

    original: Part
    release: Part
    X: Matrix
    queries: Matrix | None
    plain: Matrix | None
    y: Codes
    why: str = ""
    papers: Sequence[str] | None = None
    """Of the release's method, where classifiers are to be as published."""

    def predictions(self, name: str) -> tuple[Codes, Codes]:
        """Classes of the test rows, after training on the original and on the release."""
        made = _classifier(name, self.papers)
        queries = self.plain if answers_plain_rows(made) else self.queries
        if queries is None:
            raise UsageError(self.why)
        second = fit_on_parts(made, [self.release]).predict(queries)
        first = fit_on_parts(_classifier(name, self.papers), [self.original]).predict(self.X)
        return np.asarray(first), np.asarray(second)


def _classifier(name: str, papers: Sequence[str] | None) -> Any:
    """As `sfumato train` makes it, but with a smaller forest: it is trained many times here."""
    paper = None if papers is None else CLASSIFIERS_BY_NAME[name].variant(papers)
    return make_classifier(name, parameters={**(paper or {}), **({"trees": 50} if name == "forest" else {})})


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
    trials = _splits(case, rng) if splits else [_against_holdout(case, rng)]
    papers = (case.card.papers if case.card else ()) if options.published else None
    trials = [replace(trial, papers=papers) for trial in trials]
    tested = {"tested_rows": len(trials[0].y), "tested_on": LEFT_OUT if splits else HOLDOUT}
    names = (*CLASSIFIERS, *WITH_CARD) if _noise_is_known(case) else CLASSIFIERS
    entries, refused = [], dict[str, list[str]]()
    progress("Training", 0, len(names))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a network that has not converged is still measured
        for number, found in enumerate(in_order(names, lambda name: _entry_or_refusal(name, trials))):
            if isinstance(found, SfumatoError):
                refused.setdefault(str(found), []).append(names[number])
            else:
                entries.append({**found, **tested})
            progress("Training", number + 1, len(names))
    case.notes.extend(f"No utility of {', '.join(those)}: {reason}" for reason, those in refused.items())
    return entries


def _noise_is_known(case: Case) -> bool:
    """Whether the card tells an analyst more than that the rows are noisy."""
    card = case.card
    if card is None or case.is_guided:
        return False
    return any(channel.is_stated and not channel.is_exact for channel in card.made_by().channels)


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
        trials.append(_trial(case, chosen[train], np.flatnonzero(rows), people.X[chosen[test]], people.y[chosen[test]]))
    return trials


def _against_holdout(case: Case, rng: np.random.Generator) -> Trial:
    assert case.holdout is not None
    assert case.holdout.y is not None
    people = sampled(len(case.people.X), MOST_PEOPLE, rng)
    rows = sampled(len(case.Z), MOST_PEOPLE, rng)
    return _trial(case, people, rows, case.holdout.X, case.holdout.y)


def _trial(case: Case, people: Codes, rows: Codes, X: Matrix, y: Codes) -> Trial:
    assert case.people.y is not None
    assert case.y is not None
    card = case.card
    queries, why = case.embed(X), ""
    plain = queries
    if card is not None and card.is_columnwise:
        plain = X
        try:
            matrix, offset = public_map(card.made_by()) or (np.eye(X.shape[1]), np.zeros(X.shape[1]))
            queries = np.asarray(X @ matrix.T + offset)
        except UsageError as error:
            queries, why = None, str(error)
    Z, classes = case.Z[rows], case.y[rows]
    released = Part(Z, classes) if card is None else Part.of_card(Z, classes, card)
    return Trial(
        original=Part(case.people.X[people], case.people.y[people]),
        release=released,
        X=X,
        queries=queries,
        plain=plain,
        y=y,
        why=why,
    )


def _entry_or_refusal(name: str, trials: list[Trial]) -> dict[str, Any] | SfumatoError:
    try:
        return _entry(name, trials)
    except SfumatoError as error:
        return error


def _entry(name: str, trials: list[Trial]) -> dict[str, Any]:
    """Accuracies and phi over all trials. A classifier that fails here is reported, not fatal."""
    entry: dict[str, Any] = {"classifier": name, "original": None, "release": None, "phi": None}
    try:
        found = [(trial, *trial.predictions(name)) for trial in trials]
    except SfumatoError:
        raise
    except Exception as error:
        return {**entry, "interval": [None, None], "failed": type(error).__name__}
    before = [accuracy(trial.y, first) for trial, first, _ in found]
    after = [accuracy(trial.y, second) for trial, _, second in found]
    value, (low, high) = phi(before, after, test_share=TEST_SHARE)
    if len(trials) == 1:
        trial, first, second = found[0]
        low, high = _paired_interval(trial.y, first, second)
    entry |= {"original": float(np.mean(before)), "release": float(np.mean(after)), "phi": value}
    entry |= _beside_commonest([(trial, second) for trial, _, second in found], after)
    ends = [float(np.clip(end, -1.0, 1.0)) for end in (low, high)]  # a difference of two shares
    return {**entry, "interval": ends, "splits": len(trials)}


def _beside_commonest(answered: list[tuple[Trial, Codes]], after: list[float]) -> dict[str, Any]:
    """Accuracy of always answering the class that is commonest in training, and whether the release gives more."""
    usual = [np.full(len(trial.y), np.bincount(trial.original.y).argmax()) for trial, _ in answered]
    reached = [accuracy(trial.y, one) for (trial, _), one in zip(answered, usual, strict=True)]
    low, high = phi(reached, after, test_share=TEST_SHARE).interval
    if len(answered) == 1:
        trial, answers = answered[0]
        low, high = _paired_interval(trial.y, usual[0], answers)
    return {"commonest": float(np.mean(reached)), "than_commonest": than_commonest(low, high)}


def _paired_interval(y: Codes, first: Codes, second: Codes) -> tuple[float, float]:
    """Normal 95% interval of the mean difference of errors on the same test rows."""
    difference = (second != y).astype(float) - (first != y)
    if len(difference) < 2:
        return float("nan"), float("nan")
    half = float(stats.norm.ppf(0.975)) * float(difference.std(ddof=1)) / float(np.sqrt(len(difference)))
    return float(difference.mean()) - half, float(difference.mean()) + half
