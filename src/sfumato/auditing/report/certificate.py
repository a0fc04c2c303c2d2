"""A release on one page to print: the proof first, then what was released, what is not protected, and hashes.

What was measured are facts about private rows: they are on it only if the owner says so."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from markupsafe import Markup

from sfumato.auditing.document import stated
from sfumato.auditing.report.bottom_line import for_others, is_private, measured, rows_html
from sfumato.auditing.report.comparison_parts import copied_rows
from sfumato.auditing.report.guarantee import shown_guarantee
from sfumato.auditing.report.markup import report_template, report_text
from sfumato.auditing.report.page import CLOSED
from sfumato.core.errors import CardError, UsageError
from sfumato.core.files import check_free, file_digest, write_whole
from sfumato.core.wording import to_type
from sfumato.guarantee import Card
from sfumato.guarantee.card import EXPERIMENT, NOT_FOR_RELEASE
from sfumato.guarantee.words import owners_word
from sfumato.release.release import FILES
from sfumato.release.write_release import COUNTS, MODEL

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
    card = Card.load(folder)
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
