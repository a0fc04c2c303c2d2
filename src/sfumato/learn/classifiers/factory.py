"""Classifiers by name and parameters, each ready to be trained on noisy rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sfumato.core.as_published import as_published
from sfumato.core.errors import UsageError
from sfumato.core.registry import discover
from sfumato.learn.classifiers.named.base import NamedClassifier

CLASSIFIERS: dict[str, type[NamedClassifier]] = discover("sfumato.learn.classifiers.named", NamedClassifier)  # type: ignore[type-abstract]

Choice = str | NamedClassifier
"""A classifier as it is asked for: a text such as "knn" or "svm kernel=sigmoid", or what was made of it."""

LONGEST = 500
"""Characters of a text."""


def choose_classifier(
    choice: Choice, parameters: Mapping[str, Any] | None = None, *, published: bool = False
) -> NamedClassifier:
    """The classifier that a name and its parameters mean; what does not exist is refused with a sentence.

    `choice` may hold parameters itself: "svm kernel=sigmoid". `parameters` are added to them. `published`: those of the
    paper, wherever ours differ.

    >>> choose_classifier("svm kernel=sigmoid", {"scaled": False}).text
    'svm kernel=sigmoid scaled=false'
    """
    if isinstance(choice, NamedClassifier):
        name, stated = choice.name, choice.parameters
    else:
        name, stated = read_choice(choice)
    if name not in CLASSIFIERS:
        raise UsageError(f"There is no classifier {name[:60]!r}. Choose one of: {', '.join(CLASSIFIERS)}.")
    wanted = {key.replace("-", "_"): value for key, value in {**stated, **(parameters or {})}.items()}
    if published:
        wanted = as_published(name, CLASSIFIERS[name].published, wanted, CLASSIFIERS)
    known = CLASSIFIERS[name].defaults()
    for key in wanted:
        if key not in known:
            has = f"It has: {', '.join(known)}." if known else "It has none."
            raise UsageError(f"The classifier {name} has no parameter {key[:60]!r}. {has}")
    chosen = CLASSIFIERS[name](**wanted)
    chosen.check()
    return chosen


def read_choice(text: str) -> tuple[str, dict[str, Any]]:
    """Name and parameters of a text such as "svm kernel=sigmoid"; whether they exist is not looked at."""
    if not isinstance(text, str) or len(text) > LONGEST:
        raise UsageError(f"A classifier must be a name, or a name and NAME=VALUE, of at most {LONGEST} characters.")
    name, *pairs = text.split() or [""]
    stated: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise UsageError(
                f"A classifier is a name and then NAME=VALUE, for example 'knn k=5'. Got {pair[:60]!r} after {name}."
            )
        stated[key] = _value(value)
    return name, stated


def _value(text: str) -> Any:
    """true, false, null and numbers are that; all else is a word."""
    words: dict[str, Any] = {"true": True, "false": False, "null": None}
    if text in words:
        return words[text]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def make_classifier(
    choice: Choice, reconstruction: str | None = None, parameters: Mapping[str, Any] | None = None
) -> Any:
    """An unfitted classifier; `fit_on_parts` trains it with what the cards say about the noise.

    With a `reconstruction` ("by-class" or "global") it learns from reconstructed values instead of noisy ones.
    """
    chosen = choose_classifier(choice, parameters)
    made = chosen.make()
    if reconstruction is None:
        return made
    from sfumato.learn.classifiers.assignment import WAYS
    from sfumato.learn.classifiers.on_reconstruction import OnReconstruction

    if reconstruction not in WAYS:
        raise UsageError(f"There is no reconstruction {reconstruction!r}. Choose one of: {', '.join(WAYS)}.")
    if chosen.name == "reconstructed-tree":
        return made.set_params(reconstruction=reconstruction)
    if chosen.knows_noise:
        raise UsageError(
            f"{chosen.name} uses the noise itself, so it takes no reconstruction. Leave --reconstruction out."
        )
    return OnReconstruction(made, reconstruction)
