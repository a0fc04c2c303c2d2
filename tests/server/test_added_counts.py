"""Sites push noisy counts under the study's plan; the server checks, adds and trains. Rows never travel."""

import copy
import io
import json
import re
from pathlib import Path

import consortium
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.api.sanitize import study_terms
from sfumato.core.errors import CardError, SchemaError, UsageError
from sfumato.guarantee import Card
from sfumato.mechanisms.central.plan import Plan, public_plan
from sfumato.release.asked import Terms
from sfumato.release.check_rows import read_card
from sfumato.release.release import Release
from sfumato.release.sanitize import Options, sanitize
from sfumato.study.plan_counts import plan_counts
from sfumato.study.pooling.gather import ONE_SITE, Pushed, add_counts, with_added_counts
from sfumato.study.protocol.messages import AddedCounts
from sfumato.study.protocol.pool_study import PoolStudy
from sfumato.study.protocol.study_file import load_study
from sfumato.study.server.child_jobs import trained
from sfumato.study.server.worker.job import Job

ENCODING = consortium.study().encoding
REASON = "growth charts"
PLAN = public_plan(ENCODING, [("age", "weight")], REASON)
SITES = ("St. Mary", "Westend", "Harbour")


def study_with(plan=PLAN, **changes):
    mechanism = {"name": "tree-resampling", "parameters": {"plan": plan.to_dict()}}
    asked = {"mechanism": mechanism, "guarantee": {"epsilon": 1.0, "delta": 1e-6}, "classifiers": ["naive-bayes"]}
    return consortium.study(**{**asked, **changes})


def counts(folder, plan=PLAN, seed=0, epsilon=1.0, rows=1_500, delta=1e-6):
    """The bytes of a counts.parquet; every site has a ledger of its own."""
    terms = Terms("s", "h", consortium.study().schema, "tree-resampling", {"plan": plan.to_dict()}, None)
    options = Options(
        study=terms, epsilon_presence=epsilon, delta=delta, force=True, ledger=folder / f"ledger-{seed}.json"
    )
    sanitize(consortium.people(rows, seed), folder / "release", options)
    saved = Release.open(folder / "release").save(folder / "saved", force=True)
    return (saved / "counts.parquet").read_bytes()


@pytest.fixture(scope="module")
def bodies(tmp_path_factory):
    folder = tmp_path_factory.mktemp("counts")
    return [counts(folder, seed=seed) for seed in range(len(SITES))]


@pytest.fixture
def counting(client):
    return consortium.Study(client, *client.app.state.store.studies.create(study_with()))


def changed(body, change=lambda cells: cells, card=None, **more):
    """The same file with its counts or its card changed, as somebody without scruples would."""
    table = pq.read_table(io.BytesIO(body))
    data = json.loads(table.schema.metadata[b"sfumato.card"])
    if card is not None:
        card(data)
    cells = change(table["count"].to_numpy().copy())
    out = io.BytesIO()
    metadata = {b"sfumato.card": json.dumps(data).encode(), **more}
    pq.write_table(pa.table({"count": cells}).replace_schema_metadata(metadata), out)
    return out.getvalue()


def test_counts_are_pushed_added_and_drawn_from(counting, bodies, tmp_path):
    tokens = [counting.invite(site) for site in SITES]
    assert counting.call("GET", "/counts").status_code == 409  # nobody has pushed yet
    for body, token in zip(bodies, tokens, strict=True):
        answer = counting.push(body, token)
        assert answer.status_code == 201, answer.text
        assert answer.json()["rows"] == pytest.approx(1_500, abs=120)
    assert counting.push(bodies[0], tokens[0]).status_code == 200  # once more is as good as once
    again = changed(bodies[0], card=lambda data: data.update(created="2026-01-01"))
    assert counting.push(again, tokens[0]).json()["error"] == "same-rows"
    assert counting.push(again, tokens[1]).json()["error"] == "pushed-elsewhere"
    found = counting.call("GET", "/counts").json()
    assert (found["sites"], found["releases"]) == (sorted(SITES), 3)
    assert found["model"]["rows"] == pytest.approx(4_500, abs=250)
    card = read_card(json.dumps(found["card"]))
    assert card.guarantee["central"]["epsilon"] == pytest.approx(1.0, rel=1e-3)  # and not three times as much
    assert ONE_SITE in card.guarantee["assumptions"]
    assert counting.call("GET", "/counts", tokens[0]).status_code == 403  # a site could take its own part away
    # a site that leaves takes its people along
    gone = consortium.sha(bodies[2])
    assert counting.call("DELETE", f"/releases/{gone}", tokens[2]).status_code == 204
    fewer = counting.call("GET", "/counts").json()
    assert (len(fewer["sites"]), fewer["model"]["rows"]) == (2, pytest.approx(3_000, abs=200))
    store, folder = counting.store, counting.client.app.state.context.folder
    job = Job.of(store, folder, counting.id, "naive-bayes", memory=4 << 30)
    said: list[object] = []
    try:
        done = trained(job.to_dict(), said.append)["done"]
    finally:
        job.clean()
    assert not Path(job.scratch).exists()
    assert (done["results"]["sites"], done["results"]["releases"]) == (2, 2)
    assert sorted(job.used(done["card"])) == sorted(consortium.sha(body) for body in bodies[:2])
    assert "noisy counts of 2 sites" in done["results"]["notes"][0]
    assert done["results"]["cross_validation"]["error"] < 0.3
    with pytest.raises(UsageError, match="Which sites agree"):
        with_added_counts(
            Job.from_dict({**job.to_dict(), "study": None, "sites": "agreeing"}).request(), PLAN, tmp_path
        )


def test_the_claim_for_all_is_the_weakest_of_every_sites(bodies, tmp_path):
    """Also where the site that spends most has one row a person, or another site proves nothing."""

    def several_rows(card):
        card["guarantee"]["rows_per_person"] = 3

    def unproved(card):
        card["guarantee"].update(kind="empirical-only", in_the_way=["a choice by looking"])

    def together(change):
        found = []
        for place, body in enumerate((counts(tmp_path, epsilon=0.5), bodies[1])):
            path = tmp_path / f"{place}.parquet"
            path.write_bytes(changed(body, card=change) if place == 0 else body)
            found.append(Pushed(path, SITES[place], consortium.sha(body)))
        return add_counts(found, PLAN).release().card.stated_guarantee()

    found = together(several_rows)
    assert found.central.epsilon == pytest.approx(1.0, rel=1e-3)
    assert found.central_person.rho == pytest.approx(9 * found.central.rho)
    assert together(unproved).kind == "empirical-only"


def test_counts_of_another_plan_or_with_another_claim_are_refused(counting, bodies, tmp_path):
    token = counting.invite()

    def refusal(body):
        answer = counting.push(body, token)
        assert answer.status_code == 422, answer.text
        return " ".join(answer.json()["objections"])

    other = public_plan(ENCODING, [("age", "sex")], REASON)
    assert "plan=" in refusal(counts(tmp_path, other))
    measured = lambda data: data["recipe"]["measured"][1]  # noqa: E731
    digest = changed(
        counts(tmp_path, other), card=lambda data: data["mechanism"]["parameters"].update(plan=PLAN.digest)
    )
    assert "another plan" in refusal(digest)  # whose card says that it followed the study's
    assert "at most 1 at delta" in refusal(counts(tmp_path, epsilon=2.0))
    assert "delta" in refusal(counts(tmp_path, delta=1e-7))
    louder = changed(bodies[0], card=lambda data: measured(data).update(strength=2 * measured(data)["strength"]))
    assert "does not state the noise" in refusal(louder)
    quieter = changed(bodies[0], card=lambda data: data["recipe"]["measured"].pop())
    assert "does not state the noise" in refusal(quieter)
    assert counting.push(counts(tmp_path, epsilon=0.5), token).status_code == 201  # stronger is welcome


def test_files_that_are_no_counts_are_refused(counting, bodies, body):
    token = counting.invite()

    def refusal(made):
        answer = counting.push(made, token)
        assert answer.status_code == 422, answer.text
        return " ".join(answer.json()["objections"])

    assert "something else than noisy counts" in refusal(body)  # rows
    assert "another plan" in refusal(changed(bodies[0], lambda cells: cells[:-1]))
    assert "cannot be those of one table" in refusal(changed(bodies[0], lambda cells: cells + 200))
    assert "cannot be those of one table" in refusal(changed(bodies[0], lambda cells: cells * 10**14))
    assert "cannot be those of one table" in refusal(changed(bodies[0], lambda cells: -cells))
    assert "something else" in refusal(changed(bodies[0], lambda cells: cells.astype(np.float64)))
    assert "another program" in refusal(changed(bodies[0], **{"note": b"17, ill"}))
    assert "not a Parquet file" in refusal(b"count\n1\n")
    test = counting.push(bodies[0], token, purpose="test")
    assert (test.status_code, "public rows" in test.text) == (422, True)


def test_a_plan_is_made_from_scores_that_all_sites_push(client, tmp_path):
    """Two rounds: everybody scores with 30% of the budget and counts with the rest, which comes to what was asked."""
    file, draft = tmp_path / "study.json", study_with(mechanism={"name": "tree-resampling"})
    file.write_text(json.dumps(draft.to_dict()))
    first = PoolStudy.from_dict(plan_counts(file, scores=True))
    study = consortium.Study(client, *client.app.state.store.studies.create(first))
    folders = []
    for place, site in enumerate(SITES):
        terms = Terms("s", first.hash, first.schema, first.mechanism, first.parameters, None, first.presence)
        folders.append(tmp_path / site)
        sanitize(consortium.people(1_500, place), folders[-1], Options(study=terms, ledger=tmp_path / f"{site}.json"))
        body = (folders[-1] / "counts.parquet").read_bytes()
        assert study.push(body, study.invite(site)).status_code == 201
    wrong = changed(body, lambda cells: np.concatenate([cells[:-1], [10**6]]))
    assert "cannot be those of one table" in study.push(wrong, study.invite()).text
    refused = study.call("POST", "/models", json={"classifier": "naive-bayes"})
    assert (refused.status_code, "measurements that a plan is made from" in refused.text) == (409, True)
    found = AddedCounts.from_dict(study.call("GET", "/counts").json())
    agreed = plan_counts(file, scored=found)
    assert agreed == plan_counts(file, scored=folders)  # with or without a coordinator
    second = PoolStudy.from_dict(agreed)
    assert second.plan.chosen_by == "noisy scores of pairs of columns, added over 3 sites"
    assert [len(node.parents) for node in second.plan.joined] == [1]  # age and weight
    terms = Terms("s", second.hash, second.schema, second.mechanism, second.parameters, None, second.presence)
    told = sanitize(
        consortium.people(1_500, 2), tmp_path / "counts", Options(study=terms, ledger=tmp_path / f"{site}.json")
    )
    together = told.card.all_releases().central
    assert together.epsilon == pytest.approx(1.0, rel=1e-4)
    assert together.epsilon <= 1.0
    assert together.rho == pytest.approx(told.card.stated_guarantee().central.rho / 0.7, rel=1e-4)
    job = Job.of(study.store, client.app.state.context.folder, study.id, "naive-bayes", memory=4 << 30)
    with pytest.raises(UsageError, match="measurements that a plan is made from"):
        with_added_counts(Job.from_dict({**job.to_dict(), "study": None}).request(), first.plan, tmp_path)
    for given, match in (([], "No site"), ([tmp_path / "counts"], "holds no scores"), ([tmp_path], "holds no scores")):
        with pytest.raises((UsageError, CardError), match=match):
            plan_counts(file, scored=given)
    with pytest.raises(CardError, match="coordinator's sum holds no scores"):
        plan_counts(file, scored=AddedCounts({}, {}, [], 0))
    with pytest.raises(UsageError, match="one origin"):
        plan_counts(file, scores=True, pairs=[("age", "sex")])
    with pytest.raises(UsageError, match="given twice"):
        plan_counts(file, scored=[folders[0], folders[1], folders[0]])
    stronger = {**draft.to_dict(), "guarantee": {"epsilon": 0.5, "delta": 1e-6}}
    planned, other = tmp_path / "first.json", tmp_path / "other.json"
    planned.write_text(json.dumps(first.to_dict()))
    other.write_text(json.dumps(stronger))
    for given in (folders, found):  # everybody paid more than the first round of that study asks for
        with pytest.raises(CardError, match=r"not of this study's first round.*at most 0\.2"):
            plan_counts(other, scored=given)
    stronger["schema"]["columns"][0]["high"] += 1
    other.write_text(json.dumps({name: value for name, value in stronger.items() if name != "space"}))
    with pytest.raises(CardError, match=r"not of this study's first round.*'high' differs"):
        plan_counts(other, scored=found)
    for again in ({"scores": True}, {"scored": folders}):
        with pytest.raises(UsageError, match="has a plan already"):
            plan_counts(planned, **again)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"largest_site_share": 0.4}, "push counts"),
        ({"guarantee": "empirical-allowed"}, "same delta"),
        ({"mechanism": {"name": "tree-resampling", "parameters": {"plan": "plan.json"}}}, "the plan itself"),
        ({"mechanism": {"name": "tree-resampling", "parameters": {"plan": {}}}}, "does not fit"),
    ],
)
def test_a_study_whose_plan_cannot_be_followed_is_refused(changes, why):
    with pytest.raises(SchemaError, match=why):
        study_with(**changes)


def test_a_study_without_a_mechanism_asks_for_a_plan_and_then_adds_counts(tmp_path):
    """It never becomes rows of kernel resampling, nor made-up rows of each site alone: both go by name."""
    stated = study_with(mechanism={"name": "tree-resampling"}).to_dict()
    del stated["mechanism"]
    file = tmp_path / "study.json"
    file.write_text(json.dumps(stated))
    for reader in (load_study, study_terms):
        with pytest.raises(SchemaError, match=r"Type: sfumato study plan .* --out first\.json"):
            reader(file)
    planned = PoolStudy.from_dict(plan_counts(file, out=tmp_path / "agreed.json"))
    assert planned.mechanism == "tree-resampling"
    assert isinstance(planned.plan, Plan)
    assert load_study(tmp_path / "agreed.json").hash == planned.hash
    first = PoolStudy.from_dict(plan_counts(file, scores=True))
    assert first.plan is not None


def test_a_study_gets_its_plan_from_a_release_or_from_public_rules(tmp_path):
    draft = study_with(mechanism={"name": "tree-resampling"})
    file = tmp_path / "study.json"
    file.write_text(json.dumps(draft.to_dict()))
    options = Options(
        mechanism="tree-resampling", schema=draft.schema, epsilon_presence=1.0, ledger=tmp_path / "ledger.json"
    )
    sanitize(consortium.people(1_500), tmp_path / "site", options)
    agreed = PoolStudy.from_dict(plan_counts(file, tmp_path / "site", sites=3, out=tmp_path / "agreed.json"))
    assert isinstance(agreed.plan, Plan)
    assert agreed.hash == PoolStudy.from_dict(json.loads((tmp_path / "agreed.json").read_text())).hash != draft.hash
    assert [node.column for node in agreed.plan.nodes] == [
        place for place, _ in json.loads((tmp_path / "site" / "model.json").read_text())["order"]
    ]
    public = PoolStudy.from_dict(plan_counts(file, pairs=[("age", "weight")], reason=REASON))
    assert public.plan.digest == PLAN.digest
    assert public.plan.chosen_by == f"public rules; {REASON}"
    assert re.fullmatch(r"the noisy model [0-9a-f]{16} of one site, for 3 sites like it", agreed.plan.chosen_by)
    for half in ({"pairs": [("age", "weight")]}, {"reason": REASON}):
        with pytest.raises(UsageError, match="need a reason"):
            plan_counts(file, **half)
    sanitize(consortium.people(200), tmp_path / "seeded", Options(**{**vars(options), "seed": 1}))
    with pytest.raises(UsageError, match="no noisy model"):
        plan_counts(file, tmp_path / "seeded")
    wider = copy.deepcopy(draft.to_dict())
    wider["schema"]["columns"][0]["high"] = 150
    wider.pop("space")
    (tmp_path / "wider.json").write_text(json.dumps(wider))
    with pytest.raises(SchemaError, match="other columns"):
        plan_counts(tmp_path / "wider.json", tmp_path / "site")
    with pytest.raises(UsageError, match="number of sites"):
        plan_counts(file, tmp_path / "site", sites=0)
    for without in ({}, {"scores": True}, {"scored": [tmp_path / "site"]}):
        with pytest.raises(UsageError, match="needs that release"):
            plan_counts(file, sites=3, **without)
    with pytest.raises(UsageError, match="one origin"):
        plan_counts(file, tmp_path / "site", pairs=[("age", "sex")])
    local = {**draft.to_dict(), "mechanism": {"name": "additive-noise"}, "guarantee": "empirical-allowed"}
    (tmp_path / "local.json").write_text(json.dumps(local))
    with pytest.raises(SchemaError, match="adds counts"):
        plan_counts(tmp_path / "local.json")
    assert Card.load(tmp_path / "site").mechanism["parameters"]["plan"] is None
