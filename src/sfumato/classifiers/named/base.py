"""What a classifier says about itself before it is made."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

SCALED = ("pipeline.Pipeline", "preprocessing._data.StandardScaler")
"""Types of scikit-learn in a model that scales its columns first."""


class NamedClassifier(ABC):
    """A classifier by its name. The first paragraph of a subclass's docstring is what users read.

    A model file may hold only types that some classifier names: `model_types` of scikit-learn (below `sklearn.`) and
    `own_types` (below `sfumato.classifiers.`).
    """

    name: ClassVar[str]
    knows_noise: ClassVar[bool] = False
    """Whether it uses the noise itself; for the others there is the reconstruction to train on."""
    keeps_rows: ClassVar[bool] = False
    """Whether its model contains released rows: whoever gets the model gets those rows."""
    on_bits: ClassVar[bool] = False
    """Whether it is made for the bits of a survey."""
    model_types: ClassVar[tuple[str, ...]] = ()
    own_types: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def make(self) -> Any:
        """An unfitted estimator."""
