"""All tables of the database. Days are ISO dates, points in time are seconds since 1970.

Tokens and sessions are stored as SHA-256 of their 256 random bits, so reading the database is not enough to use them.
An answer to a survey is a random name, its guidance, its class and its bits: no person, no address, no time. Its
`batch` is the version of the guidance that first counted it, None until then.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy import BigInteger, Boolean, Double, ForeignKey, Integer, LargeBinary, SmallInteger, String, Text

metadata = sa.MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
        "ix": "ix_%(table_name)s_%(column_0_name)s",
    }
)
NUMBER = BigInteger().with_variant(Integer, "sqlite")  # only INTEGER counts up by itself in SQLite
DIGEST, NAME, SHORT = String(64), String(60), String(10)


def _table(name: str, *parts: sa.schema.SchemaItem, **options: Any) -> sa.Table:
    return sa.Table(name, metadata, *parts, **options)


def _column(name: str, kind: Any, **options: Any) -> sa.Column[Any]:
    """A column that always holds something."""
    return sa.Column(name, kind, nullable=False, **options)


def _key(name: str, kind: Any) -> sa.Column[Any]:
    """A column of the primary key, which the program gives a value."""
    return sa.Column(name, kind, primary_key=True, autoincrement=False)


OPEN, CLOSED = "open", "closed"
"""States of a study; a survey that its owner closed takes no more answers."""

studies = _table(
    "studies",
    _key("id", String(32)),
    _column("kind", String(20)),
    _column("name", Text),
    _column("hash", String(80)),
    _column("definition", Text),
    _column("created", SHORT),
    _column("state", String(20)),
)

sites = _table("sites", _key("study", ForeignKey("studies.id")), _key("name", NAME), _column("created", SHORT))

tokens = _table(
    "tokens",
    _key("hash", DIGEST),
    _column("study", ForeignKey("studies.id")),
    _column("role", SHORT),
    sa.Column("site", NAME),
    sa.Column("expires", BigInteger),
    _column("revoked", Boolean),
    sa.ForeignKeyConstraint(["study", "site"], ["sites.study", "sites.name"], name="fk_tokens_site"),
    sa.Index("ix_tokens_study_site", "study", "site"),
)

sessions = _table(
    "sessions",
    _key("hash", DIGEST),
    _column("token", ForeignKey("tokens.hash")),
    _column("expires", BigInteger, index=True),
)

releases = _table(
    "releases",
    sa.Column("number", NUMBER, primary_key=True, autoincrement=True),
    _column("study", ForeignKey("studies.id")),
    _column("sha256", DIGEST),
    _column("site", NAME),
    _column("purpose", SHORT),
    _column("bytes", BigInteger),
    _column("rows", BigInteger),
    _column("received", SHORT),
    sa.Column("withdrawn", SHORT),
    sa.Column("epsilon", Double),
    _column("earlier", Integer, server_default="0"),
    sa.Column("total_epsilon", Double),
    sa.Column("presence_epsilon", Double),
    sa.Column("presence_delta", Double),
    _column("card", Text),
    sa.Column("identity", DIGEST),
    sa.Column("sketch", LargeBinary),
    sa.Column("logged", BigInteger),  # the number of its receipt in the public log
    sa.UniqueConstraint("study", "sha256"),
    sa.Index("ix_releases_identity", "study", "identity"),
    sa.ForeignKeyConstraint(["study", "site"], ["sites.study", "sites.name"], name="fk_releases_site"),
)

shared_rows = _table(
    "shared_rows",
    _key("study", ForeignKey("studies.id")),
    _key("sha256", DIGEST),
    _key("other", DIGEST),
    _column("mine", Double),
    _column("theirs", Double),
    _column("expected", Double),
)

test_tables = _table(
    "test_tables",
    sa.Column("number", NUMBER, primary_key=True, autoincrement=True),
    _column("study", ForeignKey("studies.id"), index=True),
    _column("sha256", DIGEST),
    _column("format", SHORT),
    _column("bytes", BigInteger),
    _column("rows", BigInteger),
    _column("received", SHORT),
)

models = _table(
    "models",
    sa.Column("number", NUMBER, primary_key=True, autoincrement=True),
    _column("id", String(32), unique=True),
    _column("study", ForeignKey("studies.id"), index=True),
    _column("classifier", NAME),
    _column("state", SHORT, index=True),
    _column("progress", Double),
    _column("step", Text),
    _column("created", SHORT),
    _column("contains_rows", Boolean),
    _column("uses_withdrawn", Boolean),
    sa.Column("results", Text),
    sa.Column("card", Text),
    sa.Column("failure", Text),
    sa.Column("worker", NAME),
    sa.Column("lease", Double),
    _column("attempts", Integer),
    sa.Column("sites", String(20)),
    sa.Column("reconstructs", Text),  # what is reconstructed, where this is a density and no model
    sa.Column("parameters", Text),
)

model_releases = _table(
    "model_releases",
    _key("model", ForeignKey("models.id")),
    _key("sha256", DIGEST),
    sa.Index("ix_model_releases_sha256", "sha256"),
)

survey_versions = _table(
    "survey_versions",
    _key("study", ForeignKey("studies.id")),
    _key("version", Integer),
    _column("k", Integer),
    _column("sha256", DIGEST),
    _column("inputs_sha256", DIGEST),
    _column("answers", BigInteger),
    _column("previous", String(80)),
    _column("hash", DIGEST),
    _column("hour", String(13)),
    _column("matrix", LargeBinary),
    _column("inputs", LargeBinary),
)

survey_answers = _table(
    "survey_answers",
    _key("study", ForeignKey("studies.id")),
    _key("id", LargeBinary(16)),
    _column("version", Integer),
    _column("label", SmallInteger),
    _column("bits", LargeBinary),
    sa.Column("batch", Integer),
    sqlite_with_rowid=False,  # rows lie in the order of their random names, not of their arrival
)
WAITING = "ix_survey_answers_waiting"
sa.Index(
    WAITING,
    survey_answers.c.study,
    sqlite_where=survey_answers.c.batch.is_(None),
    postgresql_where=survey_answers.c.batch.is_(None),
)

survey_codes = _table(
    "survey_codes",
    _key("study", ForeignKey("studies.id")),
    _key("hash", LargeBinary(32)),
    _column("used", Boolean),
    _column("blinded", LargeBinary(32)),  # hash of what was signed for it; zeros before: rows keep size
)

survey_keys = _table("survey_keys", _key("study", ForeignKey("studies.id")), _column("private", LargeBinary))

log_entries = _table("log_entries", _key("number", BigInteger), _column("entry", LargeBinary))

log_nodes = _table(
    "log_nodes", _key("level", SmallInteger), _key("number", BigInteger), _column("hash", LargeBinary(32))
)

log_cosignatures = _table(
    "log_cosignatures", _key("size", BigInteger), _key("name", String(200)), _column("line", Text)
)

site_keys = _table(
    "site_keys",
    _key("study", String(32)),
    _key("site", NAME),
    _key("fingerprint", String(200)),
    _column("enrolled", SHORT),
    sa.ForeignKeyConstraint(["study", "site"], ["sites.study", "sites.name"], name="fk_site_keys_site"),
)

signed_requests = _table("signed_requests", _key("hash", LargeBinary(32)))
