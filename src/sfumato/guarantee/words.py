"""A card in plain words, for the terminal and the report; and what checks of it come to.

Figures become sentences here. Sentences that stand on the card were written by whoever made it: they are shown as the
release's own words, one line each and never endless.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from sfumato.core.records import Record
from sfumato.core.wording import counted, own_words, quoted
from sfumato.guarantee.all_releases import AllReleases
from sfumato.guarantee.card import NOT_FOR_RELEASE, Card
from sfumato.guarantee.cost import posterior_bound
from sfumato.guarantee.guarantee import summarized
from sfumato.guarantee.rounding import amplification_at_most, epsilon_at_most

PAPERS_PRIORS = (0.001, 0.01, 0.1)  # beliefs that the paper's bound is told for
WAYS_OUT = {
    "bounds or categories": "say what you know of each column without this table, and how (sfumato schema declare "
    "SCHEMA --column COL --low LOW --high HIGH --reason ...)",
    "classes of the label": "list the label's classes as your source has them (sfumato schema declare SCHEMA "
    "--column COL --categories A,B --reason ...)",
    "a given basis": "use a public basis and say why it is (--param basis_reason=..., or --basis-from TABLE --reason "
    "... without --conditional), or use --param basis=identity",
    "basis": "use a basis that owes nothing to this table (--basis-from TABLE --reason ..., --param basis=dct), or "
    "estimate it under its own epsilon (--param basis=private --epsilon-record ...)",
    "ranges of the components": "take the widths from the public bounds (--param component_bounds=public)",
    "the guidance": "use guidance that owes nothing to this table (--param guidance=... --param guidance_reason=...)",
    "given guidance": "say why the guidance is public (--param guidance_reason=...)",
    "guidance that": "use guidance that owes nothing to anybody's rows, and say why (--param guidance_reason=...)",
    "a given centre": "draw the centre or take the corner (--param centre=random, --param centre=zero)",
    "rotation with": "draw a new rotation (leave --key out)",
    "the plan of": "say where the plan's bins and pairs come from (sfumato study plan, or their source and reason)",
    "floating-point noise": "draw the noise exactly (--param noise=exact, or a law that has an exact form: laplace)",
    "the mechanism and its strength": "choose without these rows (sfumato recommend with a public schema, or by hand)",
    "a fixed seed": "leave --seed out",
    "an experiment": "leave --experiment out",
    "the number to predict": "perturb the number to predict like the others (leave --target out)",
    "the largest number of rows": "cap the rows per person at a public number (--max-rows-per-person)",
}
"""How the reason on a card begins, and what the owner can do about it."""


def ways_out(reasons: Iterable[str]) -> list[str]:
    """What would make a conditional guarantee hold, each once; nothing for a reason that nothing removes."""
    found = [way for reason in reasons for start, way in WAYS_OUT.items() if reason.startswith(start)]
    return list(dict.fromkeys(found))


MOST_LINES = 20
LONGEST_SHOWN = 2000  # characters of a reason
OWN = "the release's own words"


def card_in_words(card: Card) -> str:
    """What holds for all releases together, what this one is, what it rests on, and what is not protected."""
    declared_by = owners_word(card.source_schema)
    parts = [
        f"Guarantee: {card.guarantee['words']}",
        *_levels(card, card.all_releases()),
        *declared_by[:1],
        *(f"  - {line}" for line in declared_by[1:]),
        _what(card),
        *_list(f"It rests on ({OWN})", card.guarantee["assumptions"]),
        *_list(f"Learned from the data ({OWN})", summarized(card.learned_from_data)),
        *_list(f"Who the attacker is assumed to be ({OWN})", card.threat_model["adversary"]),
        *_list(f"What is not protected ({OWN})", card.threat_model["not_protected"]),
    ]
    if card.reproducible:
        parts.insert(0, f"NOT FOR RELEASE: {NOT_FOR_RELEASE[card.reproducible]}.")
    return "\n".join(parts)


def _what(card: Card) -> str:
    used = {name: value for name, value in card.mechanism["parameters"].items() if value is not None}
    parameters = own_words(", ".join(f"{name}={value}" for name, value in used.items()))
    columns = card.release_schema["columns"]
    label = card.release_schema["label"]
    labelled = f", to predict {own_words(label['name'], 80)!r} ({card.label})" if label else ", nothing to predict"
    if card.target is not None:
        labelled += f", number to predict {own_words(card.target, 80)!r} exact"
    left_out = [repr(own_words(name, 80)) for name in sorted(card.made_by().left_out)]
    gaps = f"\nNot every row reports every column; empty cells are left out in: {_some(left_out)}." if left_out else ""
    paper = ", as published" if card.mechanism.get("as_published") else ""
    redrawn = card.earlier_releases.get("redrawn")  # from a model that an earlier release paid for
    again = "\nDrawn again from the model of an earlier release, at no further cost." if redrawn else ""
    # Columns that chose their own noise: the mechanism's parameters do not hold for them.
    own = [
        f"{own_words(column['name'], 80)} ("
        + own_words(", ".join(f"{key}={value}" for key, value in column["noise"].items()), 120)
        + ")"
        for column in card.source_schema["columns"]
        if column.get("noise")
    ]
    noise = f"Columns with noise of their own: {_some(own)}.\n" if own else ""
    return (
        f"{own_words(card.mechanism['name'])} ({parameters}){paper}: "
        f"{card.rows:,} rows, {counted(len(columns), 'column')}{labelled}.\n"
        f"{noise}Noise: {card.noise_path}. Space: {card.space[:23]}...{gaps}{again}"
    )


def declared(schema: Mapping[str, Any]) -> dict[str, list[str]]:
    """Columns whose ranges are public by the owner's word, by the reason as it was written."""
    by_reason: dict[str, list[str]] = {}
    for column in schema["columns"]:
        if column.get("source") == "public" and column.get("role", "private") in ("private", "label"):
            by_reason.setdefault(str(column.get("reason") or ""), []).append(own_words(str(column["name"]), 80))
    return by_reason


def owners_word(schema: Mapping[str, Any]) -> list[str]:
    """On whose word ranges are public, one line for each reason; the first line says how many."""
    by_reason = declared(schema)
    if not by_reason:
        return []
    shown = list(by_reason.items())[:MOST_LINES]
    lines = [f"{quoted(reason, LONGEST_SHOWN)}: {_some(names)}" for reason, names in shown]
    more = [f"and {len(by_reason) - MOST_LINES:,} more reasons"] if len(by_reason) > MOST_LINES else []
    count = counted(sum(map(len, by_reason.values())), "range")
    return [f"{count} by the owner's word (not checked):", *lines, *more]


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_LINES:,} more" if len(names) > MOST_LINES else ""
    return ", ".join(names[:MOST_LINES]) + more


def _levels(card: Card, together: AllReleases) -> list[str]:
    stated = card.guarantee
    conditional = stated["conditional_epsilon"]
    figures = conditional or {
        level: stated[f"epsilon_{level}"] for level in ("component", "column", "record", "person")
    }
    lines = []
    if together.hides_presence and together.central is not None:
        lines.append(f"For the presence of a record: {together.central.words()}. Values: {together.values.words()}.")
    if together.earlier:
        total = {"record": together.record, "person": together.person.epsilon}
        delta = f"  (delta {together.values.delta:g})" if together.values.delta and together.bounded else ""
        lines.append(f"Epsilon of all {together.count:,} releases: {_figures(total)}{delta}")
    if figures["record"] is not None:
        which = " of this release alone" if together.earlier else ""
        which += " (conditional)" if conditional else ""
        lines.append(f"Epsilon{which}: {_figures(figures)}")
        factors = "  ".join(f"{level} {amplification_at_most(value)}" for level, value in figures.items())
        lines.append(f"The largest factor on any odds{which}: {factors}")
    return [*lines, *_of_one_component(card)]


def _of_one_component(card: Card) -> list[str]:
    """What the paper's figures are of [principal-laplace, Eqs 2 and 8]: one released component, not a person."""
    used = card.mechanism["parameters"]
    b = used.get("b")
    if card.mechanism["name"] != "principal-laplace" or used.get("law") != "laplace" or not isinstance(b, int | float):
        return []
    told = ", ".join(f"{100 * prior:g}% to at most {posterior_bound(prior, 1 / b):.2%}" for prior in PAPERS_PRIORS)
    return [
        f"As the paper counts, for one component alone: e^(1/b) = {math.exp(min(1 / b, 700)):.5g} at b = {b:g}; by it "
        f"a belief can grow from {told}. A column or a record is in several components."
    ]


def _figures(figures: Mapping[str, float | None]) -> str:
    return "  ".join(f"{level} {epsilon_at_most(value, none='unbounded')}" for level, value in figures.items())


def _list(title: str, lines: list[str]) -> list[str]:
    shown = [f"  - {own_words(line)}" for line in lines[:MOST_LINES]]
    rest = [f"  - and {len(lines) - MOST_LINES:,} more"] if len(lines) > MOST_LINES else []
    return [f"{title}:", *shown, *rest] if lines else []


# What a check of a release comes to: nothing against it, something against it, or that it cannot be told.

State = Literal["ok", "wrong", "cannot check"]


@dataclass(frozen=True)
class Finding(Record):
    """One sentence for people. `figures` hold the same for machines, as plain JSON; they are the check's own."""

    check: str
    state: State
    sentence: str
    figures: Mapping[str, Any] = field(default_factory=dict)


def ok(check: str, sentence: str, **figures: Any) -> Finding:
    """Nothing was found against it."""
    return Finding(check, "ok", sentence, figures)


def wrong(check: str, sentence: str, **figures: Any) -> Finding:
    """It cannot be so."""
    return Finding(check, "wrong", sentence, figures)


def cannot_check(check: str, sentence: str, **figures: Any) -> Finding:
    """Whoever holds the release alone cannot tell."""
    return Finding(check, "cannot check", sentence, figures)
