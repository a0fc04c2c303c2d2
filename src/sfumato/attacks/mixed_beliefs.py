"""What is believed of every column behind a release that mixes columns by a known map.

People are smoothed by a normal kernel of covariance H, a share of their own covariance. A released component is then
as likely for a person as its channel says, blurred by the kernel. Given a person x, the row behind z = A x + c + noise
lies about x + K (z - A x - c), K = H A' (A H A' + N)^-1, with covariance H - K A H: the linear answer within the
kernel, which is exact for normal noise, leaves people where they are under strong noise and inverts the map where there
is none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from sfumato.attacks.base import Knowledge, KnownNoise, Transform
from sfumato.attacks.column_beliefs import LEAST
from sfumato.attacks.like_people import Likely, Placed
from sfumato.attacks.support import Support
from sfumato.attacks.window import best_window, half_width
from sfumato.channels import NotApplicableError, draw
from sfumato.core.array_types import Codes, Matrix

SPECK = 0.01
"""Standard deviation that every source column has within the kernel, also where the sample does not vary."""
MOST_CELLS = 2_000
FINER = 2
"""Cells of a component, per cell of a column."""


class MixedBeliefs:
    """People of one class behind an affine map and known channels of its components."""

    def __init__(
        self, known: Knowledge, noise: KnownNoise, people: Likely, cells: int, transform: Transform | None = None
    ) -> None:
        """`transform`: the map that mixes columns, where it is not the release's own."""
        if any(channel.width != 1 for channel in noise.channels):
            raise NotApplicableError("some components of the release were blurred together, not one by one")
        self.encoding, self.noise, self.X, self.cells = known.encoding, noise, people.X, cells
        self.log_prior, self.has_gaps = people.log_prior, bool(np.isnan(known.release).any())
        transform = known.transform if transform is None else transform
        assert transform is not None
        self.map, self.variance = _given(transform, noise)
        self.given = people.X @ self.map.matrix.T + self.map.offset
        ends = zip(self.given.min(axis=0), self.given.max(axis=0), strict=True)
        self.supports = [Support.between(float(low), float(high), FINER * cells) for low, high in ends]
        places = [one.places(self.given[:, [slot]]) for slot, one in enumerate(self.supports)]
        self.placed = Placed.of(places, [len(one.values) for one in self.supports], people.log_prior)
        self.back: Placed | None = None

    @property
    def people(self) -> int:
        return self.placed.people

    def smooth(self, share: float) -> None:
        """Set how far people stand for others like them: a share of the spread of all."""
        A = self.map.matrix
        d = self.X.shape[1]
        spread = np.atleast_2d(np.cov(self.X, rowvar=False)) if len(self.X) > 1 else np.zeros((d, d))
        H = share**2 * (spread + SPECK**2 * np.eye(d))
        across = A @ H @ A.T
        widths = np.sqrt(np.maximum(np.diag(across), 0.0))
        self.smoothing = [one.smoothing(float(w), 0.0) for one, w in zip(self.supports, widths, strict=True)]
        speck = 1e-9 * max(float(np.trace(across)) / len(across), 1e-12)
        self.gain = np.linalg.lstsq(across + np.diag(self.variance + speck), A @ H, rcond=1e-13)[0].T
        if self.has_gaps:
            self.gain = np.zeros_like(self.gain)  # people stay where they are
        self.left = np.sqrt(np.maximum(np.diag(H - self.gain @ A @ H), 0.0))
        self.back = None

    def _place(self) -> None:
        """Where people lie in the source columns before a row moves them."""
        if self.back is not None:
            return
        A = self.map.matrix
        self.fixed = self.X - (self.X @ A.T) @ self.gain.T
        self.sources, places = [], []
        for group in self.encoding.groups:
            column = self.fixed[:, group.start]
            one = Support.of_group(group, self.cells)
            if not group.is_onehot:
                beyond = 4.0 * float(self.left[group.start])
                low, high = float(column.min()) - beyond, float(column.max()) + beyond
                one = Support.between(low, high, min(MOST_CELLS, max(2, math.ceil((high - low) * self.cells))))
                places.append(one.places(column[:, None]))
            else:
                places.append(one.places(self.X[:, group.slice]))
            self.sources.append((group, one, one.smoothing(float(self.left[group.start]), 0.0)))
        self.back = Placed.of(places, [len(one.values) for _, one, _ in self.sources], self.log_prior)

    def told(self, Z: Matrix) -> list[Any]:
        """What the channels say of every component's values, given these rows."""
        parts = zip(self.supports, self.noise.channels, self.noise.lines, strict=True)
        return [
            support.likelihood(channel, Z[:, [slot]], line).astype(np.float32)
            for slot, (support, channel, line) in enumerate(parts)
        ]

    def _smoothed(self, told: Sequence[Any]) -> list[Any]:
        return [part @ S.T.astype(np.float32) for part, S in zip(told, self.smoothing, strict=True)]

    def simulated(self, own: Codes, rng: np.random.Generator) -> Matrix:
        """These people of the list, released as the channels would."""
        return draw(self.noise.channels, np.array(self.given[own]), rng)

    def fit(self, Z: Matrix, own: Codes) -> float:
        """How much is believed of the truth behind simulated rows, in logarithms, by a list without these people."""
        self._place()
        assert self.back is not None
        weights = self.placed.weights(self._smoothed(self.told(Z)), own)
        moved, at, total = self._moved(Z), self.back.at_places(weights), 0.0
        mean = np.clip(weights.T @ self.fixed + moved, 0.0, 1.0)
        for number, (group, support, S) in enumerate(self.sources):
            if group.is_onehot:
                found = (mean[:, group.slice] * self.X[own][:, group.slice]).sum(axis=1)
            else:
                place = support.places(self.X[own][:, [group.start]] - moved[:, [group.start]])
                found = (at[number] @ S)[np.arange(len(Z)), place] / max(support.extent * self.cells, 1e-9)
            total += float(np.log(np.maximum(found, LEAST)).sum())
        return total

    def _moved(self, Z: Matrix) -> Matrix:
        """How far a row moves people, in every source column."""
        seen = self.noise.before(Z) - self.map.offset
        return np.asarray(np.where(np.isnan(seen), 0.0, seen) @ self.gain.T)

    def guess(self, Z: Matrix, tolerance: float, out: Matrix, mean: Matrix, sure: Matrix) -> None:
        """Fill `out` with the best guesses, `mean` with posterior means, `sure` with how sure each guess is."""
        self._place()
        weights, moved = self.placed.weights(self._smoothed(self.told(Z))), self._moved(Z)
        mean[:] = np.clip(weights.T @ self.fixed + moved, 0.0, 1.0)
        assert self.back is not None
        at = self.back.at_places(weights)
        for number, (group, support, S) in enumerate(self.sources):
            where = group.slice
            if group.is_onehot:
                best = mean[:, where].argmax(axis=1)
                out[:, where] = group.vertices[best]
                sure[:, number] = mean[np.arange(len(mean)), group.start + best]
                continue
            belief = at[number] @ S
            middle, mass = best_window(support.line, belief, half_width(group, tolerance), support.extent)
            out[:, group.start], sure[:, number] = np.clip(middle + moved[:, group.start], 0.0, 1.0), mass
            if group.has_indicator:
                chance = mean[:, group.stop - 1]
                missing = chance > 0.5
                out[:, where] = np.where(missing[:, None], [0.5, 1.0], np.column_stack([out[:, group.start], missing]))
                sure[:, number] = np.where(missing, chance, (1.0 - chance) * mass)


def _given(transform: Transform, noise: KnownNoise) -> tuple[Transform, Matrix]:
    """The map to what the channels are given, and the variance that each adds in these units."""
    matrix, offset = (np.array(part, dtype=np.float64) for part in transform)
    variance = np.zeros(len(offset))
    for slot, (channel, line) in enumerate(zip(noise.channels, noise.lines, strict=True)):
        if line is None:
            raise NotApplicableError(f"{channel.tag} components are no linear function of the columns plus noise")
        if not channel.is_exact:
            gain = float(line.gain[0, 0]) or 1e-12
            matrix[slot], offset[slot] = matrix[slot] / gain, (offset[slot] - line.offset[0]) / gain
            variance[slot] = min(line.covariance[0, 0] / gain**2, 1e6)
    return Transform(matrix, offset), variance
