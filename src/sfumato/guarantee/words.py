"""A card in plain words, for the terminal and the report."""

from __future__ import annotations

from sfumato.guarantee.card import Card
from sfumato.guarantee.guarantee import at_most, percent, summarized


def card_in_words(card: Card) -> str:
    """What the release is, what it guarantees, on what that rests, and what is not protected."""
    parts = [
        _what(card),
        f"Guarantee: {'' if not card.is_formal else 'proved. '}{card.stated_guarantee().in_words()}",
        *_levels(card),
        *_beliefs(card),
        *_list("It rests on", card.guarantee["assumptions"]),
        *_list("Learned from the data", summarized(card.learned_from_data)),
        *_list("Who the adversary is taken to be", card.threat_model["adversary"]),
        *_list("What is not protected", card.threat_model["not_protected"]),
    ]
    if card.reproducible:
        parts.insert(0, "NOT FOR RELEASE: the noise was drawn from a fixed seed and can be repeated by anybody.")
    earlier = card.earlier_releases
    if earlier["count"]:
        total = earlier["total_epsilon_record"]
        figure = "without a bound" if total is None else f"epsilon {total:.3g} per record in all"
        parts.append(f"The same rows were released {earlier['count']} times before: {figure}.")
    return "\n".join(parts)


def _what(card: Card) -> str:
    used = {name: value for name, value in card.mechanism["parameters"].items() if value is not None}
    parameters = ", ".join(f"{name}={value}" for name, value in used.items())
    columns = card.release_schema["columns"]
    label = card.release_schema["label"]
    labelled = f", label {label['name']!r} {card.label}" if label else ", no label"
    return (
        f"{card.mechanism['name']} ({parameters}): {card.rows:,} rows, {len(columns)} columns{labelled}.\n"
        f"Noise: {card.noise_path}. Space: {card.space[:23]}..."
    )


def _levels(card: Card) -> list[str]:
    stated = card.guarantee
    conditional = stated["conditional_epsilon"]
    figures = conditional or {
        level: stated[f"epsilon_{level}"] for level in ("component", "column", "record", "person")
    }
    if figures["record"] is None:
        return []
    words = "  ".join(f"{level} {'unbounded' if value is None else f'{value:.4g}'}" for level, value in figures.items())
    return [f"Epsilon{' (conditional)' if conditional else ''}: {words}"]


def _beliefs(card: Card) -> list[str]:
    return [
        f"  believed with {percent(row['prior'])} before: {at_most(row['at_most'])}, "
        f"at least {percent(row['at_least'])} after"
        for row in card.guarantee["posteriors"]
    ]


def _list(title: str, lines: list[str]) -> list[str]:
    return [f"{title}:", *[f"  - {line}" for line in lines]] if lines else []
