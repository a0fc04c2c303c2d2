"""The stated epsilon put to the test: how well can the best adversary tell two neighbouring records apart?

Two records are released many times over. The likelihood ratio is the best statistic there is [Neyman & Pearson], and
for any event E, epsilon >= ln P(E | x) - ln P(E | x'). The thresholds are a fixed list, and Clopper-Pearson intervals
are widened for their number, so what is returned is below the true epsilon but for a chance of `DOUBT`.
"""

import numpy as np
from scipy import stats

from sfumato.channels import affine_bound

DOUBT = 1e-9
SHARES = (0.999999, 0.9, 0.75, 0.5, 0.25, 0.0)
"""Thresholds of the log-likelihood ratio, as shares of the stated epsilon."""


def worst_pair(mechanism):
    """Two records that the release tells apart best, for the stated epsilon is a maximum over all pairs."""
    recipe, groups = mechanism.recipe_, mechanism.encoding_.groups
    if not recipe.is_columnwise:
        steep = np.array([[channel.steepness] for channel in recipe.channels])
        return _furthest_by_signs(recipe.map.affine()[0] * steep, groups)
    pairs = [_furthest_cells(channel, group) for channel, (group,) in recipe.of_columns()]
    return tuple(np.concatenate([pair[side] for pair in pairs]) for side in (0, 1))


def _furthest_by_signs(scaled, groups):
    components = len(scaled)
    number = np.arange(1 << components)
    signs = 1.0 - 2.0 * ((number[:, None] >> np.arange(components)) & 1)
    value = np.zeros(len(signs))
    for group in groups:
        corners = (signs @ scaled)[:, group.slice] @ group.vertices.T
        value += corners.max(axis=1) - corners.min(axis=1)
    u = signs[value.argmax()] @ scaled
    corners = [(group.vertices, group.vertices @ u[group.slice]) for group in groups]
    assert abs(value.max() - affine_bound._enumerate_signs(scaled, groups)) < 1e-9
    return (
        np.concatenate([points[along.argmax()] for points, along in corners]),
        np.concatenate([points[along.argmin()] for points, along in corners]),
    )


def _furthest_cells(channel, group):
    """Both ends of a number, an end and "missing" where that is further, any two categories."""
    first, second = group.vertices[0], group.vertices[-1]
    if channel.hides_missing:
        return first, group.vertices[1]  # two values; what is missing shows something between them
    if group.has_indicator and not group.is_constant:
        further = channel.inner.moved(0.5) + channel.response.epsilon > channel.inner.moved(1.0)
        second = group.vertices[2 if further else 1]
    return first, second


def log_ratio(mechanism, Z, x, other):
    """ln P(z | x) - ln P(z | other) of every released row."""
    log = mechanism.recipe_.log_likelihood(Z, np.array([x, other]))
    return log[:, 0] - log[:, 1]


def empirical_epsilon(ratios_here, ratios_there, claim):
    """The largest epsilon that the draws prove, over all thresholds and both directions."""
    doubt = DOUBT / (4 * len(SHARES))
    found = 0.0
    for mine, others in ((ratios_here, ratios_there), (-ratios_there, -ratios_here)):
        for share in SHARES:
            inside, outside = np.sum(mine >= share * claim), np.sum(others >= share * claim)
            least = stats.beta.ppf(doubt, inside, len(mine) - inside + 1) if inside else 0.0
            most = stats.beta.ppf(1 - doubt, outside + 1, len(others) - outside)
            if least > 0:
                found = max(found, float(np.log(least) - np.log(most)))
    return found


def proved_epsilon(mechanism, draws, streams):
    """Release the worst pair `draws` times each, and tell what that proves about the record."""
    x, other = worst_pair(mechanism)
    claim = mechanism.guarantee().record
    ratios = []
    for block, record in enumerate((x, other)):
        rows = np.tile(record, (draws, 1))
        Z = mechanism.perturb(rows, None, streams.generator(block, record.tobytes())).X
        ratios.append(log_ratio(mechanism, Z, x, other))
    return empirical_epsilon(*ratios, claim)


def assert_honest(proved, claim):
    """No distinguisher beats the claim, and the best one beats a claim that is 30% too small."""
    assert proved <= claim, f"epsilon {proved:.3f} was proved, and only {claim:.3f} is stated"
    assert proved > 0.7 * claim, f"only {proved:.3f} was proved of {claim:.3f}: the test has no power"
