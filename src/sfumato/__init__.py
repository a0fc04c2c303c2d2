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
    from sfumato.advising.compare import Comparison as Comparison
    from sfumato.advising.compare import compare as compare
    from sfumato.advising.recommend import exposure as exposure
    from sfumato.advising.recommend import recommend as recommend
    from sfumato.advising.recommendation import Recommendation as Recommendation
    from sfumato.api.sanitize import certificate as certificate
    from sfumato.api.sanitize import commit as commit
    from sfumato.api.sanitize import redraw as redraw
    from sfumato.api.sanitize import sanitize as sanitize
    from sfumato.api.sanitize import show as show
    from sfumato.api.verify import Verification as Verification
    from sfumato.api.verify import verify as verify
    from sfumato.auditing.audit import Audit as Audit
    from sfumato.auditing.audit import audit as audit
    from sfumato.auditing.canary import canary as canary
    from sfumato.auditing.figures.item import figure as figure
    from sfumato.auditing.figures.principal_laplace import figure_filtering as figure_filtering
    from sfumato.auditing.figures.random_rotation import figure_condensation as figure_condensation
    from sfumato.auditing.find_person import find_person as find_person
    from sfumato.auditing.invariance import invariance as invariance
    from sfumato.auditing.invariance import law as law
    from sfumato.core.errors import PrivacyLeakWarning as PrivacyLeakWarning
    from sfumato.core.errors import SfumatoError as SfumatoError
    from sfumato.learn.cluster import cluster as cluster
    from sfumato.learn.model import Model as Model
    from sfumato.learn.model import evaluate as evaluate
    from sfumato.learn.model import load_model as load_model
    from sfumato.learn.model import predict as predict
    from sfumato.learn.reconstruct import reconstruct as reconstruct
    from sfumato.learn.regress import regress as regress
    from sfumato.learn.rules import rules as rules
    from sfumato.learn.trade_off import trade_off as trade_off
    from sfumato.learn.train import train as train
    from sfumato.ledger.asked import export_ledger as export_ledger
    from sfumato.ledger.asked import ledger_budget as ledger_budget
    from sfumato.ledger.asked import ledger_keep as ledger_keep
    from sfumato.ledger.asked import show_ledger as show_ledger
    from sfumato.release.noted import bound_ahead as bound_ahead
    from sfumato.release.only_new import ledger_forget as ledger_forget
    from sfumato.release.release import Release as Release
    from sfumato.release.release import open_release as open_release
    from sfumato.study.plan_counts import plan_counts as plan_counts
    from sfumato.study.rehearse_sites import Rehearsal as Rehearsal
    from sfumato.study.rehearse_sites import rehearse as rehearse
    from sfumato.study.survey_plan import measure_survey as measure_survey
    from sfumato.study.survey_plan import plan_survey as plan_survey
    from sfumato.study.survey_plan import survey_edges as survey_edges
    from sfumato.table import Column as Column
    from sfumato.table import Schema as Schema
    from sfumato.table import SqlQuery as SqlQuery

_NAMES = {
    "advising.compare": ("Comparison", "compare"),
    "advising.recommend": ("exposure", "recommend"),
    "advising.recommendation": ("Recommendation",),
    "api.sanitize": ("certificate", "commit", "redraw", "sanitize", "show"),
    "api.verify": ("Verification", "verify"),
    "auditing.audit": ("Audit", "audit"),
    "auditing.canary": ("canary",),
    "auditing.figures.item": ("figure",),
    "auditing.figures.principal_laplace": ("figure_filtering",),
    "auditing.figures.random_rotation": ("figure_condensation",),
    "auditing.find_person": ("find_person",),
    "auditing.invariance": ("invariance", "law"),
    "core.errors": ("PrivacyLeakWarning", "SfumatoError"),
    "learn.cluster": ("cluster",),
    "learn.model": ("Model", "evaluate", "load_model", "predict"),
    "learn.reconstruct": ("reconstruct",),
    "learn.regress": ("regress",),
    "learn.rules": ("rules",),
    "learn.trade_off": ("trade_off",),
    "learn.train": ("train",),
    "ledger.asked": ("export_ledger", "ledger_budget", "ledger_keep", "show_ledger"),
    "release.noted": ("bound_ahead",),
    "release.only_new": ("ledger_forget",),
    "release.release": ("Release", "open_release"),
    "study.plan_counts": ("plan_counts",),
    "study.rehearse_sites": ("Rehearsal", "rehearse"),
    "study.survey_plan": ("measure_survey", "plan_survey", "survey_edges"),
    "table": ("Column", "Schema", "SqlQuery"),
}
_WHERE = {name: f"sfumato.{module}" for module, names in _NAMES.items() for name in names}

if not TYPE_CHECKING:  # for type checkers the imports above are all: of a list that is computed they would know nothing
    __all__ = sorted((*_WHERE, "__version__"))


def __getattr__(name: str) -> object:
    """Import what is asked for; `import sfumato` alone takes a millisecond."""
    if name not in _WHERE:
        raise AttributeError(f"module 'sfumato' has no attribute {name!r}")
    from importlib import import_module

    found = getattr(import_module(_WHERE[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return [*_WHERE, "__version__"]
