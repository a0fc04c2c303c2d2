"""The pool in memory: the parts of every site, the rows to test with, and what has to be said about both."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import add
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sfumato.channels.recipe import Reach
from sfumato.core.array_types import Codes, Matrix
from sfumato.core.errors import CardError, SchemaError, TableError, UsageError
from sfumato.core.wording import counted
from sfumato.guarantee import Card
from sfumato.learn.classifiers.reads_noise import Part
from sfumato.learn.classifiers.training import public_map
from sfumato.learn.mining.seen import check_one_space
from sfumato.mechanisms.central.drawing import model_as_dict, model_digest
from sfumato.mechanisms.central.scoring import AgreedPlan, NoisyFigures, ScoringPlan
from sfumato.release.asked import RedrawAsked
from sfumato.release.check_rows import noisy_counts, read_cells
from sfumato.release.release import Release, card_inside, draw_from, matrix_of
from sfumato.release.write_release import InMemory, today
from sfumato.table import Table, open_table

# Releases as sites pushed them: one Parquet file each, its card inside, read block by block.

BLOCK_ROWS = 65_536


@dataclass(frozen=True)
class Pushed:
    """One release file, the site that pushed it, and the hash of its content."""

    path: Path
    site: str
    sha256: str

    @property
    def name(self) -> str:
        """How messages call it."""
        return f"The release {self.sha256.removeprefix('sha256:')[:12]} of the site {self.site!r}"


def embedded_card(pushed: Pushed) -> Card:
    """The card that a pushed release carries."""
    if not pushed.path.is_file():
        raise TableError(f"{pushed.name} is no longer there: it was withdrawn. Train again without it.")
    try:
        with pq.ParquetFile(pushed.path) as file:
            text = card_inside(file)
        if text is None:
            raise CardError(f"{pushed.name} contains no card.")
        stated = json.loads(text)
    except (pa.ArrowException, OSError, ValueError):
        raise CardError(f"{pushed.name} cannot be read as Parquet with a card: it is damaged.") from None
    return Card.from_dict(stated, where=f"The card of {pushed.name[0].lower()}{pushed.name[1:]}")


def read_part(pushed: Pushed, card: Card, rows: int, rng: np.random.Generator) -> Part:
    """At most `rows` of its rows, a random sample where it holds more; memory is that of the sample and a block."""
    table = open_table(pushed.path)
    if table.rows != card.rows:
        raise CardError(f"{pushed.name} has {table.rows} rows, but its card states {card.rows}.")
    Z, y = [np.empty((0, card.made_by().width))], [np.empty(0, dtype=np.int64)]
    for picked in picked_blocks(table, chosen_rows(card.rows, rows, rng)):
        matrix, codes = matrix_of(picked, card)
        assert codes is not None
        Z.append(matrix)
        y.append(codes)
    return Part.of_card(np.concatenate(Z), np.concatenate(y), card)


def picked_blocks(table: Table, chosen: Codes) -> Iterator[pa.Table]:
    """The chosen rows (ascending numbers), block by block."""
    first = 0
    for block in table.blocks(BLOCK_ROWS):
        start, stop = np.searchsorted(chosen, [first, first + block.num_rows])
        if stop > start:
            yield pa.Table.from_batches([block]).take(pa.array(chosen[start:stop] - first))
        first += block.num_rows


def chosen_rows(there: int, wanted: int, rng: np.random.Generator) -> Codes:
    """Numbers of rows in ascending order: all of them, or a random choice without repetition."""
    if wanted >= there:
        return np.arange(there, dtype=np.int64)
    return np.sort(rng.choice(there, wanted, replace=False)).astype(np.int64)


def rows_of(parts: Sequence[Part]) -> int:
    return sum(len(part.y) for part in parts)


def thinned(sites: Mapping[str, Sequence[Part]], rows: int, rng: np.random.Generator) -> dict[str, list[Part]]:
    """A random sample of about `rows` rows in all, the same share of every part and at least one of each."""
    share = min(1.0, rows / max(1, sum(map(rows_of, sites.values()))))
    return {
        site: [sampled_part(part, max(1, round(share * len(part.y))), rng) for part in parts]
        for site, parts in sites.items()
    }


def sampled_part(part: Part, rows: int, rng: np.random.Generator) -> Part:
    """So many of its rows, chosen at random."""
    chosen = chosen_rows(len(part.y), rows, rng)
    return part if len(chosen) == len(part.y) else replace(part, Z=part.Z[chosen], y=part.y[chosen])


# No cell of the pool weighs more than noise can make it: what lies further out is taken at the end of the reach.
#
# A site states its own noise, and might state a thousand times more than the others to carry a single cell as far. So
# every site has one vote on where each column ends, and the median counts: fewer than half of the sites cannot move it
# beyond what the others state. Heavy tails, and releases that were received before such cells were refused at the
# door, end there too.


def ends_of(cards: Mapping[str, Sequence[Card]]) -> tuple[Matrix, Matrix]:
    """Lowest and highest value of every column: the median over sites, the narrower of two in the middle."""
    reaches = [[Reach.of(card.made_by(), card.rows) for card in mine] for mine in cards.values()]
    lows = [np.min([reach.low for reach in mine], axis=0) for mine in reaches]
    highs = [np.max([reach.high for reach in mine], axis=0) for mine in reaches]
    return np.quantile(lows, 0.5, axis=0, method="higher"), np.quantile(highs, 0.5, axis=0, method="lower")


def within(part: Part, low: Matrix, high: Matrix) -> tuple[Part, int]:
    """The part with its far cells taken at the ends, and how many these were."""
    taken = np.clip(part.Z, low, high)
    far = int(np.count_nonzero((taken != part.Z) & ~np.isnan(part.Z)))
    return (replace(part, Z=taken), far) if far else (part, 0)


# How many rows of every site a pool is trained on, where no site may be more than a stated share of it.


def capped_rows(rows: Mapping[str, int], share: float | None) -> dict[str, int]:
    """Rows to use of every site, so that none has more than `share` of all that are used; small sites are used whole.

    Large sites are cut to one number m. With t of them cut and R rows of the others, ``m = share (t m + R)``. Fewer
    than 1 / share sites cannot keep to it: then all have the same number.

    >>> capped_rows({"a": 4000, "b": 400, "c": 400, "d": 400}, 0.4)
    {'a': 800, 'b': 400, 'c': 400, 'd': 400}
    >>> capped_rows({"a": 4000, "b": 30}, 0.4)
    {'a': 30, 'b': 30}
    """
    there = sorted((count for count in rows.values() if count), reverse=True)
    if share is None or len(there) < 2:
        return dict(rows)
    share, cut = max(share, 1.0 / len(there)), 0
    # It ends before nothing is left: where share (t + 1) >= 1, m is no less than the largest of the others.
    while there[cut] > (most := share * sum(there[cut:]) / (1.0 - share * cut) * (1 + 1e-9)):
        cut += 1
    return {site: min(count, int(max(1.0, most))) for site, count in rows.items()}


def spread(rows: Sequence[int], total: int) -> list[int]:
    """`total` rows over releases in proportion to their rows. Many small releases get no more than one large one.

    >>> spread([10, 10, 10], 4), spread([1] * 6, 2)
    ([1, 1, 2], [0, 0, 1, 0, 0, 1])
    """
    there, seen, given, found = max(1, sum(rows)), 0, 0, []
    for count in rows:
        seen += count
        found.append(seen * total // there - given)
        given += found[-1]
    return found


def rows_of_each(
    sites: Sequence[str], rows: Sequence[int], share: float | None, most: int | None = None
) -> tuple[list[int], int]:
    """How many rows of each release are used, and how many there are to choose from: no site has more than `share` of
    them. At most about `most` are used."""
    by_site: dict[str, list[int]] = {}
    for site, count in zip(sites, rows, strict=True):
        by_site.setdefault(site, []).append(count)
    capped = capped_rows({site: sum(own) for site, own in by_site.items()}, share)
    there = sum(capped.values())
    part = 1.0 if most is None else min(1.0, most / max(there, 1))
    wanted = {site: iter(spread(own, max(1, int(part * capped[site])))) for site, own in by_site.items()}
    return [next(wanted[site]) for site in sites], there


PUBLIC, EMBEDDED = "public test table", "rows embedded by sites"
DRAWN_AGAIN = frozenset({"kernel-resampling", "condensation"})
"""Mechanisms whose rows are drawn: several of them can come from one person."""


@dataclass(frozen=True)
class Limits:
    """How much is held in memory and trained on; what is above is sampled, and the results say so."""

    trained_cells: int = 60_000_000
    trained_rows: int = 500_000
    measured_rows: int = 10_000
    tested_rows: int = 10_000
    slow: dict[str, int] = field(default_factory=lambda: {"svm": 20_000, "kernel-smoother": 50_000})
    """Rows of classifiers whose time grows faster than the number of rows."""

    def rows(self, classifier: str, width: int) -> int:
        most = min(self.trained_rows, self.slow.get(classifier.split()[0], self.trained_rows))
        return max(1, min(most, self.trained_cells // max(width, 1)))


@dataclass(frozen=True)
class Request:
    """What to train on, and to test with where there is anything; the rows of `test_table` are plain and public.

    `classifier` is a name, or a name with parameters ("svm kernel=sigmoid").
    No site is more than `largest_share` of the rows trained on. `agreeing`: only sites that agree with most others.
    """

    releases: Sequence[Pushed]
    classifier: str
    test_table: Path | None = None
    test_releases: Sequence[Pushed] = ()
    limits: Limits = field(default_factory=Limits)
    largest_share: float | None = None
    agreeing: bool = False
    made_from: Sequence[tuple[Card, Pushed]] = ()
    """Of rows that were drawn from added counts: what was added."""
    notes: tuple[str, ...] = ()


@dataclass
class Pool:
    """Parts of every site (a site pushes every month: several parts), tests by their name, notes for the reader."""

    cards: list[Card]
    sites: dict[str, list[Part]]
    tests: dict[str, list[Part]]
    notes: list[str]

    @property
    def classes(self) -> int:
        return len(self.cards[0].classes)

    @property
    def parts(self) -> list[Part]:
        return [part for parts in self.sites.values() for part in parts]

    @property
    def rows(self) -> int:
        return rows_of(self.parts)

    def cap(self, share: float | None, rng: np.random.Generator) -> None:
        """Let no site be more than `share` of the pool."""
        there = [(site, part) for site, parts in self.sites.items() for part in parts]
        wanted, _ = rows_of_each([site for site, _ in there], [len(part.y) for _, part in there], share)
        self.sites = {site: [] for site in self.sites}
        for (site, part), rows in zip(there, wanted, strict=True):
            if rows:
                self.sites[site].append(sampled_part(part, rows, rng))


def gather(request: Request, rng: np.random.Generator, read: Callable[[], None], *, plain: bool) -> Pool:
    """Read everything that was pushed, and keep as many rows as the request's limits allow; `read` is called after
    every file.

    `plain`: the classifier answers for plain rows as they are, wherever a release keeps the source's columns. No site
    is more than `largest_share` of what is kept.
    """
    releases = request.releases
    cards = checked_cards([*releases, *request.test_releases])
    mine, theirs = cards[: len(releases)], cards[len(releases) :]
    by_site: dict[str, list[Card]] = {}
    for pushed, card in zip(releases, mine, strict=True):
        by_site.setdefault(pushed.site, []).append(card)
    most = request.limits.rows(request.classifier, mine[0].made_by().width)
    rows = [card.rows for card in mine]
    wanted, there = rows_of_each([pushed.site for pushed in releases], rows, request.largest_share, most)
    ends = ends_of(by_site)
    sites: dict[str, list[Part]] = {}
    far = 0
    for pushed, card, chosen in zip(releases, mine, wanted, strict=True):
        part, beyond = within(read_part(pushed, card, chosen, rng), *ends)
        far += beyond
        if len(part.y):
            sites.setdefault(pushed.site, []).append(part)
        read()
    pool = Pool(mine, sites, {}, [])
    if far:
        were = "1 cell lies" if far == 1 else f"{far:,} cells lie"
        pool.notes.append(
            f"{were} further out than the noise of most sites can move any value; training used that distance."
        )
    if not sites:
        raise TableError("The releases contain no rows: there is nothing to learn from.")
    if most < there:
        pool.notes.append(f"The pool holds {there:,} rows; the model was trained on a random sample of {pool.rows:,}.")
    if request.test_table is not None:
        _add_public(pool, request.test_table, request.limits.tested_rows, rng, plain=plain)
        read()
    if parts := _embedded(request, theirs, rng, read):
        pool.tests[EMBEDDED] = parts
    return pool


def checked_cards(pushed: Sequence[Pushed]) -> list[Card]:
    """All cards, if their rows mean the same numbers and the same classes."""
    cards = [embedded_card(one) for one in pushed]
    check_one_space(cards, [one.name for one in pushed])
    for card, one in zip(cards, pushed, strict=True):
        if not card.classes:
            raise SchemaError(f"{one.name} has no column to predict.")
        if card.classes != cards[0].classes:
            raise CardError(f"{one.name} has other classes than {pushed[0].name[0].lower()}{pushed[0].name[1:]}.")
    return cards


def _add_public(pool: Pool, path: Path, rows: int, rng: np.random.Generator, *, plain: bool) -> None:
    """Plain rows, carried by the card's public map to where the releases lie."""
    card = pool.cards[0]
    as_they_are, unused = plain and card.is_columnwise, "The public test table was not used"
    try:
        affine = None if as_they_are else public_map(card.made_by())
    except UsageError as error:
        pool.notes.append(f"{unused}. {error}")
        return
    if affine is None and not as_they_are:
        pool.notes.append(
            f"{unused}: plain rows can be embedded only with the key, which is the sites' secret. Sites can push test "
            "rows instead (purpose: test)."
        )
        return
    table = open_table(path)
    there = sum(block.num_rows for block in table.blocks(BLOCK_ROWS)) if table.rows is None else table.rows
    if not there:
        raise TableError("The public test table contains no rows. Upload one that does.")
    picked, encoding = list(picked_blocks(table, chosen_rows(there, rows, rng))), card.source_encoding()
    Z = np.concatenate([encoding.encode(block).X for block in picked])
    if affine is not None:
        Z = Z @ affine[0].T + affine[1]
    y = np.concatenate([encoding.encode_label(block) for block in picked])
    pool.tests[PUBLIC] = [Part(Z, y)]


def _embedded(
    request: Request, cards: Sequence[Card], rng: np.random.Generator, read: Callable[[], None]
) -> list[Part]:
    share = min(1.0, request.limits.tested_rows / max(sum(card.rows for card in cards), 1))
    parts = []
    for one, card in zip(request.test_releases, cards, strict=True):
        parts.append(read_part(one, card, max(1, int(share * card.rows)), rng))
        read()
    return [part for part in parts if len(part.y)]


# Noisy counts of several sites, added: rows are drawn from the sum, and models are trained on those.
#
# The coordinator never sees the counts of a site without its noise. Where each person is at one site, their counts are
# in one summand, so the claim for all sites together is the weakest of their own. A person at two sites pays at both.

TOGETHER = "all sites together"
FIRST_ROUND = "Sites of this study push measurements that a plan is made from. Train in the study with that plan."
ONE_SITE = "Every person is at one site; somebody at two of them pays at both, and the costs add up."


@dataclass(frozen=True)
class Added:
    """The sum of all counts, and what it was made from."""

    counts: NoisyFigures
    used: list[tuple[Card, Pushed]]

    @property
    def sites(self) -> list[str]:
        return sorted({pushed.site for _, pushed in self.used})

    def release(self) -> Release:
        """A model of everybody, without rows yet, under the weakest claim of all sites."""
        model = model_as_dict(self.counts.drawn())
        card = max((card for card, _ in self.used), key=_cost)
        assumptions = list(dict.fromkeys([*card.guarantee["assumptions"], ONE_SITE]))
        caps = [one.guarantee["rows_per_person"] for one, _ in self.used]
        most = None if None in caps else max(caps)
        card = replace(
            card,
            rows=self.counts.rows,
            recipe={**card.recipe, "model": model_digest(model)},
            guarantee={**card.guarantee, "assumptions": assumptions, "rows_per_person": most},
            created=today(),
        )
        return Release(Card.from_dict(card.to_dict()), held=InMemory(model=model))


def add_counts(pushed: Sequence[Pushed], plan: AgreedPlan) -> Added:
    """Read and add all counts; each file was checked when it came, and is checked again."""
    if not pushed:
        raise UsageError("No site has pushed counts yet.")
    cards = [embedded_card(one) for one in pushed]
    found = [noisy_counts(read_cells(one.path), plan, card) for one, card in zip(pushed, cards, strict=True)]
    return Added(reduce(add, found), list(zip(cards, pushed, strict=True)))


def with_added_counts(request: Request, plan: AgreedPlan, scratch: Path) -> Request:
    """The same training on rows that are drawn from the sum; they are written into `scratch`."""
    if request.agreeing:
        raise UsageError("Which sites agree cannot be told from counts that are added. Train on all sites.")
    if isinstance(plan, ScoringPlan):
        raise UsageError(FIRST_ROUND)
    added = add_counts(request.releases, plan)
    rows = min(added.counts.rows, request.limits.trained_rows)
    made = draw_from(added.release(), RedrawAsked(rows=rows, out=scratch / "added", seed=0))
    assert made.folder is not None
    sha256 = str(made.card.recipe["model"])
    note = (
        f"Trained on {counted(rows, 'row')} drawn from the sum of noisy counts of {counted(len(added.sites), 'site')}: "
        "no row is anybody's. Cross-validation is on drawn rows; trust a public test table more."
    )
    together = [Pushed(made.folder / "release.parquet", TOGETHER, sha256)]
    return replace(request, releases=together, made_from=added.used, notes=(note,))


def _cost(card: Card) -> float:
    """Infinite where nothing is proved: its figures are conditional."""
    central = card.all_releases().central if card.is_formal else None
    return float("inf") if central is None else central.epsilon
