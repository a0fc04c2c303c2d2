"""Tables of surveys. An answer is a random name, its guidance, its class and its bits: nobody, no address, no time.

`batch` is the version of the guidance that first counted an answer, None until then; nothing is finer than that.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    SmallInteger,
    String,
    Table,
)

from sfumato.server.store.tables import metadata

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
Index(
    "ix_survey_answers_waiting",
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
