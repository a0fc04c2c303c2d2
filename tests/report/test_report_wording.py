"""Figures as people read them: never rounded to certainty, never a zero for what is not known."""

from __future__ import annotations

import pytest

from sfumato.api.cli.audit import attack_lines, wrapped
from sfumato.attacks import ATTACKS
from sfumato.auditing.report.evidence import share_of_what_was_left, shown_guarantee
from sfumato.auditing.report.markup import (
    KNOWLEDGE,
    breakable,
    detail_rows,
    factor,
    figure,
    in_words,
    quantity,
    setting_rows,
    short_name,
    told,
)
from sfumato.core.svg import tag, trimmed


@pytest.mark.parametrize(
    ("value", "words"),
    [(None, "–"), (0.0, "0"), (1.0, "1"), (0.1234, "0.123"), (0.0001, "<0.001"), (0.9999, "1.000"), (7.5, "7.500")],
)
def test_figures(value, words):
    assert figure(value) == words


def test_other_numbers():
    assert [quantity(value) for value in (None, 0.0123456, 23353.4, -2500.0, 1e9)] == [
        "–", "0.0123", "23,353", "-2,500", "1e+09",
    ]  # fmt: skip
    assert factor(1e300) == "without limit"
    assert factor(28.03) == "28 times"
    assert trimmed(-0.001) == "0"


def test_details_with_their_interval():
    assert detail_rows({"auc": 0.65, "auc_low": 0.6, "auc_high": 0.7, "brand_new": 3.0}) == [
        ("Pairs told apart, one of whom is in the table (AUC; 0.5 is a coin toss)", "0.650", "0.600 to 0.700"),
        ("brand new", "3.000", ""),
    ]


def test_all_that_attacks_know_has_words():
    for attack in ATTACKS.values():
        assert attack.knows <= KNOWLEDGE.keys(), attack.name
    assert in_words(KNOWLEDGE, "shoe_size") == "shoe size"


def test_settings_in_words():
    assert setting_rows({"seed": 1234, "rows_used": 12345, "sampled": True, "new_one": None}) == [
        ("Release rows audited", "12,345"),
        ("A sample instead of all rows", "yes"),
        ("Seed of the audit's own sampling", "1234"),
        ("new one", "–"),
    ]


@pytest.mark.parametrize(
    ("columns", "names", "words"),
    [
        ([], ["a"], "–"),
        (["a", "b"], ["a", "b"], "2 of 2: all of them"),
        (["a", "b"], ["a", "b", "c"], "2 of 3: all but c"),
        (["a"], ["a", "b", "c"], "1 of 3: a"),
        (["a", "z"], ["a", "b"], "a, z"),
        (["a"], [], "a"),
    ],
)
def test_columns_that_are_told(columns, names, words):
    assert told(columns, names) == words


def test_markup_escapes_text_and_attributes():
    assert tag("text", "a<b", tag("b", "c"), class_='x"y', stroke_width=1.5, fill=None) == (
        '<text class="x&#34;y" stroke-width="1.5">a&lt;b<b>c</b></text>'
    )
    assert breakable("<a_b>") == "&lt;a_<wbr>b&gt;"


FORMAL = {
    "kind": "local-dp",
    "epsilon_component": 0.25,
    "epsilon_column": 0.25,
    "epsilon_record": 2.0,
    "epsilon_person": None,
    "conditional_epsilon": None,
    "posteriors": [{"prior": 0.01, "at_most": 0.0695, "at_least": 0.00137}],
    "words": "At most 0.7% sure.",
}


def test_a_proved_guarantee():
    shown = shown_guarantee(FORMAL)
    assert shown.state == "formal"
    assert [(title, value) for title, value, _, _, _ in shown.levels] == [
        ("One released number", "0.25"),
        ("One column of a person", "0.25"),
        ("A person's whole record", "2"),
        ("A person, with all their rows", "no bound"),
    ]
    assert shown.beliefs[2] == ("1 in 1,000", "0.735%", "0.0135%")  # 0.7343...% rounded up, 0.01354...% rounded down


def test_a_proved_guarantee_can_be_useless():
    shown = shown_guarantee({**FORMAL, "epsilon_record": 9.0, "words": "Perfectly safe."})
    assert shown.state == "weak"
    assert shown.unprotected
    assert "Perfectly safe" not in shown.words


def test_all_releases_of_the_rows_come_first():
    """Four releases at epsilon 2: the headline, the figures and the beliefs are those of who sees all four."""
    shown = shown_guarantee(FORMAL, {"count": 3, "total_epsilon_record": 8.0})
    assert shown.state == "weak"
    assert shown.words.startswith(
        "Practically unprotected, formally bounded: epsilon 8. Proved: whatever the other rows teach"
    )
    assert "This is release 4. For anybody's values, all 4 together come to epsilon 8." in shown.words
    assert "This release alone: epsilon 2 for values." in shown.words
    assert shown.levels[0][:2] == ("All 4 releases together", "8")
    assert [title for title, _, _, _, main in shown.levels if main] == ["All 4 releases together"]
    assert [row[:2] for row in shown.beliefs] == [
        ("1 chance in 10", "99.7%"),
        ("1 in 2", "over 99.9%"),
        ("1 in 1,000", "74.9%"),
    ]
    unbounded = shown_guarantee(FORMAL, {"count": 1, "total_epsilon_record": None})
    assert unbounded.state == "repeated"
    assert unbounded.words.startswith("Nothing is proved of both releases together")
    assert unbounded.levels[0][:2] == ("All 2 releases together", "no bound")
    assert unbounded.beliefs == []


def test_text_of_a_card_is_cut_and_has_no_control_characters():
    hostile = {**FORMAL, "epsilon_record": None, "sentence": "Safe!\x1b[2J" + "x" * 9000, "assumptions": ["y" * 9000]}
    shown = shown_guarantee(hostile)
    assert len(shown.words) < 1000
    assert "\x1b" not in shown.words
    assert "release's own words" in shown.words
    assert len(shown.assumptions[0]) <= 600


def test_what_is_not_proved_does_not_look_proved():
    reasons = [f"bounds or categories of column '{k}'" for k in range(5)]
    conditional = {"component": 1.0, "column": 1.0, "record": 3.0, "person": 3.0}
    shown = shown_guarantee(
        {**FORMAL, "kind": "empirical-only", "conditional_epsilon": conditional, "in_the_way": reasons}
    )
    assert shown.state == "conditional"
    assert shown.in_the_way == ["bounds or categories of 5 columns"]
    assert shown.everything_in_the_way == reasons
    nothing = shown_guarantee({**FORMAL, "kind": "empirical-only", "epsilon_record": None, "posteriors": []})
    assert nothing.state == "none"
    assert nothing.levels == []
    assert shown_guarantee(None).state == "unstated"


def test_long_names_are_cut_in_the_middle():
    assert short_name("x" * 64) == "x" * 64
    shown = short_name("start" + "x" * 200 + "<end>")
    assert shown.startswith("start")
    assert shown.endswith("&lt;end&gt;")
    assert len(shown.unescape()) == 61


def test_attackers_without_extra_share_a_line_and_so_do_those_not_applicable():
    entry = {"name": "naive-estimate", "score": 0.2, "baseline": 0.4, "control": None, "interval": [0.1, 0.3]}
    why = {"score": None, "not_applicable": "needs the transform"}
    attacks = [
        entry,
        entry | {"name": "pair", "score": 0.4},
        entry | {"name": "linear-estimate", "score": 0.6, "interval": [0.5, 0.7], "control": 0.5},
        {"name": "nearest-row", **why},
        {"name": "top-match", **why},
        {"name": "known-rows", "score": None, "not_applicable": "needs known rows"},
        {"name": "membership", "score": None, "failed": "ValueError"},
    ]
    assert list(attack_lines({"attacks": attacks})) == [
        "attacker                 right of 100  without  not in table   extra",
        "linear-estimate                    60       40            50     +20",
        "learn nothing: naive-estimate, pair",
        "not applicable: nearest-row, top-match, known-rows (mostly: needs the transform)",
        "failed, which says nothing about privacy: membership (ValueError)",
    ]
    assert list(attack_lines({"attacks": attacks[4:6]})) == [
        "not applicable: top-match, known-rows (for one: needs the transform)"
    ]
    assert max(map(len, wrapped("not applicable: nearest-row, top-match, known-rows", 30))) <= 30


def test_the_share_of_what_was_left_is_for_experts():
    one = {"name": "a", "score": 0.75, "baseline": 0.2, "control": 0.5, "interval": None}
    assert share_of_what_was_left(one) == pytest.approx(0.5), "half of what was left about people not in the table"
    assert share_of_what_was_left(one | {"baseline": 0.5, "control": None}) == pytest.approx(0.5)
    assert share_of_what_was_left(one | {"score": 0.3}) == 0.0
    assert share_of_what_was_left(one | {"score": 1.0, "baseline": 1.0}) == 0.0
