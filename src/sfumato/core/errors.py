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

    def __init_subclass__(cls, code: int | None = None) -> None:
        cls.exit_code = code or cls.exit_code

    def __init__(self, sentence: str = "", /, **values: Any) -> None:
        super().__init__(said(sentence, **values) if values else sentence)


class UsageError(SfumatoError, code=2):
    """A wrong option, method, parameter or attacker."""


def wrong_parameter(parameter: str, owner: str, must: str, got: object) -> UsageError:
    """A parameter that is out of range, or of another kind."""
    return UsageError(f"The {parameter!r} parameter of {owner} must be {must}. Got {got!r} instead.")


class TableError(SfumatoError, code=3):
    """A table that cannot be read, or whose content cannot be used."""


class SchemaError(SfumatoError, code=4):
    """A schema that does not fit its table or lacks something."""


class OutputError(SfumatoError, code=5):
    """A place that cannot be written: it exists, is full, or is not ours."""


class CardError(SfumatoError, code=6):
    """A card, key or model that is damaged, does not fit together with the others, or is not allowed here."""


class NothingNewError(SfumatoError, code=7):
    """No row is new, so nothing was released (`sanitize --only-new`), or an answer was sent before (`respond`)."""


class CoordinatorError(SfumatoError, code=8):
    """The coordinator's server cannot be reached, refused what was sent, or asks for more than was agreed."""


class UnmetWishError(SfumatoError, code=9):
    """No setting keeps what was wished for (`recommend`); the nearest ones are told."""


class BudgetError(SfumatoError, code=10):
    """The release would exceed the budget of its ledger, so nothing was released."""


class InterruptedRunError(SfumatoError, code=130):
    """Ctrl-C or a polite kill stopped a run that keeps its work (`sanitize --resume`)."""


class PrivacyLeakWarning(UserWarning):
    """Something was read off private data that a proof needs to be public."""
