"""Which mechanisms come into question: everything that is registered, has a strength to search, and fits the trust."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sfumato.jobs.advising.wish import KEY_HOLDERS, Wish
from sfumato.mechanisms import MECHANISMS, GuidedProjection, Mechanism, ModelDrawing
from sfumato.mechanisms.knob import PRESENCE, RECORD, Knob

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
            found.append(Candidate(name, knob if wish.epsilon is None else knob.up_to(wish.epsilon), beside))
    return found, left_out


def _unfit(mechanism: type[Mechanism], knob: Knob, wish: Wish) -> str | None:
    if issubclass(mechanism, GuidedProjection):
        return "it is for surveys"
    if wish.trust == "nobody" and issubclass(mechanism, ModelDrawing):
        return "it needs an owner who is trusted with the table (--trust owner)"
    if wish.trust == "nobody" and (not mechanism.proves or mechanism.needs_key or mechanism.whole_table):
        return "it needs somebody who holds all rows or a common key, or proves nothing"
    if mechanism.needs_key and wish.trust != KEY_HOLDERS:
        return "whoever shares its key can undo it (--trust key-holders)"
    if wish.epsilon is not None and not (mechanism.proves and knob.parameter in (RECORD.parameter, PRESENCE.parameter)):
        return "no epsilon that it proves can be asked for"
    return None
