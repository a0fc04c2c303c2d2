"""A study that no site could follow is refused before anybody is invited; one that sites can follow is not."""

import copy

import pytest
import yaml
from test_pool_study import POOL, PUBLIC, study
from typer.testing import CliRunner

from sfumato.api.cli import app
from sfumato.core.errors import SchemaError
from sfumato.study.protocol.study_file import WIDEST, rehearse

SPACE = "sha256:" + "0" * 64
EMPIRICAL = "empirical-allowed"


def asked(name, parameters=None, guarantee=EMPIRICAL, **more):
    return study(mechanism={"name": name, "parameters": parameters or {}}, guarantee=guarantee, **more)


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("additive-noise", {}),
        ("additive-noise", {"law": "uniform", "low": -1, "high": 1}),
        ("additive-noise", {"law": "student-t", "scale": 0.5, "df": 3}),
        ("condensation", {"k": 50}),  # more than the rows that it is tried on: a site has others
        ("kernel-resampling", {"kernel": "gaussian", "rows": 10_000_000, "category_mixing": 0.1}),
        ("noisy-operator", {}),
        ("principal-laplace", {"components": 2}),
        ("principal-laplace", {"basis": "january/card.json"}),  # a file that only the sites have
        ("random-projection", {"components": 0.5}),
        ("random-rotation", {"noise": "laplace"}),
    ],
    ids=str,
)
def test_what_sites_can_follow_is_taken(name, parameters):
    rehearse(asked(name, parameters, space=SPACE))


@pytest.mark.parametrize(
    ("name", "parameters", "words"),
    [
        ("additive-noise", {"law": "loud"}, "'law'"),
        ("additive-noise", {"scale": -1}, "'scale'"),
        ("additive-noise", {"scale": "much"}, "'scale'"),
        ("additive-noise", {"scale": [1, 2]}, "'scale'"),
        ("additive-noise", {"law": "uniform", "low": 1, "high": -1}, "low"),
        ("condensation", {"k": 1}, "'k'"),
        ("kernel-resampling", {"bandwidth": -0.1}, "'bandwidth'"),
        ("kernel-resampling", {"rows": 0}, "'rows'"),
        ("kernel-resampling", {"category_mixing": 1.5}, "'category_mixing'"),
        ("multiplicative-noise", {}, "does not protect a 0"),
        ("principal-laplace", {"components": 9}, "'components'"),
        ("principal-laplace", {"basis": [[1.0, 2.0]]}, "'basis'"),
        ("random-projection", {"components": 9}, "'components'"),
        ("random-rotation", {"noise": "thunder"}, "'noise'"),
        ("randomized-response", {}, "categories only"),
    ],
    ids=str,
)
def test_what_no_site_can_follow_is_refused_in_words(name, parameters, words):
    with pytest.raises(SchemaError, match=f"No site could follow.*{words}"):
        rehearse(asked(name, parameters, space=SPACE))


def test_a_guarantee_must_be_within_reach():
    rehearse(asked("additive-noise", {}, {"epsilon_record": 6.0}))
    rehearse(asked("additive-noise", {"scale": 1.0}, {"epsilon_record": 2.0}))  # with categories kept rarely enough
    rehearse(asked("random-rotation", {"noise": "laplace"}, {"epsilon_record": 6.0}, space=SPACE))
    with pytest.raises(SchemaError, match=r"at most 6 .* come to an epsilon of 10"):
        rehearse(asked("additive-noise", {"scale": 0.1}, {"epsilon_record": 6.0}))
    with pytest.raises(SchemaError, match="come to no epsilon at all"):
        rehearse(asked("additive-noise", {"law": "normal", "scale": 9.0}, {"epsilon_record": 6.0}))
    with pytest.raises(SchemaError, match="No scale of normal noise"):
        rehearse(asked("additive-noise", {"law": "normal"}, {"epsilon_record": 6.0}))
    with pytest.raises(SchemaError, match="kernel-resampling gives no proof"):
        rehearse(asked("kernel-resampling", {}, {"epsilon_record": 6.0}))


def test_a_wide_study_is_tried_on_some_of_its_columns():
    numbers = [{"name": f"x{j}", "kind": "numeric", "low": 0, "high": 1, **PUBLIC} for j in range(2 * WIDEST)]
    schema = {"version": 1, "columns": [*numbers, POOL["schema"]["columns"][-1]]}
    rehearse(asked("random-projection", {"components": WIDEST + 1}, schema=schema, space=SPACE))
    for parameters in ({"components": 2 * WIDEST + 1}, {"components": 0}):
        with pytest.raises(SchemaError, match="'components'"):
            rehearse(asked("random-projection", parameters, schema=schema, space=SPACE))
    with pytest.raises(SchemaError, match="'kernel'"):
        rehearse(asked("kernel-resampling", {"kernel": "round"}, schema=schema))
    rehearse(asked("additive-noise", {}, {"epsilon_record": 5e5}, schema=schema))  # and quickly, whatever the width


def test_study_new_refuses_it_and_makes_nothing(tmp_path):
    wrong = copy.deepcopy(POOL) | {"mechanism": {"name": "additive-noise", "parameters": {"scale": -1}}}
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(wrong))
    done = CliRunner().invoke(app, ["study", "new", str(tmp_path / "study.yaml"), "--data", str(tmp_path / "server")])
    assert isinstance(done.exception, SchemaError)
    assert not (tmp_path / "server").exists()
