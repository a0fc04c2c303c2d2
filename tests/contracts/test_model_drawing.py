"""Every mechanism that draws rows from a noisy model keeps this contract, found by discovery."""

import json

import numpy as np
import pytest
from sklearn.base import clone

from domains import any_records, domain
from sfumato.core.errors import SchemaError
from sfumato.guarantee import CENTRAL_DP, Card
from sfumato.guarantee.card import recomputed
from sfumato.mechanisms import MECHANISMS
from sfumato.noise import Streams
from sfumato.release.write_release import Layout, make_card

DRAWN = [mechanism for mechanism in MECHANISMS.values() if mechanism.made_up]
SHAPE = "nm3oi?"


def rows(count=400, seed=0, **source):
    encoding = domain(SHAPE, **source)
    rng = np.random.default_rng(seed)
    return encoding, any_records(encoding, rng, count), rng.integers(2, size=count)


def fitted(mechanism, X, y, encoding, blocks=1, seed=0):
    fit = mechanism() if isinstance(mechanism, type) else clone(mechanism)
    fit.start(encoding, Streams.seeded(seed).generator(0), labelled=y is not None)
    while fit.needs_counts:
        parts = [
            fit.count(part, None if y is None else codes)
            for part, codes in zip(
                np.array_split(X, blocks), np.array_split(np.zeros(len(X)) if y is None else y, blocks), strict=True
            )
        ]
        fit.measure(sum(parts[1:], parts[0]))
    return fit


@pytest.fixture(params=DRAWN, ids=lambda mechanism: mechanism.name)
def mechanism(request):
    return request.param


@pytest.mark.parametrize("labelled", [True, False])
def test_blocks_fit_like_one_pass_and_draw_the_same_rows(mechanism, labelled):
    encoding, X, y = rows()
    y = y if labelled and encoding.classes else None
    whole, parts = (fitted(mechanism, X, y, encoding, blocks) for blocks in (1, 5))
    assert whole.recipe_.to_dict() == parts.recipe_.to_dict()
    one, other = (fit.draw_rows(300, Streams.seeded(1).generator(0)) for fit in (whole, parts))
    np.testing.assert_array_equal(one.X, other.X)
    assert (one.source == -1).all()
    assert one.X.min() >= 0
    assert one.X.max() <= 1
    whole.recipe_.check_gaps(one.X)


def test_other_noise_gives_another_model(mechanism):
    encoding, X, _ = rows()
    drawn = [
        fitted(mechanism, X, None, encoding, seed=seed).draw_rows(50, Streams.seeded(9).generator(0)).X
        for seed in (1, 2)
    ]
    assert not np.array_equal(*drawn)


def test_the_claim_is_central_never_above_the_plan_and_recomputed_from_the_card(mechanism):
    encoding, X, _ = rows()
    fit = fitted(mechanism, X, None, encoding)
    stated = fit.guarantee()
    assert stated.kind == CENTRAL_DP
    assert stated.central.epsilon <= fit.planned.epsilon
    assert stated.central.rho <= fit.planned.rho
    card = make_card(Layout(fit, encoding), stated, rows=fit.released(len(X)), labelled=False)
    found = recomputed(Card.from_dict(json.loads(card.to_json())))
    assert (found.kind, found.central) == (stated.kind, stated.central)
    assert card.papers
    assert card.threat_model["not_protected"]


def test_what_was_learned_is_refused(mechanism):
    encoding, X, _ = rows(source="learned", reason=None)
    with pytest.raises(SchemaError, match="public bounds"):
        fitted(mechanism, X, None, encoding)


def test_it_is_an_estimator_with_a_story(mechanism):
    fit = mechanism()
    assert clone(fit).get_params() == fit.get_params()
    assert len(mechanism.__doc__.split()) > 40
    encoding, X, _ = rows()
    fit.fit(X, encoding=encoding)
    assert all(name.endswith("_") or name in fit.get_params() for name in vars(fit))
