"""Parameters of the classifier that a model is of: null for those of earlier versions, which had none."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("models", sa.Column("parameters", sa.Text))


def downgrade() -> None:
    op.drop_column("models", "parameters")
