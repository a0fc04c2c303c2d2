"""What a table, its schema and the options must agree on before a row is read."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from sfumato.channels import RandomizedResponse
from sfumato.core.array_types import Floats
from sfumato.core.errors import SchemaError, TableError, UsageError
from sfumato.core.wording import counted, first_names
from sfumato.guarantee import Guarantee
from sfumato.guarantee.rounding import rounded_up
from sfumato.mechanisms import Mechanism
from sfumato.release.sanitize_options import Options, Plan
from sfumato.release.write_release import Laid
from sfumato.table import Column, Encoding, Schema, Table
from sfumato.table.arrays import checked, numbers
from sfumato.table.column import nearest

# A number to predict that is released as it is: it follows its row through noise, draws and shuffling.


def with_target(laid: Iterator[Laid], table: Table, target: Column | None) -> Iterator[Laid]:
    """Released rows with their number beside them, last. One column of the table is held in memory for it."""
    if target is None:
        yield from laid
        return
    found, empty, first, name = list[Floats](), list[int](), 0, target.name
    for batch in table.blocks():
        cells, missing = checked(numbers(batch.column(name), name, first), name, first)
        empty += [] if missing is None else (first + 1 + np.flatnonzero(missing)).tolist()
        found.append(cells)
        first += batch.num_rows
    if empty:
        raise TableError(
            f"The target {name!r} is missing in {counted(len(empty), 'row')}, first in row {empty[0]}. Remove rows "
            "without it first."
        )
    values = np.concatenate(found)
    for rows, source in laid:
        assert source is not None  # rows that belong to nobody were refused
        here = values[source]
        whole = pa.array(np.rint(here).astype(np.int64) if target.kind == "integer" else here)
        yield rows.append_column(name, whole), source


def alone(values: Floats) -> int:
    """Rows whose value no other row has: whoever knows it has found the row."""
    return int((np.unique(values, return_counts=True)[1] == 1).sum())


def check_table(plan: Plan, encoding: Encoding, names: Sequence[str]) -> None:
    """What the table's columns and schema must agree on with all that was asked for."""
    options, schema, mechanism = plan.options, encoding.schema, plan.mechanism
    if absent := next((one.name for one in schema.private if one.name not in names), None):
        raise SchemaError(f"The table has no column {absent!r}, which the schema names.{nearest(absent, list(names))}")
    if options.max_rows_per_person is not None and schema.person is None:
        raise UsageError(
            "--max-rows-per-person needs a column that says whose row each one is. Give one the role person."
        )
    check_label(schema, names, options)
    check_target(schema, names, mechanism, options)
    if options.engine_can.spread and schema.person is not None:
        raise UsageError("--engine spark cannot count the rows of one person yet. Use --engine stream.")
    if plan.strength.ruled:
        check_provable(encoding, options)
    elif options.measured_only:
        raise UsageError(
            "--measured-only goes with --epsilon or --max-posterior without a method: both must be proved otherwise."
        )
    mechanism.check_schema(encoding)
    if mechanism.made_up:
        check_nobodys(mechanism, encoding, options)


def check_nobodys(mechanism: Mechanism, encoding: Encoding, options: Options) -> None:
    """What a claim about presence does not allow, before a row is read."""
    refuses = ["--out-of-bounds refuse"] if options.out_of_bounds == "refuse" else []
    for option in [*options.asked("private_label", "only_new", "like_original"), *refuses]:
        raise UsageError(f"{option} makes no sense with {mechanism.name}: its rows are made up. Leave it out.")
    check_rows_per_person(encoding.schema, options.max_rows_per_person)


def check_rows_per_person(schema: Schema, most: int | None) -> None:
    """A column that says whose rows they are needs a cap on them, for nothing is proved of a person otherwise."""
    if schema.person is not None and most is None:
        raise UsageError(
            "A bound for a person needs to know, without looking, how many rows one person has at most. Give "
            "--max-rows-per-person: further rows of a person are left out."
        )


def check_provable(encoding: Encoding, options: Options) -> None:
    """Whoever names a bound and nothing else wants it proved: what was read off the table stands in the way."""
    check_rows_per_person(encoding.schema, options.max_rows_per_person)
    read = read_off(encoding.schema)
    if options.measured_only and not read:
        raise UsageError(
            "Nothing stands in the way of a proof: every range and category is public. Leave --measured-only out. To "
            "blur each row by itself, with that proof: --trust nobody."
        )
    if options.measured_only or not read:
        return
    raise SchemaError(
        f"Nothing can be proved, and nothing was released: the ranges or categories of {counted(len(read), 'column')} "
        f"({first_names(read)}) were read off your table. Write a schema (`sfumato schema TABLE --out schema.yaml`), "
        "put in what you know of each column without looking (a form, a code book), and declare it (`sfumato schema "
        "declare schema.yaml --column NAME --reason ...`); or add --measured-only, which blurs each row by itself and "
        "proves nothing."
    )


def read_off(schema: Schema) -> list[str]:
    """Columns whose ranges or categories were read off the table: no proof can rest on them."""
    released = (*schema.private, *([schema.label] if schema.label else []))
    return [column.name for column in released if column.source == "learned"]


def check_label(schema: Schema, names: Sequence[str], options: Options) -> None:
    """Rows that are to be classified have no label, and are released into the space of rows that have one."""
    label = schema.label
    if options.unlabelled and options.private_label:
        raise UsageError(
            "--unlabelled leaves the column to predict out, so there is none to keep private. Leave out one of the two."
        )
    if label is not None and label.name not in names and not options.unlabelled:
        raise TableError(
            f"The table has no column {label.name!r}, which the schema names as the one to predict. "
            "If these are rows to be classified, add --unlabelled."
        )


def check_target(schema: Schema, names: Sequence[str], mechanism: Mechanism, options: Options) -> None:
    """A number to predict follows its row, so there must be a row that it can follow."""
    target = schema.target
    if target is None:
        return
    if target.name not in names:
        raise TableError(f"The table has no column {target.name!r}, which is to be the number to predict.")
    if mechanism.made_up:
        raise UsageError(f"Rows of {mechanism.name} are made up, so no number can stay with them as it is.")
    if options.engine_can.spread:
        raise UsageError("--engine spark cannot release a number to predict yet. Use --engine stream.")
    if options.terms is not None:
        raise UsageError("A study has no number that is released as it is. Leave --target out.")


def label_response(encoding: Encoding, plan: Plan) -> RandomizedResponse | None:
    """How a private label is randomized; None where it is not private."""
    strength = plan.strength
    if not plan.options.private_label:
        return None
    if encoding.schema.label is None:
        raise UsageError("--private-label needs a column to predict. Name it with --label.")
    if not strength.label_epsilon > 0:
        raise UsageError(f"--label-epsilon must be positive. Got {strength.label_epsilon} instead.")
    return RandomizedResponse.of_epsilon(strength.label_epsilon, len(encoding.classes))


HIGHEST_UNASKED = 30.0
"""Epsilon of a record that is refused unless it was asked for: at 30 nothing is left to protect."""


def check_asked_for(guarantee: Guarantee, schema: Schema, options: Options) -> None:
    """Refuse a release whose strength was not named and which protects no person, by its proved or conditional
    figure."""
    epsilon = guarantee.record
    meant = options.unprotected or not options.is_counted
    if HIGHEST_UNASKED < epsilon < math.inf and not meant and not options.names_strength(schema):
        raise UsageError(
            f"Practically unprotected: the usual strength comes to epsilon {rounded_up(epsilon)} for a record of this "
            "table. Nothing was released. Say how strong it is to be (--epsilon-record 4), or let `sfumato recommend` "
            "choose; if this is what you want, add --unprotected (in Python unprotected=True)."
        )


def with_person(schema: Schema, name: str, *, agreed: bool) -> Schema:
    """The schema with the column that says whose rows they are, which is not released then. A schema that was `agreed`
    on with others releases what it says."""
    known = schema.person
    if known is not None and known.name != name:
        raise SchemaError(f"In the schema the person is {known.name!r}, not {name!r}. Leave --person out.")
    role = schema[name].role if name in schema else "identifier"
    if role in ("label", "target") or (agreed and role == "private"):
        whose = "study" if agreed else "schema"
        raise SchemaError(f"The {whose} releases the column {name!r} ({role}), so it cannot say whose rows they are.")
    others = tuple(column for column in schema.columns if column.name != name)
    return Schema((*others, Column(name, "categorical", role="person")))
