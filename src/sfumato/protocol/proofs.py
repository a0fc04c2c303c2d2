"""The guarantee of a card recomputed, for every mechanism that proves one."""

from __future__ import annotations

from sfumato.guarantee import Card
from sfumato.guarantee.recompute import NO_BOUND, Proof, Recomputed, recomputed
from sfumato.guidance import AnswerSpace, answer_epsilons, decode_matrix, record_epsilon, survey_epsilon
from sfumato.guidance.worst_pair import TO_CHECK, WORK
from sfumato.table import Encoding


def recomputed_guarantee(card: Card) -> Recomputed:
    """What the card's own parameters prove, whatever its `guarantee` says."""
    return recomputed(card, MORE_PROOFS)


def _guided(card: Card, encoding: Encoding) -> Recomputed:
    """Bits drawn with probabilities of at least a floor, by a guidance that stands on the card [guided-survey]."""
    told = card.transform
    floor, link, width = told.get("floor"), told.get("link"), encoding.width
    rank = told.get("k")
    if told["kind"] != "guided" or not all(group.is_onehot for group in encoding.groups):
        return NO_BOUND
    if not isinstance(floor, float) or not 0 < floor < 0.5 or link not in ("square", "linear"):
        return NO_BOUND
    if not isinstance(rank, int) or not 1 <= rank <= width or len(card.release_schema["columns"]) != width:
        return NO_BOUND
    space = AnswerSpace([group.width for group in encoding.groups])
    guidance = decode_matrix(told["guidance"], width, rank)
    bits, answers = survey_epsilon(guidance, space, floor, link).bits, answer_epsilons(guidance, space, floor, link)
    record = record_epsilon(guidance, space, floor, link, work=TO_CHECK * WORK).value
    return Recomputed(float(min(record, bits.max())), float(min(record, answers.max())), record)


MORE_PROOFS: dict[str, Proof] = {"guided-projection": _guided}
"""Beyond those that need no more than the card's noise."""
