"""One site cannot starve the others: uploads and checks are shared out, quotas hold, bombs are found early."""

import threading

import anyio
import consortium
import httpx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from consortium import sha
from fastapi.testclient import TestClient

from daily import first_daily
from sfumato.core.errors import SchemaError
from sfumato.release.check_rows import NoiseEvidence, read_card
from sfumato.study.protocol.study_file import objections
from sfumato.study.server.app import create_app
from sfumato.study.server.validation.checker_pool import Limits, Verdict
from sfumato.study.server.validation.file_checks import check_release


@pytest.fixture
def coordinator(tmp_path):
    """An app with the limits of everyday, asked within its own event loop."""
    settings = consortium.settings(tmp_path / "data", validators=2, max_pushes=12, max_site_pushes=4)
    app = create_app(settings)
    app.state.context.start()
    yield app
    app.state.context.close()


def as_client(app, use):
    """Run `use(push)`: pushes of several sites under way together, in one loop."""
    store = app.state.store
    study, _ = store.studies.create(consortium.study())
    tokens = {name: store.sites.invite(study, name).token for name in ("Greedy", "Honest")}

    async def run():
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://testserver") as client:

            async def push(site, body, content=None):
                path = f"/api/v1/studies/{study}/releases/{sha(body)}"
                headers = {"Authorization": f"Bearer {tokens[site]}"}
                return (await client.put(path, content=content or body, headers=headers)).status_code

            await use(push)

    anyio.run(run)


def test_stalled_uploads_of_one_site_keep_no_other_out(coordinator, body):
    async def use(push):
        go_on = anyio.Event()

        async def stalled(own):
            yield own[:10]
            await go_on.wait()
            yield own[10:]

        found = []

        async def greedy(number):
            own = bytes([number]) * 100
            found.append(await push("Greedy", own, stalled(own)))

        async with anyio.create_task_group() as group:
            for number in range(20):  # more than all uploads together
                group.start_soon(greedy, number)
            while len(found) < 16:
                await anyio.sleep(0.01)
            assert found == [429] * 16
            assert await push("Honest", body) == 201
            go_on.set()
        assert sorted(found)[:4] == [422] * 4  # what they sent is no release

    as_client(coordinator, use)
    assert coordinator.state.context.uploads == {}
    assert b'sfumato_quota_refusals_total{quota="uploads"} 16.0' in coordinator.state.context.metrics.text()


def test_slow_checks_of_one_site_do_not_make_another_wait(coordinator, body, monkeypatch):
    """Four files that take for ever are sent first; the honest one is answered while they are still looked at."""
    go_on, usual = threading.Event(), coordinator.state.context.validators.check

    def check(what, path, *more):
        if path.read_bytes() != body:
            go_on.wait(60)
            return Verdict.refused("No release.")
        return usual(what, path, *more)

    monkeypatch.setattr(coordinator.state.context.validators, "check", check)

    async def use(push):
        async with anyio.create_task_group() as group:
            for number in range(4):
                group.start_soon(push, "Greedy", bytes([number]) * 100)
            while coordinator.state.context.checks.waiting < 3:
                await anyio.sleep(0.01)
            assert coordinator.state.context.checks.running == 1
            assert await push("Honest", body) == 201
            assert not go_on.is_set()
            go_on.set()

    as_client(coordinator, use)


# Quotas


@pytest.fixture
def quoted(tmp_path):
    """A study with a quota that one release of 60 rows just meets."""
    with TestClient(create_app(consortium.settings(tmp_path / "data"))) as client:

        def make(**quota):
            asked = consortium.study(quota=quota)
            return consortium.Study(client, *client.app.state.store.studies.create(asked))

        yield make


@pytest.mark.parametrize(("name", "most"), first_daily([("rows", 100), ("bytes", 20_000), ("releases", 1)]))
def test_a_site_keeps_no_more_than_its_quota(quoted, tmp_path, body, name, most):
    assert 10_000 < len(body) < 20_000
    study = quoted(**{name: most})
    first, other = study.invite("A"), study.invite("B")
    more = consortium.release(tmp_path, seed=5)
    assert study.push(body, first).status_code == 201
    answer = study.push(more, first)
    if name == "rows":  # found in the file's footer
        assert (answer.status_code, answer.json()["error"]) == (422, "refused")
        assert "40 rows" in answer.json()["message"]
    else:
        assert (answer.status_code, answer.json()["error"]) == (413, "over-quota")
        assert f"more than its limit of {most} {name}" in answer.json()["message"]
        assert f'sfumato_quota_refusals_total{{quota="{name}"}} 1.0' in study.client.get("/metrics").text
    assert study.push(body, first).status_code == 200  # what is there can be asked for again
    assert study.push(consortium.release(tmp_path, seed=6), other).status_code == 201
    assert study.call("DELETE", f"/releases/{sha(body)}", first).status_code == 204
    again = study.push(more, first).status_code
    assert again == (413 if name == "releases" else 201)


def test_quotas_are_part_of_the_study_and_its_hash():
    plain, quoted = consortium.study(), consortium.study(quota={"rows": 10})
    assert "quota" not in plain.to_dict()
    assert plain.hash != quoted.hash
    assert consortium.study(**quoted.to_dict()).hash == quoted.hash
    for wrong in ({}, {"rows": 0}, {"rows": 1.5}, {"rows": True}, {"cells": 1}, [1], "many", {"bytes": -1}):
        with pytest.raises(SchemaError, match="quota"):
            consortium.study(quota=wrong)


def test_a_site_is_told_before_it_sends(tmp_path, body):
    (tmp_path / "r").write_bytes(body)
    card = read_card(pq.read_schema(tmp_path / "r").metadata[b"sfumato.card"])
    assert objections(consortium.study(quota={"rows": 60}), card) == []
    assert "takes 59 of one site" in objections(consortium.study(quota={"rows": 59}), card)[0]


# Cheap before thorough


def bomb(body, tmp_path, rows, **writing):
    """Small and well-formed: its card speaks of `rows` rows, and all of them are equal."""

    def repeated(table):
        return table.slice(0, 1).take(pa.array(np.zeros(rows, dtype=np.int64)))

    def card(text):
        return text.replace(b'"rows": 60', b'"rows": %d' % rows)

    return consortium.rewritten(body, tmp_path, repeated, card, **writing)


def looked_at(body, path, monkeypatch, **limits):
    """The verdict, and how many rows were read for it."""
    seen, usual = [], NoiseEvidence.add

    def add(self, matrix, codes):
        seen.append(len(matrix))
        usual(self, matrix, codes)

    monkeypatch.setattr(NoiseEvidence, "add", add)
    path.write_bytes(body)
    found = check_release(path, consortium.study().to_dict(), Limits(**limits))
    return found.objections, sum(seen)


def test_equal_rows_are_refused_for_the_first_of_them(body, tmp_path, monkeypatch):
    large = bomb(body, tmp_path, 500_000)
    refused, rows = looked_at(large, tmp_path / "pushed", monkeypatch, cells_per_byte=1e9)
    assert "vary less" in refused[0]
    assert rows == 1 << 16


def test_more_cells_than_a_file_can_hold_are_refused_by_its_footer(body, tmp_path, monkeypatch):
    large = bomb(body, tmp_path, 500_000)
    refused, rows = looked_at(large, tmp_path / "pushed", monkeypatch, cells_per_byte=50)
    assert "far more cells" in refused[0]
    assert rows == 0


def test_an_honest_release_is_judged_once_more_at_its_end(tmp_path, monkeypatch):
    """Looking early accuses nobody: all blocks of it are read."""
    honest = consortium.release(tmp_path, rows=200_000)
    refused, rows = looked_at(honest, tmp_path / "pushed", monkeypatch)
    assert (refused, rows) == ([], 200_000)
