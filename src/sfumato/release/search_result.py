"""What a rotation search tells the owner alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from sfumato.attacks.metrics.privacy import Unified


class WeakRotationWarning(UserWarning):
    """Some attack comes near the original values whatever the rotation: add noise."""


class Optimised(NamedTuple):
    """The figure that the search raised, not capped at guessing the mean: on the first rotation and on the kept one."""

    first: float
    kept: float


@dataclass(frozen=True)
class SearchResult:
    """Guarantees as the standard deviation of an attack's error on [0,1] columns, over their weights; larger is safer.

    These are statistics of the private table: for its owner, never for the card. `naive` and `ica` are of the kept
    rotation, `ica_anywhere` is the lowest of all rotations tried. `mean_guess` is what guessing every column's
    mean gives: measured figures are capped there. `ica` is None where ICA did not converge on the kept rotation, which
    is no privacy: nothing is known. `optimised` is what the search raised, uncapped. `weak_columns` are those that some
    attack comes near to.
    """

    iterations: int
    goal: str
    scoring: str
    naive: Unified
    ica: Unified | None
    ica_anywhere: Unified
    mean_guess: Unified
    ica_runs: int
    ica_not_converged: int
    weak_columns: tuple[str, ...]
    optimised: Optimised

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for `--json`."""
        named = Unified | Optimised
        return {name: value._asdict() if isinstance(value, named) else value for name, value in vars(self).items()}

    def in_words(self) -> str:
        """A few lines for the owner's terminal."""
        lines = [
            f"Best of {self.iterations} rotations. Error that attacks leave on it without noise, as a "
            "standard deviation relative to the columns' ranges (private: statistics of your table):",
            f"  {self._what_was_raised()}",
            _line("naive inference", self.naive),
            _line("ICA", self.ica) if self.ica else "  ICA did not converge here, so nothing is known about it",
            _line("ICA, on any rotation tried", self.ica_anywhere),
            _line("guessing the mean", self.mean_guess),
        ]
        if self.ica_not_converged:
            lines.append(f"  ICA did not converge on {self.ica_not_converged} of {self.ica_runs} rotations.")
        if self.weak_columns:
            lines.append(f"  Columns that an attack comes close to: {', '.join(self.weak_columns)}")
        return "\n".join(lines)

    def _what_was_raised(self) -> str:
        """What was optimised, in words and figures, also where all of it lies above guessing the mean."""
        first, kept = self.optimised
        over = "minimum over all columns" if self.goal == "minimum" else "average over all columns"
        sign = "whatever the sign of a column (Eq. 6 as published)" if self.scoring == "published" else "with its sign"
        words = f"The search raised the {over} of what naive inference leaves, {sign}: {first:.3f} to {kept:.3f}."
        guess = float(getattr(self.mean_guess, self.goal))
        if self.scoring == "published":
            return (
                f"{words} A rotation also counted for how ICA happened to fare on it. Guessing the mean leaves "
                f"{guess:.3f}: what lies above that is no privacy."
            )
        if min(first, kept) >= guess:
            return (
                f"{words} Both lie above guessing the mean ({guess:.3f}), which anybody can do: against naive "
                "inference any rotation would have served, and the search gained nothing."
            )
        if kept >= guess:
            return f"{words} Guessing the mean leaves {guess:.3f}: no more than that was gained."
        return words


def _line(attack: str, found: Unified) -> str:
    return f"  {attack}: minimum {found.minimum:.3f}, average {found.average:.3f}"
