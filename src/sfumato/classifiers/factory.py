"""Classifiers by name, each ready to be trained on noisy rows."""

from __future__ import annotations

from typing import Any

from sfumato.classifiers.named.base import NamedClassifier
from sfumato.errors import UsageError
from sfumato.registry import discover

CLASSIFIERS: dict[str, type[NamedClassifier]] = discover("sfumato.classifiers.named", NamedClassifier)  # type: ignore[type-abstract]


def make_classifier(name: str, reconstruction: str | None = None) -> Any:
    """An unfitted classifier; `fit_on_parts` trains it with what the cards say about the noise.

    With a `reconstruction` ("by-class" or "global") it learns from reconstructed values instead of noisy ones.
    """
    if name not in CLASSIFIERS:
        raise UsageError(f"There is no classifier {name!r}. Choose one of: {', '.join(CLASSIFIERS)}.")
    made = CLASSIFIERS[name]().make()
    if reconstruction is None:
        return made
    from sfumato.classifiers.assignment import WAYS
    from sfumato.classifiers.on_reconstruction import OnReconstruction

    if reconstruction not in WAYS:
        raise UsageError(f"There is no reconstruction {reconstruction!r}. Choose one of: {', '.join(WAYS)}.")
    if name == "reconstructed-tree":
        return made.set_params(reconstruction=reconstruction)
    if CLASSIFIERS[name].knows_noise:
        raise UsageError(f"{name} uses the noise itself, so it takes no reconstruction. Leave --reconstruction out.")
    return OnReconstruction(made, reconstruction)
