"""Pages without a browser: who sees what, where forms come from, what is escaped, and refusals that people can read."""

import re

import consortium
import pyarrow.parquet as pq
import pytest
from consortium import Study
from fastapi.testclient import TestClient

from sfumato.api.cli.study import _error
from sfumato.learn.classifiers.factory import CLASSIFIERS
from sfumato.study.server.app import create_app
from sfumato.study.server.settings import Rate
from sfumato.study.server.web.charts import Scale, curve, mark, percent, series
from sfumato.study.server.web.rendering import COOKIE
from sfumato.study.server.web.study_pages import Guarantee, _rate, guarantee, used_guarantee

HTML = {"Accept": "text/html"}
OWN = {"Origin": "http://testserver", **HTML}


class Browser:
    """A visitor of one study; every one has a jar of cookies of its own."""

    def __init__(self, study, token=None, **session):
        self.study, self.client = study, study.client
        self.cookie = None
        if token is not None:
            answer = self.post("/sign-in", token=token, **session)
            assert answer.status_code == 303, answer.text
            self.cookie = re.match(rf"{COOKIE}=([^;]+)", answer.headers["set-cookie"])[1]

    def _send(self, method, path, headers, **more):
        sent = dict(headers) | ({"Cookie": f"{COOKIE}={self.cookie}"} if self.cookie else {})
        self.client.cookies.clear()
        answer = self.client.request(method, path, headers=sent, follow_redirects=False, **more)
        self.client.cookies.clear()
        return answer

    def get(self, path=""):
        return self._send("GET", path or f"/studies/{self.study.id}", HTML)

    def post(self, path, headers=OWN, **fields):
        return self._send("POST", path, headers, data=fields)

    def act(self, what, headers=OWN, **fields):
        return self.post(f"/studies/{self.study.id}/{what}", headers, **fields)


@pytest.fixture
def owner(study):
    return Browser(study, study.owner)


def results(sites=("St. Mary", "North")):
    rate = {"error": 0.1, "interval": [0.05, 0.2], "rows": 100, "commonest": 0.4}
    points = [{"sites": n, **rate, "lowest": 0.1, "highest": 0.2, "choices": 1} for n in range(1, len(sites) + 1)]
    alone = [{"site": name, "trained_rows": 10, **rate} for name in sites]
    return {
        "classifier": "knn",
        "sites": len(sites),
        "releases": len(sites),
        "rows": 120,
        "trained_rows": 120,
        "cross_validation": {**rate, "folds": 5, "words": "Folds."},
        "test": [{"kind": "public test table", **rate, "words": "Plain."}],
        "by_sites": {"tested_on": "public test table", "words": "Plain.", **rate, "points": points, "alone": alone},
        "trust": {
            "tested_on": "public test table",
            "words": "The same rows.",
            "largest_share": 0.4,
            "trained_on": "all",
            "withstands": 1,
            "sites": [
                {
                    "site": name,
                    "rows": 600,
                    "trained_rows": 60,
                    "disagreement": 0.9 * harmful,
                    "agrees": not harmful,
                    "without": {**rate, "with": 0.1 + 0.6 * harmful, "influence": 0.6 * harmful, "on_its_rows": 0.3},
                }
                for harmful, name in zip((1, 0), reversed(sites), strict=False)
            ],
        },
        "shuffled": {
            "delta": 1e-6,
            "epsilon": 0.15512,
            "words": "The shuffler is honest.",
            "crowds": [{"rows": 1200, "class": "ill", "stage": 3, "local_epsilon": 2.0, "epsilon": 0.15512}],
        },
        "notes": ["A note."],
    }


def add_model(study, classifier="knn", contains_rows=True, sites=("St. Mary", "North")):
    """A model that is done, as the worker leaves it."""
    made = study.store.models.queue(study.id, classifier, contains_rows=contains_rows)
    while study.store.models.claim("w")[1].id != made.id:
        pass
    used = [
        {"site": name, "sha256": "a" * 64, "rows": 60, "mechanism": "m", "guarantee": "g", "words": "w"}
        for name in sites
    ]
    card = {"contains_rows": contains_rows, "releases": used}
    study.store.models.finish(made.id, "w", results=results(sites), card=card, used=[], contains_rows=contains_rows)
    path = study.client.app.state.context.folder.model(study.id, made.id)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"a model")
    return made.id


def test_the_front_page_asks_for_a_token_and_leads_on_to_the_study(study):
    stranger = Browser(study)
    assert "Token" in stranger.get("/").text
    wrong = stranger.post("/sign-in", token="sfu_owner_" + "x" * 43)
    assert wrong.status_code == 401
    assert "unknown, revoked or expired" in wrong.text
    assert "set-cookie" not in wrong.headers
    good = stranger.post("/sign-in", token=f" {study.owner}\n")
    assert (good.status_code, good.headers["location"]) == (303, f"/studies/{study.id}")
    cookie = good.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert study.owner not in cookie
    assert Browser(study, study.owner).get("/").headers["location"] == f"/studies/{study.id}"


def test_pages_need_a_session_of_their_own_study(study, owner):
    for path in ("", "/models-part", "/models/abc", "/models/abc/file"):
        refused = Browser(study).get(f"/studies/{study.id}{path}")
        assert refused.status_code == 401
        assert "Sign in" in refused.text
    other, _ = study.store.studies.create(consortium.study())
    assert owner.get(f"/studies/{other}").status_code == 404
    assert owner.post(f"/studies/{other}/invite", name="x").status_code == 404


def test_a_session_ends_with_sign_out_with_its_token_and_with_time(study, owner, monkeypatch):
    token = study.invite("North")
    site = Browser(study, token)
    assert site.get().status_code == 200
    study.store.sites.revoke(study.id, "North")
    assert site.get().status_code == 401
    again = Browser(study, study.owner)
    assert again.post("/sign-out", now="").headers["location"] == "/"
    assert again.get().status_code == 401
    assert owner.get().status_code == 200
    now = study.store.database.now()
    monkeypatch.setattr(study.store.database, "now", lambda: now + 8 * 3600 + 1)
    assert owner.get().status_code == 401


def test_the_api_knows_no_cookie_and_pages_no_bearer(study, owner):
    assert owner.get(f"/api/v1/studies/{study.id}").status_code == 401
    bearer = {"Authorization": f"Bearer {study.owner}", **HTML}
    assert study.client.get(f"/studies/{study.id}", headers=bearer).status_code == 401


FOREIGN = [
    {"Origin": "http://evil.example"},
    {"Origin": "null"},
    {},
    {"Sec-Fetch-Site": "cross-site"},
    {"Origin": "http://testserver.evil.example"},
    {"Origin": "ftp://testserver"},
]


@pytest.mark.parametrize("headers", FOREIGN, ids=str)
def test_forms_of_other_sites_are_refused(study, owner, headers):
    for what in ("invite", "train", "revoke", "withdraw"):
        assert owner.act(what, headers, name="Stolen").status_code == 403
    assert owner.post("/sign-in", headers, token=study.owner).status_code == 403
    assert owner.post("/sign-out", headers).status_code == 403
    assert study.store.sites.all(study.id) == []
    assert owner.get().status_code == 200


def test_only_forms_are_read(study, owner):
    path = f"/studies/{study.id}/invite"
    headers = OWN | {"Content-Type": "application/json"}
    assert owner._send("POST", path, headers, content=b'{"name": "x"}').status_code == 415
    form = OWN | {"Content-Type": "application/x-www-form-urlencoded"}
    assert owner._send("POST", path, form, content=b"\xff\xfe").status_code == 400
    assert owner._send("POST", path, form, content=b"&".join(b"a=1" for _ in range(50))).status_code == 400
    assert owner._send("POST", path, form, content=b"x" * 100_000).status_code == 413
    assert study.store.sites.all(study.id) == []


def test_a_sites_token_is_shown_once_and_works(study, owner):
    shown = owner.act("invite", name="St. Mary", days="30")
    assert shown.status_code == 200
    token = re.search(r"sfu_site_[\w-]{43}", shown.text)[0]
    assert shown.headers["cache-control"] == "no-store"
    assert token not in owner.get().text
    site = Browser(study, token)
    assert "Your releases" in site.get().text
    for what in ("invite", "train", "revoke"):
        assert site.act(what, name="x", classifier="knn", site="St. Mary").status_code == 403
    bad = owner.act("invite", name="<b>", days="30")
    assert bad.status_code == 422
    assert "The name of a site must have" in bad.text
    assert [one.name for one in study.store.sites.all(study.id)] == ["St. Mary"]
    assert owner.act("revoke", site="St. Mary").headers["location"].endswith("?done=revoked#sites")
    assert study.store.tokens.authenticate(token) is None
    assert owner.act("revoke", site="nobody").status_code == 404


def test_the_overview_shows_sites_rows_and_what_is_asserted(study, owner, body):
    token = study.invite("St. Mary")
    assert study.push(body, token).status_code == 201
    text = owner.get().text
    assert "St. Mary" in text
    assert "site-asserted" in text
    assert "epsilon at most 8 for the record" in text
    assert "from 1 in 1,000 to at most 749 in 1,000" in text
    assert study.store.studies.find(study.id).hash in text
    assert ">60<" in text


def test_a_site_sees_and_withdraws_its_own_releases_and_no_others(study, body, tmp_path):
    mine, theirs = study.invite("St. Mary"), study.invite("North")
    other = consortium.release(tmp_path, seed=5)
    assert study.push(body, mine).status_code == 201
    assert study.push(other, theirs).status_code == 201
    site = Browser(study, mine)
    text = site.get().text
    assert consortium.sha(body)[:12] in text
    assert consortium.sha(other)[:12] not in text
    assert "North" not in text
    assert "never rows" not in text  # released rows lie on the server, and some models contain them
    assert "models contain released rows, which the owner can download" in text
    assert site.act("withdraw", sha256=consortium.sha(other)).status_code == 404
    assert site.act("withdraw", sha256="../../etc/passwd").status_code == 404
    assert site.act("withdraw", sha256=consortium.sha(body)).status_code == 303
    assert "withdrawn" in site.get().text
    assert not study.client.app.state.context.folder.release(study.id, consortium.sha(body)).exists()


def test_models_are_shown_and_those_with_rows_are_the_owners_alone(study, owner):
    rows, free = add_model(study), add_model(study, "naive-bayes", contains_rows=False)
    site = Browser(study, study.invite("St. Mary"))
    study.invite("North")
    assert owner.get(f"/studies/{study.id}/models/{rows}/file").content == b"a model"
    assert site.get(f"/studies/{study.id}/models/{free}/file").content == b"a model"
    assert site.get(f"/studies/{study.id}/models/{rows}/file").status_code == 403
    seen = site.get().text
    assert f"{free}/file" in seen
    assert f"{rows}/file" not in seen
    assert "only for the owner" in seen
    page = owner.get(f"/studies/{study.id}/models/{rows}").text
    assert "Each site alone" in page
    shuffled = page[page.index("The pool, shuffled") : page.index("Releases used")]
    assert "The shuffler is honest." in shuffled
    assert "class ill, stage 3" in shuffled
    assert "0.156" in shuffled  # a bound is rounded up
    assert page.count("<svg") > 4
    own = site.get(f"/studies/{study.id}/models/{rows}").text
    assert "Your site alone" in own
    alone = own[own.index("Your site alone") : own.index("Releases used")]
    assert "St. Mary" in alone
    assert "North" not in alone


def test_what_each_site_does_to_a_model_is_the_owners_to_see_and_a_site_sees_itself(study, owner):
    model = add_model(study)
    site = Browser(study, study.invite("St. Mary"))
    study.invite("North")
    for page in (owner.get().text, owner.get(f"/studies/{study.id}/models/{model}").text):
        assert "Without North the error is 10% instead of 70%." in page
        assert "+60.0 points" in page
        assert "worse with it" in page
        assert "60 of 600" in page
        assert "at most 40%" in page
        assert "withstands 1 site that pushes anything at all" in page
    for page in (site.get().text, site.get(f"/studies/{study.id}/models/{model}").text):
        part = page[page.index('data-testid="trust"') :]
        assert "+0.0 points" in part
        assert "Without North" not in page
        assert "+60.0 points" not in page


def test_a_model_can_be_asked_of_the_sites_that_agree(study, owner):
    assert owner.act("train", classifier="knn", sites="agreeing").status_code == 303
    assert owner.act("train", classifier="knn", sites="nice ones").status_code == 422
    assert study.call("POST", "/models", json={"classifier": "knn", "sites": "agreeing"}).status_code == 202
    assert study.call("POST", "/models", json={"classifier": "knn", "sites": "x"}).status_code == 422
    assert [model.sites for model in study.store.models.all(study.id)] == ["agreeing", "agreeing"]
    assert "sites that agree" in owner.get().text


def test_releases_that_share_rows_are_shown_to_the_owner_alone(study, owner, body, tmp_path):
    mine, other = study.invite("St. Mary"), study.invite("North")
    assert study.push(body, mine).status_code == 201
    half = consortium.release(tmp_path, seed=4)

    def known(table):
        (tmp_path / "first.parquet").write_bytes(body)
        rows = pq.read_table(tmp_path / "first.parquet").slice(0, 30)
        return type(table).from_batches([*rows.to_batches(), *table.slice(0, 30).to_batches()], table.schema)

    assert study.push(consortium.rewritten(half, tmp_path, known), other).status_code == 201
    page = owner.get().text
    part = page[page.index("Rows in several releases") : page.index("Invite a site")]
    assert part.count("50%") == 2
    assert "Mary" in part
    assert "North" in part
    assert "Rows in several releases" not in Browser(study, mine).get().text


def test_the_api_too_tells_a_site_only_its_own_figure(study):
    model = add_model(study)
    site = study.invite("St. Mary")
    for token, names in ((study.owner, ["St. Mary", "North"]), (site, ["St. Mary"])):
        one = study.call("GET", f"/models/{model}", token).json()
        (all,) = study.call("GET", "/models", token).json()
        assert one == all
        assert [entry["site"] for entry in one["results"]["by_sites"]["alone"]] == names
        assert sorted(entry["site"] for entry in one["results"]["trust"]["sites"]) == sorted(names)


def test_training_is_queued_and_followed(study, owner):
    answer = owner.act("train", classifier="naive-bayes")
    assert answer.headers["location"].endswith("?done=training#models")
    assert owner.act("train", classifier="oracle").status_code == 422
    text = owner.get().text
    assert 'data-busy="true"' in text
    assert "<progress" in text
    part = owner.get(f"/studies/{study.id}/models-part").text
    assert 'data-busy="true"' in part
    assert "<html" not in part
    (made,) = study.store.models.all(study.id)
    assert "waiting" in owner.get(f"/studies/{study.id}/models/{made.id}").text
    study.store.models.claim("w")
    study.store.models.fail(made.id, "w", "It <i>could</i> not be done.")
    text = owner.get().text
    assert 'data-busy="false"' in text
    assert "It &lt;i&gt;could&lt;/i&gt; not be done." in text


def test_markup_in_what_others_wrote_stays_text(client):
    """Names are checked where they come in; should one slip through, it is still only text."""
    evil = "<script>alert(1)</script>"
    made = consortium.study(name=evil, description=f"{evil} & 'more'")
    store = client.app.state.store
    study = Study(client, *store.studies.create(made))
    model = add_model(study, sites=(evil, "<img src=x onerror=alert(1)>"))
    owner = Browser(study, study.owner)
    for path in ("", f"/studies/{study.id}/models/{model}", f"/studies/{study.id}/models-part"):
        text = owner.get(path).text
        assert evil not in text
        assert "<img" not in text
        for tag in re.findall(r"<script[^>]*>", text):
            assert tag == '<script src="/static/fresh.js" defer>'
    assert "style=" not in owner.get().text
    assert "onclick" not in owner.get().text


def test_pages_are_strict_about_what_they_load(study, owner):
    answer = owner.get()
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe-inline" not in policy
    assert answer.headers["referrer-policy"] == "same-origin"
    assert answer.headers["cache-control"] == "no-store"
    assert not re.search(r'(src|href|action)="https?:', answer.text)
    for name in ("page.css", "fresh.js", "icon.svg"):
        assert study.client.get(f"/static/{name}").status_code == 200
    for name in ("..%2frender.py", "render.py", "page.css%00"):
        assert study.client.get(f"/static/{name}").status_code == 404
    assert "http" not in study.client.get("/static/page.css").text


def test_people_get_pages_and_programs_get_json(study, owner):
    lost = owner.get("/nowhere")
    assert lost.status_code == 404
    assert "Not found" in lost.text
    assert study.client.get("/nowhere").json()["error"] == "not-found"
    assert study.client.get("/api/v1/nowhere", headers=HTML).json()["error"] == "not-found"
    assert owner._send("DELETE", f"/studies/{study.id}", HTML).status_code == 405


def test_guessing_tokens_is_slowed_down(tmp_path):
    app = create_app(consortium.settings(tmp_path / "data", stranger_rate=Rate(0.01, 3)))
    with TestClient(app, raise_server_exceptions=False) as client:
        study = Study(client, *app.state.store.studies.create(consortium.study()))
        tries = [Browser(study).post("/sign-in", token="sfu_site_" + "y" * 42 + str(n)) for n in range(5)]
        assert [one.status_code for one in tries] == [401, 401, 401, 429, 429]
        assert "Too many" in tries[-1].text


def test_signs_differ_and_scales_begin_at_zero():
    assert len({(mark(name), series(name)) for name in CLASSIFIERS}) == len(CLASSIFIERS)
    for top in (0.004, 0.02, 0.13, 0.5, 0.99, 1.0):
        scale = Scale.of([top, None, 0.0])
        assert scale.ticks[0] == 0.0
        assert scale.top >= top
        assert 2 <= len(scale.ticks) <= 7
    assert Scale.of([]).top == 1.0
    assert percent(0.999) == "99.9%"


def test_the_curve_says_in_words_what_it_shows():
    drawn = curve([("knn", results()["by_sites"])])
    assert "knn: 10% with 1 site, 10% with 2 sites" in drawn
    assert curve([("knn", results(("only one",))["by_sites"])]) is None
    assert curve([]) is None


def test_a_guarantee_is_told_as_what_somebody_can_become_sure_of():
    assert [guarantee(epsilon).state for epsilon in (1.5, 8.0, None)] == ["formal", "weak", "none"]
    told = guarantee(4.0049)
    assert told.short == "epsilon at most 4.01 for the record"
    assert "from 1 in 1,000 to at most 53 in 1,000 (epsilon 4.01 for values)" in told.words
    assert "it reveals more on top" in told.words


def test_a_guarantee_is_told_for_who_sees_all_releases():
    told = guarantee(4.0, 3, 16.0)
    assert (told.short, told.state) == ("epsilon at most 16 for the record, with earlier releases", "weak")
    assert "This is release 4. For anybody's values, all 4 together come to epsilon 16." in told.words
    unbounded = guarantee(4.0, 1, None)
    assert (unbounded.short, unbounded.state) == ("no bound with earlier releases", "none")
    assert unbounded.words.startswith("Nothing is proved of both releases together")


def test_the_guarantee_of_a_used_release_is_worded_from_figures():
    """Models of 0.1.0 carry the words of a card, which anybody may have written."""
    used = {"guarantee": "local-dp", "words": "Perfectly safe."}
    assert used_guarantee(used) == Guarantee("proved", "none", "")
    figures = {**used, "epsilon_record": 2.0, "earlier_releases": {"count": 1, "total_epsilon_record": 4.0}}
    assert used_guarantee(figures) == guarantee(2.0, 1, 4.0)


def test_a_model_that_is_no_better_than_guessing_is_called_that():
    """On its page by a sentence, in the terminal by a word; the line to beat is in every drawing."""
    scale = Scale.of([0.0, 0.6])
    rate = {"kind": "test rows", "rows": 100, "words": "Plain."}
    for error, interval, words, word in (
        (0.1, [0.05, 0.2], "Plain.", "commonest class 0.400"),
        (0.38, [0.3, 0.5], "No better than always", "NO BETTER"),
        (0.55, [0.45, 0.6], "Worse than always", "WORSE"),
    ):
        found = _rate("knn", {**rate, "error": error, "interval": interval, "commonest": 0.4}, scale)
        assert words in found.words
        assert "always answering the commonest class 40%" in found.chart
        assert word in _error({"error": error, "interval": interval, "commonest": 0.4})
    assert _rate("knn", {**rate, "error": 0.1, "interval": [0.0, 0.2]}, scale).words == "Plain."
