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
    """Naive Bayes: a normal density per class and number, smoothed frequencies per class and category.

    Parameters
    ----------
    pseudo_rows : float, default=1.0
        Rows that every category of a class counts beforehand, above 0 to 1e6.
    """

    name = "naive-bayes"
    published = MappingProxyType({"kernel-resampling": {}})
    model_types = ("naive_bayes.GaussianNB",)  # what a model of 0.1 holds
    own_types = ("mixed_naive_bayes.MixedNaiveBayes",)
    rotations = Invariance(
        "never", "It takes columns for independent, and a rotation makes them dependent or undoes it."
    )

    pseudo_rows: float = parameter(1.0, Positive())


class NeuralNetwork(NamedClassifier):
    """A neural network with one layer of tanh units and weight decay.

    The network of the paper kernel-resampling is ``solver=lbfgs decay=1 iterations=200 scaled=false``.

    Parameters
    ----------
    units : int, default=10
        Hidden units, from 1 to 1,000. Noisy rows are easily learned by heart: few units and weight decay.
    decay : float, default=0.1
        Weight decay (L2), from 0 to 1e6.
    solver : {"adam", "lbfgs"}, default="adam"
        Steps of stochastic gradients, or a quasi-Newton method on all rows at once.
    rate : float, default=0.01
        First learning rate of adam, above 0 to 10.
    iterations : int, default=300
        At most, from 1 to 10,000.
    scaled : bool, default=true
        Whether columns are standardised first. That pays under noise, and is not kept by a rotation.
    seed : int, default=0
        Of the first weights and the order of rows, from 0 to 2**31 - 1.
    """

    name = "mlp"
    published = MappingProxyType({"kernel-resampling": {"scaled": False}})  # 7.3 names no units and no training
    model_types = (
        "neural_network._multilayer_perceptron.MLPClassifier",
        "neural_network._stochastic_optimizers.AdamOptimizer",
        "preprocessing._label.LabelBinarizer",
        *SCALED,
    )

    units: int = parameter(10, Whole(1, 1_000))
    decay: float = parameter(0.1, Positive(or_zero=True))
    solver: str = parameter("adam", Word(("adam", "lbfgs")))
    rate: float = parameter(0.01, Positive(10.0))
    iterations: int = parameter(300, Whole(1, 10_000))
    scaled: bool = parameter(True, Flag())
    seed: int = parameter(0, Whole(0, 2**31 - 1))

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
    """A forest of decision trees.

    Parameters
    ----------
    trees : int, default=200
        From 1 to 2,000.
    min_leaf : int, default=5
        Rows in a leaf at least, from 1 to 1,000,000: trees with larger leaves learn less noise by heart.
    seed : int, default=0
        Of the random choices, from 0 to 2**31 - 1.
    """

    name = "forest"
    model_types = ("ensemble._forest.RandomForestClassifier", "tree._classes.DecisionTreeClassifier")
    rotations = SINGLE_COLUMNS

    trees: int = parameter(200, Whole(1, 2_000))
    min_leaf: int = parameter(5, Whole(1, 1_000_000))
    seed: int = parameter(0, Whole(0, 2**31 - 1))

    def make(self) -> Any:
        from sklearn.ensemble import RandomForestClassifier

        return RandomForestClassifier(self.trees, min_samples_leaf=self.min_leaf, random_state=self.seed)


class Boosting(NamedClassifier):
    """Gradient-boosted trees.

    Parameters
    ----------
    rounds : int, default=100
        Rounds of boosting, from 1 to 2,000.
    rate : float, default=0.05
        What each round counts, above 0 to 1.
    max_leaves : int or null, default=31
        Leaves of a tree at most, from 2 to 1,000; null for no limit.
    seed : int, default=0
        Of the random choices, from 0 to 2**31 - 1.
    """

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

    rounds: int = parameter(100, Whole(1, 2_000))
    rate: float = parameter(0.05, Positive(1.0))
    max_leaves: int | None = parameter(31, Either((Whole(2, 1_000), Nothing())))
    seed: int = parameter(0, Whole(0, 2**31 - 1))

    def make(self) -> Any:
        from sklearn.ensemble import HistGradientBoostingClassifier

        return HistGradientBoostingClassifier(
            max_iter=self.rounds, learning_rate=self.rate, max_leaf_nodes=self.max_leaves, random_state=self.seed
        )


class BlendOfThree(NamedClassifier):
    """The mean of a forest, boosting and logistic regression: what `auto` takes for made-up rows.

    Parameters
    ----------
    trees : int, default=60
        Of the forest, from 1 to 2,000; its leaves hold at least 15 rows.
    rounds : int, default=50
        Of boosting, from 1 to 2,000, with trees of at most 8 leaves.
    most_rows : int, default=10000
        Rows that are learned from at most, from 1 to 100,000,000.
    seed : int, default=0
        Of all random choices, from 0 to 2**31 - 1.
    """

    name = "blend"
    model_types = (*Forest.model_types, *Boosting.model_types)
    own_types = ("auto.Blend", "geometric.Hyperplanes")
    rotations = SINGLE_COLUMNS

    trees: int = parameter(60, Whole(1, 2_000))
    rounds: int = parameter(50, Whole(1, 2_000))
    most_rows: int = parameter(10_000, Whole(1, 100_000_000))
    seed: int = parameter(0, Whole(0, 2**31 - 1))


# Learners of the bits of a guided survey.


class BitBayes(NamedClassifier):
    """Naive Bayes on the bits of a guided survey.

    Parameters
    ----------
    pseudo_rows : float, default=1.0
        Rows that every value of a bit counts beforehand, above 0 to 1e6.
    """

    name = "bernoulli-naive-bayes"
    published = MappingProxyType({"guided-survey": {}})
    on_bits = True
    model_types = ("naive_bayes.BernoulliNB",)
    own_types = ("survey_bits.SurveyClassifier",)

    pseudo_rows: float = parameter(1.0, Positive())

    def make(self) -> Any:
        from sfumato.learn.classifiers.survey_bits import SurveyClassifier

        if self.pseudo_rows == 1.0:
            return SurveyClassifier("naive-bayes")
        from sklearn.naive_bayes import BernoulliNB

        return SurveyClassifier(BernoulliNB(alpha=float(self.pseudo_rows)))


class BitTree(NamedClassifier):
    """An ID3 decision tree (information gain) on the bits of a guided survey.

    Parameters
    ----------
    min_leaf : int or null, default=null
        Rows in a leaf at least, from 1 to 1,000,000; null for a thousandth of the rows, and 5 at least.
    max_depth : int or null, default=null
        Depth at most, from 1 to 1,000.
    """

    name = "id3"
    published = MappingProxyType({"guided-survey": {}})
    on_bits = True
    model_types = ("tree._classes.DecisionTreeClassifier",)
    own_types = ("survey_bits.SurveyClassifier",)
    fixed = MappingProxyType({"classifier": "id3"})

    min_leaf: int | None = parameter(None, Either((Whole(1, 1_000_000), Nothing())))
    max_depth: int | None = parameter(None, Either((Whole(1, 1_000), Nothing())))
