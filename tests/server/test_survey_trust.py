"""First contact with the respondent's page: what the link vouches for, what an invitation becomes, whose page it is."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
from survey_double import PAGE, SURVEY, SurveyDouble
from survey_visits import choose_level, fill_in, heading, kept, sent

from sfumato.api.cli.app import app as cli
from sfumato.api.cli.console import run_guarded
from sfumato.study.server.web.rendering import page_files, page_hash, published_hashes

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"


# -- the link ---------------------------------------------------------------------------------------------------------


def test_the_page_shows_which_survey_it_is_and_that_the_link_names_it(double, visit):
    page = visit(double.page)
    heading(page, "Sleep and shift work")
    assert page.locator(".fingerprint").text_content() == double.hash.removeprefix("sha256:")
    assert page.get_by_text("The link that you opened names exactly this survey").is_visible()
    fill_in(page)
    choose_level(page, 2)
    heading(page, "This is what would be sent")
    assert page.get_by_text("The survey is the one that the link names.").is_visible()


def test_another_survey_than_the_link_names_is_refused(double, visit):
    """The server shows its own file with its own right hash; only the link knows better."""
    with SurveyDouble(survey={**SURVEY, "floor": 0.0}) as other:
        page = visit(other.page.replace(other.hash.removeprefix("sha256:"), double.hash.removeprefix("sha256:")))
        heading(page, "This is not the survey you were asked to answer")
        assert "another survey than the link names" in page.get_by_role("alert").text_content()
        assert [path for _, path, _ in other.requests] == [""]


def test_a_link_without_a_hash_works_and_says_what_is_missing(double, visit):
    page = visit(re.sub("&hash=.*", "", double.page))
    heading(page, "Sleep and shift work")
    assert page.get_by_text("does not say which survey this must be").is_visible()
    page.goto("about:blank")
    page.goto(double.page[:-1])
    assert "does not name a survey" in page.get_by_role("alert").text_content()


def test_witnesses_of_the_link_are_asked_beside_those_of_the_survey(visit):
    with SurveyDouble() as press, SurveyDouble() as friend:
        named = [f"{friend.origin}/api/v1/surveys/s1/witness"]
        with SurveyDouble(survey={**SURVEY, "witnesses": named}) as double:
            head = {"survey": double.hash, "version": 1, "hash": double.log[0].hash}
            friend.witness, press.witness = head, {**head, "hash": "f" * 64}
            link = f"{double.page}&witness={press.origin}/api/v1/surveys/s1/witness"
            page = visit(link)
            fill_in(page)
            heading(page, "This guidance was refused")
            assert press.origin in page.get_by_role("alert").text_content()
            press.witness = head
            page.reload()
            choose_level(page, 2)
            heading(page, "This is what would be sent")
            assert page.get_by_text(f"{friend.origin}/api/v1/surveys/s1/witness saw the same log. The survey itself")
            assert page.locator(".checks .yes", has_text=press.origin).is_visible()


# -- invitations ------------------------------------------------------------------------------------------------------

INVITED = {**SURVEY, "invitations": True}


def test_an_invitation_becomes_a_ticket_and_never_meets_the_answer(visit):
    with SurveyDouble(survey=INVITED) as double:
        page = visit(double.page)
        assert "for invited people" in page.get_by_role("alert").text_content()
        page.goto("about:blank")
        page.goto(f"{double.page}&code=good")
        heading(page, "Sleep and shift work")
        assert page.url == double.page
        page.reload()  # the code is kept, encrypted
        assert not double.codes  # and not used up by looking
        fill_in(page)
        choose_level(page, 2)
        heading(page, "This is what would be sent")
        assert page.get_by_text("The ticket is good").is_visible()
        page.get_by_role("button", name="Send").click()
        heading(page, "Thank you")
        assert list(double.codes) == ["good"]
        (answer,) = sent(double)
        assert answer.keys() == {"id", "version", "label", "bits", "ticket"}
        paths = [path for _, path, _ in double.requests]
        assert paths.index("/tickets") < paths.index("/inquiry") < paths.index("/answers")
        asked = next(body for _, path, body in double.requests if path == "/tickets").decode()
        assert answer["id"] not in asked
        assert answer["ticket"] not in asked
        assert not re.search("sealed|key", kept(page))


def test_a_lost_signature_is_asked_for_again_by_the_same_blinded_name(visit):
    with SurveyDouble(survey=INVITED) as double:
        double.lose_signatures = 10**9
        page = visit(f"{double.page}&code=good")
        fill_in(page)
        page.get_by_role("alert").wait_for()
        double.lose_signatures = 0
        page.reload()
        choose_level(page, 2)
        page.get_by_role("button", name="Send").click()
        heading(page, "Thank you")
        asked = {body for _, path, body in double.requests if path == "/tickets"}
        assert len(asked) == 1
        assert len(double.answers) == 1


def test_a_code_that_was_used_is_said_before_anything_is_filled_in_and_another_helps(visit):
    with SurveyDouble(survey=INVITED) as double:
        page = visit(f"{double.page}&code=bad")
        page.get_by_role("button", name="Begin").click()
        heading(page, "The server did not accept this")
        page.goto("about:blank")
        page.goto(f"{double.page}&code=good")
        heading(page, "Questions")
        page.get_by_role("button", name="Back").click()
        fill_in(page)
        choose_level(page, 2)
        heading(page, "This is what would be sent")
        shown = json.loads(page.locator("pre").text_content())
        page.get_by_role("button", name="Delete my answers").click()
        heading(page, "Deleted.")
        page.reload()  # the invitation gives no second ticket, so the first one stays
        fill_in(page)
        choose_level(page, 2)
        heading(page, "This is what would be sent")
        again = json.loads(page.locator("pre").text_content())
        assert (again["id"], again["ticket"]) == (shown["id"], shown["ticket"])


def test_a_server_that_signs_something_else_is_refused(visit):
    with SurveyDouble(survey=INVITED) as double:
        double.spoil["/tickets"] = lambda message: {"signature": message["signature"][::-1]}
        page = visit(f"{double.page}&code=good")
        page.get_by_role("button", name="Begin").click()
        heading(page, "This guidance was refused")
        assert "did not sign the ticket" in page.get_by_role("alert").text_content()


# -- the page itself --------------------------------------------------------------------------------------------------


def test_the_published_hashes_are_current():
    """Run `make reference` if this fails: the page was changed."""
    files = page_files()
    assert published_hashes()["current"] == page_hash(files)
    html = files["index.html"].decode()
    loaded = re.findall(r'(?:href|src)="([\w.]+)" integrity="(sha384-[^"]+)"', html)
    assert {name for name, _ in loaded} == {name for name in files if name.endswith((".js", ".css"))}
    namespace: dict = {"__file__": str(SCRIPTS / "write_page_hashes.py"), "__name__": "script"}
    exec((SCRIPTS / "write_page_hashes.py").read_text(), namespace)
    assert namespace["with_integrity"](html, files) == html


def test_the_hash_is_the_one_that_coreutils_say(tmp_path, capsys):
    assert run_guarded(cli, ["survey", "page", "--out", str(tmp_path / "page"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    said = subprocess.run("LC_ALL=C sha256sum * | sha256sum", shell=True, cwd=tmp_path / "page", capture_output=True)
    assert said.stdout.decode().split()[0] == told["hash"]
    assert run_guarded(cli, ["survey", "page", "--hash"]) == 0
    assert capsys.readouterr().out.startswith(told["hash"])
    assert run_guarded(cli, ["survey", "page"]) == 2
    assert run_guarded(cli, ["survey", "page", "--out", str(tmp_path / "page")]) == 5  # it exists


@pytest.mark.parametrize("name", ["perturb.js", "ticket.js", "interface.js", "style.css"])
def test_a_file_that_was_changed_is_not_run(browser, tmp_path, name):
    """Whoever serves index.html unchanged cannot change anything else."""
    for file, content in page_files().items():
        (tmp_path / file).write_bytes(content + (b"\n/* changed */\n" if file == name else b""))
    with SurveyDouble(page=tmp_path) as double:
        page = browser.new_page()
        page.goto(double.page)
        page.wait_for_load_state("networkidle")
        loaded = page.evaluate("document.styleSheets.length") if name == "style.css" else len(double.requests)
        assert loaded == 0
        page.close()


def test_a_bundle_works_from_another_origin(visit, tmp_path):
    assert run_guarded(cli, ["survey", "page", "--out", str(tmp_path / "page"), "--quiet"]) == 0
    with SurveyDouble(survey=INVITED) as double, SurveyDouble(page=tmp_path / "page") as newspaper:
        pinned = double.hash.removeprefix("sha256:")
        link = f"{newspaper.origin}/survey/#survey={double.origin}/api/v1/surveys/s1&hash={pinned}&code=good"
        page = visit(link)
        fill_in(page)
        choose_level(page, 2)
        page.get_by_role("button", name="Send").click()
        heading(page, "Thank you")
        assert newspaper.requests == []
        assert len(double.answers) == 1


def test_the_server_serves_the_page_that_is_published():
    assert {path.name: path.read_bytes() for path in PAGE.iterdir()} == page_files()
