"""Four hospitals from one table that ships with scikit-learn, and what they could reach without a coordinator."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.core.errors import UsageError
from sfumato.core.wording import counted
from sfumato.learn.classifiers.factory import make_classifier
from sfumato.learn.classifiers.training import Part, fit_on_parts, noise_summary
from sfumato.study.pooling.trials import ErrorRate
from sfumato.table import Column, Encoding, Schema

LABEL = "diagnosis"
CLASSIFIER = "svm"
MECHANISM = "kernel-resampling"
GUARANTEE = {"epsilon": 1.0, "delta": 1e-6}
"""Of the study whose sites push noisy counts, for anybody's presence."""
SHARES = {"North": 0.4, "East": 0.3, "South": 0.2, "West": 0.1}
TEST_SHARE = 0.25
MOST_SITES = 20
REASON = "published in the description of the data set"
STATISTICS = {"mean": "mean {}", "standard error": "{} error", "worst": "worst {}"}
"""How the description of the data set and its columns name the same thing."""


@dataclass(frozen=True)
class Consortium:
    """The study's file, each site's private table, and patients whom no site has."""

    study: dict[str, Any]
    schema: Schema
    sites: dict[str, pa.Table]
    test: pa.Table

    def error(self, tables: list[pa.Table]) -> ErrorRate:
        """Error on the other patients after training on original rows, as if these could be shared."""
        encoding = Encoding(self.schema)
        exact = noise_summary(None, encoding.width)
        rows = pa.concat_tables(tables)
        part = Part(encoding.encode(rows).X, encoding.encode_label(rows), exact)
        truth = encoding.encode_label(self.test)
        answers = fit_on_parts(make_classifier(CLASSIFIER), [part]).predict(encoding.encode(self.test).X)
        return ErrorRate.of(int(np.count_nonzero(answers != truth)), len(truth))

    def commonest(self) -> float:
        """Error of always answering the commonest diagnosis."""
        counts = np.bincount(Encoding(self.schema).encode_label(self.test))
        return 1.0 - float(counts.max() / counts.sum())


def check_sites(count: int | None) -> None:
    if count is not None and not 1 <= count <= MOST_SITES:
        raise UsageError(
            f"--sites must be from 1 to {MOST_SITES}: more would leave a site too few patients. Got {count}."
        )


def make_consortium(count: int | None = None) -> Consortium:
    """Deal 569 patients to sites and a test table, always alike; bounds are the published ones.

    Four sites of unequal size, or as many as wanted of equal size.
    """
    check_sites(count)
    shares = SHARES if count is None else {f"Site {place}": 1 / count for place in range(1, count + 1)}
    from sklearn.datasets import load_breast_cancer

    data = load_breast_cancer()
    order = np.random.default_rng(1).permutation(len(data.data))
    columns = {str(name): pa.array(data.data[order, j]) for j, name in enumerate(data.feature_names)}
    columns[LABEL] = pa.array([str(data.target_names[code]) for code in data.target[order]])
    patients = pa.table(columns)
    schema = _schema(data.DESCR, [str(name) for name in data.feature_names], [str(name) for name in data.target_names])
    cut = round(TEST_SHARE * len(order))
    ends = cut + np.round(np.cumsum(list(shares.values())) * (len(order) - cut)).astype(int)
    starts = [cut, *ends[:-1]]
    sites = {name: patients.slice(start, end - start) for name, start, end in zip(shares, starts, ends, strict=True)}
    study = {
        "kind": "pool",
        "name": "Four hospitals" if count is None else counted(count, "hospital"),
        "schema": schema.to_dict(),
        "mechanism": {"name": MECHANISM, "parameters": {}},
        "guarantee": "empirical-allowed",
        "classifiers": [CLASSIFIER],
    }
    return Consortium(study, schema, sites, patients.slice(0, cut))


def _schema(description: str, names: list[str], classes: list[str]) -> Schema:
    """Bounds from the table of smallest and largest values that was published with the data; nothing is learned."""
    bounds = {}
    for what, statistic, low, high in re.findall(
        r"^([a-z ]+) \(([a-z ]+)\):\s+([\d.]+)\s+([\d.]+)", description, re.MULTILINE
    ):
        bounds[STATISTICS[statistic].format(what)] = float(low), float(high)
    numbers = [
        Column(name, "numeric", low=bounds[name][0], high=bounds[name][1], source="public", reason=REASON)
        for name in names
    ]
    label = Column(LABEL, "categorical", role="label", categories=tuple(classes), source="public", reason=REASON)
    return Schema((*numbers, label))
