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
    from sfumato.advising.compare import Comparison, compare
    from sfumato.advising.exposure import exposure
    from sfumato.advising.recommend import recommend
    from sfumato.advising.recommendation import Recommendation
    from sfumato.api.sanitize import certificate, commit, redraw, sanitize, show
    from sfumato.api.verify import Verification, verify
    from sfumato.auditing.audit import Audit, audit
    from sfumato.auditing.canary import canary
    from sfumato.auditing.figures.item import figure
    from sfumato.auditing.figures.principal_laplace import figure_filtering
    from sfumato.auditing.figures.random_rotation import figure_condensation
    from sfumato.auditing.find_person import find_person
    from sfumato.auditing.invariance import invariance, law
    from sfumato.core.errors import PrivacyLeakWarning, SfumatoError
    from sfumato.learn.cluster import cluster
    from sfumato.learn.model import Model, evaluate, load_model, predict
    from sfumato.learn.reconstruct import reconstruct
    from sfumato.learn.regress import regress
    from sfumato.learn.rules import rules
    from sfumato.learn.trade_off import trade_off
    from sfumato.learn.train import train
    from sfumato.ledger.asked import export_ledger, ledger_budget, ledger_keep, show_ledger
    from sfumato.release.noted import bound_ahead
    from sfumato.release.only_new import ledger_forget
    from sfumato.release.release import Release, open_release
    from sfumato.study.plan_counts import plan_counts
    from sfumato.study.rehearse_sites import Rehearsal, rehearse
    from sfumato.study.survey_plan import measure_survey, plan_survey, survey_edges
    from sfumato.table import Column, Schema, SqlQuery

_WHERE = {
    "sanitize": "sfumato.api.sanitize",
    "commit": "sfumato.api.sanitize",
    "redraw": "sfumato.api.sanitize",
    "show": "sfumato.api.sanitize",
    **dict.fromkeys(("show_ledger", "ledger_budget", "ledger_keep", "export_ledger"), "sfumato.ledger.asked"),
    "bound_ahead": "sfumato.release.noted",
    "ledger_forget": "sfumato.release.only_new",
    "open_release": "sfumato.release.release",
    "audit": "sfumato.auditing.audit",
    "canary": "sfumato.auditing.canary",
    "find_person": "sfumato.auditing.find_person",
    "train": "sfumato.learn.train",
    "predict": "sfumato.learn.model",
    "evaluate": "sfumato.learn.model",
    "load_model": "sfumato.learn.model",
    "reconstruct": "sfumato.learn.reconstruct",
    "plan_counts": "sfumato.study.plan_counts",
    "plan_survey": "sfumato.study.survey_plan",
    "measure_survey": "sfumato.study.survey_plan",
    "survey_edges": "sfumato.study.survey_plan",
    "cluster": "sfumato.learn.cluster",
    "law": "sfumato.auditing.invariance",
    "rules": "sfumato.learn.rules",
    "invariance": "sfumato.auditing.invariance",
    "figure": "sfumato.auditing.figures.item",
    "figure_filtering": "sfumato.auditing.figures.principal_laplace",
    "figure_condensation": "sfumato.auditing.figures.random_rotation",
    "regress": "sfumato.learn.regress",
    "trade_off": "sfumato.learn.trade_off",
    "certificate": "sfumato.api.sanitize",
    "compare": "sfumato.advising.compare",
    "Comparison": "sfumato.advising.compare",
    "recommend": "sfumato.advising.recommend",
    "rehearse": "sfumato.study.rehearse_sites",
    "Rehearsal": "sfumato.study.rehearse_sites",
    "Recommendation": "sfumato.advising.recommendation",
    "exposure": "sfumato.advising.exposure",
    "verify": "sfumato.api.verify",
    "Verification": "sfumato.api.verify",
    "Schema": "sfumato.table",
    "Column": "sfumato.table",
    "SqlQuery": "sfumato.table",
    "Release": "sfumato.release.release",
    "Audit": "sfumato.auditing.audit",
    "Model": "sfumato.learn.model",
    "SfumatoError": "sfumato.core.errors",
    "PrivacyLeakWarning": "sfumato.core.errors",
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
    "Verification",
    "__version__",
    "audit",
    "bound_ahead",
    "canary",
    "certificate",
    "cluster",
    "commit",
    "compare",
    "evaluate",
    "export_ledger",
    "exposure",
    "figure",
    "figure_condensation",
    "figure_filtering",
    "find_person",
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
    "verify",
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
