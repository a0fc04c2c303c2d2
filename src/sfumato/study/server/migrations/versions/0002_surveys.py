"""Surveys: versions of the guidance, answers, invitation codes."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "survey_versions",
        sa.Column("study", sa.String(32), sa.ForeignKey("studies.id"), primary_key=True),
        sa.Column("version", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("k", sa.Integer, nullable=False),
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.Column("inputs_sha256", sa.String(64), nullable=False),
        sa.Column("answers", sa.BigInteger, nullable=False),
        sa.Column("previous", sa.String(80), nullable=False),
        sa.Column("hash", sa.String(64), nullable=False),
        sa.Column("hour", sa.String(13), nullable=False),
        sa.Column("matrix", sa.LargeBinary, nullable=False),
        sa.Column("inputs", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "survey_answers",
        sa.Column("study", sa.String(32), sa.ForeignKey("studies.id"), primary_key=True),
        sa.Column("id", sa.LargeBinary(16), primary_key=True),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("label", sa.SmallInteger, nullable=False),
        sa.Column("bits", sa.LargeBinary, nullable=False),
        sa.Column("batch", sa.Integer),
        sqlite_with_rowid=False,
    )
    waiting = sa.text("batch IS NULL")
    op.create_index(
        "ix_survey_answers_waiting", "survey_answers", ["study"], sqlite_where=waiting, postgresql_where=waiting
    )
    op.create_table(
        "survey_codes",
        sa.Column("study", sa.String(32), sa.ForeignKey("studies.id"), primary_key=True),
        sa.Column("hash", sa.LargeBinary(32), primary_key=True),
        sa.Column("used", sa.Boolean, nullable=False),
    )


def downgrade() -> None:
    for table in ("survey_codes", "survey_answers", "survey_versions"):
        op.drop_table(table)
