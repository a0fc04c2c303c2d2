"""Data that the papers generated: Gaussian clusters, Breiman's waveforms, Agrawal & Srikant's people."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sfumato.core.array_types import Codes, Matrix


def gaussian_clusters(
    rng: np.random.Generator,
    rows: int = 100_000,
    columns: int = 100,
    clusters: int = 10,
    sigma: float = 2.0,
    reach: float = 5.0,
) -> tuple[Matrix, Codes]:
    """Rows around `clusters` centres, and the number of each row's cluster [principal-laplace, 6.1.1].

    Centres are uniform in [-reach, reach] in every column, rows normal around their centre with standard
    deviation `sigma` in every column; clusters are equally likely.
    """
    centres = rng.uniform(-reach, reach, size=(clusters, columns))
    y = rng.integers(clusters, size=rows)
    X = rng.standard_normal((rows, columns))
    X *= sigma
    X += centres[y]
    return X, y


def waveform(rng: np.random.Generator, rows: int = 5000) -> tuple[Matrix, Codes]:
    """Breiman's waveforms, 21 columns and three equally likely classes [Breiman, Friedman, Olshen & Stone 1984].

    ``x_i = u g(i) + (1 - u) h(i) + e_i`` with one u uniform in [0, 1] per row, e normal, and g, h two of the three
    triangles ``max(6 - |i - 11|, 0)`` and the same moved by 4 to either side: (1, 2), (1, 3), (2, 3) for the
    three classes.
    """
    i = np.arange(1, 22)
    triangle = [np.maximum(6.0 - np.abs(i - centre), 0.0) for centre in (11, 15, 7)]
    first, second = np.array([triangle[0], triangle[0], triangle[1]]), np.array([triangle[1], triangle[2], triangle[2]])
    y = rng.integers(3, size=rows)
    u = rng.random((rows, 1))
    return u * first[y] + (1 - u) * second[y] + rng.standard_normal((rows, 21)), y


def two_lumps(rng: np.random.Generator, rows: int = 3000) -> tuple[Matrix, Codes]:
    """Values in two lumps, cut at 5 and 60: density-reconstruction does not say what Fig. 3 was drawn from."""
    first = round(0.6 * rows)
    x = np.concatenate([rng.normal(20.0, 3.0, first), rng.normal(40.0, 5.0, rows - first)]).clip(5.0, 60.0)
    return x[:, None], (np.arange(rows) >= first).astype(np.int64)


ATTRIBUTES: dict[str, tuple[float, float]] = {
    "salary": (20_000.0, 150_000.0),
    "commission": (0.0, 75_000.0),
    "age": (20.0, 80.0),
    "elevel": (0.0, 4.0),
    "car": (1.0, 20.0),
    "zipcode": (0.0, 8.0),
    "hvalue": (50_000.0, 1_350_000.0),
    "hyears": (1.0, 30.0),
    "loan": (0.0, 500_000.0),
}
"""Columns of the Agrawal-Srikant data with their ranges; `elevel` and `zipcode` are categories."""

Person = dict[str, Matrix]


def agrawal_srikant(
    rng: np.random.Generator, rows: int = 100_000, function: int = 1, numbering: str = "five"
) -> tuple[Matrix, Codes]:
    """People with nine attributes (`ATTRIBUTES`), and 1 for those of group A, 0 for the others.

    `numbering`: "five" for F1 to F5 of Agrawal & Srikant (2000), "ten" for the ten of Agrawal, Imielinski & Swami
    (1993), as most generators number them. The attributes are drawn alike: house values are uniform between .5 and 1.5
    times k 100,000, where k = 9 - zipcode.
    """
    groups = {"five": FIVE, "ten": TEN}
    if numbering not in groups or not 1 <= function <= len(groups[numbering]):
        raise ValueError("The 'function' must be 1 to 5 with numbering 'five', or 1 to 10 with numbering 'ten'.")
    salary = rng.uniform(*ATTRIBUTES["salary"], rows)
    zipcode = rng.integers(9, size=rows).astype(np.float64)
    person = {
        "salary": salary,
        "commission": np.where(salary >= 75_000, 0.0, rng.uniform(10_000, 75_000, rows)),
        "age": rng.uniform(*ATTRIBUTES["age"], rows),
        "elevel": rng.integers(5, size=rows).astype(np.float64),
        "car": rng.integers(1, 21, size=rows).astype(np.float64),
        "zipcode": zipcode,
        "hvalue": (9 - zipcode) * 100_000 * rng.uniform(0.5, 1.5, rows),
        "hyears": rng.integers(1, 31, size=rows).astype(np.float64),
        "loan": rng.uniform(*ATTRIBUTES["loan"], rows),
    }
    member = groups[numbering][function - 1](person)
    return np.column_stack([person[name] for name in ATTRIBUTES]), member.astype(np.int64)


def _by_age(p: Person, young: Any, middle: Any, old: Any) -> Any:
    return np.where(p["age"] < 40, young, np.where(p["age"] < 60, middle, old))


def _between(value: Matrix, low: float, high: float) -> Any:
    return (low * 1000 <= value) & (value <= high * 1000)


def _age_alone(p: Person) -> Any:
    return (p["age"] < 40) | (p["age"] >= 60)


def _salary_by_age(p: Person) -> Any:
    return _earns(p, p["salary"])


def _earns(p: Person, income: Matrix) -> Any:
    return _by_age(p, _between(income, 50, 100), _between(income, 75, 125), _between(income, 25, 75))


def _salary_by_age_and_elevel(p: Person) -> Any:
    """F3 of the five; people of other levels belong to no group."""
    s, e = p["salary"], p["elevel"]
    low, middle, high = _between(s, 25, 75), _between(s, 50, 100), _between(s, 75, 125)
    young = np.where(e <= 1, low, (e <= 3) & middle)
    adult = np.where((e >= 1) & (e <= 3), middle, (e == 4) & high)
    return _by_age(p, young, adult, np.where(e >= 2, middle, (e == 1) & low))


def _elevel_by_age(p: Person) -> Any:
    e = p["elevel"]
    return _by_age(p, e <= 1, (e >= 1) & (e <= 3), e >= 2)


def _salary_by_age_and_any_elevel(p: Person) -> Any:
    """F4 of the ten: as F3 of the five, but everybody else has a range of salaries too."""
    s, e = p["salary"], p["elevel"]
    low, middle, high = _between(s, 25, 75), _between(s, 50, 100), _between(s, 75, 125)
    adult = np.where((e >= 1) & (e <= 3), middle, high)
    return _by_age(p, np.where(e <= 1, low, middle), adult, np.where(e >= 2, middle, low))


def _loan_by_age_and_salary(p: Person) -> Any:
    s, loan = p["salary"], p["loan"]
    small, medium, large = _between(loan, 100, 300), _between(loan, 200, 400), _between(loan, 300, 500)
    return _by_age(
        p,
        np.where(_between(s, 50, 100), small, medium),
        np.where(_between(s, 75, 125), medium, large),
        np.where(_between(s, 25, 75), large, small),
    )


def _income(p: Person) -> Matrix:
    return p["salary"] + p["commission"]


def _equity(p: Person) -> Matrix:
    return 0.1 * p["hvalue"] * np.maximum(p["hyears"] - 20, 0)


FIVE: tuple[Callable[[Person], Any], ...] = (
    _age_alone,
    _salary_by_age,
    _salary_by_age_and_elevel,
    lambda p: 0.67 * _income(p) - 0.2 * p["loan"] - 20_000 > 0,
    lambda p: 0.67 * _income(p) - 0.2 * p["loan"] + 0.2 * _equity(p) - 10_000 > 0,
)
TEN: tuple[Callable[[Person], Any], ...] = (
    _age_alone,
    _salary_by_age,
    _elevel_by_age,
    _salary_by_age_and_any_elevel,
    _loan_by_age_and_salary,
    lambda p: _earns(p, _income(p)),
    lambda p: 2 * _income(p) / 3 - p["loan"] / 5 - 20_000 > 0,
    lambda p: 2 * _income(p) / 3 - 5_000 * p["elevel"] - 20_000 > 0,
    lambda p: 2 * _income(p) / 3 - 5_000 * p["elevel"] - p["loan"] / 5 - 10_000 > 0,
    lambda p: 2 * _income(p) / 3 - 5_000 * p["elevel"] + _equity(p) / 5 - 10_000 > 0,
)
