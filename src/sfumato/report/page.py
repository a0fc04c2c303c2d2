"""One audit, one page: no script, nothing from elsewhere, the same bytes for the same audit."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from markupsafe import Markup

from sfumato.files import write_whole
from sfumato.guarantee.own_words import own_words
from sfumato.report.accuracy import commonest_mark, learned, original_mark, release_mark
from sfumato.report.attack_chart import baseline_mark, control_mark, interval_mark
from sfumato.report.attacks import grouped_reasons, told_attacks
from sfumato.report.bottom_line import bottom_line_html
from sfumato.report.columns import pictures
from sfumato.report.comparison_parts import copied_rows, shown_copies, shown_crowds, shown_fidelity
from sfumato.report.correlations import correlation_maps
from sfumato.report.exposed import exposure
from sfumato.report.guarantee import shown_guarantee
from sfumato.report.markup import report_template, report_text, tag
from sfumato.report.measures import shown_measures
from sfumato.report.riskiest import riskiest_rows
from sfumato.report.three_risks import three_risks
from sfumato.report.verdict import in_all
from sfumato.report.wording import figure, setting_rows

CLOSED = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""Content-Security-Policy: the page loads nothing, runs nothing, sends nothing."""
# What a part that the audit does not hold looks like.
NO_RELEASE: dict[str, Any] = {
    **dict.fromkeys(["rows", "columns", "source_columns", "label", "label_state", "columnwise", "mechanism", "space"]),
    **dict.fromkeys(["created", "reproducible", "post_processing", "papers", "earlier_releases", "owners_word"]),
}


def write_report(audit: Mapping[str, Any], path: Path) -> None:
    """Write the page whole; the owner's can be read by the owner alone."""
    write_whole(path, render_report(audit, path.absolute().parent.name), private=is_private(audit))


def render_report(audit: Mapping[str, Any], folder: str = "DIR") -> str:
    """The page as text. Parts that the audit does not hold are left out, and the page says so."""
    private = is_private(audit)
    attacks = list(audit.get("attacks") or ())
    release = {**NO_RELEASE, **(audit.get("release") or {})}
    distributions = list(audit.get("distributions") or ())
    settings = audit.get("settings") or {}
    copied, copies_why = shown_copies(audit.get("copies"))
    told = told_attacks(attacks, settings.get("tolerance"))
    return report_template("page.html.j2").render(
        policy=CLOSED,
        css=Markup(report_text("page.css")),
        private=private,
        notice=notice(audit),
        release=release,
        title=title(release),
        parameters=_parameters(release.get("mechanism") or {}),
        guarantee=shown_guarantee(audit.get("guarantee"), release["earlier_releases"]),
        bottom=bottom_line_html(audit, folder),
        lead=copied_rows(audit.get("copies")),
        risks=three_risks(attacks),
        measures=shown_measures(audit.get("measures")),
        copies=copied,
        copies_why=copies_why,
        crowds=shown_crowds(audit.get("uniqueness")),
        fidelity=shown_fidelity(audit.get("fidelity")),
        told=told,
        told_in_all=in_all(attack.verdict for attack in told),
        not_applicable=grouped_reasons(attacks),
        failed=[entry for entry in attacks if entry.get("failed")],
        exposed=exposure(attacks, int(settings.get("rows_used") or 0)),
        riskiest=riskiest_rows(audit.get("riskiest") or (), release["source_columns"] or ()) if private else [],
        pictures=pictures(distributions, private=private),
        columns_in_all=len(distributions),
        has_original=private and any(entry.get("original") is not None for entry in distributions),
        maps=correlation_maps(audit.get("correlations") or {}, private=private),
        learned=learned(audit.get("utility") or ()),
        threat=_threat(audit.get("threat_model") or {}),
        settings=setting_rows(settings),
        has_control=any(entry.get("control") is not None for entry in attacks),
        notes=list(audit.get("notes") or ()),
        versions=audit.get("versions") or {},
        marks=_marks(),
        figure=figure,
    )


def is_private(audit: Mapping[str, Any]) -> bool:
    """Only an audit that says it is public is public."""
    return audit.get("private") is not False


def notice(audit: Mapping[str, Any]) -> str:
    """What the audit says of who may see it, without the word that the banner begins with."""
    text = str(audit.get("notice") or "").removeprefix("Private: ")
    return text[:1].upper() + text[1:]


def title(release: Mapping[str, Any]) -> str:
    mechanism = (release.get("mechanism") or {}).get("name")
    return f"Privacy audit: {mechanism}" if mechanism else "Privacy audit of a release without a card"


def _threat(stated: Mapping[str, Any]) -> dict[str, list[str]]:
    return {part: [own_words(str(line)) for line in stated.get(part) or ()] for part in ("adversary", "not_protected")}


def _parameters(mechanism: Mapping[str, Any]) -> str:
    used = {name: value for name, value in (mechanism.get("parameters") or {}).items() if value is not None}
    return own_words(
        ", ".join(f"{name} = {f'{value:.6g}' if isinstance(value, float) else value}" for name, value in used.items())
    )


def _marks() -> dict[str, Markup]:
    """The signs of the legends."""
    drawn = {"baseline": baseline_mark(), "control": control_mark(), "ring": original_mark(), "diamond": release_mark()}
    drawn |= {"whisker": interval_mark(), "commonest": commonest_mark()}
    return {name: _sign(mark) for name, mark in drawn.items()}


def _sign(mark: Markup) -> Markup:
    return tag("svg", mark, viewBox="-12 -12 24 24", width=20, height=20, class_="sign", aria_hidden="true")
