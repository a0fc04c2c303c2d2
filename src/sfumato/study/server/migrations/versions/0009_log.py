"""The public log: receipts of pushes, versions of guidance, and what owners commit to, under one tree."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "log_entries",
        sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("entry", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "log_nodes",
        sa.Column("level", sa.SmallInteger, primary_key=True, autoincrement=False),
        sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("hash", sa.LargeBinary(32), nullable=False),
    )
    op.create_table(
        "log_cosignatures",
        sa.Column("size", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("name", sa.String(200), primary_key=True),
        sa.Column("line", sa.Text, nullable=False),
    )
    op.add_column("releases", sa.Column("logged", sa.BigInteger))


def downgrade() -> None:
    op.drop_column("releases", "logged")
    for table in ("log_cosignatures", "log_nodes", "log_entries"):
        op.drop_table(table)
