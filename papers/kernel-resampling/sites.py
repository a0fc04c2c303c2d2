"""The paper's splits by name; dealing and drawing is the product's (`sfumato.auditing.figures.kernel_resampling`)."""

from __future__ import annotations

from papers.data import DataSet, load

from sfumato.auditing.figures.kernel_resampling import Split
from sfumato.auditing.figures.sets import SPLIT


def names_of(name: str) -> tuple[str, ...]:
    """The files of a data set: SVMGuide1 was split beforehand."""
    return SPLIT.get(name, (name,))


def data_of(name: str, online: bool = False) -> DataSet:
    """A data set by name, wherever it is."""
    return load(name, online=online)


def split(name: str, seed: int, online: bool = False) -> Split:
    """The paper's numbers of training and test rows (Table 1), drawn within classes."""
    return Split.of(data_of(name, online), seed)
