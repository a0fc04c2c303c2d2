"""What an owner wishes for, and how well a measured setting keeps it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sfumato.core.errors import UsageError
from sfumato.guarantee.posterior import PRIOR
from sfumato.mechanisms import MECHANISMS, Mechanism, make_mechanism
from sfumato.mechanisms.base import PRESENCE, RECORD, Knob

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


# Which mechanisms come into question: everything that is registered, has a strength to search, and fits the trust.


LONGEST_REASON = 600
"""Characters of why something cannot be tried; a whole sentence with a way out fits."""
FIRST = ("square-wave", "tree-resampling", "additive-noise", "staged-release", "principal-laplace")
"""Tried first, so that a few tries are good ones; others follow by name."""


@dataclass(frozen=True)
class Candidate:
    """A mechanism, the knob that is turned, and what goes with it."""

    mechanism: str
    knob: Knob
    beside: Mapping[str, Any]

    def parameters(self, openness: float) -> dict[str, Any]:
        """All parameters at an openness between 0 and 1."""
        return {**self.beside, self.knob.parameter: self.knob.at(openness)}


def candidates(wish: Wish, *, public: bool) -> tuple[list[Candidate], dict[str, str]]:
    """Those to try, and for each of the others the reason why not. `public`: whether the schema is."""
    found, left_out = [], {}
    order = sorted(MECHANISMS, key=lambda name: (FIRST.index(name) if name in FIRST else len(FIRST), name))
    for name in order:
        mechanism = MECHANISMS[name]
        knob = mechanism.knob()
        if knob is None:
            left_out[name] = "it has no single parameter that sets its strength"
        elif reason := _unfit(mechanism, knob, wish):
            left_out[name] = reason
        else:
            beside = {**knob.beside, **(knob.proved_with if public else {})}
            if wish.epsilon is not None:  # of values; a knob may turn the epsilon for presence
                knob = knob.up_to(make_mechanism(name, beside).strength_for_values(wish.epsilon)[knob.parameter])
            found.append(Candidate(name, knob, beside))
    return found, left_out


def _unfit(mechanism: type[Mechanism], knob: Knob, wish: Wish) -> str | None:
    if mechanism.for_surveys:
        return "it is for surveys"
    if wish.trust == "nobody" and mechanism.made_up:
        return "it needs an owner who is trusted with the table (--trust owner)"
    if wish.trust == "nobody" and (not mechanism.proves or mechanism.needs_key or mechanism.whole_table):
        return "it needs somebody who holds all rows or a common key, or proves nothing"
    if mechanism.needs_key and wish.trust != KEY_HOLDERS:
        return "whoever shares its key can undo it (--trust key-holders)"
    if wish.epsilon is not None and not (mechanism.proves and knob.parameter in (RECORD.parameter, PRESENCE.parameter)):
        return "no epsilon that it proves can be asked for"
    return None
