"""Channels that stand on an edited card: every wrong word in every place is refused, and nothing else happens."""

import copy
import math

import numpy as np
import pytest
from channel_examples import EXAMPLES, FACTOR

from sfumato.channels import Additive, Exact, NotApplicableError, OrMissing, Sampled
from sfumato.channels.base import Channel
from sfumato.core.errors import CardError
from sfumato.noise import make_law

named = pytest.mark.parametrize("channel", EXAMPLES, ids=str)
WRONG = ["x", None, [], {}, math.nan, math.inf, -math.inf, 10**400, -(10**400), True]


def places_in(data, way=()):
    for name, value in data.items():
        yield (*way, name)
        if isinstance(value, dict):
            yield from places_in(value, (*way, name))


@named
def test_forged_channels_are_refused(channel):
    honest = channel.to_dict()
    for *way, last in places_in(honest):
        for wrong in WRONG:
            forged = copy.deepcopy(honest)
            inside = forged
            for step in way:
                inside = inside[step]
            if wrong == {} and inside[last] in ({}, True):
                continue
            if (last == "anywhere" and wrong is True) or (last == "parameters" and wrong == {}):
                continue
            inside[last] = wrong
            with pytest.raises(CardError, match="was edited"):
                Channel.from_dict(forged)
    with pytest.raises(CardError, match="was edited"):
        Channel.from_dict({**honest, "epsilon": 0.1})
    for data in (None, [], "additive", 5, {}, {"channel": ["exact"]}, {**honest, "channel": "magic"}):
        with pytest.raises(CardError, match="does not exist"):
            Channel.from_dict(data)


@pytest.mark.parametrize(
    "forged",
    [
        {"channel": "exact", "columns": 0},
        {"channel": "exact", "columns": 1.5},
        {"channel": "unstated", "columns": 1, "low": 1.0, "high": 0.0},
        {"channel": "additive", "noise": {"law": "laplace", "scale": 1.0}, "low": 1.0, "high": 0.0},
        {"channel": "additive", "noise": {"law": "laplace", "scale": 1.0}, "grid": 0.3},
        {"channel": "additive", "noise": {"law": "laplace", "scale": 1.0}, "grid": 2.0},
        {"channel": "additive", "noise": {"law": "laplace", "scale": 1.0}, "grid": 2.0**-60},
        {"channel": "additive", "noise": {"law": "laplace", "scale": 1.0}, "grid": 5e-324},
        {"channel": "additive", "noise": {"law": "laplace", "scale": 1.0}, "grid": -0.5},
        {"channel": "additive", "noise": {"law": "normal", "scale": 1.0}, "grid": 0.5},
        {"channel": "carried", "operator": "cubic", "parameters": {}, "noise": {"law": "normal", "scale": 1.0}},
        {"channel": "randomized-response", "keep": 0.0, "categories": 3},
        {"channel": "randomized-response", "keep": 1.5, "categories": 3},
        {"channel": "randomized-response", "keep": 0.5, "categories": 0},
        {"channel": "or-missing", "value": {"channel": "exact", "columns": 2}, "keep": 0.5},
        {"channel": "sampled", "inner": {"channel": "exact"}, "rate": 0.0},
        {"channel": "sampled", "inner": {"channel": "exact"}, "rate": 1.1},
        {"channel": "sampled", "inner": {"channel": "sampled", "inner": {"channel": "exact"}, "rate": 0.5}, "rate": 1},
        {"channel": "bit", "floor": 0.6, "link": "square"},
        {"channel": "bit", "floor": 0.1, "link": "cubic"},
    ],
    ids=str,
)
def test_channels_that_cannot_be_are_refused(forged):
    with pytest.raises(CardError, match="is impossible"):
        Channel.from_dict(forged)


def test_a_card_names_no_file_of_whoever_reads_it(tmp_path):
    table = tmp_path / "law.csv"
    table.write_text("-1,0\n0,1\n1,0\n")
    forged = {"channel": "additive", "noise": {"law": f"table:{table}"}}
    with pytest.raises(CardError, match="is impossible"):
        Channel.from_dict(forged)
    own = Additive(make_law(f"table:{table}"))  # an owner's own file is read, and its densities are stated
    assert Channel.from_dict(own.to_dict()) == own


def test_a_channel_in_a_thousand_others_is_refused():
    deep = Exact().to_dict()
    for _ in range(5000):
        deep = {"channel": "or-missing", "value": deep, "keep": 0.5}
    with pytest.raises(CardError, match="is impossible"):
        Channel.from_dict(deep)


def test_what_was_carried_by_an_own_operator_needs_it():
    own = FACTOR.noise.operator
    told = {**FACTOR.to_dict(), "operator": "custom", "parameters": {}}
    for channel in (
        Channel.from_dict(told),
        Sampled(Channel.from_dict(told), 0.5),
        OrMissing(Channel.from_dict(told), 0.5),
    ):
        assert not channel.is_stated
        with pytest.raises(NotApplicableError, match="owner's own"):
            channel.log_likelihood(np.zeros((1, channel.width)), np.zeros((1, channel.width)))
        assert channel.knowing(type(own)("custom", own.forward, own.branches)).is_stated
