"""The survey's perturbation on a table: what it learns, what it proves, and that its card says how to read it."""

import json
import math

import numpy as np
import pytest

from domains import any_records, corner_records, domain
from sfumato.channels.guidance.guidance import (
    Guidance,
    GuidanceError,
    SurveyCounts,
    SurveyRules,
    decode_matrix,
    encode_matrix,
)
from sfumato.core.errors import SchemaError, UsageError
from sfumato.guarantee import EMPIRICAL, LOCAL_DP, Card
from sfumato.mechanisms import GuidedProjection
from sfumato.release.write_release import Layout, make_card

ENCODING = domain("2322")


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = any_records(ENCODING, rng, 400)
    return X, (X[:, 1] > 0.5).astype(int)


def orthonormal(k=2):
    return np.ascontiguousarray(np.linalg.qr(np.random.default_rng(1).normal(size=(9, k)))[0])


def test_it_learns_the_guidance_of_its_rows_and_says_so(table):
    X, y = table
    fit = GuidedProjection(floor=0.1).fit(X, y, encoding=ENCODING)
    assert np.allclose(fit.V_, Guidance.from_counts(SurveyCounts.of(X, y), SurveyRules(floor=0.0)).V, atol=1e-12)
    assert fit.guarantee().kind == EMPIRICAL
    assert "guidance" in fit.guarantee().in_words()
    assert math.isfinite(fit.guarantee().record)
    bits = fit.perturb(X, y, np.random.default_rng(3)).X
    assert set(np.unique(bits)) == {0.0, 1.0}


def test_given_guidance_and_a_floor_are_proved_and_nothing_is_without_a_floor(table):
    X, y = table
    V = orthonormal()
    proved = GuidedProjection(encode_matrix(V), guidance_reason="drawn by lot").fit(X, y, encoding=ENCODING)
    assert np.array_equal(proved.V_, V)
    assert not proved.needs_statistics
    assert proved.guarantee().kind == LOCAL_DP
    assert proved.guarantee().exact
    assert GuidedProjection(encode_matrix(V)).fit(X, y, encoding=ENCODING).guarantee().kind == EMPIRICAL
    published = GuidedProjection(encode_matrix(V), floor=0.0).fit(X, y, encoding=ENCODING)
    assert published.guarantee().kind == EMPIRICAL
    assert published.guarantee().record == math.inf


def test_no_event_is_likelier_under_another_answer_than_stated():
    """Frequencies of bits under all answers: the worst pair has the stated epsilon, and not one 25% off."""
    fit = GuidedProjection(encode_matrix(orthonormal()), floor=0.35).fit(np.eye(9)[:1], encoding=ENCODING)
    every = corner_records(ENCODING)
    rng = np.random.default_rng(2)
    seen = np.array([fit.perturb(np.tile(t, (3000, 1)), None, rng).X.mean(axis=0) for t in every])
    one, other = seen[:, None], seen[None]
    ratio = np.maximum(np.log(one / other), np.log((1 - one) / (1 - other))).sum(axis=2).max()
    assert 0.8 * fit.guarantee().record < ratio < 1.25 * fit.guarantee().record


def test_the_card_tells_everything_that_bayes_rule_needs(table):
    X, y = table
    fit = GuidedProjection(link="linear").fit(X, y, encoding=ENCODING)
    card = Card.from_dict(json.loads(make_card(Layout(fit, ENCODING), fit.guarantee(), rows=400).to_json()))
    told = card.transform
    assert np.array_equal(decode_matrix(told["guidance"], 9, told["k"]), fit.V_)
    assert {(one["floor"], one["link"]) for one in card.recipe["channels"]} == {(0.25, "linear")}
    assert card.made_by().map.affine() is None
    bits, rows = fit.perturb(X[:5], y[:5], np.random.default_rng(1)).X, corner_records(ENCODING)
    assert np.array_equal(card.made_by().log_likelihood(bits, rows), fit.recipe_.log_likelihood(bits, rows))
    assert card.mechanism["parameters"]["guidance"] == "learned"


def test_wrong_tables_and_guidance_are_refused(table):
    X, y = table
    with pytest.raises(SchemaError, match="public `edges`"):
        GuidedProjection().fit(np.full((4, 1), 0.5), [0, 1, 0, 1], encoding=domain("n"))
    with pytest.raises(UsageError, match="label"):
        GuidedProjection().fit(X, encoding=ENCODING)
    for text, error in (("!", UsageError), ("", UsageError), (encode_matrix(orthonormal()[:8]), UsageError)):
        with pytest.raises(error):
            GuidedProjection(text).fit(X, y, encoding=ENCODING)
    with pytest.raises(GuidanceError, match="orthonormal"):
        GuidedProjection(encode_matrix(2 * orthonormal())).fit(X, y, encoding=ENCODING)
