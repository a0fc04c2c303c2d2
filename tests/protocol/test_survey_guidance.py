"""Anybody can recompute a version of the guidance from its published counts, and finds out one that was made up."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.channels.guidance.guidance import Guidance, GuidanceError, SurveyCounts, SurveyRules
from sfumato.study.protocol.survey_file import SurveyStudy
from sfumato.study.protocol.survey_guidance import guidance_for, startup_counts, verify_guidance


def survey(**changes: object) -> SurveyStudy:
    questions = [{"name": f"q{n}", "choices": list("abc")} for n in range(4)]
    found = {"name": "s", "by": "b", "questions": questions, "label": {"name": "y", "classes": ["no", "yes"]}}
    return SurveyStudy.from_dict(found | changes)


def received(rows: int = 300, width: int = 12) -> SurveyCounts:
    rng = np.random.default_rng(3)
    y = rng.integers(2, size=rows)
    bits = rng.random((rows, width)) < 0.3 + 0.4 * (y[:, None] == np.arange(width) % 2)
    return SurveyCounts.of(bits.astype(np.uint8), y)


def test_random_start_up_rows_are_the_same_for_everybody_and_differ_between_surveys() -> None:
    assert startup_counts(survey()) == startup_counts(survey())
    assert startup_counts(survey()) != startup_counts(survey(name="another"))
    assert startup_counts(survey()).n == 4


def test_rows_of_the_owner_are_counted_as_given() -> None:
    given = startup_counts(survey(start_up=[[0, 0, 0, 0, 0], [1, 1, 1, 1, 1], [2, 2, 2, 2, 1]]))
    assert given.rows == {0: 1, 1: 2}
    assert given.ones(0).tolist() == [1, 0, 0] * 4


@pytest.mark.parametrize("order", ["magnitude", "value"])
@pytest.mark.parametrize("link", ["square", "linear"])
@pytest.mark.parametrize("more", [{}, {"balance": False}, {"k": 3}])
def test_honest_guidance_is_verified(order: str, link: str, more: dict[str, object]) -> None:
    study, counts = survey(order=order, link=link, **more), received()
    guidance = guidance_for(study, counts)
    verify_guidance(study, counts.to_json(), guidance.V, guidance.k)
    verify_guidance(study, SurveyCounts(12).to_json(), (g := guidance_for(study, SurveyCounts(12))).V, g.k)


def test_another_level_or_weight_than_the_files_is_found_out() -> None:
    counts = received()
    assert guidance_for(survey(k=5), counts).k == 5
    for asked, sent in (({"k": 5}, {"k": 2}), ({}, {"k": 9}), ({"balance": False}, {})):
        given = guidance_for(survey(**sent), counts)
        with pytest.raises(GuidanceError):
            verify_guidance(survey(**asked), counts.to_json(), given.V, given.k)


def test_counts_that_tell_nothing_leave_no_choice_of_direction() -> None:
    alike = [[0, 0, 0, 0, label] for label in (0, 1)]
    study = survey(start_up=alike)
    inputs, flat = SurveyCounts(12).to_json(), guidance_for(study, SurveyCounts(12))
    verify_guidance(study, inputs, flat.V, 1)
    with pytest.raises(GuidanceError, match="flat"):
        verify_guidance(study, inputs, np.eye(12)[:, :1], 1)


def test_guidance_that_was_made_up_is_found_out() -> None:
    study, counts = survey(), received()
    inputs, honest = counts.to_json(), guidance_for(study, counts)
    unit = np.eye(12)[:, : honest.k]  # reads chosen bits exactly, and is orthonormal
    with pytest.raises(GuidanceError, match="other directions"):
        verify_guidance(study, inputs, unit, honest.k)
    other = guidance_for(study, received(299))
    with pytest.raises(GuidanceError):
        verify_guidance(study, inputs, other.V, other.k)
    more = Guidance.from_counts(counts, SurveyRules(k=honest.k + 1, floor=study.floor), startup_counts(study))
    with pytest.raises(GuidanceError, match="level"):
        verify_guidance(study, inputs, more.V, more.k)
    last = Guidance.from_counts(counts, SurveyRules(k=12, floor=study.floor), startup_counts(study)).V[:, -honest.k :]
    with pytest.raises(GuidanceError, match="come first"):
        verify_guidance(study, inputs, np.ascontiguousarray(last), honest.k)
