"""The fixed point of ICA: the same as scikit-learn's, and given up early where there is nothing to find."""

import numpy as np
import pytest
from sklearn.decomposition import FastICA

from sfumato.attacks import independent_components as unmixing
from sfumato.attacks.independent_components import CONTRASTS, unmixing_rotation


def white(X):
    X = X - X.mean(axis=0)
    values, vectors = np.linalg.eigh(np.cov(X, rowvar=False, bias=True))
    return X @ (vectors / np.sqrt(values))


@pytest.mark.parametrize("contrast", CONTRASTS)
def test_components_are_those_of_scikit_learn(contrast):
    rng = np.random.default_rng(3)
    X = white(rng.uniform(-1, 1, (4_000, 4)) @ rng.standard_normal((4, 4)))
    start = np.linalg.qr(rng.standard_normal((4, 4)))[0]
    ours = unmixing_rotation(X, contrast, start, 200)
    peer = FastICA(fun=contrast, whiten=False, w_init=start, max_iter=200, tol=1e-6).fit(X)
    assert ours is not None
    assert np.abs(np.abs(ours) - np.abs(peer.components_)).max() < 1e-6


def test_normal_columns_are_given_up_long_before_the_last_round(monkeypatch):
    """A mixture of normal columns has no components: the rounds that are left would be spent for nothing."""
    rounds = []
    usual = unmixing._orthonormal
    monkeypatch.setattr(unmixing, "_orthonormal", lambda W: rounds.append(1) or usual(W))
    rng = np.random.default_rng(0)
    X = white(rng.standard_normal((3_000, 30)))
    assert unmixing_rotation(X, "logcosh", np.linalg.qr(rng.standard_normal((30, 30)))[0], 2_000) is None
    assert len(rounds) < 400
