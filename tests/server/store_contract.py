"""What every store does, whatever database is behind it."""

import base64
import threading
from concurrent.futures import ThreadPoolExecutor

import consortium
import numpy as np
import pytest
from kept_database import as_0_2_0_made_it
from sqlalchemy import inspect

from sfumato.core.errors import OutputError, UsageError
from sfumato.study.protocol.pool_study import Quota
from sfumato.study.server.store import Store, TestTable
from sfumato.study.server.store.release_store import Arrived, QuotaExceededError
from sfumato.study.server.validation.row_identity import RowIdentity

SHA = "a" * 64
OTHER = "b" * 64


class StoreContract:
    """Run by a class with the fixtures `settings` (a database without rows) and `new_settings` (without tables)."""

    @pytest.fixture
    def store(self, settings):
        store = Store.open(settings)
        yield store
        store.close()

    @pytest.fixture
    def clock(self, store, monkeypatch):
        """The store's time, to be moved by hand."""
        now = [1_800_000_000.0]
        monkeypatch.setattr(type(store.database), "now", lambda _: now[0])
        return now

    @pytest.fixture
    def study(self, store):
        identity, _ = store.studies.create(consortium.study())
        store.sites.invite(identity, "A")
        store.sites.invite(identity, "B")
        return identity

    @staticmethod
    def record(store, study, site="A", sha256=SHA, rows=10, epsilon=2.0, **more):
        about = {"purpose": "train", "bytes": 1 << 33, "rows": rows, "epsilon": epsilon, "card": {"words": "ü"}}
        return store.releases.record(Arrived(study, site, sha256, **{**about, **more}))

    # Studies and tokens

    def test_a_study_is_kept_as_it_was_defined(self, store):
        asked = consortium.study(name="Zürich & <b>Basel</b>")
        identity, _ = store.studies.create(asked)
        found = store.studies.find(identity)
        assert (found.kind, found.name, found.hash, found.state) == ("pool", asked.name, asked.hash, "open")
        assert consortium.study(**found.definition).hash == asked.hash
        assert store.studies.find("nobody") is None
        assert store.studies.read(identity).hash == asked.hash

    def test_tokens_are_stored_as_hashes_only(self, store):
        identity, token = store.studies.create(consortium.study())
        site = store.sites.invite(identity, "A").token
        with store.database.reading() as connection:
            stored = str([list(connection.exec_driver_sql(f"SELECT * FROM {name}")) for name in ("tokens", "sites")])
        assert token.startswith("sfu_owner_")
        assert site.startswith("sfu_site_")
        assert token[10:] not in stored
        assert site[9:] not in stored

    def test_a_good_token_names_its_caller(self, store):
        identity, token = store.studies.create(consortium.study())
        owner = store.tokens.authenticate(token)
        assert (owner.study, owner.role, owner.site) == (identity, "owner", None)
        site = store.tokens.authenticate(store.sites.invite(identity, "A").token)
        assert (site.study, site.role, site.site) == (identity, "site", "A")

    def test_other_tokens_name_nobody(self, store, study):
        token = store.sites.invite(study, "A").token
        for wrong in ("", "x", token[:-1], token + "A", token.upper(), "sfu_site_" + "A" * 43, "' OR 1=1 --", "ü" * 52):
            assert store.tokens.authenticate(wrong) is None

    def test_a_token_ends(self, store, study, clock):
        token = store.sites.invite(study, "A", days=2).token
        clock[0] += 2 * 86400 - 1
        assert store.tokens.authenticate(token)
        clock[0] += 2
        assert store.tokens.authenticate(token) is None

    def test_inviting_again_ends_the_older_token(self, store, study):
        first, second = store.sites.invite(study, "A").token, store.sites.invite(study, "A").token
        assert store.tokens.authenticate(first) is None
        assert store.tokens.authenticate(second)
        assert [site.name for site in store.sites.all(study)] == ["A", "B"]

    def test_a_revoked_site_is_out_and_others_are_not(self, store, study):
        a, b = store.sites.invite(study, "A").token, store.sites.invite(study, "B").token
        assert store.sites.revoke(study, "A")
        assert not store.sites.revoke(study, "C")
        assert store.tokens.authenticate(a) is None
        assert store.tokens.authenticate(b)
        assert [(site.name, site.revoked) for site in store.sites.all(study)] == [("A", True), ("B", False)]

    def test_a_lost_owner_token_is_replaced(self, store):
        identity, first = store.studies.create(consortium.study())
        second = store.tokens.new_owner_token(identity)
        assert store.tokens.authenticate(first) is None
        assert store.tokens.authenticate(second).role == "owner"
        with pytest.raises(UsageError, match="no study"):
            store.tokens.new_owner_token("nobodys")

    @pytest.mark.parametrize(("name", "days"), [("../x", 30), ("<i>", 30), ("A", 0), ("A", 4000)])
    def test_a_strange_invitation_is_refused(self, store, study, name, days):
        with pytest.raises(UsageError):
            store.sites.invite(study, name, days)

    def test_a_double_of_another_site_is_refused(self, store, study):
        store.sites.invite(study, "Clinic 1")
        for double in ("clinic 1", "Clinic l", "Clinic I"):
            with pytest.raises(UsageError, match="'Clinic 1'"):
                store.sites.invite(study, double)
        store.sites.invite(study, "Clinic 1")
        store.sites.invite(study, "Clinic 2")
        assert [site.name for site in store.sites.all(study)] == ["A", "B", "Clinic 1", "Clinic 2"]

    def test_sites_of_two_studies_are_apart(self, store, study):
        other, _ = store.studies.create(consortium.study())
        store.sites.invite(other, "A")
        self.record(store, study)
        assert [(site.name, site.releases) for site in store.sites.all(other)] == [("A", 0)]
        assert store.releases.all(other) == []
        assert store.releases.find(other, SHA) is None
        assert not store.releases.withdraw(other, SHA)
        self.record(store, other)  # the same content in another study is another release
        assert len(store.releases.all(study)) == len(store.releases.all(other)) == 1

    # Releases

    def test_a_release_is_recorded_once(self, store, study):
        first = self.record(store, study)
        again = self.record(store, study, rows=11)
        assert (first.outcome, again.outcome) == ("new", "same")
        assert first.receipt == again.receipt
        assert first.receipt.bytes == 1 << 33
        assert self.record(store, study, site="B").outcome == "elsewhere"
        assert store.releases.pushed_before(study, "A", SHA).outcome == "same"
        assert store.releases.pushed_before(study, "A", OTHER) is None
        assert [found.card for found in store.releases.all(study)] == [{"words": "ü"}]

    def test_twenty_at_once_are_one(self, store, study):
        start = threading.Barrier(20)

        def push(_):
            start.wait()
            return self.record(store, study)

        with ThreadPoolExecutor(20) as pool:
            found = list(pool.map(push, range(20)))
        assert sorted(one.outcome for one in found) == ["new"] + ["same"] * 19
        assert len({one.receipt for one in found}) == 1
        assert len(store.releases.all(study)) == 1

    def test_the_same_rows_in_another_file_are_the_same_rows(self, store, study):
        self.record(store, study, identity="1" * 64)
        again = self.record(store, study, sha256=OTHER, identity="1" * 64, purpose="test")
        assert (again.outcome, again.receipt.sha256, again.receipt.purpose) == ("same-rows", SHA, "train")
        assert self.record(store, study, site="B", sha256=OTHER, identity="1" * 64).outcome == "elsewhere"
        assert self.record(store, study, site="B", sha256="c" * 64, identity="2" * 64).outcome == "new"
        assert store.releases.withdraw(study, SHA)
        assert self.record(store, study, sha256=OTHER, identity="1" * 64).outcome == "withdrawn"
        assert len(store.releases.all(study)) == 2
        other, _ = store.studies.create(consortium.study())
        store.sites.invite(other, "A")
        assert self.record(store, other, sha256=OTHER, identity="1" * 64).outcome == "new"

    def test_of_the_same_rows_in_twenty_files_at_once_one_is_new(self, store, study):
        start = threading.Barrier(20)

        def push(number):
            start.wait()
            return self.record(store, study, sha256=f"{number:064x}", identity="1" * 64)

        with ThreadPoolExecutor(20) as pool:
            found = list(pool.map(push, range(20)))
        assert sorted(one.outcome for one in found) == ["new"] + ["same-rows"] * 19
        assert len({one.receipt for one in found}) == 1
        assert len(store.releases.all(study)) == 1

    def test_rows_in_common_are_noted_until_one_side_is_withdrawn(self, store, study):
        rows = np.random.default_rng(0).normal(size=(300, 3))
        for site, sha256, part in (("A", SHA, rows[:200]), ("B", OTHER, rows[150:]), ("B", "c" * 64, -rows)):
            held = RowIdentity(3)
            held.add(part, np.zeros(len(part), dtype=np.int64))
            about = {"identity": held.identity, "sketch": base64.b64decode(held.sketch)}
            assert self.record(store, study, site=site, sha256=sha256, **about).outcome == "new"
            store.releases.compare(study, sha256)
        store.releases.compare(study, SHA)  # both found each other: still one pair
        (pair,) = store.releases.shared_rows(study)
        found = {pair.sha256: (pair.site, pair.share), pair.other: (pair.other_site, pair.other_share)}
        assert found == {SHA: ("A", 50 / 200), OTHER: ("B", 50 / 150)}
        assert pair.expected == 0.0
        assert store.releases.withdraw(study, OTHER)
        assert store.releases.shared_rows(study) == []
        with store.database.reading() as connection:
            kept = connection.exec_driver_sql("SELECT sha256 FROM releases WHERE sketch IS NOT NULL")
            assert sorted(row.sha256 for row in kept) == [SHA, "c" * 64]

    def test_a_site_sees_its_own(self, store, study):
        self.record(store, study)
        self.record(store, study, site="B", sha256=OTHER, epsilon=None)
        assert [found.sha256 for found in store.releases.all(study, "A")] == [SHA]
        assert [found.sha256 for found in store.releases.all(study)] == [SHA, OTHER]
        assert store.releases.find(study, SHA, "B") is None
        assert store.releases.find(study, SHA, "A").guarantee == "epsilon at most 2 for the record"
        assert store.releases.find(study, OTHER).guarantee == "no formal guarantee"
        assert not store.releases.withdraw(study, SHA, "B")

    def test_a_quota_holds_also_for_pushes_that_come_together(self, store, study):
        quota = Quota(releases=3)

        def push(number):
            about = {"purpose": "train", "bytes": 10, "rows": 5, "epsilon": 2.0, "card": {}}
            try:
                return store.releases.record(Arrived(study, "A", f"{number:064x}", **about), quota).outcome
            except QuotaExceededError as error:
                return error.quota

        with ThreadPoolExecutor(8) as pool:
            found = sorted(pool.map(push, range(8)))
        assert found == ["new"] * 3 + ["releases"] * 5
        assert store.releases.kept_of(study, "A") == Quota(bytes=30, rows=15, releases=3)
        assert store.releases.kept_of(study, "B") == Quota(bytes=0, rows=0, releases=0)
        first = store.releases.all(study, "A")[0].sha256
        store.releases.withdraw(study, first)
        assert store.releases.kept_of(study, "A") == Quota(bytes=20, rows=10, releases=3)

    def test_releases_come_in_pages(self, store, study):
        hashes = [f"{number:064x}" for number in range(7)]
        for number, sha256 in enumerate(hashes):
            self.record(store, study, "AB"[number % 2], sha256)
        first = store.releases.all(study, most=3)
        second = store.releases.all(study, after=first[-1].sha256, most=3)
        third = store.releases.all(study, after=second[-1].sha256, most=3)
        assert [one.sha256 for one in (*first, *second, *third)] == hashes
        assert [one.sha256 for one in store.releases.all(study, "B", after=hashes[2], most=3)] == [hashes[3], hashes[5]]
        assert store.releases.all(study, after=64 * "f", most=3) == []

    def test_sites_are_summed_up(self, store, study, clock):
        self.record(store, study, rows=10, epsilon=2.0)
        clock[0] += 86400
        self.record(store, study, sha256=OTHER, rows=5, epsilon=3.0)
        a, b = store.sites.all(study)
        assert (a.releases, a.rows, a.guarantee) == (2, 15, "epsilon at most 3 for the record")
        assert a.last_push == store.database.today()
        assert (b.releases, b.rows, b.last_push, b.guarantee) == (0, 0, None, None)
        self.record(store, study, sha256="c" * 64, epsilon=None)
        assert store.sites.all(study)[0].guarantee == "no formal guarantee"

    def test_earlier_releases_of_the_same_rows_count(self, store, study):
        """Numbers travel, rounded nowhere; the words are those of who sees all releases, rounded up."""
        earlier = {"count": 3, "total_epsilon_record": 16.0049}
        self.record(store, study, epsilon=4.0049)
        self.record(store, study, sha256=OTHER, epsilon=4.0, card={"earlier_releases": earlier})
        first, second = store.releases.all(study)
        assert (first.epsilon, first.earlier, first.total_epsilon) == (4.0049, 0, 4.0049)
        assert first.guarantee == "epsilon at most 4.01 for the record"
        assert (second.epsilon, second.earlier, second.total_epsilon) == (4.0, 3, 16.0049)
        site = store.sites.all(study)[0]
        assert (site.epsilon, site.earlier, site.total_epsilon) == (4.0049, 3, 16.0049)
        assert site.guarantee == "epsilon at most 16.1 for the record, with earlier releases"
        unbounded = {"earlier_releases": {"count": 10**40, "total_epsilon_record": None}}
        self.record(store, study, sha256="c" * 64, card=unbounded)
        site = store.sites.all(study)[0]
        assert (site.epsilon, site.total_epsilon, site.guarantee) == (4.0049, None, "no bound with earlier releases")
        assert store.sites.all(study)[1].total_epsilon is None

    def test_presence_is_told_where_every_release_hides_it(self, store, study):
        central = {"pure": 0.0, "rho": 0.02, "delta": 1e-6, "epsilon": 0.9}
        card = {"guarantee": {"kind": "central-dp", "central": central}}
        self.record(store, study, epsilon=None, card=card)
        (release,), site = store.releases.all(study), store.sites.all(study)[0]
        assert release.presence == site.presence
        assert release.presence["epsilon"] == pytest.approx(0.9, abs=0.01)
        assert site.guarantee == "epsilon at most 0.9, delta 1e-06 for presence"
        self.record(store, study, sha256=OTHER, epsilon=2.0)
        assert store.sites.all(study)[0].presence is None

    def test_what_is_withdrawn_stays_withdrawn(self, store, study):
        self.record(store, study)
        assert store.releases.kept_files() == {(study, SHA)}
        assert store.releases.withdraw(study, SHA, "A")
        assert store.releases.withdraw(study, SHA)  # twice is as good as once
        assert self.record(store, study).outcome == "withdrawn"
        assert store.releases.find(study, SHA).withdrawn
        assert store.releases.all(study, withdrawn=False) == []
        assert store.releases.kept_files() == set()
        assert store.sites.all(study)[0].releases == 0

    def test_the_newest_test_table_counts(self, store, study):
        assert store.releases.test_table(study) is None
        for sha256 in (SHA, OTHER):
            store.releases.set_test_table(study, TestTable(sha256, "csv", 9, 3, store.database.today()))
        assert store.releases.test_table(study).sha256 == OTHER

    # Models

    def test_a_model_goes_its_way(self, store, study):
        asked = store.models.queue(study, "knn", contains_rows=True)
        assert (asked.state, asked.progress, store.models.waiting()) == ("queued", 0.0, 1)
        where, claimed = store.models.claim("worker")
        assert (where, claimed.id, claimed.state) == (study, asked.id, "running")
        assert store.models.update(asked.id, "worker", 0.5, "cross-validation")
        assert store.models.find(study, asked.id).step == "cross-validation"
        about = {"results": {"error": 0.2}, "card": {"releases": [SHA]}, "used": [SHA], "contains_rows": True}
        assert store.models.finish(asked.id, "worker", **about)
        done = store.models.find(study, asked.id)
        assert (done.state, done.progress, done.results, done.uses_withdrawn) == ("done", 1.0, {"error": 0.2}, False)
        assert store.models.waiting() == 0
        assert not store.models.finish(asked.id, "worker", **about)

    def test_models_are_trained_in_order_by_one_worker_each(self, store, study):
        asked = [store.models.queue(study, name, contains_rows=False).id for name in ("a", "b", "c")]
        claims = [store.models.claim(worker) for worker in ("v", "w", "x", "y")]
        assert [claim and claim[1].id for claim in claims] == [*asked, None]

    def test_many_workers_never_share_a_model(self, store, study):
        asked = {store.models.queue(study, "a", contains_rows=False).id for _ in range(12)}
        with ThreadPoolExecutor(8) as pool:
            claims = list(pool.map(lambda number: store.models.claim(f"w{number}"), range(20)))
        found = [claim[1].id for claim in claims if claim]
        assert sorted(found) == sorted(asked)

    def test_a_dead_workers_model_is_taken_again_but_not_for_ever(self, store, study, clock):
        asked = store.models.queue(study, "a", contains_rows=False).id
        for attempt in range(3):
            assert store.models.claim(f"w{attempt}", lease=60)[1].id == asked
            assert store.models.claim("eager") is None
            clock[0] += 61
        assert store.models.claim("w3") is None
        found = store.models.find(study, asked)
        assert (found.state, "several times" in found.failure) == ("failed", True)

    def test_a_worker_that_lost_its_lease_changes_nothing(self, store, study, clock):
        asked = store.models.queue(study, "a", contains_rows=False).id
        store.models.claim("slow", lease=60)
        clock[0] += 61
        store.models.claim("quick")
        assert not store.models.update(asked, "slow", 0.9, "nearly")
        assert not store.models.finish(asked, "slow", results={}, card={}, used=[], contains_rows=False)
        assert not store.models.fail(asked, "slow", "no")
        assert store.models.update(asked, "quick", 0.1, "begun")

    def test_a_heartbeat_keeps_the_lease(self, store, study, clock):
        asked = store.models.queue(study, "a", contains_rows=False).id
        store.models.claim("steady", lease=60)
        for _ in range(5):
            clock[0] += 50
            assert store.models.update(asked, "steady", 0.5, "on")
            assert store.models.claim("eager") is None

    def test_a_model_fails_in_words_or_is_put_back(self, store, study):
        asked = store.models.queue(study, "a", contains_rows=False).id
        store.models.claim("w")
        assert store.models.give_back(asked, "w")
        assert store.models.find(study, asked).state == "queued"
        store.models.claim("w")
        assert store.models.fail(asked, "w", "One class only.")
        assert store.models.find(study, asked).failure == "One class only."

    def test_a_withdrawal_marks_models_before_and_after_they_are_done(self, store, study):
        for sha256 in (SHA, OTHER):
            self.record(store, study, sha256=sha256)
        early, late, none = (store.models.queue(study, "a", contains_rows=False).id for _ in range(3))
        for _ in range(3):
            store.models.claim("w")
        about = {"results": {}, "card": {}, "contains_rows": False}
        store.models.finish(early, "w", used=[SHA, OTHER], **about)
        store.releases.withdraw(study, SHA)
        store.models.finish(late, "w", used=[SHA], **about)
        store.models.finish(none, "w", used=[OTHER], **about)
        assert [model.uses_withdrawn for model in store.models.all(study)] == [True, True, False]

    # Sessions

    def test_a_session_stands_for_a_token_for_some_hours(self, store, clock):
        identity, token = store.studies.create(consortium.study())
        session = store.tokens.open_session(token, hours=8)
        assert store.tokens.session(session).study == identity
        clock[0] += 8 * 3600 + 1
        assert store.tokens.session(session) is None
        assert store.tokens.session(token) is None
        assert store.tokens.open_session("sfu_owner_" + "A" * 43) is None

    def test_a_session_ends_with_sign_out_or_its_token(self, store, study):
        token = store.sites.invite(study, "A").token
        first, second = store.tokens.open_session(token), store.tokens.open_session(token)
        store.tokens.close_session(first)
        assert store.tokens.session(first) is None
        assert store.tokens.session(second).site == "A"
        store.sites.revoke(study, "A")
        assert store.tokens.session(second) is None

    # The database itself

    def test_everything_is_there_after_opening_again(self, store, study, settings):
        self.record(store, study)
        store.close()
        again = Store.open(settings)
        assert len(again.releases.all(study)) == 1
        assert again.database.is_alive()
        again.close()

    def test_stores_that_open_together_migrate_once(self, new_settings):
        with ThreadPoolExecutor(6) as pool:
            stores = list(pool.map(lambda _: Store.open(new_settings), range(6)))
        identity, _ = stores[0].studies.create(consortium.study())
        assert all(store.studies.find(identity) for store in stores)
        for store in stores:
            store.close()

    def test_an_older_database_is_brought_up_to_date_with_all_that_is_in_it(self, new_settings):
        """Made as 0.2.0 made it and filled with its columns."""
        old = as_0_2_0_made_it(new_settings)
        identity, token = old.studies.create(consortium.study())
        site = old.sites.invite(identity, "A").token
        release = f"'{identity}', '{SHA}', 'A', 'train', 99, 10, '2026-01-02', 2.0, '{{}}', 2, 6.5, '{'1' * 64}'"
        columns = "study, sha256, site, purpose, bytes, rows, received, epsilon, card, earlier, total_epsilon, identity"
        model = f"'m', '{identity}', 'knn', 'queued', 0.0, 'waiting', '2026-01-02', true, false, 0"
        about = "id, study, classifier, state, progress, step, created, contains_rows, uses_withdrawn, attempts"
        with old.database.writing() as connection:
            connection.exec_driver_sql(f"INSERT INTO releases ({columns}) VALUES ({release})")
            connection.exec_driver_sql(f"INSERT INTO models ({about}) VALUES ({model})")
        assert "log_entries" not in inspect(old.database.engine).get_table_names()
        old.close()
        new = Store.open(new_settings)
        assert "log_entries" in inspect(new.database.engine).get_table_names()
        assert new.tokens.authenticate(token).study == identity
        assert new.tokens.authenticate(site).site == "A"
        (kept,) = new.releases.all(identity)
        assert (kept.sha256, kept.epsilon, kept.earlier, kept.total_epsilon) == (SHA, 2.0, 2, 6.5)
        (waiting,) = new.models.all(identity)
        assert (waiting.id, waiting.classifier, waiting.state, waiting.sites) == ("m", "knn", "queued", "all")
        assert self.record(new, identity, sha256=OTHER, identity="1" * 64).outcome == "same-rows"
        assert new.studies.find(identity).hash == consortium.study().hash
        new.close()

    def test_a_newer_database_is_left_alone(self, new_settings):
        store = Store.open(new_settings)
        identity, _ = store.studies.create(consortium.study())
        with store.database.writing() as connection:
            connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
        with pytest.raises(OutputError, match="newer version of sfumato"):
            Store.open(new_settings)
        assert store.studies.find(identity) is not None
        store.close()

    def test_a_database_from_before_0_2_0_is_left_alone(self, new_settings):
        store = as_0_2_0_made_it(new_settings)
        with store.database.writing() as connection:
            connection.exec_driver_sql("UPDATE alembic_version SET version_num = '0004'")
        with pytest.raises(OutputError, match=r"before 0\.2\.0"):
            Store.open(new_settings)
        assert "log_entries" not in inspect(store.database.engine).get_table_names()
        store.close()

    @pytest.mark.parametrize("older", [False, True])
    def test_an_older_database_gets_the_tables_of_the_code(self, older, new_settings):
        from alembic.autogenerate import compare_metadata
        from alembic.migration import MigrationContext

        from sfumato.study.server.store.sql_tables import metadata

        if older:
            as_0_2_0_made_it(new_settings).close()
        store = Store.open(new_settings)
        with store.database.reading() as connection:
            context = MigrationContext.configure(connection, opts={"compare_type": True})
            assert compare_metadata(context, metadata) == []
        store.close()
