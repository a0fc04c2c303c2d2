"""What a release will come to with those that the ledger holds, before it is made: no row is read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sfumato.core.errors import UsageError
from sfumato.guarantee.all_releases import Earlier, is_drawn
from sfumato.guarantee.cost import Values
from sfumato.ledger import Ledger
from sfumato.ledger.ledger import Note
from sfumato.mechanisms import make_mechanism
from sfumato.release.asked import OWNER
from sfumato.release.noted import fit_noted
from sfumato.release.strength import Wanted
from sfumato.release.write_release import today


@dataclass(frozen=True)
class Ahead:
    """A release that is wished for: what it comes to for a person with all of their rows, if all ranges are public.

    alone: by itself. together: with every earlier release that counts; None where only its rows can tell which do.
    earlier: how many count, or may count. apart: how many are of other people by the owner's word.
    """

    alone: Values
    together: Values | None
    earlier: int
    apart: int


def bound_ahead(
    max_posterior: float,
    *,
    trust: str = OWNER,
    max_rows_per_person: int | None = None,
    cohort: str | None = None,
    ledger: Path | str | None = None,
) -> Ahead:
    """Say what a release will come to with the earlier ones of this ledger, before it is made.

    It is the sum that the card of the release will state. Rows that are blurred one by one add up with earlier releases
    of the same people only, which their rows tell: where the ledger holds such releases, `together` is None.

    Parameters
    ----------
    max_posterior : float
        What a fact with 1 chance in 10 may be lifted to by this release, in (0.1, 1).
    trust : {"owner", "nobody"}, default "owner"
        Who may hold the rows.
    max_rows_per_person : int, optional
        The most rows that one person has.
    cohort : str, optional
        Your name for these people.
    ledger : path, optional
        The owner's ledger, if not the usual one.

    Returns
    -------
    Ahead
        `alone`, `together`, `earlier`, `apart`. Nothing is noted.

    Raises
    ------
    UsageError, CardError
        Where the wish is none, or the ledger is damaged.

    Examples
    --------
    >>> import sfumato as sf
    >>> round(sf.bound_ahead(0.2, cohort="ward 4").alone.loss, 3)
    0.811
    """
    if cohort is not None and not cohort.strip():
        raise UsageError("--cohort must be a name of at most 100 characters, on one line.")
    wanted = Wanted(max_posterior=max_posterior, trust=trust, max_rows_per_person=max_rows_per_person)
    strength, book, rows = wanted.under(None, None), Ledger(ledger), max_rows_per_person or 1
    mechanism = make_mechanism(strength.mechanism, dict(strength.parameters))
    note: dict[str, Any] = {"mechanism": mechanism.name, "when": today(), "cohort": cohort}
    if mechanism.planned is not None:
        note |= fit_noted(mechanism.planned, max_rows_per_person)
    else:
        record = strength.parameters["epsilon_record"]
        note |= {"epsilon": record, "rows_per_person": rows, "named": max_rows_per_person is not None}
    entry = Note(**note).to_dict()
    made_up, alone = is_drawn(entry), Earlier().person(entry)
    earlier = book.earlier("", made_up=made_up, cohort=cohort)
    compared = [] if made_up else [one for _, one in book.entries() if not is_drawn(one)]
    together = None if compared else earlier.person(entry)
    return Ahead(alone, together, earlier.count + len(compared), earlier.apart)
