"""Classifiers by name, each ready to be trained on noisy rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sfumato.errors import UsageError


def _radius_vote() -> Any:
    """Rows within a circle as wide as the noise vote, by 1/d^2 and class priors. Knows the noise."""
    from sfumato.classifiers.radius_vote import RadiusVote

    return RadiusVote()


def _knn() -> Any:
    """The 11 nearest rows vote, weighted by 1/d."""
    from sklearn.neighbors import KNeighborsClassifier

    return KNeighborsClassifier(n_neighbors=11, weights="distance", algorithm="brute")


def _naive_bayes() -> Any:
    """Naive Bayes with one normal density per class and column."""
    from sfumato.classifiers.mixed_naive_bayes import MixedNaiveBayes

    return MixedNaiveBayes()


def _mlp() -> Any:
    """A neural network with ten tanh units and weight decay."""
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    # Noisy rows are easily learned by heart: few units and weight decay.
    network = MLPClassifier((10,), activation="tanh", alpha=0.1, learning_rate_init=0.01, max_iter=300, random_state=0)
    return make_pipeline(StandardScaler(), network)


def _svm() -> Any:
    """A support vector machine with an RBF kernel on scaled columns."""
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC

    return make_pipeline(StandardScaler(), SVC(C=1.0, kernel="rbf"))


def _forest() -> Any:
    """A forest of 200 trees."""
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(n_estimators=200, min_samples_leaf=5, random_state=0)


def _boosting() -> Any:
    """Gradient-boosted trees."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(max_iter=100, learning_rate=0.05, random_state=0)


def _reconstructed_naive_bayes() -> Any:
    """Naive Bayes on the reconstructed density of every column and class. Knows the noise."""
    from sfumato.classifiers.reconstructed_naive_bayes import ReconstructedNaiveBayes

    return ReconstructedNaiveBayes()


def _reconstructed_tree() -> Any:
    """A tree on values moved to their reconstructed distribution. Knows the noise."""
    from sfumato.classifiers.on_reconstruction import ReconstructedTree

    return ReconstructedTree()


def _noise_aware_lda() -> Any:
    """A linear discriminant with the noise taken out of its covariances. Knows the noise."""
    from sfumato.classifiers.noise_aware_discriminant import NoiseAwareDiscriminant

    return NoiseAwareDiscriminant("linear")


def _noise_aware_qda() -> Any:
    """A quadratic discriminant with the noise taken out of its covariances. Knows the noise."""
    from sfumato.classifiers.noise_aware_discriminant import NoiseAwareDiscriminant

    return NoiseAwareDiscriminant("quadratic")


def _bernoulli_naive_bayes() -> Any:
    """Naive Bayes on the bits of a guided survey."""
    from sfumato.classifiers.survey_bits import SurveyClassifier

    return SurveyClassifier("naive-bayes")


def _id3() -> Any:
    """An ID3 decision tree on the bits of a guided survey."""
    from sfumato.classifiers.survey_bits import SurveyClassifier

    return SurveyClassifier("id3")


CLASSIFIERS: dict[str, Callable[[], Any]] = {
    "radius-vote": _radius_vote,
    "knn": _knn,
    "naive-bayes": _naive_bayes,
    "mlp": _mlp,
    "svm": _svm,
    "forest": _forest,
    "boosting": _boosting,
    "reconstructed-naive-bayes": _reconstructed_naive_bayes,
    "reconstructed-tree": _reconstructed_tree,
    "noise-aware-lda": _noise_aware_lda,
    "noise-aware-qda": _noise_aware_qda,
    "bernoulli-naive-bayes": _bernoulli_naive_bayes,
    "id3": _id3,
}

ON_BITS = ("bernoulli-naive-bayes", "id3")
"""Classifiers for the bits of a survey."""

KEEPS_ROWS = frozenset({"radius-vote", "knn", "svm"})
"""Classifiers whose model contains released rows: whoever gets the model gets those rows."""


KNOWS_NOISE = (
    "radius-vote",
    "reconstructed-naive-bayes",
    "reconstructed-tree",
    "noise-aware-lda",
    "noise-aware-qda",
)
"""Classifiers that use the noise themselves; for the others there is the reconstruction to train on."""


def make_classifier(name: str, reconstruction: str | None = None) -> Any:
    """An unfitted classifier; `fit_on_parts` trains it with what the cards say about the noise.

    With a `reconstruction` ("by-class" or "global") it learns from reconstructed values instead of noisy ones.
    """
    if name not in CLASSIFIERS:
        raise UsageError(f"There is no classifier {name!r}. Choose one of: {', '.join(CLASSIFIERS)}.")
    made = CLASSIFIERS[name]()
    if reconstruction is None:
        return made
    from sfumato.classifiers.assignment import WAYS
    from sfumato.classifiers.on_reconstruction import OnReconstruction

    if reconstruction not in WAYS:
        raise UsageError(f"There is no reconstruction {reconstruction!r}. Choose one of: {', '.join(WAYS)}.")
    if name == "reconstructed-tree":
        return made.set_params(reconstruction=reconstruction)
    if name in KNOWS_NOISE:
        raise UsageError(f"{name} uses the noise itself, so it takes no reconstruction. Leave --reconstruction out.")
    return OnReconstruction(made, reconstruction)
