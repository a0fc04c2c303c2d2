"""What the owner's ledger is told of a release, and when; a trial that never leaves the program tells it nothing."""

from __future__ import annotations

import math
from contextlib import ExitStack
from typing import Any

from sfumato.guarantee import Guarantee, Ledger
from sfumato.guarantee.concentrated import NOTHING_PROVED
from sfumato.guarantee.earlier import is_drawn
from sfumato.guarantee.entry import make_entry, new_roll_name
from sfumato.guarantee.fingerprint import Fingerprint
from sfumato.guarantee.roll import Roll
from sfumato.jobs.make_card import today
from sfumato.jobs.sanitize_options import Options
from sfumato.mechanisms import Mechanism, ModelDrawing


def recognise(mechanism: Mechanism, ledger: Ledger, rows: int, options: Options) -> None:
    """Remember what was learned, also with a seed: it stands on a card. What was remembered is not public, whatever
    reason is given with it. What a run with a seed estimated counts as learned: anybody can take its noise away."""
    directions = mechanism.directions()
    if directions is None:
        return
    if mechanism.learns_directions or (options.seed is not None and mechanism.estimates):
        if not options.leaves_no_mark:
            ledger.remember_learned(directions, rows, mechanism.variances_, secret=mechanism.needs_key)
    elif ledger.has_learned(directions):
        mechanism.borrow()


def release_note(
    mechanism: Mechanism,
    fingerprint: Fingerprint,
    guarantee: Guarantee,
    options: Options,
    roll: Roll | None = None,
    run: str | None = None,
    memory: str | None = None,
) -> dict[str, Any]:
    """What the ledger keeps of a release of perturbed records. `run` names a run that can go on after it was killed, so
    that it is counted once; `memory` names what `--only-new` remembers of it."""
    return {
        "fingerprint": fingerprint.hexdigest(),
        "mechanism": mechanism.name,
        "epsilon": guarantee.proved if math.isfinite(guarantee.proved) else None,
        "when": today(),
        "exact_label": guarantee.exact_label,
        "cohort": options.cohort,
        "rows_per_person": guarantee.rows_per_person,
        "roll": None if roll is None else new_roll_name(roll),
        "run": run,
        "memory": memory,
    }


def fit_note(
    mechanism: ModelDrawing, fingerprint: Fingerprint, options: Options, *, proves: bool, run: str | None = None
) -> dict[str, Any]:
    """The same of rows that belong to nobody, before the noise of their fit is drawn; where something stands in the
    way of the claim, it costs more than any budget."""
    return {
        "fingerprint": fingerprint.hexdigest(),
        "mechanism": mechanism.name,
        "epsilon": None,
        "when": today(),
        "exact_label": False,
        "central": mechanism.planned if proves else NOTHING_PROVED,
        "cohort": options.cohort,
        "rows_per_person": options.max_rows_per_person or 1,
        "named": options.max_rows_per_person is not None,  # refused without a column that names people
        "run": run,
    }


def count_release(
    ledger: Ledger,
    note: dict[str, Any],
    options: Options,
    if_it_fails: ExitStack | None = None,
    roll: Roll | None = None,
) -> dict[str, Any]:
    """What the card says of earlier releases; this one is noted in the same moment, before it becomes visible.

    A dry run notes nothing, and is refused as the release would be. A trial is neither.
    """
    entry = make_entry(**{name: value for name, value in note.items() if name != "fingerprint"})
    if options.leaves_no_mark:
        nobodys = is_drawn(entry)
        earlier = ledger.earlier(note["fingerprint"], nobodys=nobodys, cohort=options.cohort, roll=roll)
        if options.trial is None:
            ledger.check_budget(earlier, entry)
        return earlier.to_dict(entry)
    earlier = ledger.record(**note, people=roll)
    if if_it_fails is not None:
        if_it_fails.callback(ledger.strike, **note)
    return earlier.to_dict(entry)
