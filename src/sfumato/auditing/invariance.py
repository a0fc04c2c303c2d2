"""Which learners answer the same after a rotation of this table [random-rotation, Definition 1]: measured and told why.

The table is encoded as for a release (numbers between 0 and 1, one slot a category). A learner is trained on some rows
and answers for the others, once on plain rows and once on all of them rotated, about zero and about a random centre.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.auditing.asked import InvarianceAsked
from sfumato.auditing.case import read_people, schema_of
from sfumato.core.array_types import Matrix
from sfumato.core.asked import asks
from sfumato.core.errors import SchemaError, SfumatoError, TableError, UsageError
from sfumato.guarantee.cost import posterior_bound
from sfumato.learn.classifiers.factory import CLASSIFIERS, choose_classifier
from sfumato.learn.classifiers.geometric import REGRESSIONS
from sfumato.learn.classifiers.reads_noise import Part
from sfumato.learn.classifiers.training import fit_on_parts
from sfumato.mechanisms.random_rotation import haar_rotation
from sfumato.noise.amplification import bounded_amplification, open_density
from sfumato.noise.expression import is_a_density, stated_law
from sfumato.table import Encoding, Schema, open_table

BELIEFS = (0.01, 0.1, 0.5)
"""Beliefs that the bound is told for."""


@dataclass(frozen=True)
class LawCheck:
    """What Theorem 4 [principal-laplace] says of a noise law.

    verdict: "bounded", "unbounded" or "undecided". epsilon: the largest log-ratio of likelihoods for values that
    differ by at most `width` (None where there is no bound, or none that a double holds). exact: whether it is a closed
    form; else it was found numerically, which proves neither verdict. conditions: one sentence each. reason: why there
    is no bound.
    """

    law: str
    width: float
    verdict: str
    epsilon: float | None
    exact: bool
    conditions: tuple[str, ...]
    reason: str | None = None

    @property
    def amplification(self) -> float | None:
        """exp(epsilon), the largest likelihood ratio; None where there is none, or a double cannot hold it."""
        return math.exp(self.epsilon) if self.epsilon is not None and self.epsilon < 700 else None

    def posterior(self, prior: float) -> float | None:
        """The most that a belief of `prior` can become [Eq. 2]; None where nothing bounds it."""
        return None if self.epsilon is None else posterior_bound(prior, self.epsilon)

    def in_words(self) -> str:
        """One sentence, or two."""
        between = f"for values that differ by at most {self.width:g}"
        if self.verdict == "bounded" and self.epsilon is None:
            return f"Bounded amplification {between}; its value is not known, see the conditions."
        if self.verdict == "bounded":
            size = "" if self.amplification is None else f" (amplification {self.amplification:.6g})"
            how = "in closed form" if self.exact else "numerically: a finding, not a proof"
            return f"Bounded: epsilon {self.epsilon:.6g}{size} {between}, {how}."
        if self.verdict == "unbounded":
            return f"Unbounded: no worst-case guarantee rests on this noise. {self.reason}"
        return f"Undecided. {self.reason}"

    def to_dict(self) -> dict[str, Any]:
        beliefs = {f"{prior:g}": self.posterior(prior) for prior in BELIEFS}
        return {**vars(self), "amplification": self.amplification, "beliefs": beliefs}


def law(law: Any, *, width: float = 1.0, parameters: Mapping[str, Any] | None = None, log: bool = False) -> LawCheck:
    """Say whether additive noise of a law has bounded amplification, with the bound, or why there is none.

    Theorem 4 of the paper principal-laplace, with the condition that is missing there.

    Parameters
    ----------
    law : str, Law, frozen distribution of scipy.stats, or callable
        A law by name ("laplace"), a distribution of scipy.stats by name ("dweibull"), a density as an expression in x
        ("exp(-abs(x) / 0.3)", a constant factor may be missing), or a vectorised density function.
    width : float, default 1.0
        How far two values can lie apart, above 0.
    parameters : mapping, default {}
        Of a law by name: {"scale": 0.25, "df": 3}.
    log : bool, default False
        The expression is the logarithm of a density.

    Returns
    -------
    LawCheck
        `verdict` ("bounded", "unbounded" or "undecided"), `epsilon`, `amplification`, `reason`, `conditions`,
        `posterior(prior)` and `in_words()`.

    Examples
    --------
    >>> import sfumato as sf
    >>> sf.law("laplace", parameters={"scale": 0.25}).epsilon
    4.0
    >>> sf.law("exp(-x^2)").verdict
    'unbounded'
    """
    if isinstance(width, bool) or not isinstance(width, int | float) or not 0 < width < math.inf:
        raise UsageError(f"The width must be a positive number, the range of what is hidden. Got {width!r} instead.")
    words, density = type(law).__name__, None
    if isinstance(law, str):
        stated = stated_law(law, parameters, log=log)
        words, law, density = stated.words, stated.law, stated.log_density
    elif parameters or log:
        raise UsageError("Parameters and log are for laws by name and for expressions. Leave them out.")
    if density is not None:
        opened = open_density(None, density, width)
        if opened is None or not is_a_density(density, opened.centre, max(opened.scale, width)):
            raise UsageError(
                "The expression is no density: it is negative or not a number in some place, or its integral is not "
                "finite. A density falls faster than 1/abs(x) on both sides: exp(-abs(x) / 0.3) and 1 / (1 + x^2) do."
            )
    found = bounded_amplification(law, width, logpdf=density)
    reason = None
    if found.verdict != "bounded":
        wanted = "fails" if found.verdict == "unbounded" else "cannot be told"
        reason = next((line for line in found.evidence if wanted in line), found.evidence[0])
    return LawCheck(words, float(width), found.verdict, found.log_value, found.exact, found.evidence, reason)


CHOICES = (
    "knn",
    "knn k=5 weights=1",
    "kernel-smoother",
    "svm gamma=1/columns scaled=false",
    "svm kernel=polynomial gamma=1 offset=1 scaled=false",
    "svm kernel=sigmoid gamma=0.5 offset=-1 scaled=false",
    "svm",
    "svm scaled=false",
    "logistic",
    "perceptron",
    "mlp",
    "mlp solver=lbfgs decay=1 iterations=200 scaled=false",
    "naive-bayes",
    "noise-aware-lda",
    "noise-aware-qda",
    "forest trees=50",
    "boosting rounds=50",
)
SAME = 0.99
"""Share of equal answers from which answers count as the same: one row in a hundred may be a tie."""
NEARLY = 1e-3
"""Two predicted numbers are the same within this share of the target's range."""
TEST_SHARE = 0.3


@dataclass(frozen=True)
class Kept:
    """One learner: least share of equal answers over all rotations, by centre, and its errors.

    when, why: what theory says ("any centre", "centre zero", "never", or "" where it says nothing).
    """

    learner: str
    zero: float
    random: float
    error: float
    rotated_error: float
    when: str
    why: str

    @property
    def measured(self) -> str:
        """In the words of theory; "never" is what was seen with these rotations."""
        if self.zero < SAME:
            return "never"
        return "any centre" if self.random >= SAME else "centre zero"


@dataclass(frozen=True)
class Invariance:
    """`found` has an entry for every learner; `refused` those that could not be tried, with the reason.

    error is the share of wrong answers, or for a number the root mean square error over the target's range.
    """

    rows: int
    columns: int
    rotations: int
    label: str
    found: tuple[Kept, ...]
    refused: dict[str, str]

    def to_dict(self) -> dict[str, Any]:
        return {**vars(self), "found": [{**vars(one), "measured": one.measured} for one in self.found]}


@asks(InvarianceAsked)
def invariance(table: Any, options: InvarianceAsked) -> Invariance:
    """Say which learners answer the same after a rotation of this table, and why [random-rotation, Definition 1].

    Nothing is released or written.

    Parameters
    ----------
    table : DataFrame, Arrow table or path
        The table to rotate.
    {options}

    Returns
    -------
    Invariance
        `found` has for every learner the least share of equal answers, about zero and about random centres, the errors
        before and after, and what theory says; `to_dict()` gives plain JSON.

    Examples
    --------
    >>> import sfumato as sf
    >>> people = {"age": list(range(20, 80)), "bmi": [20 + i % 13 for i in range(60)], "ill": ["no", "yes"] * 30}
    >>> sf.invariance(people, label="ill", learners=["kernel-smoother width=0.5"], rotations=1).found[0].measured
    'any centre'
    """
    rng = np.random.default_rng(options.seed)
    name, X, y, asked = _read(table, options, rng)
    numeric, width = options.target is not None, X.shape[1]
    names = _regressions(options) if numeric else _classifiers(options)
    turns = [(haar_rotation(width, rng), rng.random((width,))) for _ in range(options.rotations)]
    found, refused = [], {}
    for number, one in enumerate(names):
        options.progress("Rotating", number, len(names))
        try:
            found.append(_tried(one, X, y, asked, turns, numeric))
        except SfumatoError as error:
            refused[one] = str(error)
    options.progress("Rotating", len(names), len(names))
    return Invariance(len(y), width, options.rotations, name, tuple(found), refused)


def _classifiers(options: InvarianceAsked) -> Sequence[str]:
    """Of those that were asked for, or of all that can answer."""
    paper = ("random-rotation",)
    about = [name for name, one in CLASSIFIERS.items() if paper[0] in one.published]
    usual, papers = (about, paper) if options.published else (CHOICES, None)
    chosen = [choose_classifier(one, published=papers) for one in options.learners or usual]
    if bits := [one.name for one in chosen if one.on_bits]:
        raise UsageError(f"{bits[0]} is for the bits of a survey, which cannot be rotated.")
    return [one.text for one in chosen]


def _regressions(options: InvarianceAsked) -> Sequence[str]:
    """Of those that were asked for, or of all."""
    given = options.learners
    if options.published:
        raise UsageError("No paper has a variant of a regression. Leave --as-published out.")
    if strange := [name for name in given or () if name not in REGRESSIONS]:
        raise UsageError(f"There is no regression {strange[0][:60]!r}. Choose among: {', '.join(REGRESSIONS)}.")
    return list(given or REGRESSIONS)


def _read(table: Any, options: InvarianceAsked, rng: np.random.Generator) -> tuple[str, Matrix, NDArray[Any], int]:
    """What is predicted, encoded rows in random order, what is so of each, and how many of the first are asked."""
    schema = None if options.schema is None else Schema.of(options.schema)
    label, target = options.label, options.target
    if (label is None and (schema is None or schema.label is None)) == (target is None):
        raise UsageError("Say what is to be predicted: --label COL for classes, or --target COL for a number.")
    opened = open_table(table)
    encoding = Encoding(schema := schema_of(opened, schema, label))
    people = read_people(opened, encoding)
    some = np.sort(rng.permutation(len(people.X))[: options.max_rows])
    X = people.X[some]
    y: NDArray[Any]
    if target is None:
        assert people.y is not None
        assert schema.label is not None
        name, y = schema.label.name, people.y[some]
    else:
        name = target
        group = next((one for one in encoding.groups if one.column.name == target), None)
        if group is None or group.is_onehot:
            raise SchemaError(f"The target {target!r} must be a column of numbers or dates. Take --label for classes.")
        y = X[:, group.start]
        X = np.delete(X, np.arange(group.start, group.stop), axis=1)
    if len(X) < 20 or X.shape[1] < 2:
        raise TableError("A rotation needs at least two encoded columns, and 20 rows to compare answers on.")
    order = rng.permutation(len(X))
    return name, X[order], y[order], max(5, int(TEST_SHARE * len(X)))


def _tried(
    name: str, X: Matrix, y: NDArray[Any], asked: int, turns: Sequence[tuple[Matrix, Matrix]], numeric: bool
) -> Kept:
    """Least share of equal answers by centre, and errors before and after (the mean over rotations about zero)."""
    truth, width = y[:asked], float(np.ptp(y)) or 1.0
    theory: Any = REGRESSIONS[name].rotations if numeric else choose_classifier(name).invariance

    def answer(X: Matrix) -> NDArray[Any]:
        if numeric:
            return np.asarray(REGRESSIONS[name].make().fit(X[asked:], y[asked:]).predict(X[:asked]))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a network or a perceptron that has not settled is compared all the same
            known = Part(X[asked:], y[asked:])
            return np.asarray(fit_on_parts(choose_classifier(name).make(), [known]).predict(X[:asked]))

    def error(answered: NDArray[Any]) -> float:
        if numeric:
            return float(np.sqrt(np.mean((answered - truth) ** 2)) / width)
        return float(np.mean(answered != truth))

    def same(answered: NDArray[Any]) -> float:
        return float(np.mean(np.abs(answered - plain) <= NEARLY * width if numeric else answered == plain))

    plain = answer(X)
    zero, random = ([answer(np.asarray((X - far * place) @ turn.T)) for turn, place in turns] for far in (0.0, 1.0))
    when, why = (theory.when, theory.why) if theory else ("", "")
    after = float(np.mean([error(one) for one in zero]))
    return Kept(name, min(map(same, zero)), min(map(same, random)), error(plain), after, when, why)
