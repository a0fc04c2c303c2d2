"""Model files: a classifier with what it needs to classify plain rows; skops, never pickle."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import CardError
from sfumato.files import write_whole
from sfumato.table import Encoding

FORMAT, VERSION = "sfumato-model", 1

TRUSTED = frozenset(
    {
        "sfumato.classifiers.label_noise.LabelNoiseCorrection",
        "sfumato.classifiers.noise_aware_discriminant.NoiseAwareDiscriminant",
        "sfumato.classifiers.on_reconstruction.OnReconstruction",
        "sfumato.classifiers.on_reconstruction.ReconstructedTree",
        "sfumato.classifiers.radius_vote.RadiusVote",
        "sfumato.classifiers.reconstructed_naive_bayes.ReconstructedNaiveBayes",
        "sfumato.classifiers.survey_bits.SurveyClassifier",
        "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
        "sklearn.neural_network._stochastic_optimizers.AdamOptimizer",
        "sklearn.tree._tree.Tree",
    }
)
"""Types that our classifiers consist of and skops does not trust by itself; nothing else is ever loaded."""


@dataclass(frozen=True)
class Model:
    """A trained classifier, and the public description of the space it works in.

    `about` is plain JSON: format, classifier, space, source_schema, transform, classes, the releases used, and
    whether the model contains released rows.
    """

    classifier: Any
    about: Mapping[str, Any]

    @property
    def classes(self) -> list[str]:
        return list(self.about["classes"])

    def encoding(self) -> Encoding:
        return Encoding.from_dict(self.about["source_schema"])

    def affine(self) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
        """The public map of plain rows into the release's space, or None where it is a secret key."""
        transform = self.about["transform"]
        if transform["kind"] == "affine":
            return np.array(transform["matrix"]), np.array(transform["offset"])
        return None

    def save(self, path: Path) -> None:
        import skops.io

        write_whole(path, skops.io.dumps({"about": json.dumps(self.about), "classifier": self.classifier}))

    @classmethod
    def load(cls, path: Path) -> Model:
        """Read a model; a file that holds other types than our classifiers do is refused unread."""
        import skops.io

        if not path.is_file():
            raise CardError(f"There is no model {path}.")
        try:
            unknown = skops.io.get_untrusted_types(file=path)
        except Exception as error:
            raise CardError(f"{path} is not a model that `sfumato train` wrote, or it is damaged.") from error
        if foreign := sorted(set(unknown) - TRUSTED):
            raise CardError(
                f"{path} holds an object of type {foreign[0]}, as no model of ours does. It was not loaded."
            )
        try:
            stored = skops.io.load(path, trusted=unknown)
            about = json.loads(stored["about"])
            if about["format"] != FORMAT or about["version"] != VERSION:
                raise CardError(f"{path} has a version that this program does not read.")
            return cls(stored["classifier"], about)
        except CardError:
            raise
        except Exception as error:
            raise CardError(f"{path} is not a model that `sfumato train` wrote, or it is damaged.") from error
