"""Cells that fit no category of a schema, told by column and number; their words stay where they are."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

from sfumato.table.infer import TableWarning
from sfumato.wording import counted

REFUSING = " To refuse them instead: --unknown refuse."


class UnknownCategoryWarning(TableWarning):
    """Rows hold categories or classes that nobody has seen before."""


def unfit_in_words(unfit: Mapping[str, int], whose: str) -> str:
    """Which columns hold categories that `whose` rows do not have, and in how many cells; "" for none."""
    if not unfit:
        return ""
    columns = ", ".join(f"{name} ({counted(count, 'cell')})" for name, count in unfit.items())
    return f"Categories that {whose} does not have were treated as missing: {columns}."


def warn_of_unfit(unfit: Mapping[str, int], whose: str, instead: str = REFUSING, stacklevel: int = 2) -> None:
    """The same as a warning, with the way to refuse such rows."""
    if words := unfit_in_words(unfit, whose):
        warnings.warn(f"{words}{instead}", UnknownCategoryWarning, stacklevel=stacklevel + 1)
