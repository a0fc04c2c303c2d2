"""The drawings: lengths are the figures, shades are the correlations, and nothing is shown that is not known."""

from __future__ import annotations

import re

import pytest

from sfumato.auditing.report.columns import (
    brief,
    category_bars,
    changed_most,
    correlation_maps,
    dots,
    heat_map,
    learned,
    pictures,
    shade,
    steps,
)
from sfumato.auditing.report.evidence import exposure
from sfumato.auditing.report.markup import (
    GAINS,
    NO_GAIN,
    POPULATION,
    UNCLEAR,
    bar,
    column_verdict,
    in_all,
    report_text,
    verdict,
)


def entry(score, low, high, baseline=0.2, control=None):
    return {"name": "x", "score": score, "interval": [low, high], "baseline": baseline, "control": control}


@pytest.mark.parametrize(
    ("attack", "expected"),
    [
        (entry(0.5, 0.4, 0.6), GAINS),
        (entry(0.5, 0.4, 0.6, control=0.3), GAINS),
        (entry(0.5, 0.4, 0.6, control=0.45), POPULATION),
        (entry(0.25, 0.15, 0.35), UNCLEAR),
        (entry(0.2, 0.15, 0.25), NO_GAIN),
        (entry(0.1, 0.05, 0.15, baseline=None), GAINS),
        ({"name": "x", "score": 0.5, "baseline": 0.4}, GAINS),
    ],
)
def test_verdicts(attack, expected):
    assert verdict(attack) == expected


def test_a_column_needs_more_than_chance():
    column = {"name": "age", "score": 0.6, "baseline": 0.5}
    assert column_verdict(column, people=1000, comparisons=10) == GAINS
    assert column_verdict(column, people=50, comparisons=10) == UNCLEAR
    assert column_verdict(column, people=150, comparisons=1) == GAINS
    assert column_verdict(column, people=150, comparisons=1000) == UNCLEAR
    assert column_verdict(column, people=0, comparisons=1) == UNCLEAR


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ([], ""),
        ([GAINS], "The one attacker learns from the release."),
        ([NO_GAIN] * 3, "All 3 attackers learn nothing."),
        (
            [UNCLEAR, GAINS, NO_GAIN],
            "Of 3 attackers, 1 learns from the release, 1 is within chance and 1 learns nothing.",
        ),
    ],
)
def test_all_attacks_in_one_sentence(found, words):
    assert in_all(found) == words


def test_a_bar_is_as_long_as_the_success():
    drawn = str(bar(entry(0.625, 0.5, 0.75, control=0.1), GAINS))
    assert 'width="62.5%" height="16" class="bar gains"' in drawn
    assert 'x1="50%" x2="75%"' in drawn
    assert '<svg x="20%"' in drawn  # without the release
    assert '<svg x="10%"' in drawn  # people not in the table
    assert "right 62.5 of 100, 95% interval 50 to 75, without the release 20" in drawn
    assert "control" not in str(bar(entry(0.6, 0.5, 0.7), GAINS))


def test_figures_beyond_the_scale_stay_on_it():
    drawn = str(dots({"classifier": "x", "original": 0.95, "release": 0.9, "phi": 0.05, "interval": [-0.2, 0.3]}))
    assert 'x1="65%" x2="100%"' in drawn


def test_classifiers_by_accuracy_and_failures_last(private_audit):
    rows = learned(private_audit["utility"])
    assert [row["classifier"] for row in rows] == ["knn", "forest", "mlp"]
    assert dots(rows[-1]) is None
    assert rows[-1]["failed"] == "ValueError"


def test_histograms_compare_shares_not_counts():
    """A release of twice the rows with the same distribution has the same outline."""
    assert steps([0.25, 0.75], 0.75) == "M0 80V53.33h120V0h120V80"
    same = {"name": "x", "kind": "numeric", "edges": [0, 1, 2], "original": [1, 3], "release": [2, 6], "distance": 0.0}
    drawn = str(pictures([same], private=True)[0].histogram)
    assert drawn.count("M0 80V53.33h120V0h120V80") == 2


def test_the_most_distorted_columns_come_first(private_audit):
    shown = pictures(private_audit["distributions"], private=True)
    assert [picture.distance for picture in shown] == ["0.500", "0.200", "0.100", "0"]
    assert shown[0].left_out == 3
    assert shown[0].categories[0][0] == "shade 0"
    assert shown[0].categories[0][2] == "94% → 9%"
    assert shown[1].missing == "missing: 11% → 25%"


def test_public_pictures_leave_the_original_out(private_audit):
    for picture in pictures(private_audit["distributions"], private=False):
        assert "original" not in str(picture.histogram)
        assert all("→" not in words and "original" not in str(bars) for _, bars, words in picture.categories)


@pytest.mark.parametrize(("kind", "edge", "words"), [
    ("date", 0.0, "1970-01-01"), ("date", 1e9, "1e+09"), ("ordinal", 3.0, "rank 3"), ("numeric", 23353.2, "23,353"),
])  # fmt: skip
def test_ends_are_in_the_columns_own_units(kind, edge, words):
    entry = {"name": "x", "kind": kind, "edges": [0.0, edge], "original": [1], "release": [1], "distance": 0.0}
    ends = pictures([entry], private=True)[0].ends
    assert ends is not None
    assert ends[1] == words


def test_a_column_without_values_is_drawn_empty():
    assert "NaN" not in str(category_bars(None, None))
    empty = {
        "name": "x",
        "kind": "numeric",
        "edges": [0, 1, 2],
        "original": [0, 0],
        "release": [0, 0],
        "distance": None,
    }
    assert "V80" in str(pictures([empty], private=True)[0].histogram)


def test_shades_and_numbers_of_a_heat_map():
    assert [shade(value) for value in (-1.2, -0.5, 0.0, 0.04, 1.0)] == [-10, -5, 0, 0, 10]
    assert [brief(value) for value in (1.0, -1.0, 0.53, -0.31, -0.001, 0.0)] == ["1", "-1", ".53", "-.31", ".00", ".00"]
    drawn = str(heat_map("release", [[1.0, -0.5], [-0.5, 1.0]], 2))
    assert '<path d="M1 0h1v1h-1zM0 1h1v1h-1z" class="n5"/>' in drawn
    assert len(re.findall(r">-\.50<", drawn)) == 2
    wide = [[0.1] * 40 for _ in range(40)]
    assert ">.10<" not in str(heat_map("release", wide, 40))


def test_figures_can_be_read_on_the_strongest_shade_of_either_scheme():
    """WCAG asks for 4.5. Shades between paper and the strongest lie between their contrasts."""
    schemes = re.findall(r":root \{(.*?)\}", report_text("page.css"), re.DOTALL)
    assert len(schemes) == 2
    for scheme in schemes:
        paper, ink = (light(hexed(re.search(rf"--{name}: #(\w+)", scheme)[1])) for name in ("paper", "ink"))
        for name in ("plus", "minus"):
            shade = light([int(part) for part in re.search(rf"--{name}: ([\d, ]+)", scheme)[1].split(",")])
            for behind in (paper, shade):
                assert (max(ink, behind) + 0.05) / (min(ink, behind) + 0.05) >= 4.5


def hexed(digits):
    pairs = re.findall("..", digits) if len(digits) == 6 else [2 * one for one in digits]
    return [int(pair, 16) for pair in pairs]


def light(color):
    """Relative luminance as WCAG defines it."""
    parts = [one / 255 / 12.92 if one <= 0.04045 * 255 else ((one / 255 + 0.055) / 1.055) ** 2.4 for one in color]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def test_pairs_that_changed_most(private_audit):
    correlations = private_audit["correlations"]
    assert changed_most(["a", "b", "c", "d"], correlations["original"], correlations["release"])[0] == (
        "a", "d", "-0.637", "-0.100",
    )  # fmt: skip
    assert [name for name, _ in correlation_maps(correlations, private=True).maps] == [
        "Original", "Release", "Release minus original",
    ]  # fmt: skip
    public = correlation_maps(correlations, private=False)
    assert [name for name, _ in public.maps] == ["Release"]
    assert public.changed == []


def test_exposed_columns(private_audit):
    found = exposure(private_audit["attacks"], people=1200)
    assert {column.attack for column in found.columns} == {"loud-attack"}
    assert len(found.columns) == 4
    assert found.spared == []
    quiet = exposure(private_audit["attacks"][:1], people=1200)
    assert quiet.columns == []
    assert quiet.spared == ["age", "colour"]


def test_beliefs_are_not_mixed_with_values():
    """A share of breached beliefs is not a share of values guessed right."""
    belief = {"name": "b", "score": 0.9, "details": {"eligible": 1.0}, "columns": [{"name": "age", "score": 0.9}]}
    assert exposure([belief], people=100).columns == []
