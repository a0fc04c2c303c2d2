"""Learners that know the noise, and any scikit-learn classifier on perturbed rows."""

from sfumato.classifiers.distortion import NoiseSummary
from sfumato.classifiers.factory import CLASSIFIERS, make_classifier
from sfumato.classifiers.label_noise import LabelNoiseCorrection
from sfumato.classifiers.noise_aware_discriminant import NoiseAwareDiscriminant
from sfumato.classifiers.on_reconstruction import OnReconstruction, ReconstructedTree
from sfumato.classifiers.perturbed import PerturbedClassifier
from sfumato.classifiers.radius_vote import RadiusVote
from sfumato.classifiers.reconstructed_naive_bayes import ReconstructedNaiveBayes
from sfumato.classifiers.training import Part, fit_on_parts, noise_from_card

__all__ = [
    "CLASSIFIERS",
    "LabelNoiseCorrection",
    "NoiseAwareDiscriminant",
    "NoiseSummary",
    "OnReconstruction",
    "Part",
    "PerturbedClassifier",
    "RadiusVote",
    "ReconstructedNaiveBayes",
    "ReconstructedTree",
    "fit_on_parts",
    "make_classifier",
    "noise_from_card",
]
