"""Bases that owe nothing to the rows: the same everywhere, orthonormal, and recognised by whoever reads the card."""

import hashlib
import json
import warnings

import numpy as np
import pyarrow as pa
import pytest
from scipy.fft import dct
from scipy.stats import poisson

from domains import PUBLIC, any_records, domain
from sfumato.channels.maps import BUILT_IN, cosines, is_built_in, wavelets
from sfumato.core.errors import PrivacyLeakWarning, SchemaError, UsageError
from sfumato.guarantee import EMPIRICAL, LOCAL_DP
from sfumato.guarantee.card import recomputed
from sfumato.mechanisms import PrincipalLaplace
from sfumato.release.sanitize import Options, sanitize_in_memory
from sfumato.release.sanitize_options import shared_beyond_chance
from sfumato.study.protocol.pool_study import PoolStudy
from sfumato.table import Column, Encoding, Schema

LABEL = Column("ill", "categorical", role="label", categories=("no", "yes"), **PUBLIC)
SPECTRUM = Schema((*(Column(f"x{j}", "numeric", low=0, high=1, **PUBLIC) for j in range(8)), LABEL))


def people(rows=300, seed=0):
    """Rows that vary along one smooth curve over the columns."""
    rng = np.random.default_rng(seed)
    along = rng.normal(size=(rows, 1)) * np.cos(np.pi * np.arange(8) / 8)
    X = np.clip(0.5 + 0.15 * along + 0.02 * rng.normal(size=(rows, 8)), 0, 1)
    table = {f"x{j}": X[:, j] for j in range(8)}
    return {**table, "ill": np.where(along[:, 0] > 0, "yes", "no")}


@pytest.mark.parametrize("width", [1, 2, 3, 7, 16, 61])
def test_cosines_are_scipys_and_wavelets_are_orthonormal(width):
    assert cosines(width, width) == pytest.approx(dct(np.eye(width), norm="ortho", axis=0), abs=1e-14)
    assert wavelets(width, width) @ wavelets(width, width).T == pytest.approx(np.eye(width), abs=1e-14)
    assert (np.count_nonzero(wavelets(width, width), axis=1)[1:] <= width).all()
    for components in range(1, width + 1):
        for make in BUILT_IN.values():
            assert np.array_equal(make(components, width), make(width, width)[:components])
            assert is_built_in(make(components, width))


def test_they_are_the_same_to_the_last_digit_on_every_machine():
    """Sites that name a basis must lie in one space, whose name is a hash of the digits."""
    digits = {name: hashlib.sha256(make(30, 30).tobytes()).hexdigest()[:16] for name, make in BUILT_IN.items()}
    assert digits == {"identity": "268b9591c443418f", "dct": "f3b51053edef32f9", "haar": "92d1c8f254235cca"}


def test_nothing_else_passes_for_built_in():
    basis = cosines(8, 8)
    assert not is_built_in(basis[1:]), "which rows are left out could have been learned"
    assert not is_built_in(basis[::-1])
    assert not is_built_in(basis + 1e-9)
    assert not is_built_in(np.vstack([basis, basis]))


@pytest.mark.parametrize("basis", ["dct", "haar"])
def test_a_built_in_basis_is_formal_for_owner_and_coordinator(basis):
    encoding = domain("nm3o")
    X = any_records(encoding, np.random.default_rng(0), 50)
    fitted = PrincipalLaplace(basis=basis, components=3, epsilon_record=4.0).fit(X, encoding=encoding)
    assert fitted.guarantee().kind == LOCAL_DP
    assert 3.99 < fitted.guarantee().record <= 4.0
    assert fitted.learned() == []
    assert fitted.parameters_used()["basis"] == basis
    options = Options(parameters={"basis": basis, "components": 2}, schema=SPECTRUM, epsilon_record=2.0)
    card = sanitize_in_memory(people(), options).card
    assert card.guarantee["kind"] == recomputed(card).kind == LOCAL_DP
    assert recomputed(card).record == card.guarantee["epsilon_record"] <= 2.0


def test_a_study_can_name_one_and_computes_its_space():
    told = {
        "name": "spectra",
        "schema": SPECTRUM.to_dict(),
        "mechanism": {"name": "principal-laplace", "parameters": {"basis": "dct", "components": 2}},
        "guarantee": {"epsilon_record": 3.0},
    }
    study = PoolStudy.from_dict(told)
    options = Options(parameters=study.parameters, schema=SPECTRUM, epsilon_record=3.0)
    assert sanitize_in_memory(people(), options).card.space == study.space


def test_public_rows_give_the_basis_and_the_reason_stands_on_the_card():
    public = people(seed=7)
    options = Options(
        schema=SPECTRUM,
        epsilon_record=4.0,
        parameters={"components": 2},
        basis_from=public,
        reason="a published survey",
    )
    card = sanitize_in_memory(people(), options).card
    assert card.guarantee["kind"] == recomputed(card).kind == LOCAL_DP
    assert "The basis is public: a published survey" in card.guarantee["assumptions"]
    X = Encoding(SPECTRUM).encode(pa.table(public)).X
    first = np.linalg.eigh(np.cov(X.T))[1][:, -1]
    assert abs(first @ np.array(card.transform["matrix"])[0]) == pytest.approx(1)
    assert card.transform["variances"][0] > 10 * card.transform["variances"][1]


ASKED = {"schema": SPECTRUM, "epsilon_record": 4.0, "reason": "I say so"}


def some(table, *rows):
    """These rows of a table, as often as they are named."""
    return {name: np.concatenate([np.asarray(cells)[which] for which in rows]) for name, cells in table.items()}


LESS_ONE = some(people(), slice(1, None))


def together(*tables):
    return {name: np.concatenate([np.asarray(table[name]) for table in tables]) for name in tables[0]}


@pytest.mark.parametrize(
    ("public", "number"),
    [
        (people(), 300),
        (LESS_ONE, 299),
        (some(people(), slice(1, None), slice(2, None)), 597),
        (together(people(rows=900, seed=3), some(people(), slice(20))), 20),
    ],
    ids=["whole", "less one", "each twice", "a few among others"],
)
def test_a_basis_from_rows_of_the_table_is_refused(public, number):
    with pytest.raises(UsageError, match=f"^{number} of the .* are rows of the table itself"):
        sanitize_in_memory(people(), Options(**ASKED, basis_from=public))


def test_a_basis_from_rows_released_before_is_refused():
    sanitize_in_memory(people(seed=5), Options(schema=SPECTRUM, mechanism="additive-noise"))
    narrower = Schema((*SPECTRUM.columns[:5], LABEL))
    sanitize_in_memory(people(seed=6), Options(schema=narrower, mechanism="additive-noise"))
    for seed in (5, 6):
        public = together(people(seed=seed), people(rows=1, seed=9))
        with pytest.raises(UsageError, match=r"^300 of the 301 .* your ledger knows as released.*--conditional"):
            sanitize_in_memory(people(), Options(**ASKED, basis_from=public))
    card = sanitize_in_memory(people(), Options(**ASKED, basis_from=people(seed=7))).card
    assert card.guarantee["kind"] == LOCAL_DP, "other rows are public, as their owner says"


def test_a_conditional_card_does_not_tell_whose_rows_shaped_it():
    cards = []
    with pytest.warns(PrivacyLeakWarning, match="299 of the 299 rows"):
        cards.append(sanitize_in_memory(people(), Options(**ASKED, basis_from=LESS_ONE, conditional=True)).card)
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrivacyLeakWarning)
        cards.append(sanitize_in_memory(people(), Options(**ASKED, basis_from=people(seed=7), conditional=True)).card)
    assert cards[0].guarantee["kind"] == recomputed(cards[0]).kind == EMPIRICAL
    assert cards[0].guarantee["in_the_way"] == cards[1].guarantee["in_the_way"]
    assert cards[0].learned_from_data == cards[1].learned_from_data == []
    assert cards[0].mechanism["parameters"]["basis_reason"] == cards[1].mechanism["parameters"]["basis_reason"]
    assert "299" not in json.dumps(cards[0].to_dict() | {"transform": None, "recipe": None})
    pasted = {"basis": cards[0].transform["matrix"], "basis_reason": "I say so"}
    again = sanitize_in_memory(people(), Options(schema=SPECTRUM, epsilon_record=4.0, parameters=pasted)).card
    assert again.guarantee["kind"] == EMPIRICAL, "the ledger knows that private rows shaped it"


def test_two_samples_of_a_coarse_population_overlap_by_chance():
    """Rows of few values meet everywhere, and that is not held against them; copies among them are."""
    rng = np.random.default_rng(1)
    for trial in range(300):
        cells = 10 ** rng.integers(1, 6)
        shares = rng.dirichlet(np.full(cells, 0.3))
        one, other = (rng.choice(cells, size=rng.integers(50, 2000), p=shares).astype(np.uint64) for _ in range(2))
        assert not shared_beyond_chance(other, one)
        if cells > 100 and trial % 5 == 0:
            assert shared_beyond_chance(one[1:], one)
        if cells > 10_000 and trial % 5 == 0 and len(one) > 200:
            assert shared_beyond_chance(np.concatenate([other, one[: len(one) // 2]]), one)


def test_a_row_is_as_often_in_both_at_most_every_second_time():
    """The bounds behind the test, by brute force over how common a row is in either table."""
    counts = np.arange(60)
    rates = np.geomspace(1e-3, 12, 40)
    law = {a: poisson.pmf(counts, a) for a in rates}
    even = (counts[:, None] + counts) % 2 == 0
    even[0, 0] = False
    for a in rates:
        for b in rates:
            joint = np.outer(law[a], law[b])
            assert np.trace(joint) - joint[0, 0] <= 0.5 * joint[even].sum() * (1 + 1e-9)
    assert max(one[1] for one in law.values()) <= np.exp(-1)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"basis_from": people(seed=1)}, "--reason"),
        ({"basis_from": people(seed=1), "reason": " "}, "--reason"),
        ({"reason": "published"}, "--basis-from"),
        ({"conditional": True}, "--basis-from"),
        ({"basis_from": people(seed=1), "reason": "x", "engine": "spark"}, "on one machine"),
        ({"basis_from": people(seed=1), "reason": "x", "mechanism": "additive-noise"}, "has none"),
        ({"basis_from": people(seed=1), "reason": "x", "parameters": {"basis": "dct"}}, "Leave basis out"),
        ({"basis_from": {"x0": [1.0, 2.0]}, "reason": "x"}, "public rows"),
    ],
)
def test_what_does_not_go_together_is_refused(changes, words):
    with pytest.raises((UsageError, SchemaError), match=words):
        sanitize_in_memory(people(), Options(schema=SPECTRUM, **changes))
