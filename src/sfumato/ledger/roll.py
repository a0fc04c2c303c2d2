"""The roll of a release: whom it is about, as fingerprints, while it is made and as the ledger keeps it.

Kept are files in a private folder beside the ledger: the sealed words of all cells (so that rows can be compared over
the columns that two releases share), where a column says whose row each is the sorted fingerprints of people, and, once
a comparison has needed them, the sorted fingerprints of the rows over all columns. Comparing takes some 30 bytes
of memory a row.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np

from sfumato.core.array_types import Codes, Flags
from sfumato.core.errors import CardError
from sfumato.core.files import explained, new_file
from sfumato.guarantee.person_hash import PersonHash, Prints, SealedWords, Spool, unsealed
from sfumato.table.cell_sets import Words

ROWS, CELLS, PEOPLE = ".rows", ".cells", ".people"
TELLS_APART = 0.5
"""Columns that only part of two tables share count if they tell at least this share of the rows apart."""
HARDLY_EVER = 1e-3
"""Strangers who happen to be alike are taken for the same people at most this often, where some are alike at all."""
PARTS = 8
"""Columns are left out one by one, or where there are more than these, a part at a time: a row of which no cell of the
others changed is still known."""
NEARLY_ALL = 0.9
"""Columns without one part count if they tell at least this share of the rows apart."""
TRIED = 1 << 16
"""Rows of both tables on which it is tried first whether leaving out a part finds anybody."""
FEW, LOOKED_AT = 4, 1 << 12
"""Columns that are compared before all are, and rows that say which ones."""
ASKED_AT_A_TIME = 1 << 18
"""Fingerprints that are looked up together: in order, they meet the known ones in the cache, in little memory."""


class Told(NamedTuple):
    """Whose rows those of a block are: words of every column, in the order of the roll's tags, and people."""

    words: Words
    people: Prints | None


class Sealed(ABC):
    """Rows of which the sealed words of all cells are at hand; whoever needs fingerprints makes them, over any of the
    columns."""

    hasher: PersonHash
    tags: tuple[str, ...]

    @abstractmethod
    def _cells(self) -> AbstractContextManager[IO[bytes]]:
        """The file that they lie in."""

    def _words(self, tags: Sequence[str]) -> Iterator[list[Words]]:
        """The words of these columns, block by block."""
        with self._cells() as file:
            yield from unsealed(self.hasher, file, len(self.tags), [self.tags.index(tag) for tag in tags])

    def over(self, tags: Sequence[str]) -> Iterator[Prints]:
        """Fingerprints over some of the columns, in the order of the rows, block by block."""
        for words in self._words(tags):
            yield self.hasher.of_rows(words, tags)

    def sorted_over(self, tags: Sequence[str]) -> Prints:
        """The same in order, of all rows."""
        found = joined(self.over(tags))
        found.sort()
        return found

    def first_without(self, tags: Sequence[str], parts: int) -> list[Prints]:
        """Of the first rows: what tells them apart over the columns but every `parts`-th one, from each on."""
        found, rows = [[np.empty(0, dtype=np.uint64)] for _ in range(parts)], 0
        for words in self._words(tags):
            of_parts = [self.hasher.sums(words[n::parts], tags[n::parts]) for n in range(parts)]
            total = np.sum(of_parts, axis=0, dtype=np.uint64)
            for known, one in zip(found, of_parts, strict=True):
                known.append(total - one)
            rows += len(words[0])
            if rows >= TRIED:
                break
        return [np.concatenate(one) for one in found]


class Roll(Sealed):
    """The people of a release that is being made: filled block by block, then compared and saved."""

    def __init__(self, hasher: PersonHash, columns: Sequence[str], *, people: bool, beside: Path | None = None):
        self.hasher = hasher
        places = {hasher.tag(name): place for place, name in reversed([*enumerate(columns)])}  # of equals the first
        self.tags = tuple(sorted(places))
        self._order = [places[tag] for tag in self.tags]
        self._spool = Spool(beside)
        self._sealed = SealedWords(hasher, self._spool)
        self._people: list[Prints] | None = [] if people else None
        self._rows: Prints | None = None
        self._count = 0
        self._spare: deque[Words] = deque()

    def told(self, rows: int, words: Callable[[int], Words], people: Prints | None) -> Told:
        """What a block tells: `words` are those of the column at a place among the names. Any thread may ask."""
        shape = len(self.tags), rows
        try:  # memory of a block that was taken in, or new memory, which costs more
            room = self._spare.popleft()
        except IndexError:
            room = SealedWords.room(*shape)
        room = room if room.shape == shape else SealedWords.room(*shape)
        for line, place in zip(room, self._order, strict=True):
            line[:] = words(place)
        return Told(room, people)

    def add(self, told: Told) -> None:
        """Take in the rows of a block, in the order of the blocks."""
        self._count += told.words.shape[1]
        self._rows = None
        self._sealed.write(told.words)
        self._spare.append(told.words)
        if self._people is not None and told.people is not None:
            self._people.append(told.people)

    def __len__(self) -> int:
        return self._count

    @property
    def has_people(self) -> bool:
        return self._people is not None

    def people(self) -> Prints | None:
        return None if self._people is None else joined(self._people)

    @contextmanager
    def _cells(self) -> Iterator[IO[bytes]]:
        yield self._spool.from_start()

    def over(self, tags: Sequence[str]) -> Iterator[Prints]:
        """Fingerprints over some of the columns; over all of them they are made once, and kept with the roll."""
        if tuple(tags) != self.tags:
            yield from super().over(tags)
            return
        if self._rows is None:
            self._rows = joined(super().over(tags))
        yield self._rows

    def known_to(self, kept: KeptRoll) -> Flags | None:
        """Which rows the kept roll has as well, by name or by their cells; None where nothing says whether they do.

        Names that differ do not make two people of one: equal rows are the same person's, unless strangers are alike.
        """
        if self._people is None or not kept.has_people:
            return rows_known(self, kept)
        named = all_among(self._people, kept.people())
        return named | rows_beyond_chance(self, kept, ~named)

    def times_in(self, kept: KeptRoll) -> Codes | None:
        """How often the kept roll has each row; where a column names people, 1 for rows that it knows at all."""
        if self._people is not None:
            known = self.known_to(kept)
            return None if known is None else known.astype(np.int64)
        shared = comparable(self, kept)
        if not shared:
            return None
        if not alike_in_a_few(self, kept, shared).any():
            return np.zeros(len(self), dtype=np.int64)
        theirs = kept.sorted_over(shared)  # its other file has equal rows once
        pieces = [np.searchsorted(theirs, p, "right") - np.searchsorted(theirs, p, "left") for p in self.over(shared)]
        return np.concatenate([np.empty(0, dtype=np.int64), *pieces])

    def save(self, folder: Path, name: str) -> None:
        """Keep it, durably, for its owner alone."""
        with explained(folder):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for ending, prints in ((ROWS, self._rows), (PEOPLE, self.people())):
            if prints is not None:
                with new_file(folder / (name + ending), private=True) as file:
                    file.write(np.unique(prints).astype("<u8").tobytes())
        self._spool.save(folder / (name + CELLS))


@dataclass(frozen=True)
class KeptRoll(Sealed):
    """The roll of an earlier release, on the disk."""

    folder: Path
    name: str
    tags: tuple[str, ...]
    hasher: PersonHash

    def __len__(self) -> int:
        return sum(len(words) for (words,) in self._words(self.tags[:1]))

    @property
    def has_people(self) -> bool:
        return self._file(PEOPLE).exists()

    def rows(self) -> Prints:
        """Fingerprints over all columns, in order and each once: made where no comparison has needed them yet."""
        if self._file(ROWS).exists():
            return self._sorted_file(ROWS)
        return np.unique(joined(self.over(self.tags)))

    def people(self) -> Prints:
        return self._sorted_file(PEOPLE)

    @contextmanager
    def _cells(self) -> Iterator[IO[bytes]]:
        try:
            with self._file(CELLS).open("rb") as file:
                yield file
        except (OSError, EOFError, ValueError) as error:
            raise self._damaged(CELLS) from error

    def bytes(self) -> int:
        files = map(self._file, (ROWS, CELLS, PEOPLE))
        return sum(path.stat().st_size for path in files if path.exists())

    def _file(self, ending: str) -> Path:
        return self.folder / (self.name + ending)

    def _sorted_file(self, ending: str) -> Prints:
        path = self._file(ending)
        try:
            size = path.stat().st_size
            if size % 8:
                raise ValueError("cut short")
            return np.memmap(path, dtype="<u8", mode="r") if size else np.empty(0, dtype=np.uint64)
        except (OSError, ValueError) as error:
            raise self._damaged(ending) from error

    def _damaged(self, ending: str) -> CardError:
        return CardError(f"The ledger's file {self._file(ending)} is missing or damaged. Take it from a backup.")


def rows_known(ours: Sealed, kept: KeptRoll) -> Flags | None:
    """Which rows the kept roll has as well, compared over the columns that both have.

    Where both have columns of their own, what they share may not tell people apart. Then nothing says who is who.
    """
    shared = comparable(ours, kept)
    if not shared:
        return None
    known = _alike(ours, kept, shared)
    return known | nearly_known(ours, kept, ~known)


def rows_beyond_chance(ours: Sealed, kept: KeptRoll, asked: Flags) -> Flags:
    """Which of the rows that are asked about the kept roll has as well, where that is more than strangers explain."""
    known = np.zeros(len(asked), dtype=np.bool_)
    if shared := comparable(ours, kept):
        known = asked & _alike(ours, kept, shared)
        if known.any() and not beyond_chance(joined(ours.over(shared))[asked], joined(kept.over(shared))):
            known[:] = False
    return known | nearly_known(ours, kept, asked & ~known)


def _alike(ours: Sealed, kept: KeptRoll, shared: tuple[str, ...]) -> Flags:
    """Which rows equal one of the kept roll over the columns that both have."""
    found = alike_in_a_few(ours, kept, shared)
    if len(shared) <= FEW or not found.any():
        return found
    return all_among(ours.over(shared), kept.rows() if shared == kept.tags else kept.sorted_over(shared))


def alike_in_a_few(ours: Sealed, kept: KeptRoll, shared: tuple[str, ...]) -> Flags:
    """Which rows equal one of the kept roll over those few columns that have the most different words in the first
    rows: all that equal one over all of them, and mostly no others, so that the other columns need not be read."""
    words = next(ours._words(shared), [])
    spread = {tag: -len(np.unique(one[:LOOKED_AT])) for tag, one in zip(shared, words, strict=False)}
    few = tuple(sorted(spread, key=spread.__getitem__)[:FEW])
    return all_among(ours.over(few), kept.sorted_over(few))


def nearly_known(ours: Sealed, kept: KeptRoll, asked: Flags) -> Flags:
    """Which of the rows that are asked about equal one of the kept roll but for cells in one part of the columns, such
    as one that was corrected.

    That few cells differ says less than that none does. So strangers must be ruled out, however few of them are alike.
    """
    known = np.zeros(len(asked), dtype=np.bool_)
    for part in _telling_parts(ours, kept, asked) if asked.any() else ():
        known |= asked & all_among(ours.over(part), kept.sorted_over(part))
    return known


def _telling_parts(ours: Sealed, kept: KeptRoll, asked: Flags) -> list[tuple[str, ...]]:
    """What is left of the columns without one part, as far as it tells rows apart; none where strangers are alike."""
    shared = tuple(tag for tag in ours.tags if tag in kept.tags)
    count = min(PARTS, len(shared)) if len(shared) > 1 else 0
    tried = zip(ours.first_without(shared, count), kept.first_without(shared, count), strict=True)
    pairs = [sorted((mine[asked[: len(mine)]], theirs), key=len) for mine, theirs in tried]
    telling = [n for n, (_, more) in enumerate(pairs) if _distinct(np.sort(more)) >= NEARLY_ALL * len(more)]
    if not telling or _chance_of_strangers([pairs[n] for n in telling]) >= HARDLY_EVER:
        return []
    return [tuple(tag for tag in shared if tag not in shared[n::count]) for n in telling]


def comparable(ours: Sealed, kept: KeptRoll) -> tuple[str, ...]:
    """The columns over which rows are compared: those that both have, where they tell rows apart."""
    shared = tuple(tag for tag in ours.tags if tag in kept.tags)
    if shared and shared not in (ours.tags, kept.tags):
        return shared if _distinct(kept.sorted_over(shared)) >= TELLS_APART * len(kept.rows()) else ()
    return shared


def beyond_chance(rows: Prints, others: Prints) -> bool:
    """Whether more rows of two tables are equal than those of strangers would be.

    How often strangers are alike shows in the larger table: in it, a row of the smaller one finds an equal as often as
    one of its own rows does. So both are counted, and the first count is binomial, given the sum. Where no two rows of
    the larger table are alike, nothing speaks for strangers.
    """
    fewer, more = sorted((rows, others), key=len)
    if not _repeated(more).any():
        return bool(among(fewer, np.sort(more)).any())
    return _chance_of_strangers([(fewer, more)]) < HARDLY_EVER


def _chance_of_strangers(pairs: Sequence[Sequence[Prints]]) -> float:
    """How often strangers would have as many rows that are equal over the columns of one of the pairs: the rows of the
    smaller table and of the larger one."""
    from scipy.special import bdtrc  # slow to load

    found = np.any([among(fewer, np.sort(more)) for fewer, more in pairs], axis=0).sum()
    alike = np.any([_repeated(more) for _, more in pairs], axis=0).sum()
    fewer, more = map(len, pairs[0])
    return float(bdtrc(found - 1.0, found + alike, fewer / (fewer + more))) if found else 1.0


def _repeated(found: Prints) -> Flags:
    ordered = np.sort(found)
    return among(found, ordered[1:][ordered[1:] == ordered[:-1]])


def joined(pieces: Iterable[Prints]) -> Prints:
    return np.concatenate([np.empty(0, dtype=np.uint64), *pieces])


def _distinct(found: Prints) -> int:
    return len(found) and 1 + int(np.count_nonzero(found[1:] != found[:-1]))


def all_among(pieces: Iterable[Prints], known: Prints) -> Flags:
    """The same of many fingerprints, a piece at a time."""
    return np.concatenate([np.empty(0, dtype=np.bool_), *(among(piece, known) for piece in pieces)])


def among(prints: Prints, known: Prints) -> Flags:
    """Which of the fingerprints are among the known ones, which are sorted."""
    if not len(known):
        return np.zeros(len(prints), dtype=np.bool_)
    found = np.empty(len(prints), dtype=np.bool_)
    for start in range(0, len(prints), ASKED_AT_A_TIME):
        order = np.argsort(prints[start : start + ASKED_AT_A_TIME])
        asked = prints[start + order]
        places = np.minimum(np.searchsorted(known, asked), len(known) - 1)
        found[start + order] = known[places] == asked
    return found
