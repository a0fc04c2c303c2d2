"""Where modules are now whose classes are named in files of earlier versions: models, and notes of killed runs."""

from __future__ import annotations

MOVED = {
    "sfumato.classifiers": "sfumato.learn.classifiers",
    "sfumato.jobs.engines": "sfumato.release.engines",
    "sfumato.release.engines.fit": "sfumato.release.engines.passes",
    "sfumato.statistics": "sfumato.table.statistics",
    "sfumato.table.statistics.by_class": "sfumato.table.statistics",
    "sfumato.table.statistics.counts": "sfumato.table.statistics",
    "sfumato.table.statistics.moments": "sfumato.table.statistics",
    "sfumato.learn.classifiers.assignment": "sfumato.learn.classifiers.on_reconstruction",
    "sfumato.learn.classifiers.checked_rows": "sfumato.learn.classifiers.reads_noise",
    "sfumato.learn.classifiers.label_noise": "sfumato.learn.classifiers.reads_noise",
}
"""In this order: first rooms that moved, then modules that were joined."""


def module_now(name: str) -> str:
    """The module that has the classes of the one of this name, which may have moved since."""
    for old, new in MOVED.items():
        if name == old or name.startswith(f"{old}."):
            name = new + name.removeprefix(old)
    return name
