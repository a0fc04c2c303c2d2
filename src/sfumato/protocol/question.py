"""One question of a survey: its kind, its choices and its words in every language."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sfumato.errors import SchemaError
from sfumato.table.intervals import checked_edges, interval_names
from sfumato.wording import counted

KINDS = ("choice", "number", "yesno")
MOST_CHOICES = 500
_KEYS = frozenset({"name", "kind", "text", "choices", "classes", "edges", "low", "high"})

Text = tuple[tuple[str, str], ...]
"""The same words in every language: (code, text) pairs in the survey's order of languages."""


@dataclass(frozen=True)
class Choice:
    """One possible answer."""

    value: str
    text: Text


@dataclass(frozen=True)
class Question:
    """What is asked; a number is cut at public `edges` (the same for everybody) into ``len(edges) + 1`` choices."""

    name: str
    kind: str
    text: Text
    choices: tuple[Choice, ...]
    edges: tuple[float, ...] = ()

    def choice_of(self, answer: Any) -> int:
        """Number of the choice that a plain answer falls into; an edge belongs to the upper interval."""
        if self.kind == "number":
            try:
                value = float(answer)
            except (TypeError, ValueError, OverflowError):
                raise SchemaError(f"The answer to {self.name!r} must be a number.") from None
            if not math.isfinite(value):
                raise SchemaError(f"The answer to {self.name!r} must be a number.")
            return sum(value >= edge for edge in self.edges)
        for number, choice in enumerate(self.choices):
            if str(answer) == choice.value:
                return number
        values = ", ".join(choice.value for choice in self.choices[:8])
        raise SchemaError(f"The answer to {self.name!r} is not one of its choices ({values}).")

    def to_dict(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "name": self.name,
            "kind": self.kind,
            "text": text_dict(self.text),
            "choices": [{"value": choice.value, "text": text_dict(choice.text)} for choice in self.choices],
        }
        if self.edges:
            found["edges"] = list(self.edges)
        return found

    @classmethod
    def from_dict(cls, found: Any, languages: tuple[str, ...], where: str) -> Question:
        if not isinstance(found, Mapping):
            raise SchemaError(f"The {where} must have a name, a kind and a text.")
        for key in found:
            if key not in _KEYS:
                raise SchemaError(f"The {where} has an unknown key {key!r}.")
        name = found.get("name")
        if not isinstance(name, str) or not name.strip() or len(name) > 100:
            raise SchemaError(f"The {where} needs a short `name`.")
        kind = found.get("kind", "choice")
        if kind not in KINDS:
            raise SchemaError(f"The kind of {name!r} must be {', '.join(KINDS)}. Got {kind!r} instead.")
        text = read_text(found.get("text", name), languages, f"text of {name!r}")
        edges = _edges(found.get("edges"), name) if kind == "number" else ()
        choices = _choices(found.get("choices", found.get("classes")), kind, edges, name, languages)
        if not 2 <= len(choices) <= MOST_CHOICES:
            raise SchemaError(
                f"The question {name!r} has {counted(len(choices), 'choice')}; a question needs 2 to {MOST_CHOICES}. "
                "With one choice there is nothing to ask."
            )
        values = [choice.value for choice in choices]
        if len(set(values)) < len(values):
            raise SchemaError(f"Two choices of {name!r} have the same value.")
        return cls(name.strip(), kind, text, choices, edges)


def read_text(found: Any, languages: tuple[str, ...], where: str) -> Text:
    """One text for all languages, or one for each."""
    if isinstance(found, int | float) and not isinstance(found, bool):
        found = f"{found:g}" if isinstance(found, float) else str(found)
    if isinstance(found, str):
        return tuple((code, found.strip()) for code in languages)
    if not isinstance(found, Mapping):
        raise SchemaError(f"The {where} must be text, or one text for each language.")
    for code in languages:
        if not isinstance(found.get(code), str):
            raise SchemaError(f"The {where} has no text in the language {code!r}.")
    return tuple((code, found[code].strip()) for code in languages)


def text_dict(text: Text) -> dict[str, str]:
    return dict(text)


def _edges(found: Any, name: str) -> tuple[float, ...]:
    if not isinstance(found, Sequence) or isinstance(found, str) or not found:
        raise SchemaError(
            f"The number {name!r} needs `edges`: where it is cut into intervals. Declare them from what is publicly "
            "known, not from answers."
        )
    return checked_edges(found, repr(name))


def _choices(
    found: Any, kind: str, edges: tuple[float, ...], name: str, languages: tuple[str, ...]
) -> tuple[Choice, ...]:
    if kind == "number":
        return tuple(Choice(label, tuple((code, label) for code in languages)) for label in interval_names(edges))
    if kind == "yesno" and found is None:
        found = ["no", "yes"]
    if not isinstance(found, Sequence) or isinstance(found, str):
        raise SchemaError(f"The question {name!r} needs a list of `choices`.")
    choices = []
    for choice in found:
        if isinstance(choice, Mapping):
            value = choice.get("value")
            if not isinstance(value, str | int | float) or isinstance(value, bool):
                raise SchemaError(f"Every choice of {name!r} needs a `value`.")
            choices.append(Choice(str(value), read_text(choice.get("text", value), languages, f"choice of {name!r}")))
        else:
            choices.append(Choice(str(choice), read_text(str(choice), languages, f"choice of {name!r}")))
    return tuple(choices)
