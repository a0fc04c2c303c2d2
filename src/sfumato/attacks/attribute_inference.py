"""Attribute inference: all but one of a person's values are known; what is the last one?"""

from __future__ import annotations

import numpy as np

from sfumato.attacks.base import Abstain, Attack, Guess, Knowledge, Secrets
from sfumato.attacks.nearest_row import comparable_rows, comparable_weights, held_slots
from sfumato.attacks.observation import into_domain
from sfumato.attacks.support import nearest_reported
from sfumato.core.accepted import Whole
from sfumato.core.array_types import Matrix
from sfumato.mechanisms.parameters import parameter


class AttributeInference(Attack):
    """The adversary knows all about a person but one secret, and reads it off the release rows most like the person.

    He compares the columns he knows (in the source space, with the transform turned back where there is one), and takes
    the secret of the `neighbours` nearest release rows, weighted by 1/distance^2: the weighted median of a number, the
    weighted vote for a category. A row that fits exactly therefore decides alone. The same attack on people who were
    not in the table says how much of it is only what anybody can infer about such a person.

    Parameters
    ----------
    neighbours : int, default=5
        Released rows that are asked, from 1 to 1,000.
    """

    name = "attribute-inference"
    reads_gaps = True
    knows = frozenset({"release", "targets", "secret"})
    helps = frozenset({"transform", "noise", "noise_covariance", "column_moments"})
    neighbours: int = parameter(default=5, accepted=Whole(1, 1_000))

    def guess(self, known: Knowledge) -> Guess:
        """The secret of every target."""
        assert known.targets is not None
        assert known.secret is not None
        others = [number for number in range(len(known.encoding.groups)) if number != known.secret]
        held = held_slots(known, others)
        if not len(held):
            return Abstain("needs at least one column besides the secret")
        group = known.encoding.groups[known.secret]
        R = comparable_rows(known)
        R = R[~np.isnan(R[:, group.start])]
        if not len(R):
            return Abstain("no row of the release reports the secret column")
        weights = comparable_weights(known)[held]
        k = min(self.neighbours, len(R))
        distance, index = nearest_reported(known.targets[:, held] * weights, R[:, held] * weights, k)
        votes = 1.0 / (distance**2 + 1e-12)
        seen = into_domain(R[:, group.start : group.stop])[index]  # targets x neighbours x width
        mean = np.einsum("tk,tkw->tw", votes, seen) / votes.sum(axis=1, keepdims=True)
        if not group.is_onehot:
            mean[:, 0] = weighted_median(seen[:, :, 0], votes)
        return Secrets(mean, known.secret)


def weighted_median(values: Matrix, weights: Matrix) -> Matrix:
    """Per row the smallest value at which half of the row's weight is reached."""
    order = np.argsort(values, axis=1)
    heavy = np.cumsum(np.take_along_axis(weights, order, axis=1), axis=1)
    middle = (heavy >= 0.5 * heavy[:, -1:]).argmax(axis=1)
    return np.asarray(np.take_along_axis(values, np.take_along_axis(order, middle[:, None], axis=1), axis=1)[:, 0])
