"""compare.json -> one self-contained private page: use against extra, all settings, and every attacker of each.

A script of the page's own filters and opens cells. It is named by its hash in the page's policy, so that nothing else
can run, and nothing is ever loaded or sent. Without it all figures are there.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from markupsafe import Markup

from sfumato.attacks import ATTACKS
from sfumato.attacks.base import INFERENCE
from sfumato.files import write_whole
from sfumato.jobs.auditing.attacking import story_of
from sfumato.jobs.auditing.extra import RISKS
from sfumato.report.frontier import FORMAL, Shown, claimed_epsilon, frontier, gained, in_order, within
from sfumato.report.markup import report_template, report_text
from sfumato.report.page import CLOSED
from sfumato.wording import MEASURED, PROVED, QUESTIONS


def write_comparison(data: Shown, path: Path) -> None:
    """Write the page whole, for the owner alone."""
    write_whole(path, render_comparison(data), private=True)


def render_comparison(data: Shown) -> str:
    """The page as text."""
    measured = [one for one in data["settings"] if one["refused"] is None]
    measured.sort(key=lambda one: (one["mechanism"], one["openness"]))
    names = sorted({name for one in measured for name in one["extras"]})
    believed = {risk: [name for name in names if _risk(name) == risk] for risk in RISKS}
    attacks = [name for group in believed.values() for name in group]
    script = report_text("comparison.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return report_template("compare.html.j2").render(
        policy=f"{CLOSED}; script-src 'sha256-{digest}'",
        css=Markup(report_text("page.css") + report_text("comparison.css")),
        script=Markup(script),
        figures=_figures(data, measured, attacks),
        data=data,
        measured=measured,
        attacks=attacks,
        believed={risk: group for risk, group in believed.items() if group},
        learners=sorted({name for one in measured for name in one["learners"]}),
        shouted=[one for one in measured if one["above_claim"]],
        frontier=frontier(measured, data["limit"]),
        order=in_order(measured),
        questions=QUESTIONS,
        gained=gained,
        within=within,
        epsilon=claimed_epsilon,
        formal=FORMAL,
        proved=PROVED,
        not_proved=MEASURED,
    )


def _risk(attack: str) -> str:
    """Which of the three risks it plays; one that is no longer there wanted values, as most do."""
    return ATTACKS[attack].risk if attack in ATTACKS else INFERENCE


def _figures(data: Shown, measured: Sequence[Shown], attacks: Sequence[str]) -> Markup:
    """What the script needs, as JSON that cannot end its element."""
    columns = list(data["column_names"])
    found = {
        "columns": columns,
        "limit": data["limit"],
        "kinds": {name: _risk(name) for one in measured for name in (*one["extras"], *one["not_applicable"])},
        "stories": {name: story_of(ATTACKS[name]) for name in attacks if name in ATTACKS},
        "settings": [
            {
                "name": one["mechanism"],
                "setting": one["setting"],
                "learners": one["learners"],
                "majority": one["majority"],
                "extras": one["extras"],
                "columns": {name: _in_order(own, columns) for name, own in one["extra_columns"].items() if own},
                "exposed": one["exposed"],
                "reasons": one["not_applicable"],
            }
            for one in measured
        ],
    }
    return Markup(json.dumps(found, separators=(",", ":")).replace("<", "\\u003c"))


def _in_order(extras: Mapping[str, float], columns: Sequence[str]) -> list[float | None]:
    return [round(extras[name], 2) if name in extras else None for name in columns]
