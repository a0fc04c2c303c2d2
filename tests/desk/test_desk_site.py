"""A consortium's site: the sixth step shows what `sfumato study push` shows, asks, and sends just that."""

import html
import json
import urllib.parse

import pytest
from desk_visits import Forms
from test_desk_german import left
from typer.testing import CliRunner

from sfumato.api.cli.app import app
from sfumato.api.demo import serving
from sfumato.api.desk.job import Site
from sfumato.core.errors import SfumatoError
from sfumato.guarantee.card import Card
from sfumato.guarantee.words import card_in_words
from sfumato.study.plan_counts import plan_counts
from sfumato.study.protocol.study_file import load_study

COLUMNS = [
    {"name": "agecolumn", "kind": "integer", "low": 0, "high": 120, "source": "public", "reason": "the form"},
    {
        "name": "ward",
        "kind": "categorical",
        "categories": ["b", "plantedcell"],
        "source": "public",
        "reason": "the form",
    },
    {
        "name": "ill",
        "kind": "categorical",
        "role": "label",
        "categories": ["n", "y"],
        "source": "public",
        "reason": "the form",
    },
]
STUDY = {"kind": "pool", "name": "Two wards", "schema": {"version": 1, "columns": COLUMNS}, "classifiers": []}
ROWS = {"mechanism": {"name": "additive-noise"}, "guarantee": {"epsilon_record": 6.0}}
COUNTS = {"guarantee": {"epsilon": 1.0, "delta": 1e-6}}


@pytest.fixture
def consortium(tmp_path, own_places, monkeypatch):  # noqa: ARG001
    """A coordinator; makes a study there, and what its site was given."""
    monkeypatch.setenv("SFUMATO_LEDGER", str(tmp_path / "home" / "ledger.json"))
    with serving(tmp_path / "server") as (url, store):

        def make(study):
            file = tmp_path / "study.json"
            file.write_text(json.dumps({**STUDY, **study, "classifiers": ["naive-bayes"]}))
            if "mechanism" not in study:
                plan_counts(file, out=tmp_path / "agreed.json", pairs=[("agecolumn", "ward")], reason="a textbook")
                file = tmp_path / "agreed.json"
            identity, _ = store.studies.create(load_study(file))
            token = store.sites.invite(identity, "North").token
            token_file = tmp_path / "site.token"
            token_file.write_text(token)
            token_file.chmod(0o600)
            return Site(file, identity, url, token_file), token, store

        yield make


def released(visitor, folder, *, understood=True):
    boxes = {"label_exact": "on", "presence_open": "on"} if understood else {}
    fields = {**visitor.form("release", "release"), **boxes, "folder": str(folder)}
    visitor.post("release", urllib.parse.urlencode(fields).encode())
    page = visitor.page("release")
    assert (folder / "card.json").is_file(), page


@pytest.mark.parametrize("study", [ROWS, COUNTS], ids=["rows", "counts"])
def test_a_site_releases_looks_and_sends_what_it_was_shown(consortium, opened, patients, tmp_path, study):
    site, token, _ = consortium(study)
    visitor = opened(patients, site=site)
    visitor.enter()
    page = visitor.page("columns")
    assert "settles columns, ranges and method" in page
    assert site.terms.hash in page
    for screen in ("strength", "try"):
        assert "settles columns, ranges and method" in visitor.page(screen)
    assert "Release first" in visitor.page("push")
    released(visitor, tmp_path / "north", understood=study is ROWS)

    visitor.send("push", "push")
    page = visitor.page("push")
    shown = ["--to", site.to, "--token-file", str(site.token_file), "--dry-run", "--study", site.study]
    told = CliRunner().invoke(app, ["study", "push", str(tmp_path / "north"), *shown, "--json"]).stdout
    facts, on_page = json.loads(told), html.unescape(page)
    for name in ("file", "sha256", "server", "study", "study_name", "study_hash"):
        assert facts[name] in on_page
    for size in (facts["bytes"], facts["rows"]):
        assert f"{size:,}" in on_page
    assert card_in_words(Card.from_dict(facts["card"])) in on_page
    visitor.send("push", "language", language="de", screen="push")
    assert [left(visitor.page(screen)) for screen in ("push", "columns", "strength", "release")] == [([], [])] * 4
    visitor.send("push", "language", language="en", screen="push")
    visitor.post("push-send", f"number={visitor.form('push', 'push-send')['number']}".encode())
    assert "Say first that this is the study" in visitor.page("push")
    assert not list((tmp_path / "north").glob("receipt-*"))
    visitor.send("push", "push-send", agreed="on")
    page = visitor.page("push")
    assert "Sent, as North" in page
    assert list((tmp_path / "north").glob("receipt-*"))
    # The token is on no page, in no address, and in no file of the desk.
    everything = "".join(visitor.headers_seen) + "".join(visitor.page(one) for one in ("columns", "release", "push"))
    assert token not in everything
    kept = [file for file in (tmp_path / "tmp").rglob("*") if file.is_file()]
    assert not [file for file in kept if token.encode() in file.read_bytes()]
    # Whoever looked and releases again has chosen by private rows, which a study that asks for a proof does not take.
    visitor.send("look", "look")
    running = Forms(visitor.ask("GET", visitor.root + "look")[2]).forms[0]["fields"]
    visitor.post("stop", f"number={running['number']}".encode())
    fields = {**visitor.form("release", "release"), "looked": "on", "folder": str(tmp_path / "again")}
    fields |= dict.fromkeys(("label_exact", "presence_open"), "on")
    visitor.post("release", urllib.parse.urlencode(fields).encode())
    visitor.page("release")
    visitor.send("push", "push")
    assert "The study would not take it" in visitor.page("push")


def test_what_changed_since_it_was_shown_is_not_sent(consortium, opened, patients, tmp_path):
    site, _, _ = consortium(ROWS)
    visitor = opened(patients, site=site)
    visitor.enter()
    visitor.page("columns")
    released(visitor, tmp_path / "north")
    visitor.send("push", "push")
    visitor.page("push")
    again = tmp_path / "again"
    released(visitor, again)
    assert "What would leave" not in visitor.page("push").replace("see what would leave", "")
    visitor.send("push", "push")
    visitor.page("push")
    for name in ("release.parquet", "card.json"):
        (again / name).write_bytes((tmp_path / "north" / name).read_bytes())
    visitor.send("push", "push-send", agreed="on")
    assert "Nothing was sent" in visitor.page("push")
    assert not list(again.glob("receipt-*"))


def test_another_study_than_the_sites_own_copy_says_is_refused(consortium, opened, patients, tmp_path):
    site, _, _ = consortium(ROWS)
    site.file.write_text(site.file.read_text().replace("Two wards", "Three wards"))
    visitor = opened(patients, site=Site(site.file, site.study, site.to, site.token_file))
    visitor.enter()
    visitor.page("columns")
    released(visitor, tmp_path / "north")
    visitor.send("push", "push")
    assert "is not the one that was agreed" in visitor.page("push")


@pytest.mark.parametrize("lacks", ["study", "study_file", "to"])
def test_a_study_needs_all_that_a_push_needs(tmp_path, lacks):
    given = {"study": "k3f9abcd2345", "study_file": str(tmp_path / "s.json"), "to": "https://study.example"}
    del given[lacks]
    words = [word for name, value in given.items() for word in (f"--{name.replace('_', '-')}", value)]
    found = CliRunner().invoke(app, ["open", "--no-browser", *words])
    assert isinstance(found.exception, SfumatoError)
    assert "together" in str(found.exception)
