"""Every error that a user's mistake can cause, with the exit code that the command line returns for it.

A message says what was wrong, where, and what to do. It never quotes the content of a cell: error
messages travel further than tables do.
"""

from __future__ import annotations

from typing import Any

from sfumato.core.wording import said


class SfumatoError(Exception):
    """Base of all errors that are meant to be read by a user: a sentence, or its template with the values in it."""

    exit_code = 1

    def __init__(self, sentence: str = "", /, **values: Any) -> None:
        super().__init__(said(sentence, **values) if values else sentence)


class UsageError(SfumatoError):
    """A wrong option, method, parameter or attacker."""

    exit_code = 2


def wrong_parameter(parameter: str, owner: str, must: str, got: object) -> UsageError:
    """A parameter that is out of range, or of another kind."""
    return UsageError(f"The {parameter!r} parameter of {owner} must be {must}. Got {got!r} instead.")


class TableError(SfumatoError):
    """A table that cannot be read, or whose content cannot be used."""

    exit_code = 3


class SchemaError(SfumatoError):
    """A schema that does not fit its table or lacks something."""

    exit_code = 4


class OutputError(SfumatoError):
    """A place that cannot be written: it exists, is full, or is not ours."""

    exit_code = 5


class CardError(SfumatoError):
    """A card, key or model that is damaged, does not fit together with the others, or is not allowed here."""

    exit_code = 6


class NothingNewError(SfumatoError):
    """No row is new, so nothing was released (`sanitize --only-new`), or an answer was sent before (`respond`)."""

    exit_code = 7


class CoordinatorError(SfumatoError):
    """The coordinator's server cannot be reached, refused what was sent, or asks for more than was agreed."""

    exit_code = 8


class UnmetWishError(SfumatoError):
    """No setting keeps what was wished for (`recommend`); the nearest ones are told."""

    exit_code = 9


class BudgetError(SfumatoError):
    """The release would exceed the budget of its ledger, so nothing was released."""

    exit_code = 10


class InterruptedRunError(SfumatoError):
    """Ctrl-C or a polite kill stopped a run that keeps its work (`sanitize --resume`)."""

    exit_code = 130


class PrivacyLeakWarning(UserWarning):
    """Something was read off private data that a proof needs to be public."""
