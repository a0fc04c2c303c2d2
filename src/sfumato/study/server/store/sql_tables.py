"""All tables of the database. Days are ISO dates, points in time are seconds since 1970. Tokens and sessions are stored
as SHA-256 of their 256 random bits, so reading the database is not enough to use them. An answer to a survey is a
random name, its guidance, its class and its bits: no person, no address, no time. Its `batch` is the version of the
guidance that first counted it, None until then."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa
from sqlalchemy import BigInteger, Boolean, Double, ForeignKey, Integer, LargeBinary, SmallInteger, String, Text

_NAMED = {kind: f"{kind}_%(table_name)s_%(column_0_name)s" for kind in ("fk", "uq", "ix")}
metadata = sa.MetaData(naming_convention={"pk": "pk_%(table_name)s", **_NAMED})
NUMBER = BigInteger().with_variant(Integer, "sqlite")  # only INTEGER counts up by itself in SQLite
DIGEST, NAME, SHORT = String(64), String(60), String(10)
Kind = type[sa.types.TypeEngine[Any]] | sa.types.TypeEngine[Any] | str
"""What a column holds; text names the column of another table that it refers to."""


def _table(
    name: str,
    *columns: dict[str, Kind],
    key: dict[str, Kind] | None = None,
    also: Iterable[sa.schema.SchemaItem] = (),
    **options: Any,
) -> sa.Table:
    """A table with this primary key, to which the program gives a value, or else a number that counts up. Columns
    always hold something, but for those whose name ends with a question mark."""

    def column(name: str, kind: Kind, **options: Any) -> sa.Column[Any]:
        return sa.Column(name, ForeignKey(kind) if isinstance(kind, str) else kind, **options)

    parts = [column(one, kind, primary_key=True, autoincrement=False) for one, kind in (key or {}).items()]
    parts = parts or [sa.Column("number", NUMBER, primary_key=True, autoincrement=True)]
    for part in columns:
        parts += [column(one.rstrip("?"), kind, nullable=one.endswith("?")) for one, kind in part.items()]
    return sa.Table(name, metadata, *parts, *also, **options)


def _of_a_site(table: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(["study", "site"], ["sites.study", "sites.name"], name=f"fk_{table}_site")


STUDY = "studies.id"
OPEN, CLOSED = "open", "closed"  # states of a study; a survey that its owner closed takes no more answers

studies = _table(
    "studies",
    {"kind": String(20), "name": Text, "hash": String(80), "definition": Text, "created": SHORT, "state": String(20)},
    key={"id": String(32)},
)
sites = _table("sites", {"created": SHORT}, key={"study": STUDY, "name": NAME})
tokens = _table(
    "tokens",
    {"study": STUDY, "role": SHORT, "site?": NAME, "expires?": BigInteger, "revoked": Boolean},
    key={"hash": DIGEST},
    also=[_of_a_site("tokens"), sa.Index("ix_tokens_study_site", "study", "site")],
)
sessions = _table(
    "sessions", {"token": "tokens.hash", "expires": BigInteger}, key={"hash": DIGEST}, also=[sa.Index(None, "expires")]
)
releases = _table(
    "releases",
    {"study": STUDY, "sha256": DIGEST, "site": NAME, "purpose": SHORT, "bytes": BigInteger, "rows": BigInteger},
    {"received": SHORT, "withdrawn?": SHORT, "epsilon?": Double, "total_epsilon?": Double, "presence_epsilon?": Double},
    {"presence_delta?": Double, "card": Text, "identity?": DIGEST, "sketch?": LargeBinary},
    {"logged?": BigInteger},  # the number of its receipt in the public log
    also=[
        sa.Column("earlier", Integer, nullable=False, server_default="0"),
        sa.UniqueConstraint("study", "sha256"),
        sa.Index("ix_releases_identity", "study", "identity"),
        _of_a_site("releases"),
    ],
)
shared_rows = _table(
    "shared_rows",
    {"mine": Double, "theirs": Double, "expected": Double},
    key={"study": STUDY, "sha256": DIGEST, "other": DIGEST},
)
test_tables = _table(
    "test_tables",
    {"study": STUDY, "sha256": DIGEST, "format": SHORT, "bytes": BigInteger, "rows": BigInteger, "received": SHORT},
    also=[sa.Index(None, "study")],
)
models = _table(
    "models",
    {"id": String(32), "study": STUDY, "classifier": NAME, "state": SHORT, "progress": Double, "step": Text},
    {"created": SHORT, "contains_rows": Boolean, "uses_withdrawn": Boolean, "results?": Text, "card?": Text},
    {"failure?": Text, "worker?": NAME, "lease?": Double, "attempts": Integer, "sites?": String(20)},
    {"reconstructs?": Text, "parameters?": Text},  # the column that is reconstructed, where this is a density
    also=[sa.UniqueConstraint("id"), sa.Index(None, "study"), sa.Index(None, "state")],
)
model_releases = _table("model_releases", key={"model": "models.id", "sha256": DIGEST}, also=[sa.Index(None, "sha256")])
survey_versions = _table(
    "survey_versions",
    {"k": Integer, "sha256": DIGEST, "inputs_sha256": DIGEST, "answers": BigInteger, "previous": String(80)},
    {"hash": DIGEST, "hour": String(13), "matrix": LargeBinary, "inputs": LargeBinary},
    key={"study": STUDY, "version": Integer},
)
survey_answers = _table(
    "survey_answers",
    {"version": Integer, "label": SmallInteger, "bits": LargeBinary, "batch?": Integer},
    key={"study": STUDY, "id": LargeBinary(16)},
    sqlite_with_rowid=False,  # rows lie in the order of their random names, not of their arrival
)
WAITING, _waits = "ix_survey_answers_waiting", survey_answers.c.batch.is_(None)
sa.Index(WAITING, survey_answers.c.study, sqlite_where=_waits, postgresql_where=_waits)
survey_codes = _table(
    "survey_codes",
    {"used": Boolean, "blinded": LargeBinary(32)},  # hash of what was signed for it; zeros before: rows keep size
    key={"study": STUDY, "hash": LargeBinary(32)},
)
survey_keys = _table("survey_keys", {"private": LargeBinary}, key={"study": STUDY})
log_entries = _table("log_entries", {"entry": LargeBinary}, key={"number": BigInteger})
log_nodes = _table("log_nodes", {"hash": LargeBinary(32)}, key={"level": SmallInteger, "number": BigInteger})
log_cosignatures = _table("log_cosignatures", {"line": Text}, key={"size": BigInteger, "name": String(200)})
site_keys = _table(
    "site_keys",
    {"enrolled": SHORT},
    key={"study": String(32), "site": NAME, "fingerprint": String(200)},
    also=[_of_a_site("site_keys")],
)
signed_requests = _table("signed_requests", key={"hash": LargeBinary(32)})
