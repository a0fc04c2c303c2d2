"""Model files: a classifier with what it needs to classify plain rows; skops, never pickle."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.core.array_types import Floats
from sfumato.core.errors import CardError, SfumatoError
from sfumato.core.files import other_version, write_whole
from sfumato.core.wording import counted
from sfumato.learn.classifiers.factory import CLASSIFIERS, choose_classifier
from sfumato.learn.model_file import ForeignTypeError, ModelFile, UnsoundModelError, check_branches
from sfumato.table import Encoding

# Whether the parts of a loaded classifier fit together, before it is asked anything.
#
# Most learners answer with array arithmetic, where parts that do not fit raise an error. Some answer in C, which
# follows indices and counts wherever they lead: trees, gradient boosting, support vectors, nearest neighbours. Theirs
# are checked here, one function a type.


MOST_UNITS = 10_000
"""Of one layer of a network."""


def check_structure(classifier: Any, classes: int) -> None:
    """Every part of a classifier of at most `classes` classes; classes are codes from 0."""
    for part in _objects(classifier):
        _check_attributes(part)
        if not _is_fitted(part):
            continue
        if "classes_" in vars(part):
            _check_classes(part.classes_, classes)
        if (check := _CHECKS.get(type(part).__name__)) is not None:
            check(part)


def _objects(part: Any, seen: set[int] | None = None) -> Iterator[Any]:
    """Every object inside that has attributes, each once."""
    seen = set() if seen is None else seen
    if isinstance(part, dict):
        part = list(part.values())
    if isinstance(part, list | tuple):
        for inner in part:
            yield from _objects(inner, seen)
    elif hasattr(part, "__dict__") and not isinstance(part, type) and id(part) not in seen:
        seen.add(id(part))
        yield part
        yield from _objects(list(vars(part).values()), seen)


def _require(sound: Any, what: str) -> None:
    if not bool(np.all(sound)):
        raise UnsoundModelError(f"{what} in it does not fit together")


def _is_fitted(part: Any) -> bool:
    return any(name.endswith("_") for name in vars(part))


def _check_attributes(part: Any) -> None:
    """No attribute takes the place of a method or of a fixed property, and nothing is asked of many threads."""
    own = vars(part)
    hidden = [name for name in own if hasattr(type(part), name) or name == "_in_fit"]
    threads = [own[name] for name in ("n_jobs", "workers") if name in own]
    _require(not hidden and all(number is None for number in threads), f"a {type(part).__name__}")


def _check_classes(found: Any, most: int) -> None:
    codes = np.asarray(found)  # of trees in a forest they are whole floats
    _require(codes.ndim == 1 and codes.dtype.kind in "iuf" and 1 <= len(codes) <= most, "a classifier")
    _require(np.isin(codes, np.arange(most)).all() and len(np.unique(codes)) == len(codes), "a classifier")


def _shaped(array: Any, shape: tuple[int, ...], kind: str = "f") -> bool:
    return isinstance(array, np.ndarray) and array.shape == shape and array.dtype.kind in kind


def _whole(number: Any, least: int, most: int) -> bool:
    return isinstance(number, int | np.integer) and not isinstance(number, bool) and least <= int(number) <= most


# One function a type


def _tree(part: Any) -> None:
    tree = part.tree_
    _require(type(tree).__name__ == "Tree" and type(tree).__module__ == "sklearn.tree._tree", "a tree")
    _require(
        (
            part.n_outputs_ == tree.n_outputs == 1,
            part.n_features_in_ == tree.n_features,
            part.n_classes_ == len(part.classes_) == int(tree.n_classes[0]),
        ),
        "a tree",
    )


def _forest(part: Any) -> None:
    trees = part.estimators_
    _require(isinstance(trees, list) and trees, "a forest")
    for tree in trees:
        _require(type(tree).__name__ == "DecisionTreeClassifier" and "tree_" in vars(tree), "a forest")
        fits = tree.n_features_in_ == part.n_features_in_ and tree.n_classes_ == part.n_classes_
        _require(fits and part.n_classes_ == len(part.classes_) and part.n_outputs_ == 1, "a forest")


def _boosting(part: Any) -> None:
    classes, features = len(part.classes_), part.n_features_in_
    trees = 1 if classes <= 2 else classes
    known = part._bin_mapper.is_categorical_
    _require(_shaped(known, (features,), "bu") and not known.any(), "a boosting")
    _require(part.n_trees_per_iteration_ == trees and part._preprocessor is None, "a boosting")
    _require(_shaped(part._baseline_prediction, (1, trees)), "a boosting")
    for round_ in part._predictors:
        _require(isinstance(round_, list) and len(round_) == trees, "a boosting")
        for predictor in round_:
            _require(type(predictor).__name__ == "TreePredictor", "a boosting")
            _predictor_nodes(predictor.nodes, features)


def _predictor_nodes(nodes: NDArray[Any], features: int) -> None:
    from sklearn.ensemble._hist_gradient_boosting.common import PREDICTOR_RECORD_DTYPE

    _require(nodes.ndim == 1 and len(nodes) and nodes.dtype == PREDICTOR_RECORD_DTYPE, "a tree")
    _require((nodes["is_leaf"] <= 1, nodes["is_categorical"] == 0), "a tree")
    check_branches(nodes["left"], nodes["right"], nodes["feature_idx"], nodes["is_leaf"] == 1, features)


def _support_vectors(part: Any) -> None:
    vectors, classes, features = part.support_vectors_, len(part.classes_), part.n_features_in_
    count = len(vectors)
    rows = part.shape_fit_[0]
    pairs = classes * (classes - 1) // 2
    kernel = part.kernel in ("rbf", "poly", "sigmoid") and _whole(part.degree, 1, 10)
    settled = (kernel, part._sparse is False, part._effective_probability is False, classes >= 2)
    shapes = (
        _shaped(vectors, (count, features)),
        _shaped(part.support_, (count,), "i"),
        _shaped(part._n_support, (classes,), "i"),
        _shaped(part._dual_coef_, (classes - 1, count)),
        _shaped(part._intercept_, (pairs,)),
        part._probA.size == part._probB.size == 0,
        part.shape_fit_ == (rows, features),
    )
    _require(settled, "a support vector machine")
    _require(shapes, "a support vector machine")
    counts, support = part._n_support.astype(np.int64), part.support_.astype(np.int64)
    _require((counts >= 0).all() and counts.sum() == count, "a support vector machine")
    _require((support >= 0).all() and (support < rows).all(), "a support vector machine")


def _neighbours(part: Any) -> None:
    rows, features = part._fit_X.shape
    settled = (
        part._fit_method == "brute" and part._tree is None,
        part.effective_metric_ == "euclidean" and part.effective_metric_params_ == {},
        part.weights in ("uniform", "distance"),
        part.outputs_2d_ is False,
    )
    shapes = (
        _shaped(part._fit_X, (part.n_samples_fit_, part.n_features_in_)) and features >= 1,
        _shaped(part._y, (rows,), "iu"),
        _whole(part.n_neighbors, 1, rows),
    )
    _require(settled, "a table of neighbours")
    _require(shapes, "a table of neighbours")
    _require(part._y.min() >= 0 and part._y.max() < len(part.classes_), "a table of neighbours")


def _nearest_vote(part: Any) -> None:
    rows = len(part.rows_)
    shapes = (
        _shaped(part.rows_, (rows, part.n_features_in_)) and _shaped(part.codes_, (rows,), "i"),
        _whole(part.k_, 1, rows) and part.weights in ("1", "1/d", "1/d^2"),
    )
    _require(shapes, "a table of neighbours")
    _require(part.codes_.min() >= 0 and part.codes_.max() < len(part.classes_), "a table of neighbours")


def _smoother(part: Any) -> None:
    rows = len(part.rows_)
    wide = len(part.classes_) if "classes_" in vars(part) else 1
    shapes = (
        _shaped(part.rows_, (rows, part.n_features_in_)) and rows >= 1,
        _shaped(part.values_, (rows, wide)) and isinstance(part.width_, float) and part.width_ > 0,
    )
    _require(shapes, "a kernel smoother")


def _planes(part: Any) -> None:
    count = 1 if len(part.classes_) == 2 else len(part.classes_)
    shapes = (_shaped(part.weights_, (count, part.n_features_in_)), _shaped(part.intercepts_, (count,)))
    _require(shapes, "a hyperplane")


def _network(part: Any) -> None:
    sizes = [part.n_features_in_, *(len(layer) for layer in part.intercepts_)]
    _require(len(part.coefs_) == len(part.intercepts_) == part.n_layers_ - 1, "a network")
    for layer, (before, after) in zip(part.coefs_, pairwise(sizes), strict=True):
        _require(_shaped(layer, (before, after)) and after <= MOST_UNITS, "a network")


def _voters(part: Any) -> None:
    rows, features = part.rows_.shape
    parts = len(part.squared_radius_)
    shapes = (
        _shaped(part.rows_, (rows, part.n_features_in_)) and rows >= 1,
        _shaped(part.codes_, (rows,), "i") and _shaped(part.part_, (rows,), "i"),
        _shaped(part.centre_, (features,)) and _shaped(part.row_noise_, (rows,)),
        _shaped(part.mean_noise_, (parts,)) and _shaped(part.class_prior_, (len(part.classes_),)),
        _whole(part.fallback_neighbours, 1, 1_000_000),
    )
    _require(shapes, "a table of votes")
    _require(part.codes_.min() >= 0 and part.codes_.max() < len(part.classes_), "a table of votes")
    _require(part.part_.min() >= 0 and part.part_.max() < parts, "a table of votes")


def _survey(part: Any) -> None:
    _require(_whole(part.draws, 1, 10_000), "a survey's classifier")


_CHECKS: dict[str, Callable[[Any], None]] = {
    "DecisionTreeClassifier": _tree,
    "RandomForestClassifier": _forest,
    "HistGradientBoostingClassifier": _boosting,
    "SVC": _support_vectors,
    "KNeighborsClassifier": _neighbours,
    "NearestVote": _nearest_vote,
    "KernelSmoother": _smoother,
    "Hyperplanes": _planes,
    "MLPClassifier": _network,
    "RadiusVote": _voters,
    "SurveyClassifier": _survey,
}


FORMAT, VERSION = "sfumato-model", 1
NOT_OURS = "is not a model that `sfumato train` wrote, or it is damaged"


@dataclass(frozen=True, repr=False)
class Model:
    """A trained classifier, and the public description of the space it works in.

    `about` is plain JSON: format, classifier, space, source_schema, transform, classes, the releases used, and
    whether the model contains released rows.
    """

    classifier: Any
    about: Mapping[str, Any]

    def __repr__(self) -> str:
        return f"<Model {self.chosen} from {counted(self.about['rows'], 'released row')}>"

    @property
    def chosen(self) -> str:
        """The classifier and those of its parameters that are not the default, in one line."""
        name = str(self.about["classifier"])
        if name not in CLASSIFIERS:  # of a later version
            return name
        return choose_classifier(name, self.about.get("parameters")).text

    @property
    def classes(self) -> list[str | int | float | bool]:
        """In the order of codes and probabilities, as integers, numbers or truth values where all are spelt so."""
        found: list[str | int | float | bool] = (
            self.encoding().decode_label(range(len(self.about["classes"]))).to_pylist()
        )
        return found

    def encoding(self) -> Encoding:
        return Encoding.from_dict(self.about["source_schema"])

    def affine(self) -> tuple[Floats, Floats] | None:
        """The public map of plain rows into the release's space, or None where it is a secret key."""
        transform = self.about["transform"]
        if transform["kind"] == "affine":
            return np.array(transform["matrix"]), np.array(transform["offset"])
        return None

    def save(self, path: Path | str) -> None:
        """Write the model file, whole or not at all."""
        import skops.io

        write_whole(path, skops.io.dumps({"about": json.dumps(self.about), "classifier": self.classifier}))

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a model. Its sizes, types and structure are checked first: who made it may wish its reader ill."""
        if not path.is_file():
            raise CardError(f"There is no model {path}.")
        try:
            with path.open("rb") as file:
                return cls._read(file)
        except CardError as error:
            raise CardError(f"{path} {error}") from None
        except ForeignTypeError as error:
            raise CardError(f"{path} {error}. It was not loaded.") from None
        except UnsoundModelError as error:
            raise CardError(f"{path} {NOT_OURS}: {error}. It was not used.") from None
        except Exception as error:  # whatever a file that somebody else wrote makes of its readers
            raise CardError(f"{path} {NOT_OURS}.") from error

    @classmethod
    def _read(cls, file: BinaryIO) -> Self:
        import skops.io

        checked = ModelFile(file, _check_version)
        model = cls(skops.io.load(checked.readable(file), trusted=checked.types())["classifier"], checked.about)
        model._check()
        return model

    def _check(self) -> None:
        """The description describes a space, and the classifier fits into it."""
        encoding, public = self.encoding(), self.affine()
        label = encoding.schema.label
        if label is None or label.name != self.about["label"] or list(label.categories or ()) != self.about["classes"]:
            raise UnsoundModelError("its classes are not those of its schema")
        if public is not None and (
            public[0].ndim != 2
            or public[0].shape[1] != encoding.width
            or public[1].shape != public[0].shape[:1]
            or not (np.isfinite(public[0]).all() and np.isfinite(public[1]).all())
        ):
            raise UnsoundModelError("its map of rows is not a valid map")
        check_structure(self.classifier, len(self.about["classes"]))

    @contextlib.contextmanager
    def answering(self) -> Iterator[None]:
        """Around questions to the classifier: parts that do not fit each other are a damaged model, in one line."""
        try:
            yield
        except SfumatoError:
            raise
        except Exception as error:  # what learners raise when their parts contradict each other, whichever it is
            raise CardError(
                f"The model's {self.about['classifier']} cannot answer ({type(error).__name__}): it is damaged, or was "
                "made by another version. Train it again."
            ) from error


def _check_version(about: Mapping[str, Any]) -> None:
    if about.get("format") != FORMAT:
        raise CardError(f"{NOT_OURS}.")
    if why := other_version(about.get("version"), VERSION, older="Train it again with this version."):
        raise CardError(why)
