"""Who the attacker is taken to be, and what is not protected whatever they know."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

PRESENCE = "That a person is in the table is not hidden: blurring a record does not hide its presence."


@dataclass(frozen=True)
class ThreatModel:
    """Plain sentences for the card and the report; mechanisms add their own."""

    adversary: tuple[str, ...]
    not_protected: tuple[str, ...]

    @classmethod
    def of(
        cls,
        *,
        label: str,
        rows: str,
        learned_bounds: bool,
        mechanism: tuple[str, ...] = (),
        nobodys: bool = False,
        target: str | None = None,
    ) -> ThreatModel:
        """The model of a release whose label is `exact`, `randomized`, `drawn` or `none`.

        `target`: a number to predict that is released as it is. `nobodys`: its rows belong to nobody, so that it hides
        who is in the table, and only there.
        """
        adversary = (
            "Holds the whole release and this card, and knows the method with all its parameters.",
            "May know anything else about other people, and any belief about the person beforehand.",
            "Does not hold the key, the private match file or the state of the random generator.",
        )
        open_ends = [] if nobodys else [PRESENCE]
        if label == "exact":
            open_ends.append("The column to predict is released exactly as it was: it is assumed to be public.")
        if target is not None:
            open_ends.append(
                f"The number to predict, {target!r}, is released exactly as it was: nothing is claimed of it. Whoever "
                "knows a person's value finds the rows that have it, and what it tells of other columns is not hidden."
            )
        if learned_bounds:
            open_ends.append(
                "This card shows the ranges and categories that were read off the table: the smallest and "
                "largest value of each such column, and every category, even one that only a single person has."
            )
        open_ends.append(
            "The names of the columns are released, and a noisy number of rows."
            if nobodys
            else f"The number of rows ({rows}) and the names of the columns are released."
        )
        open_ends.append("What is true of most people like this person can be learned: that is the purpose.")
        return cls(adversary, (*open_ends, *mechanism))

    def to_dict(self) -> dict[str, Any]:
        return {"adversary": list(self.adversary), "not_protected": list(self.not_protected)}
