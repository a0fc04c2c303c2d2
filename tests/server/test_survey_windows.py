"""The respondent's page in bad moments: two windows, a click at the wrong time, storage that is full or taken away."""

from __future__ import annotations

import threading
from typing import Any

from survey_double import SurveyDouble
from survey_visits import EVERY, choose_level, fill_in, heading, kept, sent, waits

QUIET = "async () => (await navigator.locks.query()).held.length === 0"
"""Nothing is being prepared in any window."""


class Held:
    """Answers of the double to one path are held back: the page is caught in the middle of asking."""

    def __init__(self, double: SurveyDouble, path: str):
        self.double, self.path = double, path
        self.came, self.go = threading.Event(), threading.Event()
        double.spoil[path] = self._pass

    def _pass(self, message: Any) -> Any:
        self.came.set()
        assert self.go.wait(60)
        return message

    def wait(self) -> None:
        assert self.came.wait(60)

    def release(self) -> None:
        del self.double.spoil[self.path]
        self.go.set()


def second_window(page, double: SurveyDouble):
    other = page.context.new_page()
    other.goto(double.page)
    return other


# -- one window -------------------------------------------------------------------------------------------------------


def test_what_is_deleted_while_it_is_being_drawn_is_not_kept_and_not_sent(double, visit):
    double.issue(5)
    page = visit(double.page)
    fill_in(page)
    choose_level(page, 1)
    waits(page)
    double.issue(2)
    ready = Held(double, "/ready")
    page.reload()
    ready.wait()
    page.get_by_role("button", name="Delete my answers").click()
    heading(page, "Deleted.")
    ready.release()
    page.wait_for_function(QUIET)
    assert not kept(page).count("sealed")
    page.reload()
    heading(page, "Sleep and shift work")
    assert sent(double) == []


def test_a_limit_that_is_lowered_while_bits_are_drawn_holds(double, visit):
    page = visit(double.page)
    fill_in(page)
    ready = Held(double, "/ready")
    choose_level(page, 2)
    ready.wait()
    page.go_back()
    page.get_by_role("button", name="Continue").click()
    page.get_by_role("slider", name="Your limit").wait_for()
    inquiry = Held(double, "/inquiry")
    choose_level(page, 0)
    inquiry.wait()
    ready.release()
    page.wait_for_function(QUIET)
    inquiry.release()
    waits(page)
    assert sent(double) == []


def test_back_leads_from_the_bits_to_the_level(double, visit):
    page = visit(double.page)
    fill_in(page)
    choose_level(page, 2)
    heading(page, "This is what would be sent")
    shown = page.locator("pre").text_content()
    page.go_back()
    heading(page, "How much may they learn?")
    choose_level(page, 2)
    heading(page, "This is what would be sent")
    assert page.locator("pre").text_content() == shown


def test_a_survey_that_is_not_there_is_said_to_be_missing(double, visit):
    page = visit(double.page.replace("s1", "s2"))
    heading(page, "The server did not accept this")


# -- two windows ------------------------------------------------------------------------------------------------------


def test_deleted_in_one_window_is_not_sent_by_another(double, visit):
    page = visit(double.page)
    fill_in(page)
    choose_level(page, 2)
    heading(page, "This is what would be sent")
    other = second_window(page, double)
    heading(other, "How much may they learn?")
    page.route("**/answers", lambda route: route.abort())
    page.get_by_role("button", name="Send").click()
    heading(page, "Not sent yet")
    other.get_by_role("button", name="Delete my answers").click()
    heading(other, "Deleted.")
    page.unroute("**/answers")
    page.evaluate("dispatchEvent(new Event('online'))")
    heading(page, "Sleep and shift work")
    assert sent(double) == []


def test_of_two_windows_with_different_answers_one_is_sent(double, visit):
    page = visit(double.page)
    fill_in(page)
    choose_level(page, 2)
    heading(page, "This is what would be sent")
    other = second_window(page, double)
    heading(other, "How much may they learn?")
    other.get_by_role("button", name="Back").click()
    other.get_by_label("Tea").check()
    other.get_by_role("button", name="Continue").click()
    choose_level(other, 2)
    heading(other, "This is what would be sent")
    other.get_by_role("button", name="Send").click()
    heading(other, "Thank you")
    page.get_by_role("button", name="Send").click()
    heading(page, "This device has answered already")
    assert len(double.answers) == 1
    assert "sealed" not in kept(page)


def test_what_one_window_is_sending_is_not_drawn_again_by_another(double, visit):
    """The server has the answer, the receipt is lost: a second draw would tell more."""
    page = visit(double.page)
    fill_in(page)
    choose_level(page, 2)
    heading(page, "This is what would be sent")
    other = second_window(page, double)
    heading(other, "How much may they learn?")
    double.lose_receipts = EVERY
    page.get_by_role("button", name="Send").click()
    heading(page, "Not sent yet")
    other.get_by_role("button", name="Back").click()
    heading(other, "Not sent yet")  # whatever else was to be typed there: it brings the bits that are on their way
    assert len(double.answers) == 1


# -- storage ----------------------------------------------------------------------------------------------------------

VAULTS = """async (origin) => {
    const { Vault } = await import(`${origin}/survey/vault.js`);
    const [one, other] = [new Vault("s"), new Vault("s")];
    await Promise.all([one.change(() => 1), other.change(() => 2)]);
    const both = await one.get();
    const late = one.change(() => 3);
    await one.clear();
    await late;
    return [both, await other.get()];
}"""
"""Two windows make the key at the same time; a value is still on its way when everything is deleted."""


def test_a_vault_can_always_be_opened_and_stays_cleared(double, visit):
    page = visit(double.page)
    both, cleared = page.evaluate(VAULTS, double.origin)
    assert both in (1, 2)
    assert cleared is None


FULL = """() => {
    const put = IDBObjectStore.prototype.put;
    window.full = true;
    IDBObjectStore.prototype.put = function (...all) {
        if (window.full) throw new DOMException("", "QuotaExceededError");
        return put.apply(this, all);
    };
}"""


def test_a_full_disk_loses_nothing_and_sends_nothing(double, visit):
    page = visit(double.page)
    page.evaluate(FULL)
    fill_in(page)
    heading(page, "The browser does not store this")
    assert not any(path in {"/ready", "/answers"} for _, path, _ in double.requests)
    page.evaluate("window.full = false")
    page.get_by_role("button", name="Try again").click()
    assert page.get_by_role("textbox").input_value() == "6.5"
    page.get_by_role("button", name="Continue").click()
    choose_level(page, 2)
    page.get_by_role("button", name="Send").click()
    heading(page, "Thank you")


def test_a_device_that_cannot_remember_sends_the_same_bits(double, visit):
    """localStorage is full: that an answer was sent is not remembered, and no other is drawn for all that."""
    page = visit("about:blank")
    page.context.add_init_script(
        "Storage.prototype.setItem = () => { throw new DOMException('', 'QuotaExceededError') }"
    )
    page.goto(double.page)
    fill_in(page)
    choose_level(page, 2)
    page.get_by_role("button", name="Send").click()
    heading(page, "Thank you")
    page.reload()
    heading(page, "Thank you")
    assert len(sent(double)) == 2
    assert len(double.answers) == 1


def test_storage_that_is_cleared_from_outside_does_not_stop_the_page(double, visit):
    page = visit(double.page)
    fill_in(page)
    page.get_by_role("slider", name="Your limit").wait_for()
    devtools = page.context.new_cdp_session(page)
    devtools.send("Storage.clearDataForOrigin", {"origin": double.origin, "storageTypes": "all"})
    choose_level(page, 2)
    heading(page, "Sleep and shift work")  # the answers are gone, as after "delete"
    fill_in(page)
    choose_level(page, 2)
    heading(page, "This is what would be sent")


def test_the_keyboard_stays_where_it_was_when_the_page_asks_again(double, visit):
    double.issue(5)
    page = visit("about:blank")
    page.clock.install()
    page.goto(double.page)
    fill_in(page)
    choose_level(page, 0)
    waits(page)
    page.get_by_role("button", name="Change my limit").focus()
    asked = sum(path == "/inquiry" for _, path, _ in double.requests)
    page.get_by_role("button", name="Change my limit").evaluate("(button) => button.setAttribute('data-old', '')")
    page.clock.fast_forward("10:00")
    page.locator("main button:not([data-old])").wait_for()
    assert sum(path == "/inquiry" for _, path, _ in double.requests) > asked
    assert page.evaluate("document.activeElement.textContent") == "Change my limit"
