"""A release on one page to print: what was released, proved and measured, what is not protected, and hashes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from sfumato.errors import CardError, OutputError
from sfumato.files import write_whole
from sfumato.guarantee import Card
from sfumato.report.markup import templates
from sfumato.report.page import CLOSED, is_private
from sfumato.report.three_risks import three_risks

FILES = ("release.parquet", "release.csv", "card.json", "model.json", "counts.parquet")


def write_certificate(folder: Path, out: Path | None = None, *, force: bool = False) -> Path:
    """Write the page for the release in `folder`; with a private audit in it the page is the owner's alone."""
    target = out or folder / "certificate.html"
    if target.exists() and not force:
        raise OutputError(f"{target} exists already. Choose another name, or add --force to replace it.")
    audit = _audit(folder)
    write_whole(target, render_certificate(folder, audit), private=audit is not None and is_private(audit))
    return target


def render_certificate(folder: Path, audit: Mapping[str, Any] | None = None) -> str:
    """The page as text. Figures of an audit are shown where there is one; nothing else comes from private rows."""
    card = Card.load(folder)
    label = card.release_schema["label"]
    shown = _templates().get_template("certificate.html.j2")
    return shown.render(
        policy=CLOSED,
        css=Markup(files("sfumato.report").joinpath("page.css").read_text(encoding="utf-8")),
        card=card,
        columns=[column["name"] for column in card.release_schema["columns"]],
        label=label,
        private=audit is not None and is_private(audit),
        risks=three_risks(audit["attacks"]) if audit is not None else None,
        accuracy=_accuracy(audit) if audit is not None else None,
        not_protected=list(card.threat_model["not_protected"]),
        hashes=[(name, _digest(folder / name)) for name in FILES if (folder / name).is_file()],
    )


def _audit(folder: Path) -> dict[str, Any] | None:
    path = folder / "audit.json"
    if not path.is_file():
        return None
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return dict(found)
    except (ValueError, TypeError):
        raise CardError(f"The audit {path} cannot be read: it is damaged. Audit the release again.") from None


def _accuracy(audit: Mapping[str, Any]) -> dict[str, Any] | None:
    reached = [entry for entry in audit.get("utility") or () if entry.get("release") is not None]
    return max(reached, key=lambda entry: entry["release"], default=None)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@cache
def _templates() -> jinja2.Environment:
    return templates("sfumato.report")
