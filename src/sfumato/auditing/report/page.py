"""One audit, one page in three layers: the bottom line, the evidence, and all the rest for experts, closed.

Every section draws itself from the audit's plain JSON. No script, nothing from elsewhere, the same bytes each time.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from markupsafe import Markup

from sfumato.auditing.document import stated
from sfumato.auditing.report.bottom_line import (
    bottom_line_html,
    for_others,
    has_measured,
    is_private,
    measured,
    rows_html,
)
from sfumato.auditing.report.columns import accuracy_section, columns_section, correlations_section, use_section
from sfumato.auditing.report.guarantee import (
    copied_rows,
    copies_section,
    crowds_section,
    fidelity_section,
    guarantee_section,
    shown_guarantee,
)
from sfumato.auditing.report.markup import (
    GAINS,
    IN_SHORT,
    SIGNS,
    Section,
    Shown,
    bar,
    column_verdict,
    drawn,
    legend,
    report_template,
    report_text,
)
from sfumato.auditing.report.strongest import attackers_section, counts_values, extra, strongest_section
from sfumato.auditing.report.wording import DASH, figure, of_100, setting_rows
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

# Which columns and which records the release gives away: for the owner's eyes, records by their row numbers.


MOST_EXPOSED = 12


def exposed_section(audit: Mapping[str, Any]) -> Section:
    """For each column the attacker on values who gets most extra."""
    attacks = list(audit.get("attacks") or ())
    found = exposure(attacks, int((audit.get("settings") or {}).get("rows_used") or 0))
    title = "Which columns reveal most"
    if not found.columns and not found.spared:
        return Section("exposed", title, why="no attacker on values ran")
    return drawn("exposed", title, exposed=found, legend=legend(attacks))


def riskiest_section(audit: Mapping[str, Any]) -> Section:
    """Records of the original: in the owner's page alone."""
    title = "Riskiest records"
    if not is_private(audit):
        return Section("riskiest", title, why="")
    records = audit.get("riskiest") or ()
    if not records:
        return Section("riskiest", title, why="the release adds nothing about any one record beyond chance")
    names = (audit.get("release") or {}).get("source_columns") or ()
    return drawn("riskiest", f"{title} ({len(records)})", riskiest=riskiest_rows(records, names))


def exposure(attacks: Sequence[Mapping[str, Any]], people: int) -> Shown:
    """The columns with most extra, each with the attacker who tells most about it, how many more there are, and those
    about which no attacker learns anything; `people` is how many were attacked, for the verdict."""
    comparisons = 0
    best: dict[str, tuple[float, str, Mapping[str, Any]]] = {}
    for entry in filter(counts_values, attacks):
        for column in entry.get("columns") or ():
            comparisons += 1
            name = str(column["name"])
            if name not in best or extra(column) > best[name][0]:
                best[name] = (extra(column), str(entry["name"]), column)
    ranked = sorted(best.items(), key=lambda item: (-item[1][0], item[0]))
    gained = [(attack, column) for _, (more, attack, column) in ranked if more > 0]
    return Shown(
        columns=[
            _exposed(attack, column, column_verdict(column, people, comparisons))
            for attack, column in gained[:MOST_EXPOSED]
        ],
        left_out=max(0, len(gained) - MOST_EXPOSED),
        spared=sorted(name for name, (more, _, _) in best.items() if more <= 0),
    )


def _exposed(attack: str, column: Mapping[str, Any], state: str) -> Shown:
    return Shown(
        name=str(column["name"]),
        attack=attack,
        verdict=state,
        sign=SIGNS[state],
        in_short=attack if state == GAINS else f"{attack}, {IN_SHORT[state]}",
        chart=bar(column, state),
        value=of_100(column["score"]),
    )


def riskiest_rows(records: Sequence[Mapping[str, Any]], names: Sequence[str]) -> list[dict[str, str]]:
    """Row numbers of the original, what the release adds about them, and by which attackers they are hit worst."""
    return [
        {
            "row": str(record.get("record", DASH)),
            "score": of_100(record.get("score")),
            "without": of_100(record.get("without")),
            "told": told([str(name) for name in record.get("columns") or ()], [str(name) for name in names]),
            "attacks": ", ".join(map(str, record.get("attacks") or ())) or DASH,
        }
        for record in records
    ]


def told(columns: Sequence[str], names: Sequence[str]) -> str:
    """The columns that are told, or the others where these are fewer: a list that can be read.

    >>> told(["age", "sex", "zip"], ["age", "sex", "zip", "job"])
    '3 of 4: all but job'
    """
    if not columns:
        return DASH
    others = [name for name in names if name not in columns]
    if len(columns) + len(others) != len(names):
        return ", ".join(columns)
    count = f"{len(columns)} of {len(names)}"
    if not others:
        return f"{count}: all of them"
    return f"{count}: all but {', '.join(others)}" if len(others) < len(columns) else f"{count}: {', '.join(columns)}"


# The papers' own measures, each with the sentence that says what it is worth.


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
UNIFIED_AVERAGE = (
    "The same on average",
    "Over all columns, for the attacker who leaves least. Larger is safer.",
)
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
    title = "The papers' measures"
    if not found.figures and found.density_gap is None:
        return Section("measures", title, why="none of them could be measured here")
    return drawn("measures", title, measures=found)


def _measure(words: tuple[str, str], value: float, below: str = "") -> Shown:
    """One figure, what it is read against (`below`), and its sentence."""
    return Shown(name=words[0], value=figure(value), below=below, sentence=words[1])


def shown_measures(found: Mapping[str, Any] | None) -> Shown:
    """Nothing where the audit holds none; `columns` has name, average privacy, that of guessing the mean, bits and
    privacy loss."""
    found = found or {}
    average, unified, channels = found.get("average_privacy"), found.get("unified"), found.get("channels") or ()
    figures = []
    if average:
        figures.append(_measure(AVERAGE, average["width"], _beside(average)))
    losses = [one["privacy_loss"] for one in channels if one.get("privacy_loss") is not None]
    if losses:
        below = f"{figure(min(losses))} to {figure(max(losses))}" if len(losses) > 1 else ""
        figures.append(_measure(LOSS, sum(losses) / len(losses), below))
    for words, name, plain in ((UNIFIED, "sigma_min", "minimum"), (UNIFIED_AVERAGE, "sigma_avg", "average")):
        if unified:
            below = f"{unified[f'{name}_attack']}; variance, weighted and capped: {figure(unified[plain])}"
            figures.append(_measure(words, unified[name], below))
    gap = found.get("density_gap") or found.get("dapl")  # version 0.2 called it so
    columns = _columns(average, channels)
    return Shown(
        figures=figures,
        columns=columns,
        has_mean=any(row[2] != DASH for row in columns),
        open=len(columns) <= FEW_COLUMNS,
        density_gap=gap and _measure(DENSITY_GAP, gap["loss"], f"standard error {figure(gap['error'])}"),
    )


def _beside(average: Mapping[str, Any]) -> str:
    parts = [f"{average['attack']} leaves least"]
    if average.get("filtered") is not None and average["attack"] != "principal-filter":
        parts.append(f"{figure(average['filtered'])} after filtering as in the paper")
    if average.get("width_of_mean") is not None:
        parts.append(f"{figure(average['width_of_mean'])} by the mean alone")
    return "; ".join(parts)


def _columns(
    average: Mapping[str, Any] | None, channels: Sequence[Mapping[str, Any]]
) -> list[tuple[str, str, str, str, str]]:
    """Source columns first, then the release's own, where it mixes them."""
    widths = {one["name"]: one for one in (average or {}).get("columns", ())}
    told = {one["name"]: one for one in channels}
    return [
        (
            name,
            figure(widths.get(name, {}).get("width")),
            figure(widths.get(name, {}).get("width_of_mean")),
            figure(told.get(name, {}).get("bits")),
            figure(told.get(name, {}).get("privacy_loss")),
        )
        for name in [*widths, *[name for name in told if name not in widths]]
    ]


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
        not_for_release=NOT_FOR_RELEASE.get(release["reproducible"] or ""),
        title=title(release),
        lead=copied_rows(audit.get("copies")),
        bottom=bottom_line_html(audit, folder),
        evidence=[draw(audit) for draw in (EVIDENCE if has_measured(audit) else (guarantee_section,))],
        experts=[one for one in experts if one.html],
        left_out=[one for one in experts if not one.html and one.why],
    )


def stated_section(audit: Mapping[str, Any], name: str, title: str, part: str) -> Section:
    """What the card says of its threat model."""
    told = (audit.get("threat_model") or {}).get(part) or ()
    return drawn(name, title, lines=[own_words(str(line)) for line in told])


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
    partial(stated_section, name="threat", title="The threat model", part="adversary"),
    partial(stated_section, name="limits", title="What is not protected", part="not_protected"),
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


def _parameters(mechanism: Mapping[str, Any]) -> str:
    used = {name: value for name, value in (mechanism.get("parameters") or {}).items() if value is not None}
    return own_words(
        ", ".join(f"{name} = {f'{value:.6g}' if isinstance(value, float) else value}" for name, value in used.items())
    )


# A release on one page to print: the proof first, then what was released, what is not protected, and hashes.


SHARED = (*FILES, "card.json", MODEL, COUNTS)
"""What may lie in the folder of a release, and is no secret."""


def write_certificate(folder: Path, out: Path | None = None, *, with_audit: bool = False, force: bool = False) -> Path:
    """Write the page for the release in `folder`; with a private audit on it the page is the owner's alone."""
    target = out or folder / "certificate.html"
    check_free(target, force=force)
    if Card.load(folder).reproducible == EXPERIMENT:
        raise CardError(
            f"{folder} is an experiment, not for release: it is not certified. Release it without --experiment."
        )
    audit = _audit(folder) if with_audit else None
    write_whole(target, render_certificate(folder, audit), private=audit is not None and is_private(audit))
    return target


def render_certificate(folder: Path, audit: Mapping[str, Any] | None = None) -> str:
    """The page as text: what follows from the card and the released files, and what was measured where it is given."""
    card, key = Card.load(folder), signer_of(folder, release_file(folder))
    told: dict[str, Any] = {"private": False, "guarantee": card.stated_guarantee().to_dict(), "release": stated(card)}
    return report_template("certificate.html.j2").render(
        policy=CLOSED,
        css=Markup(report_text("page.css")),
        card=card,
        not_for_release=NOT_FOR_RELEASE.get(card.reproducible or ""),
        bottom_line=rows_html(for_others(told, () if audit is None else measured(audit))),
        lead="" if audit is None else copied_rows(audit.get("copies")),
        columns=len(card.release_schema["columns"]),
        label=card.release_schema["label"],
        guarantee=shown_guarantee(told["guarantee"], card.earlier_releases),
        owners_word=owners_word(card.source_schema),
        private=audit is not None and is_private(audit),
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
    return report_template("verified.html.j2").render(
        policy=CLOSED,
        css=Markup(report_text("page.css")),
        found=found,
        signer=None if signed_by is None else signer_html(signed_by),
    )


def _audit(folder: Path) -> dict[str, Any]:
    path = folder / "audit.json"
    if not path.is_file():
        raise UsageError(
            f"There is no audit in {folder}. Leave --with-audit out, or make one: "
            f"{to_type('audit', folder, original='TABLE')}"
        )
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return {**found, "attacks": list(found["attacks"])}
    except (ValueError, TypeError, KeyError):
        raise CardError(f"The audit {path} cannot be read: it is damaged. Audit the release again.") from None
