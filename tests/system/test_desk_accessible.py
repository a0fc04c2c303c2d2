"""Every screen of the desk, in every state: axe finds nothing, nothing is too wide, no word is broken."""

from __future__ import annotations

import re

import pytest
from seen import DESKTOP, faults

pytestmark = pytest.mark.system


class Steward:
    """Walks the desk with a browser, and looks at each page that he comes to."""

    def __init__(self, browser, visitor, language: str) -> None:
        self.context = browser.new_context(locale=language, viewport=DESKTOP, bypass_csp=True, reduced_motion="reduce")
        self.context.set_default_timeout(200_000)
        self.page, self.visitor, self.wrong = self.context.new_page(), visitor, []

    def look(self, name: str) -> None:
        self.wrong += faults(self.page, name)
        self.page.set_viewport_size(DESKTOP)

    def enter(self) -> None:
        self.page.goto(self.visitor.address)
        self.page.wait_for_url(re.compile(r"/(start|columns)$"))
        cookie = self.context.cookies(self.page.url)[0]
        self.visitor.cookie, self.visitor.root = f"{cookie['name']}={cookie['value']}", cookie["path"]

    def go(self, screen: str) -> None:
        self.page.goto(re.sub(r"[a-z]+(#.*)?$", screen, self.page.url))

    def done(self) -> None:
        """Once no job runs."""
        self.page.wait_for_selector("main:not(:has([data-job]))")

    def choose(self, name: str) -> None:
        self.page.click(f"button[name={name}]")
        self.page.wait_for_load_state()


@pytest.fixture
def steward(browser, opened):
    made = []

    def begin(table, language):
        made.append(Steward(browser, opened(table), language))
        return made[-1]

    yield begin
    for one in made:
        one.context.close()
    assert [fault for one in made for fault in one.wrong] == []


@pytest.mark.parametrize("language", ["en", "de"])
def test_the_road_of_a_table(steward, patients, language):
    one = steward(patients, language)
    stranger = one.context.new_page()
    stranger.goto(one.visitor.address.partition("#")[0])
    one.page, own = stranger, one.page
    one.look("entry")
    one.page.fill("[name=token]", "not the token")
    one.page.click("button")
    one.page.wait_for_load_state()
    one.look("refusal")
    one.page = own
    one.enter()
    one.done()
    for screen in ("start", "columns", "strength", "try", "release", "look"):
        one.go(screen)
        one.look(screen)
    one.go("columns")
    page = one.page
    page.select_option("#label", "ill")
    one.choose("save")
    one.done()
    page.fill("[name=low-0]", "20")
    page.fill("[name=high-0]", "nonsense")
    for place in range(3):
        page.select_option(f"[name=known-{place}]", "form")
    one.choose("next")
    one.look("columns, refused")
    page.fill("[name=low-0]", "20")
    page.fill("[name=high-0]", "79")
    one.choose("next")
    one.look("columns, read off")
    page.fill("[name=low-0]", "0")
    page.fill("[name=high-0]", "120")
    page.select_option("[name=known-0]", "form")
    one.choose("next")
    page.wait_for_url(re.compile("strength$"))
    one.look("strength, declared")
    one.go("try")
    one.look("try, declared")
    page.click("form[action$='/try'] button")
    page.wait_for_selector("[data-job] progress")
    one.look("a job")
    if page.query_selector("[data-job] button"):
        page.click("[data-job] button")
        page.wait_for_load_state()
        one.done()
        one.look("stopped")
    one.go("release")
    one.look("release, declared")
    for box in page.query_selector_all("main form.card [type=checkbox]"):
        box.check()
    page.click("main form.card button")
    page.wait_for_selector("main a.button")
    one.look("released")
    page.click("main a.button")
    page.wait_for_load_state()
    page.click("form[action$='/look'] button")
    page.wait_for_selector("dl.bottom > div:nth-child(3)")  # attackers are done
    one.look("attacked")
    page.fill("#value-0", "27")
    page.click("form[action$='/look-person'] button")
    page.wait_for_selector("#person-found")
    one.look("a person")
    page.fill("#value-0", "nonsense")
    page.click("form[action$='/look-person'] button")
    one.done()
    one.look("a person, refused")
    page.click("form[action$='/end'] button")
    page.wait_for_load_state()
    one.look("ended")


@pytest.mark.parametrize("language", ["en", "de"])
def test_a_table_that_cannot_be_read_and_another_tools_release(steward, patients, tmp_path, language):
    nothing = tmp_path / "nothing.csv"
    nothing.write_text("a,b\n")
    one = steward(nothing, language)
    one.enter()
    one.done()
    for screen in ("columns", "strength", "try", "release", "look"):
        one.go(screen)
        one.look(f"{screen}, unread")
    one.go("start")
    one.page.set_input_files("#original", patients)
    one.page.set_input_files("#theirs", patients)
    one.page.click("form:has(#theirs) button")
    one.page.wait_for_url(re.compile("look$"))
    one.done()
    one.look("look, another tool's")
    one.page.set_input_files("#outside", patients)
    one.page.click("form:has(#outside) button")
    one.page.wait_for_load_state()
    one.look("look, with people outside")
    one.page.click("form[action$='/look'] button")
    one.page.wait_for_selector("dl.bottom > div:nth-child(3)")  # attackers are done
    one.look("attacked, another tool's")
