"""How many rows of every site a pool is trained on, where no site may be more than a stated share of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def capped_rows(rows: Mapping[str, int], share: float | None) -> dict[str, int]:
    """Rows to use of every site, so that none has more than `share` of all that are used; small sites are used whole.

    Large sites are cut to one number m. With t of them cut and R rows of the others, ``m = share (t m + R)``. Fewer
    than 1 / share sites cannot keep to it: then all have the same number.

    >>> capped_rows({"a": 4000, "b": 400, "c": 400, "d": 400}, 0.4)
    {'a': 800, 'b': 400, 'c': 400, 'd': 400}
    >>> capped_rows({"a": 4000, "b": 30}, 0.4)
    {'a': 30, 'b': 30}
    """
    there = sorted((count for count in rows.values() if count), reverse=True)
    if share is None or len(there) < 2:
        return dict(rows)
    share = max(share, 1.0 / len(there))
    most = float(there[-1])
    for cut in range(len(there)):
        left = 1.0 - share * cut
        if left <= 0:
            break
        most = share * sum(there[cut:]) / left
        if there[cut] <= most * (1 + 1e-9):
            break
    most = max(1.0, most * (1 + 1e-9))
    return {site: min(count, int(most)) for site, count in rows.items()}


def spread(rows: Sequence[int], total: int) -> list[int]:
    """`total` rows over releases in proportion to their rows. Many small releases get no more than one large one.

    >>> spread([10, 10, 10], 4), spread([1] * 6, 2)
    ([1, 1, 2], [0, 0, 1, 0, 0, 1])
    """
    there, seen, given, found = max(1, sum(rows)), 0, 0, []
    for count in rows:
        seen += count
        found.append(seen * total // there - given)
        given += found[-1]
    return found
