"""Keys that sign the pushes of sites, and the numbers that their signatures have used up."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "site_keys",
        sa.Column("study", sa.String(32), primary_key=True),
        sa.Column("site", sa.String(60), primary_key=True),
        sa.Column("fingerprint", sa.String(200), primary_key=True),
        sa.Column("enrolled", sa.String(10), nullable=False),
        sa.ForeignKeyConstraint(["study", "site"], ["sites.study", "sites.name"], name="fk_site_keys_site"),
    )
    op.create_table("signed_requests", sa.Column("hash", sa.LargeBinary(32), primary_key=True))


def downgrade() -> None:
    op.drop_table("signed_requests")
    op.drop_table("site_keys")
