"""What every mechanism promises, as checks that a faulty one fails."""

import json

import numpy as np
from scipy import stats
from sklearn.base import clone

from domains import any_records, domain
from sfumato.channels import NO_NOISE, Hybrid
from sfumato.channels.guidance.space import floored
from sfumato.guarantee import EMPIRICAL, LOCAL_DP, Card
from sfumato.guarantee.card import recomputed
from sfumato.mechanisms.base import Given, Rows
from sfumato.noise import Streams
from sfumato.release.write_release import Layout, make_card

LEARNED = {"source": "learned"}
ROWS = 60_000
FEW = 100


def called(mechanism):
    """The registered name, and what is not as usual: the id of a test."""
    usual = type(mechanism)().get_params()
    changed = [f"{name}={value}" for name, value in mechanism.get_params().items() if value != usual[name]]
    return "-".join([mechanism.name, *changed])


def tables_for(mechanism, rows=200, seed=0, **source):
    """A fitting encoding and rows with classes; public unless `source` says otherwise."""
    shape = "23?5" if mechanism.only_categories else "pq3c?" if mechanism.not_about_zero else "nm3oi?"
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
    words = [mechanism.parameters_used(), mechanism.recipe_.to_dict(), mechanism.recipe_.map.to_dict()]
    block = mechanism.perturb(X.copy(), y.copy(), stream(0))
    return mechanism.embed(X), block.X, block.source, json.dumps(words)


def check_merged_blocks_fit_like_one_pass(mechanism):
    whole, X, y = fitted(mechanism)
    merged, encoding = clone(mechanism), whole.encoding_
    cuts = (slice(0, 1), slice(1, 70), slice(70, None))
    for phase in merged.fitting(Given(encoding, a_key(mechanism, encoding), Streams.seeded(0))):
        parts = [phase.observe(Rows(X[cut], y[cut], number)) for number, cut in enumerate(cuts)]
        phase.finish(parts[2] + (parts[0] + parts[1]))
    assert np.allclose(merged.embed(X), whole.embed(X), atol=1e-7)
    assert np.allclose(merged.perturb(X, y, stream(0)).X, whole.perturb(X, y, stream(0)).X, atol=1e-6, equal_nan=True)
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
    assert np.array_equal(first.X, second.X, equal_nan=True)
    assert np.array_equal(first.source, second.source)
    assert np.array_equal(first.y, codes[first.source])
    assert not np.shares_memory(first.X, X)


def check_blocks_share_no_noise(mechanism):
    """The same rows twice, as two blocks: the noise of one says nothing about that of the other."""
    fit, X, y = fitted(mechanism, rows=2_000)
    blocks = [fit.perturb(X, y, stream(block)) for block in (0, 1)]
    recipe = fit.recipe_
    if recipe.path == NO_NOISE or not all(np.array_equal(block.source, np.arange(len(X))) for block in blocks):
        assert fit.guarantee().kind != LOCAL_DP  # nothing is added to a row that could be told apart
        return
    given = recipe.map.apply(X)
    for place, channel in zip(recipe.places, recipe.channels, strict=True):
        seen = np.all([shown(channel, block.X[:, place]) for block in blocks], axis=0)
        if seen.sum() < FEW:  # a stage that few rows go through twice
            continue
        if channel.numbers and not channel.is_exact and (channel.adds or channel.hides_missing or channel.leaves_out):
            slope, offset = channel.mean_line()
            noise = [(block.X[:, place] - slope * given[:, place] - offset)[seen, 0] for block in blocks]
            assert np.mean(np.abs(noise[0] - noise[1]) < 1e-9) < 0.01
            assert abs(np.corrcoef(noise)[0, 1]) < 6 / np.sqrt(seen.sum())
        if channel.leaves_out:
            told = [~np.isnan(block.X[:, place.start]) for block in blocks]
            assert abs(np.mean(told[0] & told[1]) - channel.reported**2) < 6 * channel.reported / np.sqrt(len(X))
        if channel.width > channel.numbers and not channel.is_exact and not (channel.hides_missing and channel.numbers):
            answers = slice(place.start + channel.numbers, place.stop)
            both = ~np.isnan([block.X[:, place.start] for block in blocks]).any(axis=0)
            first, second = (block.X[both, answers] for block in blocks)
            same = np.mean(np.all(first == second, axis=1))
            assert abs(same - agreement(channel, given[both, place])) < 6 / np.sqrt(both.sum())


def agreement(channel, given):
    """How often two independent answers of the same people agree: the sum of squared probabilities, on average."""
    if channel.hides_missing:
        log = channel.log_likelihood(np.eye(channel.width)[:-1], given)
        return float((np.exp(log - (np.log(channel.reported) if channel.leaves_out else 0.0)) ** 2).sum(axis=0).mean())
    if channel.width == 1:
        q = np.exp(channel.log_likelihood(np.ones((1, 1)), given))
        return float((q**2 + (1 - q) ** 2).mean())
    others = max(channel.width - channel.numbers, 2) - 1
    return channel.kept**2 + (1 - channel.kept) ** 2 / others


def shown(channel, cells):
    """Rows whose number is released, and neither left out nor reported missing."""
    there = ~np.isnan(cells[:, 0])
    return there & (cells[:, 1] < 0.5) if channel.width == 2 and channel.numbers == 1 else there


def check_noise_is_as_stated(mechanism):
    """Channel by channel; a statement 30% off is rejected."""
    fit, X, y = fitted(mechanism, rows=ROWS)
    block, recipe = fit.perturb(X, y, stream(1)), fit.recipe_
    if not all(channel.is_stated for channel in recipe.channels):
        assert fit.guarantee().kind != LOCAL_DP
        return
    classes = np.unique(y) if recipe.by_class else [None]
    for code in classes:
        rows = np.ones(len(block.X), dtype=bool) if code is None else block.y == code
        sources = X[block.source[rows]]
        given = recipe.map.apply(sources)
        channels = recipe.channels if code is None else recipe.of_class(code)
        for place, channel in zip(recipe.places, channels, strict=True):
            compare(channel, block.X[rows, place], given[:, place], anew=bool(recipe.by_class))


def compare(channel, Z, given, anew):
    """What one channel released against what it says; `anew`: cells that were empty are drawn anew when shown."""
    assert Z.shape[1] == channel.width
    if channel.is_exact:
        assert np.array_equal(Z, given)
        return
    reported = ~np.isnan(Z[:, 0])
    if channel.leaves_out:
        assert stats.binomtest(int(reported.sum()), len(Z), channel.reported).pvalue > 1e-6
        assert stats.binomtest(int(reported.sum()), len(Z), channel.reported / 1.3).pvalue < 1e-10
        assert np.isnan(Z[~reported]).all()
    Z, given = Z[reported], given[reported]
    if channel.hides_missing:
        hidden = given[:, -1] > 0.5
        assert not Z[:, -1].any()
        compare_anything(channel, Z[hidden])
        Z, given = Z[~hidden], given[~hidden]
    hybrid = getattr(channel, "inner", channel)
    if isinstance(hybrid, Hybrid):
        Z, given, channel = compare_ends(hybrid, Z, given)
    if channel.numbers > 1:
        compare_vectors(channel, Z, given)
        return
    if channel.numbers and channel.raw_noise(1.0) is not None:
        seen = shown(channel, Z)
        if anew and channel.width == 2:
            seen &= given[:, 1] < 0.5
        unit = getattr(getattr(channel, "inner", channel), "range", 1.0)
        low = getattr(getattr(channel, "inner", channel), "low", 0.0) if unit != 1.0 else 0.0
        noise = channel.raw_noise(1.0)
        z, x = (low + unit * part[seen, 0] for part in (Z, given))
        assert stats.kstest(noise.cdf(z, x), "uniform").pvalue > 1e-6
        enough = len(z) > ROWS / 10  # a stage's rows that report one of many columns cannot tell 30% from chance
        for factor in (1.3, 1 / 1.3) if enough else ():
            surely = 1e-20 if len(z) > ROWS / 4 else 1e-7
            assert stats.kstest(noise.stretched(factor).cdf(z, x), "uniform").pvalue < surely
    if channel.hides_missing and channel.numbers:
        return
    if channel.width == 1 and not channel.numbers:
        compare_bits(channel, Z, given)
    elif channel.width > channel.numbers:
        compare_answers(channel, Z[:, channel.numbers :], given[:, channel.numbers :])


def compare_ends(channel, Z, given):
    """How often a number becomes one of the two ends, and which; what is left went through the window."""
    low, high = (np.abs(Z[:, 0] - end) < 1e-7 for end in channel.ends)
    at_end = low | high
    assert stats.binomtest(int(at_end.sum()), len(Z), 1 - channel.often).pvalue > 1e-6
    upper = channel.least + (1 - 2 * channel.least) * given[at_end, 0]
    spread = np.sqrt((upper * (1 - upper)).sum())
    assert abs(high.sum() - upper.sum()) < 5.5 * spread
    return Z[~at_end], given[~at_end], channel.window


def compare_vectors(channel, Z, given):
    """The truth's cap is hit as often as stated, and vectors are right on average."""
    vector, length = channel.inner, np.sqrt(channel.inner.dimension)
    hit = int(np.sum(np.einsum("ij,ij->i", Z, given) >= vector.tail * vector.scale))
    assert stats.binomtest(hit, len(Z), vector.near).pvalue > 1e-6
    assert stats.binomtest(hit, len(Z), 1 - (1 - vector.near) / 1.3).pvalue < 1e-20
    off = (Z - vector.radius * given).mean(axis=0) * np.sqrt(len(Z)) / vector.scale
    assert np.sqrt((off**2).sum()) < length + 6
    wrong = (Z * 1.3 - vector.radius * given).mean(axis=0) * np.sqrt(len(Z)) / vector.scale
    assert np.sqrt((wrong**2).sum()) > length + 12


def compare_anything(channel, Z):
    """What stands for missing cells says nothing of them: any outcome is as likely."""
    if channel.numbers:
        low, high, _ = channel.reach(0.0, 1.0, 0.0)
        assert stats.kstest((Z[:, 0] - low) / (high - low), "uniform").pvalue > 1e-6
    else:
        assert stats.chisquare(Z[:, :-1].sum(axis=0)).pvalue > 1e-6


def compare_answers(channel, Z, given):
    kept = int(np.sum(np.all(given == Z, axis=1)))
    assert stats.binomtest(kept, len(Z), channel.kept).pvalue > 1e-6
    if len(Z) * (1 - channel.kept) > 2_500:  # fewer changes cannot tell 30% from chance
        assert stats.binomtest(kept, len(Z), 1 - (1 - channel.kept) / 1.3).pvalue < 1e-20


def compare_bits(channel, Z, given):
    """The bit is 1 as often as link and floor say; another floor is rejected."""
    for floor, fits in ((channel.floor, True), (0.7 * channel.floor or 0.1, False)):
        q = floored(given, floor, channel.link)
        spread = np.sqrt(max(float((q * (1 - q)).sum()), 1.0))
        found = abs(float((Z - q).sum())) / spread
        assert found < 5.5 if fits else True
    ones = np.exp(channel.log_likelihood(np.ones((1, 1)), given))
    assert np.allclose(ones, floored(given, channel.floor, channel.link).T)


def check_gaps_say_nothing(mechanism):
    """Which cells a row leaves out does not depend on what it holds: other rows, the same stream, the same gaps."""
    fit, X, y = fitted(mechanism)
    _, others, _ = tables_for(mechanism, seed=7)
    if not fit.recipe_.left_out:
        return
    gaps = [np.isnan(fit.perturb(rows, y, stream(0)).X) for rows in (X, others)]
    assert np.array_equal(*gaps)
    assert 0 < gaps[0].mean() < 1
    if fit.recipe_.reports is not None:
        first = [
            place.start for place, one in zip(fit.recipe_.places, fit.recipe_.channels, strict=True) if one.leaves_out
        ]
        assert ((~gaps[0][:, first]).sum(axis=1) == fit.recipe_.reports).all()


def check_shapes_and_card(mechanism):
    fit, X, y = fitted(mechanism)
    released, recipe = fit.perturb(X, y, stream(0)), fit.recipe_
    assert released.X.shape == (fit.released(len(X)), recipe.width)
    assert released.X.dtype == np.float64
    assert len(recipe.names()) == (len(fit.encoding_.groups) if recipe.is_columnwise else recipe.width)
    card = make_card(Layout(fit, fit.encoding_), fit.guarantee(), rows=len(X))
    back = Card.from_dict(json.loads(card.to_json())).made_by()
    assert back.to_dict() == recipe.to_dict()
    assert back.epsilons() == recipe.epsilons()
    if back.map.affine() is not None:
        matrix, offset = back.map.affine()
        assert np.allclose(X @ matrix.T + offset, recipe.map.apply(X))
    assert card.papers
    assert card.threat_model["not_protected"]


def check_the_coordinator_computes_the_same(mechanism):
    """From the card alone, the figures that the owner's program stated, to the last digit; no kind is claimed more."""
    fit, X, _ = fitted(mechanism)
    card = make_card(Layout(fit, fit.encoding_), fit.guarantee(), rows=len(X))
    found, stated = recomputed(Card.from_dict(json.loads(card.to_json()))), fit.guarantee()
    if fit.recipe_.map.kind != "secret" or np.isfinite(stated.record):
        assert (found.component, found.column, found.record) == (stated.component, stated.column, stated.record)
    assert found.kind == stated.kind


def check_only_public_and_exact_is_formal(mechanism):
    fit, _, _ = fitted(mechanism)
    public, exact = not fit.encoding_.learned, fit.recipe_.path.startswith("exact")
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
    differs = one[3] != other[3] or not all(
        np.array_equal(a, b, equal_nan=True) for a, b in zip(one[:3], other[:3], strict=True)
    )
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
