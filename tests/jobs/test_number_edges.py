"""Edges from an earlier table: quantiles, or where the classes change; then guided-projection takes numbers."""

import numpy as np
import pyarrow as pa
import pytest
from typer.testing import CliRunner

import sfumato as sf
from sfumato.api.cli import app
from sfumato.core.errors import PrivacyLeakWarning, SchemaError, TableError, UsageError
from sfumato.study.survey_plan import cut_schema, cut_survey, survey_edges
from sfumato.table import Column, Schema, write_table


@pytest.fixture(scope="module")
def people():
    """The paper's F1: a class of people below 40 and from 60 on."""
    rng = np.random.default_rng(0)
    age = rng.uniform(20, 80, 3000)
    inside = (age < 40) | (age >= 60)
    return pa.table({"age": age, "hours": rng.integers(0, 60, 3000), "ill": np.where(inside, "yes", "no")})


def test_quartiles_are_those_of_the_table_rounded(people):
    found = survey_edges(people)
    assert list(found) == ["age", "hours"]
    assert np.array(found["age"]) == pytest.approx(np.quantile(people["age"], [0.25, 0.5, 0.75]), rel=0.005)
    assert all(float(f"{edge:.3g}") == edge for edge in found["age"])


def test_edges_by_class_lie_where_the_classes_change(people):
    found = survey_edges(people, ["age"], by="class", label="ill", parts=8)["age"]
    assert found == pytest.approx((40, 60), abs=0.2)
    assert len(survey_edges(people, ["hours"], by="class", label="ill")["hours"]) == 1, "nothing to see: the median"


def test_guided_projection_takes_numbers_that_are_cut(people):
    """By class everything can be learned, with quartiles at most 83% (the paper's claim of 100% cannot be)."""
    known = {"source": "public", "reason": "the questionnaire"}
    schema = Schema(
        (
            Column("age", "numeric", low=0, high=120, **known),
            Column("hours", "integer", low=0, high=168, **known),
            Column("ill", "categorical", role="label", categories=("no", "yes"), **known),
        )
    )
    accuracy = {}
    for by in ("quantiles", "class"):
        edges = survey_edges(people, by=by, label="ill")
        cut = cut_schema(schema, edges, "an earlier study of other people")
        assert not cut.learned
        release = sf.sanitize(people, schema=cut, mechanism="guided-projection", parameters={"floor": 0.1}, seed=1)
        model = sf.train(release, classifier="id3")
        accuracy[by] = 1 - sf.evaluate(model, people).error
    assert accuracy["class"] > 0.97
    assert accuracy["quantiles"] < 0.86


def test_edges_without_a_reason_are_learned():
    schema = Schema((Column("age", "numeric", low=0, high=120, source="public", reason="ages"),))
    assert cut_schema(schema, {"age": (30,)}).learned == ("age",)


def test_a_survey_gets_its_edges():
    file = {"name": "s", "questions": [{"name": "age", "kind": "number"}, {"name": "smokes", "kind": "yesno"}]}
    cut = cut_survey(file, {"age": (30.0, 60.0)})
    assert cut["questions"][0] == {"name": "age", "kind": "number", "edges": [30.0, 60.0]}
    assert cut["questions"][1] == file["questions"][1]
    with pytest.raises(SchemaError, match="'agee'"):
        cut_survey(file, {"agee": (1.0,)})


def test_mistakes_are_named(people):
    for words, error, settings in (
        ("no column", SchemaError, {"columns": ["agee"]}),
        ("--label", UsageError, {"by": "class"}),
        ("quantiles or class", UsageError, {"by": "hand"}),
        ("at least 2", UsageError, {"parts": 1}),
    ):
        with pytest.raises(error, match=words):
            survey_edges(people, **settings)
    with pytest.raises(TableError, match="fewer than 20"):
        survey_edges(people.slice(0, 10))
    with pytest.raises(TableError, match="cannot be cut"):
        survey_edges(pa.table({"year": np.arange(2_000_000, 2_000_100)}))


def test_a_label_written_as_a_number_is_not_cut(tmp_path):
    rows = pa.table({"age": np.arange(100) % 50, "ill": np.arange(100) % 2})
    write_table(rows, tmp_path / "earlier.csv")
    with pytest.warns(PrivacyLeakWarning):
        Schema.infer(rows, label="ill").save(tmp_path / "schema.yaml")
    arguments = ["survey", "edges", "earlier.csv", "--schema", "schema.yaml", "--out", "cut.yaml"]
    done = CliRunner().invoke(app, [word if "." not in word else str(tmp_path / word) for word in arguments])
    assert done.exit_code == 0, done.output
    assert Schema.load(tmp_path / "cut.yaml")["age"].kind == "categorical"
