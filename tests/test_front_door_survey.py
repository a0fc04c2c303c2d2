"""Surveys through the front door: plan, measure, edges, for data frames and for files."""

import numpy as np
import pandas as pd
import pytest
import yaml

import sfumato as sf
from sfumato.core.errors import SchemaError, UsageError

SURVEY = {
    "kind": "survey",
    "name": "Nights",
    "by": "Example University",
    "questions": [{"name": f"q{n}", "kind": "yesno"} for n in range(5)] + [{"name": "age", "kind": "number"}],
    "label": {"name": "tired", "kind": "yesno"},
    "floor": 0.1,
}


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(0)
    tired = rng.random(600) < 0.5
    told = {
        f"q{n}": np.where(rng.random(600) < share, tired, ~tired) for n, share in enumerate((0.9, 0.8, 0.7, 0.5, 0.5))
    }
    words = {name: np.where(column, "yes", "no") for name, column in {**told, "tired": tired}.items()}
    return pd.DataFrame({**words, "age": rng.integers(20, 80, 600)})


@pytest.fixture(scope="module")
def survey(people, tmp_path_factory):
    edges = sf.survey_edges(people, ["age"])
    file = tmp_path_factory.mktemp("survey") / "survey.yaml"
    asked = [
        question if question["name"] != "age" else {**question, "edges": list(edges["age"])}
        for question in SURVEY["questions"]
    ]
    file.write_text(yaml.safe_dump({**SURVEY, "questions": asked}))
    return file


def test_a_plan_for_people_of_a_frame(people, survey):
    plan = sf.plan_survey(
        survey, 0.8, population=people, floors=[0.1], classifier="id3", limits="0/0/100", whole_tuple=0.9
    )
    assert plan.needed(0.1) is not None
    (kind,) = plan.cases[-1].kinds
    assert (kind.name, kind.sent) == ("marginally concerned", 1)
    assert plan.whole_tuple["theta"] == 0.9
    assert sf.plan_survey(str(survey), 0.6, floors=[0.1], informative=4, strength=0.9).plain > 0.8, "assumed people"


def test_both_degrees_of_a_survey(people, survey):
    found = sf.measure_survey(survey, people)
    assert found.honest.bits <= found.most.bits <= found.anybody_bits + 1e-9
    assert found.error.exact
    assert any("Definition 2" in sentence for sentence in found.sentences())


def test_mistakes_are_named(people, tmp_path):
    with pytest.raises(UsageError, match="no survey file"):
        sf.measure_survey(tmp_path / "none.yaml", people)
    other = tmp_path / "pool.yaml"
    other.write_text("kind: nothing\n")
    with pytest.raises(SchemaError):
        sf.plan_survey(other, 0.8)
