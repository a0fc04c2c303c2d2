"""What a classifier says about itself before it is made: its name, its parameters, and what its model may hold."""

from __future__ import annotations

import json
from abc import ABC
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from types import MappingProxyType
from typing import Any, ClassVar

from sfumato.core.accepted import as_published, follows
from sfumato.core.errors import UsageError
from sfumato.core.registry import discover
from sfumato.mechanisms.parameters import CheckedParameters

SCALED = ("pipeline.Pipeline", "preprocessing._data.StandardScaler")
"""Types of scikit-learn in a model that scales its columns first."""


@dataclass(frozen=True)
class Invariance:
    """Whether answers stay the same when table and queries are rotated [random-rotation, Definition 1], and why.

    `when`: "any centre", "centre zero" or "never".
    """

    when: str
    why: str


SINGLE_COLUMNS = Invariance("never", "It looks at single columns, and a rotation mixes them.")
DISTANCES = Invariance("any centre", "It looks at nothing but distances, and a rotation keeps them.")
PENALISED = Invariance(
    "any centre",
    "Rotated weights are as long as they were, and the intercept, which is not penalised, takes up the centre.",
)


class NamedClassifier(CheckedParameters, ABC):
    """A classifier by its name. The first paragraph of a subclass's docstring is what users read.

    A subclass declares each parameter as ``k: int = parameter(Whole(1, 10_000), "Rows that vote.", default=11)``,
    and is made with them by name.
    A model file may hold only types that some classifier names: `model_types` of scikit-learn (below `sklearn.`) and
    `own_types` (below `sfumato.learn.classifiers.`).
    """

    knows_noise: ClassVar[bool] = False
    """Whether it uses the noise itself; for the others there is the reconstruction to train on."""
    keeps_rows: ClassVar[bool] = False
    """Whether its model contains released rows: whoever gets the model gets those rows."""
    on_bits: ClassVar[bool] = False
    """Whether it is made for the bits of a survey."""
    numeric: ClassVar[bool] = False
    """Whether it learns a number instead of a class."""
    model_types: ClassVar[tuple[str, ...]] = ()
    own_types: ClassVar[tuple[str, ...]] = ()
    published: ClassVar[Mapping[str, Mapping[str, Any]]] = MappingProxyType({})
    """What each paper that has it does where our default differs: parameters by the paper's key."""
    rotations: ClassVar[Invariance | None] = None
    """What theory says of rotations, whatever the parameters; None: nothing."""

    fixed: ClassVar[Mapping[str, Any]] = MappingProxyType({})
    """What its estimator is made with beside the parameters."""
    spelt: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """Parameters that its estimator calls otherwise."""

    def make(self) -> Any:
        """An unfitted estimator with these parameters: the first of `own_types`, or of scikit-learn's."""
        where = f"sfumato.learn.classifiers.{self.own_types[0]}" if self.own_types else f"sklearn.{self.model_types[0]}"
        module, _, kind = where.rpartition(".")
        given = {self.spelt.get(name, name): one.read(getattr(self, name)) for name, one in self.accepts.items()}
        return getattr(import_module(module), kind)(**self.fixed, **given)

    @property
    def invariance(self) -> Invariance | None:
        """What theory says of rotations with these parameters."""
        return self.rotations

    @classmethod
    def variant(cls, papers: Sequence[str]) -> Mapping[str, Any] | None:
        """The published one for releases by a method of these papers, else that of all papers that have one; None where
        they differ, or there is none."""
        of_these = [one for paper, one in cls.published.items() if paper in papers]
        meant = of_these or list(cls.published.values())
        return meant[0] if meant and all(one == meant[0] for one in meant) else None

    def is_published(self, papers: Collection[str]) -> bool:
        """Whether the parameters are those of one of these papers wherever ours differ; where none of these has the
        classifier, of any paper that changes something. Where a paper changes nothing, nothing else is changed."""
        of_these = [one for paper, one in self.published.items() if paper in papers]
        meant = of_these or [one for one in self.published.values() if one]
        return any(follows(one, self.get_params()) and bool(one or not self.parameters) for one in meant)

    @property
    def text(self) -> str:
        """Name and changed parameters in one line, as `choose_classifier` reads it."""
        return " ".join([self.name, *(f"{name}={_spelled(value)}" for name, value in self.parameters.items())])


def _spelled(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _listed(parameters: Mapping[str, Any]) -> str:
    return " ".join(f"{name}={_spelled(value)}" for name, value in parameters.items()) or "our default"


def behind_scaling(classifier: Any) -> Any:
    """A learner that divides every column by its own spread first; its types are `SCALED`."""
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), classifier)


# Classifiers by name and parameters, each ready to be trained on noisy rows.

CLASSIFIERS: dict[str, type[NamedClassifier]] = discover("sfumato.learn.classifiers.named", NamedClassifier)

Choice = str | NamedClassifier
"""A classifier as it is asked for: a text such as "knn" or "svm kernel=sigmoid", or what was made of it."""

LONGEST = 500
"""Characters of a text."""


def choose_classifier(
    choice: Choice, parameters: Mapping[str, Any] | None = None, *, published: Sequence[str] | None = None
) -> NamedClassifier:
    """The classifier that a name and its parameters mean; what does not exist is refused with a sentence.

    `choice` may hold parameters itself: "svm kernel=sigmoid". `parameters` are added to them. `published`: the papers
    of the releases' method, where parameters are to be the paper's wherever ours differ.

    >>> choose_classifier("svm kernel=sigmoid", {"scaled": False}).text
    'svm kernel=sigmoid scaled=false'
    """
    if isinstance(choice, NamedClassifier):
        name, stated = choice.name, choice.parameters
    else:
        name, stated = read_choice(choice)
    if name not in CLASSIFIERS:
        raise UsageError(f"There is no classifier {name[:60]!r}. Choose one of: {', '.join(CLASSIFIERS)}.")
    wanted = {key.replace("-", "_"): value for key, value in {**stated, **(parameters or {})}.items()}
    if published is not None:
        among = [other for other, one in CLASSIFIERS.items() if one.published]
        variants, found = CLASSIFIERS[name].published, CLASSIFIERS[name].variant(published)
        if found is None and variants:
            differ = "; ".join(f"{paper}: {_listed(one)}" for paper, one in variants.items())
            raise UsageError(
                f"Papers differ in {name}, and the method of the releases is of none or of several of them ({differ}). "
                "Leave --as-published out, and give the parameters."
            )
        wanted = as_published(name, found, wanted, among)
    known = CLASSIFIERS[name].defaults()
    for key in wanted:
        if key not in known:
            has = f"It has: {', '.join(known)}." if known else "It has none."
            raise UsageError(f"The classifier {name} has no parameter {key[:60]!r}. {has}")
    chosen = CLASSIFIERS[name](**wanted)
    chosen.check()
    return chosen


def read_choice(text: str) -> tuple[str, dict[str, Any]]:
    """Name and parameters of a text such as "svm kernel=sigmoid"; whether they exist is not looked at."""
    if not isinstance(text, str) or len(text) > LONGEST:
        raise UsageError(f"A classifier must be a name, or a name and NAME=VALUE, of at most {LONGEST} characters.")
    name, *pairs = text.split() or [""]
    stated: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise UsageError(
                f"A classifier is a name and then NAME=VALUE, for example 'knn k=5'. Got {pair[:60]!r} after {name}."
            )
        stated[key] = _value(value)
    return name, stated


def _value(text: str) -> Any:
    """true, false, null and numbers are that; all else is a word."""
    words: dict[str, Any] = {"true": True, "false": False, "null": None}
    if text in words:
        return words[text]
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    return text


def make_classifier(
    choice: Choice, reconstruction: str | None = None, parameters: Mapping[str, Any] | None = None
) -> Any:
    """An unfitted classifier; `fit_on_parts` trains it with what the cards say about the noise.

    With a `reconstruction` ("by-class" or "global") it learns from reconstructed values instead of noisy ones.
    """
    chosen = choose_classifier(choice, parameters)
    made = chosen.make()
    if reconstruction is None:
        return made
    from sfumato.learn.classifiers.on_reconstruction import WAYS, OnReconstruction

    if reconstruction not in WAYS:
        raise UsageError(f"There is no reconstruction {reconstruction!r}. Choose one of: {', '.join(WAYS)}.")
    if chosen.name == "reconstructed-tree":
        return made.set_params(reconstruction=reconstruction)
    if chosen.knows_noise:
        raise UsageError(
            f"{chosen.name} uses the noise itself, so it takes no reconstruction. Leave --reconstruction out."
        )
    return OnReconstruction(made, reconstruction)
