"""Which of two people is it?"""

from __future__ import annotations

from sfumato.attacks.lineup_likelihood import LineUp


class Pair(LineUp):
    """The adversary holds the records of two people of one class, knows that a released row is one of theirs, and says
    whose by the exact likelihood of all channels.

    Success is the share of such pairs that it tells apart, over all others in the line-up; a coin gets .5. This figure
    means the same for every mechanism, whatever its noise, and grows to 1 where two people cannot be confused.
    """

    name = "pair"
    people = 2
