"""Which cases of a slow test run every day, with `make test`; the others wait for `make test-all`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def first_daily(cases: Iterable[Any], daily: int = 1) -> list[Any]:
    """The cases, all but the first few of them marked as slow."""
    first, *rest = [case if isinstance(case, tuple) else (case,) for case in cases]
    marks = [() if place < daily else pytest.mark.system for place in range(len(rest) + 1)]
    return [pytest.param(*case, marks=mark) for case, mark in zip([first, *rest], marks, strict=True)]
