"""The desk in a real browser: the whole road, the keyboard alone, and nothing that axe finds fault with."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from desk_visits import Visitor
    from playwright import sync_api

pytestmark = pytest.mark.system

CHROMIUM = Path("/usr/bin/chromium")
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
SCREENS = ("start", "columns", "strength", "try", "release", "look")


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
def visit(browser: sync_api.Browser) -> Iterator[Callable[..., sync_api.Page]]:
    """A page in a new profile; a script that throws, a breach of the policy, or a request elsewhere fails the test."""
    contexts, wrong = [], []

    def enter(visitor: Visitor, **settings) -> sync_api.Page:
        context = browser.new_context(locale="en-GB", viewport=DESKTOP, reduced_motion="reduce", **settings)
        context.set_default_timeout(90_000)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("console", lambda message: wrong.append(message.text) if "Security Policy" in message.text else None)
        page.on("request", lambda one: None if visitor.host in one.url or "data:" in one.url else wrong.append(one.url))
        page.goto(visitor.address)
        page.wait_for_url(re.compile(r"/(start|columns)$"))
        # The end of the desk goes through the visitor, who needs what this browser was given.
        cookie = context.cookies(page.url)[0]
        visitor.cookie, visitor.root = f"{cookie['name']}={cookie['value']}", cookie["path"]
        return page

    yield enter
    for context in contexts:
        context.close()
    assert wrong == []


def picture(page: sync_api.Page, name: str) -> None:
    """For the documentation: `make picture` says where to."""
    if folder := os.environ.get("SFUMATO_PICTURES"):
        page.screenshot(path=f"{folder}/desk-{name}.png")


def screen(page: sync_api.Page, name: str) -> None:
    page.goto(re.sub(r"[a-z]+(#.*)?$", name, page.url))


def test_from_a_dropped_file_to_the_certificate(opened, visit, patients, tmp_path):
    page = visit(opened())
    assert "#" not in page.url
    page.set_input_files("#table", patients)
    page.click("text=Open it")
    page.wait_for_selector("tbody tr")
    assert "patients" not in page.title()
    assert "patients" not in page.url
    page.select_option("#label", "ill")
    page.click("button[name=save]")
    page.wait_for_selector("#label option[value=ill][selected]", state="attached")
    for name, value in (("low-0", "0"), ("high-0", "120")):
        page.fill(f"[name={name}]", value)
    for place, source in enumerate(("form", "codebook", "form")):
        page.select_option(f"[name=known-{place}]", source)
    picture(page, "columns")
    page.click("button[name=next]")
    page.wait_for_url(re.compile("strength$"))
    before = page.inner_text("[data-shows=epsilon]")
    page.fill("#chances", "5")
    assert float(page.inner_text("[data-shows=epsilon]")) > float(before)
    page.click("button[name=next]")
    page.wait_for_url(re.compile("release$"))
    folder = tmp_path / "home" / "Sfumato" / "patients-release"
    assert page.input_value("#folder") == str(folder)
    page.click("main form.card button")
    page.wait_for_selector("main a.button")
    assert "Proved" in page.inner_text("main .lead >> nth=0")
    page.click("main a.button")
    page.click("text=Attack the release")
    page.wait_for_selector("dl.bottom")
    assert "Whose row is it?" in page.inner_text("dl.bottom")
    with page.expect_popup() as opened_page:
        page.click("text=Certificate to print")
    assert "WHAT IS PROVED" in opened_page.value.inner_text("body")
    assert sorted(file.name for file in folder.iterdir()) >= ["card.json", "certificate.html", "model.json"]
    page.go_back()
    page.reload()
    assert len(list(folder.parent.iterdir())) == 1


def test_without_a_script_the_token_is_pasted(opened, browser, patients):
    visitor = opened(patients)
    context = browser.new_context(java_script_enabled=False, viewport=PHONE)
    page = context.new_page()
    page.goto(visitor.address)
    page.fill("[name=token]", visitor.token)
    page.click("button")
    page.wait_for_url(re.compile("columns$"))
    cookie = context.cookies(page.url)[0]
    visitor.cookie, visitor.root = f"{cookie['name']}={cookie['value']}", cookie["path"]
    visitor.page("columns")
    page.reload()
    assert "Column to predict" in page.inner_text("main")
    context.close()


def test_the_keyboard_alone_suffices(opened, visit, patients):
    visitor = opened(patients)
    page = visit(visitor)
    page.wait_for_selector("tbody tr")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    screen(page, "strength")
    page.focus("#slide")
    page.keyboard.press("ArrowRight")
    assert page.input_value("#chances") == "2.1"
    page.focus("#trust-owner")
    page.keyboard.press("ArrowDown")
    assert page.is_checked("#trust-nobody")
    page.focus("button[name=save]")
    page.keyboard.press("Enter")
    page.wait_for_load_state()
    assert page.input_value("#chances") == "2.1"


def test_two_windows_do_not_undo_each_other(opened, visit, patients):
    page = visit(opened(patients))
    page.wait_for_selector("tbody tr")
    screen(page, "strength")
    other = page.context.new_page()
    other.goto(page.url)
    other.fill("#chances", "4")
    other.click("button[name=save]")
    other.wait_for_load_state()
    page.fill("#chances", "6")
    page.click("button[name=save]")
    page.wait_for_selector("[role=status]")
    assert page.input_value("#chances") == "4.0"


@pytest.mark.parametrize("language", ["en", "de"])
def test_axe_finds_nothing_on_any_screen(opened, browser, tmp_path, language):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    table = tmp_path / "odd.csv"
    rows = "".join(f"{1000 + i},{20 + 7 * i % 60},{'abc'[i % 3]},{i % 5},{'yn'[i % 2]}\n" for i in range(90))
    table.write_text("mrn,age,<script>x</script>,שם,ill\n" + rows, encoding="utf-8")
    visitor = opened(table)
    context = browser.new_context(locale=language, viewport=DESKTOP, bypass_csp=True)
    page = context.new_page()
    page.goto(visitor.address)
    page.wait_for_selector("tbody tr")
    cookie = context.cookies(page.url)[0]
    visitor.cookie, visitor.root = f"{cookie['name']}={cookie['value']}", cookie["path"]
    wrong = []
    for name in SCREENS:
        screen(page, name)
        for size in (DESKTOP, PHONE, {"width": 640, "height": 450}):  # the last is 200% of the first
            for scheme in ("light", "dark"):
                page.emulate_media(color_scheme=scheme)
                page.set_viewport_size(size)
                found = axe.run(page).response["violations"]
                wrong += [f"{name} {scheme} {size['width']}: {one['id']}" for one in found]
                if page.evaluate("document.documentElement.scrollWidth > innerWidth + 1"):
                    wrong.append(f"{name} {size['width']}: wider than the window")
    context.close()
    assert wrong == []
