"""The same contract against SQLite and a real PostgreSQL server."""

import stat
from dataclasses import fields
from pathlib import Path

import consortium
import pytest
from store_contract import StoreContract

from sfumato.core.errors import OutputError, UsageError
from sfumato.study.server.settings import Rate, Settings
from sfumato.study.server.store import Store


class TestSqlite(StoreContract):
    @pytest.fixture
    def settings(self, tmp_path):
        return consortium.settings(tmp_path / "data")

    @pytest.fixture
    def new_settings(self, settings):
        return settings

    def test_it_is_durable_and_private(self, store, settings):
        with store.database.reading() as connection:
            pragmas = {
                name: connection.exec_driver_sql(f"PRAGMA {name}").scalar()
                for name in ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
            }
        assert pragmas == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "busy_timeout": 15000}
        assert stat.S_IMODE((settings.data / "sfumato.db").stat().st_mode) == 0o600


class TestPostgres(StoreContract):
    @pytest.fixture
    def settings(self, tmp_path, postgres_url):
        return consortium.settings(tmp_path / "data", database=postgres_url)

    @pytest.fixture
    def new_settings(self, tmp_path, cluster):
        return consortium.settings(tmp_path / "data", database=cluster.new_database())


def test_a_database_that_is_not_there_is_named_without_its_password(tmp_path):
    url = "postgresql://me:hunter2@127.0.0.1:1/none"
    with pytest.raises(OutputError, match="cannot be used") as caught:
        Store.open(consortium.settings(tmp_path, database=url))
    assert "hunter2" not in str(caught.value)


def test_a_restored_database_becomes_private_with_the_files_beside_it(tmp_path):
    Store.open(consortium.settings(tmp_path)).close()
    (tmp_path / "sfumato.db").chmod(0o644)
    store = Store.open(consortium.settings(tmp_path))
    store.studies.create(consortium.study())
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.glob("sfumato.db*")}
    assert len(modes) >= 2
    assert set(modes.values()) == {0o600}
    store.close()


def test_a_file_that_is_no_database_is_said(tmp_path):
    (tmp_path / "sfumato.db").write_bytes(bytes(range(256)) * 20)
    with pytest.raises(OutputError, match="restore the backup"):
        Store.open(consortium.settings(tmp_path))


@pytest.mark.parametrize("url", ["mysql://x/y", "nonsense", "postgres:hunter2@@"])
def test_other_databases_are_refused(tmp_path, url):
    with pytest.raises(UsageError, match="database must be") as caught:
        Store.open(consortium.settings(tmp_path, database=url))
    assert "hunter2" not in str(caught.value)


def test_settings_come_from_the_environment_and_the_command_line(tmp_path):
    environment = {
        "SFUMATO_DATA": str(tmp_path),
        "SFUMATO_MAX_PUSH_BYTES": "1000",
        "SFUMATO_TOKEN_RATE": "3/9",
        "SFUMATO_TRUST_PROXY": "yes",
        "SFUMATO_IDLE_SECONDS": "1.5",
    }
    found = Settings.from_environment(environment, max_push_bytes=None, database="postgresql://x/y")
    assert found == Settings(
        tmp_path,
        database="postgresql://x/y",
        max_push_bytes=1000,
        token_rate=Rate(3, 9),
        trust_proxy=True,
        idle_seconds=1.5,
    )


def test_every_setting_is_documented():
    page = (Path(__file__).resolve().parents[2] / "docs" / "operations.md").read_text()
    missing = [field.name for field in fields(Settings) if f"`SFUMATO_{field.name.upper()}`" not in page]
    assert missing == []


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"SFUMATO_DATA": "x", "SFUMATO_WORKER": "maybe"},
        {"SFUMATO_DATA": "x", "SFUMATO_MAX_ROWS": "-1"},
        {"SFUMATO_DATA": "x", "SFUMATO_MAX_ROWS": "1e3"},
        {"SFUMATO_DATA": "x", "SFUMATO_STUDY_RATE": "0"},
        {"SFUMATO_DATA": "x", "SFUMATO_STUDY_RATE": "fast"},
    ],
    ids=str,
)
def test_wrong_settings_are_refused_in_words(wrong):
    with pytest.raises(UsageError):
        Settings.from_environment(wrong)
