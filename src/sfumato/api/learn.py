"""reconstruct: what an analyst learns of columns from releases."""

from __future__ import annotations

from typing import Any

from sfumato.core.errors import UsageError
from sfumato.learn.reconstruct import JOINT_BINS, along_from, joint_from, reconstruct_from
from sfumato.reconstruction import Density, JointDensity, Shares
from sfumato.reconstruction.described import check_published, describe
from sfumato.reconstruction.reconstruct import make_method
from sfumato.release.release import Releases, opened


def reconstruct(
    releases: Releases,
    column: str | None = None,
    *,
    joint: tuple[str, str] | None = None,
    independent: bool = False,
    along: str | None = None,
    method: str = "parzen-program",
    penalty: float | str | None = None,
    rounds: int | None = None,
    bins: int | None = None,
    confidence: float = 0.9,
    resamples: int = 50,
    seed: int = 0,
    published: bool = False,
) -> Density | Shares | JointDensity:
    """The distribution of a column behind its noise. Nobody's value is recovered, only the distribution.

    Parameters
    ----------
    releases : Release, path, or a sequence of them
        Parts with different noise give one joint estimate.
    column : str, optional
        A column of the release; give this, `joint` or `along`.
    joint : tuple of two str, optional
        Two columns, to learn how they are spread together.
    independent : bool, default False
        Of `joint`: take the product of both, as published.
    along : str, optional
        A weighted sum of columns with additive noise, such as "income - 2 * rent".
    method : {"parzen-program", "expectation-maximization"}, default "parzen-program"
        How to undo the noise.
    penalty : float or "auto", optional
        Of parzen-program; 0 means no penalty.
    rounds : int, optional
        Of expectation-maximization, from 1 to 10000; our stopping rule if not given.
    bins : int, optional
        Cells of the density, from 2 to 1000; 75 if not given, and 25 of each column of `joint`.
    confidence : float, default 0.9
        Confidence of the band, between 0 and 1.
    resamples : int, default 50
        Number of draws for the band, from 0 (no band) to 10000.
    seed : int, default 0
        Seed of these draws.
    published : bool, default False
        The paper's own estimate: no penalty and the rectangle rule; expectation-maximization only with its `rounds`,
        since the paper does not say where it stopped; no search for point masses; two columns as the product of both.
        Categories are refused: no paper reconstructs them.

    Returns
    -------
    Density, Shares or JointDensity
        A density for numbers and dates, shares for categories, a joint density for two columns; all of them have
        `table()`, `summary()` and `plot()` (SVG).

    Examples
    --------
    >>> import sfumato as sf
    >>> people = {"age": [34, 61, 47, 29, 52] * 200, "ill": ["no", "yes", "yes", "no", "no"] * 200}
    >>> release = sf.sanitize(people, label="ill", mechanism="additive-noise", seed=1)
    >>> found = sf.reconstruct(release, "age", resamples=0)
    >>> bool(abs(found.mean - 44.6) < 5)
    True
    """
    if sum(wish is not None for wish in (column, joint, along)) != 1:
        raise UsageError("Give one of column, joint and along.")
    parts = opened(releases, public=True)
    chosen = make_method(method, penalty, rounds=rounds, published=published)
    for name in (*(joint or ()), *([column] if column else ())) if published else ():
        check_published(describe(parts[0].card, name))
    independent = independent or published
    if joint is not None:
        return joint_from(parts, joint, chosen, bins=bins or JOINT_BINS, independent=independent, seed=seed)
    options: dict[str, Any] = {"bins": bins or 75, "confidence": confidence, "resamples": resamples, "seed": seed}
    options |= {"atoms": False} if published else {}
    if along is not None:
        return along_from(parts, along, chosen, **options)
    assert column is not None
    return reconstruct_from(parts, column, chosen, **options)
