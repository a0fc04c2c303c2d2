"""Pictures: every number on an axis is where it says, nothing is cut or runs into its neighbour."""

import re
from itertools import pairwise

import numpy as np
import pytest

from sfumato.reconstruction.density import Density, Shares
from sfumato.reconstruction.evidence import Cells
from sfumato.reconstruction.picture import WIDE, plain

TEXT = re.compile(r'<text x="([-\d.]+)" y="([-\d.]+)"(?: text-anchor="(\w+)")?[^>]*>([^<]*)</text>')


def texts(picture):
    """(left, right, y, words), 6 pixels for a letter."""
    found = []
    for x, y, anchor, words in TEXT.findall(picture):
        width = 6 * len(words)
        left = float(x) - {"middle": width / 2, "end": width}.get(anchor, 0)
        found.append((left, left + width, float(y), words))
    return found


def density(start, end, top, **more):
    height = np.array([0.25, 1.0, 0.5]) * top
    cells = Cells.even(start, end, 3)
    return Density(more.pop("name", "income"), cells, height * cells.widths, **more)


@pytest.mark.parametrize(("low", "high"), [(0, 1), (1e6, 1e6 + 30), (-62_032, -40_456), (1e-7, 9e-7), (16_868, 98_245)])
@pytest.mark.parametrize("top", [0.13, 0.15, 1.5, 15.0, 1.2e-5, 5e-5, 0.9, 700.0])
def test_ticks_stand_where_they_say_and_apart(low, high, top):
    found = texts(density(low, high, top).plot())
    across = sorted(item for item in found if item[2] == WIDE.height - 38)
    heights = [item for item in found if item[1] == pytest.approx(66) and item[3] != "density"]
    assert len(across) >= 3
    assert len(heights) >= 3
    assert all(one[1] < other[0] for one, other in pairwise(across))
    for items, place in ((across, lambda t: (t[0] + t[1]) / 2), (heights, lambda t: t[2])):
        said = np.array([float(item[3].replace(",", "")) for item in items])
        at = np.array([place(item) for item in items])
        inside = slice(0, len(said) - (items is across))  # the last one is moved where it would be cut
        line = np.polyfit(at[inside], said[inside], 1)
        np.testing.assert_allclose(np.polyval(line, at[inside]), said[inside], atol=0.005 * np.ptp(said))


def test_legend_and_axes_tell_what_is_drawn():
    band = {"low": np.full(3, 0.1), "high": np.full(3, 0.6), "about": {"unit": "days since 1970-01-01"}}
    picture = density(20_000, 60_000, 1 / 30_000, **band).plot()
    for words in (
        "Density of income",
        "estimate",
        "90% band",
        "mean 32,593",
        "income, days since 1970-01-01",
        ">density<",
    ):
        assert words in picture
    assert "band" not in density(0, 1, 1.0).plot()


@pytest.mark.parametrize("count", [2, 5, 12, 40, 150])
@pytest.mark.parametrize("name", ["a", "a category with a long name"])
def test_nothing_leaves_the_page_whatever_the_names(count, name):
    mass, long = np.full(count, 1 / count), "what was your household's income before taxes in the last year? " * 3
    names = tuple(f"{number} {name}" for number in range(count))
    for band in ((None, None), (0.5 * mass, 1.5 * mass)):
        bars = Shares(long, names, mass, *band, 0.9, 100).plot()
        for picture in (bars, density(1e6, 1e6 + 30, 1.0, name=long).plot()):
            for left, right, y, _ in texts(re.sub(r"<text[^>]*rotate[^>]*>[^<]*</text>", "", picture)):
                assert left >= 0
                assert right <= WIDE.width
                assert 0 < y < WIDE.height
        straight = sorted(item for item in texts(bars) if item[2] == WIDE.height - 38)
        turned = [float(x) for x in re.findall(r'<text x="([\d.]+)"[^>]*rotate', bars)]
        assert all(one[1] < other[0] for one, other in pairwise(straight)) or turned
        assert not turned or np.diff(turned).min() > 12


def test_numbers_are_written_for_readers():
    assert [plain(value) for value in (39_067.78, 0.0, -1.25, 1e-9, 123_456_789.0)] == [
        "39,068",
        "0",
        "-1.2500",
        "1e-09",
        "123,456,789",
    ]
