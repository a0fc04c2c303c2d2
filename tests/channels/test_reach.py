"""How far out a released cell can lie: honest releases stay inside as often as stated, forged cells do not."""

import json
import math
import warnings

import numpy as np
import pytest

from domains import domain
from sfumato.channels import Additive, Identity, Recipe, Sampled
from sfumato.channels.recipe import FALSE_ALARMS, Reach
from sfumato.guarantee import Card
from sfumato.noise import Laplace
from sfumato.noise.law import FURTHEST
from sfumato.release.release import Release
from sfumato.release.sanitize import Options, sanitize
from sfumato.table import Schema

PUBLIC = {"source": "public", "reason": "known"}
NUMBERS = [
    {"name": "a", "kind": "numeric", "low": 10.0, "high": 30.0, **PUBLIC},
    {"name": "b", "kind": "integer", "low": 1, "high": 9, **PUBLIC},
    {"name": "c", "kind": "numeric", "low": 2.0, "high": 3.0, "missing": True, **PUBLIC},
    {"name": "d", "kind": "categorical", "categories": ["x", "y"], **PUBLIC},
]
LABEL = {"name": "y", "kind": "categorical", "role": "label", "categories": ["no", "yes"], **PUBLIC}
CATEGORIES = [{"name": name, "kind": "categorical", "categories": ["u", "v", "w"], **PUBLIC} for name in "efg"]


def table(rows, seed, columns):
    """Values at the ends of their range: noise can carry them furthest."""
    rng = np.random.default_rng(seed)
    found = {"y": rng.choice(["no", "yes"], rows)}
    for column in columns:
        ends = column.get("categories") or [column["low"], column["high"]]
        found[column["name"]] = rng.choice(ends, rows)
    return {name: values.tolist() for name, values in found.items()}


def released(folder, mechanism, rows=300, seed=0, columns=NUMBERS, **parameters):
    schema = Schema.from_dict({"columns": [*columns, LABEL]})
    options = Options(
        unprotected=True, mechanism=mechanism, parameters=parameters, schema=schema, force=True, seed=seed
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sanitize(table(rows, seed, columns), folder / "release", options)
    return Release.open(folder / "release")


EVERY = [
    ("additive-noise", {}),
    ("additive-noise", {"law": "normal"}),
    ("additive-noise", {"law": "uniform"}),
    ("additive-noise", {"law": "epanechnikov"}),
    ("additive-noise", {"law": "uniform", "low": 0.5, "high": 2.0}),
    ("additive-noise", {"law": "student-t", "df": 1.0}),
    ("additive-noise", {"law": "student-t", "df": 60.0}),
    ("multiplicative-noise", {}),
    ("multiplicative-noise", {"law": "normal", "scale": 0.4}),
    ("noisy-operator", {"operator": "quartic", "law": "normal", "scale": 0.3}),
    ("kernel-resampling", {}),
    ("kernel-resampling", {"kernel": "gaussian"}),
    ("condensation", {"k": 5}),
    ("principal-laplace", {}),
    ("principal-laplace", {"component_bounds": "data", "components": 4}),
    ("random-rotation", {}),
    ("random-rotation", {"noise": "normal", "scale": 0.3}),
    ("random-projection", {}),
]


@pytest.mark.parametrize(("mechanism", "parameters"), EVERY, ids=str)
def test_no_honest_cell_is_called_impossible_and_a_forged_one_is(tmp_path, mechanism, parameters):
    release = released(tmp_path, mechanism, **parameters)
    reach = Reach.of(release.card.made_by(), release.card.rows)
    assert reach.outside(release.Z) == []
    assert np.isfinite(reach.low).all()
    assert (reach.low <= reach.high).all()
    heavy = parameters.get("df") == 1.0
    for value in (1e6, -1e6, 1e308, -1e308, math.nan):
        forged = release.Z.copy()
        forged[7, 0] = value
        assert reach.outside(forged) == ([] if heavy else [(7, reach.names[0])])


def test_only_a_sampled_column_may_leave_cells_out():
    encoding = domain("nn")
    channels = Sampled(Additive(Laplace(0.2)), 0.5), Additive(Laplace(0.2))
    recipe = Recipe(encoding, Identity(2), channels)
    Z = recipe.perturb(np.full((50, 2), 0.5), np.random.default_rng(0))
    reach = Reach.of(recipe, 50)
    assert np.isnan(Z[:, 0]).any()
    assert reach.outside(Z) == []
    Z[4, 1], Z[5, 0] = math.nan, 1e6
    assert reach.outside(Z) == [(4, "n1"), (5, "n0")]


def test_bits_are_bits(tmp_path):
    release = released(tmp_path, "guided-projection", columns=CATEGORIES)
    reach = Reach.of(release.card.made_by(), release.card.rows)
    assert reach.outside(release.Z) == []
    forged = release.Z.copy()
    forged[3, 2] = 0.5
    assert reach.outside(forged) == [(3, "c002")]


@pytest.mark.parametrize("law", ["laplace", "normal"])
def test_false_alarms_are_as_rare_as_stated_and_not_much_rarer(tmp_path, law):
    """At 5% of releases, where it can be counted: 2,000 honest ones with every value at an end of its range."""
    columns = NUMBERS[:1]
    recipe = released(tmp_path, "additive-noise", rows=40, columns=columns, law=law, scale=0.7).card.made_by()
    reach, rng = Reach.of(recipe, 40, false_alarms=0.05), np.random.default_rng(1)
    X = rng.integers(0, 2, (2000, 40, 1)).astype(float)
    drawn = recipe.perturb(X.reshape(-1, 1), rng).reshape(X.shape)
    alarms = sum(bool(reach.outside(one)) for one in drawn)
    assert alarms <= 0.05 * 2000 + 3 * math.sqrt(2000 * 0.05 * 0.95)
    assert alarms >= 25  # only the end that a value lies at can be passed: half of 5%, less three standard deviations


def test_the_bound_is_that_of_laplace_noise(tmp_path):
    """P(|e| > t) = exp(-t / b), so t = b log(n / 1e-9)."""
    card = released(tmp_path, "additive-noise", rows=1600, columns=NUMBERS[:2], scale=0.5).card
    reach = Reach.of(card.made_by(), card.rows)
    t = 0.5 * math.log(1600 * 2 / FALSE_ALARMS)
    assert reach.high[0] == pytest.approx(1 + t, rel=1e-5)
    assert reach.low[0] == pytest.approx(-t, rel=1e-5)


def test_heavy_tails_are_not_refused_but_have_an_end(tmp_path):
    card = released(tmp_path, "additive-noise", columns=NUMBERS[:1], law="student-t", df=1.0, scale=0.5).card
    reach = Reach.of(card.made_by(), card.rows)
    assert not reach.checked.any()
    assert reach.high[0] == pytest.approx(1 + FURTHEST * 0.5, rel=1e-5)  # Cauchy's quartile is its scale


def test_an_operator_of_ones_own_has_no_reach_that_others_know(tmp_path):
    data = released(tmp_path, "multiplicative-noise").card.to_dict()
    for channel in data["recipe"]["channels"]:
        if channel["channel"] == "carried":
            channel |= {"operator": "custom", "parameters": {}}
    reach = Reach.of(Card.from_dict(json.loads(json.dumps(data))).made_by(), 300)
    assert np.isinf(reach.high[0])
