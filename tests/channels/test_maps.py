"""Every map: its ranges hold all rows, its epsilons are those of brute force, and a card gives it back."""

import itertools
import json
import math

import numpy as np
import pytest

from domains import any_records, corner_records, domain
from sfumato.attacks.base import KnownNoise
from sfumato.channels import (
    Additive,
    Affine,
    Bit,
    Exact,
    Guided,
    Identity,
    OrMissing,
    RandomizedResponse,
    Recipe,
    Sampled,
    Secret,
    laplace_channels,
)
from sfumato.core.errors import CardError
from sfumato.mechanisms.random_rotation import haar_rotation
from sfumato.noise import Laplace, Normal, StudentT

SHAPE = "nm3"
ENCODING = domain(SHAPE)
WIDTH = ENCODING.width
RNG = np.random.default_rng(0)
MATRIX = RNG.normal(size=(4, WIDTH))
OFFSET = RNG.normal(size=4)
SCALES = np.array([0.5, 1.0, 2.0, 0.7])
ANSWERS = domain("23")
V = np.ascontiguousarray(np.linalg.qr(np.random.default_rng(5).normal(size=(5, 2)))[0])


def rotation(seed=0, encoding=ENCODING):
    rng = np.random.default_rng(seed)
    matrix = haar_rotation(encoding.width, rng)
    return Secret("sha256:0", encoding.width, True, matrix, -matrix @ rng.random(encoding.width))


def projection(seed, components=3):
    matrix = np.random.default_rng(seed).normal(size=(components, WIDTH)) / math.sqrt(components)
    return Secret("sha256:0", components, False, matrix, np.zeros(components))


def laplace(scales, grid=False):
    wide = np.full(len(scales), 50.0)
    return laplace_channels(-wide, wide, np.asarray(scales), exact=grid)


MAPS = [
    (Identity(WIDTH), ENCODING),
    (Affine(MATRIX, OFFSET), ENCODING),
    (Guided(V), ANSWERS),
    *((rotation(seed), ENCODING) for seed in range(5)),
    *((projection(seed), ENCODING) for seed in range(5)),
]


@pytest.mark.parametrize(("made", "encoding"), MAPS, ids=lambda part: getattr(part, "kind", ""))
def test_ranges_hold_every_row(made, encoding):
    low, high = made.ranges(encoding, 1e-9)
    rows = np.vstack([corner_records(encoding), any_records(encoding, np.random.default_rng(1), 2000)])
    if made.kind == "guided":
        rows = corner_records(encoding)
    given = made.apply(rows)
    assert (given >= low - 1e-12).all()
    assert (given <= high + 1e-12).all()


@pytest.mark.parametrize("made", [Affine(MATRIX, OFFSET), Guided(V)], ids=lambda made: made.kind)
def test_public_ranges_are_attained(made):
    encoding = ANSWERS if made.kind == "guided" else ENCODING
    low, high = made.ranges(encoding, 1e-9)
    given = made.apply(corner_records(encoding))
    assert given.min(axis=0) == pytest.approx(low)
    assert given.max(axis=0) == pytest.approx(high)


# -- epsilons ---------------------------------------------------------------------------------------------------------


def brute_force(recipe, outcomes):
    """Largest log-likelihood ratio of any outcome: under records that differ in one column, and under any two."""
    corners = corner_records(recipe.encoding)
    log = recipe.log_likelihood(outcomes, corners)
    with np.errstate(invalid="ignore"):
        ratio = np.nan_to_num((log[:, :, None] - log[:, None, :]).max(axis=0), nan=0.0)
    column = 0.0
    for group in recipe.encoding.groups:
        others = np.delete(corners, np.arange(group.start, group.stop), axis=1)
        same = (others[:, None] == others[None]).all(axis=2)
        column = max(column, float(ratio[same].max()))
    return column, float(ratio.max())


@pytest.mark.parametrize("grid", [False, True])
@pytest.mark.parametrize(
    "made", [Affine(MATRIX, OFFSET), Affine(np.eye(WIDTH)[:4], np.zeros(4))], ids=["mixed", "picks"]
)
def test_an_affine_map_with_laplace_noise_proves_what_brute_force_finds(made, grid):
    """Of Laplace noise, no outcome tells more than one that lies where a record does."""
    recipe = Recipe(ENCODING, made, laplace(SCALES, grid))
    told = recipe.epsilons()
    column, record = brute_force(recipe, made.apply(corner_records(ENCODING)))
    assert told.exact
    assert column <= told.column == pytest.approx(column, rel=1e-6)
    assert record <= told.record == pytest.approx(record, rel=1e-6)
    low, high = made.ranges(ENCODING, 0)
    assert told.component == pytest.approx(float(((high - low) / SCALES).max()), rel=1e-6)


def test_clipping_bounds_what_an_affine_map_can_tell():
    made = Affine(MATRIX, OFFSET)
    low, high = made.ranges(ENCODING, 0)
    middle, half = (low + high) / 2, (high - low) / 8
    recipe = Recipe(ENCODING, made, laplace_channels(middle - half, middle + half, SCALES, exact=True))
    told = recipe.epsilons()
    inside = np.clip(made.apply(corner_records(ENCODING)), middle - half, middle + half)
    column, record = brute_force(recipe, inside)
    assert record <= told.record <= (2 * half / SCALES).sum() * (1 + 1e-9)
    assert column <= told.column
    assert told.record < Recipe(ENCODING, made, laplace(SCALES)).epsilons().record
    assert not told.exact
    assert made.in_the_way(recipe.channels, ENCODING)[-1] == "ranges of the components"


def test_student_noise_behind_an_affine_map_has_an_upper_bound():
    channels = tuple(Additive(StudentT(float(scale), 3.0)) for scale in SCALES)
    recipe = Recipe(ENCODING, Affine(MATRIX, OFFSET), channels)
    told = recipe.epsilons()
    far = np.array(list(itertools.product([-1.0, 0.0, 1.0], repeat=4))) * 3 * SCALES
    outcomes = (recipe.map.apply(corner_records(ENCODING))[:, None] + far[None]).reshape(-1, 4)
    column, record = brute_force(recipe, outcomes)
    assert 0.3 * told.record < record <= told.record
    assert column <= told.column
    assert not told.exact


@pytest.mark.parametrize("grid", [False, True])
def test_no_rotation_exceeds_what_is_told_without_the_key_and_one_attains_it(grid):
    encoding = domain("nn")
    channels = laplace([0.5, 0.5], grid)
    told = Recipe(encoding, Secret("sha256:0", 2, orthogonal=True), channels).epsilons()
    for seed in range(20):
        recipe = Recipe(encoding, rotation(seed, encoding), channels)
        assert recipe.epsilons() == told
        column, record = brute_force(recipe, recipe.map.apply(corner_records(encoding)))
        assert record <= told.record
        assert column <= told.column
    worst = Recipe(encoding, Secret("sha256:0", 2, True, np.eye(2), np.zeros(2)), channels)  # (1, 1) is the longest
    assert brute_force(worst, corner_records(encoding))[1] == pytest.approx(told.record, rel=1e-6)
    assert not told.exact


@pytest.mark.parametrize("link", ["square", "linear"])
@pytest.mark.parametrize("floor", [0.05, 0.3])
def test_guided_bits_prove_what_brute_force_finds(link, floor):
    recipe = Recipe(ANSWERS, Guided(V), (Bit(floor, link),) * 5)
    told = recipe.epsilons()
    bits = np.array(list(itertools.product([0.0, 1.0], repeat=5)))
    column, record = brute_force(recipe, bits)
    assert record <= told.record * (1 + 1e-9)
    assert column <= told.column * (1 + 1e-9)
    assert told.exact
    assert told.record == pytest.approx(record, rel=1e-6)
    assert told.column == pytest.approx(column, rel=1e-6)


def test_columns_of_their_own_add_up():
    channels = (Additive(Laplace(0.5)), OrMissing(Additive(Laplace(0.5)), 0.75), RandomizedResponse(0.5, 3))
    recipe = Recipe(ENCODING, Identity(WIDTH), channels)
    told = recipe.epsilons()
    corners = corner_records(ENCODING)
    column, record = brute_force(recipe, corners)
    assert told.record == pytest.approx(2 + (1 + math.log(3)) + math.log(2))
    assert record == pytest.approx(told.record)
    assert column == pytest.approx(told.column)
    always, (first, _, last) = domain("nn3"), channels
    sampled = Recipe(always, Identity(5), (Sampled(first, 0.5), first, Sampled(last, 0.5)))
    assert sampled.epsilons() == Recipe(always, Identity(5), (first, first, last)).epsilons()


@pytest.mark.parametrize(
    "recipe",
    [
        Recipe(ENCODING, projection(0), laplace([1.0, 1.0, 1.0])),
        Recipe(ENCODING, rotation(), (Exact(),) * WIDTH),
        Recipe(ENCODING, rotation(), (Additive(Normal(1.0)),) * WIDTH),
        Recipe(ENCODING, rotation(), laplace(np.ones(WIDTH - 1))),
        Recipe(ENCODING, Affine(MATRIX, OFFSET), (Exact(),) * 4),
        Recipe(ENCODING, Affine(MATRIX, OFFSET), (*laplace(SCALES)[:3], Additive(Normal(1.0)))),
        Recipe(ENCODING, Affine(MATRIX, OFFSET), laplace(SCALES), "drawn"),
        Recipe(ENCODING, Affine(MATRIX, OFFSET), laplace(SCALES), by_class={0: (Exact(),) * 4}),
        Recipe(ANSWERS, Guided(V), (Bit(0.0, "square"),) * 5),
        Recipe(ANSWERS, Guided(V), (Bit(0.3, "square"),) * 4 + (Bit(0.2, "square"),)),
        Recipe(ANSWERS, Guided(V), (Exact(),) * 5),
    ],
    ids=lambda recipe: f"{recipe.map.kind}-{recipe.channels[-1].tag}",
)
def test_what_has_no_bound_has_none(recipe):
    assert recipe.epsilons().record == math.inf


# -- cards and lines --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("made", "encoding"), MAPS, ids=lambda part: getattr(part, "kind", ""))
def test_a_card_gives_the_recipe_back(made, encoding):
    width = made.apply(corner_records(encoding)).shape[1]
    channels = (Bit(0.2, "square"),) * width if made.kind == "guided" else laplace(np.ones(width), grid=True)
    if made.kind == "identity":
        channels = (Exact(), OrMissing(channels[0], 0.75), RandomizedResponse(0.5, 3))
    recipe = Recipe(encoding, made, tuple(channels), by_class={3: tuple(channels)})
    data, transform = json.loads(json.dumps([recipe.to_dict(), made.to_dict()], allow_nan=False))
    again = Recipe.from_dict(data, transform, encoding)
    assert again.channels == recipe.channels
    assert again.by_class == recipe.by_class
    assert again.map.to_dict() == made.to_dict()
    assert again.epsilons() == recipe.epsilons()
    if made.kind != "secret":
        assert np.array_equal(again.map.apply(corner_records(encoding)), made.apply(corner_records(encoding)))


def test_maps_that_do_not_fit_are_refused():
    matrix = {"kind": "affine", "matrix": MATRIX.tolist(), "offset": OFFSET.tolist()}
    guidance = Guided(V).to_dict()
    four, bits = [{"channel": "exact"}] * 4, [{"channel": "bit", "floor": 0.2, "link": "square"}]
    for transform, channels, encoding in (
        (matrix, four[:3], ENCODING),
        (matrix, four, domain("nnn")),
        ({**matrix, "offset": [0.0]}, four, ENCODING),
        ({**matrix, "matrix": [[math.nan] * WIDTH] * 4}, four, ENCODING),
        (guidance, bits * 4, ANSWERS),
        (
            guidance,
            bits * 5,
            domain("nnnnn"),
        ),  # a number is no answer that never varies
        ({"kind": "identity"}, four, ENCODING),
    ):
        with pytest.raises(CardError, match=r"fit|cannot be"):
            Recipe.from_dict({"rows": "perturbed", "channels": channels}, transform, encoding)


@pytest.mark.parametrize("made", [Affine(MATRIX, OFFSET), rotation()], ids=lambda made: made.kind)
def test_a_line_is_mean_and_covariance_of_many_draws(made):
    rng = np.random.default_rng(2)
    width = len(made.matrix)
    recipe = Recipe(ENCODING, made, laplace(np.linspace(0.2, 0.5, width), grid=True))
    X = any_records(ENCODING, rng, 100_000)
    noise = KnownNoise.of(recipe.channels, made.apply(X))
    matrix, offset = noise.on_average(*made.affine())
    left = recipe.perturb(X, rng) - X @ matrix.T - offset
    assert left.mean(axis=0) == pytest.approx(np.zeros(width), abs=0.02)
    assert np.cov(left.T) == pytest.approx(noise.covariance(), abs=0.015)
    assert np.abs(np.cov(left.T, X.T)[:width, width:]).max() < 0.01
