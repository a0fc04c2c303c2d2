"""The coordinator reconstructs: studies without a label, densities of the pool, and who may see them."""

import copy

import consortium
import numpy as np
import pytest
from test_pages import Browser

from sfumato.core.errors import SchemaError
from sfumato.reconstruction.density import from_plain, to_plain
from sfumato.study.pooling.gather import Pushed
from sfumato.study.pooling.train_pool import reconstruct_pool
from sfumato.study.protocol.study_file import rehearse
from sfumato.study.server.child_jobs import trained
from sfumato.study.server.worker.job import Job

UNLABELLED = {"version": 1, "columns": consortium.COLUMNS[:3]}
ROWS = 1500


@pytest.fixture(scope="module")
def bodies(tmp_path_factory):
    """Two sites whose noise differs: the second is twice as loud."""
    return [
        consortium.release(
            tmp_path_factory.mktemp("r"), ROWS, seed, consortium.COLUMNS[:3], parameters={"epsilon_record": epsilon}
        )
        for seed, epsilon in enumerate((8.0, 4.0))
    ]


@pytest.fixture
def pooled(client, bodies):
    """A study without a label, to which both sites have pushed."""
    study = consortium.study(schema=copy.deepcopy(UNLABELLED))
    made = consortium.Study(client, *client.app.state.store.studies.create(study))
    made.tokens = [made.invite(f"site {number}") for number in range(2)]
    for body, token in zip(bodies, made.tokens, strict=True):
        answer = made.push(body, token)
        assert answer.status_code == 201, answer.text
    return made


def work(study):
    """What the worker does with the oldest job, in this process."""
    context = study.client.app.state.context
    _, claimed = context.store.models.claim("w")
    job = Job.of(
        context.store, context.folder, study.id, claimed.classifier, memory=1 << 40, column=claimed.column, niceness=0
    )
    outcome = trained(job.to_dict(), lambda _: None)
    if "failed" in outcome:
        context.store.models.fail(claimed.id, "w", outcome["failed"])
    else:
        done = outcome["done"]
        context.store.models.finish(
            claimed.id,
            "w",
            results=done["results"],
            card=done["card"],
            used=job.used(done["card"]),
            contains_rows=False,
        )
    return claimed.id


def test_a_study_without_a_label_is_made_and_trains_nothing(pooled):
    study = consortium.study(schema=copy.deepcopy(UNLABELLED))
    rehearse(study)
    assert study.classifiers == ()
    assert consortium.study(**study.to_dict()).hash == study.hash
    with pytest.raises(SchemaError, match="no column for them to predict"):
        consortium.study(schema=copy.deepcopy(UNLABELLED), classifiers=["knn"])
    answer = pooled.call("POST", "/models", json={"classifier": "knn"})
    assert answer.status_code == 409
    assert "Reconstruct" in answer.json()["message"]


def test_a_release_with_a_label_is_not_taken_by_a_study_without(pooled, body):
    answer = pooled.push(body, pooled.tokens[0])
    assert answer.status_code == 422
    assert "columns are not the study's" in str(answer.json())


def test_the_owner_gets_the_distribution_of_the_pool(pooled):
    """Ages are uniform on 0 to 120, so their mean is 60, and no probability lies where only noise leads."""
    asked = pooled.call("POST", "/densities", json={"column": "age"})
    assert asked.status_code == 202, asked.text
    assert work(pooled) == asked.json()["id"]
    found = pooled.call("GET", f"/densities/{asked.json()['id']}").json()
    assert (found["state"], found["releases"], found["sites"]) == ("done", 2, ["site 0", "site 1"])
    density = from_plain(found["found"])
    assert density.rows == 2 * ROWS
    assert abs(density.mean - 60) < 6
    assert density.cells.edges[0] > -1
    assert density.cells.edges[-1] < 121
    assert (density.low <= density.high).all()
    assert [one["id"] for one in pooled.call("GET", "/densities").json()] == [found["id"]]
    assert pooled.call("GET", "/models").json() == []
    assert pooled.call("GET", f"/models/{found['id']}").status_code == 404


def test_only_the_owner_sees_densities(pooled):
    site = pooled.tokens[0]
    assert pooled.call("POST", "/densities", site, json={"column": "age"}).status_code == 403
    assert pooled.call("GET", "/densities", site).status_code == 403
    page = Browser(pooled, site).get().text
    assert "Models" not in page
    assert "behind the noise" not in page


def test_wishes_that_cannot_be_fulfilled_are_refused_with_words(pooled):
    wrong = pooled.call("POST", "/densities", json={"column": "height"})
    assert wrong.status_code == 422
    assert "age, weight, sex" in wrong.json()["message"]
    wrong = pooled.call("POST", "/densities", json={"column": "age", "method": "magic"})
    assert wrong.status_code == 422
    assert "parzen-program" in wrong.json()["message"]


def test_the_owners_page_shows_densities_and_a_withdrawal(pooled):
    owner = Browser(pooled, pooled.owner)
    assert owner.act("reconstruct", column="sex").status_code == 303
    assert "sex</strong> is waiting" in owner.get().text
    identity = work(pooled)
    page = owner.get().text
    assert "Shares of sex" in page
    assert "released rows of 2 sites" in page
    assert 'id="models"' not in page
    table = owner.get(f"/studies/{pooled.id}/densities/{identity}/file")
    assert table.text.splitlines()[0].replace('"', "").startswith("category,probability")
    assert "withdrawn release" not in page
    release = pooled.call("GET", "/releases").json()[0]["sha256"]
    assert pooled.call("DELETE", f"/releases/{release}", pooled.tokens[0]).status_code in (200, 204)
    assert "uses a withdrawn release" in owner.get().text


def test_no_site_is_more_than_its_share_of_a_density(tmp_path, bodies):
    pushed = []
    for number, body in enumerate(bodies):
        path = tmp_path / f"{number}.parquet"
        path.write_bytes(body)
        pushed += [Pushed(path, "large" if number == 0 else "small", f"{number}")]
    found, used = reconstruct_pool([*pushed, pushed[0]], "age", largest_share=0.5, resamples=0, atoms=False)
    assert {one["site"]: 0 for one in used}.keys() == {"large", "small"}
    assert sum(one["rows"] for one in used if one["site"] == "large") == ROWS
    assert found.rows == 2 * ROWS


def test_a_density_is_the_same_as_plain_json(bodies, tmp_path):
    (tmp_path / "r.parquet").write_bytes(bodies[0])
    found, _ = reconstruct_pool([Pushed(tmp_path / "r.parquet", "a", "1")], "age", resamples=20, atoms=False)
    again = from_plain(to_plain(found))
    assert again.table() == found.table()
    assert np.array_equal(again.cells.edges, found.cells.edges)
    assert again.plot() == found.plot()
