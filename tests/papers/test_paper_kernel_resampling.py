"""The fast part of kernel-resampling: its figures lie where the paper and an independent implementation put them."""

import json
import re

import numpy as np
import pytest
from papers.data import load

from papers import figures


@pytest.fixture(scope="module")
def fast(tmp_path_factory, run_fast):
    """The folder, the printed text and all figures of one fast run."""
    out = tmp_path_factory.mktemp("kernel-resampling")
    printed = run_fast("kernel-resampling", out).stdout
    return out, printed, json.loads((out / "results.json").read_text())


def over_seeds(fast, setting, key):
    return np.array(fast[2]["sites|iris|(0, 6)"][setting][key])


@pytest.mark.parametrize(("classifier", "reached"), [("ann", 0.035), ("knn", 0.041), ("nb", 0.085)])
def test_errors_with_original_rows(fast, classifier, reached):
    """Six splits of 30 test rows: a standard error of about .012."""
    assert over_seeds(fast, "original", classifier).mean() == pytest.approx(reached, abs=0.03)


@pytest.mark.parametrize("classifier", ["ann", "knn", "nb"])
@pytest.mark.parametrize("sites", [1, 2, 3, 4, 8])
def test_little_is_lost_with_the_published_bandwidth(fast, classifier, sites):
    gap = over_seeds(fast, f"published|{sites}", classifier) - over_seeds(fast, "original", classifier)
    assert gap.mean() < 0.03 + 3 * gap.std(ddof=1) / np.sqrt(6)
    assert gap.mean() < 0.07


def test_the_right_bandwidth_hides_more(fast):
    for sites in (1, 2, 3, 4, 8):
        published, scaled = (over_seeds(fast, f"{rule}|{sites}", "hits").mean() for rule in ("published", "scaled"))
        assert 0.3 < published < 0.7
        assert scaled < 0.55 * published
        wide, narrow = (over_seeds(fast, f"{rule}|{sites}", "h").mean() for rule in ("scaled", "published"))
        assert wide / narrow == pytest.approx(2.181, abs=0.001)  # the factor for four columns
    assert over_seeds(fast, "published|1", "hits").mean() > over_seeds(fast, "published|8", "hits").mean()


def test_intervals_are_certain(fast):
    for rule in ("published", "scaled"):
        assert (over_seeds(fast, f"{rule}|4", "holds") == 1).all()
        assert over_seeds(fast, f"{rule}|4", "never").mean() == pytest.approx(np.exp(-1), abs=0.05)


def test_dapl_is_nothing_at_one_site_by_construction_and_rises(fast):
    found = fast[2]["density|iris|2"]
    for code in (0, 1):
        assert max(found[f"published|1|{code}|pooled"]) == 0
        assert np.mean(found[f"published|1|{code}|apart"]) > 0.3
        rising = [np.mean(found[f"published|{sites}|{code}|pooled"]) for sites in (1, 2, 4, 8)]
        assert rising == sorted(rising)
        assert np.mean(found[f"scaled|4|{code}|apart"]) < np.mean(found[f"published|4|{code}|apart"])


def test_dapl_and_source_hits_fall_with_the_number_of_rows(fast):
    found = fast[2]["against_rows|2|(50, 1000)"]
    for key in ("dapl", "hits"):
        few, many = (np.mean(found[f"published|{n}|{key}"]) for n in (50, 1000))
        assert many < 0.7 * few
        assert many > 0.02


def test_the_lemmas_hold_for_rotations(fast):
    found = fast[2]["lemmas|iris|20"]
    assert min(found["rows, rotation|holds"]) == 1
    assert min(found["rows, rotation|value holds"]) == 1
    assert 0.05 < np.mean(found["records, K = 1 N|reached"]) < 1


def test_results_have_all_parts_and_are_what_was_printed(fast):
    out, printed, _ = fast
    text = (out / "RESULTS.md").read_text()
    assert printed.strip() == text.strip()
    for part in ("The paper's sentences", "Table 1", "Table 2", "Figs 3-7 (a)", "Figs 3-7 (b)", "Beyond the paper"):
        assert f"## {part}" in text
    assert re.search(r"\| Iris \| 2 \| 4 \| 120 \| 30 \|", text)
    assert re.search(r"\| Iris \| 0\.0352 / 0\.0\d", text)
    assert "nan" not in text


def test_a_second_run_does_nothing_again(fast, run_fast):
    again = run_fast("kernel-resampling", fast[0])
    assert "[1/" not in again.stderr
    assert again.stdout == fast[1]


def test_figures_are_drawn(fast, tmp_path, modules_of):
    with modules_of("kernel-resampling", "plots", "tasks") as own:
        found = {task: fast[2][task.key] for task in own.tasks.all_tasks(True)}
        paths = figures.write_figures(own.plots.figures(own.tasks.Results(found, {}, {})), tmp_path)
    assert {path.stem for path in paths} == {"fig2", "fig3", "against-rows"}
    assert all("<svg" in path.read_text() for path in paths)


def test_the_data_are_the_papers(data_folder):
    shapes = {name: load(name, folder=data_folder).X.shape for name in ("svmguide1_train", "breast_cancer_libsvm")}
    assert shapes == {"svmguide1_train": (3089, 4), "breast_cancer_libsvm": (683, 10)}
