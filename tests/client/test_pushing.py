"""A push: what is shown is what is sent, refusals come before anything left, and receipts stay."""

import json
import stat

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scripted import BREAK, SITE

from sfumato import verify
from sfumato.core.errors import CardError, CoordinatorError, TableError, UsageError
from sfumato.study.client import Coordinator, Parcel, carry_out, plan_push
from sfumato.study.client.private_notes import Agreements


@pytest.fixture
def coordinator(server, waits):
    with Coordinator(server.url, SITE, patience=waits[1]) as opened:
        yield opened


def test_the_file_is_sent_as_it_is_and_nothing_else(server, coordinator, described, receipt, release):
    folder = release()
    server.script = [(200, described), receipt]
    plan = plan_push(coordinator, folder, "k3f9")
    assert plan.objections == ()
    done = carry_out(plan, coordinator)
    look, push = server.seen
    assert (look["method"], look["path"], look["body"]) == ("GET", "/api/v1/studies/k3f9", b"")
    assert push["body"] == (folder / "release.parquet").read_bytes()
    assert push["path"] == f"/api/v1/studies/k3f9/releases/{plan.parcel.sha256}?purpose=train"
    assert push["headers"]["Content-Length"] == str(plan.parcel.bytes)
    assert done.receipt.site == "North"
    kept = json.loads((folder / "receipt-k3f9.json").read_text())
    assert kept["receipt"]["sha256"] == plan.parcel.sha256
    assert kept["signed_by"] == verify(folder).signed_by
    assert stat.S_IMODE((folder / "receipt-k3f9.json").stat().st_mode) == 0o600


def test_what_was_changed_since_it_was_shown_does_not_leave(server, coordinator, described, release):
    server.script = [(200, described)]
    plan = plan_push(coordinator, release(), "k3f9")
    plan.parcel.file.write_bytes(plan.parcel.file.read_bytes()[::-1])  # as long as before
    with pytest.raises(CardError, match="was changed after it was looked at"):
        coordinator.push("k3f9", plan.parcel)
    assert len(server.seen) == 1


def test_an_interrupted_push_begins_anew_and_sends_the_same(server, coordinator, described, receipt, release):
    seen = []
    server.script = [(200, described), BREAK, (503, b""), receipt]
    plan = plan_push(coordinator, release(), "k3f9")
    carry_out(plan, coordinator, progress=lambda *step: seen.append(step))
    bodies = {request["body"] for request in server.seen[1:]}
    assert len(server.seen) == 4
    assert bodies == {plan.parcel.file.read_bytes()}
    assert seen[-1] == ("Sending", plan.parcel.bytes, plan.parcel.bytes)


def test_words_show_everything_that_leaves(server, coordinator, described, release):
    server.script = [(200, described)]
    plan = plan_push(coordinator, release(), "k3f9", purpose="test")
    words = plan.in_words()
    for shown in ("age, height, ill (label)", "60, to test", plan.parcel.sha256, plan.study.hash, server.url):
        assert shown in words
    assert "What is not protected" in words
    assert plan.to_dict()["card"] == plan.parcel.card.to_dict()


@pytest.mark.parametrize(
    ("words", "objection"),
    [
        ({"parameters": {"epsilon_record": 9.0}}, "epsilon of at most 6"),
        ({"mechanism": "principal-laplace"}, "asks for additive-noise"),
        ({"seed": 1}, "fixed seed"),
        ({"experiment": True}, "not for release"),
    ],
)
def test_objections_are_found_before_anything_is_sent(server, coordinator, described, release, words, objection):
    server.script = [(200, described)]
    plan = plan_push(coordinator, release(**words), "k3f9")
    assert objection in " ".join(plan.objections)
    with pytest.raises(CardError, match=objection):
        carry_out(plan, coordinator)
    assert [request["method"] for request in server.seen] == ["GET"]
    assert not Agreements.usual().path.exists()


def test_a_cell_that_noise_cannot_have_made_never_leaves(server, coordinator, described, release):
    folder = release()
    table = pq.read_table(folder / "release.parquet")
    ages = table["age"].to_pylist()
    ages[41] = 1e6
    changed = table.set_column(0, "age", pa.array(ages)).replace_schema_metadata(table.schema.metadata)
    pq.write_table(changed, folder / "release.parquet")
    server.script = [(200, described)]
    plan = plan_push(coordinator, folder, "k3f9")
    assert "row 42, column 'age'" in plan.objections[0]
    with pytest.raises(CardError, match="row 42"):
        carry_out(plan, coordinator)
    assert [request["method"] for request in server.seen] == ["GET"]


def test_the_study_is_the_one_agreed_on(server, coordinator, described, release):
    server.script = [(200, described)]
    with pytest.raises(CoordinatorError, match="not the one that was agreed"):
        plan_push(coordinator, release(), "k3f9", study_hash="sha256:" + "0" * 64)


def test_a_study_that_changed_is_not_pushed_to_again(server, coordinator, described, receipt, release, study):
    folder = release()
    server.script = [(200, described), receipt]
    first = plan_push(coordinator, folder, "k3f9", study_hash=study.hash)
    assert not first.agreed
    carry_out(first, coordinator)
    server.script = [(200, described)]
    assert plan_push(coordinator, folder, "k3f9").agreed
    changed = type(study).from_dict({**study.to_dict(), "guarantee": "empirical-allowed"})
    server.script = [(200, {**described, "hash": changed.hash, "definition": changed.to_dict()})]
    with pytest.raises(CoordinatorError, match="no longer the one that you agreed to"):
        plan_push(coordinator, folder, "k3f9")
    assert not plan_push(coordinator, folder, "k3f9", study_hash=changed.hash).agreed
    assert Agreements.usual().hash_of(server.url, "k3f9") == study.hash
    assert stat.S_IMODE(Agreements.usual().path.stat().st_mode) == 0o600


def test_a_hash_that_is_not_the_descriptions_is_noticed(server, coordinator, described, release, study):
    weaker = type(study).from_dict({**study.to_dict(), "guarantee": "empirical-allowed"})
    server.script = [(200, {**described, "definition": weaker.to_dict()})]
    with pytest.raises(CoordinatorError, match="its description has"):
        plan_push(coordinator, release(), "k3f9", study_hash=study.hash)


@pytest.mark.parametrize("definition", [None, {}, {"kind": "pool"}, {"kind": "poll"}, [1]], ids=str)
def test_descriptions_that_are_none(server, coordinator, described, release, definition):
    server.script = [(200, {**described, "definition": definition})]
    with pytest.raises(CoordinatorError, match=r"cannot be used|is incomplete"):
        plan_push(coordinator, release(), "k3f9")


def test_a_receipt_for_something_else_is_no_receipt(server, coordinator, described, receipt, release):
    def lie(request):
        status, found = receipt(request)
        return status, {**found, "rows": 59}

    server.script = [(200, described), lie]
    folder = release()
    with pytest.raises(CoordinatorError, match="something other"):
        carry_out(plan_push(coordinator, folder, "k3f9"), coordinator)
    assert not (folder / "receipt-k3f9.json").exists()


def test_study_ids_cannot_leave_their_place_in_an_address(server, coordinator, described):
    server.script = [(200, described)]
    coordinator.study("../../x?y#z")
    assert server.seen[0]["path"] == "/api/v1/studies/..%2F..%2Fx%3Fy%23z"


def test_a_purpose_is_train_or_test(coordinator, release):
    with pytest.raises(UsageError, match="train or test"):
        coordinator.push("k3f9", Parcel.open(release()), purpose="fun")


# -- what is a parcel, and what is not --------------------------------------------------------------------------------


def rewritten(folder, table=None, metadata=None):
    file = folder / "release.parquet"
    old = pq.read_table(file)
    table = old if table is None else table(old)
    given = dict(old.schema.metadata)
    pq.write_table(table.replace_schema_metadata({**given, **(metadata or {})}), file)
    return folder


def test_a_release_is_a_parcel(release):
    folder = release()
    parcel = Parcel.open(folder)
    assert parcel.columns == ("age", "height", "ill")
    assert parcel.bytes == (folder / "release.parquet").stat().st_size
    assert Parcel.open(rewritten(folder)).rows == 60  # the same content, however it is packed


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda folder: rewritten(folder, lambda t: t.append_column("name", t["age"])), "different columns"),
        (lambda folder: rewritten(folder, lambda t: t.slice(1)), "59 rows"),
        (lambda folder: rewritten(folder, metadata={b"pandas": b"{}"}), "contains more"),
        (lambda folder: rewritten(folder, metadata={b"sfumato.card": b"{}"}), "not the one inside"),
        (lambda folder: rewritten(folder, metadata={b"sfumato.card": b"{"}), "not the one inside"),
        (lambda folder: (folder / "release.parquet").write_bytes(b"PAR1"), "not a Parquet file"),
        (lambda folder: (folder / "release.parquet").unlink(), "no release.parquet"),
        (lambda folder: (folder / "card.json").unlink(), "no card"),
        (lambda folder: (folder / "trace.parquet").replace(folder / "release.parquet"), "no card inside"),
    ],
)
def test_anything_else_is_not(release, change, words):
    folder = release()
    change(folder)
    with pytest.raises((CardError, TableError), match=words):
        Parcel.open(folder)


def test_a_release_in_csv_is_told_how_to_become_a_parcel(release):
    with pytest.raises(TableError, match="--format parquet"):
        Parcel.open(release(format="csv"))


# -- the other calls --------------------------------------------------------------------------------------------------


def test_what_a_server_does_not_know_is_none(server, coordinator):
    server.script = [(404, {"error": "not-found", "message": "no", "request": "1"})]
    assert coordinator.release("k3f9", "0" * 64) is None


def test_releases_are_asked_for_until_no_more_come(server, coordinator):
    def about(number):
        known = {"sha256": f"{number:064x}", "site": "North", "purpose": "train", "bytes": 1, "rows": 1, "card": {}}
        return {**known, "received": "2026-01-02", "withdrawn": False, "guarantee": "none"}

    def page(request):
        after = int(request["path"].partition("after=")[2] or "-1", 16)
        return 200, [about(number) for number in range(after + 1, min(after + 4, 8))]

    server.script = [page]
    assert [int(one.sha256, 16) for one in coordinator.releases("k3f9")] == list(range(8))
    assert [request["path"].partition("limit=")[2][:3] for request in server.seen] == ["100"] * 4
    server.seen.clear()
    server.script = [(200, [about(1), about(2)])]  # an older server gives all of them, whatever is asked
    assert len(coordinator.releases("k3f9")) == 2


def test_a_push_without_an_answer_is_said_to_be_one(server, coordinator, described, receipt, release):
    """Its receipt may have been lost: repeating it tells, and counts nothing twice."""
    server.script = [(200, described), *[BREAK] * 7, receipt]
    plan = plan_push(coordinator, release(), "k3f9")
    with pytest.raises(CoordinatorError, match=r"may have arrived.*Push it again"):
        carry_out(plan, coordinator)
    assert carry_out(plan, coordinator).receipt.sha256 == plan.parcel.sha256


@pytest.mark.parametrize("found", [None, {}, {"releases": 5}, [5], [{"sha256": "x"}], 7, "no"], ids=str)
def test_lists_that_are_none(server, coordinator, found):
    server.script = [(200, found)]
    with pytest.raises(CoordinatorError, match="is incomplete"):
        coordinator.releases("k3f9")


@pytest.mark.parametrize(
    "wrong", [{"rows": "60"}, {"rows": True}, {"site": None}, {"bytes": [1]}, {"study": 5}], ids=str
)
def test_answers_of_the_wrong_types_are_not_counted_with(server, coordinator, described, receipt, release, wrong):
    def lie(request):
        status, found = receipt(request)
        return status, {**found, **wrong}

    server.script = [(200, described), lie]
    with pytest.raises(CoordinatorError, match="is incomplete"):
        carry_out(plan_push(coordinator, release(), "k3f9"), coordinator)


def test_an_answer_that_breaks_off_is_asked_for_again(server, coordinator, described, receipt, release, waits):
    def half(request):
        return (*receipt(request), {"Content-Length": "9999", "Connection": "close"})

    coordinator._connection._client.timeout = 1.0
    server.script = [(200, described), half, receipt]
    done = carry_out(plan_push(coordinator, release(), "k3f9"), coordinator)
    assert done.receipt.rows == 60
    assert len(waits[0]) == 1


def test_a_model_is_written_whole_or_not_at_all(server, coordinator, tmp_path):
    server.script = [(200, b"model" * 1000)]
    coordinator.download("k3f9", "m1", tmp_path / "m.skops")
    assert (tmp_path / "m.skops").read_bytes() == b"model" * 1000
    server.script = [(200, b"half", {"Content-Length": "9999"})]
    coordinator._connection._client.timeout = 1.0
    with pytest.raises(CoordinatorError, match="broke off"):
        coordinator.download("k3f9", "m1", tmp_path / "n.skops")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.skops"]
