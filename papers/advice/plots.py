"""No figures: the page has tables alone."""

from __future__ import annotations

from typing import Any


def figures(results: Any) -> dict[str, Any]:  # noqa: ARG001
    return {}
