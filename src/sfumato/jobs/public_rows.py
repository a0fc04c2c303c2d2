"""A basis from rows that are public: people whom the release does not speak of shape the directions it uses.

That rows are public is the owner's word, and it is checked where it can be: rows that are those of the table, or of a
table that the ledger knows as released, are private ones. Two tables of different people share rows by chance, so that
only an overlap beyond chance counts (docs/decisions/0092).
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any, NamedTuple

import numpy as np

from sfumato.errors import PrivacyLeakWarning, SchemaError, TableError, UsageError
from sfumato.guarantee import Ledger
from sfumato.guarantee.borrowed import is_reason
from sfumato.guarantee.fingerprint import Fingerprint
from sfumato.guarantee.person_hash import Prints
from sfumato.guarantee.roll import Roll
from sfumato.jobs.source import Source
from sfumato.mechanisms import Mechanism, PrincipalLaplace
from sfumato.mechanisms.basis import principal_components
from sfumato.statistics import Moments
from sfumato.table import Encoding, Schema, open_table

HARDLY_EVER = 1e-4
"""How probable an overlap of different people may be at most, to be held against them: 14 rows that nobody repeats."""
THE_TABLE, RELEASED = "the table itself", "a table that your ledger knows as released"


@dataclass(frozen=True)
class PublicRows:
    """A table that anybody may have, and why; `conditional` where no proof is wanted."""

    table: Any
    reason: str | None
    conditional: bool = False

    def check(self, mechanism: Mechanism, parameters: Any) -> None:
        """What can be refused before any table is read."""
        if not isinstance(mechanism, PrincipalLaplace):
            raise UsageError(f"--basis-from gives principal-laplace its basis, but {mechanism.name} has none.")
        for given in ("basis", "basis_reason"):
            if given in parameters:
                raise UsageError(f"The basis comes from --basis-from and the reason from --reason. Leave {given} out.")
        if not self.conditional and not is_reason(self.reason):
            raise UsageError(
                "--basis-from needs a --reason: say in one sentence why these rows are public (who published them)."
            )

    def shape(self, mechanism: Mechanism, encoding: Encoding, ledger: Ledger) -> ShapedBy:
        """Give the mechanism the principal components of the public rows; returns what they are known again by."""
        only_private = Encoding(Schema(encoding.schema.private))
        source = Source(open_table(self.table), only_private, labelled=False)
        source.roll = roll = ledger.new_roll(source.known_by, people=False)
        fingerprint = ledger.fingerprint(encoding.width)
        parts = []
        try:
            for block in source.blocks():
                parts.append(Moments.of(block.X))
                fingerprint.add(block.X)
                assert block.told is not None
                roll.add(block.told)
        except (TableError, SchemaError) as error:
            raise type(error)(f"The public rows of --basis-from cannot be used: {error}") from None
        moments = reduce(add, parts, Moments.empty(encoding.width))
        # A release that is to be conditional is so whatever is found: its card is no test for who is in a table.
        reason = None if self.conditional else self.reason
        mechanism.set_params(basis=principal_components(moments), basis_reason=reason)
        return ShapedBy(roll, fingerprint.hexdigest(), self.conditional)


class ShapedBy(NamedTuple):
    """The rows that shaped a basis, as the ledger would know them again."""

    roll: Roll
    fingerprint: str
    conditional: bool

    def holds_private_rows(self, fingerprint: Fingerprint, roll: Roll | None, ledger: Ledger) -> bool:
        """Whether there are rows of the table or of one released before: refused, unless no proof is wanted. How many
        they are is for the owner's eyes only."""
        found = self._private(fingerprint, roll, ledger)
        if found is None:
            return False
        rows, whose = found
        told = (
            f"{rows:,} of the {len(self.roll):,} rows of --basis-from are rows of {whose}, more than chance explains. "
            "Those are private, and a basis made from them reveals something about the people in them."
        )
        if not self.conditional:
            raise UsageError(f"{told} Give rows that anybody may have, or go on without a proof (--conditional).")
        warnings.warn(f"{told} Nothing is proved, and the card does not tell why.", PrivacyLeakWarning, stacklevel=2)
        return True

    def _private(self, fingerprint: Fingerprint, roll: Roll | None, ledger: Ledger) -> tuple[int, str] | None:
        """How many of the rows are private ones, and whose; None where chance explains what there is."""
        if self.fingerprint == fingerprint.hexdigest():
            return len(self.roll), THE_TABLE
        if roll is not None and (rows := shared_beyond_chance(self._over(self.roll.tags), _over(roll, self.roll.tags))):
            return rows, THE_TABLE
        for known, entry in ledger.entries():
            if known == self.fingerprint:
                return len(self.roll), RELEASED
            kept = ledger.roll_of(entry)
            tags = () if kept is None else tuple(tag for tag in self.roll.tags if tag in kept.tags)
            if kept is None or not tags:
                continue
            theirs = kept.rows() if tags == kept.tags else kept.over(tags)
            if rows := shared_beyond_chance(self._over(tags), theirs):
                return rows, RELEASED
        return None

    def _over(self, tags: tuple[str, ...]) -> Prints:
        return _over(self.roll, tags)


def _over(roll: Roll, tags: tuple[str, ...]) -> Prints:
    return np.concatenate([np.empty(0, dtype=np.uint64), *roll.over(tags)])


def shared_beyond_chance(public: Prints, private: Prints) -> int:
    """How many public rows are among the private ones; 0 where two tables of different people may share as many.

    Let a row occur Poisson(a) times in one table and Poisson(b) times in the other. Given that it occurs an even number
    of times in both together, it occurs equally often in each with probability at most 1/2, whatever a and b are: given
    the sum t, one count is binomial, and C(t, t/2) / 2^t <= 1/2. A copied row does so always. And whichever rows are
    public, each of them occurs exactly once among the private ones with probability a exp(-a) <= 1/e: that also finds
    rows that were copied several times.
    """
    from scipy.special import bdtrc  # slow to load

    theirs, their_counts = np.unique(public, return_counts=True)
    ours, our_counts = np.unique(private, return_counts=True)
    _, left, right = np.intersect1d(theirs, ours, assume_unique=True, return_indices=True)
    in_public, in_private = their_counts[left], our_counts[right]
    only_in_one = sum(
        int((counts % 2 == 0).sum() - (shared % 2 == 0).sum())
        for counts, shared in ((their_counts, in_public), (our_counts, in_private))
    )
    even = only_in_one + int(((in_public + in_private) % 2 == 0).sum())
    equal, once = int((in_public == in_private).sum()), int((in_private == 1).sum())
    chances = [bdtrc(equal - 1, even, 0.5) if equal else 1.0, bdtrc(once - 1, len(theirs), np.exp(-1)) if once else 1.0]
    return int(in_public.sum()) if min(chances) < HARDLY_EVER else 0
