"""Tables: their schema, readers and writers, and the encoding to a matrix and back."""

from sfumato.core.registry import found_in
from sfumato.table.column import Column
from sfumato.table.encoding import Encoding
from sfumato.table.infer import ConstantWarning, IdentifierWarning
from sfumato.table.readers import open_table
from sfumato.table.schema import Group, Schema
from sfumato.table.statistical import SqlQuery
from sfumato.table.tables import BLOCK_ROWS, Table
from sfumato.table.writers import table_writer, write_table

__all__ = [
    "BLOCK_ROWS",
    "Column",
    "ConstantWarning",
    "Encoding",
    "Group",
    "IdentifierWarning",
    "Schema",
    "SqlQuery",
    "Table",
    "open_table",
    "table_writer",
    "write_table",
]

__getattr__ = found_in(__name__)
