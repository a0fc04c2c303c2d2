"""How a release is written: which columns, in which units, and back into a matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.array_types import Codes, Matrix
from sfumato.channels import Channel, HidesMissing, Identity, Recipe, Sampled, Unstated
from sfumato.errors import UsageError
from sfumato.mechanisms import Mechanism
from sfumato.table import Encoding


@dataclass(frozen=True)
class Layout:
    """Column-wise mechanisms keep names and raw units, mixing ones have c000...; the label comes last.

    With `like_original` the release is mapped back to the source's columns, rounded and clipped to their kinds:
    post-processing, which costs no privacy.
    """

    mechanism: Mechanism
    encoding: Encoding
    like_original: bool = False

    def __post_init__(self) -> None:
        self.mechanism.recipe_.check_writable()
        if self.like_original and self.mechanism.restore(np.zeros((1, self.mechanism.recipe_.width))) is None:
            raise UsageError(f"{self.mechanism.name} cannot be written like the original: its map is a secret key.")
        if self.like_original and self.mechanism.recipe_.left_out and not self.mechanism.recipe_.is_columnwise:
            raise UsageError(
                f"{self.mechanism.name} cannot be written like the original: it mixes columns and leaves cells out."
            )

    def table(self, Z: Matrix, y: Codes | None, *, overwrite: bool = False) -> pa.Table:
        """Release rows as a table; with `overwrite` in the memory of Z, as far as that goes."""
        if self.like_original:
            restored = self.mechanism.restore(Z)
            assert restored is not None  # checked when the layout was made
            table = self.encoding.decode(restored, like_original=True)
        elif self.mechanism.recipe_.is_columnwise:
            drawn = self.mechanism.recipe_.rows == "nobody"
            table = self.encoding.decode(Z, like_original=drawn, overwrite=overwrite)
        else:
            names = self.mechanism.recipe_.names()
            columns = np.ascontiguousarray(Z.T)
            gaps = bool(self.mechanism.recipe_.left_out)  # only then a NaN can be there, and is looked for
            table = pa.table([pa.array(column, from_pandas=gaps) for column in columns], names=names)
        label = self.encoding.schema.label
        if label is not None and y is not None:
            table = table.append_column(label.name, self.encoding.decode_label(y))
        return table

    def columns(self) -> list[dict[str, Any]]:
        """The written columns, for the card."""
        if self.recipe().is_columnwise:
            columns = self.encoding.schema.private
            return [{"name": column.name, "kind": column.kind, "units": "source"} for column in columns]
        return [{"name": name, "kind": "numeric", "units": "encoded"} for name in self.recipe().names()]

    def recipe(self) -> Recipe:
        """How the written rows came about; what rounding and clipping make of noise has no stated law."""
        if not self.like_original:
            return self.mechanism.recipe_
        made = self.mechanism.recipe_
        channels: list[Channel] = [Unstated(group.width) for group in self.encoding.groups]
        if made.left_out:  # which columns are reported stays as it was, and so does whether "missing" is told
            channels = [_unstated(was) for was, _ in made.of_columns()]
        identity = Identity(self.encoding.width)
        return Recipe(self.encoding, identity, tuple(channels), made.rows, reports=made.reports)


def _unstated(was: Channel) -> Channel:
    """What is left of a channel that may leave cells out, once its law is gone."""
    found: Channel = HidesMissing(Unstated(was.width - 1)) if was.hides_missing else Unstated(was.width)
    return Sampled(found, was.reported) if was.leaves_out else found
