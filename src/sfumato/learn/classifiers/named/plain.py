"""Learners of values, or a survey's bits, as they are; randomized labels are corrected."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

from sfumato.core.accepted import Either, Flag, Nothing, Positive, Whole, Word
from sfumato.learn.classifiers.factory import (
    SCALED,
    SINGLE_COLUMNS,
    Invariance,
    NamedClassifier,
    behind_scaling,
)
from sfumato.mechanisms.parameters import parameter


class NaiveBayes(NamedClassifier):
    """Naive Bayes: a normal density per class and number, smoothed frequencies per class and category."""

    name = "naive-bayes"
    published = MappingProxyType({"kernel-resampling": {}})
    model_types = ("naive_bayes.GaussianNB",)  # what a model of 0.1 holds
    own_types = ("mixed_naive_bayes.MixedNaiveBayes",)
    rotations = Invariance(
        "never", "It takes columns for independent, and a rotation makes them dependent or undoes it."
    )

    pseudo_rows: float = parameter(Positive(), "Rows that every category of a class counts beforehand.", default=1.0)


class NeuralNetwork(NamedClassifier):
    """A neural network with one layer of tanh units and weight decay.

    The network of the paper kernel-resampling is ``solver=lbfgs decay=1 iterations=200 scaled=false``.
    """

    name = "mlp"
    published = MappingProxyType({"kernel-resampling": {"scaled": False}})  # 7.3 names no units and no training
    model_types = (
        "neural_network._multilayer_perceptron.MLPClassifier",
        "neural_network._stochastic_optimizers.AdamOptimizer",
        "preprocessing._label.LabelBinarizer",
        *SCALED,
    )

    units: int = parameter(
        Whole(1, 1_000), "Hidden units. Noisy rows are easily learned by heart: few units and weight decay.", default=10
    )
    decay: float = parameter(Positive(or_zero=True), "Weight decay (L2).", default=0.1)
    solver: str = parameter(
        Word(("adam", "lbfgs")),
        "Steps of stochastic gradients, or a quasi-Newton method on all rows at once.",
        default="adam",
    )
    rate: float = parameter(Positive(10.0), "First learning rate of adam.", default=0.01)
    iterations: int = parameter(Whole(1, 10_000), "Iterations at most.", default=300)
    scaled: bool = parameter(
        Flag(),
        "Whether columns are standardised first. That pays under noise, and is not kept by a rotation.",
        default=True,
    )
    seed: int = parameter(Whole(0, 2**31 - 1), "Of the first weights and the order of rows.", default=0)

    @property
    def invariance(self) -> Invariance:
        scaling = " Standardising columns first (scaled=true) adds to that." if self.scaled else ""
        return Invariance(
            "never",
            "The best network for rotated rows is the rotated network, but training starts from random weights that do "
            f"not turn with the rows, and ends elsewhere.{scaling}",
        )

    def make(self) -> Any:
        from sklearn.neural_network import MLPClassifier

        network = MLPClassifier(
            hidden_layer_sizes=(self.units,),
            activation="tanh",
            alpha=self.decay,
            solver=self.solver,
            learning_rate_init=self.rate,
            max_iter=self.iterations,
            random_state=self.seed,
        )
        return behind_scaling(network) if self.scaled else network


class Forest(NamedClassifier):
    """A forest of decision trees."""

    name = "forest"
    model_types = ("ensemble._forest.RandomForestClassifier", "tree._classes.DecisionTreeClassifier")
    rotations = SINGLE_COLUMNS

    trees: int = parameter(Whole(1, 2_000), "How many trees.", default=200)
    min_leaf: int = parameter(
        Whole(1, 1_000_000), "Rows in a leaf at least: trees with larger leaves learn less noise by heart.", default=5
    )
    seed: int = parameter(Whole(0, 2**31 - 1), "Of the random choices.", default=0)

    def make(self) -> Any:
        from sklearn.ensemble import RandomForestClassifier

        return RandomForestClassifier(self.trees, min_samples_leaf=self.min_leaf, random_state=self.seed)


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
    rotations = SINGLE_COLUMNS

    rounds: int = parameter(Whole(1, 2_000), "Rounds of boosting.", default=100)
    rate: float = parameter(Positive(1.0), "What each round counts.", default=0.05)
    max_leaves: int | None = parameter(
        Either((Whole(2, 1_000), Nothing())), "Leaves of a tree at most; null for no limit.", default=31
    )
    seed: int = parameter(Whole(0, 2**31 - 1), "Of the random choices.", default=0)

    def make(self) -> Any:
        from sklearn.ensemble import HistGradientBoostingClassifier

        return HistGradientBoostingClassifier(
            max_iter=self.rounds, learning_rate=self.rate, max_leaf_nodes=self.max_leaves, random_state=self.seed
        )


class BlendOfThree(NamedClassifier):
    """The mean of a forest, boosting and logistic regression: what `auto` takes for made-up rows."""

    name = "blend"
    model_types = (*Forest.model_types, *Boosting.model_types)
    own_types = ("auto.Blend", "geometric.Hyperplanes")
    rotations = SINGLE_COLUMNS

    trees: int = parameter(Whole(1, 2_000), "Of the forest; its leaves hold at least 15 rows.", default=60)
    rounds: int = parameter(Whole(1, 2_000), "Of boosting, with trees of at most 8 leaves.", default=50)
    most_rows: int = parameter(Whole(1, 100_000_000), "Rows that are learned from at most.", default=10_000)
    seed: int = parameter(Whole(0, 2**31 - 1), "Of all random choices.", default=0)


# Learners of the bits of a guided survey.


class BitBayes(NamedClassifier):
    """Naive Bayes on the bits of a guided survey."""

    name = "bernoulli-naive-bayes"
    published = MappingProxyType({"guided-survey": {}})
    on_bits = True
    model_types = ("naive_bayes.BernoulliNB",)
    own_types = ("survey_bits.SurveyClassifier",)

    pseudo_rows: float = parameter(Positive(), "Rows that every value of a bit counts beforehand.", default=1.0)

    def make(self) -> Any:
        from sfumato.learn.classifiers.survey_bits import SurveyClassifier

        if self.pseudo_rows == 1.0:
            return SurveyClassifier("naive-bayes")
        from sklearn.naive_bayes import BernoulliNB

        return SurveyClassifier(BernoulliNB(alpha=float(self.pseudo_rows)))


class BitTree(NamedClassifier):
    """An ID3 decision tree (information gain) on the bits of a guided survey."""

    name = "id3"
    published = MappingProxyType({"guided-survey": {}})
    on_bits = True
    model_types = ("tree._classes.DecisionTreeClassifier",)
    own_types = ("survey_bits.SurveyClassifier",)
    fixed = MappingProxyType({"classifier": "id3"})

    min_leaf: int | None = parameter(
        Either((Whole(1, 1_000_000), Nothing())),
        "Rows in a leaf at least; null for a thousandth of the rows, and 5 at least.",
        default=None,
    )
    max_depth: int | None = parameter(Either((Whole(1, 1_000), Nothing())), "Depth at most.", default=None)
