"""An auditor's check: the release once more, from the table, the parameters and the seed, and bit for bit the same."""

from __future__ import annotations

import json
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyrage.x25519 import Identity

from sfumato.core.asked import check_asked
from sfumato.core.errors import CardError, SfumatoError, UsageError
from sfumato.core.progress import silent
from sfumato.core.wording import counted, first_names
from sfumato.guarantee import Card
from sfumato.guarantee.words import Finding, cannot_check, ok, wrong
from sfumato.ledger.public_log import LogCopy
from sfumato.mechanisms import make_mechanism
from sfumato.release import auditable
from sfumato.release.presented import Presented
from sfumato.release.release import release_file
from sfumato.release.sanitize import released
from sfumato.release.sanitize_options import Options, Plan
from sfumato.release.signature import COUNTS, content_digest, content_of
from sfumato.release.strength import Strength
from sfumato.release.write_release import InFolder, InMemory
from sfumato.table import Schema, Table, open_table

SAME = (
    "mechanism",
    "source_schema",
    "release_schema",
    "space",
    "rows",
    "label",
    "transform",
    "recipe",
    "post_processing",
)
"""Parts of a card that follow from table, parameters and seed; others are the ledger's, or say when."""


@dataclass(frozen=True, repr=False)
class Audited:
    """What an auditor holds beside a release."""

    auditor: Identity
    key_file: Path
    sealed: bytes
    table: Table

    @classmethod
    def read(cls, seed: Path | str | None, key: Path | str | None, table: Any) -> Audited | None:
        """From what was given: all three, or none of them."""
        given = {"--with-seed": seed, "--auditor-key": key, "--table": table}
        missing = [option for option, value in given.items() if value is None]
        if len(missing) == len(given):
            return None
        if seed is None or key is None or table is None:
            raise UsageError(f"An audit of the noise needs --with-seed, --auditor-key and --table. Add {missing[0]}.")
        try:
            sealed = Path(seed).read_bytes()
        except OSError:
            raise UsageError(f"{seed} cannot be read. Give the sealed seed that the owner sent you.") from None
        return cls(auditable.load_identity(key), Path(key), sealed, open_table(table))


def recomputed(what: Presented, audited: Audited, copy: LogCopy | None) -> Iterator[Finding]:
    """Whether the release is what its owner committed to, and whether the noise could have been chosen."""
    told = what.card.auditable
    if told is None:
        yield wrong("seed", "The card names no commitment, so that its noise cannot be recomputed.")
        return
    if told["auditor"] != str(audited.auditor.to_public()):
        yield wrong("seed", "The card names another auditor's key: its owner did not commit to you.")
        return
    try:
        seed = auditable.Seed.from_json(auditable.unsealed(audited.sealed, audited.auditor))
    except CardError as error:
        yield wrong("seed", str(error))
        return
    except ValueError:
        yield wrong("seed", "What was sealed to you is no seed.")
        return
    if seed.commitment != told["commitment"]:
        yield wrong("seed", "This is another seed than the one that the owner committed to.")
        return
    if content_digest(content_of(audited.table)) != seed.table:
        yield wrong("seed", "This is not the table that the owner committed to: a cell or the order of rows differs.")
        return
    yield ok("seed", "Seed, table and parameters are those that the owner committed to.")
    yield from _order(told, audited, copy)
    yield from _rows(what, seed, audited.table)
    yield cannot_check("seed", "That the table is true, and that the owner gave the seed to nobody else.")


def _order(told: Mapping[str, str], audited: Audited, copy: LogCopy | None) -> Iterator[Finding]:
    """Whether the answer was drawn after the commitment, and what else was committed to."""
    commitment, auditor = told["commitment"], told["auditor"]
    logged = [] if copy is None else copy.told(auditable.KIND)
    mine = [entry for _, entry in logged if entry.get("commitment") == commitment]
    if told["answer"] == auditable.answer_of(str(audited.auditor).encode(), commitment):
        notes = auditable.answered(audited.key_file)
        yield ok("answer", "The answer is this auditor's, so that the noise could not be known before the commitment.")
        if notes is None:
            yield cannot_check("answer", f"What else this key answered: {audited.key_file.name}.answered is not here.")
        elif others := len(notes - {commitment}):
            yield cannot_check(
                "answer",
                f"This key answered {counted(others, 'other commitment')}. Ask for the release of each: one that was "
                "made and thrown away looks like one that was never made.",
            )
    elif mine and mine[0].get("answer") == told["answer"]:
        assert copy is not None
        yield ok("answer", f"The answer is that of the log {copy.key.name}, where the commitment stands.")
    else:
        where = "" if copy is not None else ", and no log was given (--log)"
        yield wrong("answer", f"The answer is not this auditor's{where}: the owner may have tried out seeds.")
    every = {str(entry.get("commitment")) for _, entry in logged if entry.get("auditor") == auditor}
    if others := len(every - {commitment}):
        told_of = counted(others, "other commitment")
        yield cannot_check("answer", f"The log has {told_of} to this auditor. Ask for the release of each.")


def _rows(what: Presented, seed: auditable.Seed, table: Table) -> Iterator[Finding]:
    """Every cell of the release, and what its card says of how it came about."""
    made_with, now = seed.parameters.get("versions", {}), auditable.here()
    if made_with != now:
        other = [f"{name} {made_with.get(name)}" for name in now if made_with.get(name) != now[name]]
        raise UsageError(f"The release was made with {first_names(other)}. Install that, and verify again.")
    with tempfile.TemporaryDirectory(prefix="sfumato-") as place:
        try:
            plan, folder = _plan(seed, what.card), Path(place)
            landing = InFolder(folder, folder, plan.options.format, plan.options.engine_can.hold_table)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # what its owner was warned of
                card = released(table, plan, lambda _: nullcontext(landing), silent).card
        except (SfumatoError, LookupError, TypeError, ValueError, ArithmeticError) as error:
            why = f": {error}" if isinstance(error, SfumatoError) else "."
            yield wrong("seed", f"Nothing can be made from this table with these parameters{why}")
            return
        files = [(release_file(folder), what.rows)]
        if (folder / COUNTS).exists() or (what.folder / COUNTS).exists():
            files.append((folder / COUNTS, what.folder / COUNTS))
        differ = [name for ours, theirs in files for name in _differing(ours, theirs)]
    if differ:
        yield wrong("seed", f"The rows are not those that this seed leads to: {first_names(differ)} differ.")
    elif parts := [name for name in SAME if _stated(card)[name] != _stated(what.card)[name]]:
        yield wrong("seed", f"The card is not the one that this seed leads to: {first_names(parts)} differ.")
    else:
        rows = counted(what.card.rows, "row")
        yield ok("seed", f"Recomputed bit for bit: table, parameters and seed lead to {rows}, and to these alone.")


def _stated(card: Card) -> dict[str, Any]:
    """What a card says, as plain JSON; whether a basis counts as public is for the owner's ledger to say."""
    found: dict[str, Any] = json.loads(card.to_json())
    found["transform"].pop("reason", None)
    return found


def _plan(seed: auditable.Seed, card: Card) -> Plan:
    """What was released, as it was committed to; nothing else is asked for."""
    told = seed.parameters
    assert card.auditable is not None
    key = auditable.run_key(seed.s, seed.commitment, card.auditable["answer"])
    if told["options"].keys() != set(auditable.REPEATED):  # an owner could name files of the auditor's
        raise ValueError("other options than those that are committed to")
    options = Options(**told["options"], schema=Schema.from_dict(told["schema"]), experiment=True, run_key=key)
    check_asked(options)
    strength = Strength(**{**told["strength"], "in_the_way": tuple(told["strength"]["in_the_way"])})
    mechanism = make_mechanism(strength.mechanism, dict(strength.parameters))
    if options.engine_can.spread or mechanism.needs_key:
        raise ValueError("not all of it follows from the seed")
    return Plan(options, strength, mechanism)


def check_exact(plan: Plan, schema: Schema, table: Table) -> None:
    """Release the first block in a trial, before anybody is asked for an answer: not every noise can be recomputed."""
    block = next(iter(table.blocks()), None)
    if block is None:
        return
    # the schema has settled who predicts what, whose rows these are, and the noise of single columns
    options = replace(plan.options, label=None, person=None, columns={}, study=None, config=None, schema=schema)
    options = replace(options, auditable=None, trial=0, engine="memory")
    mechanism = make_mechanism(plan.strength.mechanism, dict(plan.strength.parameters))
    first = open_table(pa.Table.from_batches([block]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the release warns again
        released(first, Plan(options, plan.strength, mechanism), lambda _: nullcontext(InMemory()), silent)
    auditable.check_path(mechanism)


def _differing(ours: Path, theirs: Path) -> list[str]:
    """Names of the columns that are not the same in two files."""
    if not (ours.exists() and theirs.exists()):
        return [ours.name]
    left, right = content_of(open_table(ours)), content_of(open_table(theirs))
    found = [name for name in {**left, **right} if left.get(name) != right.get(name)]
    return found or ([] if list(left) == list(right) else ["the order of columns"])
