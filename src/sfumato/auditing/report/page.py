"""One audit, one page in three layers: the bottom line, the evidence, and all the rest for experts, closed.

Every section draws itself from the audit's plain JSON. No script, nothing from elsewhere, the same bytes each time.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from markupsafe import Markup

from sfumato.auditing.document import stated
from sfumato.auditing.report import bottom_line, evidence, markup
from sfumato.auditing.report.columns import accuracy_section, columns_section, correlations_section, use_section
from sfumato.auditing.report.markup import Section, Shown, drawn
from sfumato.core.errors import CardError, UsageError
from sfumato.core.files import check_free, file_digest, write_whole
from sfumato.core.svg import tag
from sfumato.core.wording import own_words, to_type
from sfumato.guarantee import Card
from sfumato.guarantee.card import EXPERIMENT, NOT_FOR_RELEASE
from sfumato.guarantee.words import owners_word
from sfumato.release.release import FILES, release_file
from sfumato.release.signature import COUNTS, signer_of
from sfumato.release.write_release import MODEL

AVERAGE = (
    "Average privacy",
    "Width of the interval that holds 95% of the errors of the strongest attacker on numbers, over the column's range, "
    "averaged over columns. Wider is safer. It is an average: a single person may be guessed much better.",
)
LOSS = (
    "Privacy loss",
    "1 - 2^-I, I being the bits that a released value tells of its own source, averaged over columns. Lower is safer. "
    "Each column is taken alone; together they tell more.",
)
UNIFIED = (
    "Multi-column guarantee",
    "Standard deviation of the error on the column guessed best, the lowest over all attackers tried here. Larger is "
    "safer. The paper calls it a guarantee; it is a measurement, and an attacker who was not tried may leave less.",
)
UNIFIED_AVERAGE = ("The same on average", "Over all columns, for the attacker who leaves least. Larger is safer.")
DENSITY_GAP = (
    "Gap of two density estimates",
    "Half the distance between the density that rows were drawn from and the same estimate from the people held apart. "
    "Both err, so it is not the paper's DAPL, which knows the true density; with eight columns or more it is near 1 "
    "whatever is done. It says nothing about the privacy of a person.",
)
FEW_COLUMNS = 12
"""A table of so many columns stands open."""


def measures_section(audit: Mapping[str, Any]) -> Section:
    """What the papers compare methods by."""
    found = shown_measures(audit.get("measures"))
    why = "" if found.figures else "none of them could be measured here"
    return drawn("measures", "The papers' measures", why, measures=found, few=FEW_COLUMNS)


def shown_measures(found: Mapping[str, Any] | None) -> Shown:
    """`figures`: name, sentence, value, and what it is read against. `columns`: by name what is told of each, source
    columns first, then the release's own, where it mixes them."""
    found = found or {}
    average, unified, channels = found.get("average_privacy"), found.get("unified"), found.get("channels") or ()
    figures = []
    if average:
        figures.append((*AVERAGE, markup.figure(average["width"]), _beside(average)))
    losses = [one["privacy_loss"] for one in channels if one.get("privacy_loss") is not None]
    if losses:
        below = f"{markup.figure(min(losses))} to {markup.figure(max(losses))}" if len(losses) > 1 else ""
        figures.append((*LOSS, markup.figure(sum(losses) / len(losses)), below))
    for words, name, plain in ((UNIFIED, "sigma_min", "minimum"), (UNIFIED_AVERAGE, "sigma_avg", "average")):
        if unified:
            below = f"{unified[f'{name}_attack']}; variance, weighted and capped: {markup.figure(unified[plain])}"
            figures.append((*words, markup.figure(unified[name]), below))
    if gap := found.get("density_gap") or found.get("dapl"):  # version 0.2 called it so
        figures.append((*DENSITY_GAP, markup.figure(gap["loss"]), f"standard error {markup.figure(gap['error'])}"))
    columns: dict[str, dict[str, Any]] = {}
    for one in (*(average or {}).get("columns", ()), *channels):
        columns.setdefault(one["name"], {}).update(one)
    return Shown(figures=figures, columns=columns)


def _beside(average: Mapping[str, Any]) -> str:
    """What average privacy is read against."""
    parts = [f"{average['attack']} leaves least"]
    if average.get("filtered") is not None and average["attack"] != "principal-filter":
        parts.append(f"{markup.figure(average['filtered'])} after filtering as in the paper")
    if average.get("width_of_mean") is not None:
        parts.append(f"{markup.figure(average['width_of_mean'])} by the mean alone")
    return "; ".join(parts)


CLOSED = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""Content-Security-Policy: the page loads nothing, runs nothing, sends nothing."""


def write_report(audit: Mapping[str, Any], path: Path) -> None:
    """Write the page whole; the owner's can be read by the owner alone."""
    write_whole(path, render_report(audit, path.absolute().parent.name), private=bottom_line.is_private(audit))


def render_report(audit: Mapping[str, Any], folder: str = "DIR") -> str:
    """The page as text. A section that does not apply is one line, which says why."""
    private = bottom_line.is_private(audit)
    release = dict.fromkeys(("rows", "source_columns", "label", "label_state", "created", "reproducible", "mechanism"))
    release |= audit.get("release") or {}
    measured = bottom_line.has_measured(audit)
    shown = EVIDENCE if measured else (evidence.guarantee_section,)
    experts = [draw(audit) for draw in (EXPERTS if measured else EXPERTS_OF_THE_RELEASE)]
    method = (release["mechanism"] or {}).get("name")
    notice = str(audit.get("notice") or "").removeprefix("Private: ")  # the banner begins with that word
    return markup.report_template("page.html.j2").render(
        policy=CLOSED,
        css=Markup(markup.report_text("page.css")),
        private=private,
        notice=notice[:1].upper() + notice[1:],
        release=release,
        not_for_release=NOT_FOR_RELEASE.get(release["reproducible"] or ""),
        title=f"Privacy audit: {method}" if method else "Privacy audit of a release without a card",
        lead=evidence.copied_rows(audit.get("copies")),
        bottom=bottom_line.bottom_line_html(audit, folder),
        evidence=[draw(audit) for draw in shown],
        experts=[one for one in experts if one.html],
        left_out=[one for one in experts if not one.html and one.why],
    )


def stated_section(audit: Mapping[str, Any], name: str, title: str, part: str) -> Section:
    """What the card says of its threat model."""
    told = (audit.get("threat_model") or {}).get(part) or ()
    return drawn(name, title, lines=[own_words(str(line)) for line in told])


def settings_section(audit: Mapping[str, Any]) -> Section:
    """How the release was made and how it was audited."""
    release, made = audit.get("release") or {}, []
    if mechanism := release.get("mechanism") or {}:
        told = _parameters(mechanism)
        published = "as published" if mechanism.get("as_published") else ""
        parts = [str(mechanism["name"]), f"({told})" if told else "", published]
        made.append(("Method", " ".join(filter(None, parts))))
    named = {"columns": "Columns of the release", "post_processing": "Post-processing", "space": "Fits together with"}
    made += [(words, str(release[name])) for name, words in named.items() if release.get(name)]
    if papers := release.get("papers"):
        made.append(("Papers", ", ".join(papers)))
    versions = [(str(name), str(value)) for name, value in (audit.get("versions") or {}).items()]
    rows = [*made, *markup.setting_rows(audit.get("settings") or {}), *versions]
    return drawn("settings", "Settings and notes", notes=list(audit.get("notes") or ()), rows=rows)


def _parameters(mechanism: Mapping[str, Any]) -> str:
    """Those that have a value, as text."""
    used = {name: value for name, value in (mechanism.get("parameters") or {}).items() if value is not None}
    return own_words(", ".join(f"{name} = {f'{x:.6g}' if isinstance(x, float) else x}" for name, x in used.items()))


EVIDENCE = (evidence.strongest_section, use_section, evidence.guarantee_section)
EXPERTS_OF_THE_RELEASE = (
    evidence.crowds_section,
    columns_section,
    correlations_section,
    partial(stated_section, name="threat", title="The threat model", part="adversary"),
    partial(stated_section, name="limits", title="What is not protected", part="not_protected"),
    settings_section,
)
"""What follows from the released files alone."""
EXPERTS = (
    evidence.attackers_section,
    evidence.exposed_section,
    evidence.riskiest_section,
    evidence.copies_section,
    evidence.fidelity_section,
    measures_section,
    accuracy_section,
    *EXPERTS_OF_THE_RELEASE,
)


SHARED = (*FILES, "card.json", MODEL, COUNTS)
"""What may lie in the folder of a release, and is no secret."""


def write_certificate(folder: Path, out: Path | None = None, *, with_audit: bool = False, force: bool = False) -> Path:
    """Write the release in `folder` on one page to print; with a private audit on it the page is the owner's alone."""
    target = out or folder / "certificate.html"
    check_free(target, force=force)
    if Card.load(folder).reproducible == EXPERIMENT:
        raise CardError(
            f"{folder} is an experiment, not for release: it is not certified. Release it without --experiment."
        )
    audit, path = None, folder / "audit.json"
    if with_audit and not path.is_file():
        raise UsageError(
            f"There is no audit in {folder}. Leave --with-audit out, or make one: "
            f"{to_type('audit', folder, original='TABLE')}"
        )
    if with_audit:
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            audit = {**found, "attacks": list(found["attacks"])}
        except (ValueError, TypeError, KeyError):
            raise CardError(f"The audit {path} cannot be read: it is damaged. Audit the release again.") from None
    write_whole(target, render_certificate(folder, audit), private=audit is not None and bottom_line.is_private(audit))
    return target


def render_certificate(folder: Path, audit: Mapping[str, Any] | None = None) -> str:
    """The page as text: what follows from the card and the released files, and what was measured where it is given."""
    card, key = Card.load(folder), signer_of(folder, release_file(folder))
    told: dict[str, Any] = {"private": False, "guarantee": card.stated_guarantee().to_dict(), "release": stated(card)}
    beside = () if audit is None else bottom_line.measured(audit)
    return markup.report_template("certificate.html.j2").render(
        policy=CLOSED,
        css=Markup(markup.report_text("page.css")),
        card=card,
        not_for_release=NOT_FOR_RELEASE.get(card.reproducible or ""),
        bottom_line=bottom_line.rows_html(bottom_line.for_others(told, beside)),
        lead="" if audit is None else evidence.copied_rows(audit.get("copies")),
        columns=len(card.release_schema["columns"]),
        label=card.release_schema["label"],
        guarantee=evidence.shown_guarantee(told["guarantee"], card.earlier_releases),
        owners_word=owners_word(card.source_schema),
        private=audit is not None and bottom_line.is_private(audit),
        not_protected=list(card.threat_model["not_protected"]),
        hashes=[(name, file_digest(folder / name)) for name in SHARED if (folder / name).is_file()],
        signer=None if key is None else signer_html(key.fingerprint),
    )


def signer_html(fingerprint: str) -> Markup:
    """A fingerprint as words to read out and as a QR code to scan: dark on white also on a dark page, since readers
    expect it."""
    import segno  # for this alone

    words = tag("ol", *(tag("li", word) for word in fingerprint.split("-")))
    drawn = segno.make_qr(fingerprint.upper()).svg_inline(omitsize=True, light="#fff", svgclass="qr", lineclass=None)
    code = tag("div", Markup(drawn), role="img", aria_label="The same fingerprint as a QR code")
    return tag("div", code, words, class_="signer")


def verified_page(found: object, signed_by: str | None) -> str:
    """What a check of a release found, as one page."""
    return markup.report_template("verified.html.j2").render(
        policy=CLOSED,
        css=Markup(markup.report_text("page.css")),
        found=found,
        signer=None if signed_by is None else signer_html(signed_by),
    )
