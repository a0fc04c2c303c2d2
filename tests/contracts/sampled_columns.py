"""Mechanisms for tests that leave cells out: one that says so, one that mixes columns, and one that keeps silent."""

from dataclasses import replace

import numpy as np

from sfumato.channels import Identity, Recipe, Sampled, laplace_channels
from sfumato.mechanisms import PrincipalLaplace
from sfumato.mechanisms.base import Block, Mechanism
from sfumato.mechanisms.columnwise import columnwise_channel


class SampledColumns(Mechanism):
    """Every row reports `columns` of its columns, chosen at random, and leaves the others out."""

    name = "sampled-columns"
    columnwise = True
    proves = True
    papers = ("principal-laplace",)
    rests_on = ("Which columns a row reports is drawn without looking at it.",)
    not_protected = ("Which columns a row reports is public.",)

    learns = False
    columns: int = 2
    scale: float = 0.3

    def fit_statistics(self, statistics, encoding, key=None):  # noqa: ARG002
        self.encoding_ = encoding
        one = np.ones(1)
        number = laplace_channels(0 * one, one, self.scale * one, exact=True)[0]
        rate = self.columns / len(encoding.groups)
        inside = (columnwise_channel(group, number, 1 / self.scale) for group in encoding.groups)
        self.recipe_ = Recipe(encoding, Identity(encoding.width), tuple(Sampled(one, rate) for one in inside))
        return self

    def perturb(self, X, y, rng):
        out = np.full(X.shape, np.nan)
        chosen = np.argsort(rng.random((len(X), len(self.recipe_.channels))), axis=1)[:, : self.columns]
        for number, (place, channel) in enumerate(zip(self.recipe_.places, self.recipe_.channels, strict=True)):
            rows = np.flatnonzero((chosen == number).any(axis=1))
            out[rows, place] = channel.inner.draw(np.ascontiguousarray(X[rows, place]), rng)
        return Block(out, y, np.arange(len(X)))


class SampledComponents(PrincipalLaplace):
    """Principal components, each of which half of the rows leave out."""

    name = "sampled-components"

    def fit_scores(self, statistics):
        super().fit_scores(statistics)
        return self._leave_out()

    def fit_statistics(self, statistics, encoding, key=None):
        super().fit_statistics(statistics, encoding, key)
        return self._leave_out()

    def _leave_out(self):
        if hasattr(self, "recipe_"):
            channels = (one if one.leaves_out else Sampled(one, 0.5) for one in self.recipe_.channels)
            self.recipe_ = replace(self.recipe_, channels=tuple(channels))
        return self

    def perturb(self, X, y, rng):
        return Block(self.recipe_.perturb(X, rng), y, np.arange(len(X)))


class Silent(SampledColumns):
    """Leaves half of its cells empty, and its channels do not say so."""

    name = "silent"

    def fit_statistics(self, statistics, encoding, key=None):
        super().fit_statistics(statistics, encoding, key)
        channels = tuple(channel.inner for channel in self.recipe_.channels)
        self.recipe_ = replace(self.recipe_, channels=channels)
        return self

    def perturb(self, X, y, rng):
        Z = self.recipe_.perturb(X, rng)
        for place in self.recipe_.places:
            Z[rng.random(len(Z)) < 0.5, place] = np.nan
        return Block(Z, y, np.arange(len(X)))


HERE = {one.name: one for one in (SampledColumns, SampledComponents, Silent)}
