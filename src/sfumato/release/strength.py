"""How strong the noise is: the one place that weighs what an owner asks for against what a study has settled."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Self

from sfumato.core.accepted import Between, Either, Nothing, Text, Word
from sfumato.core.asked import check_asked
from sfumato.core.errors import SchemaError, UsageError
from sfumato.core.files import other_version, write_whole
from sfumato.core.records import BRIEF, FieldError, Record
from sfumato.core.wording import to_type
from sfumato.guarantee import epsilon_for_posterior
from sfumato.guarantee.cost import PRIOR, Central, rho_for
from sfumato.mechanisms import make_mechanism
from sfumato.release.asked import OWNER, Presence, SanitizeAsked, Terms
from sfumato.table.schema import read_yaml

MECHANISM = "principal-laplace"
"""What is used where no method is chosen and no epsilon is named."""
MADE_UP, SMALL, LARGE, LARGE_FROM = "tree-resampling", "square-wave", "piecewise-noise", 3.0
"""What a bound alone gets: made-up rows where the owner holds the table; else each row is blurred by itself, by one
method below this epsilon and by another from it on (docs/decisions/0106-one-epsilon.md)."""
STRENGTHS = frozenset({"b", "scale", "epsilon", "epsilon_record"})
"""Parameters that settle how strong the noise is; a wanted epsilon replaces them."""
NAMES_STRENGTH = STRENGTHS | {"category_epsilon", "floor", "high", "k", "low"}
"""Parameters that say how strong the noise is, of any mechanism that can state an epsilon."""
LABEL_EPSILON = 1.0


def refuse(wrong: Iterator[str]) -> None:
    """The first thing that is wrong is told; what is right for others is not looked at any more."""
    if (told := next(wrong, None)) is not None:
        raise UsageError(told)


@dataclass(frozen=True)
class Strength:
    """What was chosen: a mechanism with its parameters, the label's share, and how it came about, for the card."""

    mechanism: str
    parameters: Mapping[str, Any]
    label_epsilon: float
    """Of one row, as `parameters` are: its share of a bound for several rows of a person is divided among them."""
    chosen_by: str
    note: str = ""
    """Why the rule chose another method than usual, for the owner's terminal."""
    ruled: bool = False
    """Whether nothing but a bound was asked for: it must be proved then, or nothing is released."""
    in_the_way: tuple[str, ...] = ()
    """Why figures hold only conditionally, where the choice itself tells something of private rows."""
    on_release: bool = False
    """Whether it was chosen on rows that were released before: their proof, and so this one's, is the ledger's word."""
    model: str | None = None
    """The model that those rows were drawn from, by its digest."""


@dataclass(frozen=True, kw_only=True)
class Wanted(SanitizeAsked):
    """What an owner asks for; a field that is None leaves the choice to the study, or to the defaults."""

    def asked(self, *names: str) -> list[str]:
        """Those of these options that were given, as they are typed. A switch is given where it is on: also 0 and
        NumPy's own False leave it off."""
        given = {name: getattr(self, name) for name in names}
        switches = {name for name in names if getattr(type(self), name) is False}
        there = [name for name, one in given.items() if (one if name in switches else one is not None)]
        return [f"--{name.replace('_', '-')}" for name in there]

    @property
    def needs_rows(self) -> str | None:
        """The first option that only rows of people can follow, where one was given."""
        refuses = ["--out-of-bounds refuse"] if self.out_of_bounds == "refuse" else []
        given = self.asked("private_label", "only_new", "like_original", "target")
        return next(iter([*given, *refuses, *self.asked("measured_only")]), None)

    @property
    def asks_for_a_bound_alone(self) -> bool:
        """Whether nothing but a bound was asked for (an epsilon, or how sure an attacker may become), so that the
        method is chosen by the rule."""
        wanted = not (self.epsilon is self.epsilon_presence is self.max_posterior is None)
        return self.mechanism is None and wanted and self.parameters.keys() <= {"rows"}

    def by_rule(self) -> tuple[str, str]:
        """Which method a bound alone gets, and why another than usual."""
        for_drawn = "--epsilon-presence" if self.epsilon_presence is not None else "--rows" if self.parameters else None
        if for_drawn is not None and (self.trust != OWNER or self.needs_rows):
            other = self.needs_rows or f"--trust {self.trust}"
            raise UsageError(f"{for_drawn} is for made-up rows, and {other} needs each row itself. Leave one out.")
        if self.trust == OWNER and self.needs_rows is None:
            return MADE_UP, ""
        epsilon, _ = self._epsilon(self.epsilon)
        assert epsilon is not None
        method = SMALL if epsilon < LARGE_FROM else LARGE
        return method, f"{method}, since {self.needs_rows} needs each row itself" if self.trust == OWNER else ""

    def under(self, terms: Terms | None, schema: object) -> Strength:
        """The strength under a study's terms: what they fix is fixed, what they leave open is the owner's choice.
        `schema` is the owner's own, which must be None where the study has one."""
        check_asked(self)
        refuse(self._wrong_bounds())
        label = (LABEL_EPSILON if self.label_epsilon is None else self.label_epsilon) / self._rows_bounded
        mechanism, parameters, note = self._chosen(terms, schema)
        epsilon = self._one_epsilon()
        if terms is not None and leaves_strength_open(parameters) and epsilon is None and self.max_posterior is None:
            epsilon = terms.epsilon_record
        given = {"epsilon-presence": ("epsilon", self.epsilon_presence), "delta": ("delta", self.delta)}
        for option, (name, value) in given.items():
            if value is not None:
                if name in parameters:
                    raise UsageError(f"--{option} is given twice, or fixed by the study. Leave one of them out.")
                parameters[name] = value
        wanted, chosen_by = self._epsilon(epsilon)
        if wanted is not None:
            left = _left_for_the_columns(wanted, parameters, label * self._rows_bounded * self.private_label)
            made = make_mechanism(mechanism, parameters)
            parameters |= made.strength_for_values(left, rows=self._rows_bounded, sure=self.max_posterior is not None)
        if terms is not None and terms.presence is not None:
            parameters = {**terms.presence._asdict(), **parameters}
            _check_presence(terms.presence, parameters)
        ruled = terms is None and self.asks_for_a_bound_alone
        return Strength(mechanism, parameters, label, chosen_by, note=note, ruled=ruled)

    def _wrong_bounds(self) -> Iterator[str]:
        """What bounds nothing, or two things at once."""
        if self.label_epsilon is not None and not self.private_label:
            yield "--label-epsilon says how the column to predict is blurred. Add --private-label."
        if self._one_epsilon() is not None and self.epsilon_presence is not None:
            yield "--epsilon bounds values and --epsilon-presence presence. Give one: the other follows."
        if self.max_posterior is not None and self.epsilon_presence is not None:
            yield "--max-posterior bounds values and --epsilon-presence presence. Give one of them."
        if self.trust != OWNER and self.epsilon is None and self.max_posterior is None:
            yield "--trust chooses the method for --epsilon or --max-posterior. Add one, or leave it out."

    def _chosen(self, terms: Terms | None, schema: object) -> tuple[str, dict[str, Any], str]:
        """The method, what is fixed of its parameters, and why the rule took another than usual."""
        if terms is not None:
            if schema is not None:
                raise UsageError("The study already has a schema. Leave out --study or --schema.")
            if self.mechanism not in (None, terms.mechanism):
                raise UsageError(f"The study asks for {terms.mechanism}. Leave --mechanism out.")
            if fixed := [name for name in self.parameters if name in terms.parameters]:
                raise UsageError(f"The study fixes the parameter {fixed[0]}. Leave --param {fixed[0]} out.")
            return terms.mechanism, {**terms.parameters, **self.parameters}, ""
        method, note = self.by_rule() if self.asks_for_a_bound_alone else (self.mechanism or MECHANISM, "")
        return method, dict(self.parameters), note

    @property
    def _rows_bounded(self) -> int:
        """How many rows one epsilon is for. A record's epsilon, as a study states it too, stays one; else all rows of a
        person are bounded together."""
        return 1 if self.max_posterior is self.epsilon is None else self.max_rows_per_person or 1

    def _one_epsilon(self) -> float | None:
        """`--epsilon` and `--epsilon-record` are the same number."""
        if self.epsilon is not None and self.epsilon_record not in (None, self.epsilon):
            raise UsageError("--epsilon and --epsilon-record are the same bound. Give one of them.")
        return self.epsilon_record if self.epsilon is None else self.epsilon

    def _epsilon(self, epsilon: float | None) -> tuple[float | None, str]:
        """The epsilon that is wanted for the record and the label together, and how it was said."""
        if epsilon is not None and self.max_posterior is not None:
            raise UsageError("Give --epsilon or --max-posterior, not both.")
        if self.max_posterior is None:
            if self.prior is not None:
                raise UsageError("--prior belongs to --max-posterior. Give both, or neither.")
            return epsilon, "parameters" if epsilon is None else f"epsilon {epsilon:.9g}"
        prior = PRIOR if self.prior is None else self.prior
        said = f"max-posterior {self.max_posterior:.9g} at prior {prior:g}"
        return epsilon_for_posterior(prior, self.max_posterior), said


def _check_presence(asked: Presence, parameters: Mapping[str, Any]) -> None:
    """Refuse what the study would not take, before a fit is charged for it; what is no number is refused elsewhere."""
    epsilon, delta = parameters["epsilon"], parameters["delta"]
    numbers = all(isinstance(one, int | float) and not isinstance(one, bool) for one in (epsilon, delta))
    if not (numbers and 0 < epsilon <= 100 and 0 <= delta < 1) or (epsilon <= asked.epsilon and delta <= asked.delta):
        return
    planned = Central(rho=rho_for(epsilon, delta), delta=asked.delta) if delta else Central(pure=epsilon)
    if planned.epsilon > asked.epsilon * (1 + 1e-9):
        raise UsageError(
            f"The study asks for an epsilon of at most {asked.epsilon:.9g} at delta {asked.delta:g} for a person's "
            "presence, and would not take a release with more. Leave --epsilon and --delta out, or give smaller ones."
        )


def leaves_strength_open(parameters: Mapping[str, Any]) -> bool:
    """Whether these parameters do not settle how strong the noise is."""
    return not STRENGTHS & parameters.keys()


def _left_for_the_columns(epsilon: float, parameters: Mapping[str, Any], label: float) -> float:
    if not leaves_strength_open(parameters):
        name = min(STRENGTHS & parameters.keys())
        raise UsageError(f"The strength is derived from the target epsilon: leave --param {name} out.")
    if not epsilon > 0:
        raise UsageError(f"--epsilon must be a positive number. Got {epsilon:g} instead.")
    if not epsilon > label:
        raise UsageError(
            f"The record's epsilon ({epsilon:g}) must exceed that of the private column to predict ({label:g}). "
            f"Give --label-epsilon below {epsilon:g}, or a larger --epsilon."
        )
    return epsilon - label


# A config file: a mechanism with its parameters, and how they were chosen. `sfumato recommend` writes one.

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


class Line(Text):
    """A line of text, not empty and at most so long."""

    def __init__(self, most: int) -> None:
        super().__init__(most)
        self.words = f"one line of at most {most} characters"

    def allows(self, value: Any) -> bool:
        return super().allows(value) and value != "" and value.isprintable()


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
        """The strength where this config, an owner's flags and perhaps a study all have a say. The study outranks the
        config, and flags outrank both where the study leaves something open. Two different mechanisms are a
        contradiction, since parameters of one mean nothing to the other."""
        if terms is not None and terms.mechanism != self.mechanism:
            raise UsageError(
                f"The study asks for {terms.mechanism} and the config for {self.mechanism}. Leave one out."
            )
        if wanted.mechanism not in (None, self.mechanism):
            raise UsageError(f"The config asks for {self.mechanism}. Leave out --mechanism or --config.")
        given = {"epsilon": wanted.epsilon_presence, "delta": wanted.delta}
        outranked = {*wanted.parameters, *(() if terms is None else terms.parameters)}
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
