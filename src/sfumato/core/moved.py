"""Where modules are now whose classes are named in files of earlier versions: models, and notes of killed runs."""

from __future__ import annotations

MOVED = {
    "sfumato.classifiers": "sfumato.learn.classifiers",
    "sfumato.jobs.engines": "sfumato.release.engines",
    "sfumato.statistics": "sfumato.table.statistics",
    "sfumato.statistics.counts": "sfumato.table.statistics.by_class",
}


def module_now(name: str) -> str:
    """The module that has the classes of the one of this name, which may have moved since."""
    for old in sorted(MOVED, key=len, reverse=True):
        if name == old or name.startswith(f"{old}."):
            return MOVED[old] + name.removeprefix(old)
    return name
