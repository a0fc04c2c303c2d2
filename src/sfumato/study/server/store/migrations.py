"""Schema migrations, one function a step, the oldest first: a step that was released is never edited."""

from __future__ import annotations

import contextlib
import hashlib
import json
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from alembic.operations import Operations
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError

from sfumato.core.errors import OutputError
from sfumato.core.files import exclusive
from sfumato.study.server.settings import Settings
from sfumato.study.server.store.database import FILE, engine_of
from sfumato.study.server.store.sql_tables import metadata
from sfumato.study.server.store.token_store import TicketKey

NUMBER = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def pool(op: Operations) -> None:
    """Studies, sites, tokens, sessions, releases, test tables, models."""
    op.create_table(
        "studies",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("kind", sa.String(20), nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("hash", sa.String(80), nullable=False),
        sa.Column("definition", sa.Text, nullable=False),
        sa.Column("created", sa.String(10), nullable=False),
        sa.Column("state", sa.String(20), nullable=False),
    )
    op.create_table(
        "sites",
        sa.Column("study", sa.String(32), sa.ForeignKey("studies.id"), primary_key=True),
        sa.Column("name", sa.String(60), primary_key=True),
        sa.Column("created", sa.String(10), nullable=False),
    )
    op.create_table(
        "tokens",
        sa.Column("hash", sa.String(64), primary_key=True),
        sa.Column("study", sa.String(32), sa.ForeignKey("studies.id"), nullable=False),
        sa.Column("role", sa.String(10), nullable=False),
        sa.Column("site", sa.String(60)),
        sa.Column("expires", sa.BigInteger),
        sa.Column("revoked", sa.Boolean, nullable=False),
        sa.ForeignKeyConstraint(["study", "site"], ["sites.study", "sites.name"], name="fk_tokens_site"),
    )
    op.create_index("ix_tokens_study_site", "tokens", ["study", "site"])
    op.create_table(
        "sessions",
        sa.Column("hash", sa.String(64), primary_key=True),
        sa.Column("token", sa.String(64), sa.ForeignKey("tokens.hash"), nullable=False),
        sa.Column("expires", sa.BigInteger, nullable=False),
    )
    op.create_index("ix_sessions_expires", "sessions", ["expires"])
    op.create_table(
        "releases",
        sa.Column("number", NUMBER, primary_key=True, autoincrement=True),
        sa.Column("study", sa.String(32), sa.ForeignKey("studies.id"), nullable=False),
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.Column("site", sa.String(60), nullable=False),
        sa.Column("purpose", sa.String(10), nullable=False),
        sa.Column("bytes", sa.BigInteger, nullable=False),
        sa.Column("rows", sa.BigInteger, nullable=False),
        sa.Column("received", sa.String(10), nullable=False),
        sa.Column("withdrawn", sa.String(10)),
        sa.Column("epsilon", sa.Double),
        sa.Column("card", sa.Text, nullable=False),
        sa.UniqueConstraint("study", "sha256"),
        sa.ForeignKeyConstraint(["study", "site"], ["sites.study", "sites.name"], name="fk_releases_site"),
    )
    op.create_table(
        "test_tables",
        sa.Column("number", NUMBER, primary_key=True, autoincrement=True),
        sa.Column("study", sa.String(32), sa.ForeignKey("studies.id"), nullable=False),
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.Column("format", sa.String(10), nullable=False),
        sa.Column("bytes", sa.BigInteger, nullable=False),
        sa.Column("rows", sa.BigInteger, nullable=False),
        sa.Column("received", sa.String(10), nullable=False),
    )
    op.create_index("ix_test_tables_study", "test_tables", ["study"])
    op.create_table(
        "models",
        sa.Column("number", NUMBER, primary_key=True, autoincrement=True),
        sa.Column("id", sa.String(32), nullable=False, unique=True),
        sa.Column("study", sa.String(32), sa.ForeignKey("studies.id"), nullable=False),
        sa.Column("classifier", sa.String(60), nullable=False),
        sa.Column("state", sa.String(10), nullable=False),
        sa.Column("progress", sa.Double, nullable=False),
        sa.Column("step", sa.Text, nullable=False),
        sa.Column("created", sa.String(10), nullable=False),
        sa.Column("contains_rows", sa.Boolean, nullable=False),
        sa.Column("uses_withdrawn", sa.Boolean, nullable=False),
        sa.Column("results", sa.Text),
        sa.Column("card", sa.Text),
        sa.Column("failure", sa.Text),
        sa.Column("worker", sa.String(60)),
        sa.Column("lease", sa.Double),
        sa.Column("attempts", sa.Integer, nullable=False),
    )
    op.create_index("ix_models_study", "models", ["study"])
    op.create_index("ix_models_state", "models", ["state"])
    op.create_table(
        "model_releases",
        sa.Column("model", sa.String(32), sa.ForeignKey("models.id"), primary_key=True),
        sa.Column("sha256", sa.String(64), primary_key=True),
    )
    op.create_index("ix_model_releases_sha256", "model_releases", ["sha256"])


def surveys(op: Operations) -> None:
    """Surveys: versions of the guidance, answers, invitation codes."""
    op.create_table(
        "survey_versions",
        sa.Column("study", sa.String(32), sa.ForeignKey("studies.id"), primary_key=True),
        sa.Column("version", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("k", sa.Integer, nullable=False),
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.Column("inputs_sha256", sa.String(64), nullable=False),
        sa.Column("answers", sa.BigInteger, nullable=False),
        sa.Column("previous", sa.String(80), nullable=False),
        sa.Column("hash", sa.String(64), nullable=False),
        sa.Column("hour", sa.String(13), nullable=False),
        sa.Column("matrix", sa.LargeBinary, nullable=False),
        sa.Column("inputs", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "survey_answers",
        sa.Column("study", sa.String(32), sa.ForeignKey("studies.id"), primary_key=True),
        sa.Column("id", sa.LargeBinary(16), primary_key=True),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("label", sa.SmallInteger, nullable=False),
        sa.Column("bits", sa.LargeBinary, nullable=False),
        sa.Column("batch", sa.Integer),
        sqlite_with_rowid=False,
    )
    waiting = sa.text("batch IS NULL")
    op.create_index(
        "ix_survey_answers_waiting", "survey_answers", ["study"], sqlite_where=waiting, postgresql_where=waiting
    )
    op.create_table(
        "survey_codes",
        sa.Column("study", sa.String(32), sa.ForeignKey("studies.id"), primary_key=True),
        sa.Column("hash", sa.LargeBinary(32), primary_key=True),
        sa.Column("used", sa.Boolean, nullable=False),
    )


def rows(op: Operations) -> None:
    """Which rows releases hold, which of them share rows, and which sites a model may learn from.

    Identities of releases that are there already are computed from their files, study by study, before the next push.
    """
    op.add_column("releases", sa.Column("identity", sa.String(64)))
    op.add_column("releases", sa.Column("sketch", sa.LargeBinary))
    op.create_index("ix_releases_identity", "releases", ["study", "identity"])
    op.create_table(
        "shared_rows",
        sa.Column("study", sa.String(32), sa.ForeignKey("studies.id"), primary_key=True),
        sa.Column("sha256", sa.String(64), primary_key=True),
        sa.Column("other", sa.String(64), primary_key=True),
        sa.Column("mine", sa.Double, nullable=False),
        sa.Column("theirs", sa.Double, nullable=False),
        sa.Column("expected", sa.Double, nullable=False),
    )
    op.add_column("models", sa.Column("sites", sa.String(20)))


def totals(op: Operations) -> None:
    """How often the rows of a release were released before, and what that comes to, beside its own epsilon.

    Releases that are there already get both from their cards.
    """
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


def tickets(op: Operations) -> None:
    """Tickets of surveys by invitation; start-up rows in survey files become counts.

    Codes move to a new table in the order of their hashes: nothing is left of the order in which they were used.
    A survey whose file changes keeps its log: `origin` is the hash that the log began from.
    """
    connection = op.get_bind()
    codes = connection.execute(sa.text("SELECT study, hash, used FROM survey_codes ORDER BY hash")).all()
    op.drop_table("survey_codes")
    renewed_codes = op.create_table(
        "survey_codes",
        sa.Column("study", sa.String(32), sa.ForeignKey("studies.id"), primary_key=True),
        sa.Column("hash", sa.LargeBinary(32), primary_key=True),
        sa.Column("used", sa.Boolean, nullable=False),
        sa.Column("blinded", sa.LargeBinary(32), nullable=False),
    )
    if codes:
        rows = [{"study": study, "hash": name, "used": bool(used), "blinded": bytes(32)} for study, name, used in codes]
        connection.execute(sa.insert(renewed_codes), rows)
    op.create_table(
        "survey_keys",
        sa.Column("study", sa.String(32), sa.ForeignKey("studies.id"), primary_key=True),
        sa.Column("private", sa.LargeBinary, nullable=False),
    )
    surveys = connection.execute(sa.text("SELECT id, hash, definition FROM studies WHERE kind = 'survey'")).all()
    for study in surveys:
        found, key = renewed(json.loads(study.definition), study.hash)
        if found is None:
            continue
        text = json.dumps(found, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
        connection.execute(
            sa.text("UPDATE studies SET definition = :text, hash = :hash WHERE id = :id"),
            {"text": text, "hash": "sha256:" + hashlib.sha256(text.encode()).hexdigest(), "id": study.id},
        )
        if key is not None:
            kept = sa.text("INSERT INTO survey_keys (study, private) VALUES (:study, :private)")
            connection.execute(kept, {"study": study.id, "private": key})


def renewed(found: dict[str, Any], before: str) -> tuple[dict[str, Any] | None, bytes | None]:
    """The file with counts and a key where it lacked them, and the private key; (None, None): nothing to change."""
    rows, key = found.get("start_up"), None
    if not isinstance(rows, list) and not found.get("invitations"):
        return None, None
    if isinstance(rows, list):
        found["start_up"] = counts_of(rows, [len(question["choices"]) for question in found["questions"]])
    if found.get("invitations"):
        made = TicketKey.new()
        found["ticket_key"], key = made.public, made.stored
    found["origin"] = before
    return found, key


def counts_of(rows: list[list[int]], sizes: list[int]) -> dict[str, Any]:
    """For every class the number of rows and of pairs of choices, from the diagonal on, row by row."""
    width = sum(sizes)
    starts = [sum(sizes[:place]) for place in range(len(sizes))]
    classes: dict[int, dict[str, Any]] = {}
    for *choices, label in rows:
        part = classes.setdefault(label, {"n": 0, "upper": [0] * (width * (width + 1) // 2)})
        part["n"] += 1
        ones = [start + choice for start, choice in zip(starts, choices, strict=True)]
        for place, i in enumerate(ones):
            for j in ones[place:]:
                part["upper"][i * width - i * (i - 1) // 2 + j - i] += 1
    return {"width": width, "classes": {str(label): classes[label] for label in sorted(classes)}}


def densities(op: Operations) -> None:
    """Densities wait in the same queue as models: their row says which column is reconstructed."""
    op.add_column("models", sa.Column("reconstructs", sa.Text))


def parameters(op: Operations) -> None:
    """Parameters of the classifier that a model is of: null for those of earlier versions, which had none."""
    op.add_column("models", sa.Column("parameters", sa.Text))


def presence(op: Operations) -> None:
    """What releases of rows that belong to nobody prove about somebody's presence, beside a record's own epsilon.

    Releases that are there already get both from their cards.
    """
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


def log(op: Operations) -> None:
    """The public log: receipts of pushes, versions of guidance, and what owners commit to, under one tree."""
    op.create_table(
        "log_entries",
        sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("entry", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "log_nodes",
        sa.Column("level", sa.SmallInteger, primary_key=True, autoincrement=False),
        sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("hash", sa.LargeBinary(32), nullable=False),
    )
    op.create_table(
        "log_cosignatures",
        sa.Column("size", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("name", sa.String(200), primary_key=True),
        sa.Column("line", sa.Text, nullable=False),
    )
    op.add_column("releases", sa.Column("logged", sa.BigInteger))


def site_keys(op: Operations) -> None:
    """Keys that sign the pushes of sites, and the numbers that their signatures have used up."""
    op.create_table(
        "site_keys",
        sa.Column("study", sa.String(32), primary_key=True),
        sa.Column("site", sa.String(60), primary_key=True),
        sa.Column("fingerprint", sa.String(200), primary_key=True),
        sa.Column("enrolled", sa.String(10), nullable=False),
        sa.ForeignKeyConstraint(["study", "site"], ["sites.study", "sites.name"], name="fk_site_keys_site"),
    )
    op.create_table("signed_requests", sa.Column("hash", sa.LargeBinary(32), primary_key=True))


STEPS = {
    "0001": pool,
    "0002": surveys,
    "0003": rows,
    "0004": totals,
    "0005": tickets,
    "0006": densities,
    "0007": parameters,
    "0008": presence,
    "0009": log,
    "0010": site_keys,
}
NEWEST = next(reversed(STEPS))
"""The step that a database is brought to."""
_LOCK = 0x5F0_A70  # any number that no other program uses for its advisory locks
_VERSION = sa.Table(
    "alembic_version",
    sa.MetaData(),
    sa.Column("version_num", sa.String(32), nullable=False),
    sa.PrimaryKeyConstraint("version_num", name="alembic_version_pkc"),
)


def open_engine(settings: Settings) -> Engine:
    """An engine for the settings' database, its schema brought up to date."""
    engine = engine_of(settings)
    try:
        _upgrade(engine, settings.data)
    except DBAPIError as error:
        engine.dispose()
        where = engine.url.render_as_string(hide_password=True)
        if engine.url.get_backend_name() == "sqlite":
            advice = "Its disk is full, you may not write it, or it is not a database: then restore the backup."
        else:
            advice = "Check that it runs, that the address and password are right, and that the user may create tables."
        raise OutputError(f"The database {where} cannot be used: {type(error.orig).__name__}. {advice}") from None
    except OutputError:
        engine.dispose()
        raise
    return engine


def _upgrade(engine: Engine, data: Path) -> None:
    """Take the steps that are missing; of several processes that start together, one does it and the others wait."""
    sqlite = engine.url.get_backend_name() == "sqlite"
    lock = exclusive(data / FILE) if sqlite else contextlib.nullcontext()
    with lock, engine.connect().execution_options(writes=True) as connection, connection.begin():
        if not sqlite:
            connection.execute(sa.text("SET LOCAL lock_timeout = '120s'"))
            connection.execute(sa.text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
        context = MigrationContext.configure(connection, opts={"target_metadata": metadata})
        done = context.get_current_revision() or ""
        if done and done not in STEPS:
            raise OutputError(
                "A newer version of sfumato has used this database. Upgrade sfumato, or restore the backup "
                "from before that version was started."
            )
        for number, step in STEPS.items():
            if done < number <= NEWEST:
                step(Operations(context))
        _VERSION.create(connection, checkfirst=True)
        connection.execute(_VERSION.delete())
        connection.execute(_VERSION.insert().values(version_num=max(done, NEWEST)))
    if sqlite and engine.url.database:
        Path(engine.url.database).chmod(0o600)
