"""Sfumato: learn from private tables without seeing the people in them.

>>> import sfumato as sf
>>> people = {"age": [34, 61, 47, 29, 52] * 20, "ill": ["no", "yes", "yes", "no", "no"] * 20}
>>> release = sf.sanitize(people, label="ill", mechanism="additive-noise", seed=1)
>>> len(release.table)
100

`sf.sanitize`, `sf.audit`, `sf.train`, `sf.predict`, `sf.evaluate` and `sf.reconstruct` take data frames, Arrow tables
or paths. Each is imported when it is first used.
"""

from __future__ import annotations

__version__ = "0.2.0"

TYPE_CHECKING = False  # what type checkers take for true; `typing` would be most of the time that an import takes
if TYPE_CHECKING:
    from sfumato.door.audit import Audit, audit, certificate
    from sfumato.door.canary import canary, figure_condensation, figure_filtering, invariance, law
    from sfumato.door.compare import Comparison, compare
    from sfumato.door.learn import Model, evaluate, load_model, predict, reconstruct, train
    from sfumato.door.ledger import export_ledger, ledger_budget, ledger_forget, ledger_keep, show_ledger
    from sfumato.door.mine import cluster, regress, rules
    from sfumato.door.plan_counts import plan_counts
    from sfumato.door.recommend import recommend
    from sfumato.door.redraw import redraw
    from sfumato.door.sanitize import sanitize, show
    from sfumato.door.survey import measure_survey, plan_survey, survey_edges
    from sfumato.door.trade_off import Rehearsal, rehearse, trade_off
    from sfumato.errors import PrivacyLeakWarning, SfumatoError
    from sfumato.jobs.advising.recommendation import Recommendation
    from sfumato.jobs.release import Release, open_release
    from sfumato.table import Column, Schema, SqlQuery

_WHERE = {
    "sanitize": "sfumato.door.sanitize",
    "redraw": "sfumato.door.redraw",
    "show": "sfumato.door.sanitize",
    **dict.fromkeys(
        ("show_ledger", "ledger_budget", "ledger_keep", "ledger_forget", "export_ledger"), "sfumato.door.ledger"
    ),
    "open_release": "sfumato.jobs.release",
    "audit": "sfumato.door.audit",
    "canary": "sfumato.door.canary",
    "train": "sfumato.door.learn",
    "predict": "sfumato.door.learn",
    "evaluate": "sfumato.door.learn",
    "load_model": "sfumato.door.learn",
    "reconstruct": "sfumato.door.learn",
    "plan_counts": "sfumato.door.plan_counts",
    "plan_survey": "sfumato.door.survey",
    "measure_survey": "sfumato.door.survey",
    "survey_edges": "sfumato.door.survey",
    "cluster": "sfumato.door.mine",
    "law": "sfumato.door.canary",
    "rules": "sfumato.door.mine",
    "invariance": "sfumato.door.canary",
    "figure_filtering": "sfumato.door.canary",
    "figure_condensation": "sfumato.door.canary",
    "regress": "sfumato.door.mine",
    "trade_off": "sfumato.door.trade_off",
    "certificate": "sfumato.door.audit",
    "compare": "sfumato.door.compare",
    "Comparison": "sfumato.door.compare",
    "recommend": "sfumato.door.recommend",
    "rehearse": "sfumato.door.trade_off",
    "Rehearsal": "sfumato.door.trade_off",
    "Recommendation": "sfumato.jobs.advising.recommendation",
    "Schema": "sfumato.table",
    "Column": "sfumato.table",
    "SqlQuery": "sfumato.table",
    "Release": "sfumato.jobs.release",
    "Audit": "sfumato.door.audit",
    "Model": "sfumato.door.learn",
    "SfumatoError": "sfumato.errors",
    "PrivacyLeakWarning": "sfumato.errors",
}

__all__ = [
    "Audit",
    "Column",
    "Comparison",
    "Model",
    "PrivacyLeakWarning",
    "Recommendation",
    "Rehearsal",
    "Release",
    "Schema",
    "SfumatoError",
    "SqlQuery",
    "__version__",
    "audit",
    "canary",
    "certificate",
    "cluster",
    "compare",
    "evaluate",
    "export_ledger",
    "figure_condensation",
    "figure_filtering",
    "invariance",
    "law",
    "ledger_budget",
    "ledger_forget",
    "ledger_keep",
    "load_model",
    "measure_survey",
    "open_release",
    "plan_counts",
    "plan_survey",
    "predict",
    "recommend",
    "reconstruct",
    "redraw",
    "regress",
    "rehearse",
    "rules",
    "sanitize",
    "show",
    "show_ledger",
    "survey_edges",
    "trade_off",
    "train",
]


def __getattr__(name: str) -> object:
    """Import what is asked for; `import sfumato` alone takes a millisecond."""
    if name not in _WHERE:
        raise AttributeError(f"module 'sfumato' has no attribute {name!r}")
    from importlib import import_module

    found = getattr(import_module(_WHERE[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return __all__
