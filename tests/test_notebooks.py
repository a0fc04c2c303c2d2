"""The notebooks run from top to bottom, carry no outputs, and show what their words say.

The owner's takes longer: tests/system/test_owner_notebook.py.
"""

import json
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[1] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


@pytest.fixture(autouse=True)
def _apart(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def run(name):
    """The names that the code cells leave behind, run in order as Jupyter would."""
    names = {"__name__": "__main__"}
    for number, cell in enumerate(json.loads((FOLDER / f"{name}.ipynb").read_text(encoding="utf-8"))["cells"]):
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), f"{name}.ipynb, cell {number}", "exec"), names)
    return names


def test_the_analyst_beats_the_commonest_class_and_finds_the_ages():
    found = run("analyst")
    assert found["found"].error < found["found"].commonest - 0.2, "measured: 0.14 against 0.47"
    assert abs(found["ages"].mean - 54.5) < 4


def test_the_pool_learns_at_least_as_well_as_a_site_alone():
    found = run("consortium")
    alone = [one.error for one in found["alone"].values()]
    assert found["pooled"].error < sum(alone) / len(alone) + 0.02, "within noise of the best, never far above"
    assert found["pooled"].error < found["pooled"].commonest - 0.2


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_is_a_notebook_without_outputs(path):
    notebook = json.loads(path.read_text(encoding="utf-8"))
    assert (notebook["nbformat"], len(notebook["metadata"])) == (4, 2)
    assert len({cell["id"] for cell in notebook["cells"]}) == len(notebook["cells"])
    for cell in notebook["cells"]:
        assert cell["cell_type"] in {"markdown", "code"}
        assert cell.get("outputs", []) == []
        assert cell.get("execution_count") is None
