"""The piecewise mechanism on some columns of every record: released numbers and their means are right on average."""

from __future__ import annotations

from sfumato.channels import Channel, Hybrid, Piecewise, SquareWave
from sfumato.mechanisms.reporting import ReportsSome

# The square wave on some columns of every record: what is known to leave most for learners at a small epsilon.


class SquareWaveColumns(ReportsSome):
    """Report a few columns of every record, numbers by the square wave [Li et al. 2020], categories by randomized
    response, and leave the other cells empty.

    A number is released within b of the truth with density p, elsewhere on [-b, 1 + b] of its range with density
    p e^-eps, where eps is the record's epsilon over the number of columns that it reports. Released numbers are biased
    towards the middle: learners and reconstruction go by the likelihood. A missing cell is released as any value.

    Parameters
    ----------
    epsilon_record : epsilon of the whole record.
    columns : how many columns every record reports; None for epsilon / 2.5, at least 1.
    noise : "exact" (on a grid) or "float", for experiments.
    """

    name = "square-wave"
    papers = ("Li et al. 2020", "Wang et al. 2019")
    not_protected = (
        "Of each record it is public which columns it reports.",
        "The mechanism spends its whole epsilon: an adversary who knows the likelihood gets all that it allows.",
    )

    def __init__(self, epsilon_record: float = 4.0, columns: int | None = None, noise: str = "exact"):
        self.epsilon_record = epsilon_record
        self.columns = columns
        self.noise = noise

    def number(self, epsilon: float) -> Channel:
        return SquareWave.of_epsilon(epsilon, exact=self.noise == "exact")


class PiecewiseNoise(ReportsSome):
    """Report a few columns of every record without bias: numbers by the piecewise mechanism [Wang et al. 2019],
    categories by randomized response; the other cells are empty.

    A reported number is right on average, whatever it is, so the mean of a column's reported cells is an unbiased
    estimate of the column's mean. It is at most C / 2 of the range away from the middle, C = (e^(eps/2) + 1) /
    (e^(eps/2) - 1), where eps is the record's epsilon over the number of columns that it reports. For learning, the
    square wave keeps more. A missing cell is released as any value, which is the middle of the range on average.

    Parameters
    ----------
    epsilon_record : epsilon of the whole record.
    columns : how many columns every record reports; None for epsilon / 2.5, at least 1.
    form : "hybrid", which mixes in two far ends and varies least at worst, or "piecewise". A number that may be
        missing is always piecewise.
    noise : "exact" (on a grid) or "float", for experiments.
    """

    name = "piecewise-noise"
    papers = ("Wang et al. 2019",)
    not_protected = (
        "Of each record it is public which columns it reports.",
        "The mechanism spends its whole epsilon: an adversary who knows the likelihood gets all that it allows.",
    )

    def __init__(
        self, epsilon_record: float = 4.0, columns: int | None = None, form: str = "hybrid", noise: str = "exact"
    ):
        self.epsilon_record = epsilon_record
        self.columns = columns
        self.form = form
        self.noise = noise

    def number(self, epsilon: float) -> Channel:
        self._check_choice(("hybrid", "piecewise"), form=self.form)
        kind = Hybrid if self.form == "hybrid" else Piecewise
        return kind.of_epsilon(epsilon, exact=self.noise == "exact")

    def missing_number(self, epsilon: float) -> Channel:
        return Piecewise.of_epsilon(epsilon, exact=self.noise == "exact")
