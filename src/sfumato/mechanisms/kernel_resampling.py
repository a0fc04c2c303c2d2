"""New rows from a kernel density estimate of each class: one-way sharing between sites [kernel-resampling]."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from numbers import Real
from typing import Any, Self

import numpy as np

from sfumato.array_types import Matrix
from sfumato.channels import Additive, Channel, Exact, Identity, OrMissing, RandomizedResponse, Recipe
from sfumato.errors import TableError, UsageError
from sfumato.guarantee import Key
from sfumato.mechanisms.bandwidth import RULES, category_mixing, epanechnikov_factor, reference_width
from sfumato.mechanisms.row_drawing import RowDrawing
from sfumato.noise import Epanechnikov, Normal
from sfumato.statistics import Moments, Statistics
from sfumato.table import Encoding, Group
from sfumato.wording import counted

KERNELS: dict[str, type[Epanechnikov] | type[Normal]] = {"epanechnikov": Epanechnikov, "gaussian": Normal}
NO_GUARANTEE = (
    "Every row lies within {near} of a real person, and there is no guarantee for the record: a released row is "
    "somebody's row with each number moved by {moved}, where h is the bandwidth that this card states for the column "
    "and class. {categories}A person may be drawn several times, or not at all."
)
NEAR = {"epanechnikov": "h", "gaussian": "a few h"}
MOVED = {
    "epanechnikov": "at most h, with certainty",
    "gaussian": "normal noise of standard deviation h (within 3 h in 997 of 1,000 cases)",
}
PER_DRAW = (
    "Categories and empty cells are kept with the stated probability; the bound that this gives holds per draw only. "
)
TILE = 1 << 14
"""Values smoothed at a time, so that noise and rows meet in a core's cache."""


class KernelResamplingWarning(UserWarning):
    """Columns that are released as they are."""


@dataclass(frozen=True)
class ClassKernel:
    """The kernel of one class: bandwidth per encoded column (0: no smoothing), and how categories are redrawn."""

    widths: Matrix
    responses: dict[int, RandomizedResponse]


class KernelResampling(RowDrawing):
    """Draw new rows from a product kernel density estimate of the rows of each class [kernel-resampling, Alg. 1].

    A row r of the class is picked at random and h_i u_i is added to its i-th number, u_i Epanechnikov (the median of
    three uniforms on [-1, 1]) or standard normal. Eq. 16 gives h_i = (4/(d+2))^(1/(d+4)) N^(-1/(d+4)) sigma_i from the
    class's N rows and unbiased sigma_i; it is the rule for a Gaussian kernel, so the default widens it for the
    Epanechnikov kernel to smooth as much (about 2.2 times: see `bandwidth`). Integers and ordinals are smoothed as
    numbers. Categories have the Aitchison-Aitken kernel: kept, or with probability m drawn anew from all of
    them (lambda = m (c - 1) / c). An empty cell is a category of two, and one that is filled gets a value from
    anywhere in the range. A column that is constant in a class stays as it is there.

    Parameters
    ----------
    kernel : "epanechnikov" or "gaussian".
    bandwidth : "scaled" (Eq. 16 made right for the kernel and the columns that vary in the class), "published"
        (Eq. 16 as it stands), or h itself as a share of every column's range, which then depends on no data.
    rows : rows to release: None as many as there are, a count (1000), or a share (0.5).
    category_mixing : m; None lets it follow from N and d, so that categories lose as much correlation as numbers.
    """

    name = "kernel-resampling"
    columnwise = True
    papers = ("kernel-resampling",)
    not_protected = (
        "Every released row lies within its bandwidth of a real person's row, and most have that row as their nearest: "
        "who holds the person's record recognises it.",
        "A person who is drawn several times is narrowed down further by every draw.",
        "A column that is constant within a class is released as it is, for everybody in that class.",
    )

    def __init__(
        self,
        kernel: str = "epanechnikov",
        bandwidth: str | float = "scaled",
        rows: float | int | None = None,
        category_mixing: float | None = None,
    ):
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.rows = rows
        self.category_mixing = category_mixing

    def fit_statistics(self, statistics: Statistics, encoding: Encoding, key: Key | None = None) -> Self:  # noqa: ARG002
        self._check_choice(tuple(KERNELS), kernel=self.kernel)
        self._check_widths()
        self.encoding_ = encoding
        self._set_draws(statistics)
        alone = sum(count == 1 for count in self.counts_.values())
        if alone and isinstance(self.bandwidth, str):
            raise TableError(
                f"{alone} of {len(self.counts_)} classes have a single row: its spread is unknown, so that it would be "
                "released as it is. Merge rare classes or leave them out, or give the bandwidth as a number."
            )
        self.kernels_ = {code: self._class_kernel(statistics[code]) for code in self.counts_}
        self._warn_of_constants()
        by_class = {code: self._channels(kernel.widths, kernel.responses) for code, kernel in self.kernels_.items()}
        self.recipe_ = Recipe(encoding, Identity(encoding.width), self._widest(), "drawn", by_class)
        return self

    def _widest(self) -> tuple[Channel, ...]:
        """Of the class with the widest kernel, column by column."""
        kernels = list(self.kernels_.values())
        places = kernels[0].responses
        loosest = {place: min((k.responses[place] for k in kernels), key=lambda r: r.keep) for place in places}
        return self._channels(np.max([kernel.widths for kernel in kernels], axis=0), loosest)

    def _channels(self, widths: Matrix, responses: dict[int, RandomizedResponse]) -> tuple[Channel, ...]:
        found: list[Channel] = []
        for place, group in enumerate(self.encoding_.groups):
            width = float(widths[group.start])
            number: Channel = Additive(KERNELS[self.kernel](width)) if width > 0 else Exact()
            if group.is_onehot:
                number = responses[place]
            elif group.has_indicator:
                number = OrMissing(number, responses[place].keep, anywhere=not group.is_constant)
            found.append(number)
        return tuple(found)

    def _check_widths(self) -> None:
        number = isinstance(self.bandwidth, Real) and not isinstance(self.bandwidth, bool)
        if not (self.bandwidth in RULES if isinstance(self.bandwidth, str) else number and 0 < self.bandwidth < np.inf):
            raise UsageError(
                f"The 'bandwidth' parameter of KernelResampling must be {', '.join(RULES)} or a positive share of the "
                f"columns' range (0.1). Got {self.bandwidth!r} instead."
            )
        mixing = self.category_mixing
        if mixing is not None and (isinstance(mixing, bool) or not isinstance(mixing, Real) or not 0 <= mixing < 1):
            raise UsageError(
                "The 'category_mixing' parameter of KernelResampling must be a probability below 1. "
                f"Got {mixing!r} instead."
            )

    def _numbers(self) -> list[Group]:
        return [group for group in self.encoding_.groups if not group.is_onehot]

    def _class_kernel(self, moments: Moments) -> ClassKernel:
        numbers = [group.start for group in self._numbers()]
        sigma = np.zeros(self.encoding_.width)
        # What is constant must stay so: rounding leaves a speck of variance where there is none.
        varies = moments.high[numbers] > moments.low[numbers]
        sigma[numbers] = np.where(varies, np.sqrt(np.maximum(np.diag(moments.covariance()), 0.0)[numbers]), 0.0)
        columns = len(numbers) if self.bandwidth == "published" else int(varies.sum())
        if isinstance(self.bandwidth, str):
            widths = sigma * reference_width(moments.n, columns)
            if self.bandwidth == "scaled" and self.kernel == "epanechnikov":
                widths *= epanechnikov_factor(columns)
        else:
            widths = np.zeros_like(sigma)
            widths[[group.start for group in self._numbers() if not group.is_constant]] = float(self.bandwidth)
        mixing = category_mixing(moments.n, columns) if self.category_mixing is None else float(self.category_mixing)
        responses = {
            place: RandomizedResponse.of_epsilon(kept_epsilon(mixing, group), group.width if group.is_onehot else 2)
            for place, group in enumerate(self.encoding_.groups)
            if group.is_onehot or group.has_indicator
        }
        return ClassKernel(widths, responses)

    def _warn_of_constants(self) -> None:
        wide = [group.start for group in self._numbers() if not group.is_constant]
        self.unsmoothed_ = sum(int((kernel.widths[wide] == 0).sum()) for kernel in self.kernels_.values())
        if self.unsmoothed_:
            warnings.warn(
                f"{counted(self.unsmoothed_, 'time')} a column is constant within a class and is released as it is, "
                "for everybody in the class. Drop such columns, or give the bandwidth as a number.",
                KernelResamplingWarning,
                stacklevel=4,
            )

    def smooth(self, columns: Matrix, code: int, rng: np.random.Generator) -> None:
        kernel = self.kernels_[code]
        for group in self._numbers():
            width = float(kernel.widths[group.start])
            if width > 0:
                law, values = KERNELS[self.kernel](width), columns[group.start]
                for start in range(0, len(values), TILE):
                    part = values[start : start + TILE]
                    part += law.sample(rng, len(part))
        for place, response in kernel.responses.items():
            group = self.encoding_.groups[place]
            was_empty = None if group.is_onehot else columns[group.stop - 1] > 0.5
            if group.is_onehot:
                columns[group.slice] = response.draw(columns[group.slice].T, rng).T
            else:
                columns[group.stop - 1] = response.draw_codes((columns[group.stop - 1] > 0.5).astype(np.int64), rng)
            if was_empty is not None:
                self._fill(columns, group, was_empty, rng)

    def _fill(self, columns: Matrix, group: Group, was_empty: Any, rng: np.random.Generator) -> None:
        """A cell that was empty and is now shown has a value from anywhere; one that is empty now has none."""
        empty = columns[group.stop - 1] > 0.5
        filled = was_empty & ~empty
        columns[group.start, empty] = 0.5
        columns[group.start, filled] = 0.5 if group.is_constant else rng.random(int(filled.sum()))

    def sentence(self) -> str:
        has_categories = any(kernel.responses for kernel in self.kernels_.values())
        return NO_GUARANTEE.format(
            near=NEAR[self.kernel], moved=MOVED[self.kernel], categories=PER_DRAW if has_categories else ""
        )

    def learned(self) -> list[str]:
        found = [*super().learned(), "number of rows of every class"]
        if isinstance(self.bandwidth, str):
            found.append("bandwidths, from the standard deviation of every column in every class")
        return found

    def notes(self) -> dict[str, Any]:
        return {"unsmoothed_columns": self.unsmoothed_} if self.unsmoothed_ else {}


def kept_epsilon(mixing: float, group: Group) -> float:
    """Log-ratio of keeping a category to drawing any other one, ``log(1 + c (1 - m) / m)``: the epsilon of one draw."""
    categories = group.width if group.is_onehot else 2
    return math.inf if mixing == 0 else math.log1p(categories * (1.0 - mixing) / mixing)
