"""RadiusVote: nearest neighbours for perturbed rows, in a circle as wide as the noise makes necessary.

Words of the code and symbols of the paper (principal-laplace, section 5.3 and appendix):
`noise_variance` E[delta_i^2] (2 b_i^2 for Laplace), `noise_fourth_moment` E[delta_i^4] (24 b_i^4),
`retained_variances` sigma_i^2 for i in S, `neglected_variances` sigma_i^2 for i in N, `squared_radius`
E(D) + n sqrt(Var(D)), where D is the distortion of a squared distance. The paper adds noise; where values were
multiplied, `factor_noise` says what stands in place of D.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from sfumato.core.array_types import Codes, Floats
from sfumato.learn.classifiers.distortion import NoiseSummary, VoteEvidence, worse_than_prior
from sfumato.learn.classifiers.geometric import votes_of
from sfumato.learn.classifiers.reads_noise import GivesProbabilities, matrix_of_rows, part_of_rows, rows_and_targets
from sfumato.table.neighbours.nearest import nearest
from sfumato.table.neighbours.tiles import Placed, pair_squares
from sfumato.table.neighbours.votes import Circle, Votes, by_class, radius_votes

ROUNDING = 1e-9
"""Of a vote that was taken back: what is left below this is not told from none."""
LEAST = 0.1
"""Of 0 to 1, .1 served best over six tables and five laws of factors; .01 to .5 nearly as well."""

MOST = 2_000
"""Released rows that are asked how much votes say."""
FEWEST = 20
"""Rows from which they are asked whether votes without known noise are of use."""


@dataclass(eq=False, repr=False)
class RadiusVote(GivesProbabilities):
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

    asks_noise = True
    """Training tells it the moments of each part's noise."""

    n: float = 2.0
    prior_correction: bool = True
    fallback_neighbours: int = 5
    radius: float | None = None
    workers: int | None = None

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
        self.part_ = part_of_rows(part, len(summaries), len(self.rows_))
        self.squared_radius_, self.mean_noise_ = np.zeros(len(summaries)), np.zeros(len(summaries))
        self.row_noise_ = np.zeros(len(self.rows_))
        for number, summary in enumerate(summaries):
            mine = self.part_ == number
            self.squared_radius_[number] = self._squared_radius(summary, self.rows_[mine])
            if self.radius is None and summary is not None and summary.factors is not None and mine.any():
                self.row_noise_[mine] = summary.factors.of_rows(self.rows_[mine])
                self.mean_noise_[number] = self.row_noise_[mine].mean()
        # Counted in place: a prediction must not change which attributes an estimator has.
        self._fallback_count = [0, 0]
        self._lay_out()
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
        shares, empty = self._shares(queries)
        self._fallback_count[:] = empty, len(queries)
        return shares

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

    def _lay_out(self) -> None:
        """Rows of one part, whose distances are taken as they are, are laid out for products once for all queries."""
        one = len(self.squared_radius_) == 1 and not self.mean_noise_.any()
        self._placed = by_class(self.rows_, self.codes_, keep=True) if one else None

    def __getstate__(self) -> dict[str, Any]:
        """What was laid out is no part of a model's file."""
        return {name: value for name, value in super().__getstate__().items() if name != "_placed"}

    def _shares(self, queries: Floats, own: Codes | None = None) -> tuple[Floats, int]:
        """Votes of every class, normalised to one, and how many queries were left to the nearest rows.

        `own` names for every query a row that does not vote for it, nor count in the shares of the classes.
        """
        if not isinstance(vars(self).get("_placed"), Placed):  # read from a file, or rows of several parts
            self._lay_out()
        votes = np.zeros((len(queries), len(self.classes_)))
        exact = np.zeros(votes.shape, dtype=np.int64)
        for number, squared_radius in enumerate(self.squared_radius_):
            if squared_radius > 0 and (self.part_ == number).any():
                heard = self._heard(queries, number, float(squared_radius))
                votes += heard.votes
                exact += heard.exact
        prior = self.class_prior_
        if own is not None:
            self._take_back(votes, exact, queries, own)
            # Shares of the classes among the others: with its own row a class would be voted down.
            counts = np.tile(np.bincount(self.codes_, minlength=votes.shape[1]).astype(np.float64), (len(own), 1))
            counts[np.arange(len(own)), self.codes_[own]] -= 1.0
            prior = np.maximum(counts, 1.0) / max(len(self.codes_) - 1, 1)
        if self.prior_correction:
            votes /= prior
        hit = exact.any(axis=1)
        votes[hit] = exact[hit]
        empty = ~votes.any(axis=1)
        if empty.any():
            votes[empty] = self._nearest_votes(queries[empty], None if own is None else own[empty])
        return np.asarray(votes / votes.sum(axis=1, keepdims=True)), int(empty.sum())

    def _take_back(self, votes: Floats, exact: Codes, queries: Floats, own: Codes) -> None:
        """The vote of its own row from every query."""
        every = np.arange(len(own))
        squares = pair_squares(queries, self.rows_, every, own)
        mean, radius = self.mean_noise_[self.part_[own]], self.squared_radius_[self.part_[own]]
        equal = (squares < np.finfo(np.float64).tiny) & (mean == 0.0) & (radius > 0)
        exact[every[equal], self.codes_[own[equal]]] -= 1
        squares = np.where(mean > 0.0, squares - self.row_noise_[own] + mean, squares)
        voted = (radius > 0) & (squares <= radius) & ~equal
        weight = 1.0 / np.maximum(squares[voted], np.maximum(LEAST * mean[voted], np.finfo(np.float64).tiny))
        who, what = every[voted], self.codes_[own[voted]]
        left = votes[who, what] - weight
        votes[who, what] = np.where(left > ROUNDING * weight, left, 0.0)

    def _heard(self, queries: Floats, number: int, squared_radius: float) -> Votes:
        """Votes of one part."""
        mine = slice(None) if len(self.squared_radius_) == 1 else self.part_ == number
        rows, codes, mean, own = self.rows_[mine], self.codes_[mine], self.mean_noise_[number], self.row_noise_[mine]
        classes = len(self.classes_)
        if mean == 0.0:
            placed = self._placed
            return radius_votes(queries, rows, codes, classes, squared_radius, placed=placed, workers=self.workers)
        # d^2 - own + mean is a squared distance less a constant: in one more column, at 0 for queries and at
        # sqrt(most - own) for rows, it is d^2 + most - own.
        most = own.max()
        rows = np.column_stack([rows, np.sqrt(most - own)])
        queries = np.column_stack([queries, np.zeros(len(queries))])
        less = float(most - mean)
        circle = Circle(squared_radius + less, less, LEAST * mean)
        return radius_votes(queries, rows, codes, classes, circle, workers=self.workers)

    def _nearest_votes(self, queries: Floats, own: Codes | None = None) -> Floats:
        k = min(self.fallback_neighbours + (own is not None), len(self.rows_))
        distances, indices = nearest(queries, self.rows_, k, placed=self._placed, workers=self.workers)
        if own is not None:  # the own row, or where it is not among them the furthest, goes
            last = np.argsort(indices == own[:, None], axis=1, kind="stable")
            distances = np.take_along_axis(distances, last, axis=1)[:, : max(k - 1, 1)]
            indices = np.take_along_axis(indices, last, axis=1)[:, : max(k - 1, 1)]
        return votes_of((distances, indices), self.codes_, len(self.classes_), 2)

    def _weigh_evidence(self, summaries: list[NoiseSummary | None]) -> None:
        """Ask some of the released rows, each left out of the vote, as released and noised again."""
        self.answers_prior_, self.evidence_ = False, None
        stated = [one for one in summaries if one is not None]
        known = any(one.noise_variance.any() or one.factors is not None or one.answers for one in stated)
        if not self.prior_correction or len(self.classes_) < 2 or (len(self.rows_) < FEWEST and not known):
            return
        rng = np.random.default_rng(0)
        asked = rng.permutation(len(self.rows_))[:MOST]
        codes = self.codes_[asked]
        if not known:
            self.answers_prior_ = worse_than_prior(self._shares(self.rows_[asked], asked)[0], codes, self.class_prior_)
            return
        heard, widening = self._ask(asked, summaries, rng)
        found = VoteEvidence.of(heard, widening, codes, self.class_prior_, len(asked) / len(self.rows_))
        self.evidence_ = tuple(found)
        self.answers_prior_ = not found.beliefs.any()

    def _ask(
        self, asked: Codes, summaries: list[NoiseSummary | None], rng: np.random.Generator
    ) -> tuple[tuple[Floats, Floats, Floats], Floats]:
        """What rows hear, as released and noised again, twice, and how much it was widened.

        They ask from where they would lie had noise not spread them: from further out they would hear hardly anybody.
        Votes are nearly linear there, and what differs from the mean is widened again.
        """
        places = [self.rows_[asked] for _ in range(3)]
        widening = np.ones(len(asked))
        for number, summary in enumerate(summaries):
            mine = self.part_[asked] == number
            if summary is None or not mine.any():
                continue
            every = self.rows_[self.part_ == number]
            middle, wider = every.mean(axis=0), summary.widening(every)
            widening[mine] = wider
            for place, rows in enumerate(places):
                moved = summary.again(rows[mine], rng) if place else rows[mine]
                rows[mine] = middle + (moved - middle) / wider
        heard = [self._shares(rows, asked)[0] for rows in places]
        mean = heard[0].mean(axis=0)
        votes, first, second = (mean + widening[:, None] * (one - mean) for one in heard)
        return (votes, first, second), widening

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

    def _check_parameters(self) -> None:
        n, rows, radius = self.n, self.fallback_neighbours, self.radius
        whose = "parameter of RadiusVote must be"
        if not np.isfinite(n):
            raise ValueError(f"The 'n' {whose} a finite number. Got {n!r} instead.")
        if rows < 1:
            raise ValueError(f"The 'fallback_neighbours' {whose} at least 1. Got {rows!r} instead.")
        if radius is not None and np.isnan(radius):
            raise ValueError(f"The 'radius' {whose} a squared distance or None. Got NaN instead.")
