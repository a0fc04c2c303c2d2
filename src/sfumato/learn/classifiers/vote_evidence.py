r"""How much votes say: a posterior from votes, measured on the released rows themselves.

Noise flattens votes, so that they are no probabilities; nor should they decide alone once they are divided by the
shares of the classes. Where noise is strong their differences are chance, or come from how widely a class is spread,
and a rule that listens to them errs more often than one that always answers the commonest class.

Every released row, left out of the vote, is a query whose class is known. But it is noisy, and the rows to be
classified are not. Noise leaves the mean votes of a class about where they are, and adds to their variance; how much,
is found by noising the released rows again (simulation, as in Cook & Stefanski 1994), and taken off. What remains is a
difference of estimates and can come out negative: what is used is its mean given that it is not, if its error is
normal, and no less than rows show without any widening (see `Heard`). Votes are then taken as normal in every class
with these means and this variance, density f_c, and the shares of the classes are the prior p_c. That a class
differs at all from the commonest one, m, is believed with probability h_c:

    P(c | votes) is proportional to p_c (h_c f_c + (1 - h_c) f_m).

So the commonest class is answered where votes are not believed, and where classes are equally common votes decide
however weak they are. h_c follows from how far, in standard errors, rows of c vote for c rather than for m, more than
rows of m do: by the most that a p-value allows in favour, -e p ln p (Sellke, Bayarri & Berger 2001), against odds of
`SCEPTICISM`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import stats

from sfumato.core.array_types import Codes, Floats

SCEPTICISM = 19.0
"""Odds against votes that say anything, before rows were asked; on generated sets 9 to 49 serve alike."""


@dataclass(frozen=True)
class Heard:
    """Votes that left-out rows heard, as released and noised again, twice.

    `widening`: rows asked from places so many times nearer the middle, and what votes differed from their mean was
    multiplied by it.
    """

    votes: Floats
    first: Floats
    second: Floats
    widening: Floats

    def by_noise(self, squares: Floats, codes: Codes) -> Floats:
        """What noise adds to the `squares` of every row's votes.

        Two noisings of one row differ by noise, and by how rough votes are from place to place. Plain rows hear
        the roughness too, but it is not widened for them. What a further noising adds to the squares is noise alone.
        """
        differ = 0.5 * np.sum((self.first - self.second) ** 2, axis=1)
        added = 0.5 * (_within(self.first, codes)[1] + _within(self.second, codes)[1]) - squares
        rough = 1.0 / self.widening**2
        return np.asarray(rough * added + (1.0 - rough) * differ)


@dataclass(frozen=True)
class VoteEvidence:
    """Mean votes and variance (of one direction) of plain rows in every class, and `beliefs`: h of every class."""

    means: Floats
    variances: Floats
    beliefs: Floats

    @classmethod
    def of(cls, heard: Heard, codes: Codes, prior: Floats, share_asked: float) -> VoteEvidence:
        """From the votes that left-out rows heard.

        `share_asked` of the rows were asked. Rows that vote for each other are right or wrong together, so that the
        variance of their mean is 1 + share_asked times that of independent ones.
        """
        rows, k = heard.votes.shape
        counts = np.bincount(codes, minlength=k)
        if rows <= np.count_nonzero(counts):
            return cls(np.zeros((k, k)), np.ones(k), np.zeros(k))
        means, squares = _within(heard.votes, codes)
        of_means = (1.0 + share_asked) * float(squares.mean()) / np.maximum(counts, 1)
        clean = squares - heard.by_noise(squares, codes)
        variance = _mean_if_positive(float(clean.mean()), float(clean.std()) / np.sqrt(rows))
        variance = max(variance, float(np.mean(squares / heard.widening**2)))
        # Of one direction, as votes sum to one; and means are not exactly known.
        variances = np.maximum((variance + of_means) / (k - 1), np.finfo(np.float64).eps)
        return cls(means, variances, _beliefs(means, of_means / (k - 1), counts, int(prior.argmax())))

    def probabilities(self, votes: Floats, prior: Floats) -> Floats:
        """P(c | votes)."""
        away = np.sum((votes[:, None, :] - self.means) ** 2, axis=2)
        scores = -0.5 * away / self.variances - 0.5 * (len(prior) - 1) * np.log(self.variances)
        density = np.exp(scores - scores.max(axis=1, keepdims=True))
        commonest = density[:, [int(prior.argmax())]]
        found = prior * (self.beliefs * density + (1.0 - self.beliefs) * commonest)
        whole = found.sum(axis=1, keepdims=True)
        return np.where(whole > 0, found / np.where(whole > 0, whole, 1.0), prior)


def _within(votes: Floats, codes: Codes) -> tuple[Floats, Floats]:
    """Mean votes of every class, and for every row the squared distance from that of its own (unbiased)."""
    k = votes.shape[1]
    counts = np.bincount(codes, minlength=k)
    means = np.zeros((k, k))
    np.add.at(means, codes, votes)
    means /= np.maximum(counts, 1)[:, None]
    rows, there = len(codes), np.count_nonzero(counts)
    return means, np.sum((votes - means[codes]) ** 2, axis=1) * rows / (rows - there)


def _beliefs(means: Floats, of_means: Floats, counts: Codes, commonest: int) -> Floats:
    """h of every class; 0 for the commonest, which has none to be told from, and for classes without rows.

    Between a class and the commonest, rows of the one should vote for it rather than for the other, more than rows of
    the other do. `of_means`: variance of mean votes in one direction; a difference of two votes has twice as much.
    """
    found = np.diag(means) - means[commonest] - (means[:, commonest] - means[commonest, commonest])
    error = np.sqrt(2.0 * (of_means + of_means[commonest]))
    p = stats.norm.sf(found / np.maximum(error, np.finfo(np.float64).tiny))
    factor = np.where(p < 1.0 / np.e, -np.e * p * np.log(np.maximum(p, np.finfo(np.float64).tiny)), 1.0)
    return np.where((found > 0.0) & (counts > 0), 1.0 / (1.0 + SCEPTICISM * factor), 0.0)


def _mean_if_positive(estimate: float, error: float) -> float:
    """The mean of a normal law with this mean and standard deviation, cut off below 0."""
    if error <= 0.0:
        return max(estimate, 0.0)
    ratio = max(estimate / error, -20.0)
    return error * (ratio + float(np.exp(stats.norm.logpdf(ratio) - stats.norm.logcdf(ratio))))


def worse_than_prior(votes: Floats, codes: Codes, prior: Floats) -> bool:
    """Whether answering by votes errs more often than always answering the commonest class, by a standard error."""
    right, usual = votes.argmax(axis=1) == codes, codes == prior.argmax()
    losses, wins = np.count_nonzero(usual & ~right), np.count_nonzero(right & ~usual)
    return bool(losses - wins > np.sqrt(losses + wins))
