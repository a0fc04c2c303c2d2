"""How often the rows of a release were released before, and what that comes to, beside its own epsilon.

Releases that are there already get both from their cards.
"""

from __future__ import annotations

import json

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("releases", sa.Column("earlier", sa.Integer, nullable=False, server_default="0"))
    op.add_column("releases", sa.Column("total_epsilon", sa.Double))
    connection = op.get_bind()
    connection.execute(sa.text("UPDATE releases SET total_epsilon = epsilon"))
    for number in connection.execute(sa.text("SELECT number FROM releases")).scalars().all():
        row = connection.execute(sa.text("SELECT epsilon, card FROM releases WHERE number = :n"), {"n": number}).one()
        stated = json.loads(row.card).get("earlier_releases") or {}
        if count := min(int(stated.get("count") or 0), 2**31 - 1):
            total = stated.get("total_epsilon_record")
            values = {"n": number, "count": count, "total": None if total is None or row.epsilon is None else total}
            connection.execute(
                sa.text("UPDATE releases SET earlier = :count, total_epsilon = :total WHERE number = :n"), values
            )


def downgrade() -> None:
    op.drop_column("releases", "total_epsilon")
    op.drop_column("releases", "earlier")
