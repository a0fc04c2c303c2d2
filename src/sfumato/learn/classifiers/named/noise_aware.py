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
    """Rows within a circle as wide as the noise vote, by 1/d^2 and class priors. Knows the noise.

    Parameters
    ----------
    n : float, default=2.0
        Standard deviations of the distortion that the circle reaches beyond its mean, from -100 to 100.
    prior_correction : bool, default=true
        Divide votes by class priors and weigh what they say; false is the published vote.
    radius : float or null, default=null
        Radius of the circle in encoded units, above 0 to 1e6, instead of the one computed from the noise.
    fallback_neighbours : int, default=5
        Rows that vote where the circle is empty, from 1 to 1,000.
    """

    name = "radius-vote"
    published = MappingProxyType({"principal-laplace": {"prior_correction": False}})
    knows_noise = True
    keeps_rows = True
    own_types = ("radius_vote.RadiusVote",)
    rotations = DISTANCES

    n: float = parameter(2.0, Between(-100.0, 100.0))
    prior_correction: bool = parameter(True, Flag())
    radius: float | None = parameter(None, Either((Positive(), Nothing())))
    fallback_neighbours: int = parameter(5, Whole(1, 1_000))

    def make(self) -> Any:
        from sfumato.learn.classifiers.radius_vote import RadiusVote

        squared = None if self.radius is None else float(self.radius) ** 2
        return RadiusVote(float(self.n), self.prior_correction, self.fallback_neighbours, squared)


class BayesOnDensities(NamedClassifier):
    """Naive Bayes on the reconstructed density of every column and class. Knows the noise.

    Parameters
    ----------
    intervals : int or null, default=null
        Intervals of a density, from 2 to 1,000; null lets the number of rows decide.
    pseudo_rows : float, default=2.0
        Rows that every interval of a class counts beforehand, above 0 to 1e6.
    """

    name = "reconstructed-naive-bayes"
    knows_noise = True
    own_types = ("on_reconstruction.ReconstructedNaiveBayes",)
    rotations = SINGLE_COLUMNS

    intervals: int | None = parameter(None, _INTERVALS)
    pseudo_rows: float = parameter(2.0, Positive())


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
    """A tree on values moved to their reconstructed distribution. Knows the noise.

    Parameters
    ----------
    min_leaf : int or null, default=null
        Rows in a leaf at least, from 1 to 1,000,000; null for 1% of the rows.
    max_depth : int or null, default=null
        Depth at most, from 1 to 1,000.
    intervals : int or null, default=null
        Intervals of a density, from 2 to 1,000; null lets the number of rows decide.
    """

    name = "reconstructed-tree"
    knows_noise = True
    model_types = ("tree._classes.DecisionTreeClassifier",)
    own_types = ("on_reconstruction.ReconstructedTree", "on_reconstruction.OnReconstruction")
    rotations = SINGLE_COLUMNS

    min_leaf: int | None = parameter(None, Either((Whole(1, 1_000_000), Nothing())))
    max_depth: int | None = parameter(None, Either((Whole(1, 1_000), Nothing())))
    intervals: int | None = parameter(None, _INTERVALS)


class _Discriminant(NamedClassifier):
    knows_noise = True
    own_types = ("noise_aware_discriminant.NoiseAwareDiscriminant",)

    floor: float = parameter(1.5, Positive(or_zero=True))


class LinearDiscriminant(_Discriminant):
    """A linear discriminant with the noise taken out of its covariances. Knows the noise.

    Parameters
    ----------
    floor : float, default=1.5
        How far a variance must stay above chance once the noise is taken out, from 0 to 1e6.
    """

    name = "noise-aware-lda"
    fixed = MappingProxyType({"kind": "linear"})


class QuadraticDiscriminant(_Discriminant):
    """A quadratic discriminant with the noise taken out of its covariances. Knows the noise.

    Parameters
    ----------
    floor : float, default=1.5
        How far a variance must stay above chance once the noise is taken out, from 0 to 1e6.
    """

    name = "noise-aware-qda"
    fixed = MappingProxyType({"kind": "quadratic"})
