"""Which rows releases hold, which of them share rows, and which sites a model may learn from.

Identities of releases that are there already are computed from their files, study by study, before the next push.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("releases", sa.Column("identity", sa.String(64)))
    op.add_column("releases", sa.Column("sketch", sa.LargeBinary))
    op.create_index("ix_releases_identity", "releases", ["study", "identity"])
    op.create_table(
        "shared_rows",
        sa.Column("study", sa.String(32), sa.ForeignKey("studies.id"), primary_key=True),
        sa.Column("sha256", sa.String(64), primary_key=True),
        sa.Column("other", sa.String(64), primary_key=True),
        sa.Column("mine", sa.Double, nullable=False),
        sa.Column("theirs", sa.Double, nullable=False),
        sa.Column("expected", sa.Double, nullable=False),
    )
    op.add_column("models", sa.Column("sites", sa.String(20)))


def downgrade() -> None:
    op.drop_column("models", "sites")
    op.drop_table("shared_rows")
    op.drop_index("ix_releases_identity", "releases")
    op.drop_column("releases", "sketch")
    op.drop_column("releases", "identity")
