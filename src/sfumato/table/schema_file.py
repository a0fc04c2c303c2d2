"""Schema files: YAML that a person can read and edit, JSON for programs."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from sfumato.errors import SchemaError

HEADER = """\
# What sfumato knows about the columns of this table. Edit it by hand.
#
# kind      numeric, integer, date: need `low` and `high`; ordinal, categorical: need `categories`
#           (an ordinal's in their order).
# role      private     perturbed before it is released
#           label       what classifiers are to predict; released last, exact unless you ask otherwise
#           person      says which rows belong to one person; never released
#           identifier  never released (names, numbers of people or samples)
# missing   true if cells may be empty
# weight    how much privacy the column deserves relative to the others (1 is usual): a column of weight 2 gets
#           half the epsilon of one of weight 1
# noise     how this column is perturbed where it differs from the others, for example {law: normal, scale: 0.1};
#           keys: law, scale, low, high, df, operator, base, epsilon_share, kernel, bandwidth
# source    learned     bounds and categories were read off the private table: they reveal something about
#                       the people in it, and no proof can rest on them
#           public      you know them from elsewhere (a law, a form, a code book). Only you can say so, and every
#                       reader is told that a proof rests on your word: give bounds that do not depend on this
#                       table, and a `reason` in one sentence (`sfumato declare` writes both):
#
#             - name: age
#               kind: integer
#               low: 0
#               high: 120
#               source: public
#               reason: nobody on the register is older than 120
#
"""


MOST_BYTES = 16 << 20
"""Of a YAML file: larger ones were given by mistake, or by somebody who wants us to be busy."""
MOST_REPEATED = 100_000
"""Values that the aliases of a file (*name) may stand for: ten lines of them can mean a hundred million."""


class _Loader(yaml.SafeLoader):
    """YAML whose aliases are counted while it is read: each is as many values as what it repeats."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._values = self._repeated = 0
        self._sizes: dict[yaml.Node, int] = {}

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        alias, before = self.check_event(yaml.AliasEvent), self._values
        node = super().compose_node(parent, index)
        if node is None:
            return None
        if not alias:
            self._values += 1
            self._sizes[node] = self._values - before
            return node
        if node not in self._sizes:
            raise SchemaError("one of its aliases (*name) stands for something that contains it.")
        self._values += self._sizes[node]
        self._repeated += self._sizes[node]
        if self._repeated > MOST_REPEATED:
            raise SchemaError(f"its aliases (*name) repeat more than {MOST_REPEATED:,} values. Write them out.")
        return node


class _WordLoader(_Loader):
    """YAML in which yes, no, on and off are words: they are categories far more often than truth values."""


_WordLoader.yaml_implicit_resolvers = {
    first: [
        (tag, pattern) for tag, pattern in resolvers if not (tag == "tag:yaml.org,2002:bool" and first not in "tTfF")
    ]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def read_yaml(path: Path, *, yes_is_true: bool = False) -> Any:
    """What a YAML or JSON (which is YAML) file says, unchecked."""
    try:
        if path.stat().st_size > MOST_BYTES:
            raise SchemaError(
                f"it has more than {MOST_BYTES >> 20} MiB, more than any schema or study. Is it the table?"
            )
        return parse_yaml(path.read_text(encoding="utf-8-sig"), yes_is_true=yes_is_true)
    except OSError as error:
        raise SchemaError(f"it cannot be read: {error.strerror or type(error).__name__}.") from None
    except UnicodeDecodeError:
        raise SchemaError("it is not UTF-8 text.") from None


def parse_yaml(text: str, *, yes_is_true: bool = False) -> Any:
    """What a text says: the only place where YAML is read. JSON is YAML, and is read fifty times as fast: it matters
    where there are thousands of columns."""
    try:
        if text.lstrip().startswith("{"):
            with contextlib.suppress(ValueError):
                return json.loads(text, parse_constant=_no_json)
        return yaml.load(text, Loader=_Loader if yes_is_true else _WordLoader)
    except RecursionError:
        raise SchemaError("it is nested too deeply.") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" (line {mark.line + 1}, column {mark.column + 1})" if mark is not None else ""
        raise SchemaError(f"it is not valid YAML{where}.") from None
    except ValueError:  # the loader's own words for a 31st of February quote the file
        raise SchemaError("it contains a date or a number that does not exist.") from None


def _no_json(word: str) -> Any:
    """NaN and Infinity, which Python's reader would take."""
    raise ValueError(word)


def schema_text(found: Mapping[str, Any], *, as_json: bool = False) -> str:
    """YAML with a header that explains what to edit, or plain JSON for programs."""
    if as_json:
        return json.dumps(found, indent=2, ensure_ascii=False) + "\n"
    return HEADER + yaml.safe_dump(found, sort_keys=False, allow_unicode=True, width=118)
