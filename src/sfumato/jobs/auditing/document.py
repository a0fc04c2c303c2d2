"""audit.json: put together, checked against its published schema, and written whole."""

from __future__ import annotations

import json
import math
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema

from sfumato import __version__
from sfumato.errors import SfumatoError
from sfumato.files import write_whole
from sfumato.guarantee import Card, ThreatModel
from sfumato.guarantee.words import declared, owners_word
from sfumato.jobs.auditing.evidence import Evidence
from sfumato.jobs.auditing.extra import extra_dict, with_extra
from sfumato.jobs.auditing.published import for_others
from sfumato.jobs.auditing.request import AuditRequest
from sfumato.jobs.auditing.tidy import tidy_table
from sfumato.table import write_table

FORMAT, VERSION = "sfumato-audit", 1
PRIVATE = "Private: shows original records and distributions. For the owner of the data only; never publish it."
PUBLIC = "May be shown to others: what is proved, and what follows from the released files alone."
PUBLIC_MEASURED = (
    "May be shown to others: contains no original record, no row number and no histogram of the original. "
    "Its figures were measured on the originals and rounded; no guarantee covers them."
)


def document(
    evidence: Evidence,
    request: AuditRequest,
    *,
    attacks: list[dict[str, Any]],
    measures: dict[str, Any],
    utility: list[dict[str, Any]],
    distributions: list[dict[str, Any]],
    correlations: dict[str, Any],
    riskiest: list[dict[str, Any]],
    settings: dict[str, Any],
    clusters: dict[str, Any] | None = None,
    copies: dict[str, Any] | None = None,
    uniqueness: dict[str, Any] | None = None,
    fidelity: dict[str, Any] | None = None,
    together: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """All results in the order of the report."""
    card = evidence.card
    parts: dict[str, Any] = {
        "extra": extra_dict(attacks, request.max_extra),
        "attacks": [with_extra(entry) for entry in attacks],
        "measures": measures,
        "utility": utility,
        "clusters": clusters,
        "copies": copies,
        "uniqueness": uniqueness,
        "fidelity": fidelity,
        "together": together,
        "distributions": distributions,
        "correlations": correlations,
        "riskiest": riskiest,
        "settings": settings,
        "notes": list(evidence.notes),
    }
    notice = PRIVATE
    if request.public:
        notice = PUBLIC_MEASURED if request.with_audit else PUBLIC
        parts |= {"riskiest": [], "uniqueness": uniqueness and {**uniqueness, "original": None}}
        parts = for_others(parts, card=card is not None, measured=request.with_audit)
    whole: dict[str, Any] = finite(
        {
            "private": not request.public,
            "notice": notice,
            "format": FORMAT,
            "version": VERSION,
            "release": _release(evidence),
            "guarantee": None
            if card is None
            else card.stated_guarantee().to_dict() | {"words": card.guarantee["words"]},
            "threat_model": _threat_model(evidence),
            **{name: part for name, part in parts.items() if part is not None},
            "versions": {"sfumato": __version__},
        }
    )
    return whole


def _release(evidence: Evidence) -> dict[str, Any]:
    card = evidence.card
    return {
        "rows": evidence.release_rows,
        "columns": evidence.Z.shape[1],
        "source_columns": [column.name for column in evidence.encoding.schema.private],
        "label": None if evidence.encoding.schema.label is None else evidence.encoding.schema.label.name,
        "columnwise": evidence.columnwise,
        "card": card is not None,
        **(stated(card) if card is not None else NOTHING_STATED),
    }


def stated(card: Card) -> dict[str, Any]:
    """What a release says about itself, as an audit holds it."""
    return {
        "mechanism": dict(card.mechanism),
        "space": card.space,
        "label_state": card.label,
        "learned_from_data": list(card.learned_from_data),
        "owners_word": owners_word(card.source_schema),
        "declared": [{"reason": why, "ranges": len(names)} for why, names in declared(card.source_schema).items()],
        "earlier_releases": dict(card.earlier_releases),
        "reproducible": card.reproducible,
        "post_processing": card.post_processing,
        "papers": list(card.papers),
        "created": card.created,
    }


NOTHING_STATED: dict[str, Any] = {
    **dict.fromkeys(["mechanism", "space", "label_state", "learned_from_data", "earlier_releases", "reproducible"]),
    **dict.fromkeys(["post_processing", "created"]),
    **{"owners_word": [], "declared": [], "papers": []},
}


def _threat_model(evidence: Evidence) -> dict[str, Any]:
    if evidence.card is not None:
        return dict(evidence.card.threat_model)
    label = "none" if evidence.y is None else "exact"
    return ThreatModel.of(label=label, rows=f"{evidence.release_rows:,}", learned_bounds=False).to_dict() | {
        "adversary": ["Holds the whole release, and is assumed to know how strongly each column was changed."]
    }


def finite(value: Any) -> Any:
    """The same with None for numbers that JSON does not have."""
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def check(data: dict[str, Any]) -> None:
    """A fault of ours if it fails: what was computed does not follow the published schema."""
    problem = next(iter(audit_validator().iter_errors(data)), None)
    if problem is not None:
        place = ".".join(map(str, problem.absolute_path)) or "the top level"
        raise SfumatoError(f"The audit does not follow its own schema at {place}. Please report this.")


def write_audit(data: dict[str, Any], folder: Path) -> tuple[Path, Path]:
    """audit.json and audit.parquet; the owner's can be read by the owner alone."""
    private = bool(data["private"])
    folder.mkdir(parents=True, exist_ok=True)
    table, text = folder / "audit.parquet", folder / "audit.json"
    write_table(tidy_table(data), table, private=private)
    write_whole(text, json.dumps(data, indent=1, allow_nan=False), private=private)
    return text, table


@cache
def audit_validator() -> Any:
    """The published schema of `audit.json`."""
    text = files("sfumato.jobs.auditing").joinpath("audit.schema.json").read_text(encoding="utf-8")
    return jsonschema.Draft202012Validator(json.loads(text))
