"""Learners of rows as they are: randomized labels are corrected, plain rows are put where the release lies."""

from __future__ import annotations

from typing import Any

from sfumato.classifiers.named.base import SCALED, NamedClassifier


class NearestRows(NamedClassifier):
    """The 11 nearest rows vote, weighted by 1/d."""

    name = "knn"
    keeps_rows = True
    model_types = ("neighbors._classification.KNeighborsClassifier",)

    def make(self) -> Any:
        from sklearn.neighbors import KNeighborsClassifier

        return KNeighborsClassifier(n_neighbors=11, weights="distance", algorithm="brute")


class NaiveBayes(NamedClassifier):
    """Naive Bayes: a normal density per class and number, smoothed frequencies per class and category."""

    name = "naive-bayes"
    model_types = ("naive_bayes.GaussianNB",)  # what a model of 0.1 holds
    own_types = ("mixed_naive_bayes.MixedNaiveBayes",)

    def make(self) -> Any:
        from sfumato.classifiers.mixed_naive_bayes import MixedNaiveBayes

        return MixedNaiveBayes()


class NeuralNetwork(NamedClassifier):
    """A neural network with ten tanh units and weight decay."""

    name = "mlp"
    model_types = (
        "neural_network._multilayer_perceptron.MLPClassifier",
        "neural_network._stochastic_optimizers.AdamOptimizer",
        "preprocessing._label.LabelBinarizer",
        *SCALED,
    )

    def make(self) -> Any:
        from sklearn.neural_network import MLPClassifier
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        # Noisy rows are easily learned by heart: few units and weight decay.
        units: dict[str, Any] = {"hidden_layer_sizes": (10,), "activation": "tanh", "alpha": 0.1}
        network = MLPClassifier(**units, learning_rate_init=0.01, max_iter=300, random_state=0)
        return make_pipeline(StandardScaler(), network)


class SupportVectors(NamedClassifier):
    """A support vector machine with an RBF kernel on scaled columns."""

    name = "svm"
    keeps_rows = True
    model_types = ("svm._classes.SVC", *SCALED)

    def make(self) -> Any:
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler
        from sklearn.svm import SVC

        return make_pipeline(StandardScaler(), SVC(C=1.0, kernel="rbf"))


class Forest(NamedClassifier):
    """A forest of 200 trees."""

    name = "forest"
    model_types = ("ensemble._forest.RandomForestClassifier", "tree._classes.DecisionTreeClassifier")

    def make(self) -> Any:
        from sklearn.ensemble import RandomForestClassifier

        return RandomForestClassifier(n_estimators=200, min_samples_leaf=5, random_state=0)


class Boosting(NamedClassifier):
    """Gradient-boosted trees."""

    name = "boosting"
    model_types = (
        "_loss.link.Interval",
        "_loss.link.LogitLink",
        "_loss.link.MultinomialLogit",
        "_loss.loss.HalfBinomialLoss",
        "_loss.loss.HalfMultinomialLoss",
        "ensemble._hist_gradient_boosting.binning._BinMapper",
        "ensemble._hist_gradient_boosting.gradient_boosting.HistGradientBoostingClassifier",
        "ensemble._hist_gradient_boosting.predictor.TreePredictor",
        "preprocessing._label.LabelEncoder",
    )

    def make(self) -> Any:
        from sklearn.ensemble import HistGradientBoostingClassifier

        return HistGradientBoostingClassifier(max_iter=100, learning_rate=0.05, random_state=0)
