"""A basis estimated under its own epsilon: what one record can do, what noise hides of it, and what it is good for."""

import itertools
import json
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distinguisher import empirical_epsilon
from domains import PUBLIC, any_records, domain, seeds, steady
from sfumato.channels.maps import NoisyMoments
from sfumato.core.errors import CardError, UsageError
from sfumato.guarantee import EMPIRICAL, LOCAL_DP, Card
from sfumato.guarantee.card import recomputed, understated
from sfumato.learn.classifiers import PerturbedClassifier
from sfumato.ledger import Ledger
from sfumato.mechanisms import PrincipalLaplace
from sfumato.mechanisms.principal_laplace import PairedProducts, lengths, whole_numbers
from sfumato.noise import Streams, discrete_laplace
from sfumato.release.sanitize import Options, sanitize_in_memory
from sfumato.release.write_release import Layout, make_card
from sfumato.table import Column, Encoding, Schema


def upper(q):
    """The products j <= k of every row."""
    rows, columns = np.triu_indices(q.shape[1])
    return q[:, rows] * q[:, columns]


def told(difference, terms):
    """All that one pair adds: its products and its length."""
    return np.hstack([upper(whole_numbers(difference, terms)), lengths(difference, terms)[:, None]])


# What one record can do


@given(seeds, st.integers(1, 6), st.floats(0.05, 8))
@steady(60)
def test_no_change_of_a_record_moves_the_sums_further_than_stated(seed, width, epsilon):
    """Differences of every kind: corners of the cube, far apart, nearly equal, along single columns."""
    rng = np.random.default_rng(seed)
    terms = NoisyMoments.of(epsilon, width)
    corners = np.array(list(itertools.product((-1.0, 0.0, 1.0), repeat=min(width, 3))))
    corners = np.hstack([corners, np.zeros((len(corners), width - corners.shape[1]))])
    drawn = rng.uniform(-1, 1, size=(40, width)) * 10.0 ** rng.uniform(-12, 0, size=(40, 1))
    all_of_them = told(np.vstack([corners, drawn]), terms)
    furthest = np.abs(all_of_them[:, None] - all_of_them[None]).sum(axis=2).max()
    assert furthest <= terms.sensitivity
    assert terms.epsilon <= epsilon
    assert terms.epsilon > 0.99 * epsilon
    assert Fraction(terms.epsilon) >= Fraction(terms.sensitivity, 2**terms.log2_scale)


def test_the_sensitivity_is_attained_and_so_is_not_wasted():
    """One column against another, of full length against next to none: 2 pair + size, but for rounding."""
    terms = NoisyMoments.of(1.0, 2)
    one, other = told(np.array([[1.0, 0.0], [0.0, 1e-6]]), terms)
    assert np.abs(one - other).sum() > 0.97 * terms.sensitivity


@given(seeds, st.integers(2, 60), st.text("nm3o?c", min_size=1, max_size=4))
@steady(60)
def test_a_changed_row_changes_one_pair_of_the_table(seed, rows, shape):
    encoding, rng = domain(shape), np.random.default_rng(seed)
    terms = NoisyMoments.of(2.0, encoding.width)
    X = any_records(encoding, rng, rows)
    changed = X.copy()
    changed[rng.integers(rows)] = any_records(encoding, rng, 1)[0]
    before, after = (PairedProducts.of_rows(table, terms) for table in (X, changed))
    pair = np.abs(np.triu(before.products - after.products)).sum() + abs(before.size - after.size)
    assert pair <= terms.sensitivity
    assert before.pairs == after.pairs == rows // 2
    assert (before.products == before.products.T).all()


def test_sums_are_whole_numbers_that_add_up_over_blocks():
    X = np.random.default_rng(0).random((9000, 7))
    terms = NoisyMoments.of(0.5, 7)
    parts = [PairedProducts.of_rows(part, terms) for part in np.array_split(X, 3)]
    left, right = parts[0] + (parts[1] + parts[2]), (parts[2] + parts[0]) + parts[1]
    assert np.array_equal(left.products, right.products)
    assert left.size == right.size
    by_hand = sum((np.rint(q.T @ q) for part in np.array_split(X, 3) for q in [_pairs(part, terms)]), np.zeros((7, 7)))
    assert np.array_equal(left.products, by_hand.astype(np.int64))


def _pairs(X, terms):
    order, half = np.random.default_rng(len(X)).permutation(len(X)), len(X) // 2
    return whole_numbers(X[order[:half]] - X[order[half : 2 * half]], terms)


# What the noise hides


def test_no_distinguisher_of_two_neighbouring_tables_beats_the_stated_epsilon():
    """The best adversary sees the noisy sums of the worst two tables: below the claim, and not far below it."""
    terms = NoisyMoments.of(1.5, 2)
    tables = [np.array([[1.0, 0.0], [0.0, 0.0]]), np.array([[0.0, 1e-6], [0.0, 0.0]])]
    sums = [PairedProducts.of_rows(table, terms) for table in tables]
    exact = np.array([[*one.products[np.triu_indices(2)], one.size] for one in sums], dtype=float)
    streams, scale = Streams.seeded(3), 2.0**terms.log2_scale
    ratios = []
    for place in (0, 1):
        Z = exact[place] + discrete_laplace(streams.generator(place), terms.log2_scale, (200_000, 4))
        far = [np.abs(Z - exact[side]).sum(axis=1) / scale for side in (0, 1)]
        ratios.append(far[1] - far[0])
    assert np.abs(np.concatenate(ratios)).max() <= terms.epsilon * (1 + 1e-9)
    proved = empirical_epsilon(*ratios, terms.epsilon)
    assert 0.7 * terms.epsilon < proved <= terms.epsilon


def test_every_sum_gets_noise_of_its_own_and_of_the_stated_scale():
    terms = NoisyMoments.of(1.0, 5)
    sums = PairedProducts.of_rows(np.random.default_rng(0).random((40, 5)), terms)
    rows, columns = np.triu_indices(5)
    drawn = discrete_laplace(Streams.seeded(4).generator(0), terms.log2_scale, len(rows) + 1)
    noisy = sums.blurred(Streams.seeded(4).generator(0))
    assert np.array_equal((noisy.products - sums.products)[rows, columns], drawn[:-1])
    assert np.array_equal(noisy.products, noisy.products.T)
    assert noisy.size - sums.size == drawn[-1]
    assert len(np.unique(drawn)) == len(drawn)
    many = [sums.blurred(Streams.seeded(seed).generator(0)).products - sums.products for seed in range(300)]
    assert np.abs(many).mean() == pytest.approx(2.0**terms.log2_scale, rel=0.07)


# What the card states


def fitted(epsilon=4.0, shape="nn3m", rows=300, **parameters):
    encoding = domain(shape)
    X = any_records(encoding, np.random.default_rng(0), rows)
    return PrincipalLaplace(basis="private", epsilon_record=epsilon, **parameters).fit(X, encoding=encoding)


@pytest.mark.parametrize("share", [0.1, 0.25, 0.8])
def test_basis_and_rows_share_the_wanted_epsilon(share):
    made = fitted(basis_share=share)
    guarantee = made.guarantee()
    assert guarantee.kind == LOCAL_DP
    assert 3.99 < guarantee.record <= 4.0
    assert not guarantee.exact
    assert made.estimated_.epsilon == pytest.approx(4 * share, rel=0.01)
    rows_alone = PrincipalLaplace(b=made.b_, components=len(made.matrix_), basis=made.matrix_, basis_reason="test").fit(
        np.zeros((2, made.encoding_.width)), encoding=made.encoding_
    )
    for level in ("component", "column", "record"):
        both = getattr(rows_alone.guarantee(), level) + made.estimated_.epsilon
        assert getattr(guarantee, level) == pytest.approx(both, rel=1e-9)
    assert any("estimated from these rows" in words for words in guarantee.assumptions)
    assert made.learned() == []


def test_the_coordinator_computes_it_from_the_card_and_believes_no_less():
    made = fitted()
    card = make_card(Layout(made, made.encoding_), made.guarantee(), rows=300)
    read = Card.from_dict(json.loads(card.to_json()))
    assert recomputed(read).record == made.guarantee().record
    assert recomputed(read).kind == LOCAL_DP
    assert understated(read) == []
    for change in ({"log2_scale": made.estimated_.log2_scale - 1}, {"pair": 2 * made.estimated_.pair}):
        forged = json.loads(card.to_json())
        forged["transform"]["estimated"].update(change)
        assert "epsilon_record" in understated(Card.from_dict(forged))
    silent = json.loads(card.to_json())
    silent["transform"]["estimated"] = None
    assert recomputed(Card.from_dict(silent)).kind == EMPIRICAL
    for wrong in (
        {"log2_scale": 1},
        {"log2_scale": 1.5, "pair": 1, "size": 1},
        {"log2_scale": 99, "pair": 1, "size": 1},
    ):
        damaged = json.loads(card.to_json())
        damaged["transform"]["estimated"] = wrong
        with pytest.raises(CardError):
            Card.from_dict(damaged)


LABEL = Column("ill", "categorical", role="label", categories=("no", "yes"), **PUBLIC)
SCHEMA = Schema((*(Column(f"x{j}", "numeric", low=0, high=1, **PUBLIC) for j in range(6)), LABEL))


def people(rows=400, seed=0):
    X, y = patients(rows, 6, seed)
    return {**{f"x{j}": X[:, j] for j in range(6)}, "ill": np.where(y == 1, "yes", "no")}


def patients(rows, width, seed):
    """Columns that move together with a hidden cause; the class follows the cause."""
    rng, loads = np.random.default_rng(seed), np.random.default_rng(77).uniform(-1, 1, size=(2, width))
    cause = rng.normal(size=(rows, 2)) * (1.0, 0.4)
    X = 0.5 + 0.13 * cause @ loads + 0.05 * rng.normal(size=(rows, width))
    return np.clip(X, 0, 1), (cause[:, 0] + 0.3 * rng.normal(size=rows) > 0).astype(int)


@pytest.mark.parametrize("engine", ["memory", "stream"])
def test_the_road_of_a_release(engine, tmp_path):
    from sfumato.release.sanitize import sanitize

    options = Options(schema=SCHEMA, parameters={"basis": "private"}, epsilon_record=4.0, engine=engine)
    card = sanitize(_written(people(), tmp_path), tmp_path / "release", options).card
    assert card.guarantee["kind"] == recomputed(card).kind == LOCAL_DP
    assert recomputed(card).record == card.guarantee["epsilon_record"] <= 4.0
    assert "estimated" in card.transform
    assert card.mechanism["parameters"]["basis"] == "private"


def _written(table, folder):
    import pyarrow as pa

    from sfumato.table import write_table

    write_table(pa.table(table), folder / "people.parquet")
    return folder / "people.parquet"


def test_a_seed_repeats_the_basis_and_what_it_estimated_counts_as_learned(tmp_path):
    ledger = tmp_path / "ledger.json"
    options = {"schema": SCHEMA, "epsilon_record": 4.0, "ledger": ledger}
    trial = Options(parameters={"basis": "private"}, seed=5, **options)
    first, second = (sanitize_in_memory(people(), trial).card for _ in range(2))
    assert first.transform == second.transform
    assert first.guarantee["kind"] == EMPIRICAL
    basis = first.transform["matrix"]
    assert Ledger(ledger).has_learned(np.array(basis))
    pasted = Options(parameters={"basis": basis, "basis_reason": "found on the web"}, **options)
    assert sanitize_in_memory(people(), pasted).card.guarantee["kind"] == EMPIRICAL


def test_another_site_can_use_the_published_basis(tmp_path):
    """Its epsilon was spent on the first site's rows; the second one's owe it nothing."""
    options = {"schema": SCHEMA, "epsilon_record": 4.0}
    first = sanitize_in_memory(people(), Options(parameters={"basis": "private"}, **options)).card
    first.save(tmp_path / "card.json")
    given = {"basis": str(tmp_path / "card.json"), "basis_reason": "estimated by the first site, under its own epsilon"}
    second = sanitize_in_memory(people(seed=9), Options(parameters=given, **options)).card
    assert second.space == first.space
    assert second.guarantee["kind"] == LOCAL_DP
    assert "estimated" not in second.transform


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"epsilon_record": None}, "epsilon_record"),
        ({"basis_share": 1.0}, "below 1"),
        ({"basis_share": 0}, "basis_share"),
        ({"epsilon_record": 1e-13}, "whole numbers"),
        ({"components": "90"}, "share of"),
        ({"components": "0%"}, "share of"),
    ],
)
def test_what_cannot_be_is_refused(parameters, words):
    with pytest.raises(UsageError, match=words):
        fitted(**{"epsilon": 4.0, **{("epsilon" if n == "epsilon_record" else n): v for n, v in parameters.items()}})


# What it is good for


def test_it_finds_the_direction_that_the_rows_vary_along():
    X, _ = patients(3000, 10, 1)
    true = np.linalg.eigh(np.cov(X.T))[1][:, -1]
    mechanism = PrincipalLaplace(basis="private", epsilon_record=8.0, components=1)
    made = mechanism.fit(X, encoding=Encoding.unit(10, public=True), streams=Streams.seeded(0))
    assert abs(made.matrix_[0] @ true) > 0.9
    variance = (X @ true).var()
    assert made.variances_[0] == pytest.approx(variance, rel=0.4)


def test_the_road_beats_identity_and_the_majority_at_the_same_proved_epsilon():
    """2,000 people, ten columns, epsilon 3 for the whole record: formal, and of use."""
    X, y = patients(2000, 10, 11)
    others, truth = patients(2000, 10, 12)
    bounds = (np.zeros(10), np.ones(10))
    scores = {}
    for basis in ("private", "identity"):
        mechanism = PrincipalLaplace(basis=basis, epsilon_record=3.0)
        stated = mechanism.fit(X, encoding=Encoding.unit(10, public=True)).guarantee()
        assert stated.kind == LOCAL_DP
        assert stated.record <= 3.0
        models = [PerturbedClassifier(mechanism, "noise-aware-lda", bounds, random_state=seed) for seed in range(5)]
        scores[basis] = np.median([model.fit(X, y).score(others, truth) for model in models])
    majority = max(truth.mean(), 1 - truth.mean())
    assert scores["private"] > scores["identity"] + 0.05
    assert scores["private"] > majority + 0.2
