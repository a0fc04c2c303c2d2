"""The verdict before all figures: what was not tried is unknown, a limit holds for intervals, and words stay modest."""

import copy

import pytest

from sfumato.guarantee.concentrated import epsilon_of
from sfumato.guarantee.rounding import rounded_up
from sfumato.report.bottom_line import bottom_line, extra_of, extras, state_of


def entry(name, score=None, baseline=0.0, interval=None, **more):
    return {"name": name, "score": score, "baseline": baseline, "interval": interval, "details": {}, **more}


FOUND = {
    "guarantee": {
        "kind": "central-dp",
        "epsilon_record": None,
        "rows_per_person": 1,
        "central": {"epsilon": 0.62, "delta": 1e-6, "rho": 0.0099, "pure": 0.0, "rho_replaced": 0.0244},
    },
    "release": {
        "earlier_releases": {"count": 0, "total_epsilon_record": 0.0},
        "owners_word": ["2 ranges by the owner's word (not checked):", '"form 17b": age, dose'],
        "label_state": "drawn",
    },
    "attacks": [
        entry("membership", 0.0, details={"auc": 0.51, "auc_high": 0.55}),
        entry("attribute-inference", 0.46, 0.44, [0.42, 0.5]),
        entry("singling-out", 0.0, 0.01, [0.0, 0.02]),
        entry("nearest-row", None, not_applicable="rows are nobody's"),
        entry("lucky-guess", 0.99),
    ],
    "utility": [
        {"classifier": "knn", "original": 0.95, "release": 0.93, "commonest": 0.63},
        {"classifier": "naive-bayes", "original": 0.9, "release": 0.92, "commonest": 0.63},
    ],
}


def changed(name, **more):
    found = copy.deepcopy(FOUND)
    next(one for one in found["attacks"] if one["name"] == name).update(more)
    return found


def test_the_bottom_line_begins_with_the_state_and_answers_every_question():
    lines = bottom_line(FOUND, folder="release/")
    assert lines[0].startswith("YOUR DECISION      Proved: whatever the other rows teach")
    text = " ".join(" ".join(lines).split())
    assert "from 1 chance in 10 to at most 2.7 in 10, except with probability 1e-06" in text
    values, presence = (rounded_up(epsilon_of(rho, 1e-6)) for rho in (0.0244, 0.0099))
    assert f"(epsilon {values} for values, {presence} for presence, all releases counted)" in text
    assert "Whose row is it? 51 of 100 pairs told apart 50 without the release +1" in text
    assert "Learn a value? 46 of 100 right 44 without the release +2" in text
    assert "Pick out one? 0 of 100, 1 without the release: nothing learned" in text
    assert "Of use? 93 of 100 right (commonest class 63, originals 95), by knn" in text
    assert 'Not hidden the ranges you declared ("form 17b")' in text
    assert lines[-1] == "Next               sfumato certificate release/"
    assert max(map(len, lines)) <= 80
    assert "safe" not in text.lower()


@pytest.mark.parametrize(
    ("limit", "state"), [(None, "YOUR DECISION"), (20, "WITHIN YOUR LIMITS"), (5.5, "NOT WITHIN YOUR LIMITS")]
)
def test_a_limit_holds_for_the_whole_interval(limit, state):
    assert state_of(extras(FOUND), limit) == state


def test_what_was_not_tried_is_unknown_and_never_0():
    untried = changed("membership", score=None, not_applicable="no trace")
    assert bottom_line(untried, limit=20)[0].startswith("UNKNOWN ")
    assert any("not tried: " in line for line in bottom_line(untried))
    worse = changed("attribute-inference", score=0.9)
    worse["attacks"][0]["score"] = None
    assert state_of(extras(worse), 20) == "NOT WITHIN YOUR LIMITS"  # what is known to be too much is said first


def test_extra_is_right_minus_right_without_the_release():
    assert extra_of(entry("attribute-inference", 0.6, 0.4)) == pytest.approx(20.0)
    assert extra_of(entry("x", 0.2, details={"auc": 0.75})) == pytest.approx(25.0)
    assert extra_of(entry("x", 0.9, upper_bound=True)) is None
    assert extra_of(entry("x")) is None


def test_nothing_is_called_proved_that_is_not():
    learned = copy.deepcopy(FOUND)
    learned["guarantee"]["kind"] = "empirical-only"
    assert "Measured, not proved" in bottom_line(learned)[0]
    after = copy.deepcopy(FOUND)
    after["release"]["earlier_releases"] = {"count": 1, "total_epsilon_record": None, "central": None}
    assert "Nothing is proved of all releases together" in " ".join(" ".join(bottom_line(after)).split())
    both = copy.deepcopy(FOUND)
    both["release"]["earlier_releases"] = {
        "count": 1,
        "total_epsilon_record": 2.0,
        "central": both["guarantee"]["central"],
    }
    total = rounded_up(2 + epsilon_of(0.0244, 1e-6))
    assert f"epsilon {total} for values, all releases counted" in " ".join(" ".join(bottom_line(both)).split())
