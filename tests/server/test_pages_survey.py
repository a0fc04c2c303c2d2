"""The owner's page of a survey: answers, level and epsilon, codes shown once, the received bits."""

import io
import re
import zipfile

import numpy as np
import pytest
from consortium import Study
from survey_examples import example_survey, message, some_bits
from test_pages import Browser
from ticket_holder import Holder

from sfumato.study.protocol.survey_file import SurveyStudy
from sfumato.study.server.web.charts import bars, round_top, steps


@pytest.fixture
def survey(client):
    return Study(client, *client.app.state.store.studies.create(example_survey(invitations=True)))


def answer(survey, codes, seed=0):
    rng, where = np.random.default_rng(seed), f"/api/v1/surveys/{survey.id}"
    asked = SurveyStudy.from_dict(survey.client.get(where).json()["survey"])
    for code in codes:
        person = Holder(asked, code)
        ticket = person.ticket(survey.client.post(f"{where}/tickets", json=person.asks()).json())
        body = message(some_bits(rng), label=int(rng.integers(2)), id=person.name, ticket=ticket)
        assert survey.client.post(f"{where}/answers", content=body).status_code == 201


def test_the_owner_makes_codes_follows_answers_and_saves_the_bits(survey):
    owner = Browser(survey, survey.owner)
    empty = owner.get().text
    assert "No batch of answers is full yet" in empty
    assert "No answer has come yet" in empty
    assert "Download the bits" not in empty
    assert re.search(rf'href="[^"]*/survey/#survey={survey.id}&amp;hash=[0-9a-f]{{64}}"', empty)
    shown = owner.act("codes", number="25")
    codes = re.search(r"<textarea[^>]*>([^<]*)</textarea>", shown.text)[1].split()
    assert len(codes) == len(set(codes)) == 25
    assert codes[0] not in owner.get().text
    answer(survey, codes)
    survey.client.app.state.surveys._desks[survey.id].close_batches()
    text = owner.get().text
    assert re.search(r'data-testid="hours".*Answers by hour \(UTC\), (from )?\d{4}-\d\d-\d\d, \d\d h', text)
    assert "Download the bits" in text
    assert "25 of 25 codes were exchanged" in text
    assert 'class="step"' in text
    saved = owner.get(f"/studies/{survey.id}/export")
    assert zipfile.ZipFile(io.BytesIO(saved.content)).namelist()


def test_a_survey_that_is_over_says_so(client):
    study = Study(client, *client.app.state.store.studies.create(example_survey(closes="2020-01-31")))
    assert "2020-01-31 (closed: no more answers are accepted)" in Browser(study, study.owner).get().text


def test_the_owner_closes_it_on_the_page(client):
    study = Study(client, *client.app.state.store.studies.create(example_survey()))
    owner = Browser(study, study.owner)
    assert "Close it for good" in owner.get().text
    owner.act("close", sure="yes")
    assert "what was received stays" in owner.get(f"/studies/{study.id}?done=closed").text
    text = owner.get().text
    assert "closed by hand: no more answers are accepted" in text
    assert "Close it for good" not in text


def test_a_pool_has_no_codes_and_wrong_numbers_are_told(survey, study):
    owner = Browser(survey, survey.owner)
    for number in ("0", "10001", "many", "", "9" * 50, "²"):
        refused = owner.act("codes", number=number)
        assert refused.status_code == 422
        assert "Ask for 1 to 10,000 codes" in refused.text
    pool = Browser(study, study.owner)
    assert pool.act("codes", number="5").status_code == 404
    assert pool.get(f"/studies/{study.id}/export").status_code == 404
    assert pool.act("close", sure="yes").status_code == 404
    assert owner.act("train", classifier="none").status_code == 422
    assert Browser(survey, survey.invite()).get().status_code == 403


def test_pictures_are_drawn_to_scale():
    assert bars("none", []) is None
    assert steps("none", [], 0) is None
    assert round_top(101) == 200
    drawn = bars("Answers", [("10 h", 5.0), ("11 h", 10.0)])
    assert 'height="70"' in drawn
    assert 'height="140"' in drawn
    assert "11 h: 10" in drawn
    level = steps("k", [(0, 1), (20, 2)], 40)
    assert '<line x1="0%" x2="50%" y1="70" y2="70"' in level
    assert '<line x1="50%" x2="100%" y1="0" y2="0"' in level
