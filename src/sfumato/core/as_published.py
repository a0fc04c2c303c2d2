"""One switch, "as published": the paper's own variant in place of ours, wherever the two differ.

A mechanism, an attack or a classifier declares what its paper does (`published`, parameters by name). The switch puts
that in; a parameter of one's own that says otherwise is refused, so that the mark on card, audit and model is true.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sfumato.core.errors import UsageError


def as_published(
    owner: str, published: Mapping[str, Any] | None, given: Mapping[str, Any], among: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The given parameters with the paper's own beside them; refused where no paper has a variant (None).

    `among` are the owners that could have been chosen, for the refusal.

    >>> as_published("radius-vote", {"prior_correction": False}, {"n": 3})
    {'prior_correction': False, 'n': 3}
    """
    if published is None:
        have = [name for name, one in (among or {}).items() if one.published is not None]
        instead = f", or choose one of: {', '.join(have)}" if have else ""
        raise UsageError(f"No paper has a variant of {owner}. Leave --as-published out{instead}.")
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
