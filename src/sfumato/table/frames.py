"""Tables as people hold them: what comes in says as what the answer goes out."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import pyarrow as pa

PANDAS, POLARS, ARROW = "pandas", "polars", "pyarrow"


def kind_of(source: Any) -> str:
    """As what to answer somebody who gave this: in kind; for paths and the like as pandas where it is installed.

    >>> kind_of(pa.table({"a": [1]}))
    'pyarrow'
    """
    makers = {parent.__module__.partition(".")[0] for parent in type(source).__mro__}
    for kind in (PANDAS, POLARS, ARROW):
        if kind in makers:
            return kind
    return PANDAS if find_spec(PANDAS) is not None else ARROW


def as_frame(table: pa.Table, kind: str) -> Any:
    """An Arrow table as a data frame of another kind."""
    if kind == PANDAS:
        return table.to_pandas(date_as_object=False)
    if kind == POLARS:
        import polars

        return polars.from_arrow(table)
    return table
