"""The respondent's page in a real browser: answer, wait, resume, refuse, lose the line, send once."""

from __future__ import annotations

import json
import re
import threading
import time

import numpy as np
import uvicorn
from survey_double import PAGE, SURVEY, SurveyDouble, flip
from survey_examples import example_survey
from survey_visits import EVERY, choose_level, fill_in, heading, kept, sent, waits
from test_survey_vectors import VECTORS, compare_with_vectors

from sfumato.channels.guidance.guidance import Guidance, encode_matrix, hash_matrix
from sfumato.channels.guidance.space import perturb_bits, uniforms_from_bytes
from sfumato.study.server.app import create_app
from sfumato.study.server.settings import Settings

KNOWN_BYTES = (
    "Crypto.prototype.getRandomValues = (a) => (new Uint8Array(a.buffer, a.byteOffset, a.byteLength).fill(90), a)"
)


# -- an answer --------------------------------------------------------------------------------------------------------


def test_an_answer_is_sent_as_it_was_shown_and_nothing_else(double, visit):
    page = visit(f"{double.page}&code=mine")  # nobody asked for a code: it would say whose answer this is
    heading(page, "Sleep and shift work")
    assert page.get_by_text("cannot be withdrawn").is_visible()
    assert page.get_by_role("heading", name="You trust this page").is_visible()
    fill_in(page)
    choose_level(page, 2)
    heading(page, "This is what would be sent")
    assert sent(double) == []
    shown = json.loads(page.locator("pre").text_content())
    assert page.get_by_text("Not witnessed").is_visible()
    page.get_by_role("button", name="Send").click()
    heading(page, "Thank you")
    assert sent(double) == [shown]
    assert re.fullmatch(r"[A-Za-z0-9_-]{22}", shown["id"])
    assert shown.keys() == {"id", "version", "label", "bits"}
    assert (shown["version"], shown["label"]) == (1, 0)
    assert shown["bits"] == sorted(set(shown["bits"]) & set(range(double.space.width)))
    everything = b" ".join(body for _, _, body in double.requests).decode()
    assert not re.search(r"limit|pills|6\.5", everything)
    assert json.loads(next(body for _, path, body in double.requests if path == "/ready")) == {"version": 1}
    assert not any("Cookie" in headers or "Referer" in headers for headers in double.headers)
    assert not re.search("sealed|key", kept(page))
    page.reload()
    heading(page, "This device has answered already")


def test_the_bits_are_those_of_the_library(double, visit):
    """With every random byte 90, the page sends what `perturb_bits` makes of the same bytes."""
    page = visit("about:blank")
    page.context.add_init_script(KNOWN_BYTES)
    page.goto(double.page)
    fill_in(page)
    choose_level(page, 1)
    page.get_by_role("button", name="Send").click()
    heading(page, "Thank you")
    drawn = uniforms_from_bytes(bytes([90]) * 8 * double.space.width)
    blank = int(np.floor(drawn[0] * 2))
    row = double.space.onehot([[1, 1, 2, blank, 0]])[0]
    expected = perturb_bits(row, double.guidance[1].V, drawn, 0.1, "square")
    assert sent(double)[0]["bits"] == np.flatnonzero(expected).tolist()
    assert 0 < expected.sum() < len(expected)


def test_every_question_needs_an_answer_or_a_refusal_to_give_one(double, visit):
    page = visit(double.page)
    page.get_by_role("button", name="Begin").click()
    heading(page, "Questions")
    assert page.locator("fieldset[aria-describedby]").count() == 0  # nothing is read aloud that is not wrong
    page.get_by_role("button", name="Continue").click()
    assert page.get_by_role("alert").text_content() == "Answers still missing: 6"
    assert page.locator("fieldset[aria-describedby]").count() == 6
    assert page.locator("fieldset").nth(0).locator("input:focus").count() == 1
    assert page.locator("fieldset").nth(5).get_by_label("Prefer not to say").count() == 0
    page.get_by_label("Pills").check()
    assert page.locator("fieldset[aria-describedby]").count() == 5
    page.get_by_text("Encrypted answers lie on this device.").wait_for()
    page.reload()  # what was chosen so far is still there
    heading(page, "Questions")
    assert page.get_by_label("Pills").is_checked()


def test_more_is_shown_at_higher_levels(double, visit):
    page = visit(double.page)
    fill_in(page)
    slider = page.get_by_role("slider", name="Your limit")
    slider.focus()

    def sure() -> float:
        return float(re.match(r"(\d+)%", page.locator(".rows .numbers").first.text_content()).group(1))

    least, words = sure(), slider.get_attribute("aria-valuetext")
    assert words.startswith("Level 1 of 13: ")
    page.keyboard.press("End")
    assert sure() > least + 10
    assert slider.get_attribute("aria-valuetext") != words
    assert page.get_by_text("Nothing: you prefer not to say.").is_visible()
    page.go_back()
    heading(page, "Questions")
    assert page.get_by_role("textbox").input_value() == "6.5"


# -- waiting ----------------------------------------------------------------------------------------------------------


def test_answers_wait_encrypted_and_are_sent_once_the_level_allows(double, visit):
    double.issue(5)
    page = visit("about:blank")
    page.clock.install()
    page.goto(double.page)
    fill_in(page)
    choose_level(page, 1)
    waits(page)
    page.get_by_text("Asked for at present: level 5. Your limit: 2.").wait_for()
    assert not any(path in {"/ready", "/answers"} for _, path, _ in double.requests)
    stored = kept(page)
    assert re.search("(?s)extractable false.*sealed", stored)
    assert not re.search(r"pills|values|6\.5|limit", stored)
    page.reload()
    waits(page)
    double.issue(2)
    page.clock.fast_forward("10:00")
    heading(page, "Thank you")
    assert [answer["version"] for answer in sent(double)] == [3]


def test_waiting_answers_can_be_deleted(double, visit):
    double.issue(5)
    page = visit(double.page)
    fill_in(page)
    choose_level(page, 0)
    waits(page)
    page.get_by_role("button", name="Delete my answers").click()
    heading(page, "Deleted. Nothing of your answers is left on this device.")
    assert not re.search("sealed|key", kept(page))
    double.issue(2)
    page.reload()
    heading(page, "Sleep and shift work")
    assert sent(double) == []


def test_guidance_that_shows_more_than_the_picture_is_looked_at_first(double, visit):
    """Who waits agreed to a picture. Counts that are made up to read one answer pass every check but this one."""
    double.issue(5)
    page = visit(double.page)
    fill_in(page)
    choose_level(page, 0)
    waits(page)
    double.issue_reading(bit=7)  # pills
    page.reload()
    heading(page, "This is what would be sent")
    assert "shows more than the picture" in page.get_by_role("alert").text_content()
    assert sent(double) == []


def test_who_saw_no_picture_looks_before_waiting_answers_are_sent(double, visit):
    double.issue(5)
    page = visit("about:blank")
    page.route(
        "**/inputs", lambda route: route.fulfill(status=404, json={"error": "none", "message": "Not published."})
    )
    page.goto(double.page)
    fill_in(page)
    page.get_by_text("The picture cannot be drawn here").wait_for()
    choose_level(page, 1)
    waits(page)
    page.get_by_text("you see what would be sent, and are asked").wait_for()
    double.issue(2)
    page.reload()
    heading(page, "This is what would be sent")
    assert "No picture could be drawn before" in page.get_by_role("alert").text_content()
    assert sent(double) == []


def test_of_many_choices_those_are_named_that_are_sent(visit):
    towns = {"name": "town", "choices": [f"Town {n}" for n in range(150)]}
    label = {"name": "b", "choices": ["a", "b"]}
    with SurveyDouble(
        k=None, survey={**SURVEY, "questions": [SURVEY["questions"][0], towns], "label": label}
    ) as double:
        page = visit(double.page)
        page.get_by_role("button", name="Begin").click()
        page.get_by_label("town").select_option("Town 7")
        for box in page.locator("fieldset:has(input)").all():
            box.locator("input").first.check()
        page.get_by_role("button", name="Continue").click()
        page.get_by_role("slider", name="Your limit").press("End")
        page.locator("form .primary").click()
        heading(page, "This is what would be sent")
        bits = json.loads(page.locator("pre").text_content())["bits"]
        cells = page.locator(".cells").last.locator("li").all_text_contents()
        named = sorted({7, *(bit - 2 for bit in bits if bit >= 2)})
        assert cells == [*(f"Town {n}" for n in named), f"{150 - len(named)} others: 0"]
        assert page.get_by_text("(< 1% by guessing)").is_visible()


# -- what is refused --------------------------------------------------------------------------------------------------


def other_guidance(message):
    V = np.eye(13)[:, : message["k"]]
    return {**message, "v": encode_matrix(V), "sha256": hash_matrix(V)}


def stretched(message):
    V = np.ascontiguousarray(np.eye(13)[:, : message["k"]]) * (1 + 1e-6)
    return {**message, "v": encode_matrix(V), "sha256": hash_matrix(V)}


def endless(message, first=[]):  # noqa: B006 - it remembers what came first
    first += message["entries"]
    return {"entries": first[:1]}


ASK = """async (origin) => {
    const [web, { Recomputed, startupCounts }, { LANGUAGES }] = await Promise.all(
        ["web.js", "recompute.js", "words.js"].map((name) => import(`${origin}/survey/${name}`)));
    const server = new web.SurveyServer(`${origin}/api/v1/surveys/s1`);
    try {
        const description = await server.describe();
        const asked = await server.inquiry();
        const history = await server.history(description, asked);
        const guidance = await server.guidance(asked, 13, history);
        const startup = await startupCounts(description.survey, description.hash);
        new Recomputed(await server.inputs(history.entry(asked.version)), startup, description.survey).check(guidance);
        return "accepted";
    } catch (error) { return LANGUAGES.en[error.reason]?.replace("{detail}", error.detail) ?? String(error); }
}"""
"""The web layer alone, as a foreign page would use it: every check, without the pages."""

TAMPERED = {
    "one number": ("/ready", lambda m: {**m, "v": flip(m["v"])}, "does not have the hash"),
    "another matrix": ("/ready", other_guidance, "not the one that stands in the public log"),
    "not orthonormal": ("/ready", stretched, "not orthonormal"),
    "a higher level": ("/ready", lambda m: {**m, "k": 3}, "announced size"),
    "another version": ("/ready", lambda m: {**m, "version": 7}, "another version"),
    "a broken chain": ("/log", lambda m: {"entries": [{**e, "answers": 5} for e in m["entries"]]}, "is broken"),
    "another level": ("/inquiry", lambda m: {**m, "k": 1}, "another level"),
    "a head of nothing": ("/inquiry", lambda m: {**m, "head": "0" * 64}, "does not contain"),
    "the same page for ever": ("/log", endless, "is broken"),
    "another floor": (
        "",
        lambda m: {**m, "file": m["file"].replace('"floor":0.1', '"floor":0.0')},
        "its hash stands for",
    ),
    "other counts": ("/log/1/inputs", lambda text: text.replace("0", "1", 1), "not those that the log promises"),
}


def test_tampered_guidance_is_refused(double, visit):
    double.spoil["/ready"] = TAMPERED["one number"][1]
    page = visit(double.page)
    fill_in(page)
    choose_level(page, 2)
    heading(page, "This guidance was refused")
    assert "does not have the hash" in page.get_by_role("alert").text_content()
    for name, (path, spoil, reason) in TAMPERED.items():
        double.spoil = {path: spoil}
        refused = page.evaluate(ASK, double.origin)
        assert reason in refused, name
    double.spoil = {}
    assert page.evaluate(ASK, double.origin) == "accepted"
    assert sent(double) == []


def test_guidance_that_does_not_follow_from_the_counts_is_refused(double, visit):
    """In the log, orthonormal, of the right size, and still not what the published counts give."""
    page = visit(double.page)
    assert page.evaluate(ASK, double.origin) == "accepted"
    double.issue(2, guidance=lambda honest: Guidance(np.ascontiguousarray(np.eye(13)[:, :2]), honest.sigmas))
    assert "does not follow from the published counts" in page.evaluate(ASK, double.origin)
    double.issue(2, guidance=lambda honest: Guidance(honest.V[:, :1].copy(), honest.sigmas))
    assert "lead to level 2, and another was sent" in page.evaluate(ASK, double.origin)
    double.issue(2, guidance=lambda honest: Guidance(honest.V[:, ::-1].copy(), honest.sigmas))
    assert "does not follow" in page.evaluate(ASK, double.origin)  # the leading direction comes first


def test_a_log_that_is_not_the_remembered_one_is_refused(double, visit):
    page = visit(double.page)
    fill_in(page)
    page.get_by_role("slider", name="Your limit").wait_for()
    double.log.clear()
    double.issue(2, seed=99)
    page.reload()
    heading(page, "This guidance was refused")
    assert "not the one that this device saw before" in page.get_by_role("alert").text_content()


def test_witnesses_are_asked(visit):
    with SurveyDouble() as other:
        named = [f"{other.origin}/api/v1/surveys/s1/witness"]
        with SurveyDouble(k=2, survey={**SURVEY, "witnesses": named}) as double:
            other.witness = {"survey": double.hash, "version": 1, "hash": double.log[0].hash}
            page = visit(double.page)
            fill_in(page)
            choose_level(page, 2)
            heading(page, "This is what would be sent")
            assert page.get_by_text("saw the same log").is_visible()
            other.witness = {"survey": double.hash, "version": 1, "hash": "f" * 64}
            assert "A witness saw another log" in page.evaluate(ASK, double.origin)
            other.witness = {"survey": double.hash, "version": 2, "hash": "f" * 64}  # the log was cut
            assert "A witness saw another log" in page.evaluate(ASK, double.origin)
            other.witness = None
            assert page.evaluate(ASK, double.origin) == "accepted"


# -- the line ---------------------------------------------------------------------------------------------------------


def test_offline_and_back(double, visit):
    page = visit(double.page)
    fill_in(page)
    choose_level(page, 2)
    heading(page, "This is what would be sent")
    shown = json.loads(page.locator("pre").text_content())
    page.context.set_offline(True)
    page.get_by_role("button", name="Send").click()
    heading(page, "Not sent yet")
    assert sent(double) == []
    page.context.set_offline(False)
    heading(page, "Thank you")
    assert sent(double) == [shown]


def test_a_lost_receipt_means_the_same_answer_under_the_same_id(double, visit):
    double.lose_receipts = EVERY
    page = visit(double.page)
    fill_in(page)
    choose_level(page, 2)
    page.get_by_role("button", name="Send").click()
    heading(page, "Not sent yet")
    page.reload()
    heading(page, "Not sent yet")
    double.lose_receipts = 0
    page.reload()
    heading(page, "Thank you")
    first, *others = sent(double)
    assert len(others) >= 2
    assert all(other == first for other in others)
    assert len(double.answers) == 1


def test_two_windows_send_one_answer(double, visit):
    double.issue(5)
    page = visit(double.page)
    fill_in(page)
    choose_level(page, 1)
    waits(page)
    second = page.context.new_page()
    second.goto(double.page)
    waits(second)
    double.issue(2)
    page.reload()
    heading(page, "Thank you")
    second.reload()
    heading(second, "This device has answered already")
    assert len(double.answers) == 1


def test_the_page_and_the_server_of_this_package(visit, tmp_path):
    """No double: `create_app`, its policy, its store. The answer arrives, and the log can be followed afterwards."""
    app = create_app(Settings(data=tmp_path / "data", worker=False))
    study = app.state.store.studies.create(example_survey())[0]
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_config=None, access_log=False))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.02)
    port = server.servers[0].sockets[0].getsockname()[1]
    page = visit(f"http://127.0.0.1:{port}/survey/#survey={study}", color_scheme="dark")
    page.get_by_role("button", name="Begin").click()
    for group in page.locator("fieldset").all():
        group.locator("label").first.click()
    page.get_by_role("button", name="Continue").click()
    page.get_by_role("slider", name="Your limit").press("End")
    page.get_by_role("button", name="Continue").click()
    heading(page, "This is what would be sent")
    assert page.get_by_text("It follows from the published counts.").is_visible()
    page.get_by_role("button", name="Send").click()
    heading(page, "Thank you")
    assert app.state.store.surveys.count(study) == 1
    server.should_exit = True
    thread.join(10)


# -- publishing, languages, policy ------------------------------------------------------------------------------------


def test_questions_may_have_any_name_and_any_text(visit):
    evil = "<img src=x onerror=alert(1)> {{1}} \u202e 🎨"
    names = ("constructor", "__proto__", 'q"<b>&')
    asked = [{"name": name, "text": {"en": evil, "de": evil}, "choices": [evil, "b"]} for name in names]
    label = {"name": "toString", "choices": ["a", "b"]}
    with SurveyDouble(k=2, survey={**SURVEY, "name": evil, "questions": asked, "label": label}) as double:
        page = visit(double.page)
        heading(page, evil)
        page.get_by_role("button", name="Begin").click()
        page.get_by_role("button", name="Continue").click()
        assert "4" in page.get_by_role("alert").text_content()  # none is answered yet
        for box in page.locator("fieldset").all():
            box.locator("input").first.check()
        page.get_by_role("button", name="Continue").click()
        choose_level(page, 6)
        page.get_by_role("button", name="Send").click()
        heading(page, "Thank you")
        assert sent(double)[0]["label"] == 0


def test_german_and_closed(double, visit):
    double.state = "closed"
    page = visit(double.page)
    heading(page, "This survey is closed")
    page.get_by_label("Language").select_option("de")
    heading(page, "Diese Umfrage ist geschlossen")
    assert page.locator("html").get_attribute("lang") == "de"


def test_nothing_is_inline_and_nothing_is_fetched_from_elsewhere():
    html = (PAGE / "index.html").read_text(encoding="utf-8")
    assert not re.search(r"<style|\sstyle=|\son\w+=|<script(?![^>]*\ssrc=)", html)
    for path in PAGE.iterdir():
        text = path.read_text(encoding="utf-8")
        addresses = re.findall(r"https?://[\w.-]+", text)
        assert set(addresses) <= {"http://www.w3.org", "http://127.0.0.1", "http://localhost"}, path.name
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|document\.cookie", text)


def test_eigenvectors_in_the_browser(double, visit):
    rng = np.random.default_rng(0)
    one, other = rng.normal(size=(2, 12))
    mixed = rng.normal(size=(60, 60))
    matrices = {
        "one": np.array([[-2.0]]),
        "two": np.array([[0.0, 1.0], [1.0, 0.0]]),
        "nothing": np.zeros((5, 5)),
        "all alike": np.ones((7, 7)),
        "diagonal, repeated": np.diag([3.0, -3.0, 0.0, 3.0, 1e-9]),
        "two directions": np.outer(one, one) - np.outer(other, other),
        "graded": np.logspace(0, -12, 12)[:, None] * np.ones((12, 12)) * np.logspace(0, -12, 12),
        "any": mixed + mixed.T,
    }
    page = visit(double.page)
    script = "async ([origin, A]) => (await import(`${origin}/survey/eigen.js`)).eigen(A.flat(), A.length)"
    for name, A in matrices.items():
        found = page.evaluate(script, [double.origin, A.tolist()])
        vectors = np.array(found["vectors"]).reshape(A.shape)
        scale = max(np.abs(A).max(), 1e-300)
        np.testing.assert_allclose(np.sort(found["values"]) / scale, np.linalg.eigvalsh(A) / scale, atol=1e-12)
        np.testing.assert_allclose(vectors.T @ vectors, np.eye(len(A)), atol=1e-12, err_msg=name)
        np.testing.assert_allclose(A @ vectors / scale, vectors * found["values"] / scale, atol=1e-12, err_msg=name)


def test_chromium_draws_the_bits_of_the_vectors(double, visit):
    cases = json.loads((VECTORS / "guided.json").read_text(encoding="utf-8"))["cases"]
    source = (
        (VECTORS / "replay.mjs").read_text(encoding="utf-8").partition("\nif (globalThis")[0].replace("export ", "")
    )
    modules = "...(await Promise.all(['perturb', 'recompute'].map((name) => import(`${origin}/survey/${name}.js`))))"
    page = visit(double.page)
    results = page.evaluate(
        f"async ([origin, cases]) => {{ {source}; return replay({modules}, cases); }}", [double.origin, cases]
    )
    compare_with_vectors(cases, results)
