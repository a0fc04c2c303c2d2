"""Learners that read the noise off the card."""

from __future__ import annotations

from typing import Any

from sfumato.classifiers.named.base import NamedClassifier


class CircleVote(NamedClassifier):
    """Rows within a circle as wide as the noise vote, by 1/d^2 and class priors. Knows the noise."""

    name = "radius-vote"
    knows_noise = True
    keeps_rows = True
    own_types = ("radius_vote.RadiusVote",)

    def make(self) -> Any:
        from sfumato.classifiers.radius_vote import RadiusVote

        return RadiusVote()


class BayesOnDensities(NamedClassifier):
    """Naive Bayes on the reconstructed density of every column and class. Knows the noise."""

    name = "reconstructed-naive-bayes"
    knows_noise = True
    own_types = ("reconstructed_naive_bayes.ReconstructedNaiveBayes",)

    def make(self) -> Any:
        from sfumato.classifiers.reconstructed_naive_bayes import ReconstructedNaiveBayes

        return ReconstructedNaiveBayes()


class TreeOnDensities(NamedClassifier):
    """A tree on values moved to their reconstructed distribution. Knows the noise."""

    name = "reconstructed-tree"
    knows_noise = True
    model_types = ("tree._classes.DecisionTreeClassifier",)
    own_types = ("on_reconstruction.ReconstructedTree", "on_reconstruction.OnReconstruction")

    def make(self) -> Any:
        from sfumato.classifiers.on_reconstruction import ReconstructedTree

        return ReconstructedTree()


class LinearDiscriminant(NamedClassifier):
    """A linear discriminant with the noise taken out of its covariances. Knows the noise."""

    name = "noise-aware-lda"
    knows_noise = True
    own_types = ("noise_aware_discriminant.NoiseAwareDiscriminant",)

    def make(self) -> Any:
        from sfumato.classifiers.noise_aware_discriminant import NoiseAwareDiscriminant

        return NoiseAwareDiscriminant("linear")


class QuadraticDiscriminant(NamedClassifier):
    """A quadratic discriminant with the noise taken out of its covariances. Knows the noise."""

    name = "noise-aware-qda"
    knows_noise = True
    own_types = ("noise_aware_discriminant.NoiseAwareDiscriminant",)

    def make(self) -> Any:
        from sfumato.classifiers.noise_aware_discriminant import NoiseAwareDiscriminant

        return NoiseAwareDiscriminant("quadratic")
