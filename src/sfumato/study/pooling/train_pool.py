"""What the coordinator does with pushed releases: pool, train, measure, and say on the model's card what was used."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from sfumato.channels import Recipe
from sfumato.channels.staged import Staged
from sfumato.core.array_types import Codes
from sfumato.core.errors import TableError, UsageError
from sfumato.core.progress import Progress, silent
from sfumato.core.records import Key, Record
from sfumato.core.wording import counted
from sfumato.guarantee import Card
from sfumato.guarantee.cost import DELTA, shuffled_epsilon
from sfumato.guarantee.guarantee import LOCAL_DP
from sfumato.guarantee.rounding import rounded_up
from sfumato.learn.classifiers.factory import choose_classifier, make_classifier
from sfumato.learn.classifiers.reads_noise import Part
from sfumato.learn.classifiers.training import answers_plain_rows, fit_on_parts
from sfumato.learn.mining.seen import check_one_space
from sfumato.learn.model import Model
from sfumato.learn.reconstruct import as_numbers
from sfumato.learn.train import about_model, settled
from sfumato.reconstruction.density import Density, Shares
from sfumato.reconstruction.evidence import FEWEST
from sfumato.reconstruction.reconstruct import Described, describe, make_method, reconstruct
from sfumato.study.pooling import trials
from sfumato.study.pooling.gather import (
    DRAWN_AGAIN,
    EMBEDDED,
    PUBLIC,
    Pool,
    Pushed,
    Request,
    chosen_rows,
    embedded_card,
    gather,
    picked_blocks,
    rows_of_each,
    thinned,
)
from sfumato.study.pooling.trials import Trust
from sfumato.table import open_table

# What a shuffled pool tells about one record to a reader who sees nothing else: no site, no order, no ids.
#
# Everybody in a crowd must have used the same randomizer and look alike but for their record. So rows are one crowd
# where their recipes are the same to the last digit, where they went through the same stage, and, since a label that
# is released exactly tells people apart, where they have the same class.

HONEST = (
    "This holds against somebody who sees only the shuffled pool: its rows without site, order and ids. The shuffler "
    "is honest: it does not hold against the coordinator itself, nor against somebody who is told figures of single "
    "sites."
)
NOTHING_GAINED = 0.999


@dataclass(frozen=True)
class Crowd(Record):
    """People who look alike: their number, the class and the stage if these are public, both epsilons.

    As it stands on a model's card.
    """

    rows: int
    of_class: Annotated[str | None, Key("class")]
    stage: int | None
    local: Annotated[float, Key("local_epsilon")]
    epsilon: float


def shuffled_pool(pool: Pool) -> dict[str, Any] | None:
    """Central epsilon at `DELTA` for one released record; None where a release of the pool has no local one."""
    cards = [next(card for card in pool.cards if card.made_by() is part.source) for part in pool.parts]
    if not all(card.guarantee["kind"] == LOCAL_DP for card in cards):
        return None
    crowds = list(_crowds(pool, cards))
    worst: dict[tuple[str | None, int | None], Crowd] = {}
    for crowd in sorted(crowds, key=lambda one: -one.epsilon):  # of several recipes, the one that protects least
        worst.setdefault((crowd.of_class, crowd.stage), crowd)
    largest = max(crowds, key=lambda crowd: crowd.epsilon)
    alike = [f"class {largest.of_class!r}"] if largest.of_class is not None else []
    alike += [f"stage {largest.stage}"] if largest.stage is not None else []
    rows = counted(largest.rows, "row") + (f" of {' and '.join(alike)}" if alike else "")
    local = f"local epsilon {rounded_up(largest.local)}"
    words = f"Shuffling adds nothing to the {local} where the crowd is smallest: {rows}."
    if largest.epsilon <= NOTHING_GAINED * largest.local:
        central = f"central epsilon {rounded_up(largest.epsilon)} with delta {DELTA:g}"
        words = f"For one released record: {central}, from a {local} and a crowd of {rows}, the weakest of all."
    return {
        "delta": DELTA,
        "epsilon": largest.epsilon,
        "local_epsilon": max(crowd.local for crowd in crowds),
        "crowds": [crowd.to_dict() for crowd in crowds if worst[crowd.of_class, crowd.stage] is crowd],
        "words": f"{words} {HONEST}",
    }


def _crowds(pool: Pool, cards: list[Card]) -> Iterator[Crowd]:
    counts: dict[tuple[str, int, int], int] = {}
    local: dict[tuple[str, int, int], float] = {}
    for part, card in zip(pool.parts, cards, strict=True):
        recipe: Recipe = card.made_by()
        same = json.dumps([recipe.to_dict(), recipe.map.to_dict(), card.label_keep], sort_keys=True)
        classes = stages = np.full(len(part.y), -1, dtype=np.int64)
        if part.label_keep >= 1.0:
            classes = part.y
        if isinstance(recipe.map, Staged):  # which stage every row went through, its cells show
            told = [(~np.isnan(part.Z[:, place])).any(axis=1) for place in recipe.map.parts]
            stages = np.argmax(told, axis=0)
        pairs, alike = np.unique(np.column_stack([classes, stages]), axis=0, return_counts=True)
        for (code, stage), rows in zip(pairs.tolist(), alike.tolist(), strict=True):
            kind = (same, code, stage)
            counts[kind] = counts.get(kind, 0) + rows
            local[kind] = max(local.get(kind, 0.0), card.stated_guarantee().record)
    names = pool.cards[0].classes
    for kind, rows in sorted(counts.items(), key=lambda one: one[0][1:]):
        _, code, stage = kind
        epsilon = shuffled_epsilon(local[kind], rows, DELTA) if math.isfinite(local[kind]) else math.inf
        yield Crowd(rows, names[code] if code >= 0 else None, stage + 1 if stage >= 0 else None, local[kind], epsilon)


# Training, and how well it does.

SEED = 0
"""Folds, samples and choices of sites are the same for the same pool; no privacy rests on them."""
HELD_OUT = "rows held out of the pool"
TESTED_ON = {
    PUBLIC: "Plain rows of a public test table, embedded by the public map of the releases' card.",
    EMBEDDED: "Rows that sites pushed for testing, in the space of the releases and perturbed as their cards say.",
    HELD_OUT: "A fifth of every site's rows, held out. They are perturbed, like the training rows.",
}
FOLDED = (
    f"Each of {trials.FOLDS} folds of the pool is classified after training on the others. The rows are perturbed: "
    "plain rows, without noise, are usually classified with fewer errors."
)

PLAIN_ONLY = (
    "This classifier learned the distribution of plain rows and would misjudge perturbed ones: its error can be "
    "measured only on a public test table, or by the sites at home."
)


def train_pool(request: Request, out: Path, progress: Progress = silent) -> tuple[Model, dict[str, Any]]:
    """Train on the pool, write the model to `out`, and return it with how well it does."""
    made = make_classifier(request.classifier)  # an unknown name is refused before anything is read
    if not request.releases:
        raise UsageError("No site has pushed a release to train on yet.")
    rng = np.random.default_rng(SEED)
    count = _Count(progress)
    count.begin("Reading the releases")
    pool = gather(request, rng, count, plain=answers_plain_rows(made))
    run = trials.Trainings(request.classifier, rng, count)
    trust = Trust.of(request, pool, run)
    results = _measured(request, pool, trust, run, count)
    count.begin("Training on the whole pool")
    fitted = fit_on_parts(made, pool.parts)
    results["test"] = [
        {
            "kind": kind,
            **queries.error_rate(queries.wrong_of(queries.answers(fitted))).to_dict(),
            "commonest": queries.commonest().to_dict()["error"],
            "words": TESTED_ON[kind],
        }
        for kind, queries in ((kind, trials.Queries(parts, pool.classes)) for kind, parts in pool.tests.items())
        if kind == PUBLIC or trials.answers_released(request.classifier, pool.parts)
    ]
    if (shuffled := None if request.agreeing else shuffled_pool(pool)) is not None:  # who agrees is told by site
        results["shuffled"] = shuffled
    model = Model(fitted, _about(request, pool, trust, fitted, results))
    model.save(out)
    count()
    return model, results


def _measured(request: Request, pool: Pool, trust: Trust, run: trials.Trainings, count: _Count) -> dict[str, Any]:
    rng = run.rng
    sites = thinned(pool.sites, request.limits.measured_rows, rng)
    parts = [part for mine in sites.values() for part in mine]
    kind, left, held = _to_compare_sites(pool, sites, rng)
    queries = trials.Queries(pool.tests[kind], pool.classes) if kind in pool.tests else trials.joined(held.values())
    plan = trials.plan_of(left, rng)
    released = trials.answers_released(request.classifier, pool.parts)
    comparing = released or kind == PUBLIC
    one_less = len(trials.left_out_in_turn(left))
    count.known(trials.FOLDS * released + (plan.trainings(len(left)) + (one_less + 1) * (one_less > 0)) * comparing + 1)
    folded = compared = None
    without: list[dict[str, Any]] = []
    if released:
        count.begin("Cross-validation")
        rate, commonest = trials.cross_validation(run, parts, pool.classes)
        folded = {**rate.to_dict(), "commonest": commonest.to_dict()["error"], "folds": trials.FOLDS, "words": FOLDED}
    if comparing and one_less:
        count.begin("Error without each site")
        without = trials.influence_of_sites(run, left, queries, held, sites if released else {})
    if comparing:
        count.begin("Error by number of sites")
        points, alone = trials.by_number_of_sites(run, left, queries, plan)
        compared = {
            "tested_on": kind,
            "words": TESTED_ON[kind],
            "rows": queries.rows,
            "commonest": queries.commonest().to_dict()["error"],
            "points": points,
            "alone": alone,
        }
    return {
        "classifier": choose_classifier(request.classifier).name,
        "parameters": choose_classifier(request.classifier).parameters,
        "sites": len({pushed.site for _, pushed in request.made_from}) or len(pool.sites),
        "releases": len(request.made_from) or len(request.releases),
        "rows": sum(card.rows for card in pool.cards),
        "trained_rows": pool.rows,
        "cross_validation": folded,
        "by_sites": compared,
        "trust": trust.told(pool, without, kind),
        "notes": [*request.notes, *pool.notes, *trust.notes, *_notes(pool, parts, plan, released=released)],
    }


def _to_compare_sites(
    pool: Pool, sites: Mapping[str, Sequence[Part]], rng: np.random.Generator
) -> tuple[str, dict[str, list[Part]], dict[str, trials.Queries]]:
    """What sites are compared on, and what each learns from: the public table, else embedded rows, else a fold of
    every site, which is then held out."""
    for kind in (PUBLIC, EMBEDDED):
        if kind in pool.tests:
            return kind, {site: list(parts) for site, parts in sites.items()}, {}
    kept: dict[str, list[Part]] = {}
    held: dict[str, trials.Queries] = {}
    for site, parts in sites.items():
        left, queries = trials.split(parts, [trials.dealt(part, trials.FOLDS, rng) for part in parts], 0, pool.classes)
        if left:
            kept[site] = left
        if queries.parts:
            held[site] = queries
    return HELD_OUT, kept, held


def _notes(pool: Pool, measured: Sequence[Part], plan: trials.Plan, *, released: bool) -> list[str]:
    notes = [] if released else [PLAIN_ONLY]
    if pool.rows > (rows := sum(len(part.y) for part in measured)):
        notes.append(f"Cross-validation and comparison of sites used a random sample of {rows:,} rows.")
    if len(plan.alone) < len(pool.sites):
        notes.append(f"{len(plan.alone)} of {len(pool.sites)} sites, chosen at random, were measured alone.")
    if any(part.label_keep < 1.0 for part in pool.parts):
        notes.append("Labels were randomized by the sites. Errors are corrected for it, which widens their intervals.")
    drawn = sorted({card.mechanism["name"] for card in pool.cards} & DRAWN_AGAIN)
    if drawn and released:
        notes.append(
            f"With {drawn[0]} several rows can come from one person, and then lie in different folds: "
            "the cross-validation error may be too low. Trust a test table more."
        )
    return notes


def _about(request: Request, pool: Pool, trust: Trust, fitted: Any, results: Mapping[str, Any]) -> dict[str, Any]:
    """The model's card, with the site and the content hash of every release used."""
    used = list(request.made_from) or [
        (card, pushed) for card, pushed in zip(pool.cards, request.releases, strict=True) if pushed.site in pool.sites
    ]
    about = about_model(request.classifier, [card for card, _ in used]) | settled(fitted)
    for entry, (_, pushed) in zip(about["releases"], used, strict=True):
        entry |= {"site": pushed.site, "sha256": pushed.sha256}
    shuffled = {"shuffled": results["shuffled"]} if "shuffled" in results else {}
    return {**about, "trained_rows": pool.rows, "trust": trust.on_card(results["trust"]), **shuffled}


class _Count:
    """A call is one more file read; once the number of trainings is `known`, one more of them."""

    def __init__(self, progress: Progress) -> None:
        self._progress, self._done, self._step = progress, 0, ""
        self._total: int | None = None

    def known(self, total: int) -> None:
        self._done, self._total = 0, total

    def begin(self, step: str) -> None:
        self._step = step
        self._progress(step, self._done, self._total)

    def __call__(self) -> None:
        self._done += 1
        self._progress(self._step, self._done, self._total)


# The distribution of a column behind the noise of all that sites pushed: the paper's central server recovers f_X.
#
# Every release is a part with the noise of its own card; one estimate serves all [density-reconstruction, Section 2].

_ALIKE = ("kind", "low", "high", "whole", "missing_keep", "grid", "categories", "keep", "left_out")


def reconstruct_pool(
    releases: Sequence[Pushed],
    column: str,
    *,
    method: str = "parzen-program",
    largest_share: float | None = None,
    progress: Progress = silent,
    **options: Any,
) -> tuple[Density | Shares, list[dict[str, Any]]]:
    """The distribution, and what it was made from: site, hash and rows of every release.

    No site is more than `largest_share` of the values that count: of larger ones a random sample is taken.
    """
    if not releases:
        raise TableError("There is nothing to reconstruct from yet: no site has pushed a release.")
    cards = [embedded_card(one) for one in releases]
    check_one_space(cards, [one.name for one in releases])
    kept = _by_noise(releases, cards, column, largest_share)
    if not kept:
        raise TableError(f"The releases hold fewer than {FEWEST} values: too few to tell a distribution.")
    values = []
    for number, same in enumerate(kept):
        progress("reading", number, len(kept) + 1)
        values.append(chain.from_iterable(_values(pushed, one, chosen) for pushed, _, one, chosen in same))
    progress("reconstructing", len(kept), len(kept) + 1)
    noisy = [same[0][1] for same in kept]
    found = reconstruct(values, noisy, column=column, method=make_method(method), seed=SEED, **options)
    used = [(pushed, len(chosen)) for same in kept for pushed, _, _, chosen in same]
    return found, [{"sha256": pushed.sha256, "site": pushed.site, "rows": rows} for pushed, rows in used]


def _by_noise(
    releases: Sequence[Pushed], cards: Sequence[Card], column: str, largest_share: float | None
) -> list[list[tuple[Pushed, Card, Described, Codes]]]:
    """Releases whose values have the same noise, with the rows that count; noise that only a few values have tells
    nothing of a distribution, and must not stop the others."""
    rng = np.random.default_rng(SEED)
    parts: dict[str, list[tuple[Pushed, Card, Described, Codes]]] = {}
    wanted, _ = rows_of_each([one.site for one in releases], [card.rows for card in cards], largest_share)
    for pushed, card, rows in zip(releases, cards, wanted, strict=True):
        one = describe(card, column)
        noise = None if one.noise is None else one.noise.to_dict()
        law = json.dumps([noise, *(str(getattr(one, name)) for name in _ALIKE)], sort_keys=True)
        parts.setdefault(law, []).append((pushed, card, one, chosen_rows(card.rows, rows, rng)))
    return [same for same in parts.values() if sum(len(chosen) for *_, chosen in same) >= FEWEST]


def _values(pushed: Pushed, one: Described, chosen: Codes) -> Iterator[Any]:
    """The chosen values of a release, block by block."""
    for block in picked_blocks(open_table(pushed.path, columns=[one.name]), chosen):
        cells = block.column(0)
        yield cells.to_pylist() if one.is_categorical else as_numbers(cells, one)
