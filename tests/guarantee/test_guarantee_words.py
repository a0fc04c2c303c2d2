"""What the guarantee says, at which level, and on what condition."""

import json
import math
import warnings

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sfumato as sf
from domains import steady
from sfumato.guarantee import EMPIRICAL, LOCAL_DP, Guarantee, ThreatModel, posterior_bound
from sfumato.guarantee.guarantee import PRIORS, learned_domain
from sfumato.guarantee.words import card_in_words

figures = st.floats(1e-6, 900) | st.just(math.inf)
sentences = st.lists(st.text(max_size=30), max_size=3).map(tuple)


@st.composite
def guarantees(draw):
    component = draw(figures)
    column = component if math.isinf(component) else component * draw(st.floats(1, 3))
    record = column if math.isinf(column) else column * draw(st.floats(1, 9))
    found = Guarantee(
        component,
        column,
        record,
        exact=draw(st.booleans()),
        assumptions=draw(sentences),
        sentence=draw(st.text(max_size=30)),
    )
    if draw(st.booleans()):
        found = found.with_label(draw(st.floats(1e-3, 9)))
    if draw(st.booleans()):
        found = found.with_persons(draw(st.integers(1, 50) | st.none()), learned=draw(st.booleans()))
    return found.hindered(draw(sentences))


@given(guarantees())
@steady(200)
def test_json_gives_back_the_same_guarantee(guarantee):
    data = json.loads(json.dumps(guarantee.to_dict(), allow_nan=False))
    back = Guarantee.from_dict(data)
    assert back.kind == guarantee.kind == data["kind"]
    assert back.record == guarantee.record
    assert back.person == guarantee.person
    assert back.in_words() == guarantee.in_words() == data["words"]
    if math.isfinite(guarantee.record):
        assert back == guarantee


@given(guarantees())
@steady(200)
def test_formal_only_if_finite_and_nothing_stands_in_the_way(guarantee):
    data = guarantee.to_dict()
    formal = math.isfinite(guarantee.record) and not guarantee.in_the_way
    assert (data["kind"] == LOCAL_DP) == formal
    if formal:
        assert data["epsilon_record"] == guarantee.record
        assert data["conditional_epsilon"] is None
    else:
        assert data["epsilon_record"] is data["epsilon_column"] is data["epsilon_person"] is None
        assert data["amplification_record"] is None
        conditional = data["conditional_epsilon"]
        assert (conditional is None) == math.isinf(guarantee.record)
        assert conditional is None or conditional["record"] == guarantee.record


@given(guarantees())
@steady(200)
def test_the_word_anonymous_is_never_used(guarantee):
    words = json.dumps([guarantee.to_dict(), ThreatModel.of(label="exact", rows="5", learned_bounds=True).to_dict()])
    for text in (*guarantee.assumptions, *guarantee.in_the_way, guarantee.sentence):
        words = words.replace(json.dumps(text)[1:-1], "") if text.strip() else words
    assert "anonym" not in words.lower()


def test_beyond_one_half_the_words_are_practically_unprotected():
    threshold = math.log(999)
    assert "unprotected" not in Guarantee(1, 1, threshold * 0.999).in_words()
    words = Guarantee(1, 1, threshold * 1.001).in_words()
    assert words.startswith("Practically unprotected, formally bounded: epsilon 6.92.")


def test_certainty_is_never_rounded_up():
    words = Guarantee(1, 1, 85.0, exact=False).in_words()
    assert "from 1 in 2 to nearly 10 in 10 and" in words
    assert "10 in 10" not in words.replace("nearly 10 in 10", "")
    assert "at most 9.9 in 10" in Guarantee(1, 1, 4.5).in_words()


def test_what_was_learned_makes_the_figure_conditional():
    formal = Guarantee(1.0, 2.0, 3.0)
    learned = formal.hindered([learned_domain("age"), "basis of principal components"])
    assert formal.kind == LOCAL_DP
    assert learned.kind == EMPIRICAL
    assert learned.in_words().startswith(
        "Nothing is proved, because the range of column 'age' was read off your table, and because these stand in the "
        "way, in the release's own words: basis of principal components. Without that it would be epsilon 3 for values."
    )
    many = formal.hindered([learned_domain(f"c{i}") for i in range(30)])
    assert many.in_words().startswith("Nothing is proved, because the ranges of 30 columns were read off your table.")
    assert len(many.in_the_way) == 30
    assert many.hindered(many.in_the_way) == many


def test_no_proof_no_figure():
    none = Guarantee.none("Known rows undo it.")
    data = none.to_dict()
    assert none.kind == EMPIRICAL
    assert data["epsilon_component"] is data["epsilon_record"] is data["conditional_epsilon"] is None
    assert data["posteriors"] == []
    assert none.in_words() == (
        "Nothing is proved, because what can be learned about a record has no bound. "
        'The release\'s own words: "Known rows undo it."'
    )


def test_a_private_label_is_one_more_column_of_the_record():
    found = Guarantee(1.0, 1.5, 4.0).with_label(2.0)
    assert (found.component, found.column, found.record) == (2.0, 2.0, 6.0)
    assert found.label_epsilon == 2.0
    assert Guarantee.none("").with_label(2.0).record == math.inf


def test_rows_of_one_person_add_up():
    """Composition: label and persons in either order of thought give (record + label) times the rows."""
    found = Guarantee(1.0, 1.5, 4.0).with_label(0.5).with_persons(3, learned=False)
    assert found.person == pytest.approx(13.5)
    assert found.kind == LOCAL_DP
    assert "a person's 3 rows together can lift" in found.in_words()
    assert "(epsilon 13.5 for values, up to 3 rows each). One row alone: epsilon 4.5 for values." in found.in_words()
    counted = Guarantee(1.0, 1.5, 4.0).with_persons(3, learned=True)
    assert counted.kind == EMPIRICAL
    assert "the largest number of rows of one person" in counted.in_the_way
    unlimited = Guarantee(1.0, 1.5, 4.0).with_persons(None, learned=False)
    assert unlimited.person == math.inf
    assert unlimited.to_dict()["epsilon_person"] is None


@given(st.floats(0, 60))
@steady(50)
def test_posteriors_are_those_of_the_record(record):
    rows = Guarantee(record, record, record).posteriors()
    assert [row["prior"] for row in rows] == list(PRIORS)
    for row in rows:
        assert row["at_most"] == posterior_bound(row["prior"], record)
        assert row["at_least"] == posterior_bound(row["prior"], record, downward=True)


@pytest.mark.parametrize("label", ["exact", "randomized", "none"])
def test_the_threat_model_says_what_is_not_protected(label):
    model = ThreatModel.of(label=label, rows="12", learned_bounds=True, mechanism=("Own sentence.",))
    words = " ".join(model.not_protected)
    assert "That a person is in the table is not hidden" in words
    assert ("column to predict is released exactly" in words) == (label == "exact")
    assert "12" in words
    assert "Own sentence." in words


def test_columns_with_noise_of_their_own_are_named():
    frame = pd.DataFrame({"age": [40, 50] * 25, "bmi": [22, 25] * 25, "ill": ["no", "yes"] * 25})
    columns = {"bmi": {"law": "normal", "scale": 0.5}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sf.PrivacyLeakWarning)
        release = sf.sanitize(frame, label="ill", mechanism="additive-noise", columns=columns, seed=1)
    shown = card_in_words(release.card)
    assert "Columns with noise of their own: bmi (law=normal, scale=0.5).\n" in shown
