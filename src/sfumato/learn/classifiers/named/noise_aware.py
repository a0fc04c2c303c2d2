"""Learners that read the noise off the card."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

from sfumato.core.accepted import Between, Either, Flag, Nothing, Positive, Whole
from sfumato.learn.classifiers.factory import DISTANCES, SINGLE_COLUMNS, NamedClassifier
from sfumato.mechanisms.parameters import parameter

# The default: a learner that is chosen by the release.


class Auto(NamedClassifier):
    """The learner that suits the release: the blend for made-up rows, else the one that predicts labels of held-out
    released rows best; says which. Knows the noise."""

    name = "auto"
    knows_noise = True
    keeps_rows = True  # where it chooses nearest neighbours
    own_types = ("auto.AutoClassifier",)


_INTERVALS = Either((Whole(2, 1_000), Nothing()))


class CircleVote(NamedClassifier):
    """Rows within a circle as wide as the noise vote, by 1/d^2 and class priors. Knows the noise."""

    name = "radius-vote"
    published = MappingProxyType({"principal-laplace": {"prior_correction": False}})
    knows_noise = True
    keeps_rows = True
    own_types = ("radius_vote.RadiusVote",)
    rotations = DISTANCES

    n: float = parameter(
        Between(-100.0, 100.0),
        "Standard deviations of the distortion that the circle reaches beyond its mean.",
        default=2.0,
    )
    prior_correction: bool = parameter(
        Flag(), "Divide votes by class priors and weigh what they say; false is the published vote.", default=True
    )
    radius: float | None = parameter(
        Either((Positive(), Nothing())),
        "Radius of the circle in encoded units, instead of the one computed from the noise.",
        default=None,
    )
    fallback_neighbours: int = parameter(Whole(1, 1_000), "Rows that vote where the circle is empty.", default=5)

    def make(self) -> Any:
        from sfumato.learn.classifiers.radius_vote import RadiusVote

        squared = None if self.radius is None else float(self.radius) ** 2
        return RadiusVote(float(self.n), self.prior_correction, self.fallback_neighbours, squared)


class BayesOnDensities(NamedClassifier):
    """Naive Bayes on the reconstructed density of every column and class. Knows the noise."""

    name = "reconstructed-naive-bayes"
    knows_noise = True
    own_types = ("on_reconstruction.ReconstructedNaiveBayes",)
    rotations = SINGLE_COLUMNS

    intervals: int | None = parameter(
        _INTERVALS, "Intervals of a density; null lets the number of rows decide.", default=None
    )
    pseudo_rows: float = parameter(Positive(), "Rows that every interval of a class counts beforehand.", default=2.0)


class EmpiricalBayes(NamedClassifier):
    """Naive Bayes that lets classes differ only as much as the noise allows to see. Knows the noise."""

    name = "empirical-bayes-naive-bayes"
    knows_noise = True
    own_types = ("empirical_bayes.EmpiricalBayesNaiveBayes",)
    rotations = SINGLE_COLUMNS


class VectorDiscriminant(NamedClassifier):
    """Discriminants on polynomials of ranks, for the vectors of a staged release and every column. Knows the noise."""

    name = "private-discriminant"
    knows_noise = True
    own_types = ("private_discriminant.PrivateDiscriminant",)
    rotations = SINGLE_COLUMNS


class TreeOnDensities(NamedClassifier):
    """A tree on values moved to their reconstructed distribution. Knows the noise."""

    name = "reconstructed-tree"
    knows_noise = True
    model_types = ("tree._classes.DecisionTreeClassifier",)
    own_types = ("on_reconstruction.ReconstructedTree", "on_reconstruction.OnReconstruction")
    rotations = SINGLE_COLUMNS

    min_leaf: int | None = parameter(
        Either((Whole(1, 1_000_000), Nothing())), "Rows in a leaf at least; null for 1% of the rows.", default=None
    )
    max_depth: int | None = parameter(Either((Whole(1, 1_000), Nothing())), "Depth at most.", default=None)
    intervals: int | None = parameter(
        _INTERVALS, "Intervals of a density; null lets the number of rows decide.", default=None
    )


class _Discriminant(NamedClassifier):
    knows_noise = True
    own_types = ("noise_aware_discriminant.NoiseAwareDiscriminant",)

    floor: float = parameter(
        Positive(or_zero=True), "How far a variance must stay above chance once the noise is taken out.", default=1.5
    )


class LinearDiscriminant(_Discriminant):
    """A linear discriminant with the noise taken out of its covariances. Knows the noise."""

    name = "noise-aware-lda"
    fixed = MappingProxyType({"kind": "linear"})


class QuadraticDiscriminant(_Discriminant):
    """A quadratic discriminant with the noise taken out of its covariances. Knows the noise."""

    name = "noise-aware-qda"
    fixed = MappingProxyType({"kind": "quadratic"})
