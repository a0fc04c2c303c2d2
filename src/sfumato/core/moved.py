"""Where modules are now whose classes are named in files of earlier versions: models, and notes of killed runs."""

from __future__ import annotations

MOVED = {
    "sfumato.classifiers": "sfumato.learn.classifiers",
    "sfumato.jobs.engines": "sfumato.release.engines",
    "sfumato.release.engines.fit": "sfumato.release.source",
    "sfumato.mechanisms.row_drawing": "sfumato.mechanisms.kernel_resampling",
    "sfumato.mechanisms.basis": "sfumato.mechanisms.principal_laplace",
    "sfumato.mechanisms.additive_noise": "sfumato.mechanisms.column_noise",
    "sfumato.mechanisms.noisy_operator": "sfumato.mechanisms.column_noise",
    "sfumato.mechanisms.randomized_response": "sfumato.mechanisms.column_noise",
    "sfumato.mechanisms.piecewise_noise": "sfumato.mechanisms.reported_columns",
    "sfumato.mechanisms.staged_release": "sfumato.mechanisms.reported_columns",
    "sfumato.noise.own_laws": "sfumato.noise.law",
    "sfumato.statistics": "sfumato.table.statistics",
    "sfumato.table.statistics.by_class": "sfumato.table.statistics",
    "sfumato.table.statistics.counts": "sfumato.table.statistics",
    "sfumato.table.statistics.moments": "sfumato.table.statistics",
    "sfumato.learn.classifiers.assignment": "sfumato.learn.classifiers.on_reconstruction",
    "sfumato.learn.classifiers.checked_rows": "sfumato.learn.classifiers.reads_noise",
    "sfumato.learn.classifiers.auto": "sfumato.learn.classifiers.training",
    "sfumato.learn.classifiers.blend": "sfumato.learn.classifiers.training",
    "sfumato.learn.classifiers.empirical_bayes_naive_bayes": "sfumato.learn.classifiers.empirical_bayes",
    "sfumato.learn.classifiers.hyperplanes": "sfumato.learn.classifiers.geometric",
    "sfumato.learn.classifiers.kernel_smoother": "sfumato.learn.classifiers.geometric",
    "sfumato.learn.classifiers.label_noise": "sfumato.learn.classifiers.reads_noise",
    "sfumato.learn.classifiers.mixed_naive_bayes": "sfumato.learn.classifiers.survey_bits",
    "sfumato.learn.classifiers.nearest_vote": "sfumato.learn.classifiers.geometric",
    "sfumato.learn.classifiers.reconstructed_naive_bayes": "sfumato.learn.classifiers.on_reconstruction",
}
"""In this order: first rooms that moved, then modules that were joined."""


def module_now(name: str) -> str:
    """The module that has the classes of the one of this name, which may have moved since."""
    for old, new in MOVED.items():
        if name == old or name.startswith(f"{old}."):
            name = new + name.removeprefix(old)
    return name
