"""What an owner wishes for, and how well a measured setting keeps it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from sfumato.errors import UsageError
from sfumato.guarantee.posterior import PRIOR

PEOPLE, KEY_HOLDERS = "people", "key-holders"
TRUST = ("owner", "nobody", KEY_HOLDERS)
USUAL_RISK = 0.1
"""The extra that an attacker may get where nobody says."""


@dataclass(frozen=True)
class Wish:
    """max_risk: the most extra that any attacker may get, as a share. max_loss: accuracy that may be lost against
    training on the original. epsilon: a guarantee of at most this must be proved. trust: whom the people trust with
    their rows: their "owner", "nobody", or whoever shares its secret key ("key-holders")."""

    max_risk: float | None = None
    max_loss: float | None = None
    epsilon: float | None = None
    trust: str = "owner"
    max_posterior: float | None = None
    prior: float | None = None

    def checked(self) -> Wish:
        """The wish, once everything in it can be meant; where it says nothing, the usual risk."""
        for name, share in (("--max-risk", self.max_risk), ("--max-loss", self.max_loss)):
            if share is not None and not 0.0 <= share <= 1.0:
                raise UsageError(f"{name} is a share between 0 and 1. Got {share:g} instead.")
        if self.epsilon is not None and not 0.0 < self.epsilon < math.inf:
            raise UsageError(f"--epsilon must be a positive number. Got {self.epsilon:g} instead.")
        if self.trust not in TRUST:
            raise UsageError(f"--trust must be one of {', '.join(TRUST)}. Got {str(self.trust)[:60]!r} instead.")
        if self.max_risk is None and self.max_loss is None and self.epsilon is None:
            return Wish(USUAL_RISK, None, None, self.trust)
        return self

    def room(self, risk: float, loss: float) -> float:
        """How much of the wish is left over, as the smaller share; negative where it is not kept."""
        left = [limit - found for limit, found in ((self.max_risk, risk), (self.max_loss, loss)) if limit is not None]
        return min(left, default=0.0)

    def keeps(self, risk: float, loss: float) -> bool:
        """Whether a setting with this risk and loss is within the wish."""
        return self.room(risk, loss) >= 0.0

    def better(self, risk: float, loss: float) -> tuple[float, float]:
        """To sort by, largest first: of settings that keep the wish, the one with most room if both are limited, the
        least loss under a limit of the risk, the least risk under a limit of the loss. Of others, the nearest."""
        room = self.room(risk, loss)
        if room < 0.0:
            return room, -loss
        if self.max_risk is not None and self.max_loss is not None:
            return 1.0 + room, -loss
        return 1.0, -risk if self.max_loss is not None else -loss

    def words(self) -> str:
        """In a sentence."""
        parts = []
        if self.max_risk is not None:
            parts.append(f"no attacker gets more than {100 * self.max_risk:g} of 100 extra")
        if self.max_loss is not None:
            parts.append(f"at most {self.max_loss:.0%} of accuracy is lost")
        if self.max_posterior is not None:
            before = PRIOR if self.prior is None else self.prior
            parts.append(f"a person's own row lifts a belief of {before:.3g} to at most {self.max_posterior:.3g}")
        if self.epsilon is not None:
            parts.append(f"an epsilon of at most {self.epsilon:g} is proved")
        return " and ".join(parts)

    def to_dict(self) -> dict[str, Any]:
        return {
            "max_risk": self.max_risk,
            "max_loss": self.max_loss,
            "epsilon": self.epsilon,
            "max_posterior": self.max_posterior,
            "prior": self.prior,
            "trust": self.trust,
        }
