"""A config file: a mechanism with its parameters, and how they were chosen. `sfumato recommend` writes one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Self

from sfumato.core.accepted import Between, Either, Nothing, Text, Word
from sfumato.core.errors import SchemaError, UsageError
from sfumato.core.files import other_version, write_whole
from sfumato.core.records import BRIEF, FieldError, Record
from sfumato.core.wording import to_type
from sfumato.release.asked import Terms
from sfumato.release.strength import STRENGTHS, Strength, Wanted
from sfumato.table.schema import read_yaml

FORMAT, VERSION = "sfumato-config", 1
TABLE = "table"
"""What a choice rests on that was made by looking at the private rows."""
SIMULATED, RELEASED = "simulated", "released"
"""Tables of the same shape; rows that were released before: whoever chooses by them tells nothing new."""
LOOKED_AT = ("nothing", SIMULATED, RELEASED, TABLE)
CHOSEN_ON_ROWS = "the mechanism and its strength, which were chosen by looking at these private rows"
CHOSEN_ON_UNCHARGED = (
    "the mechanism and its strength, which were chosen on released rows that this ledger did not charge with a proof"
)
LONGEST = 150
"""Characters of `chosen_by`; the card has room for 200."""


@dataclass(frozen=True)
class Line(Text):
    """A line of text, not empty and at most so long."""

    def allows(self, value: Any) -> bool:
        return super().allows(value) and value != "" and value.isprintable()

    @property
    def words(self) -> str:
        return f"one line of at most {self.most} characters"


@dataclass(frozen=True)
class Config(Record):
    """What to do, and what the choice rests on: `looked_at` the private table, rows that were released before,
    simulated ones, or nothing. `model` is the digest of the model that released rows were drawn from. `max_extra`:
    the owner's limit, which an audit of the release is held against."""

    takes_more = False
    beside = ("format", "version")

    mechanism: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    chosen_by: Annotated[str, Line(LONGEST)] = "a config file"
    looked_at: Annotated[str, Word(LOOKED_AT)] = "nothing"
    model: Annotated[str | None, BRIEF] = None
    max_extra: Annotated[float | None, Either((Between(0.0, 100.0), Nothing())), BRIEF] = None

    @classmethod
    def refusal(cls, problem: FieldError) -> UsageError:
        return UsageError(f"{problem}.")

    def to_dict(self) -> dict[str, Any]:
        """Plain values for YAML."""
        return {"format": FORMAT, "version": VERSION, **super().to_dict()}

    def save(self, path: Path | str) -> None:
        """Write it as YAML."""
        import yaml

        head = "# sfumato sanitize TABLE --config THIS --out DIR. A study outranks it, and flags outrank both.\n"
        write_whole(path, head + yaml.safe_dump(self.to_dict(), sort_keys=False, allow_unicode=True))

    @classmethod
    def load(cls, path: Path | str) -> Config:
        """Read a config file; what cannot be meant is refused with a sentence."""
        if not Path(path).is_file():
            raise UsageError(f"There is no config {path}. To write one: {to_type('recommend', 'TABLE', out=path)}")
        try:
            return cls.from_dict(read_yaml(Path(path), yes_is_true=True))
        except (UsageError, SchemaError) as error:
            raise UsageError(f"The config {path}: {error}") from None

    @classmethod
    def from_dict(cls, data: Any) -> Self:
        """The inverse of `to_dict`."""
        if not isinstance(data, Mapping) or data.get("format") != FORMAT:
            raise UsageError(f"it is no config of Sfumato, which begins with `format: {FORMAT}`.")
        if why := other_version(data.get("version"), VERSION, older="Write it again with `sfumato recommend`."):
            raise UsageError(str(why))
        return super().from_dict({**data, "parameters": data.get("parameters") or {}})

    def settle(self, wanted: Wanted, terms: Terms | None, schema: object) -> Strength:
        """The strength where this config, an owner's flags and perhaps a study all have a say.

        The study outranks the config, and flags outrank both where the study leaves something open. Two different
        mechanisms are a contradiction, since parameters of one mean nothing to the other.
        """
        if terms is not None and terms.mechanism != self.mechanism:
            raise UsageError(
                f"The study asks for {terms.mechanism} and the config for {self.mechanism}. Leave one out."
            )
        if wanted.mechanism not in (None, self.mechanism):
            raise UsageError(f"The config asks for {self.mechanism}. Leave out --mechanism or --config.")
        outranked = set(wanted.parameters) | (set() if terms is None else set(terms.parameters))
        given = {"epsilon": wanted.epsilon_presence, "delta": wanted.delta}
        outranked |= {name for name, value in given.items() if value is not None}
        if not (wanted.epsilon is wanted.epsilon_record is wanted.max_posterior is None):
            outranked |= STRENGTHS
        own = {name: value for name, value in self.parameters.items() if name not in outranked}
        merged = replace(wanted, mechanism=self.mechanism, parameters={**own, **wanted.parameters})
        found = merged.under(terms, schema)
        said = self.chosen_by if own == dict(self.parameters) else f"{self.chosen_by}; then changed by hand"
        looked = (CHOSEN_ON_ROWS,) if self.looked_at == TABLE else ()
        released = self.looked_at == RELEASED
        return replace(found, chosen_by=said, in_the_way=looked, on_release=released, model=self.model)
