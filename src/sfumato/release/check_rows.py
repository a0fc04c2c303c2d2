"""Whether a release is what its card says: checks that need nothing but the release.

A site makes them before anything leaves it, the coordinator makes them with every push, and `verify` makes them for
anybody. First what the file holds besides rows, then the rows, block by block: every cell is a finite number or a known
category that the stated noise could have made of some value, and all of them together vary as that noise makes them.
Cells are told by row and column, never by what they hold.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sfumato.channels import Recipe, Staged
from sfumato.channels.recipe import FALSE_ALARMS, Measurement, Reach
from sfumato.core.array_types import Codes, Flags, Matrix
from sfumato.core.errors import CardError, SfumatoError, TableError
from sfumato.guarantee import Card
from sfumato.guarantee.card import from_json
from sfumato.mechanisms import find_mechanism, make_mechanism
from sfumato.mechanisms.central.scoring import AgreedPlan, NoisyFigures
from sfumato.mechanisms.reported_columns import OutcomeCounts, ReleasedRows, guides_fit
from sfumato.release.bets import Bets
from sfumato.release.release import card_inside, carries_more, matrix_of
from sfumato.release.signature import COUNTS
from sfumato.release.write_release import may_be_empty

UNREADABLE = (SfumatoError, pa.ArrowException, OSError, ValueError, TypeError, LookupError, ArithmeticError)
"""What reading a file or a card can raise that anybody may have made."""
BLOCK = 1 << 16
MOST_NAMED = 5
EARLY = 1e-6
"""Judging before all rows are read takes so much surer evidence, and so adds nothing to the false alarms."""
OWN_OPERATOR = (
    "The release was made with its owner's own operator. Nobody else can tell what it does to a value, and one "
    "forged cell could ruin a model. Use an operator that has a name."
)
WRONG_GUIDES = (
    "The stages of the release were guided by something else than its own released rows, and nobody knows what that "
    "tells of others. Take the release as `sfumato sanitize` wrote it."
)
TYPES = (
    pa.types.is_floating,
    pa.types.is_integer,
    pa.types.is_timestamp,
    pa.types.is_date,
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_boolean,
    pa.types.is_null,
)
"""What Arrow calls the cells of a release; in a CSV file those of a column that is empty have no type."""
OTHER_ROWS = "The card states another number of rows than the release has: one of them was edited."


# Do rows look as the card says they were made? What noise alone brings cannot be missing.
#
# Noise that has one peak, in its middle, puts no more of a column's values close to any point than of its own close to
# that middle [Anderson 1955; Levy's concentration function], whatever was noised; and a category is reported at least
# as often as randomized response reports it by chance. A release that is more crowded, or in which categories are
# rarer, was not made with the noise that its card states. This finds who edited noise and guarantee together, not who
# takes the trouble of forging rows, nor what a few rows cannot show. It accuses hardly anybody by chance: counts of
# independent rows exceed a share `p` by so much with probability at most ``exp(-n KL(share, p))`` [Chernoff 1952], and
# all comparisons of one release together do so less often than `NOISE_ALARMS`. Where noise differs between classes, as
# kernels do, the least of it counts: most rows may be of the class that has it. Where not every row reports a column,
# the rows that do are looked at, and they are as many as the card says, give or take chance.
#
# What intervals cannot show, bets do: see `bets`.

NOISE_ALARMS = 1e-12
"""Honest releases that are accused, at most: of one in each of a thousand studies' pushes, less than 1e-9 in all."""
CLOSE = (1e-4, 0.01, 0.1, 0.3, 0.5, 0.65, 0.8, 0.9)
"""Shares of a law's values around its middle, and so the largest shares of rows that intervals as wide may hold. Small
ones reveal whole numbers without noise, large ones a narrow column."""
ROUNDING = 1e-3
"""What grids and doubles can add to such a share: intervals that are not a thousand steps of them wide are left out."""
CENTRE_ROWS = 101
"""The first rows, at most a quarter of all, say where to look; the others are counted, and know nothing of them."""
WRONG = (
    "Its rows vary less than the noise that its card states: the release was not made as the card says. "
    "Take release and card as `sfumato sanitize` wrote them."
)

WRONG_GAPS = (
    "Its rows leave out more or fewer cells than its card states: the release was not made as the card says. "
    "Take release and card as `sfumato sanitize` wrote them."
)


class NoiseEvidence:
    """Counts over rows: how many lie how close to the centre, and how often each category is reported."""

    def __init__(
        self,
        recipe: Recipe,
        stated_rows: int,
        classes: int = 0,
        label_floor: float = 0.0,
        false_alarms: float = NOISE_ALARMS,
        bets: Bets | None = None,
    ) -> None:
        """`false_alarms`: honest releases that are accused, at most: half of it for the counts, half for the bets."""
        self.stated_rows, self.classes, self.label_floor = stated_rows, classes, label_floor
        self.false_alarms, self.bets, self.rows = false_alarms, bets or Bets([], 1), 0
        self.reach = np.zeros((len(CLOSE), recipe.width))
        """For every share of `CLOSE` and every encoded column, half of the interval; 0 where no noise can be missed."""
        self.floors: list[tuple[slice, float]] = []
        """Encoded columns of every category, and the share that each has by chance at least."""
        self.reported = np.ones(recipe.width)
        """The share of rows that report each encoded column."""
        self._look_for(recipe)
        self._close = np.zeros(self.reach.shape, dtype=np.int64)
        self._counts, self._looked, self._there = np.zeros((3, recipe.width), dtype=np.int64)
        self._labels = np.zeros(max(classes, 1), dtype=np.int64)
        self._noised = np.flatnonzero(self.reach.any(axis=0))
        self._centre: Matrix | None = None

    @classmethod
    def of(cls, card: Card, false_alarms: float = NOISE_ALARMS) -> NoiseEvidence:
        classes = len(card.classes)
        floor = (1 - card.label_keep) / max(classes - 1, 1)
        return cls(card.made_by(), card.rows, classes, floor, false_alarms, Bets.of(card))

    def _look_for(self, recipe: Recipe) -> None:
        """What each channel of the recipe makes of rows; of the class whose noise is narrowest, where they differ."""
        columns = {group.start: group.column for group in recipe.encoding.groups} if recipe.is_columnwise else {}
        told_apart = 8 * float(np.spacing(float(recipe.width)))
        for number, (place, channel) in enumerate(zip(recipe.places, recipe.channels, strict=True)):
            of_classes = [some[number] for some in recipe.by_class.values()]
            self.reported[place] = channel.reported
            if (least := min(one.least_share for one in [channel, *of_classes])) > 0:
                self.floors.append((place, least))
            column = columns.get(place.start)
            if channel.width > 1 or (column is not None and column.kind == "date"):
                continue  # empty cells or the calendar's ends take variance away again
            # how finely values can differ: by the noise's grid, or by what a double tells apart
            step = max(channel.step, told_apart)
            if column is not None:
                low, high = column.bounds
                finest = 8 * float(np.spacing(max(abs(low), abs(high))))
                step = max(channel.step, finest / (high - low)) if high > low else 1.0
            half = np.array([min(one.central(share) for one in of_classes or [channel]) for share in CLOSE])
            self.reach[:, place.start] = np.where(half * ROUNDING > step, half, 0.0)

    def add(self, matrix: Matrix, codes: Codes | None) -> None:
        """One block of the release matrix."""
        if len(matrix) == 0:
            return
        self.rows += len(matrix)
        self.bets.add(matrix, codes)
        there = ~np.isnan(matrix)
        self._there += there.sum(axis=0)
        self._counts += (matrix > 0.5).sum(axis=0)
        if codes is not None:
            self._labels += np.bincount(codes, minlength=len(self._labels))
        if self._centre is None:
            first = max(1, min(CENTRE_ROWS, self.stated_rows // 4))
            reported = (cells[~np.isnan(cells)] for cells in matrix[:first].T)
            # the middle of the range where no row reports it
            self._centre = np.array([np.median(cells) if len(cells) else 0.5 for cells in reported])
            matrix, there = matrix[first:], there[first:]
        self._looked += there.sum(axis=0)
        for column in self._noised:  # one at a time: it stays in the cache for all shares
            distance = np.abs(matrix[:, column] - self._centre[column])
            self._close[:, column] += [int(np.count_nonzero(distance <= reach)) for reach in self.reach[:, column]]

    def against(self, surer: float = 1.0) -> str | None:
        """What contradicts the card, or None; with `surer` below 1, false alarms are rarer by that factor."""
        sampled = self.reported < 1
        comparisons = self.reach.size + sum(part.stop - part.start for part, _ in self.floors) + self.classes
        comparisons += 2 * int(sampled.sum())
        doubt = math.log(2 * comparisons / (self.false_alarms * surer))
        most = np.array(CLOSE)[:, None] * (1 + ROUNDING)
        crowded = exceeds(self._close, self._looked, most, doubt) & (self.reach > 0)
        rare = [_rare(self._counts[part], self._there[part], floor, doubt) for part, floor in self.floors]
        if self.classes:
            rare.append(_rare(self._labels, self.rows, self.label_floor, doubt))
        often = exceeds(self._there, self.rows, self.reported, doubt) & sampled
        seldom = exceeds(self.rows - self._there, self.rows, 1 - self.reported, doubt) & sampled
        if often.any() or seldom.any():
            return WRONG_GAPS
        lost = self.bets.log_won > math.log(2 / (self.false_alarms * surer))
        return WRONG if lost or crowded.any() or any(rare) else None


def _rare(counts: Codes, rows: Any, floor: float, doubt: float) -> bool:
    """Whether some category is reported less often than chance alone reports it: others are, more often."""
    return bool(exceeds(rows - counts, rows, 1 - floor, doubt).any())


def exceeds(counts: Codes, n: Any, most: Any, doubt: float) -> Flags:
    """Whether counts of `n` independent rows, each in with probability `most` or less, are likelier a lie than chance:
    whether they exceed it, and ``exp(-n KL(counts / n, most)) < exp(-doubt)``."""
    share = counts / np.maximum(n, 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        inside = np.where(share > 0, share * np.log(share / most), 0.0)
        outside = np.where(share < 1, (1 - share) * np.log((1 - share) / (1 - np.minimum(most, 1.0))), 0.0)
        return np.asarray((share > most) & (n * (inside + outside) > doubt))


def read_card(text: bytes | str) -> Card:
    """A card as it is embedded in a release, from anybody: no NaN, no duplicate meaning, and the published schema."""
    try:
        data = from_json(text)
    except ValueError:
        raise CardError("The card inside the release is not valid JSON: it was edited or is damaged.") from None
    if not isinstance(data, Mapping):
        raise CardError("The card inside the release is not a card: it was edited or is damaged.")
    try:
        return Card.from_dict(data, where="The card inside the release")
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError):
        raise CardError("The card inside the release cannot be understood: it was edited or is damaged.") from None


def embedded_card(file: pq.ParquetFile, most_bytes: int) -> Card:
    """The card inside a file that anybody may have made."""
    text = card_inside(file)
    if text is None:
        raise CardError("The file contains no card. Take what `sfumato sanitize` wrote.")
    if len(text) > most_bytes:
        raise CardError(f"The card inside the release has more than {most_bytes} bytes.")
    return read_card(text)


def check_content(file: pq.ParquetFile, card: Card) -> None:
    """Columns that no card speaks of might hold anything; so might unexpected types, and words beside them."""
    if card.rows != file.metadata.num_rows:
        raise CardError(OTHER_ROWS)
    if carries_more(file):
        raise TableError("The file contains more than rows and card: another program has written to it. Release again.")
    check_columns(file.schema_arrow, card)


def check_columns(schema: pa.Schema, card: Card) -> None:
    """The card's columns in its order, of types that a release has."""
    columns = [column["name"] for column in card.release_schema["columns"]]
    label, target = card.release_schema["label"], card.target
    if schema.names != [*columns, *([label["name"]] if label else []), *([target] if target else [])]:
        raise TableError("The release's columns are not those of its card, in the same order: one of them was edited.")
    for one in schema:
        if not any(known(one.type) for known in TYPES):
            raise TableError(f"Column {one.name[:60]!r} of the release has a type that no release has.")


def check_rows(
    blocks: Iterable[pa.Table],
    card: Card,
    also: Callable[[Matrix, Codes | None], None] | None = None,
    false_alarms: float = NOISE_ALARMS,
) -> NoiseEvidence:
    """Go through all rows, and raise what contradicts the card; `also` is shown every block. Returns what all rows
    together say about their noise."""
    recipe = card.made_by()
    empty = may_be_empty(recipe)
    reach = Reach.of(recipe, card.rows)
    if np.isinf(reach.low).any():
        raise TableError(OWN_OPERATOR)
    evidence = NoiseEvidence.of(card, false_alarms)
    guides: OutcomeCounts | None = None
    for number, block in enumerate(blocks, start=1):
        check_written(block, empty, evidence.rows)
        matrix, codes = matrix_of(block, card, evidence.rows)
        check_reached(matrix, reach, evidence.rows)
        recipe.check_reports(matrix)
        evidence.add(matrix, codes)
        if isinstance(recipe.map, Staged):
            found = OutcomeCounts.of(recipe.map, recipe.channels, ReleasedRows(matrix))
            guides = found if guides is None else guides + found
        if also is not None:
            also(matrix, codes)
        # After blocks 1, 2, 4, 8, ...: who sends millions of equal rows is refused for the first of them.
        if number & (number - 1) == 0 and (wrong := evidence.against(surer=EARLY)):
            raise TableError(wrong)
    if evidence.rows != card.rows:
        raise CardError(OTHER_ROWS)
    if guides is not None and not guides_fit(recipe, guides):
        raise TableError(WRONG_GUIDES)
    if wrong := evidence.against():
        raise TableError(wrong)
    return evidence


def check_written(table: pa.Table, may_be_empty: Collection[str], first_row: int) -> None:
    """Numbers are finite, and cells are empty only in columns that may be."""
    for name in table.column_names:
        cells = table[name]
        if name not in may_be_empty and cells.null_count:
            where = _place(first_row + int(np.argmax(pc.is_null(cells).to_numpy())), name)
            raise TableError(f"The release has an empty cell, which its schema does not allow: {where}.")
        if pa.types.is_floating(cells.type):
            finite = pc.fill_null(pc.is_finite(cells), True)
            if not pc.all(finite).as_py():
                where = _place(first_row + int(np.argmin(finite.to_numpy())), name)
                raise TableError(f"The release has a cell that is not a finite number: {where}. It was changed.")


def check_reached(matrix: Matrix, reach: Reach, first_row: int) -> None:
    """Every reported cell lies where the stated noise could have carried some value of the domain. Those that do not
    are numbered from 1 as people count; what they hold is never told."""
    if not (far := reach.outside(matrix)):
        return
    named = "; ".join(_place(first_row + row, name) for row, name in far[:MOST_NAMED])
    more = f" and {len(far) - MOST_NAMED} more" if len(far) > MOST_NAMED else ""
    raise TableError(
        f"The release has cells that the noise on its card cannot have produced from any value: {named}{more}. "
        f"In an honest release that happens with a probability of {FALSE_ALARMS:g}, and one such cell can ruin a "
        "model. Take the release as `sfumato sanitize` wrote it."
    )


def parquet_blocks(file: pq.ParquetFile) -> Iterator[pa.Table]:
    """The rows of a file, block by block, on one thread."""
    for batch in file.iter_batches(batch_size=BLOCK, use_threads=False):
        yield pa.Table.from_batches([batch])


def wrong_rows(path: Path, card: Card) -> str | None:
    """What is wrong with the rows of a release file, or None."""
    try:
        with pq.ParquetFile(path) as file:
            check_rows(parquet_blocks(file), card)
    except SfumatoError as error:
        return str(error)
    except (pa.ArrowException, OSError):
        return f"{path} cannot be read as Parquet: it is damaged. Release again."
    return None


def _place(row: int, name: str) -> str:
    return f"row {row + 1}, column {name[:60]!r}"


# counts.parquet: noisy counts under an agreed plan, with the card inside; what a site of such a study pushes.

FARTHEST = {"gaussian": 8.0, "laplace": 30.0}
"""Standard deviations that noise hardly ever exceeds: fewer than one honest site in 1e10 is refused."""
LARGEST = 10**12
NOT_COUNTS = f"{COUNTS} is damaged, or something else than noisy counts. Sanitize again with the study's file."
UNLIKELY = (
    "The counts cannot be those of one table with the noise that the card states: a count is far below zero, or tables "
    f"disagree about the number of rows. Push the {COUNTS} that `sfumato sanitize` wrote."
)


def check_fields(file: pq.ParquetFile) -> None:
    """One column of whole numbers, and nothing else."""
    schema = file.schema_arrow
    if schema.names != ["count"] or schema.field("count").type != pa.int64():
        raise TableError(NOT_COUNTS)


def read_cells(path: Path) -> Codes:
    """The counts as they lie in the file."""
    try:
        with pq.ParquetFile(path) as file:
            check_fields(file)
            column = file.read(["count"], use_threads=False)["count"]
    except (pa.ArrowException, OSError):
        raise TableError(NOT_COUNTS) from None
    if column.null_count:
        raise TableError(NOT_COUNTS)
    return np.asarray(column.to_numpy(), dtype=np.int64)


def noisy_counts(cells: Codes, plan: AgreedPlan, card: Card) -> NoisyFigures:
    """Counts with the noise that their card states; refused where they do not fit plan or noise."""
    classes, measured = max(1, len(card.classes)), card.made_by().measured
    if len(cells) != plan.cells(classes):
        raise TableError(
            f"The file has {len(cells):,} counts, and the study's plan asks for {plan.cells(classes):,}: they were "
            "measured under another plan. Release with the study's file."
        )
    far = FARTHEST["laplace" if any(one.way == "laplace" for one in measured) else "gaussian"]
    found = plan.figures(classes, cells, measured)
    if np.abs(cells).max(initial=0) > LARGEST or not found.likely(far):
        raise TableError(UNLIKELY)
    return found


def expected_measurements(plan: AgreedPlan, card: Card) -> list[Measurement]:
    """What a card must state that was made under this plan with its own epsilon and delta."""
    stated = card.mechanism["parameters"]
    if find_mechanism(card.mechanism["name"]) is None:
        raise CardError("The card's method is unknown.")
    made = make_mechanism(card.mechanism["name"], {"epsilon": stated["epsilon"], "delta": stated["delta"]})
    return made.measured_under(plan)


def counts_identity(cells: Codes) -> str:
    """One hash of all counts: the same counts in another file are the same."""
    return hashlib.sha256(b"counts/" + cells.astype("<i8").tobytes()).hexdigest()
