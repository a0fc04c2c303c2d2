"""cluster, rules, regress: what else an analyst looks for in releases."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sfumato.api.learn import Releases, opened_releases
from sfumato.learn.cluster import Clustering, cluster_releases
from sfumato.learn.regress import Regression, regress_releases
from sfumato.learn.rules import Rules, rules_of_releases


def cluster(
    releases: Releases,
    *,
    clusters: int | str = "auto",
    model: str = "auto",
    resamples: int = 10,
    seed: int = 0,
    original: Any = None,
) -> Clustering:
    """Clusters of the plain rows behind releases: the noise on their cards is taken out.

    Parameters
    ----------
    releases : Release, path, or a sequence of them
        Of one space. Each part's noise is read from its own card.
    clusters : int or "auto", default "auto"
        How many; "auto" takes the fewest, of up to 8, that held-out released rows are not clearly less likely under.
    model : {"auto", "spherical", "diagonal"}, default "auto"
        "spherical" is k-means' own model, "diagonal" gives every cluster and column a variance; "auto" tries both.
    resamples : int, default 10
        Bootstrap samples for the stability, from 0 to 1000.
    seed : int, default 0
        Of starts, folds and resamples.
    original : DataFrame, Arrow table or path, optional
        For the owner of one release with its trace: say what was lost against the original rows.

    Returns
    -------
    Clustering
        `labels`, `probabilities`, `centres`, `about` and `warnings`; `save(folder)` writes them.

    Examples
    --------
    >>> import sfumato as sf
    >>> people = {"age": [24, 61, 27, 66, 22] * 40}
    >>> release = sf.sanitize(people, mechanism="additive-noise", parameters={"scale": 0.1}, seed=1)
    >>> found = sf.cluster(release, clusters=2, resamples=0)
    >>> [round(share, 1) for share in found.about["shares"]]
    [0.6, 0.4]
    """
    given = opened_releases(releases, public=original is None)
    return cluster_releases(given, clusters=clusters, model=model, resamples=resamples, seed=seed, original=original)


def rules(
    releases: Releases,
    *,
    columns: Sequence[str] = (),
    min_support: float = 0.05,
    min_confidence: float = 0.5,
    longest: int = 2,
    confidence: float = 0.95,
) -> Rules:
    """Association rules and frequencies of pairs behind randomized answers, unbiased and with intervals.

    Parameters
    ----------
    releases : Release, path, or a sequence of them
        Of one space, with at least two categorical columns; the label counts as one.
    columns : sequence of str, optional
        Only these.
    min_support : float, default 0.05
        Rules whose estimated share of people lies below are left out.
    min_confidence : float, default 0.5
        The same of their confidence.
    longest : int, default 2
        Most answers in a rule, from 2 to 5.
    confidence : float, default 0.95
        Of each interval by itself.

    Returns
    -------
    Rules
        `pairs` and `rules` (Arrow tables), `about` and `warnings`; `save(folder)` writes them.

    Examples
    --------
    >>> import sfumato as sf
    >>> people = {"smokes": ["yes", "no", "no", "no"] * 250, "coughs": ["yes", "no", "no", "yes"] * 250}
    >>> release = sf.sanitize(people, mechanism="randomized-response", epsilon_record=6, seed=1)
    >>> found = sf.rules(release).rules.to_pylist()[0]
    >>> found["when"], found["then"], found["confidence"] > 0.8
    ('smokes=yes', 'coughs=yes', True)
    """
    return rules_of_releases(
        opened_releases(releases, public=True),
        columns=columns,
        min_support=min_support,
        min_confidence=min_confidence,
        longest=longest,
        confidence=confidence,
    )


def regress(
    releases: Releases, target: str, *, columns: Sequence[str] = (), confidence: float = 0.95, seed: int = 0
) -> Regression:
    """A linear model between plain columns, from noisy ones: the known noise is taken out of both sides.

    Parameters
    ----------
    releases : Release, path, or a sequence of them
        Of one space. Each part's noise is read from its own card.
    target : str
        A released number.
    columns : sequence of str, optional
        What explains it; by default every other column.
    confidence : float, default 0.95
        Of each interval by itself.
    seed : int, default 0
        Of the groups of rows that intervals are made of.

    Returns
    -------
    Regression
        `coefficients` (an Arrow table in raw units), `about` and `warnings`; `save(folder)` writes them.

    Examples
    --------
    >>> import sfumato as sf
    >>> people = {"age": [20, 30, 40, 50, 60] * 400, "income": [25, 33, 41, 52, 60] * 400}
    >>> release = sf.sanitize(people, mechanism="additive-noise", parameters={"scale": 0.2}, seed=1)
    >>> found = sf.regress(release, "income").coefficients.to_pylist()[1]
    >>> found["as_released"] < 0.7, 0.7 < found["coefficient"] < 1.1
    (True, True)
    """
    return regress_releases(
        opened_releases(releases, public=True), target, columns=columns, confidence=confidence, seed=seed
    )
