"""One audit, one page in three layers: the bottom line, the evidence, and all the rest for experts, closed.

Every section draws itself from the audit's plain JSON. No script, nothing from elsewhere, the same bytes each time.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from markupsafe import Markup

from sfumato.files import write_whole
from sfumato.guarantee.own_words import own_words
from sfumato.report.accuracy import accuracy_section, use_section
from sfumato.report.attacks import attackers_section
from sfumato.report.bottom_line import bottom_line_html, has_measured, is_private
from sfumato.report.columns import columns_section
from sfumato.report.comparison_parts import copied_rows, copies_section, crowds_section, fidelity_section
from sfumato.report.correlations import correlations_section
from sfumato.report.exposed import exposed_section, riskiest_section
from sfumato.report.guarantee import guarantee_section
from sfumato.report.markup import Section, drawn, report_template, report_text
from sfumato.report.measures import measures_section
from sfumato.report.strongest import strongest_section
from sfumato.report.wording import setting_rows

CLOSED = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""Content-Security-Policy: the page loads nothing, runs nothing, sends nothing."""


def write_report(audit: Mapping[str, Any], path: Path) -> None:
    """Write the page whole; the owner's can be read by the owner alone."""
    write_whole(path, render_report(audit, path.absolute().parent.name), private=is_private(audit))


def render_report(audit: Mapping[str, Any], folder: str = "DIR") -> str:
    """The page as text. A section that does not apply is one line, which says why."""
    private = is_private(audit)
    release = dict.fromkeys(("rows", "source_columns", "label", "label_state", "created", "reproducible"))
    release |= audit.get("release") or {}
    experts = [draw(audit) for draw in (EXPERTS if has_measured(audit) else EXPERTS_OF_THE_RELEASE)]
    return report_template("page.html.j2").render(
        policy=CLOSED,
        css=Markup(report_text("page.css")),
        private=private,
        notice=notice(audit),
        release=release,
        title=title(release),
        lead=copied_rows(audit.get("copies")),
        bottom=bottom_line_html(audit, folder),
        evidence=[draw(audit) for draw in (EVIDENCE if has_measured(audit) else (guarantee_section,))],
        experts=[one for one in experts if one.html],
        left_out=[one for one in experts if not one.html and one.why],
    )


def threat_section(audit: Mapping[str, Any]) -> Section:
    """Who the attacker is assumed to be."""
    return drawn("threat", "The threat model", lines=_stated(audit, "adversary"))


def limits_section(audit: Mapping[str, Any]) -> Section:
    """What no figure of the page covers."""
    return drawn("limits", "What is not protected", lines=_stated(audit, "not_protected"))


def settings_section(audit: Mapping[str, Any]) -> Section:
    """How the release was made and how it was audited."""
    release = audit.get("release") or {}
    mechanism = release.get("mechanism") or {}
    made = []
    if mechanism:
        parts = [
            f"({used})" if (used := _parameters(mechanism)) else "",
            "as published" if mechanism.get("as_published") else "",
        ]
        made.append(("Method", " ".join([str(mechanism["name"]), *filter(None, parts)])))
    named = {"columns": "Columns of the release", "post_processing": "Post-processing", "space": "Fits together with"}
    made += [(words, str(release[name])) for name, words in named.items() if release.get(name)]
    if papers := release.get("papers"):
        made.append(("Papers", ", ".join(papers)))
    versions = [(str(name), str(value)) for name, value in (audit.get("versions") or {}).items()]
    rows = [*made, *setting_rows(audit.get("settings") or {}), *versions]
    return drawn("settings", "Settings and notes", notes=list(audit.get("notes") or ()), rows=rows)


EVIDENCE = (strongest_section, use_section, guarantee_section)
EXPERTS_OF_THE_RELEASE = (
    crowds_section,
    columns_section,
    correlations_section,
    threat_section,
    limits_section,
    settings_section,
)
"""What follows from the released files alone."""
EXPERTS = (
    attackers_section,
    exposed_section,
    riskiest_section,
    copies_section,
    fidelity_section,
    measures_section,
    accuracy_section,
    *EXPERTS_OF_THE_RELEASE,
)


def notice(audit: Mapping[str, Any]) -> str:
    """What the audit says of who may see it, without the word that the banner begins with."""
    text = str(audit.get("notice") or "").removeprefix("Private: ")
    return text[:1].upper() + text[1:]


def title(release: Mapping[str, Any]) -> str:
    mechanism = (release.get("mechanism") or {}).get("name")
    return f"Privacy audit: {mechanism}" if mechanism else "Privacy audit of a release without a card"


def _stated(audit: Mapping[str, Any], part: str) -> list[str]:
    return [own_words(str(line)) for line in (audit.get("threat_model") or {}).get(part) or ()]


def _parameters(mechanism: Mapping[str, Any]) -> str:
    used = {name: value for name, value in (mechanism.get("parameters") or {}).items() if value is not None}
    return own_words(
        ", ".join(f"{name} = {f'{value:.6g}' if isinstance(value, float) else value}" for name, value in used.items())
    )
