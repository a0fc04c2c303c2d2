"""A release on one page to print: what was released, proved and measured, what is not protected, and hashes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from markupsafe import Markup

from sfumato.errors import CardError
from sfumato.files import check_free, file_digest, write_whole
from sfumato.guarantee import Card
from sfumato.guarantee.words import owners_word
from sfumato.jobs.release import FILES
from sfumato.jobs.write_release import COUNTS, MODEL
from sfumato.report.comparison_parts import copied_rows
from sfumato.report.markup import report_template, report_text
from sfumato.report.page import CLOSED, is_private
from sfumato.report.strongest import strongest

SHARED = (*FILES, "card.json", MODEL, COUNTS)
"""What may lie in the folder of a release, and is no secret."""


def write_certificate(folder: Path, out: Path | None = None, *, force: bool = False) -> Path:
    """Write the page for the release in `folder`; with a private audit in it the page is the owner's alone."""
    target = out or folder / "certificate.html"
    check_free(target, force=force)
    audit = _audit(folder)
    write_whole(target, render_certificate(folder, audit), private=audit is not None and is_private(audit))
    return target


def render_certificate(folder: Path, audit: Mapping[str, Any] | None = None) -> str:
    """The page as text. Figures of an audit are shown where there is one; nothing else comes from private rows."""
    card = Card.load(folder)
    label = card.release_schema["label"]
    return report_template("certificate.html.j2").render(
        policy=CLOSED,
        css=Markup(report_text("page.css")),
        card=card,
        columns=[column["name"] for column in card.release_schema["columns"]],
        label=label,
        owners_word=owners_word(card.source_schema),
        private=audit is not None and is_private(audit),
        lead="" if audit is None else copied_rows(audit.get("copies")),
        risks=None if audit is None else strongest(audit["attacks"], (audit.get("extra") or {}).get("limit")),
        accuracy=_accuracy(audit) if audit is not None else None,
        not_protected=list(card.threat_model["not_protected"]),
        hashes=[(name, file_digest(folder / name)) for name in SHARED if (folder / name).is_file()],
    )


def _audit(folder: Path) -> dict[str, Any] | None:
    path = folder / "audit.json"
    if not path.is_file():
        return None
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return {**found, "attacks": list(found["attacks"])}
    except (ValueError, TypeError, KeyError):
        raise CardError(f"The audit {path} cannot be read: it is damaged. Audit the release again.") from None


def _accuracy(audit: Mapping[str, Any]) -> dict[str, Any] | None:
    reached = [entry for entry in audit.get("utility") or () if entry.get("release") is not None]
    return max(reached, key=lambda entry: entry["release"], default=None)
