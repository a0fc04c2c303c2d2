"""RadiusVote: nearest neighbours for perturbed rows, in a circle as wide as the noise makes necessary.

Words of the code and symbols of the paper (principal-laplace, section 5.3 and appendix):
`noise_variance` E[delta_i^2] (2 b_i^2 for Laplace), `noise_fourth_moment` E[delta_i^4] (24 b_i^4),
`retained_variances` sigma_i^2 for i in S, `neglected_variances` sigma_i^2 for i in N, `squared_radius`
E(D) + n sqrt(Var(D)), where D is the distortion of a squared distance. The paper adds noise; where values were
multiplied, `factor_noise` says what stands in place of D.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from sfumato.array_types import Codes, Floats
from sfumato.classifiers.checked_rows import matrix_of_rows, rows_and_targets
from sfumato.classifiers.distortion import NoiseSummary
from sfumato.classifiers.vote_evidence import Heard, VoteEvidence, worse_than_prior
from sfumato.classifiers.voters import Voters
from sfumato.neighbours import Frame

__all__ = ["NoiseSummary", "RadiusVote"]


MOST = 2_000
"""Released rows that are asked how much votes say."""
FEWEST = 20
"""Rows from which they are asked whether votes without known noise are of use."""


class RadiusVote(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Every released row within the radius of a query votes for its class with weight 1 / d^2.

    Noise scatters the nearest rows of a query over a shell whose size depends on the noise alone, so a fixed
    number of neighbours misses most of them. With Chebyshev's inequality (Eqs 9, 10) a circle of squared radius
    E(D) + n sqrt(Var(D)) holds at least 1 - 1/n^2 of them, 1 - 4/(9 n^2) = .889 at n = 2 if D is unimodal.

    The weights are normalised to sum to one (Eq 11 prints a product where it must divide). When noise is strong
    the circle holds nearly every row and the published vote is the majority class. With `prior_correction` the votes
    of each class are first divided by its share of the training rows. A row that lies exactly on the query
    counts alone (several share the vote evenly, without correction). Where the radius is not positive or the
    circle is empty, the `fallback_neighbours` nearest rows vote with weight 1 / d^2 instead, uncorrected.

    Corrected votes are evidence of unknown strength. How strong it is, is measured on the released rows themselves,
    left out of the vote, under the known noise (`vote_evidence`); with the shares of the classes it makes a posterior,
    which is the prior where votes say nothing. Where no noise is known, votes answer as they are, unless left-out rows
    show that always answering the commonest class is better.

    Where values were multiplied by random factors, a row is scattered the more the larger its values are, and a class
    of large values would not be heard. So from every squared distance the row's own noise, as its released values tell
    it, is taken off, and the mean over all rows put in its place (`factor_noise`). For the weight the result counts as
    at least a tenth of that mean.

    Parameters
    ----------
    n : how many standard deviations of the distortion the circle reaches beyond its mean; 2 in the paper.
    prior_correction : divide votes by class priors, and weigh what they say against these; False as published.
    fallback_neighbours : rows that vote when the circle is of no use.
    radius : squared radius to use instead of the one computed from the noise.
    workers : threads; None for the machine's cores when the work is large.

    Attributes
    ----------
    classes_, n_features_in_, class_prior_ : labels, columns, share of each class in the training rows.
    squared_radius_ : one squared radius per part (see `fit`).
    mean_noise_, row_noise_ : where values were multiplied, what is put in the place of each row's own noise (one number
        per part) and that noise (squared length); 0 elsewhere.
    answers_prior_ : whether votes were found to say nothing: every answer is the commonest class.
    is_balanced_ : whether probabilities leave the shares of the classes out of account.
    fallbacks_, fallback_rate_ : how many queries of the last prediction needed the fallback, and their share.

    Examples
    --------
    >>> import numpy as np
    >>> Z, y = np.array([[0.0], [1.0], [1.5], [5.0], [6.0], [6.5]]), np.repeat(["a", "b"], 3)
    >>> model = RadiusVote().fit(Z, y, noise=NoiseSummary([0.5], [1.5]))
    >>> model.predict([[2.0], [4.9]]).tolist()
    ['a', 'b']
    """

    def __init__(
        self,
        n: float = 2.0,
        prior_correction: bool = True,
        fallback_neighbours: int = 5,
        radius: float | None = None,
        workers: int | None = None,
    ) -> None:
        self.n = n
        self.prior_correction = prior_correction
        self.fallback_neighbours = fallback_neighbours
        self.radius = radius
        self.workers = workers

    def fit(
        self,
        X: npt.ArrayLike,
        y: npt.ArrayLike,
        noise: NoiseSummary | Sequence[NoiseSummary] | None = None,
        part: npt.ArrayLike | None = None,
    ) -> Self:
        """Keep the released rows and compute the radius.

        Several releases of one space, each with its own noise, are pooled by giving a list of noise summaries and,
        for every row, the number of its `part` in that list; the rows of a part vote within its own radius.
        Without noise (and without `radius`) there is no distortion, and the fallback always votes.
        """
        self._check_parameters()
        X, y = rows_and_targets(self, X, y)
        self.classes_, self.codes_ = np.unique(y, return_inverse=True)
        self.rows_ = np.ascontiguousarray(X)
        self.class_prior_ = np.bincount(self.codes_) / len(self.codes_)
        summaries: list[NoiseSummary | None] = list(noise) if isinstance(noise, Sequence) else [noise]
        self.part_ = self._parts(part, len(summaries))
        self.squared_radius_ = np.array(
            [self._squared_radius(s, self.rows_[self.part_ == i]) for i, s in enumerate(summaries)]
        )
        self.mean_noise_, self.row_noise_ = np.zeros(len(summaries)), np.zeros(len(self.rows_))
        for number, summary in enumerate(summaries):
            mine = self.part_ == number
            if self.radius is None and summary is not None and summary.factors is not None and mine.any():
                self.row_noise_[mine] = summary.factors.of_rows(self.rows_[mine])
                self.mean_noise_[number] = self.row_noise_[mine].mean()
        frame = Frame.of(self.rows_)
        self.centre_, self.reach_ = frame.centre, frame.reach
        # Counted in place: a prediction must not change which attributes an estimator has.
        self._fallback_count = [0, 0]
        self._weigh_evidence(summaries)
        return self

    def predict_proba(self, X: npt.ArrayLike) -> Floats:
        """Probability of every class; with `prior_correction=False` its share of the votes."""
        shares = self.vote_shares(X)
        if not self.prior_correction:
            return shares
        if self.evidence_ is not None:
            return VoteEvidence(*self.evidence_).probabilities(shares, self.class_prior_)
        return np.tile(self.class_prior_, (len(shares), 1)) if self.answers_prior_ else shares

    def vote_shares(self, X: npt.ArrayLike) -> Floats:
        """The votes themselves, normalised to one (with `prior_correction`, divided by class priors first)."""
        check_is_fitted(self)
        queries = np.ascontiguousarray(matrix_of_rows(self, X))
        shares, empty = self._voters().shares(queries)
        self._fallback_count[:] = empty, len(queries)
        return shares

    def predict(self, X: npt.ArrayLike) -> npt.NDArray[Any]:
        """The most probable class; of equal ones the first in `classes_`."""
        probabilities = self.predict_proba(X)
        return np.asarray(self.classes_[probabilities.argmax(axis=1)])

    @property
    def fallbacks_(self) -> int:
        """Queries of the last prediction that were left to the nearest neighbours."""
        return self._fallback_count[0]

    @property
    def fallback_rate_(self) -> float:
        """Their share; 0 before the first prediction."""
        return self._fallback_count[0] / max(self._fallback_count[1], 1)

    @property
    def is_balanced_(self) -> bool:
        """Whether class priors are divided out of the probabilities, and not put back."""
        return bool(self.prior_correction and not self.answers_prior_ and self.evidence_ is None)

    def _voters(self) -> Voters:
        return Voters(
            self.rows_,
            self.codes_,
            self.part_,
            self.squared_radius_,
            self.mean_noise_,
            self.row_noise_,
            len(self.classes_),
            self.class_prior_ if self.prior_correction else None,
            self.fallback_neighbours,
            Frame(self.centre_, self.reach_),
            self.workers,
        )

    def _weigh_evidence(self, summaries: list[NoiseSummary | None]) -> None:
        """Ask some of the released rows, each left out of the vote, as released and noised again."""
        self.answers_prior_, self.evidence_ = False, None
        known = any(summary is not None and summary.has_noise for summary in summaries)
        if not self.prior_correction or len(self.classes_) < 2 or (len(self.rows_) < FEWEST and not known):
            return
        rng = np.random.default_rng(0)
        asked = rng.permutation(len(self.rows_))[:MOST]
        codes, voters = self.codes_[asked], self._voters()
        if not known:
            self.answers_prior_ = worse_than_prior(voters.shares(self.rows_[asked], asked)[0], codes, self.class_prior_)
            return
        heard = self._ask(asked, summaries, rng)
        found = VoteEvidence.of(heard, codes, self.class_prior_, len(asked) / len(self.rows_))
        self.evidence_ = (found.means, found.variances, found.beliefs)
        self.answers_prior_ = not found.beliefs.any()

    def _ask(self, asked: Codes, summaries: list[NoiseSummary | None], rng: np.random.Generator) -> Heard:
        """What rows hear, as released and noised again, twice.

        They ask from where they would lie had noise not spread them: from further out they would hear hardly anybody.
        Votes are nearly linear there, and what differs from the mean is widened again.
        """
        places = [self.rows_[asked], self.rows_[asked], self.rows_[asked]]
        widening = np.ones(len(asked))
        for number, summary in enumerate(summaries):
            mine = self.part_[asked] == number
            if summary is None or not mine.any():
                continue
            every = self.rows_[self.part_ == number]
            middle, wider = every.mean(axis=0), summary.widening(every)
            widening[mine] = wider
            for rows in places[1:]:
                rows[mine] = summary.again(rows[mine], rng)
            for rows in places:
                rows[mine] = middle + (rows[mine] - middle) / wider
        voters = self._voters()
        heard = [voters.shares(rows, asked)[0] for rows in places]
        mean = heard[0].mean(axis=0)
        votes, first, second = (mean + widening[:, None] * (one - mean) for one in heard)
        return Heard(votes, first, second, widening)

    def _squared_radius(self, noise: NoiseSummary | None, rows: Floats) -> float:
        if self.radius is not None:
            return float(self.radius)
        if noise is None:
            return 0.0
        if len(noise.noise_variance) != rows.shape[1]:
            raise ValueError(
                f"The noise must be described for each of the {rows.shape[1]} columns of the release. "
                f"Got {len(noise.noise_variance)} variances instead."
            )
        mean, variance = noise.with_variances_of(rows).distortion()
        if noise.factors is not None and len(rows):
            more, spread = noise.factors.distortion(rows)
            mean, variance = mean + more, variance + spread
        return float(mean + (self.n * np.sqrt(variance) if self.n else 0.0))

    def _parts(self, part: npt.ArrayLike | None, count: int) -> Codes:
        if part is None:
            if count > 1:
                raise ValueError("The 'part' parameter must say for each row which noise summary applies to it.")
            return np.zeros(len(self.rows_), dtype=np.int64)
        codes = np.asarray(part, dtype=np.int64)
        if codes.shape != (len(self.rows_),) or codes.min() < 0 or codes.max() >= count:
            raise ValueError(
                f"The 'part' parameter must hold a number from 0 to {count - 1} for each of {len(self.rows_)} rows."
            )
        return codes

    def _check_parameters(self) -> None:
        if not np.isfinite(self.n):
            raise ValueError(f"The 'n' parameter of RadiusVote must be a finite number. Got {self.n!r} instead.")
        if self.fallback_neighbours < 1:
            raise ValueError(
                "The 'fallback_neighbours' parameter of RadiusVote must be at least 1. "
                f"Got {self.fallback_neighbours!r} instead."
            )
        if self.radius is not None and np.isnan(self.radius):
            raise ValueError(
                "The 'radius' parameter of RadiusVote must be a squared distance or None. Got NaN instead."
            )
