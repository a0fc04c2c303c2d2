"""Alembic's entry: the store hands over its connection, already inside a transaction."""

from __future__ import annotations

from alembic import context

from sfumato.study.server.store.sql_tables import metadata

connection = context.config.attributes["connection"]
context.configure(connection=connection, target_metadata=metadata, transactional_ddl=False)
context.run_migrations()
