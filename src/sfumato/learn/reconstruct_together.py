"""Several columns of releases at once: two of them together, and weighted sums [density-reconstruction, 3.3]."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from sfumato.channels import Mixed
from sfumato.core.array_types import Floats
from sfumato.core.errors import CardError, UsageError
from sfumato.learn.train import blocks_of, check_apart, reconstruct_from
from sfumato.reconstruction import Density, reconstruct
from sfumato.reconstruction.described import describe
from sfumato.reconstruction.evidence import Method
from sfumato.reconstruction.joint_density import JointDensity
from sfumato.reconstruction.pair import Pairs, Side, axis_of, product_of, reconstruct_pairs
from sfumato.reconstruction.projection import Projection
from sfumato.reconstruction.reconstruct import check_same_column
from sfumato.release.release import Release

JOINT_BINS = 25
"""Cells of each of two columns: 75 would be 5,625 pairs, of which most stay empty."""


def joint_from(
    releases: Sequence[Release],
    columns: tuple[str, str],
    method: Method,
    *,
    bins: int = JOINT_BINS,
    independent: bool = False,
    seed: int = 0,
) -> JointDensity:
    """How two columns are spread together; `independent`: as published, the product of both."""
    check_apart(releases)
    first, second = columns
    if first == second:
        raise UsageError(f"A joint density needs two columns, and {first!r} is one.")
    if not all(release.card.is_columnwise or release.card.made_by().map.affine() is not None for release in releases):
        raise CardError("The map of the release is a secret key, so the ranges of its columns are not known.")
    described = [[describe(release.card, column) for release in releases] for column in columns]
    for one in described:
        check_same_column(one)
    _check_independent(releases, columns)
    axes = axis_of(described[0], bins), axis_of(described[1], bins)
    marginals = [reconstruct_from(releases, column, method, resamples=0, atoms=False, seed=seed) for column in columns]
    pair = marginals[0], marginals[1]
    if independent:
        about = {"method": "product of the marginals"}
        return JointDensity(axes, product_of(axes, pair), sum(release.card.rows for release in releases), about)
    parts = []
    for release, one, other in zip(releases, *described, strict=True):
        blocks = ((block[0], block[1]) for block in blocks_of(release, [one, other]))
        parts.append(Pairs.of(blocks, (Side.of(one, axes[0]), Side.of(other, axes[1]))))
    return reconstruct_pairs(parts, axes, pair)


def _check_independent(releases: Sequence[Release], columns: tuple[str, str]) -> None:
    for recipe in (release.card.made_by() for release in releases):
        places = [recipe.names().index(column) for column in columns]
        if all(isinstance(recipe.channels[place], Mixed) for place in places):
            raise CardError(
                f"Columns {columns[0]!r} and {columns[1]!r} share their noise (a bandwidth that is a matrix), and "
                "joint densities need independent noise. Reconstruct them one by one, or a sum of them (--along)."
            )


def along_from(releases: Sequence[Release], expression: str, method: Method, **options: Any) -> Density:
    """The density of a weighted sum of columns, such as ``a - 2 * b``."""
    check_apart(releases)
    projection = Projection.read(expression, releases[0].card.made_by().names())
    told = [projection.noise(release.card) for release in releases]
    low, high = min(one[1] for one in told), max(one[2] for one in told)
    values = [_sums(release, projection) for release in releases]
    options = {"support": (low, high), **options}
    found = reconstruct(values, [one[0] for one in told], column=projection.title, method=method, **options)
    assert isinstance(found, Density)
    return found


def _sums(release: Release, projection: Projection) -> Iterator[Floats]:
    described = [describe(release.card, name) for name in projection.weights]
    for block in blocks_of(release, described):
        yield projection.values(dict(zip(projection.weights, block, strict=True)))
