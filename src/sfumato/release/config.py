"""A config file: a mechanism with its parameters, and how they were chosen. `sfumato recommend` writes one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sfumato.core.errors import SchemaError, UsageError
from sfumato.core.files import other_version, write_whole
from sfumato.core.wording import to_type
from sfumato.release.asked import Terms
from sfumato.release.strength import STRENGTHS, Strength, Wanted
from sfumato.table.schema import read_yaml

FORMAT, VERSION = "sfumato-config", 1
TABLE = "table"
"""What a choice rests on that somebody made by looking at the private rows."""
SIMULATED, RELEASED = "simulated", "released"
"""Tables of the same shape; rows that were released before: whoever chooses by them tells nothing new."""
LOOKED_AT = ("nothing", SIMULATED, RELEASED, TABLE)
CHOSEN_ON_ROWS = "the mechanism and its strength, which were chosen by looking at these private rows"
CHOSEN_ON_UNCHARGED = (
    "the mechanism and its strength, which were chosen on released rows that this ledger did not charge with a proof"
)
LONGEST = 150
"""Characters of `chosen_by`; the card has room for 200."""
KEYS = ("format", "version", "mechanism", "parameters", "chosen_by", "looked_at", "model", "max_extra")


@dataclass(frozen=True)
class Config:
    """What to do, and what the choice rests on: `looked_at` the private table, rows that were released before,
    simulated ones, or nothing. `model` is the digest of the model that released rows were drawn from. `max_extra`:
    the owner's limit, which an audit of the release is held against."""

    mechanism: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    chosen_by: str = "a config file"
    looked_at: str = "nothing"
    model: str | None = None
    max_extra: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain values for YAML."""
        told = {name: value for name, value in vars(self).items() if value is not None}
        return {"format": FORMAT, "version": VERSION, **told, "parameters": dict(self.parameters)}

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
    def from_dict(cls, data: Any) -> Config:
        """The inverse of `to_dict`."""
        if not isinstance(data, Mapping) or data.get("format") != FORMAT:
            raise UsageError(f"it is no config of Sfumato, which begins with `format: {FORMAT}`.")
        if why := other_version(data.get("version"), VERSION, older="Write it again with `sfumato recommend`."):
            raise UsageError(str(why))
        if unknown := [str(key) for key in data if key not in KEYS]:
            raise UsageError(f"there is no key {unknown[0][:60]!r}. It may have: {', '.join(KEYS)}.")
        mechanism, parameters = data.get("mechanism"), data.get("parameters") or {}
        if not isinstance(mechanism, str):
            raise UsageError("it needs the name of a `mechanism`.")
        if not isinstance(parameters, Mapping) or not all(isinstance(name, str) for name in parameters):
            raise UsageError("`parameters` must be names with values.")
        said, looked = data.get("chosen_by", cls.chosen_by), data.get("looked_at", "nothing")
        if not isinstance(said, str) or not 0 < len(said) <= LONGEST or not said.isprintable():
            raise UsageError(f"`chosen_by` must be one line of at most {LONGEST} characters.")
        if looked not in LOOKED_AT:
            raise UsageError(f"`looked_at` must be one of: {', '.join(LOOKED_AT)}.")
        model = data.get("model")
        if not (model is None or isinstance(model, str)):
            raise UsageError("`model` must be the digest that stands on the card of the release that was looked at.")
        limit = data.get("max_extra")
        if limit is not None and (
            isinstance(limit, bool) or not isinstance(limit, int | float) or not 0 <= limit <= 100
        ):
            raise UsageError("`max_extra` must be a number of points from 0 to 100.")
        return cls(mechanism, dict(parameters), said, looked, model, limit)

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
