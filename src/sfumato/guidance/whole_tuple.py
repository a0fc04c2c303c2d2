"""Whole-tuple response, the older scheme that the guided survey is compared with [guided-survey, Eq. 2].

A respondent sends the whole answer t as it is with probability theta, and else its complement: every bit turned over.
One coin decides for all questions, so that a row tells t but for one bit of doubt, however many questions there are.
No other answer can give the same row (but the complement itself, where all questions are binary), so that the
likelihood ratio has no bound: with more than one question there is no epsilon. It is a baseline, not a protection.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from sfumato.array_types import Bits
from sfumato.errors import UsageError
from sfumato.guidance.disclosure import Disclosure, answer_entropy, joint_entropy
from sfumato.guidance.space import AnswerSpace, checked_bits

THETA = 0.7


def whole_tuple_response(t: ArrayLike, uniforms: ArrayLike, theta: float = THETA) -> Bits:
    """The rows that are sent: t where the row's uniform number is below `theta`, else every bit turned over.

    >>> whole_tuple_response([[1, 0, 0, 1], [0, 1, 0, 1]], [0.2, 0.9])
    array([[1, 0, 0, 1],
           [1, 0, 1, 0]], dtype=uint8)
    """
    _check(theta)
    rows = checked_bits(t, np.atleast_2d(np.asarray(t)).shape[1])
    drawn = np.asarray(uniforms, dtype=np.float64)
    if drawn.shape != (len(rows),):
        raise UsageError(f"Every row needs one uniform number: {len(rows)} are needed, {drawn.size} were given.")
    return np.asarray(np.where((drawn < theta)[:, None], rows, 1 - rows), dtype=np.uint8)


def whole_tuple_disclosure(codes: ArrayLike, space: AnswerSpace, theta: float = THETA) -> Disclosure:
    """I(t; R) of people like `codes`, exactly: what is left in doubt is only whether the row or its complement is true.

    >>> people = [[0, 0], [1, 1], [0, 1], [1, 0]]
    >>> round(whole_tuple_disclosure(people, AnswerSpace((2, 2)), 0.5).bits, 6)
    1.0
    """
    _check(theta)
    people, counts = np.unique(np.atleast_2d(np.asarray(codes)), axis=0, return_counts=True)
    prior = {row.tobytes(): share for row, share in zip(space.onehot(people), counts / counts.sum(), strict=True)}
    told = 0.0
    for row in space.onehot(people):
        mine, other = prior[row.tobytes()], prior.get((1 - row).astype(np.uint8).tobytes(), 0.0)
        for chance, against in ((theta, 1 - theta), (1 - theta, theta)):  # sent as it is, or turned over
            if chance > 0:
                told += mine * chance * np.log2(chance / (chance * mine + against * other))
    told = float(told)
    alone, joint = answer_entropy(codes, space), joint_entropy(codes)
    return Disclosure(told / alone if alone else 0.0, told, 0.0, told / joint if joint else 0.0)


def _check(theta: float) -> None:
    if isinstance(theta, bool) or not isinstance(theta, int | float | np.floating) or not 0.5 <= theta <= 1:
        raise UsageError(f"The 'theta' parameter must be a number from 0.5 to 1. Got {theta!r} instead.")
