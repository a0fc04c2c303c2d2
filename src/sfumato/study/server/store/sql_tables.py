"""All tables of the database. Days are ISO dates, points in time are seconds since 1970.

Tokens and sessions are stored as SHA-256 of their 256 random bits, so reading the database is not enough to use them.
An answer to a survey is a random name, its guidance, its class and its bits: no person, no address, no time. Its
`batch` is the version of the guidance that first counted it, None until then.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    SmallInteger,
    String,
    Table,
    Text,
    UniqueConstraint,
)

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
        "ix": "ix_%(table_name)s_%(column_0_name)s",
    }
)
NUMBER = BigInteger().with_variant(Integer, "sqlite")  # only INTEGER counts up by itself in SQLite

OPEN, CLOSED = "open", "closed"
"""States of a study; a survey that its owner closed takes no more answers."""

studies = Table(
    "studies",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("kind", String(20), nullable=False),
    Column("name", Text, nullable=False),
    Column("hash", String(80), nullable=False),
    Column("definition", Text, nullable=False),
    Column("created", String(10), nullable=False),
    Column("state", String(20), nullable=False),
)

sites = Table(
    "sites",
    metadata,
    Column("study", ForeignKey("studies.id"), primary_key=True),
    Column("name", String(60), primary_key=True),
    Column("created", String(10), nullable=False),
)

tokens = Table(
    "tokens",
    metadata,
    Column("hash", String(64), primary_key=True),
    Column("study", ForeignKey("studies.id"), nullable=False),
    Column("role", String(10), nullable=False),
    Column("site", String(60)),
    Column("expires", BigInteger),
    Column("revoked", Boolean, nullable=False),
    ForeignKeyConstraint(["study", "site"], ["sites.study", "sites.name"], name="fk_tokens_site"),
    Index("ix_tokens_study_site", "study", "site"),
)

sessions = Table(
    "sessions",
    metadata,
    Column("hash", String(64), primary_key=True),
    Column("token", ForeignKey("tokens.hash"), nullable=False),
    Column("expires", BigInteger, nullable=False, index=True),
)

releases = Table(
    "releases",
    metadata,
    Column("number", NUMBER, primary_key=True, autoincrement=True),
    Column("study", ForeignKey("studies.id"), nullable=False),
    Column("sha256", String(64), nullable=False),
    Column("site", String(60), nullable=False),
    Column("purpose", String(10), nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Column("rows", BigInteger, nullable=False),
    Column("received", String(10), nullable=False),
    Column("withdrawn", String(10)),
    Column("epsilon", Double),
    Column("earlier", Integer, nullable=False, server_default="0"),
    Column("total_epsilon", Double),
    Column("presence_epsilon", Double),
    Column("presence_delta", Double),
    Column("card", Text, nullable=False),
    Column("identity", String(64)),
    Column("sketch", LargeBinary),
    Column("logged", BigInteger),  # the number of its receipt in the public log
    UniqueConstraint("study", "sha256"),
    Index("ix_releases_identity", "study", "identity"),
    ForeignKeyConstraint(["study", "site"], ["sites.study", "sites.name"], name="fk_releases_site"),
)

shared_rows = Table(
    "shared_rows",
    metadata,
    Column("study", ForeignKey("studies.id"), primary_key=True),
    Column("sha256", String(64), primary_key=True),
    Column("other", String(64), primary_key=True),
    Column("mine", Double, nullable=False),
    Column("theirs", Double, nullable=False),
    Column("expected", Double, nullable=False),
)

test_tables = Table(
    "test_tables",
    metadata,
    Column("number", NUMBER, primary_key=True, autoincrement=True),
    Column("study", ForeignKey("studies.id"), nullable=False, index=True),
    Column("sha256", String(64), nullable=False),
    Column("format", String(10), nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Column("rows", BigInteger, nullable=False),
    Column("received", String(10), nullable=False),
)

models = Table(
    "models",
    metadata,
    Column("number", NUMBER, primary_key=True, autoincrement=True),
    Column("id", String(32), nullable=False, unique=True),
    Column("study", ForeignKey("studies.id"), nullable=False, index=True),
    Column("classifier", String(60), nullable=False),
    Column("state", String(10), nullable=False, index=True),
    Column("progress", Double, nullable=False),
    Column("step", Text, nullable=False),
    Column("created", String(10), nullable=False),
    Column("contains_rows", Boolean, nullable=False),
    Column("uses_withdrawn", Boolean, nullable=False),
    Column("results", Text),
    Column("card", Text),
    Column("failure", Text),
    Column("worker", String(60)),
    Column("lease", Double),
    Column("attempts", Integer, nullable=False),
    Column("sites", String(20)),
    Column("reconstructs", Text),  # what is reconstructed, where this is a density and no model
    Column("parameters", Text),
)

model_releases = Table(
    "model_releases",
    metadata,
    Column("model", ForeignKey("models.id"), primary_key=True),
    Column("sha256", String(64), primary_key=True),
    Index("ix_model_releases_sha256", "sha256"),
)

survey_versions = Table(
    "survey_versions",
    metadata,
    Column("study", ForeignKey("studies.id"), primary_key=True),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("k", Integer, nullable=False),
    Column("sha256", String(64), nullable=False),
    Column("inputs_sha256", String(64), nullable=False),
    Column("answers", BigInteger, nullable=False),
    Column("previous", String(80), nullable=False),
    Column("hash", String(64), nullable=False),
    Column("hour", String(13), nullable=False),
    Column("matrix", LargeBinary, nullable=False),
    Column("inputs", LargeBinary, nullable=False),
)

survey_answers = Table(
    "survey_answers",
    metadata,
    Column("study", ForeignKey("studies.id"), primary_key=True),
    Column("id", LargeBinary(16), primary_key=True),
    Column("version", Integer, nullable=False),
    Column("label", SmallInteger, nullable=False),
    Column("bits", LargeBinary, nullable=False),
    Column("batch", Integer),
    sqlite_with_rowid=False,  # rows lie in the order of their random names, not of their arrival
)
WAITING = "ix_survey_answers_waiting"
Index(
    WAITING,
    survey_answers.c.study,
    sqlite_where=survey_answers.c.batch.is_(None),
    postgresql_where=survey_answers.c.batch.is_(None),
)

survey_codes = Table(
    "survey_codes",
    metadata,
    Column("study", ForeignKey("studies.id"), primary_key=True),
    Column("hash", LargeBinary(32), primary_key=True),
    Column("used", Boolean, nullable=False),
    Column("blinded", LargeBinary(32), nullable=False),  # hash of what was signed for it; zeros before: rows keep size
)

survey_keys = Table(
    "survey_keys",
    metadata,
    Column("study", ForeignKey("studies.id"), primary_key=True),
    Column("private", LargeBinary, nullable=False),
)

log_entries = Table(
    "log_entries",
    metadata,
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("entry", LargeBinary, nullable=False),
)

log_nodes = Table(
    "log_nodes",
    metadata,
    Column("level", SmallInteger, primary_key=True, autoincrement=False),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("hash", LargeBinary(32), nullable=False),
)

log_cosignatures = Table(
    "log_cosignatures",
    metadata,
    Column("size", BigInteger, primary_key=True, autoincrement=False),
    Column("name", String(200), primary_key=True),
    Column("line", Text, nullable=False),
)

site_keys = Table(
    "site_keys",
    metadata,
    Column("study", String(32), primary_key=True),
    Column("site", String(60), primary_key=True),
    Column("fingerprint", String(200), primary_key=True),
    Column("enrolled", String(10), nullable=False),
    ForeignKeyConstraint(["study", "site"], ["sites.study", "sites.name"], name="fk_site_keys_site"),
)

signed_requests = Table(
    "signed_requests",
    metadata,
    Column("hash", LargeBinary(32), primary_key=True),
)
