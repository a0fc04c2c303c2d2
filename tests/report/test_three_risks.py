"""The first table of the report: singling out, linkability, inference."""

import pytest

from sfumato.attacks import ATTACKS
from sfumato.report.three_risks import RISKS, excess, three_risks


def entry(name, score, baseline, control=None):
    return {"name": name, "score": score, "baseline": baseline, "control": control, "interval": [score - 0.1, score]}


def test_each_risk_is_told_by_the_attack_that_gains_most():
    attacks = [
        entry("singling-out", 0.5, 0.1, 0.4),
        entry("singling-out-one-column", 0.45, 0.1, 0.1),
        entry("nearest-row", 0.9, 0.01, 0.0),
        {"name": "attribute-inference", "score": None},
    ]
    singling, linking, inference = three_risks(attacks)
    assert (singling.attack, singling.excess, singling.against) == ("singling-out-one-column", "0.389", "0.100")
    assert (linking.attack, linking.in_short) == ("nearest-row", "gains from the release")
    assert (inference.attack, inference.score) == ("", "not tried")
    assert three_risks([]) == []


def test_every_attack_says_which_risk_it_plays_and_what_nobody_has_does_not_count():
    assert {attack.risk for attack in ATTACKS.values()} == set(RISKS)
    attacks = [
        entry("naive-estimate", 0.4, 0.1),
        {**entry("linear-estimate", 0.9, 0.1), "assumes": ["the key has leaked"]},
        {**entry("principal-filter", 0.8, 0.1), "upper_bound": True},
        entry("membership", 0.7, 0.5),
        entry("of-tomorrow", 1.0, 0.0),
    ]
    assert [risk.attack for risk in three_risks(attacks)] == ["", "membership", "naive-estimate"]


def test_the_gain_is_a_share_of_what_was_left():
    assert excess(entry("a", 0.75, 0.2, 0.5)) == pytest.approx(0.5), "half of what the control left"
    assert excess(entry("a", 0.75, 0.5)) == pytest.approx(0.5), "without a control, of what the baseline left"
    assert excess(entry("a", 0.3, 0.2, 0.5)) == 0.0
    assert excess(entry("a", 1.0, 1.0)) == 0.0
