"""The desk in a real browser: the whole road, the keyboard alone, crashes, large and odd tables, and what is left."""

from __future__ import annotations

import csv
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from desk_visits import PLANTED, Visitor
from seen import ARGUMENTS, CHROMIUM, DESKTOP, PHONE

if TYPE_CHECKING:
    from playwright import sync_api

pytestmark = pytest.mark.system

PATIENCE = 200_000
SCREENS = ("start", "columns", "strength", "try", "release", "look")


@pytest.fixture
def visit(browser: sync_api.Browser) -> Iterator[Callable[..., sync_api.Page]]:
    """A page in a new profile; a script that throws, a breach of the policy, or a request elsewhere fails the test."""
    contexts, wrong = [], []

    def begin(visitor: Visitor, **settings) -> sync_api.Page:
        context = browser.new_context(locale="en-GB", viewport=DESKTOP, reduced_motion="reduce", **settings)
        context.set_default_timeout(PATIENCE)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("console", lambda message: wrong.append(message.text) if "Security Policy" in message.text else None)
        page.on("request", lambda one: None if visitor.host in one.url or "data:" in one.url else wrong.append(one.url))
        enter(page, visitor)
        return page

    yield begin
    for context in contexts:
        context.close()
    assert wrong == []


def enter(page: sync_api.Page, visitor: Visitor) -> None:
    """Through the address; the end of the desk goes through the visitor, who needs what this browser was given."""
    page.goto(visitor.address)
    page.wait_for_url(re.compile(r"/(start|columns)$"))
    cookie = page.context.cookies(page.url)[0]
    visitor.cookie, visitor.root = f"{cookie['name']}={cookie['value']}", cookie["path"]


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
    name_label(page, "ill")
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
    page.wait_for_url(re.compile("try$"))
    page.click("text=Next, without looking at my rows")
    page.wait_for_url(re.compile("release$"))
    folder = tmp_path / "home" / "Sfumato" / "patients-release"
    assert page.input_value("#folder") == str(folder)
    page.click("main form.card button")
    page.wait_for_selector("main a.button")
    assert "Proved" in page.inner_text("main .lead >> nth=0")
    page.click("main a.button")
    page.click("text=Attack the release")
    page.wait_for_selector("dl.bottom > div:nth-child(3)")  # attackers are done
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
    assert page.evaluate("document.activeElement.id") == "content"
    declare(page)
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


def test_back_reload_and_stop_everywhere_leave_nothing(opened, visit, patients, tmp_path):
    visitor = opened(patients)
    page = visit(visitor)
    declare(page)
    for name in SCREENS:
        screen(page, name)
        page.reload()
        page.go_back()
        page.go_forward()
        assert page.url.endswith(name)
    for name, form in (("try", "/try"), ("release", "/release")):
        screen(page, name)
        page.click(f"form[action$='{form}'] button")
        page.wait_for_load_state()
        page.go_back()
        page.reload()
        screen(page, name)
        if page.query_selector("[data-job] button"):  # it may be done already
            page.click("[data-job] button")
        page.wait_for_selector("main:not(:has([data-job]))")
    made = {tmp_path / "home", tmp_path / "tmp", patients, patients.parent / "patients-release"}
    assert set(tmp_path.iterdir()) <= made
    assert len(page.context.pages) == 1
    page.click("form[action$='/end'] button")
    page.wait_for_selector("main .notice")
    page.go_back()
    end = time.monotonic() + 30
    while list((tmp_path / "tmp").iterdir()) and time.monotonic() < end:
        time.sleep(0.1)
    assert not list((tmp_path / "tmp").iterdir())
    assert not [file for file in (tmp_path / "home").rglob("*") if file.is_file()]
    visitor.cookie = ""  # it has ended


def test_after_a_crash_the_work_is_gone_on_with(opened, visit, patients):
    command = [sys.executable, "-m", "sfumato", "open", str(patients), "--no-browser"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True) as process:
        page = visit(Visitor(process.stdout.readline().strip()))
        declare(page)
        process.kill()
    page = visit(opened())
    page.click("button[name=go-on]")
    page.wait_for_selector("tbody tr")
    assert page.input_value("[name=high-0]") == "120"
    assert page.input_value("#label") == "ill"


def test_a_planted_cell_is_nowhere_in_the_browser(opened, browser, patients, tmp_path):
    """Not in its folder (cache, storage, history, form data), nor in addresses, titles, cookies or headers."""
    visitor, profile, seen = opened(patients), tmp_path / "profile", []
    start = browser.browser_type.launch_persistent_context
    with start(str(profile), executable_path=str(CHROMIUM), args=ARGUMENTS, viewport=DESKTOP) as context:
        context.set_default_timeout(PATIENCE)
        page = context.new_page()
        page.on("request", lambda one: seen.append(f"{one.url} {one.all_headers()}"))
        enter(page, visitor)
        declare(page)
        for name in SCREENS:
            screen(page, name)
            seen.append(page.title())
        screen(page, "release")
        page.click("main form.card button")
        page.wait_for_selector("main a.button")
        screen(page, "look")
        page.click("form[action$='/look'] button")
        page.wait_for_selector("dl.bottom > div:nth-child(3)")  # attackers are done
        assert PLANTED in page.content()  # the table before, which the owner asked to see
        page.fill("#value-1", PLANTED)
        page.click("form[action$='/look-person'] button")
        page.wait_for_selector("#person-found")
        kept = "JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie])"
        seen += [page.evaluate(kept), str(page.evaluate("indexedDB.databases()")), str(context.cookies()), page.title()]
    assert len(seen) > 20
    for word in (PLANTED, "agecolumn", patients.stem):
        assert not [one for one in seen if word in one], word
    files = [file for file in profile.rglob("*") if file.is_file()]
    assert files
    for word in (PLANTED.encode(), PLANTED.encode("utf-16-le")):
        assert not [file for file in files if word in file.read_bytes()]


def test_a_million_rows(opened, visit, tmp_path, own_places):  # noqa: ARG001
    table = tmp_path / "long.csv"
    with table.open("w") as file:
        file.write("agecolumn,ward,ill\n")
        file.writelines(f"{20 + 7 * i % 60},{'abc'[i % 3]},{'yn'[i % 2]}\n" for i in range(1_000_000))
    page = visit(opened(table))
    declare(page, words="a,b,c")
    assert "1,000,000" in see(page, "columns")
    for name in SCREENS:
        see(page, name)
    screen(page, "release")
    page.click("main form.card button")
    page.wait_for_selector("main a.button")
    assert re.search(r"Released (1,000|999),\d{3} rows", page.inner_text("main"))  # made-up rows: their number is noisy


def test_a_thousand_columns(opened, visit, tmp_path, own_places):  # noqa: ARG001
    page = visit(opened(written(tmp_path, [f"c{number}" for number in range(1_000)])))
    page.wait_for_selector("tbody tr")
    page.fill("[name=high-999]", "50")
    page.fill("[name=low-999]", "0")
    page.select_option("[name=known-999]", "form")
    name_label(page, "c0")
    page.wait_for_selector("tbody tr")
    assert page.input_value("[name=high-999]") == "50"
    for name in SCREENS:
        see(page, name)


def test_names_that_are_markup_endless_or_run_the_other_way(opened, visit, tmp_path, own_places):  # noqa: ARG001
    names = ["<script>document.title='stolen'</script>", "x" * 10_000, "שם העמודה", 'quo"te', "a\u202eb", "ill"]
    page = visit(opened(written(tmp_path, names)))
    page.wait_for_selector("tbody tr")
    name_label(page, "ill")
    for size in (DESKTOP, PHONE):
        page.set_viewport_size(size)
        for name in SCREENS:
            see(page, name)


def written(folder: Path, names: list[str]) -> Path:
    table = folder / "odd.csv"
    with table.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([names, *[[(i * 7 + j * i) % 11 for j in range(len(names))] for i in range(80)]])
    return table


def see(page: sync_api.Page, name: str) -> str:
    """A screen that is there, is not cut off, and is ours; its words."""
    screen(page, name)
    page.wait_for_selector("main:not(:has([data-job]))")
    assert page.title().startswith("Sfumato")
    assert not page.evaluate("document.documentElement.scrollWidth > innerWidth + 1"), name
    return page.inner_text("main")


def declare(page: sync_api.Page, words: str = f"b,{PLANTED}") -> None:
    """Say of all columns where their ranges are known from."""
    name_label(page, "ill")
    for name, value in (("low-0", "0"), ("high-0", "120"), ("words-1", words), ("words-2", "n,y")):
        page.fill(f"[name={name}]", value)
    for place, source in enumerate(("form", "codebook", "form")):
        page.select_option(f"[name=known-{place}]", source)
    page.click("button[name=next]")
    page.wait_for_url(re.compile("strength$"))


def name_label(page: sync_api.Page, name: str) -> None:
    """Say which column is to be predicted, again if the page was just loading once more."""
    read = "main:not(:has([data-job])) #label"
    page.wait_for_selector(read)
    while page.input_value("#label") != name or not page.query_selector(f"#label option[value={name}][selected]"):
        page.select_option("#label", name)
        page.click("button[name=save]")
        page.wait_for_load_state()
        page.wait_for_selector(read)
