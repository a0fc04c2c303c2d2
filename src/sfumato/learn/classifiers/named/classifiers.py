"""The classifiers that can be chosen by name. Each declares itself; scikit-learn is imported only when one is made."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

from sfumato.core.accepted import Between, Either, Flag, Nothing, Positive, Whole, Word
from sfumato.learn.classifiers.factory import (
    DISTANCES,
    PENALISED,
    SCALED,
    SINGLE_COLUMNS,
    Invariance,
    NamedClassifier,
    behind_scaling,
)
from sfumato.mechanisms.parameters import parameter

_INTERVALS = Either((Whole(2, 1_000), Nothing())), "Intervals of a density; null lets the number of rows decide."
_LEAF, _DEPTH = Either((Whole(1, 1_000_000), Nothing())), Either((Whole(1, 1_000), Nothing()))
_BY_VALIDATION = Word(("cross-validation",))
_SCALES = "It divides each column by its own spread first, and rotated columns have other spreads"


# Learners that read the noise off the card; the first, which is the default, chooses one by the release.


class Auto(NamedClassifier):
    """The learner that suits the release: the blend for made-up rows, else the one that predicts labels of held-out
    released rows best; says which. Knows the noise."""

    name = "auto"
    knows_noise = True
    keeps_rows = True  # where it chooses nearest neighbours
    own_types = ("training.AutoClassifier",)


class CircleVote(NamedClassifier):
    """Rows within a circle as wide as the noise vote, by 1/d^2 and class priors. Knows the noise."""

    name = "radius-vote"
    published = MappingProxyType({"principal-laplace": {"prior_correction": False}})
    knows_noise = True
    keeps_rows = True
    own_types = ("radius_vote.RadiusVote",)
    rotations = DISTANCES

    n: float = parameter(
        Between(-100.0, 100.0),
        "Standard deviations of the distortion that the circle reaches beyond its mean.",
        default=2.0,
    )
    prior_correction: bool = parameter(
        Flag(), "Divide votes by class priors and weigh what they say; false is the published vote.", default=True
    )
    radius: float | None = parameter(
        Either((Positive(), Nothing())),
        "Radius of the circle in encoded units, instead of the one computed from the noise.",
        default=None,
    )
    fallback_neighbours: int = parameter(Whole(1, 1_000), "Rows that vote where the circle is empty.", default=5)

    def make(self) -> Any:
        from sfumato.learn.classifiers.radius_vote import RadiusVote

        squared = None if self.radius is None else float(self.radius) ** 2
        return RadiusVote(float(self.n), self.prior_correction, self.fallback_neighbours, squared)


class BayesOnDensities(NamedClassifier):
    """Naive Bayes on the reconstructed density of every column and class. Knows the noise."""

    name = "reconstructed-naive-bayes"
    knows_noise = True
    own_types = ("on_reconstruction.ReconstructedNaiveBayes",)
    rotations = SINGLE_COLUMNS

    intervals: int | None = parameter(*_INTERVALS, default=None)
    pseudo_rows: float = parameter(Positive(), "Rows that every interval of a class counts beforehand.", default=2.0)


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
    """A tree on values moved to their reconstructed distribution. Knows the noise."""

    name = "reconstructed-tree"
    knows_noise = True
    model_types = ("tree._classes.DecisionTreeClassifier",)
    own_types = ("on_reconstruction.ReconstructedTree", "on_reconstruction.OnReconstruction")
    rotations = SINGLE_COLUMNS

    min_leaf: int | None = parameter(_LEAF, "Rows in a leaf at least; null for 1% of the rows.", default=None)
    max_depth: int | None = parameter(_DEPTH, "Depth at most.", default=None)
    intervals: int | None = parameter(*_INTERVALS, default=None)


class _Discriminant(NamedClassifier):
    knows_noise = True
    own_types = ("noise_aware_discriminant.NoiseAwareDiscriminant",)

    floor: float = parameter(
        Positive(or_zero=True), "How far a variance must stay above chance once the noise is taken out.", default=1.5
    )


class LinearDiscriminant(_Discriminant):
    """A linear discriminant with the noise taken out of its covariances. Knows the noise."""

    name = "noise-aware-lda"
    fixed = MappingProxyType({"kind": "linear"})


class QuadraticDiscriminant(_Discriminant):
    """A quadratic discriminant with the noise taken out of its covariances. Knows the noise."""

    name = "noise-aware-qda"
    fixed = MappingProxyType({"kind": "quadratic"})


# Learners of values as they are; randomized labels are corrected.


class NaiveBayes(NamedClassifier):
    """Naive Bayes: a normal density per class and number, smoothed frequencies per class and category."""

    name = "naive-bayes"
    published = MappingProxyType({"kernel-resampling": {}})
    model_types = ("naive_bayes.GaussianNB",)  # what a model of 0.1 holds
    own_types = ("survey_bits.MixedNaiveBayes",)
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
    spelt = MappingProxyType({"trees": "n_estimators", "min_leaf": "min_samples_leaf", "seed": "random_state"})
    rotations = SINGLE_COLUMNS

    trees: int = parameter(Whole(1, 2_000), "How many trees.", default=200)
    min_leaf: int = parameter(
        Whole(1, 1_000_000), "Rows in a leaf at least: trees with larger leaves learn less noise by heart.", default=5
    )
    seed: int = parameter(Whole(0, 2**31 - 1), "Of the random choices.", default=0)


class Boosting(NamedClassifier):
    """Gradient-boosted trees."""

    name = "boosting"
    model_types = (
        "ensemble._hist_gradient_boosting.gradient_boosting.HistGradientBoostingClassifier",
        "_loss.link.Interval",
        "_loss.link.LogitLink",
        "_loss.link.MultinomialLogit",
        "_loss.loss.HalfBinomialLoss",
        "_loss.loss.HalfMultinomialLoss",
        "ensemble._hist_gradient_boosting.binning._BinMapper",
        "ensemble._hist_gradient_boosting.predictor.TreePredictor",
        "preprocessing._label.LabelEncoder",
    )
    spelt = MappingProxyType(
        {"rounds": "max_iter", "rate": "learning_rate", "max_leaves": "max_leaf_nodes", "seed": "random_state"}
    )
    rotations = SINGLE_COLUMNS

    rounds: int = parameter(Whole(1, 2_000), "Rounds of boosting.", default=100)
    rate: float = parameter(Positive(1.0), "What each round counts.", default=0.05)
    max_leaves: int | None = parameter(
        Either((Whole(2, 1_000), Nothing())), "Leaves of a tree at most; null for no limit.", default=31
    )
    seed: int = parameter(Whole(0, 2**31 - 1), "Of the random choices.", default=0)


class BlendOfThree(NamedClassifier):
    """The mean of a forest, boosting and logistic regression: what `auto` takes for made-up rows."""

    name = "blend"
    model_types = (*Forest.model_types, *Boosting.model_types)
    own_types = ("training.Blend", "geometric.Hyperplanes")
    rotations = SINGLE_COLUMNS

    trees: int = parameter(Whole(1, 2_000), "Of the forest; its leaves hold at least 15 rows.", default=60)
    rounds: int = parameter(Whole(1, 2_000), "Of boosting, with trees of at most 8 leaves.", default=50)
    most_rows: int = parameter(Whole(1, 100_000_000), "Rows that are learned from at most.", default=10_000)
    seed: int = parameter(Whole(0, 2**31 - 1), "Of all random choices.", default=0)


# Learners of distances and hyperplanes: those that a rotation can leave as they are [random-rotation, 3.2].


class NearestRows(NamedClassifier):
    """The k nearest rows vote, weighted by 1, 1/d or 1/d^2."""

    name = "knn"
    published = MappingProxyType(
        {
            "kernel-resampling": {"k": 11, "weights": "1"},  # 7.3
            "random-rotation": {"weights": "1"},  # 3.2, which names no k
            "principal-laplace": {"k": "cross-validation", "weights": "1/d^2"},  # PCA-Best-K and Rand-*, Eq. 11
        }
    )
    keeps_rows = True
    model_types = ("neighbors._classification.KNeighborsClassifier",)  # what a model of 0.2 holds
    own_types = ("geometric.NearestVote",)
    rotations = DISTANCES

    k: int | str = parameter(
        Either((Whole(1, 10_000), _BY_VALIDATION)),
        "Rows that vote; or the best of 1, 3, 5, ... 301 on released rows that are left out in turn.",
        default=11,
    )
    weights: int | str = parameter(
        Word(("1", "1/d", "1/d^2")), "What the vote of a row at distance d counts.", default="1/d"
    )

    def __post_init__(self) -> None:
        self.weights = "1" if self.weights == 1 else self.weights  # `weights=1` reads as a number


class KernelClassifier(NamedClassifier):
    """Every row votes by a kernel of its distance: the kernel smoother of random-rotation, Eqs 1-2."""

    name = "kernel-smoother"
    published = MappingProxyType({"random-rotation": {"kernel": "gaussian"}})
    keeps_rows = True
    own_types = ("geometric.KernelSmoother",)
    rotations = DISTANCES

    width: float | str = parameter(
        Either((Positive(), _BY_VALIDATION)),
        "Width lambda of the kernel, in encoded units (a number's range is 1); or the one with the least squared "
        "error on released rows that are left out in turn.",
        default="cross-validation",
    )
    kernel: str = parameter(Word(("gaussian", "epanechnikov")), "D of Eq. 2.", default="gaussian")


class Perceptron(NamedClassifier):
    """A perceptron: rows on the wrong side of the plane move it, one at a time."""

    name = "perceptron"
    published = MappingProxyType({"random-rotation": {}})
    fixed = MappingProxyType({"kind": "perceptron"})
    spelt = MappingProxyType({"seed": "random_state"})
    own_types = ("geometric.Hyperplanes",)
    rotations = Invariance(
        "centre zero",
        "Its weights are sums of rows and turn with them; its bias moves by steps of 1 wherever the centre is.",
    )

    epochs: int = parameter(
        Whole(1, 100_000), "Passes over the rows at most; it stops when a pass no longer helps.", default=1_000
    )
    seed: int = parameter(Whole(0, 2**31 - 1), "Of the order of the rows.", default=0)


class Logistic(NamedClassifier):
    """Logistic regression with a penalty on the length of its weights."""

    name = "logistic"
    fixed = MappingProxyType({"kind": "logistic"})
    own_types = ("geometric.Hyperplanes",)
    rotations = PENALISED

    penalty: float = parameter(
        Positive(), "Weight of the squared length of the weights, beside the sum of the rows' losses.", default=1.0
    )


class SupportVectors(NamedClassifier):
    """A support vector machine: rbf, polynomial or sigmoid kernel, on scaled or on plain columns.

    The polynomial kernel is (gamma <x,x'> + offset)^degree, the sigmoid tanh(gamma <x,x'> + offset), rbf
    exp(-gamma |x - x'|^2). The paper's polynomial [random-rotation, Theorem 2] is ``gamma=1 offset=1``.
    """

    name = "svm"
    published = MappingProxyType({"random-rotation": {"gamma": "1/columns", "scaled": False}})
    keeps_rows = True
    model_types = ("svm._classes.SVC", *SCALED)

    kernel: str = parameter(Word(("rbf", "polynomial", "sigmoid")), "The kernel.", default="rbf")
    gamma: float | str = parameter(
        Either((Positive(), Word(("scale", "1/columns")))),
        'Factor in the kernel; "scale" is 1 over the number of columns and the variance of all cells.',
        default="scale",
    )
    penalty: float = parameter(Positive(), "C, the penalty of a row on the wrong side.", default=1.0)
    degree: int = parameter(Whole(1, 10), "Of the polynomial.", default=3)
    offset: float = parameter(Between(-1e6, 1e6), "Of polynomial and sigmoid.", default=0.0)
    scaled: bool = parameter(
        Flag(), "Whether columns are standardised first. That is not kept by a rotation.", default=True
    )

    @property
    def invariance(self) -> Invariance:
        when = "any centre" if self.kernel == "rbf" else "centre zero"
        kept = "distances" if self.kernel == "rbf" else "scalar products, which only a rotation about zero keeps"
        if self.scaled:
            return Invariance("never", f"{_SCALES}. Without (scaled=false, gamma a number): {when}.")
        if self.gamma == "scale":
            return Invariance(
                "never", f"gamma=scale divides by the variance of all cells, which a rotation changes. Else: {when}."
            )
        return Invariance(when, f"It looks at nothing but {kept}; gamma is fixed, and nothing is scaled.")

    def make(self) -> Any:
        from sklearn.svm import SVC

        machine = SVC(
            C=float(self.penalty),
            kernel="poly" if self.kernel == "polynomial" else self.kernel,
            gamma="auto" if self.gamma == "1/columns" else self.gamma,
            degree=self.degree,
            coef0=float(self.offset),
        )
        return behind_scaling(machine) if self.scaled else machine


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
        _LEAF, "Rows in a leaf at least; null for a thousandth of the rows, and 5 at least.", default=None
    )
    max_depth: int | None = parameter(_DEPTH, "Depth at most.", default=None)
