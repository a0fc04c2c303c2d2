"""What the paper prints. Figs 3-7 are plots without numbers: only what the text says of them stands here."""

from __future__ import annotations

from dataclasses import dataclass

CLASSIFIERS = ("ann", "knn", "nb")
TITLES = {"ann": "ANN", "knn": "kNN", "nb": "NB"}


@dataclass(frozen=True)
class DataSet:
    """A line of Table 1 and of Table 2, and the largest L that a figure is said to show."""

    title: str
    figure: int
    columns: int
    training: int
    testing: int
    ann: float
    knn: float
    nb: float

    @property
    def errors(self) -> dict[str, float]:
        """Table 2 by classifier."""
        return {"ann": self.ann, "knn": self.knn, "nb": self.nb}


SETS = {
    "iris": DataSet("Iris", 3, 4, 120, 30, 0.0352, 0.0346, 0.1230),
    "svmguide1": DataSet("SVMGuide1", 4, 4, 3089, 4000, 0.0389, 0.0328, 0.0695),
    "pima": DataSet("Diabetes", 5, 8, 576, 192, 0.2441, 0.2611, 0.2263),
    "breast_cancer_libsvm": DataSet("Breast-Cancer", 6, 10, 512, 171, 0.0312, 0.0214, 0.0396),
    "ionosphere": DataSet("Ionosphere", 7, 34, 263, 88, 0.1255, 0.1522, 0.0000),
}
"""Tables 1 and 2; every set has two classes."""

WORST_PHI = 0.03
"""Abstract, 7.4 and 8: "less than 3% for all the datasets"."""
