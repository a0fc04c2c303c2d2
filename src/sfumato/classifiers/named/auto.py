"""The default: a learner that is chosen by the release."""

from __future__ import annotations

from typing import Any

from sfumato.classifiers.named.base import NamedClassifier


class Auto(NamedClassifier):
    """The learner that suits the release: the blend for made-up rows, else the one that predicts labels of held-out
    released rows best; says which. Knows the noise."""

    name = "auto"
    knows_noise = True
    keeps_rows = True  # where it chooses nearest neighbours
    own_types = ("auto.AutoClassifier",)

    def make(self) -> Any:
        from sfumato.classifiers.auto import AutoClassifier

        return AutoClassifier()
