"""What the owner's ledger is told of a release, and when; a trial that never leaves the program tells it nothing."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from sfumato.guarantee import Guarantee, Ledger
from sfumato.guarantee.earlier import Earlier
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
    columns: Mapping[str, Any],
    guarantee: Guarantee | None,
    rows_per_person: int | None,
    roll: Roll | None = None,
    run: str | None = None,
    memory: str | None = None,
) -> dict[str, Any]:
    """What the ledger keeps of a release; without a guarantee, of one that is about to be fitted.

    `columns` says, under the ledger's key, what the table's columns are called. `run` names a run that can go on after
    it was killed, so that it is counted once; `memory` names what `--only-new` remembers of it.
    """
    central = mechanism.planned if isinstance(mechanism, ModelDrawing) else None
    finite = guarantee is not None and central is None and math.isfinite(guarantee.proved)
    return {
        "fingerprint": fingerprint.hexdigest(),
        "mechanism": mechanism.name,
        "epsilon": guarantee.proved if guarantee is not None and finite else None,
        "when": today(),
        "exact_label": guarantee is not None and guarantee.exact_label,
        "central": central,
        **columns,
        "rows_per_person": rows_per_person,
        "roll": None if roll is None else new_roll_name(roll),
        "run": run,
        "memory": memory,
    }


def columns_note(ledger: Ledger, names: Sequence[str], private: Sequence[str]) -> dict[str, Any]:
    """What the ledger keeps of the names of a table's columns."""
    return {"columns": ledger.columns(names), "tags": [ledger.people_hash.tag(name) for name in private]}


def count_release(
    ledger: Ledger,
    note: dict[str, Any],
    options: Options,
    if_it_fails: ExitStack | None = None,
    roll: Roll | None = None,
) -> Earlier:
    """Earlier releases of the same people; this one is noted in the same moment, before it becomes visible.

    A dry run notes nothing, and is refused as the release would be. A trial is neither.
    """
    if options.leaves_no_mark:
        about = dict(note)
        fingerprint, nobodys = about.pop("fingerprint"), about["central"] is not None
        earlier = ledger.earlier(fingerprint, about["columns"], nobodys=nobodys, tags=about["tags"], roll=roll)
        if options.trial is None:
            ledger.check_budget(earlier, make_entry(**about))
        return earlier
    earlier = ledger.record(**note, people=roll)
    if if_it_fails is not None:
        if_it_fails.callback(ledger.strike, **note)
    return earlier
