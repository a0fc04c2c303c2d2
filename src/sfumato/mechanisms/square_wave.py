"""The square wave on some columns of every record: what is known to leave most for learners at a small epsilon."""

from __future__ import annotations

from sfumato.channels import Channel, SquareWave
from sfumato.mechanisms.reporting import ReportsSome


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
