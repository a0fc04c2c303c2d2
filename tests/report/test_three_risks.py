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
    assert [risk.score for risk in three_risks([])] == ["not tried"] * 3


def test_a_risk_that_nobody_tried_has_no_figure_but_a_reason():
    why = {"score": None, "not_applicable": "needs the transform"}
    attacks = [entry("naive-estimate", 0.4, 0.1), {"name": "nearest-row", **why}, {"name": "pair", **why}]
    attacks.append({"name": "top-match", "score": None, "failed": "ValueError"})
    _, linking, _ = three_risks(attacks)
    assert (linking.attack, linking.score, linking.excess, linking.against) == ("", "not tried", "", "")
    assert linking.in_short == "needs the transform"


def test_where_rows_are_nobodys_the_figure_says_on_how_many_it_rests():
    details = {"rows_of_people": 300.0, "rows_in_all": 3000.0}
    linking = three_risks([{**entry("nearest-row", 0.9, 0.01), "details": details}])[1]
    assert linking.of == "on 300 of 3,000 rows"


def test_every_attack_says_which_risk_it_plays_and_whoever_shares_a_key_counts():
    assert {attack.risk for attack in ATTACKS.values()} == set(RISKS)
    attacks = [
        entry("naive-estimate", 0.4, 0.1),
        {**entry("linear-estimate", 0.9, 0.1), "assumes": ["the attacker shares the key"]},
        {**entry("principal-filter", 0.8, 0.1), "upper_bound": True},
        entry("membership", 0.7, 0.5),
        entry("of-tomorrow", 1.0, 0.0),
    ]
    found = three_risks(attacks)
    assert [risk.attack for risk in found] == ["", "membership", "linear-estimate"]
    assert found[2].in_short == "gains from the release, if the attacker shares the key"


def test_the_gain_is_a_share_of_what_was_left():
    assert excess(entry("a", 0.75, 0.2, 0.5)) == pytest.approx(0.5), "half of what the control left"
    assert excess(entry("a", 0.75, 0.5)) == pytest.approx(0.5), "without a control, of what the baseline left"
    assert excess(entry("a", 0.3, 0.2, 0.5)) == 0.0
    assert excess(entry("a", 1.0, 1.0)) == 0.0
