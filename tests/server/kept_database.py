"""A server's database as version 0.2.0 made it."""

import sqlalchemy as sa
from alembic.operations import Operations
from alembic.runtime.migration import MigrationContext

from sfumato.study.server.settings import Settings
from sfumato.study.server.store import Store
from sfumato.study.server.store.database import Database, engine_of
from sfumato.study.server.store.sql_tables import metadata

NUMBER = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def as_0_2_0_made_it(settings: Settings) -> Store:
    """A store on tables of that version, which are left as they are; to be closed."""
    engine = engine_of(settings)
    with engine.connect().execution_options(writes=True) as connection, connection.begin():
        op = Operations(MigrationContext.configure(connection, opts={"target_metadata": metadata}))
        pool(op)
        surveys(op)
        op.create_table("alembic_version", sa.Column("version_num", sa.String(32), nullable=False))
        connection.exec_driver_sql("INSERT INTO alembic_version VALUES ('0005')")
    return Store(Database(engine), settings)


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
        sa.Column("identity", sa.String(64)),
        sa.Column("sketch", sa.LargeBinary),
        sa.Column("earlier", sa.Integer, nullable=False, server_default="0"),
        sa.Column("total_epsilon", sa.Double),
        sa.UniqueConstraint("study", "sha256"),
        sa.ForeignKeyConstraint(["study", "site"], ["sites.study", "sites.name"], name="fk_releases_site"),
    )
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
        sa.Column("sites", sa.String(20)),
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
    """Surveys: versions of the guidance, answers, invitation codes, keys of tickets."""
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
        sa.Column("blinded", sa.LargeBinary(32), nullable=False),
    )
    op.create_table(
        "survey_keys",
        sa.Column("study", sa.String(32), sa.ForeignKey("studies.id"), primary_key=True),
        sa.Column("private", sa.LargeBinary, nullable=False),
    )
