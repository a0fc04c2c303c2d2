"""Released entries made unbiased, and what noise adds to their products.

w has E[w | x] = x in the encoding of plain rows, and `extra` is an unbiased estimate, row by row, of what noise adds to
the square: E[w^2 - extra | x] = x^2. It is the noise's variance where noise is added. Where (z - o) = f (x - o), it is
(w - o)^2 r / (1 + r) with r = Var f / (E f)^2. A one-hot entry is its own square, so extra = w^2 - w, and products of
two slots of one column are 0. Noise of different columns is independent and adds nothing to their products, unless they
share it (`channels.mixed`): then its covariance is taken off.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sfumato.array_types import Matrix
from sfumato.channels import Channel, NotApplicableError, apart
from sfumato.errors import CardError, UsageError
from sfumato.mining.seen import Part, Piece, pieces_of


@dataclass(frozen=True, eq=False)
class Unbiased:
    """Encoded source columns: entries w (n x d, NaN where not reported), and `products` (d x d, or n x d on the
    diagonal): what is to be taken off w w'."""

    W: Matrix
    diagonal: Matrix
    together: Matrix
    """Constant, d x d: of maps that mix columns, whose noise is mixed with them. 0 elsewhere."""
    onehot: tuple[slice, ...]


def unbiased(part: Part, *, own_space: bool = False) -> Unbiased:
    """Of one part; refused where a card does not say enough. `own_space`: components stay as they are."""
    recipe = part.recipe
    pieces = pieces_of(recipe, part.channels)
    W, extra = np.empty_like(part.Z), np.zeros_like(part.Z)
    for piece in pieces:
        if piece.is_category:
            _answers(piece, part.Z, W, extra)
        elif piece.group is not None and piece.group.has_indicator:
            raise UsageError(
                f"Not applicable: cells of column {piece.name!r} can be missing, and a linear model of numbers that "
                "may be missing is not defined for everybody."
            )
        else:
            _numbers(piece, part.Z, W, extra)
    onehot = tuple(piece.place for piece in pieces if piece.is_category)
    if recipe.is_columnwise:
        shared = apart(part.channels)
        together = np.zeros((W.shape[1],) * 2) if shared is None else shared.between(W.shape[1])
        return Unbiased(W, extra, together, onehot)
    if own_space:
        return Unbiased(W, extra, np.zeros((W.shape[1],) * 2), ())
    return _mapped_back(part, W, extra)


def _mapped_back(part: Part, W: Matrix, extra: Matrix) -> Unbiased:
    affine = part.recipe.map.affine()
    if affine is None:
        raise CardError(
            "Not applicable: the map of the release is a secret key, so no source column can be told from it."
        )
    matrix, offset = affine
    if np.linalg.matrix_rank(matrix, tol=1e-9) < matrix.shape[1]:
        raise CardError(
            f"Not applicable: the release keeps {len(matrix)} components of {matrix.shape[1]} encoded columns, so what "
            "source columns do is not all in it. Release with all components, or with a method that keeps columns."
        )
    back = np.linalg.pinv(matrix)
    noise = np.diag(extra.mean(axis=0))
    plain = (W - offset) @ back.T
    onehot = tuple(group.slice for group in part.recipe.encoding.groups if group.is_onehot)
    return Unbiased(plain, np.zeros_like(plain), np.asarray(back @ noise @ back.T), onehot if not noise.any() else ())


def _numbers(piece: Piece, Z: Matrix, W: Matrix, extra: Matrix) -> None:
    channel: Channel = piece.channel
    try:
        slope, offset = channel.mean_line()
    except NotApplicableError as error:
        raise CardError(f"Not applicable: column {piece.name!r} was {error}.") from None
    added, factor = channel.added_moments[0], channel.factor
    if not math.isfinite(added) or (factor is not None and not math.isfinite(factor.variance)):
        raise CardError(f"Not applicable: the noise of column {piece.name!r} has no variance that could be taken out.")
    W[:, piece.place] = (Z[:, piece.place] - offset) / slope
    if factor is None:
        extra[:, piece.place] = added / slope**2
    else:
        relative = factor.variance / factor.mean**2
        extra[:, piece.place] = (W[:, piece.place] - factor.origin) ** 2 * relative / (1.0 + relative)


def _answers(piece: Piece, Z: Matrix, W: Matrix, extra: Matrix) -> None:
    slots = piece.place.stop - piece.place.start
    keep = piece.channel.kept
    other = (1.0 - keep) / max(1, slots - 1)
    if slots > 1 and abs(keep - other) < 1e-9:
        raise UsageError(f"The answers of column {piece.name!r} tell nothing of the truth. Leave it out.")
    w = (Z[:, piece.place] - other) / (keep - other) if slots > 1 else Z[:, piece.place]
    W[:, piece.place], extra[:, piece.place] = w, w**2 - w
