"""What releases of rows that belong to nobody prove about somebody's presence, beside a record's own epsilon.

Releases that are there already get both from their cards.
"""

from __future__ import annotations

import json

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("releases", sa.Column("presence_epsilon", sa.Double))
    op.add_column("releases", sa.Column("presence_delta", sa.Double))
    connection = op.get_bind()
    for number in connection.execute(sa.text("SELECT number FROM releases")).scalars().all():
        row = connection.execute(sa.text("SELECT card FROM releases WHERE number = :n"), {"n": number}).one()
        card = json.loads(row.card)
        stated, earlier = card.get("guarantee") or {}, card.get("earlier_releases") or {}
        if stated.get("kind") != "central-dp" or (earlier.get("count") and earlier.get("total_epsilon_record") != 0):
            continue
        central = (earlier.get("central") if earlier.get("count") else None) or stated["central"]
        connection.execute(
            sa.text("UPDATE releases SET presence_epsilon = :epsilon, presence_delta = :delta WHERE number = :n"),
            {"n": number, "epsilon": central["epsilon"], "delta": central["delta"]},
        )


def downgrade() -> None:
    op.drop_column("releases", "presence_delta")
    op.drop_column("releases", "presence_epsilon")
