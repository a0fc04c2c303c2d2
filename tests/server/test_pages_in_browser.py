"""The pages in a real browser, against a real server: sign in, train, watch, see the plot, download, by keyboard."""

import re
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

import consortium
import httpx
import pytest
import uvicorn
from sqlalchemy import insert

from sfumato.learn.model import Model
from sfumato.study.server.app import create_app
from sfumato.study.server.store.sql_tables import sites
from sfumato.study.server.worker.worker import Worker

sync_api = pytest.importorskip("playwright.sync_api")
CHROMIUM = Path("/usr/bin/chromium")
pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(not CHROMIUM.exists(), reason="Debian's chromium is not installed"),
]

EVIL = "<img src=x onerror=document.title='stolen'>"
PHONE, DESK = {"width": 375, "height": 700}, {"width": 1280, "height": 800}
WAIT = 200_000


class Served:
    """A server on the loopback with a study of three sites, two of which have pushed."""

    def __init__(self, folder, base, store):
        self.base, self.store = base, store
        self.study, self.owner = store.studies.create(consortium.study(name=f"Two hospitals {EVIL}"))
        self.tokens = {name: store.sites.invite(self.study, name).token for name in ("St. Mary", "North")}
        for seed, (name, token) in enumerate(self.tokens.items()):
            body = consortium.release(folder / f"r{seed}", rows=80, seed=seed)
            address = f"{base}/api/v1/studies/{self.study}/releases/{consortium.sha(body)}"
            answer = httpx.put(address, content=body, headers={"Authorization": f"Bearer {token}"}, timeout=200)
            assert answer.status_code == 201, (name, answer.text)
        with store.database.writing() as connection:  # as no door lets it in
            connection.execute(insert(sites).values(study=self.study, name=EVIL, created="2026-01-01"))

    def trained(self, classifier):
        """The state of a model of this classifier, once it has one."""
        known = [model for model in self.store.models.all(self.study) if model.classifier == classifier]
        model = known[0] if known else self.store.models.queue(self.study, classifier, contains_rows=False)
        while (found := self.store.models.find(self.study, model.id)).state in ("queued", "running"):
            time.sleep(0.1)
        return found.state


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    folder = tmp_path_factory.mktemp("served")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Worker, "niceness", 0)  # tests wait for it
        app = create_app(consortium.settings(folder / "data", worker=True, stranger_rate=consortium.PLENTY))
        server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_config=None, access_log=False))
        thread = threading.Thread(target=server.run, daemon=True)
        thread.start()
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.02)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield Served(folder, f"http://127.0.0.1:{port}", app.state.store)
        server.should_exit = True
        thread.join()


@pytest.fixture(scope="module")
def browser():
    arguments = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    with sync_api.sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=str(CHROMIUM), args=arguments)
        yield found
        found.close()


@pytest.fixture
def visit(browser, served):
    """Opens a page in a new profile; whatever it asks of another machine, throws or is forbidden fails the test."""
    contexts, wrong, asked = [], [], []

    def open_page(viewport=DESK, **settings):
        context = browser.new_context(viewport=viewport, **settings)
        context.set_default_timeout(WAIT)
        contexts.append(context)
        page = context.new_page()
        page.on("request", lambda request: asked.append(request.url))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("console", lambda message: wrong.append(message.text) if "Security Policy" in message.text else None)
        page.goto(served.base)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert wrong == []
    assert {urlsplit(url).netloc for url in asked} == {urlsplit(served.base).netloc}


def press(page, name):
    """A button that leads to another page, or to the same one anew: over once that is there."""
    with page.expect_navigation():
        page.get_by_role("button", name=name).click()


def sign_in(page, token):
    page.get_by_label("Token").fill(token)
    press(page, "Sign in")


def too_wide(page):
    return page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")


def test_owner_signs_in_trains_watches_and_downloads(visit, served, tmp_path):
    page = visit()
    sign_in(page, "sfu_owner_" + "x" * 43)
    assert "unknown, revoked or expired" in page.get_by_role("alert").inner_text()
    sign_in(page, served.owner)
    assert page.url == f"{served.base}/studies/{served.study}"
    shown = page.get_by_test_id("site")
    assert shown.count() == 3
    assert "160" in page.locator(".figures").inner_text()
    assert served.store.studies.find(served.study).hash == page.get_by_test_id("study-hash").inner_text()
    assert page.get_by_text("site-asserted").first.is_visible()

    page.get_by_label("Classifier").select_option("naive-bayes")
    press(page, "Train")
    page.get_by_label("Name").fill("half a na")  # what somebody types is not lost when the progress comes
    page.get_by_test_id("curve").wait_for()
    assert page.get_by_label("Name").input_value() == "half a na"
    assert page.locator("progress").count() == 0
    assert page.locator("svg.curve .whisker").count() >= 4
    assert "cross-validation" in page.locator("ul.bars").inner_text()

    with page.expect_download() as coming:
        page.get_by_role("link", name="Download").click()
    coming.value.save_as(tmp_path / "model.skops")
    about = Model.load(tmp_path / "model.skops").about
    assert {one["site"] for one in about["releases"]} == {"St. Mary", "North"}

    page.get_by_role("link", name="naive-bayes").first.click()
    page.get_by_role("heading", name="Each site alone").wait_for()
    press(page, "Sign out")
    page.goto(f"{served.base}/studies/{served.study}")
    assert "Sign in" in page.locator("main").inner_text()


def test_markup_in_names_is_text(visit, served):
    page = visit()
    sign_in(page, served.owner)
    assert EVIL in page.locator("h1").inner_text()
    assert EVIL in page.get_by_test_id("site").all_inner_texts()[0]
    assert page.locator("img").count() == 0
    assert "stolen" not in page.title().replace(EVIL, "")


def test_an_invited_site_signs_in_and_withdraws(visit, served, tmp_path):
    page = visit()
    sign_in(page, served.owner)
    page.get_by_label("Name").fill("South")
    press(page, "Create a token")
    token = page.get_by_label("The site's token").input_value()
    assert re.fullmatch(r"sfu_site_[\w-]{43}", token)
    body = consortium.release(tmp_path, rows=60, seed=9)
    address = f"{served.base}/api/v1/studies/{served.study}/releases/{consortium.sha(body)}"
    assert httpx.put(address, content=body, headers={"Authorization": f"Bearer {token}"}, timeout=200).is_success

    other = visit(PHONE)
    sign_in(other, token)
    assert other.get_by_test_id("release").count() == 1
    assert "North" not in other.locator("main").inner_text()
    assert too_wide(other) <= 0
    other.locator("summary", has_text="Withdraw").click()
    other.get_by_role("button", name="Withdraw this release").click()
    other.get_by_role("status").get_by_text("The release is withdrawn").wait_for()
    assert httpx.get(address, headers={"Authorization": f"Bearer {token}"}, timeout=200).json()["withdrawn"]

    page.goto(f"{served.base}/studies/{served.study}")
    row = page.get_by_test_id("site").filter(has_text="South")
    row.locator("summary", has_text="Revoke").click()
    row.get_by_role("button", name="Revoke its token").click()
    page.get_by_test_id("site").filter(has_text="South").get_by_text("revoked").wait_for()
    other.reload()
    assert "Sign in" in other.locator("main").inner_text()


@pytest.mark.parametrize("viewport", [PHONE, DESK], ids=["phone", "desk"])
def test_words_of_buttons_and_hashes_are_not_torn(visit, served, viewport):
    """A table in which a failure takes much room must not break "Download" in two."""
    for classifier in ("naive-bayes", "id3"):  # id3 fails on a pool, with many words
        served.trained(classifier)
    page = visit(viewport)
    sign_in(page, served.owner)
    torn = """() => [...document.querySelectorAll(".button, th .hash")].filter(found => {
        const words = document.createRange();
        words.selectNodeContents(found);
        return words.getClientRects().length > 1;
    }).map(found => found.textContent)"""
    assert page.locator(".button", has_text="Download").count() >= 1
    assert page.evaluate(torn) == []
    page.get_by_role("link", name="naive-bayes").first.click()
    page.get_by_role("heading", name="Releases used").wait_for()
    assert page.locator("th .hash").count() >= 2
    assert page.evaluate(torn) == []
    assert too_wide(page) <= 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_shows_everything_without_scrolling_sideways(visit, served, scheme):
    page = visit(PHONE, color_scheme=scheme)
    assert too_wide(page) <= 0
    sign_in(page, served.owner)
    for summary in page.locator("summary").all():
        summary.click()
    assert too_wide(page) <= 0
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (paper == "rgb(255, 255, 255)") is (scheme == "light")
    page.goto(f"{served.base}/studies/{served.study}/nothing")
    assert "Not found" in page.locator("h1").inner_text()
    assert too_wide(page) <= 0


def test_the_keyboard_is_enough(visit, served):
    page = visit()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to content"
    page.get_by_label("Token").focus()
    page.keyboard.type(served.owner)
    page.keyboard.press("Enter")
    page.wait_for_url("**/studies/*")
    seen = set()
    for _ in range(60):
        page.keyboard.press("Tab")
        seen.add(page.evaluate("document.activeElement.textContent.trim().split('\\n')[0]"))
    assert {"Sign out", "Revoke", "Create a token", "Train"} <= seen
    page.locator("summary", has_text="Revoke").first.focus()
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Revoke its token").first.wait_for()


def test_a_form_of_another_page_does_nothing(visit, served):
    """A page elsewhere sends our form: the browser keeps the cookie back (and the origin would not be ours)."""
    page = visit()
    sign_in(page, served.owner)
    before = len(served.store.sites.all(served.study))
    elsewhere = served.base.replace("127.0.0.1", "localhost")
    form = f'<form method=post action="{served.base}/studies/{served.study}/invite"><input name=name value=Evil></form>'
    trap = page.context.new_page()
    trap.route(f"{elsewhere}/trap", lambda route: route.fulfill(body=form, content_type="text/html"))
    trap.goto(f"{elsewhere}/trap")
    trap.evaluate("document.forms[0].submit()")
    trap.wait_for_url("**/invite")
    assert "Signed out" in trap.locator("h1").inner_text()
    assert len(served.store.sites.all(served.study)) == before
