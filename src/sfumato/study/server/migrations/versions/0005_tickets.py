"""Tickets of surveys by invitation; start-up rows in survey files become counts.

Codes move to a new table in the order of their hashes, so that nothing is left of the order in which they were used.
A survey whose file changes keeps its log: `origin` is the hash that the log began from.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

import sqlalchemy as sa
from alembic import op

from sfumato.study.server.store.token_store import TicketKey

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    connection = op.get_bind()
    codes = connection.execute(sa.text("SELECT study, hash, used FROM survey_codes ORDER BY hash")).all()
    op.drop_table("survey_codes")
    renewed_codes = op.create_table(
        "survey_codes",
        sa.Column("study", sa.String(32), sa.ForeignKey("studies.id"), primary_key=True),
        sa.Column("hash", sa.LargeBinary(32), primary_key=True),
        sa.Column("used", sa.Boolean, nullable=False),
        sa.Column("blinded", sa.LargeBinary(32), nullable=False),
    )
    if codes:
        rows = [{"study": study, "hash": name, "used": bool(used), "blinded": bytes(32)} for study, name, used in codes]
        connection.execute(sa.insert(renewed_codes), rows)
    op.create_table(
        "survey_keys",
        sa.Column("study", sa.String(32), sa.ForeignKey("studies.id"), primary_key=True),
        sa.Column("private", sa.LargeBinary, nullable=False),
    )
    surveys = connection.execute(sa.text("SELECT id, hash, definition FROM studies WHERE kind = 'survey'")).all()
    for study in surveys:
        found, key = renewed(json.loads(study.definition), study.hash)
        if found is None:
            continue
        text = json.dumps(found, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
        connection.execute(
            sa.text("UPDATE studies SET definition = :text, hash = :hash WHERE id = :id"),
            {"text": text, "hash": "sha256:" + hashlib.sha256(text.encode()).hexdigest(), "id": study.id},
        )
        if key is not None:
            kept = sa.text("INSERT INTO survey_keys (study, private) VALUES (:study, :private)")
            connection.execute(kept, {"study": study.id, "private": key})


def renewed(found: dict[str, Any], before: str) -> tuple[dict[str, Any] | None, bytes | None]:
    """The file with counts and a key where it lacked them, and the private key; (None, None): nothing to change."""
    rows, key = found.get("start_up"), None
    if not isinstance(rows, list) and not found.get("invitations"):
        return None, None
    if isinstance(rows, list):
        found["start_up"] = counts_of(rows, [len(question["choices"]) for question in found["questions"]])
    if found.get("invitations"):
        made = TicketKey.new()
        found["ticket_key"], key = made.public, made.stored
    found["origin"] = before
    return found, key


def counts_of(rows: list[list[int]], sizes: list[int]) -> dict[str, Any]:
    """For every class the number of rows and of pairs of choices, from the diagonal on, row by row."""
    width = sum(sizes)
    starts = [sum(sizes[:place]) for place in range(len(sizes))]
    classes: dict[int, dict[str, Any]] = {}
    for *choices, label in rows:
        part = classes.setdefault(label, {"n": 0, "upper": [0] * (width * (width + 1) // 2)})
        part["n"] += 1
        ones = [start + choice for start, choice in zip(starts, choices, strict=True)]
        for place, i in enumerate(ones):
            for j in ones[place:]:
                part["upper"][i * width - i * (i - 1) // 2 + j - i] += 1
    return {"width": width, "classes": {str(label): classes[label] for label in sorted(classes)}}


def downgrade() -> None:
    raise NotImplementedError("Start-up rows are gone, and tickets cannot become codes. Restore the backup.")
