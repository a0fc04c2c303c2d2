"""papers/results.json: every figure is what its command gives, within its interval; one 30% off is not."""

import importlib
import json
import math
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
KEPT = json.loads((ROOT / "papers" / "results.json").read_text())
PAPERS = {"kernel-resampling", "density-reconstruction", "random-rotation", "principal-laplace", "guided-survey"}
QUICK = (
    "principal-laplace/figure-6",
    "kernel-resampling/table-1 --set iris",
    "principal-laplace/table-2 --set wine",
    "kernel-resampling/table-2 --set iris --repeats 10",
)
"""Commands that need no folder of data."""


@pytest.fixture(scope="module")
def results():
    sys.path.insert(0, str(ROOT))
    return importlib.import_module("papers.results")


def test_all_papers_stand_in_it_with_intervals_and_commands():
    values = KEPT["values"]
    assert KEPT["version"] >= 1
    assert {one["paper"] for one in values} == PAPERS
    both = [one for one in values if one["printed"] is not None]
    assert len(both) >= 60
    for one in values:
        assert one["command"].startswith(f"sfumato figure {one['paper']}/{one['item']}")
        assert one["low"] <= one["reached"] <= one["high"]
        assert math.isfinite(one["high"])


def test_what_is_printed_is_what_the_items_say_and_every_command_is_there(results):
    from sfumato.auditing.figures.item import items

    known = items()
    commands = {f"sfumato figure {one} --seed 1" for one in results.COMMANDS}
    assert commands == {one["command"] for one in KEPT["values"]}
    for one in KEPT["values"]:
        declared = known[f"{one['paper']}/{one['item']}"]
        printed = {**declared.printed.get("", {}), **declared.printed.get(one["set"], {})}
        in_words = {declared.in_words(name): value for name, value in printed.items()}
        assert one["printed"] == in_words.get(one["what"])


@pytest.mark.parametrize("arguments", QUICK)
def test_a_command_gives_what_the_file_says_and_not_a_third_more(results, arguments):
    command, values = results.values_of(arguments)
    kept = {one["what"]: one for one in KEPT["values"] if one["command"] == command}
    assert {one["what"] for one in values} == set(kept)

    def agrees(reached, known):
        slack = max(0.5 * (known["high"] - known["low"]), 1e-4 * abs(known["reached"]))
        return abs(reached - known["reached"]) <= slack

    for one in values:
        assert agrees(one["reached"], kept[one["what"]]), one["what"]
    sharp = [kept[one["what"]] for one in values if kept[one["what"]]["high"] < 1.3 * kept[one["what"]]["low"]]
    assert all(not agrees(1.3 * known["reached"], known) for known in sharp)
    assert sharp or "--repeats" in arguments


def test_ends_of_intervals_are_rounded_outwards(results):
    assert results.significant(0.12345678) == 0.123457
    assert results.significant(0.12345678, down=True) == 0.123456
    assert results.significant(-0.12345678, up=True) == -0.123456
    told = {"item": "a/b", "set": "", "repeats": 4}
    one = results.entry(told, {"what": "x", "printed": 1.0, "reached": 2.0, "standard_error": 0.1}, "c")
    assert one["high"] == pytest.approx(2 + 3.18245 * 0.1, abs=1e-5)  # Student's t, three degrees of freedom


def test_the_citation_can_be_read_and_names_the_five_papers():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert {"cff-version", "message", "title", "authors", "version"} <= set(cited)
    assert {one["notes"] for one in cited["references"]} == PAPERS
    import sfumato

    assert cited["version"] == sfumato.__version__
