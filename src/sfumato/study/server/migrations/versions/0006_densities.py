"""Densities wait in the same queue as models: their row says which column is reconstructed."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("models", sa.Column("reconstructs", sa.Text))


def downgrade() -> None:
    op.drop_column("models", "reconstructs")
