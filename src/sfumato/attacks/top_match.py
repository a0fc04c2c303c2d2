"""Who of a hundred people is it?"""

from __future__ import annotations

from sfumato.attacks.lineup_likelihood import LineUp


class TopMatch(LineUp):
    """The adversary holds the records of up to 100 people of one class, knows that a released row is one of theirs, and
    picks the likeliest by the exact likelihood of all channels.

    Success is the share of rows whose person is picked; ties count as a draw among them.
    """

    name = "top-match"
