"""The public of a survey: people who let more or less show, who waits for how long, and who never sends."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sfumato.array_types import Codes
from sfumato.errors import UsageError
from sfumato.guidance import SurveyRun
from sfumato.guidance.simulation import PUBLIC

KINDS = ("fundamentalists", "pragmatists", "marginally concerned")


@dataclass(frozen=True)
class Public:
    """How much people let show: `shares` of fundamentalists, pragmatists and people who hardly mind [2.2].

    The first accept level `levels[0]` at most, the second `levels[1]`, the last any.
    """

    shares: tuple[float, float, float] = PUBLIC
    levels: tuple[int, int] = (1, 4)

    def __post_init__(self) -> None:
        if len(self.shares) != 3 or min(self.shares) < 0 or abs(sum(self.shares) - 1) > 1e-6:
            raise UsageError("A public needs three shares that add up to 1, or to 100%: for example 17/56/27.")
        if len(self.levels) != 2 or min(self.levels) < 1:
            raise UsageError("A public needs two levels of at least 1: for example 1/4.")

    @classmethod
    def read(cls, shares: str, levels: str = "1/4") -> Public:
        """Shares in percent as the paper has them, "17/56/27", and levels, "1/4"."""
        try:
            parts = tuple(float(part) / 100 for part in shares.split("/"))
            limits = tuple(int(part) for part in levels.split("/"))
        except ValueError:
            raise UsageError(
                f"Limits are numbers between slashes, such as 17/56/27 and 1/4. Got {shares!s:.40}."
            ) from None
        return cls(parts, limits)  # type: ignore[arg-type]  # their number is checked above


@dataclass(frozen=True)
class Kind:
    """One kind of people in a simulated survey, the mean over repeats.

    sent, never: shares of them whose answer was sent, and whose limit was never met. waited, waited_95: how many people
    arrived between a respondent and the sending, the mean and the 95% quantile of those who sent (None: nobody did).
    """

    name: str
    level: int | None
    sent: float
    never: float
    waited: float | None
    waited_95: float | None


def waiting_of(run: SurveyRun, limits: Codes, public: Public, width: int) -> list[Kind]:
    """The kinds of people in one simulated survey; of whom there are none, nothing is said."""
    found = []
    for name, level, share in zip(KINDS, (*public.levels, None), public.shares, strict=True):
        if not share:
            continue
        mine = limits == (width if level is None else level)
        there = max(int(mine.sum()), 1)
        waited = run.waited[mine[run.who]]
        mean, late = (float(waited.mean()), float(np.quantile(waited, 0.95))) if len(waited) else (None, None)
        found.append(Kind(name, level, len(waited) / there, float(mine[run.never].sum()) / there, mean, late))
    return found


def mean_kind(repeats: list[Kind]) -> Kind:
    """The mean over several surveys; waiting is that of the surveys in which somebody sent."""
    waited, late = (_mean([getattr(one, name) for one in repeats]) for name in ("waited", "waited_95"))
    share, never = (float(np.mean([getattr(one, name) for one in repeats])) for name in ("sent", "never"))
    return Kind(repeats[0].name, repeats[0].level, share, never, waited, late)


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None
