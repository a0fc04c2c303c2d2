"""The verdict before all figures: what was not tried is unknown, a limit holds for intervals, and words stay modest."""

import copy
import shlex

import pytest

from sfumato.attacks import ATTACKS
from sfumato.auditing.extra import RISKS, extra_dict, points_of, state_of, three_risks, with_extra
from sfumato.auditing.report.bottom_line import asked_about, bottom_line, bottom_line_html
from sfumato.guarantee.cost import epsilon_of
from sfumato.guarantee.guarantee import learned_domain
from sfumato.guarantee.rounding import rounded_up


def entry(name, score=None, baseline=0.0, interval=None, **more):
    return {"name": name, "score": score, "baseline": baseline, "interval": interval, "details": {}, **more}


TESTED = {"tested_rows": 143, "tested_on": "holdout"}
FOUND = {
    "guarantee": {
        "kind": "central-dp",
        "epsilon_record": None,
        "rows_per_person": 1,
        "central": {"epsilon": 0.62, "delta": 1e-6, "rho": 0.0099, "pure": 0.0, "rho_replaced": 0.0244},
    },
    "release": {
        "earlier_releases": {"count": 0, "total_epsilon_record": 0.0},
        "declared": [{"reason": "form 17b", "ranges": 2}, {"reason": "the law", "ranges": 1}],
        "label_state": "drawn",
    },
    "attacks": [
        entry("membership", 0.0, details={"auc": 0.51, "auc_low": 0.47, "auc_high": 0.55}),
        entry("attribute-inference", 0.46, 0.44, [0.445, 0.5]),
        entry("singling-out", 0.0, 0.01, [0.0, 0.02], details={"predicates": 22.0, "people_singled_out": 0.0}),
        entry("nearest-row", None, not_applicable="rows are nobody's"),
        entry("lucky-guess", 0.99),
    ],
    "utility": [
        {"classifier": "knn", "original": 0.95, "release": 0.93, "commonest": 0.63, **TESTED},
        {"classifier": "naive-bayes", "original": 0.9, "release": 0.92, "commonest": 0.63},
    ],
}


def changed(name, **more):
    found = copy.deepcopy(FOUND)
    next(one for one in found["attacks"] if one["name"] == name).update(more)
    return found


def limited(limit, found=None):
    return {**(found or FOUND), "extra": {"limit": limit}}


def told(found, **more):
    return " ".join(" ".join(bottom_line(found, **more)).split())


def test_the_bottom_line_begins_with_the_state_and_answers_every_question():
    lines = bottom_line(FOUND, folder="release/")
    assert lines[0].startswith("YOUR DECISION      Proved: whatever the other rows teach")
    text = told(FOUND, folder="release/")
    assert "from 1 chance in 10 to at most 2.7 in 10, except with probability 1e-06" in text
    values, presence = (rounded_up(epsilon_of(rho, 1e-6)) for rho in (0.0244, 0.0099))
    assert f"(epsilon {values} for values, {presence} for presence, one row each, all releases counted)" in text
    assert "Whose row is it? 51 of 100 pairs told apart 50 without the release within chance" in text
    assert "Learn a value? 46 of 100 44 without the release +2" in text
    assert "Pick out one? tried 22 ways, none found" in text
    assert "Of use? 93 of 100 right (commonest class 63, originals 95), by knn on 143 people not in the table" in text
    assert 'Not hidden the ranges you declared (3: 2 by "form 17b", 1 by "the law")' in text
    learned = ["bounds or categories of column 'a'"] * 15 + ["classes of the label"]
    after = {**FOUND, "release": {**FOUND["release"], "learned_from_data": learned, "declared": []}}
    assert "what was read off your data (bounds or categories of 15 columns; classes of the label)" in told(after)
    assert lines[-1] == "Next               sfumato certificate release/"
    assert max(map(len, lines)) <= 80
    narrow = bottom_line(FOUND, width=40)
    assert max(map(len, narrow)) <= 40
    assert {"YOUR DECISION", "Learn a value?", "Of use?"} <= set(narrow)  # with a line of their own
    assert "  46 of 100   44 without the release" in narrow
    assert "safe" not in text.lower()


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        ({"form 17b": 2}, '(2, reason "form 17b")'),
        ({"a": 1, "b": 2, "c": 30}, '(33: 1 by "a", 2 by "b", 30 by "c")'),
        ({f"entry {k}": 1 + (k < 10) for k in range(20)}, "(30 ranges, 20 different reasons: see `sfumato show`)"),
    ],
)
def test_no_reason_is_left_out_unsaid(declared, said):
    release = {**FOUND["release"], "declared": [{"reason": why, "ranges": n} for why, n in declared.items()]}
    assert f"the ranges you declared {said}" in told({**FOUND, "release": release})


MEASURED_SHARES = {"marginals": {"release": 0.12}, "pairs": {"release": 0.2}}


@pytest.mark.parametrize(
    ("label", "settings", "said"),
    [
        (
            "ill",
            {"repeats": 10, "holdout_rows": 0},
            "how well 'ill' is predicted is not known: it needs people not in the",
        ),
        ("ill", {"repeats": 0, "holdout_rows": 0}, "how well 'ill' is predicted was not asked for: add --repeats 10"),
        ("ill", {"repeats": 10, "holdout_rows": 9}, "how well 'ill' is predicted is not known; audit.json says why"),
        (None, {"repeats": 10}, "Of use? shares of one column are off by 12 points"),
    ],
)
def test_where_nothing_was_learned_it_says_what_is_known_and_what_to_add(label, settings, said):
    found = {**FOUND, "utility": [], "fidelity": MEASURED_SHARES, "settings": settings}
    text = told({**found, "release": {**FOUND["release"], "label": label}})
    assert said in text
    assert "shares of one column are off by 12 points, of two columns by 20" in text


@pytest.mark.parametrize(
    ("than", "right", "start"),
    [
        ("worse", 0.5, "worse than always answering"),
        ("no better", 0.6, "no better than always answering"),
        ("no better", 0.93, "too few rows to tell that it is better than always answering"),
        ("better", 0.93, "93"),
    ],
)
def test_a_release_that_teaches_nothing_says_so_first(than, right, start):
    found = copy.deepcopy(FOUND)
    found["utility"] = [{**found["utility"][0], "than_commonest": than, "release": right}]
    assert f"Of use? {start}" in told(found)
    said = f"always answering the commonest class: {100 * right:.0f} of 100 right"
    assert (said in told(found)) == (than != "better")


def test_a_command_can_be_copied_whatever_the_path():
    lines = bottom_line(FOUND, folder="my release's/of May 2026, the second one of the year", width=40)
    typed = shlex.split(lines[-1])
    assert typed == ["sfumato", "certificate", "my release's/of May 2026, the second one of the year"]


def test_terminal_and_page_have_the_same_words():
    page = bottom_line_html(limited(20), "release/").replace("</dd>", " ").striptags()
    assert " ".join(page.split()) == told(limited(20), folder="release/")


@pytest.mark.parametrize(
    ("limit", "state"), [(None, "your decision"), (20, "within your limits"), (5.5, "not within your limits")]
)
def test_a_limit_holds_for_the_whole_interval(limit, state):
    assert state_of(three_risks(FOUND["attacks"]), limit) == state
    text = told(limited(limit))
    assert text.startswith(state.upper())
    assert ("+2 limit 20" in text) == (limit == 20)
    assert ("+2 up to +6 by the 95% interval limit 5.5" in text) == (limit == 5.5)
    assert ("Next sfumato recommend TABLE" in text) == (limit == 5.5)


def test_the_interval_of_every_attacker_counts_not_only_of_the_strongest():
    noisy = {**FOUND, "attacks": [*FOUND["attacks"], entry("linear-estimate", 0.41, 0.4, [0.2, 0.65])]}
    assert three_risks(noisy["attacks"])[1].attacker == "attribute-inference"
    assert state_of(three_risks(noisy["attacks"]), 20) == "not within your limits"


def test_what_was_not_tried_is_unknown_and_never_0():
    untried = changed("membership", score=None, not_applicable="no trace")
    assert told(limited(20, untried)).startswith("UNKNOWN ")
    assert "Whose row is it? not tried: no trace" in told(untried)
    assert "Next the same with --holdout TABLE" in told(untried)
    assert extra_dict(untried["attacks"], None)["risks"][0]["extra"] is None
    worse = changed("attribute-inference", score=0.9)
    worse["attacks"][0]["score"] = None
    worse = three_risks(worse["attacks"])
    assert state_of(worse, 20) == "not within your limits"  # what is known to be too much is said first


def test_every_attacker_plays_one_of_the_risks_and_some_do_not_count():
    assert {attack.risk for attack in ATTACKS.values()} == set(RISKS)
    played = [
        entry("naive-estimate", 0.4, 0.1),
        entry("linear-estimate", 0.9, 0.1, assumes=["the attacker shares the key"]),
        entry("principal-filter", 0.95, 0.1, upper_bound=True),
        entry("of-tomorrow", 1.0, 0.0),
    ]
    assert [one.attacker for one in three_risks(played)] == ["", "linear-estimate", ""]
    assert {one.why for one in three_risks([])} == {"no attacker of this kind was asked for"}


def test_extra_is_right_minus_right_without_the_release():
    assert points_of(entry("attribute-inference", 0.6, 0.4)).extra == pytest.approx(20.0)
    assert points_of(entry("x", 0.2, details={"auc": 0.75})).extra == pytest.approx(25.0)
    assert points_of(entry("x", 0.9, upper_bound=True)) is None
    assert with_extra(entry("x"))["extra"] is None


def test_pairs_are_called_pairs_whoever_tells_them_apart():
    found = {**FOUND, "attacks": [entry("pair", 0.95, 0.5, [0.9, 0.96]), entry("nearest-row", 0.3, 0.01, [0.2, 0.4])]}
    assert "Whose row is it? 95 of 100 pairs told apart 50 without the release +45" in told(found)


@pytest.mark.parametrize(
    ("right", "without", "limit", "words"),
    [
        (0.46, 0.44, None, "46 of 100 44 without the release +2"),
        (0.464, 0.436, None, "46.4 of 100 43.6 without the release +2.8"),  # 46 less 44 is not 3
        (0.604, 0.4, 20, "60.4 of 100 40.0 without the release +20.4"),  # +20 would seem to be within 20
        (0.3, 0.4, None, "30 of 100 40 without the release learns nothing"),
    ],
)
def test_figures_add_up_and_stay_on_their_side_of_the_limit(right, without, limit, words):
    assert words in told(limited(limit, changed("attribute-inference", score=right, baseline=without, interval=None)))


def test_a_page_for_others_has_the_proof_and_nothing_that_was_measured():
    text = told({**FOUND, "private": False, "attacks": [], "utility": []})
    assert "the ranges the owner declared" in text
    assert text.startswith("WHAT IS PROVED Proved: whatever the other rows teach")
    assert not any(word in text for word in ("of 100", "commonest", "Next", "not tried", "Of use?"))


def test_nothing_is_called_proved_that_is_not():
    learned = copy.deepcopy(FOUND)
    learned["guarantee"]["in_the_way"] = [learned_domain("age"), learned_domain("dose")]
    assert "Measured, not proved: the ranges of 2 columns were read off the table" in bottom_line(learned, width=200)[0]
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
    assert f"epsilon {total} for values, one row each, all releases counted" in " ".join(
        " ".join(bottom_line(both)).split()
    )


def test_an_accuracy_says_which_learner_on_how_many_rows_of_whom():
    assert asked_about({"tested_rows": 1, "tested_on": "holdout"}) == "1 person not in the table"
    assert (
        asked_about({"tested_rows": 120, "tested_on": "left-out", "splits": 5})
        == "120 rows left out of training, 5 times"
    )
    assert asked_about({}) == "rows that it had not seen"  # an audit of 0.2
