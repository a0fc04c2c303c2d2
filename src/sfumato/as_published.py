"""One switch, "as published": the paper's own variant in place of ours, wherever the two differ.

A mechanism, an attack or a classifier declares what its paper does (`published`, parameters by name). The switch puts
that in; a parameter of one's own that says otherwise is refused, so that the mark on card, audit and model is true.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sfumato.errors import UsageError


def as_published(owner: str, published: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The given parameters with the paper's own beside them.

    >>> as_published("radius-vote", {"prior_correction": False}, {"n": 3})
    {'prior_correction': False, 'n': 3}
    """
    for name, value in published.items():
        if name in given and given[name] != value:
            raise UsageError(
                f"As published, {owner} has {name}={value!s}. Leave {name} out, or leave --as-published out and choose "
                "every parameter yourself."
            )
    return {**published, **given}


def follows(published: Mapping[str, Any] | None, used: Mapping[str, Any]) -> bool:
    """Whether parameters as they were used are the paper's own wherever ours differ; False where none is declared."""
    return published is not None and all(used.get(name) == value for name, value in published.items())
