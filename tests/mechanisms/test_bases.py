"""Bases that owe nothing to the rows: the same everywhere, orthonormal, and recognised by whoever reads the card."""

import hashlib

import numpy as np
import pyarrow as pa
import pytest
from scipy.fft import dct

from domains import PUBLIC, any_records, domain
from sfumato.channels.built_in_bases import BUILT_IN, cosines, is_built_in, wavelets
from sfumato.errors import SchemaError, UsageError
from sfumato.guarantee import EMPIRICAL, LOCAL_DP
from sfumato.guarantee.recompute import recomputed
from sfumato.jobs.sanitize import Options, sanitize_in_memory
from sfumato.mechanisms import PrincipalLaplace
from sfumato.protocol.pool_study import PoolStudy
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


def test_rows_that_are_not_public_are_found_out():
    options = {"schema": SPECTRUM, "epsilon_record": 4.0, "reason": "I say so"}
    with pytest.raises(UsageError, match="those of the table itself"):
        sanitize_in_memory(people(), Options(**options, basis_from=people()))
    sanitize_in_memory(people(seed=5), Options(schema=SPECTRUM, mechanism="additive-noise"))
    card = sanitize_in_memory(people(), Options(**options, basis_from=people(seed=5))).card
    assert card.guarantee["kind"] == recomputed(card).kind == EMPIRICAL, "the ledger knows these rows as private"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"basis_from": people(seed=1)}, "--reason"),
        ({"basis_from": people(seed=1), "reason": " "}, "--reason"),
        ({"reason": "published"}, "--basis-from"),
        ({"basis_from": people(seed=1), "reason": "x", "mechanism": "additive-noise"}, "has none"),
        ({"basis_from": people(seed=1), "reason": "x", "parameters": {"basis": "dct"}}, "Leave basis out"),
        ({"basis_from": {"x0": [1.0, 2.0]}, "reason": "x"}, "public rows"),
    ],
)
def test_what_does_not_go_together_is_refused(changes, words):
    with pytest.raises((UsageError, SchemaError), match=words):
        sanitize_in_memory(people(), Options(schema=SPECTRUM, **changes))
