"""Who of a hundred people is it?"""

from __future__ import annotations

from sfumato.attacks.base import Attack, Guess, Knowledge, Picks
from sfumato.attacks.lineup_likelihood import lineup_scores


class TopMatch(Attack):
    """The adversary holds the records of up to 100 people of one class, knows that a released row is one of theirs, and
    picks the likeliest by the exact likelihood of all channels.

    Success is the share of rows whose person is picked; ties count as a draw among them.
    """

    name = "top-match"
    reads_gaps = True
    knows = frozenset({"release", "noise", "lineups"})
    helps = frozenset({"transform", "labels", "guided"})

    def guess(self, known: Knowledge) -> Guess:
        """How likely everybody in each line-up is."""
        assert known.lineups is not None
        found = lineup_scores(known)
        return Picks(found, known.lineups.rows, found.shape[1])
