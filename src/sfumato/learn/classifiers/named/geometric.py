"""Learners of distances and hyperplanes: those that a rotation can leave as they are [random-rotation, 3.2]."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

from sfumato.core.accepted import Between, Either, Flag, Positive, Whole, Word
from sfumato.learn.classifiers.factory import (
    DISTANCES,
    SCALED,
    Invariance,
    NamedClassifier,
    behind_scaling,
)
from sfumato.mechanisms.parameters import parameter

_BY_VALIDATION = Word(("cross-validation",))
_SCALES = "It divides each column by its own spread first, and rotated columns have other spreads"


class NearestRows(NamedClassifier):
    """The k nearest rows vote, weighted by 1, 1/d or 1/d^2."""

    name = "knn"
    published = MappingProxyType(
        {
            "kernel-resampling": {"k": 11, "weights": "1"},  # 7.3
            "random-rotation": {"weights": "1"},  # 3.2, which names no k
            "principal-laplace": {"k": "cross-validation", "weights": "1/d^2"},  # PCA-Best-K and Rand-*, Eq. 11
        }
    )
    keeps_rows = True
    model_types = ("neighbors._classification.KNeighborsClassifier",)  # what a model of 0.1 holds
    own_types = ("geometric.NearestVote",)
    rotations = DISTANCES

    k: int | str = parameter(
        Either((Whole(1, 10_000), _BY_VALIDATION)),
        "Rows that vote; or the best of 1, 3, 5, ... 301 on released rows that are left out in turn.",
        default=11,
    )
    weights: int | str = parameter(
        Word(("1", "1/d", "1/d^2")), "What the vote of a row at distance d counts.", default="1/d"
    )

    def __post_init__(self) -> None:
        self.weights = "1" if self.weights == 1 else self.weights  # `weights=1` reads as a number


class KernelClassifier(NamedClassifier):
    """Every row votes by a kernel of its distance: the kernel smoother of random-rotation, Eqs 1-2."""

    name = "kernel-smoother"
    published = MappingProxyType({"random-rotation": {"kernel": "gaussian"}})
    keeps_rows = True
    own_types = ("geometric.KernelSmoother",)
    rotations = DISTANCES

    width: float | str = parameter(
        Either((Positive(), _BY_VALIDATION)),
        "Width lambda of the kernel, in encoded units (a number's range is 1); or the one with the least squared "
        "error on released rows that are left out in turn.",
        default="cross-validation",
    )
    kernel: str = parameter(Word(("gaussian", "epanechnikov")), "D of Eq. 2.", default="gaussian")


class Perceptron(NamedClassifier):
    """A perceptron: rows on the wrong side of the plane move it, one at a time."""

    name = "perceptron"
    published = MappingProxyType({"random-rotation": {}})
    own_types = ("geometric.Hyperplanes",)
    rotations = Invariance(
        "centre zero",
        "Its weights are sums of rows and turn with them; its bias moves by steps of 1 wherever the centre is.",
    )

    epochs: int = parameter(
        Whole(1, 100_000), "Passes over the rows at most; it stops when a pass no longer helps.", default=1_000
    )
    seed: int = parameter(Whole(0, 2**31 - 1), "Of the order of the rows.", default=0)

    def make(self) -> Any:
        from sfumato.learn.classifiers.geometric import Hyperplanes

        return Hyperplanes("perceptron", epochs=self.epochs, random_state=self.seed)


class Logistic(NamedClassifier):
    """Logistic regression with a penalty on the length of its weights."""

    name = "logistic"
    fixed = MappingProxyType({"kind": "logistic"})
    own_types = ("geometric.Hyperplanes",)
    rotations = Invariance(
        "any centre",
        "Rotated weights are as long as they were, and the intercept, which is not penalised, takes up the centre.",
    )

    penalty: float = parameter(
        Positive(), "Weight of the squared length of the weights, beside the sum of the rows' losses.", default=1.0
    )


class SupportVectors(NamedClassifier):
    """A support vector machine: rbf, polynomial or sigmoid kernel, on scaled or on plain columns.

    The polynomial kernel is (gamma <x,x'> + offset)^degree, the sigmoid tanh(gamma <x,x'> + offset), rbf
    exp(-gamma |x - x'|^2). The paper's polynomial [random-rotation, Theorem 2] is ``gamma=1 offset=1``.
    """

    name = "svm"
    published = MappingProxyType({"random-rotation": {"gamma": "1/columns", "scaled": False}})
    keeps_rows = True
    model_types = ("svm._classes.SVC", *SCALED)

    kernel: str = parameter(Word(("rbf", "polynomial", "sigmoid")), "The kernel.", default="rbf")
    gamma: float | str = parameter(
        Either((Positive(), Word(("scale", "1/columns")))),
        'Factor in the kernel; "scale" is 1 over the number of columns and the variance of all cells.',
        default="scale",
    )
    penalty: float = parameter(Positive(), "C, the penalty of a row on the wrong side.", default=1.0)
    degree: int = parameter(Whole(1, 10), "Of the polynomial.", default=3)
    offset: float = parameter(Between(-1e6, 1e6), "Of polynomial and sigmoid.", default=0.0)
    scaled: bool = parameter(
        Flag(), "Whether columns are standardised first. That is not kept by a rotation.", default=True
    )

    @property
    def invariance(self) -> Invariance:
        when = "any centre" if self.kernel == "rbf" else "centre zero"
        kept = "distances" if self.kernel == "rbf" else "scalar products, which only a rotation about zero keeps"
        if self.scaled:
            return Invariance("never", f"{_SCALES}. Without (scaled=false, gamma a number): {when}.")
        if self.gamma == "scale":
            return Invariance(
                "never", f"gamma=scale divides by the variance of all cells, which a rotation changes. Else: {when}."
            )
        return Invariance(when, f"It looks at nothing but {kept}; gamma is fixed, and nothing is scaled.")

    def make(self) -> Any:
        from sklearn.svm import SVC

        machine = SVC(
            C=float(self.penalty),
            kernel="poly" if self.kernel == "polynomial" else self.kernel,
            gamma="auto" if self.gamma == "1/columns" else self.gamma,
            degree=self.degree,
            coef0=float(self.offset),
        )
        return behind_scaling(machine) if self.scaled else machine
