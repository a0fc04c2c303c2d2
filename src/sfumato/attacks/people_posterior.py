"""Bayes' rule over people whose values are smoothed, quickly: everything is a sum over places in a column.

A person's weight is the product over columns of c_k(place of the person in column k), with c_k = f_k S_k' what the
channel says of the column's values, smoothed. So the log-weights of all people are one sparse product. And since all
people at one place of column k share c_k, what is believed of column k given a row is
f_k(x) sum_b S_k(b, x) (weight of the people at b) / c_k(b): one more sparse product gives the weights at all places.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from sfumato.array_types import Codes, Matrix

CELLS = 4_000_000
"""Cells of a block: release rows times people."""


@dataclass(frozen=True)
class Placed:
    """People as places in the supports of all columns, side by side: a sparse matrix of ones, people x places."""

    ones: sparse.csr_matrix
    back: sparse.csr_matrix
    ends: Codes
    log_prior: Matrix

    @classmethod
    def of(cls, places: Sequence[Codes], sizes: Sequence[int], log_prior: Matrix) -> Placed:
        people, columns = len(places[0]), len(places)
        ends = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        index = (np.column_stack(places) + ends[:-1]).ravel()
        shape = (people, int(ends[-1]))
        ones = sparse.csr_matrix((np.ones(len(index), np.float32), index, np.arange(people + 1) * columns), shape=shape)
        back = ones.T.tocsr()
        return cls(ones, back, ends, (log_prior - log_prior.max()).astype(np.float32))

    @property
    def people(self) -> int:
        return int(self.ones.shape[0])

    def weights(self, smoothed: Sequence[Any], without: Codes | None = None) -> Any:
        """Posterior weights (people x rows); `smoothed` are the c_k, `without` whom to leave out for each row."""
        with np.errstate(divide="ignore"):
            told = np.log(np.concatenate([part.T for part in smoothed]), dtype=np.float32)
        log = self.ones @ np.ascontiguousarray(told)
        log += self.log_prior[:, None]
        if without is not None:
            log[without, np.arange(len(without))] = -np.inf
        log -= log.max(axis=0)
        np.exp(log, out=log)
        log /= log.sum(axis=0)
        return log

    def at_places(self, weights: Any) -> list[Any]:
        """Per column the weight of the people at each of its places (rows x places)."""
        found = np.asarray(self.back @ weights)
        return [found[start:stop].T for start, stop in zip(self.ends[:-1], self.ends[1:], strict=True)]


def believed(told: Any, smoothed: Any, smoothing: Matrix, weights: Any) -> Matrix:
    """What is believed of one column (rows x places), rows summing to 1: see above; `told` is f_k, `smoothed` c_k."""
    found = told * ((weights / smoothed) @ smoothing)
    total = found.sum(axis=1, keepdims=True)
    return np.asarray(found / np.where(total > 0, total, 1.0))
