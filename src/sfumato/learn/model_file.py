"""The inside of a model file, looked at before anything of it is built.

A skops file is a zip archive: `schema.json` describes objects, `*.npy` hold their arrays. Both may come from a stranger
who wants the reader to crash. So sizes come from the archive's own list, before a byte is unpacked; every object must
be of a type that a model of ours can have; and decision trees, whose C code follows whatever numbers it is given, are
checked before scikit-learn gets them. Other classifiers are plain arrays until they are asked: `check_structure` looks
at them once they are built.
"""

from __future__ import annotations

import io
import json
import math
import zipfile
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Any, BinaryIO

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from sfumato.core.array_types import Flags
from sfumato.core.moved import module_now
from sfumato.learn.classifiers.factory import CLASSIFIERS

MOST_SCHEMA_BYTES = 64 << 20
"""A forest of 200 trees needs 4 MB, whatever the number of rows."""
MOST_MEMBERS = 1_000_000
DEEPEST = 100
SCHEMA = "schema.json"

TREE = "sklearn.tree._tree.Tree"
TRUSTED: Mapping[str, frozenset[str]] = {
    "DictNode": frozenset({"builtins.dict"}),
    "ListNode": frozenset({"builtins.list"}),
    "TupleNode": frozenset({"builtins.tuple"}),
    "JsonNode": frozenset({"builtins.str"}),
    "TypeNode": frozenset({"builtins.str", "builtins.int"}),
    "NdArrayNode": frozenset(
        {f"numpy.{name}" for name in ("ndarray", "float64", "float32", "int64", "int32", "uint64", "uint32", "bool")}
    ),
    "ObjectNode": frozenset(
        {f"sklearn.{name}" for one in CLASSIFIERS.values() for name in one.model_types}
        | {f"sfumato.learn.classifiers.{name}" for one in CLASSIFIERS.values() for name in one.own_types}
        | {"sfumato.learn.classifiers.reads_noise.LabelNoiseCorrection"}
    ),
    "LossNode": frozenset({f"sklearn._loss._loss.{name}" for name in ("CyHalfBinomialLoss", "CyHalfMultinomialLoss")}),
    "RandomStateNode": frozenset({"numpy.random.mtrand.RandomState"}),
    "RandomGeneratorNode": frozenset({"numpy.random._generator.Generator"}),
    "TreeNode": frozenset({TREE}),
}
"""For every way in which skops builds an object, the types that our classifiers consist of. Nothing else is built."""


class UnsoundModelError(ValueError):
    """What about a model file cannot be: the end of a sentence, for `Model.load` to finish."""


class ForeignTypeError(UnsoundModelError):
    """A type that no model of ours has."""


def _refuse(wrong: Any, why: str) -> None:
    if wrong:
        raise UnsoundModelError(why)


class ModelFile:
    """A model's archive, whose sizes and types were found sound; `about` is its description, not yet believed.

    `check` looks at that first: a model of another version is to be called that, whatever types it has.
    """

    def __init__(self, file: BinaryIO, check: Callable[[Mapping[str, Any]], None]) -> None:
        self._zip = zipfile.ZipFile(file)
        self._check_sizes(file.seek(0, 2))
        self.schema = json.loads(self._zip.read(SCHEMA))
        _refuse(not isinstance(self.schema, dict), "its description is not an object")
        root = self.schema.get("content")
        if not isinstance(root, dict) or set(root) != {"about", "classifier"}:
            raise UnsoundModelError("it contains something other than a classifier and its description")
        _refuse(root["about"].get("__loader__") != "JsonNode", "its description is not text")
        self.about = json.loads(self._value(root["about"]))
        _refuse(not isinstance(self.about, dict), "its description is not an object")
        check(self.about)
        nodes = list(_nodes(self.schema))
        # a description of 0.2 names our classes where they were then
        old = [node for node in nodes if module_now(str(node.get("__module__"))) != node.get("__module__")]
        for node in old:
            node["__module__"] = module_now(str(node["__module__"]))
        self._moved = bool(old)
        for node in nodes:
            kind = f"{node['__module__']}.{node['__class__']}"
            if kind not in TRUSTED.get(str(node["__loader__"]), ()):
                raise ForeignTypeError(f"holds an object of type {kind[:200]}, which our models never do")
        known: dict[Any, dict[str, Any]] = {}
        for node in nodes:  # skops takes objects of one id for one object, and reads only the first
            name = node.get("__id__")
            if name is not None and not _same(known.setdefault(name, node), node):
                raise UnsoundModelError("two different objects in it have the same id")
        self._check_arrays(nodes)
        for node in nodes:
            if node["__loader__"] == "TreeNode":
                self._check_tree(node)

    def readable(self, file: BinaryIO) -> BinaryIO:
        """The archive for skops to read: the file itself, or a copy that names our classes where they are now."""
        file.seek(0)
        if not self._moved:
            return file
        copy = io.BytesIO()
        with zipfile.ZipFile(copy, "w", zipfile.ZIP_STORED) as archive:
            for member in self._zip.infolist():
                kept = json.dumps(self.schema).encode() if member.filename == SCHEMA else self._zip.read(member)
                archive.writestr(member.filename, kept)
        copy.seek(0)
        return copy

    def _check_sizes(self, size: int) -> None:
        """Nothing is compressed, as skops writes it: then the archive cannot grow when it is read."""
        members = self._zip.infolist()
        if len(members) > MOST_MEMBERS or len({member.filename for member in members}) != len(members):
            raise UnsoundModelError("its archive has too many members, or several of one name")
        if any(m.compress_type != zipfile.ZIP_STORED or m.file_size != m.compress_size for m in members):
            raise UnsoundModelError("its archive is compressed, but our models never are")
        if sum(member.file_size for member in members) > size:
            raise UnsoundModelError("its archive claims to contain more than the file does")
        if self._zip.getinfo(SCHEMA).file_size > MOST_SCHEMA_BYTES:
            raise UnsoundModelError(f"its description has more than {MOST_SCHEMA_BYTES} bytes")

    def _check_arrays(self, nodes: list[dict[str, Any]]) -> None:
        """Every array is as large as its header says, and no array is read again and again."""
        used = 0
        for node in (node for node in nodes if node["__loader__"] == "NdArrayNode"):
            _refuse(node.get("type") != "numpy", "an array in it contains objects")
            size = self._zip.getinfo(node["file"]).file_size
            used += size
            with self._zip.open(node["file"]) as file:
                version = npy.read_magic(file)
                _refuse(version not in ((1, 0), (2, 0)), "an array in it has an unknown format")
                read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
                shape, _, dtype = read(file)
                states = math.prod(shape) * dtype.itemsize
                if dtype.hasobject or min(shape, default=0) < 0 or file.tell() + states != size:
                    raise UnsoundModelError("an array in it does not have the size it states")
        if used > 2 * sum(member.file_size for member in self._zip.infolist()):
            raise UnsoundModelError("its arrays are used more often than they are stored")

    def _value(self, node: Any) -> Any:
        """What skops will make of a node that is a number, a text or an array."""
        if node["__loader__"] == "JsonNode":
            return json.loads(node["content"])
        _refuse(node["__loader__"] != "NdArrayNode", "a number in it is something else")
        with self._zip.open(node["file"]) as file:
            return npy.read_array(file, allow_pickle=False)

    def _check_tree(self, node: dict[str, Any]) -> None:
        arguments, content = node["__reduce__"]["args"], node["content"]
        if arguments["__loader__"] != "TupleNode" or content["__loader__"] != "DictNode":
            raise UnsoundModelError("a tree in it is something else")
        features, classes, outputs = (self._value(part) for part in arguments["content"])
        state = {name: self._value(part) for name, part in content["content"].items()}
        if set(state) != {"max_depth", "node_count", "nodes", "values"}:
            raise UnsoundModelError("a tree in it has parts that trees do not have")
        check_tree(features, classes, outputs, state)


def check_tree(features: Any, classes: Any, outputs: Any, state: Mapping[str, Any]) -> None:
    """Whether scikit-learn can follow a tree from its root to a leaf: children come after their parents."""
    nodes, values, counts = np.asarray(state["nodes"]), np.asarray(state["values"]), np.asarray(classes)
    whole = all(type(number) is int for number in (features, outputs, state["node_count"], state["max_depth"]))
    one_column = counts.shape == (1,) and counts.dtype.kind == "i" and counts[0] >= 1
    _refuse(not (whole and one_column and features >= 1 and outputs == 1), "a tree in it has impossible counts")
    if nodes.shape != (state["node_count"],) or not len(nodes):
        raise UnsoundModelError("a tree in it does not have the number of nodes it states")
    _refuse(not 0 <= state["max_depth"] < len(nodes), "a tree in it is deeper than its number of nodes")
    if values.shape != (len(nodes), 1, counts[0]) or values.dtype != np.float64 or not np.isfinite(values).all():
        raise UnsoundModelError("a tree in it has impossible values")
    left, right = nodes["left_child"], nodes["right_child"]
    check_branches(left, right, nodes["feature"], left == -1, features)
    _refuse((right[left == -1] != -1).any(), "a leaf of a tree in it has a child")


def check_branches(left: NDArray[Any], right: NDArray[Any], feature: NDArray[Any], leaf: Flags, features: int) -> None:
    """Every branch goes on to two later nodes, by a column that there is: so the walk ends, and stays inside."""
    here = np.flatnonzero(~leaf)
    for child in (left, right):
        going = child[here].astype(np.int64)
        _refuse((going <= here).any() or (going >= len(leaf)).any(), "a branch of a tree in it leads nowhere")
    if len(here) and not 0 <= int(feature[here].min()) <= int(feature[here].max()) < features:
        raise UnsoundModelError("a tree in it asks for a column that does not exist")


def _nodes(part: Any, depth: int = 0) -> Iterator[dict[str, Any]]:
    """Every object that skops will build, outer ones first."""
    _refuse(depth > DEEPEST, "its objects are nested too deeply")
    if isinstance(part, dict):
        if "__loader__" in part:
            yield part
        for inner in part.values():
            yield from _nodes(inner, depth + 1)
    elif isinstance(part, list):
        for inner in part:
            yield from _nodes(inner, depth + 1)


def _same(one: Any, other: Any) -> bool:
    """Whether two descriptions are of the same object, whatever ids its parts were given."""
    if one is other:
        return True
    if isinstance(one, dict) and isinstance(other, dict):
        return set(one) == set(other) and all(_same(one[key], other[key]) for key in one if key != "__id__")
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(_same(*pair) for pair in zip(one, other, strict=True))
    return type(one) is type(other) and bool(one == other)


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
        kind, own = type(part), vars(part)
        # No attribute takes the place of a method or of a fixed property, and nothing is asked of many threads.
        parameters = getattr(kind, "__dataclass_fields__", {})
        hidden = [name for name in own if (hasattr(kind, name) and name not in parameters) or name == "_in_fit"]
        threads = [own[name] for name in ("n_jobs", "workers") if name in own]
        _require(not hidden and all(number is None for number in threads), f"a {kind.__name__}")
        if not any(name.endswith("_") for name in own):
            continue
        if "classes_" in own:
            _check_classes(part.classes_, classes)
        if kind.__name__ in _CHECKS:
            what, checks = _CHECKS[kind.__name__]
            for sound in checks(part):
                _require(sound, what)


def _check_classes(found: Any, most: int) -> None:
    codes = np.asarray(found)  # of trees in a forest they are whole floats
    _require(codes.ndim == 1 and codes.dtype.kind in "iuf" and 1 <= len(codes) <= most, "a classifier")
    _require(np.isin(codes, np.arange(most)).all() and len(np.unique(codes)) == len(codes), "a classifier")


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
    _refuse(not np.all(sound), f"{what} in it does not fit together")


def _shaped(array: Any, shape: tuple[int, ...], kind: str = "f") -> bool:
    return isinstance(array, np.ndarray) and array.shape == shape and array.dtype.kind in kind


def _whole(number: Any, least: int, most: int) -> bool:
    return isinstance(number, int | np.integer) and not isinstance(number, bool) and least <= int(number) <= most


def _below(codes: NDArray[Any], count: int) -> bool:
    return bool(codes.min() >= 0 and codes.max() < count)


# One function a type: what must hold, one after the other.


def _tree(part: Any) -> Iterator[Any]:
    tree = part.tree_
    yield type(tree).__name__ == "Tree" and type(tree).__module__ == "sklearn.tree._tree"
    yield part.n_outputs_ == tree.n_outputs == 1 and part.n_features_in_ == tree.n_features
    yield part.n_classes_ == len(part.classes_) == int(tree.n_classes[0])


def _forest(part: Any) -> Iterator[Any]:
    trees = part.estimators_
    yield isinstance(trees, list) and trees
    for tree in trees:
        yield type(tree).__name__ == "DecisionTreeClassifier" and "tree_" in vars(tree)
        yield tree.n_features_in_ == part.n_features_in_ and tree.n_classes_ == part.n_classes_
        yield part.n_classes_ == len(part.classes_) and part.n_outputs_ == 1


def _boosting(part: Any) -> Iterator[Any]:
    from sklearn.ensemble._hist_gradient_boosting.common import PREDICTOR_RECORD_DTYPE

    classes, features = len(part.classes_), part.n_features_in_
    trees = 1 if classes <= 2 else classes
    known = part._bin_mapper.is_categorical_
    yield _shaped(known, (features,), "bu") and not known.any()
    yield part.n_trees_per_iteration_ == trees and part._preprocessor is None
    yield _shaped(part._baseline_prediction, (1, trees))
    for round_ in part._predictors:
        yield isinstance(round_, list) and len(round_) == trees
        for predictor in round_:
            yield type(predictor).__name__ == "TreePredictor"
            nodes = predictor.nodes
            yield nodes.ndim == 1 and len(nodes) and nodes.dtype == PREDICTOR_RECORD_DTYPE
            yield (nodes["is_leaf"] <= 1) & (nodes["is_categorical"] == 0)
            check_branches(nodes["left"], nodes["right"], nodes["feature_idx"], nodes["is_leaf"] == 1, features)


def _support_vectors(part: Any) -> Iterator[Any]:
    vectors, classes, features = part.support_vectors_, len(part.classes_), part.n_features_in_
    count, rows = len(vectors), part.shape_fit_[0]
    yield part.kernel in ("rbf", "poly", "sigmoid") and _whole(part.degree, 1, 10)
    yield part._sparse is False and part._effective_probability is False and classes >= 2
    yield _shaped(vectors, (count, features)) and _shaped(part.support_, (count,), "i")
    yield _shaped(part._n_support, (classes,), "i") and _shaped(part._dual_coef_, (classes - 1, count))
    yield _shaped(part._intercept_, (classes * (classes - 1) // 2,)) and part.shape_fit_ == (rows, features)
    yield part._probA.size == part._probB.size == 0
    counts, support = part._n_support.astype(np.int64), part.support_.astype(np.int64)
    yield (counts >= 0).all() and counts.sum() == count
    yield (support >= 0) & (support < rows)


def _neighbours(part: Any) -> Iterator[Any]:
    rows, features = part._fit_X.shape
    yield part._fit_method == "brute" and part._tree is None
    yield part.effective_metric_ == "euclidean" and part.effective_metric_params_ == {}
    yield part.weights in ("uniform", "distance") and part.outputs_2d_ is False
    yield _shaped(part._fit_X, (part.n_samples_fit_, part.n_features_in_)) and features >= 1
    yield _shaped(part._y, (rows,), "iu") and _whole(part.n_neighbors, 1, rows)
    yield _below(part._y, len(part.classes_))


def _nearest_vote(part: Any) -> Iterator[Any]:
    rows = len(part.rows_)
    yield _shaped(part.rows_, (rows, part.n_features_in_)) and _shaped(part.codes_, (rows,), "i")
    yield _whole(part.k_, 1, rows) and part.weights in ("1", "1/d", "1/d^2")
    yield _below(part.codes_, len(part.classes_))


def _smoother(part: Any) -> Iterator[Any]:
    rows = len(part.rows_)
    yield _shaped(part.rows_, (rows, part.n_features_in_)) and rows >= 1
    yield _shaped(part.values_, (rows, len(part.classes_) if "classes_" in vars(part) else 1))
    yield isinstance(part.width_, float) and part.width_ > 0


def _planes(part: Any) -> Iterator[Any]:
    count = 1 if len(part.classes_) == 2 else len(part.classes_)
    yield _shaped(part.weights_, (count, part.n_features_in_)) and _shaped(part.intercepts_, (count,))


def _network(part: Any) -> Iterator[Any]:
    sizes = [part.n_features_in_, *(len(layer) for layer in part.intercepts_)]
    yield len(part.coefs_) == len(part.intercepts_) == part.n_layers_ - 1
    for layer, (before, after) in zip(part.coefs_, pairwise(sizes), strict=True):
        yield _shaped(layer, (before, after)) and after <= MOST_UNITS


def _voters(part: Any) -> Iterator[Any]:
    rows, parts = len(part.rows_), len(part.squared_radius_)
    yield _shaped(part.rows_, (rows, part.n_features_in_)) and rows >= 1
    yield _shaped(part.codes_, (rows,), "i") and _shaped(part.part_, (rows,), "i")
    yield _shaped(part.row_noise_, (rows,)) and _shaped(part.mean_noise_, (parts,))
    yield _shaped(part.class_prior_, (len(part.classes_),))
    yield _whole(part.fallback_neighbours, 1, 1_000_000)
    yield _below(part.codes_, len(part.classes_)) and _below(part.part_, parts)


_CHECKS: dict[str, tuple[str, Callable[[Any], Iterator[Any]]]] = {
    "DecisionTreeClassifier": ("a tree", _tree),
    "RandomForestClassifier": ("a forest", _forest),
    "HistGradientBoostingClassifier": ("a boosting", _boosting),
    "SVC": ("a support vector machine", _support_vectors),
    "KNeighborsClassifier": ("a table of neighbours", _neighbours),
    "NearestVote": ("a table of neighbours", _nearest_vote),
    "KernelSmoother": ("a kernel smoother", _smoother),
    "Hyperplanes": ("a hyperplane", _planes),
    "MLPClassifier": ("a network", _network),
    "RadiusVote": ("a table of votes", _voters),
}
