"""What every mechanism promises, as checks that a faulty one fails."""

import json

import numpy as np
from scipy import stats
from sklearn.base import clone

from domains import any_records, domain
from sfumato.guarantee import EMPIRICAL, LOCAL_DP, Card
from sfumato.guidance import bit_probabilities
from sfumato.jobs.layout import Layout
from sfumato.jobs.make_card import make_card
from sfumato.mechanisms import GuidedProjection, NoisyOperator, RandomizedResponse, RowDrawing
from sfumato.noise import Streams

LEARNED = {"source": "learned"}
ROWS = 60_000


def tables_for(mechanism, rows=200, seed=0, **source):
    """A fitting encoding and rows with classes; public unless `source` says otherwise."""
    shape = "23?5" if isinstance(mechanism, RandomizedResponse | GuidedProjection) else "nm3oi?"
    if isinstance(mechanism, NoisyOperator):
        shape = "pq3c?"  # operators may refuse a range that contains 0
    encoding = domain(shape, **source)
    rng = np.random.default_rng(seed)
    return encoding, any_records(encoding, rng, rows), rng.integers(2, size=rows)


def fitted(mechanism, rows=200, seed=0, **source):
    encoding, X, y = tables_for(mechanism, rows, seed, **source)
    return clone(mechanism).fit(X, y, encoding=encoding, key=a_key(mechanism, encoding)), X, y


_KEYS = {}


def a_key(mechanism, encoding):
    """One key for all fits of a test run, so that only the rows make a difference."""
    if not mechanism.needs_key:
        return None
    place = (mechanism.name, repr(sorted(mechanism.get_params().items())), encoding.fingerprint())
    return _KEYS.setdefault(place, mechanism.draw_key(encoding))


def stream(block, seed=0):
    return Streams.seeded(seed).generator(block)


def said(mechanism, X, y):
    """Everything that a fit can make a difference to: where rows go, with which noise, and what is stated."""
    words = [mechanism.parameters_used(), mechanism.transform(), mechanism.release_columns()]
    block = mechanism.perturb(X.copy(), y.copy(), stream(0))
    return mechanism.embed(X), block.X, block.source, json.dumps(words)


def check_merged_blocks_fit_like_one_pass(mechanism):
    whole, X, y = fitted(mechanism)
    merged, encoding = clone(mechanism), whole.encoding_
    cuts = (slice(0, 1), slice(1, 70), slice(70, None))
    parts = [merged.statistics(X[cut], y[cut]) for cut in cuts]
    merged.fit_statistics(parts[2] + (parts[0] + parts[1]), encoding, a_key(mechanism, encoding))
    if merged.needs_second_pass:
        parts = [merged.second_statistics(X[cut], y[cut]) for cut in cuts]
        merged.fit_second(parts[1] + parts[2] + parts[0])
    assert np.allclose(merged.embed(X), whole.embed(X), atol=1e-7)
    assert np.allclose(merged.perturb(X, y, stream(0)).X, whole.perturb(X, y, stream(0)).X, atol=1e-6)
    assert np.isclose(merged.guarantee().record, whole.guarantee().record, rtol=1e-6)


def check_perturb_is_pure(mechanism):
    """Its input stays as it was, and block and generator alone decide what comes out."""
    fit, X, y = fitted(mechanism)
    before, codes = X.copy(), y.copy()
    X.flags.writeable = y.flags.writeable = False
    first = fit.perturb(X, y, stream(0))
    fit.perturb(X[:50], y[:50], stream(3))
    second = fit.perturb(X, y, stream(0))
    assert np.array_equal(X, before)
    assert np.array_equal(y, codes)
    assert np.array_equal(first.X, second.X)
    assert np.array_equal(first.source, second.source)
    assert np.array_equal(first.y, codes[first.source])
    assert not np.shares_memory(first.X, X)


def check_blocks_share_no_noise(mechanism):
    """The same rows twice, as two blocks: the noise of one says nothing about that of the other."""
    fit, X, y = fitted(mechanism, rows=2_000)
    blocks = [fit.perturb(X, y, stream(block)) for block in (0, 1)]
    if fit.noise_path() == "none" or not all(np.array_equal(block.source, np.arange(len(X))) for block in blocks):
        assert fit.guarantee().kind != LOCAL_DP  # nothing is added to a row that could be told apart
        return
    first, second = (block.X for block in blocks)
    for column, law in enumerate(fit.laws()):
        if law is not None:
            noise = [Z[:, column] - fit.embed(X)[:, column] for Z in (first, second)]
            assert np.mean(np.abs(noise[0] - noise[1]) < 1e-9) < 0.01
            assert abs(np.corrcoef(noise)[0, 1]) < 6 / np.sqrt(len(X))
    if isinstance(fit, GuidedProjection):
        same = np.mean(first == second, axis=0)
        q = bit_probabilities(X, fit.V_, fit.floor, fit.link)
        assert np.all(np.abs(same - (q**2 + (1 - q) ** 2).mean(axis=0)) < 6 / np.sqrt(len(X)))
    for group, column in _responses(fit):
        changed = [np.any(Z[:, group] != X[:, group], axis=1) for Z in (first, second)]
        assert np.mean(changed[0] & changed[1]) < 0.8 * np.mean(changed[0]), column["name"]


def check_noise_is_as_stated(mechanism):
    """By law and by variance, per column of the release matrix; a statement 30% off is rejected."""
    fit, X, y = fitted(mechanism, rows=ROWS)
    block = fit.perturb(X, y, stream(0))
    if isinstance(fit, GuidedProjection):
        return compare_bits(fit, block.X, X)
    if not isinstance(fit, RowDrawing):
        return compare_noise(fit, block.X, X[block.source], fit.laws())
    for code in np.unique(y):
        rows = block.y == code
        compare_noise(fit, block.X[rows], X[block.source[rows]], fit.laws_of_class(code), code)


def compare_noise(fit, Z, X, laws, code=None):
    """Rows that were released with the same laws: those of one class, where a mechanism draws within classes."""
    plain = fit.embed(X)
    assert len(laws) == Z.shape[1]
    shown = shown_cells(fit, Z, X)
    randomized = {place for group, _ in _responses(fit) for place in range(group.start, group.stop)}
    operators = fit.operator_noise() if isinstance(fit, NoisyOperator) else [None] * len(laws)
    for column, law in enumerate(laws):
        noise = (Z[:, column] - plain[:, column])[shown[:, column]]
        if law is None and operators[column] is not None:
            law, noise = operators[column].law, drawn(operators[column], fit.encoding_, column, Z, X)
        if law is None:
            assert column in randomized or fit.whole_table or np.abs(noise).max() < 1e-9
            continue
        assert stats.kstest(noise, law.cdf).pvalue > 1e-6
        assert stats.kstest(noise, law.scaled(1.3).cdf).pvalue < 1e-20
        assert stats.kstest(noise, law.scaled(1 / 1.3).cdf).pvalue < 1e-20
        if np.isfinite(law.fourth_moment):
            spread = np.sqrt(law.fourth_moment / law.variance**2 - 1) / np.sqrt(len(noise))
            assert abs(noise.var() / law.variance - 1) < 7 * spread < 0.3
    for group, column in _responses(fit):
        noise = column["noise"]
        kept = int(np.sum(np.all(Z[:, group] == X[:, group], axis=1)))
        name = "missing_keep" if "missing_keep" in noise else "keep"
        stated = noise[name] if code is None else noise[f"{name}_by_class"][code]
        assert stats.binomtest(kept, len(Z), stated).pvalue > 1e-6
        if code is None or len(Z) * (1 - stated) > 2_500:  # fewer changes cannot tell 30% from chance
            assert stats.binomtest(kept, len(Z), 1 - (1 - stated) / 1.3).pvalue < 1e-20


def compare_bits(fit, Z, X):
    """Every bit is 1 as often as the card's guidance, link and floor say; another floor is rejected."""
    for floor, fits in ((fit.floor, True), (0.7 * fit.floor or 0.05, False)):
        q = bit_probabilities(X, fit.V_, floor, fit.link)
        spread = np.sqrt(np.maximum((q * (1 - q)).sum(axis=0), 1.0))
        assert (np.abs((Z - q).sum(axis=0) / spread).max() < 5.5) == fits


def shown_cells(fit, Z, X):
    """Where noise can be seen: everywhere, but for a cell that was or is empty where a mechanism draws such cells anew.

    Columns of a one-hot group are all shown; their answers are compared by themselves.
    """
    shown = np.ones(Z.shape, dtype=bool)
    if isinstance(fit, RowDrawing):
        for group in fit.encoding_.groups:
            if group.has_indicator:
                shown[:, group.start] = (Z[:, group.stop - 1] < 0.5) & (X[:, group.stop - 1] < 0.5)
    return shown


def drawn(noise, encoding, column, Z, X):
    """The noise that an operator of one branch carried into a column, in its raw units."""
    low = next(float(group.column.bounds[0]) for group in encoding.groups if group.start == column)
    z, x = (low + encoding.scale[column] * matrix[:, column] for matrix in (Z, X))
    return noise.operator.branches[0].inverse(z, x)


def _responses(fit):
    """Where categories or "missing" are randomized: matrix columns, and what the card says of them."""
    if not fit.columnwise:
        return
    for group, column in zip(fit.encoding_.groups, fit.release_columns(), strict=True):
        if column["noise"] is None:  # stated to have none, and held to it
            continue
        if group.is_onehot:
            yield group.slice, column
        elif group.has_indicator:
            yield slice(group.stop - 1, group.stop), column


def check_shapes_and_card(mechanism):
    fit, X, y = fitted(mechanism)
    released = fit.perturb(X, y, stream(0))
    columns = fit.release_columns()
    assert released.X.shape == (fit.released(len(X)), fit.embed(X).shape[1])
    assert released.X.dtype == np.float64
    assert len(fit.laws()) == released.X.shape[1]
    assert len(columns) == (len(fit.encoding_.groups) if fit.columnwise else released.X.shape[1])
    card = make_card(Layout(fit, fit.encoding_), fit.guarantee(), rows=len(X))
    back = Card.from_dict(json.loads(card.to_json()))
    stated = [law.variance if law else 0.0 for law in fit.laws()]
    assert np.allclose(back.noise_variance(), stated)
    if back.affine() is not None:
        matrix, offset = back.affine()
        assert np.allclose(X @ matrix.T + offset, fit.embed(X))
    assert card.papers
    assert card.threat_model["not_protected"]


def check_only_public_and_exact_is_formal(mechanism):
    fit, _, _ = fitted(mechanism)
    public, exact = fit.encoding_.public, fit.noise_path().startswith("exact")
    if fit.guarantee().kind == LOCAL_DP:
        assert public
        assert exact
        assert not fit.learned()
        assert fit.guarantee().assumptions
    same, _, _ = fitted(mechanism, **LEARNED)
    assert same.guarantee().kind == EMPIRICAL
    for column in same.encoding_.schema.private:
        assert any(repr(column.name) in item for item in same.learned())
    if np.isfinite(same.guarantee().record):
        assert set(same.learned()) <= set(same.guarantee().in_the_way)


def check_what_is_learned_is_told(mechanism):
    """Two tables of one public domain: where the fit differs, something was learned, and the mechanism says so."""
    fits = [fitted(mechanism, seed=seed)[0] for seed in (1, 2)]
    _, X, y = tables_for(mechanism, seed=3)
    one, other = (said(fit, X, y) for fit in fits)
    differs = one[3] != other[3] or not all(np.array_equal(a, b) for a, b in zip(one[:3], other[:3], strict=True))
    if differs:
        assert fits[0].learned(), "it learned from the rows and does not say so"
        assert fits[0].guarantee().kind == EMPIRICAL
        assert set(fits[0].learned()) <= set(fits[0].guarantee().in_the_way)


def check_it_is_an_estimator_with_a_story(mechanism):
    copy = clone(mechanism)
    assert copy.get_params() == mechanism.get_params()
    assert type(mechanism)(**mechanism.get_params()).get_params() == mechanism.get_params()
    fit, _, _ = fitted(mechanism)
    assert all(name.endswith("_") or name in fit.get_params() for name in vars(fit))
    assert fit.get_params() == mechanism.get_params()
    assert len(type(mechanism).__doc__.split()) > 20
    assert mechanism.name == mechanism.name.lower()
    assert mechanism.not_protected


CHECKS = [check for name, check in list(globals().items()) if name.startswith("check_")]
