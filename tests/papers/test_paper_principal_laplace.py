"""The fast part of principal-laplace: its figures lie where the paper and an independent implementation put them."""

import math
import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier

from sfumato.learn.classifiers.geometric import NeighbourLadder

FOLDER = Path(__file__).resolve().parents[2] / "papers" / "principal-laplace"
B = (0.1, 0.2, 0.3)
CELLS = [(name, b) for name in ("iris", "wine") for b in B]


@pytest.fixture
def mean(fast_run):
    """A mean over the runs: mean("pca-radius", "wine", .3, "radius")."""
    return lambda experiment, data, setting, name: fast_run[2][f"{experiment}|{data}|{setting}"]["mean"][name]


@pytest.mark.parametrize(
    ("b", "gamma", "rho_2"),
    [(0.1, 22026.47, 0.9566), (0.2, 148.41, 0.1293), (0.25, 54.6, 0.0518), (0.3, 28.03, 0.0273)],
)
def test_amplification_is_exact(mean, b, gamma, rho_2):
    assert mean("amplification", "all", b, "amplification") == pytest.approx(gamma, rel=1e-4)
    assert mean("amplification", "all", b, "rho_2") == pytest.approx(rho_2, abs=1e-4)


@pytest.mark.parametrize(("name", "low", "high"), [("wine", 0.60, 0.95), ("iris", 0.55, 0.88)])
@pytest.mark.parametrize("classifier", ["radius", "corrected", "best_k", "k5"])
def test_accuracy_at_the_strongest_noise(mean, name, low, high, classifier):
    assert low <= mean("pca-radius", name, 0.3, classifier) <= high


@pytest.mark.parametrize("name", ["wine", "iris"])
def test_accuracy_falls_from_the_original_with_noise(mean, name):
    weak, strong = (mean("pca-radius", name, b, "radius") for b in (0.1, 0.3))
    assert mean("original", name, 0, "best_k") >= 0.9
    assert strong < weak <= 1
    assert mean("original", name, 0, "best_k") > strong + 0.1


@pytest.mark.parametrize(("name", "b"), CELLS)
def test_filtering_gains_less_under_pca_than_without(mean, name, b):
    with_pca = 1 - mean("pca-radius", name, b, "filtered") / mean("pca-radius", name, b, "reversed")
    without = 1 - mean("laplace", name, b, "filtered") / mean("laplace", name, b, "unfiltered")
    assert -0.02 <= with_pca < without


@pytest.mark.parametrize(("name", "b"), CELLS)
def test_stronger_adversaries_leave_less(mean, name, b):
    """No interval of the linear estimate is much wider than guessing the mean; those of the paper's attacks are."""
    assert mean("pca-radius", name, b, "linear") < 1.05 * mean("pca-radius", name, b, "mean")
    assert mean("pca-radius", name, b, "linear") < mean("pca-radius", name, b, "filtered")
    assert mean("pca-radius", name, b, "filtered_clipped") <= mean("pca-radius", name, b, "filtered")


def test_privacy_of_laplace_noise_is_its_own_interval(mean):
    """Unfiltered, the 95% interval of Laplace noise of scale b is 2 b ln 20 wide."""
    for name, b in CELLS:
        assert mean("laplace", name, b, "unfiltered") == pytest.approx(2 * b * math.log(20), rel=0.1)


@pytest.mark.parametrize(("name", "s"), [("wine", 7), ("iris", 2)])
def test_a_component_is_not_a_record(mean, name, s):
    for b in B:
        assert mean("epsilons", name, b, "component") == pytest.approx(1 / b)
        assert mean("epsilons", name, b, "record") == pytest.approx(s / b)
        assert mean("epsilons", name, b, "record_unclipped") > s / b
    assert mean("product", name, "b", "record") < 0.9 * s / 0.3, "public widths give a smaller figure for nothing"
    assert mean("product", name, "epsilon", "record") == pytest.approx(s / 0.3)


def test_the_page_has_every_figure(fast_run):
    out, printed, _ = fast_run
    page = (out / "RESULTS.md").read_text()
    assert page.strip() == printed.strip()
    for title in ("Figure 5", "Figure 6", "Figure 8", "Figure 9", "Figures 10 and 11", "for a record", "Sentence"):
        assert f"{title}" in page
    assert "nan" not in page


def test_a_second_run_does_nothing_again(fast_run, run_fast):
    out, printed, _ = fast_run
    again = run_fast("principal-laplace", out)
    assert again.stderr == ""
    assert again.stdout == printed


def test_data_sets_that_are_missing_are_skipped_and_said_to_be(modules_of, tmp_path, monkeypatch, capsys):
    """Ionosphere, Magic04 and Pendigits come with nothing; Waveform is generated anew."""
    monkeypatch.setenv("SFUMATO_DATA", str(tmp_path))
    with modules_of("principal-laplace", "run", "tables", "tasks") as own:
        names = [name for name in own.tables.TITLES if name not in own.tables.SYNTHETIC]
        wanted = [own.tasks.Task("original", name, 0) for name in names]
        skipped, sources = own.run._look_for_data(wanted, online=False)
        head = "\n".join(own.tables._head(own.tasks.Results({}, skipped, sources), 0, False))
    for title in ("Ionosphere", "Magic04", "Pendigits"):
        assert re.search(rf"{title} \|.*\*\*skipped\*\*: .*SFUMATO_DATA", head)
    assert head.count("skipped") == capsys.readouterr().err.count("skipped") == 3
    assert "generated anew" in sources["waveform"]


def test_the_committed_page_shows_figures_that_are_there_and_small():
    page = (FOLDER / "RESULTS.md").read_text()
    links = re.findall(r"\]\((figures/[^)]+)\)", page)
    assert len(links) == 5
    for link in links:
        assert 1000 < (FOLDER / link).stat().st_size < 100_000


def test_the_ladder_votes_like_scikit_learn():
    rng = np.random.default_rng(0)
    rows, queries = rng.normal(size=(300, 4)), rng.normal(size=(80, 4))
    codes = (rows[:, 0] + rng.normal(size=300) > 0).astype(np.int64)
    ladder = NeighbourLadder(rows, codes)
    for k, predicted in zip(ladder.ladder, ladder.predict(queries), strict=True):
        theirs = KNeighborsClassifier(k, weights=lambda d: 1 / d**2, algorithm="brute").fit(rows, codes)
        np.testing.assert_array_equal(predicted, theirs.predict(queries))
    # Left out one at a time: k = 1 finds the row's twin, which has the other class, and never the row itself.
    twins = NeighbourLadder(np.repeat(rows, 2, axis=0), np.tile([0, 1], 300))
    assert twins.held_out(rng)[0] == 0
