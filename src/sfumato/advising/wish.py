"""What an owner wishes for, and how well a measured setting keeps it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from sfumato.advising.asked import KEY_HOLDERS, PEOPLE, WishAsked
from sfumato.core.asked import check_asked
from sfumato.core.errors import SfumatoError, UsageError
from sfumato.guarantee.cost import PRIOR
from sfumato.mechanisms import MECHANISMS, Mechanism, make_mechanism
from sfumato.mechanisms.parameters import PRESENCE, RECORD, Knob
from sfumato.release.asked import TRUSTS

USUAL_RISK = 0.1  # the extra that an attacker may get in trials where no limit is named
MOST_EPSILON = 100.0  # what `sanitize` takes at most


@dataclass(frozen=True, kw_only=True)
class Wish(WishAsked):
    """What an owner asks for, and how well it is kept. In trials `max_risk` is the most extra that any attacker may
    get, as a share."""

    def check(self) -> None:
        """Refuse what cannot be meant."""
        check_asked(self)
        if self.trust == PEOPLE:
            raise UsageError(
                "People who trust no one with their rows answer a survey, and each device blurs its own answers: see "
                "`sfumato survey plan`. Here --trust is owner or nobody."
            )
        if self.epsilon is not None and not 0 < self.epsilon <= MOST_EPSILON:
            raise UsageError(
                f"--epsilon must be above 0 and at most {MOST_EPSILON:g}; up to 1 protects well, above 10 hardly. "
                f"Got {self.epsilon:g} instead."
            )
        if self.prior is not None and self.max_posterior is None:
            raise UsageError("--prior belongs to --max-posterior. Give both, or neither.")

    def check_by_proof(self) -> None:
        """Refuse what arithmetic cannot answer, too."""
        self.check()
        if self.trust not in TRUSTS:
            raise UsageError(f"--trust {self.trust} is for trials on your own rows: add --use-table.")
        if len([one for one in (self.epsilon, self.max_posterior, self.max_risk) if one is not None]) > 1:
            raise UsageError("--epsilon, --max-posterior and --max-risk say the same in other words. Give one of them.")
        for option, share in (("--max-posterior", self.max_posterior), ("--max-risk", self.max_risk)):
            if share is not None and not 0 < share < 1:
                raise UsageError(f"{option} must lie strictly between 0 and 1. Got {share:g} instead.")

    def in_trials(self) -> Wish:
        """The wish where rows are looked at; where it says nothing, the usual risk."""
        if self.max_posterior is not None:
            raise UsageError(
                "--max-posterior is kept by a proof, and trials on rows only measure. Leave --use-table out, so that "
                "no row has a say; or wish for what trials can measure (--max-risk, --max-loss)."
            )
        if self.max_risk is self.max_loss is self.epsilon is None:
            return replace(self, max_risk=USUAL_RISK)
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
        return {one.name: getattr(self, one.name) for one in fields(self)}


# Which mechanisms come into question: everything that is registered, has a strength to search, and fits the trust.

LONGEST_REASON = 600
"""Characters of why something cannot be tried; a whole sentence with a way out fits."""


def why_not(error: Exception) -> str:
    """Why something cannot be tried. The text of an error that is not ours might quote a cell of the table."""
    if isinstance(error, SfumatoError):
        return str(error)[:LONGEST_REASON]
    return f"it failed on these rows ({type(error).__name__})"


FIRST = ("square-wave", "tree-resampling", "additive-noise", "staged-release", "principal-laplace")
"""Tried first, so that a few tries are good ones; others follow by name."""


def in_words(parameters: Mapping[str, Any]) -> str:
    """Parameters in one line."""
    return ", ".join(f"{name} {value}" for name, value in parameters.items())


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
        return "it needs someone who holds all rows or a common key, or proves nothing"
    if mechanism.needs_key and wish.trust != KEY_HOLDERS:
        return "whoever shares its key can undo it (--trust key-holders)"
    if wish.epsilon is not None and not (mechanism.proves and knob.parameter in (RECORD.parameter, PRESENCE.parameter)):
        return "no epsilon that it proves can be asked for"
    return None
