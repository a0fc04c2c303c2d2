"""The same as a command, and as Python: what the desk is about to do, spelled out from the same keywords."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from sfumato.core.asked import flag_of
from sfumato.release.asked import SanitizeAsked
from sfumato.table import Schema

MOST_COMMANDS = 12


def as_command(job: str, table: str, keywords: Mapping[str, Any]) -> str:
    """One line for a terminal."""
    said = {one.name: flag_of(one, one.metadata["asked"]) for one in fields(SanitizeAsked) if "asked" in one.metadata}
    parts = ["sfumato", job, table]
    for name, value in keywords.items():
        flag = said.get(name, f"--{name.replace('_', '-')}").partition("/")[0]
        parts += [flag] if value is True else [flag, str(value)]
    return shlex.join(parts)


def as_python(job: str, table: str, keywords: Mapping[str, Any]) -> str:
    """One call."""
    given = "".join(f", {name}={value!r}" for name, value in keywords.items())
    return f"import sfumato as sf\n\nsf.{job}({table!r}{given})"


def declared_as_commands(schema: Schema, table: str) -> str:
    """How the schema would be written without the desk."""
    file = "schema.yaml"
    label = [] if schema.label is None else ["--label", schema.label.name]
    lines = [shlex.join(["sfumato", "schema", table, *label, "--out", file])]
    for column in schema.columns:
        if column.source == "public" and column.reason and len(lines) < MOST_COMMANDS:
            ends = [] if column.categories is not None else ["--low", f"{column.low}", "--high", f"{column.high}"]
            words = ["--categories", ",".join(column.categories)] if column.categories is not None else []
            given = ["--column", column.name, *ends, *words, "--reason", column.reason]
            lines.append(shlex.join(["sfumato", "schema", "declare", file, *given]))
    return "\n".join(lines)


def declared_in_python(schema: Schema, table: str) -> str:
    """The same as calls."""
    label = "" if schema.label is None else f", label={schema.label.name!r}"
    lines = ["import sfumato as sf", "", f"schema = sf.Schema.infer({table!r}{label})"]
    for column in [one for one in schema.columns if one.source == "public"][:MOST_COMMANDS]:
        known = {"low": column.low, "high": column.high, "categories": column.categories, "reason": column.reason}
        given = "".join(f", {name}={value!r}" for name, value in known.items() if value is not None)
        lines.append(f'schema = schema.with_column({column.name!r}, source="public"{given})')
    return "\n".join(lines)
