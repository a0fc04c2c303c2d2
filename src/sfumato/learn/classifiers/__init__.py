"""Learners that know the noise, and any scikit-learn classifier on perturbed rows.

A name is loaded when it is first used: who only asks which classifiers there are does not wait for scikit-learn.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sfumato.learn.classifiers.distortion import NoiseSummary as NoiseSummary
    from sfumato.learn.classifiers.distortion import noise_summary as noise_summary
    from sfumato.learn.classifiers.factory import CLASSIFIERS as CLASSIFIERS
    from sfumato.learn.classifiers.factory import make_classifier as make_classifier
    from sfumato.learn.classifiers.noise_aware_discriminant import NoiseAwareDiscriminant as NoiseAwareDiscriminant
    from sfumato.learn.classifiers.on_reconstruction import OnReconstruction as OnReconstruction
    from sfumato.learn.classifiers.on_reconstruction import ReconstructedNaiveBayes as ReconstructedNaiveBayes
    from sfumato.learn.classifiers.on_reconstruction import ReconstructedTree as ReconstructedTree
    from sfumato.learn.classifiers.perturbed import PerturbedClassifier as PerturbedClassifier
    from sfumato.learn.classifiers.radius_vote import RadiusVote as RadiusVote
    from sfumato.learn.classifiers.reads_noise import LabelNoiseCorrection as LabelNoiseCorrection
    from sfumato.learn.classifiers.reads_noise import Part as Part
    from sfumato.learn.classifiers.training import fit_on_parts as fit_on_parts

_DEFINES = {
    "distortion": ("NoiseSummary", "noise_summary"),
    "factory": ("CLASSIFIERS", "make_classifier"),
    "noise_aware_discriminant": ("NoiseAwareDiscriminant",),
    "on_reconstruction": ("OnReconstruction", "ReconstructedNaiveBayes", "ReconstructedTree"),
    "perturbed": ("PerturbedClassifier",),
    "radius_vote": ("RadiusVote",),
    "reads_noise": ("LabelNoiseCorrection", "Part"),
    "training": ("fit_on_parts",),
}
_WHERE = {name: module for module, names in _DEFINES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)
