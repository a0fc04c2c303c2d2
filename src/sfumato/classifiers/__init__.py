"""Learners that know the noise, and any scikit-learn classifier on perturbed rows."""

from sfumato.classifiers.distortion import NoiseSummary
from sfumato.classifiers.factory import CLASSIFIERS, make_classifier
from sfumato.classifiers.label_noise import LabelNoiseCorrection
from sfumato.classifiers.perturbed import PerturbedClassifier
from sfumato.classifiers.radius_vote import RadiusVote
from sfumato.classifiers.training import Part, fit_on_parts, noise_from_card

__all__ = [
    "CLASSIFIERS",
    "LabelNoiseCorrection",
    "NoiseSummary",
    "Part",
    "PerturbedClassifier",
    "RadiusVote",
    "fit_on_parts",
    "make_classifier",
    "noise_from_card",
]
