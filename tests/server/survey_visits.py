"""Visits to the respondent's page in a real browser: fixtures and steps that its tests share."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from survey_double import SurveyDouble

if TYPE_CHECKING:
    from playwright import sync_api

CHROMIUM = Path("/usr/bin/chromium")
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
PHONE = {"width": 375, "height": 700}
EVERY = 10**9  # receipts are lost: however often the page tries


@pytest.fixture(scope="module")
def browser() -> Iterator[sync_api.Browser]:
    if not CHROMIUM.exists():
        pytest.skip("Debian's chromium is not installed")
    playwright_api = pytest.importorskip("playwright.sync_api")
    with playwright_api.sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=str(CHROMIUM), args=ARGUMENTS)
        yield found
        found.close()


@pytest.fixture
def double() -> Iterator[SurveyDouble]:
    with SurveyDouble(k=2) as running:
        yield running


@pytest.fixture
def visit(browser: sync_api.Browser) -> Iterator[Callable[..., sync_api.Page]]:
    """Opens a page in a new profile; the test fails if the page throws, is blocked by the policy or goes elsewhere."""
    contexts, wrong = [], []

    def open_page(address: str, **settings) -> sync_api.Page:
        context = browser.new_context(locale="en-GB", viewport=PHONE, reduced_motion="reduce", **settings)
        context.set_default_timeout(60_000)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("console", lambda message: wrong.append(message.text) if "Security Policy" in message.text else None)
        page.goto(address)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert wrong == []


def fill_in(page: sync_api.Page) -> None:
    """Night: yes, 6.5 hours, pills, children: prefer not to say, bedroom: no; not rested. By keyboard elsewhere."""
    page.get_by_role("button", name="Begin").click()
    page.evaluate(
        """() => {
            const group = [...document.querySelectorAll("fieldset")];
            const labels = (at) => [...group[at].querySelectorAll("label")];
            const wanted = { 0: "Yes", 2: "Pills", 3: "Prefer not to say", 4: "No", 5: "Not rested" };
            for (const [at, text] of Object.entries(wanted)) labels(at).find((l) => l.textContent === text).click();
            const hours = group[1].querySelector("input");
            hours.value = "6.5";
            hours.dispatchEvent(new Event("input"));
            document.querySelector("form .primary").click();
        }"""
    )


def choose_level(page: sync_api.Page, steps: int) -> None:
    page.get_by_role("slider", name="Your limit").fill(str(steps))
    page.locator("form .primary").click()


def heading(page: sync_api.Page, text: str) -> None:
    page.get_by_role("heading", name=text, level=1).wait_for()


def waits(page: sync_api.Page) -> None:
    """The server was asked and said a level that is too high: only now does the page rest until it asks again."""
    heading(page, "Your answers wait")
    page.get_by_text("Asked for at present: level").wait_for()


def kept(page: sync_api.Page) -> str:
    """Everything this origin stores, as text."""
    return page.evaluate(
        """async () => {
            const all = [JSON.stringify({...localStorage}), document.cookie];
            const database = await new Promise((done) => {
                const asked = indexedDB.open("sfumato-survey"); asked.onsuccess = () => done(asked.result);
            });
            if (database.objectStoreNames.contains("kept")) {
                const store = database.transaction("kept").objectStore("kept");
                for (const [name, value] of await new Promise((done) => {
                    const found = []; const cursor = store.openCursor();
                    cursor.onsuccess = () => {
                        const at = cursor.result;
                        if (!at) return done(found);
                        found.push([at.key, at.value]); at.continue();
                    };
                })) {
                    all.push(name, value instanceof CryptoKey ? `extractable ${value.extractable}` : "");
                    if (value.sealed) all.push(new TextDecoder("latin1").decode(value.sealed));
                }
            }
            database.close();
            return all.join("\\n");
        }"""
    )


def sent(double: SurveyDouble) -> list[dict]:
    return [json.loads(body) for method, path, body in double.requests if path == "/answers"]
