"""How fast a long job goes, and when it will be done."""

from __future__ import annotations

import time
from collections.abc import Callable

ROW_STEPS = ("Reading", "Measuring", "Counting", "Guiding", "Comparing", "Perturbing", "Writing")
"""Steps that count rows; what others count is their own."""


class Pace:
    """Rows per second and time left of every step, counted from when a step was first heard of."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began: dict[str, tuple[float, int]] = {}

    def __call__(self, step: str, done: int, total: int | None) -> str:
        """In words; nothing where there is nothing to tell yet."""
        if step not in ROW_STEPS:
            return ""
        now = self._clock()
        at, before = self._began.setdefault(step, (now, done))
        if done < before:  # another pass of the same name
            self._began[step] = at, before = now, done
        if done == before or now <= at:
            return ""
        rate = (done - before) / (now - at)
        left = "" if total is None else f", {_clock_time((total - done) / rate)} left"
        return f"{rate:,.0f} rows/s{left}"


def _clock_time(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
