"""The guarantee once more, from what a card says was done.

A server takes no site's word for an epsilon. It recomputes every figure from the card's recipe, by the function that
the owner's program used, and takes from the card's `guarantee` only what stands in its way by its own words. A card
that states less than that was edited. A site that changes noise and guarantee together is not caught here: that a
release was really made so is the site's word.
"""

from __future__ import annotations

import math

from sfumato.channels import RandomizedResponse
from sfumato.guarantee.card import NOT_FOR_RELEASE, Card
from sfumato.guarantee.concentrated import Central
from sfumato.guarantee.consistency import LABEL_CLASSES
from sfumato.guarantee.guarantee import Guarantee, exact_target, learned_domain, proved

AGREES = 1e-9
"""Figures are computed in floating point, on other machines in another order."""


class Recomputed(Guarantee):
    """A guarantee that was computed from a card's recipe; the label's part is in it."""

    def understated(self, card: Card) -> list[str]:
        """Names of the figures that the card states as smaller than they are, and of claims that it cannot make."""
        if card.post_processing is not None:
            return []  # its noise is no longer on the card: nothing can be checked, and nothing counts as proved
        stated = card.stated_guarantee()
        pairs = {
            "epsilon_component": (stated.component, self.component),
            "epsilon_column": (stated.column, self.column),
            "epsilon_record": (stated.record, self.record),
            "label_epsilon": (stated.label_epsilon or 0.0, self.label_epsilon or 0.0),
        }
        if self.central is not None:
            said = stated.central or Central(0.0)
            pairs["central"] = (said.epsilon, self.central.epsilon if said.delta == self.central.delta else math.inf)
        wrong = [name for name, (said, found) in pairs.items() if said < found * (1 - AGREES) - 1e-12]
        honest = not card.is_formal or self.kind == stated.kind
        return wrong if honest else ["kind", *wrong]


def understatement(card: Card) -> str | None:
    """What a card claims beyond its own recipe, in a sentence; None where it claims nothing beyond it."""
    wrong = recomputed(card).understated(card)
    if not wrong:
        return None
    return f"The card states less than its own parameters give ({', '.join(wrong)}): it was edited or is damaged."


def recomputed(card: Card) -> Recomputed:
    """What the card's recipe proves, whatever its `guarantee` says; infinite where it proves nothing."""
    found = proved(card.made_by(), _hindrances(card))
    label = card.release_schema["label"]
    if label is not None and label["keep"] != 1:
        found = found.with_label(RandomizedResponse(label["keep"], len(label["classes"])).epsilon)
    return Recomputed(**vars(found))


def _hindrances(card: Card) -> list[str]:
    """Why figures hold only conditionally, from every part of the card that says so."""
    encoding, randomized = card.source_encoding(), card.label == "randomized"
    reasons = [item for item in card.learned_from_data if randomized or not item.startswith(LABEL_CLASSES)]
    reasons += [learned_domain(name) for name in encoding.learned]
    label = encoding.schema.label
    if randomized and label is not None and label.source == "learned":
        reasons.append(f"{LABEL_CLASSES} {label.name!r}")
    if card.target is not None:
        reasons.append(exact_target(card.target))
    if card.reproducible:
        reasons.append(NOT_FOR_RELEASE[card.reproducible])
    return [*reasons, *card.guarantee["in_the_way"]]
