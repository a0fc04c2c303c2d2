"""train, predict, evaluate, reconstruct: what an analyst does with releases."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.core.array_types import Floats
from sfumato.core.errors import UsageError
from sfumato.guarantee import Key
from sfumato.learn.evaluate import Evaluation, compare
from sfumato.learn.model import Model as ModelFile
from sfumato.learn.predict import Predicted, classify
from sfumato.learn.reconstruct_together import JOINT_BINS, along_from, joint_from
from sfumato.learn.train import reconstruct_from, train_on
from sfumato.reconstruction import Density, JointDensity, Shares
from sfumato.reconstruction.described import check_published, describe
from sfumato.reconstruction.reconstruct import make_method
from sfumato.release.release import Releases, opened


class Model(ModelFile):
    """A classifier that was trained on releases, with what it needs to answer for plain rows.

    `sfumato.train` and `sfumato.load_model` return one; `model.save("model.skops")` writes it, never as a pickle.

    Attributes
    ----------
    about : mapping
        Plain JSON: classifier, space, schema, classes, and the releases that were used.
    classes : list
        The classes in the order of the columns of `predict_proba`: integers, numbers or truth values where all of them
        are spelt so, else text.
    """

    def predict(self, table: Any, *, key: Key | Path | str | None = None, unknown: str = "missing") -> NDArray[Any]:
        """The class of every row, as the label has it; see `sfumato.predict`."""
        return np.asarray(self._classified(table, key, unknown).labels)

    def predict_proba(self, table: Any, *, key: Key | Path | str | None = None, unknown: str = "missing") -> Floats:
        """The probability of every class for every row; the parameters are those of `predict`."""
        found = self._classified(table, key, unknown).probabilities
        if found is None:
            raise UsageError(f"{self.about['classifier']} gives no probabilities. Use predict, or train another.")
        return found

    def _classified(self, table: Any, key: Key | Path | str | None, unknown: str) -> Predicted:
        return classify(self, table, key=Path(key) if isinstance(key, str) else key, unknown=unknown)

    def evaluate(self, table: Any, *, key: Key | Path | str | None = None, unknown: str = "missing") -> Evaluation:
        """How often the model errs on rows with their label; see `sfumato.evaluate`."""
        return compare(self, table, key=Path(key) if isinstance(key, str) else key, unknown=unknown)


def train(
    releases: Releases,
    *,
    classifier: str = "auto",
    parameters: Mapping[str, Any] | None = None,
    reconstruction: str | None = None,
    published: bool = False,
) -> Model:
    """Pool releases of one space, and train a classifier that knows their noise.

    Parameters
    ----------
    releases : Release, path, or a sequence of them
        Releases with a label, or their folders. Each part's noise is read from its own card.
    classifier : str, default "auto"
        One of those that `sfumato list classifiers` lists, or one with parameters: "knn k=5 weights=1/d^2".
    parameters : mapping, default {}
        Parameters of the classifier by name, for example `{"k": "cross-validation"}`; see docs/classifiers.md.
    reconstruction : {"by-class", "global"}, optional
        Train on reconstructed values instead of noisy ones.
    published : bool, default False
        The paper's own variant of the classifier; the model says so. Refused for classifiers that have none.

    Returns
    -------
    Model
        `model.predict(table)` classifies plain rows; `model.save("model.skops")` keeps it.

    Examples
    --------
    >>> import sfumato as sf
    >>> people = {"age": [34, 61, 47, 29, 52] * 20, "ill": ["no", "yes", "yes", "no", "no"] * 20}
    >>> release = sf.sanitize(people, label="ill", mechanism="additive-noise", parameters={"scale": 0.1}, seed=1)
    >>> model = sf.train(release, classifier="reconstructed-naive-bayes")
    >>> model
    <Model reconstructed-naive-bayes from 100 released rows>
    >>> list(model.predict({"age": [30, 60]}))
    ['no', 'yes']
    """
    found = train_on(opened(releases), classifier, reconstruction, parameters, published)
    return Model(found.classifier, found.about)


def load_model(path: Path | str) -> Model:
    """Read a model file. Its sizes, types and structure are checked before anything is built from it.

    Parameters
    ----------
    path : path
        File that `Model.save`, `sfumato train` or a coordinator wrote.

    Returns
    -------
    Model
    """
    return Model.load(Path(path))


def predict(
    model: Model | Path | str, table: Any, *, key: Key | Path | str | None = None, unknown: str = "missing"
) -> NDArray[Any]:
    """Classify plain rows, or rows that were released.

    Parameters
    ----------
    model : Model or path
        What `train` returned, or its file.
    table : DataFrame, Arrow table, path or Release
        Rows with the columns of the source; or a release of the same space.
    key : Key or path, optional
        The releases' key, if their mechanism has one and the rows are plain.
    unknown : {"missing", "refuse"}, default "missing"
        Categories that training did not see: count them and treat them as empty, or refuse.

    Returns
    -------
    numpy.ndarray
        One class for each row, of the label's type: integers, numbers or truth values where all classes are spelt so,
        else text; text also where the table has the label as text.
    """
    return _model(model).predict(table, key=key, unknown=unknown)


def evaluate(
    model: Model | Path | str, table: Any, *, key: Key | Path | str | None = None, unknown: str = "missing"
) -> Evaluation:
    """Measure how often a model errs on rows whose label is known; nothing is written or sent.

    Parameters
    ----------
    model : Model or path
        What `train` returned, or its file.
    table : DataFrame, Arrow table, path or Release
        Rows with their label.
    key : Key or path, optional
        The releases' key, if their mechanism has one and the rows are plain.
    unknown : {"missing", "refuse"}, default "missing"
        Categories that training did not see: count them and treat them as empty, or refuse.

    Returns
    -------
    Evaluation
        `error`, its 95% `interval`, the error of always answering the `commonest` class, and `confusion`.
    """
    return _model(model).evaluate(table, key=key, unknown=unknown)


def reconstruct(
    releases: Releases,
    column: str | None = None,
    *,
    joint: tuple[str, str] | None = None,
    independent: bool = False,
    along: str | None = None,
    method: str = "parzen-program",
    penalty: float | str | None = None,
    rounds: int | None = None,
    bins: int | None = None,
    confidence: float = 0.9,
    resamples: int = 50,
    seed: int = 0,
    published: bool = False,
) -> Density | Shares | JointDensity:
    """The distribution of a column behind its noise. Nobody's value is recovered, only the distribution.

    Parameters
    ----------
    releases : Release, path, or a sequence of them
        Parts with different noise give one joint estimate.
    column : str, optional
        A column of the release; give this, `joint` or `along`.
    joint : tuple of two str, optional
        Two columns, to learn how they are spread together.
    independent : bool, default False
        Of `joint`: take the product of both, as published.
    along : str, optional
        A weighted sum of columns with additive noise, such as "income - 2 * rent".
    method : {"parzen-program", "expectation-maximization"}, default "parzen-program"
        How to undo the noise.
    penalty : float or "auto", optional
        Of parzen-program; 0 means no penalty.
    rounds : int, optional
        Of expectation-maximization, from 1 to 10000; our stopping rule if not given.
    bins : int, optional
        Cells of the density, from 2 to 1000; 75 if not given, and 25 of each column of `joint`.
    confidence : float, default 0.9
        Confidence of the band, between 0 and 1.
    resamples : int, default 50
        Number of draws for the band, from 0 (no band) to 10000.
    seed : int, default 0
        Seed of these draws.
    published : bool, default False
        The paper's own estimate: no penalty and the rectangle rule; expectation-maximization only with its `rounds`,
        since the paper does not say where it stopped; no search for point masses; two columns as the product of both.
        Categories are refused: no paper reconstructs them.

    Returns
    -------
    Density, Shares or JointDensity
        A density for numbers and dates, shares for categories, a joint density for two columns; all of them have
        `table()`, `summary()` and `plot()` (SVG).

    Examples
    --------
    >>> import sfumato as sf
    >>> people = {"age": [34, 61, 47, 29, 52] * 200, "ill": ["no", "yes", "yes", "no", "no"] * 200}
    >>> release = sf.sanitize(people, label="ill", mechanism="additive-noise", seed=1)
    >>> found = sf.reconstruct(release, "age", resamples=0)
    >>> bool(abs(found.mean - 44.6) < 5)
    True
    """
    if sum(wish is not None for wish in (column, joint, along)) != 1:
        raise UsageError("Give one of column, joint and along.")
    parts = opened(releases, public=True)
    chosen = make_method(method, penalty, rounds=rounds, published=published)
    for name in (*(joint or ()), *([column] if column else ())) if published else ():
        check_published(describe(parts[0].card, name))
    independent = independent or published
    if joint is not None:
        return joint_from(parts, joint, chosen, bins=bins or JOINT_BINS, independent=independent, seed=seed)
    options: dict[str, Any] = {"bins": bins or 75, "confidence": confidence, "resamples": resamples, "seed": seed}
    options |= {"atoms": False} if published else {}
    if along is not None:
        return along_from(parts, along, chosen, **options)
    assert column is not None
    return reconstruct_from(parts, column, chosen, **options)


def _model(given: Model | Path | str) -> Model:
    return load_model(given) if isinstance(given, str | Path) else given
