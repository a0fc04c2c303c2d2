"""Free text of a card, which anybody may have written: shown as one printable line, never endless, and in quotes."""

from __future__ import annotations

from collections.abc import Sequence

LONGEST = 600
"""Characters; the longest sentence of our own mechanisms has about 500."""
LONGEST_REASON = 200
MOST_REASONS = 8


def own_words(text: str, most: int = LONGEST) -> str:
    """Without control characters, line breaks and marks that turn the direction of writing.

    >>> own_words("Safe.\\x1b[2J\\nReally.")
    'Safe. [2J Really.'
    """
    shown = "".join(character if character.isprintable() else " " for character in text[: 4 * most])
    return shown if len(shown) <= most and len(text) <= 4 * most else shown[: most - 1] + "…"


def quoted(text: str, most: int = LONGEST) -> str:
    """The same in quotes that its own text cannot close."""
    return f'"{own_words(text, most).replace(chr(34), chr(39))}"'


def listed(reasons: Sequence[str], most: int = MOST_REASONS) -> str:
    """A few reasons one after the other, and how many more there are."""
    shown = [own_words(reason, LONGEST_REASON) for reason in reasons[:most]]
    return "; ".join([*shown, *([f"and {len(reasons) - most:,} more"] if len(reasons) > most else [])])
