"""What the demonstration says of risk."""

from sfumato.api.demo import Shown


def shown(**scores):
    attacks = {name.replace("_", "-"): {"score": score, "baseline": 0.02} for name, score in scores.items()}
    return Shown({}, {}, {}, 0.4, {}, {"site": "North", "attacks": attacks}, {}, "").risk_line


def test_the_risk_is_said_in_figures_and_what_was_not_tried_is_not_zero():
    line = shown(nearest_row=1.0, pair=None)
    assert line.startswith("Nothing is proved")
    assert "finds a patient's own row 100 of 100 times (without the release 2)" in line
    assert "whose of two a row is: not tried" in line
    assert "8 of 100 times" in shown(nearest_row=0.08)
