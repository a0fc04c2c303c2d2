"""A basis from rows that are public: people whom the release does not speak of shape the directions it uses."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

from sfumato.errors import SchemaError, TableError, UsageError
from sfumato.guarantee import Ledger
from sfumato.guarantee.borrowed import is_reason
from sfumato.jobs.source import Source
from sfumato.mechanisms import Mechanism, PrincipalLaplace
from sfumato.mechanisms.basis import principal_components
from sfumato.statistics import Moments
from sfumato.table import Encoding, Schema, open_table

THE_SAME = (
    "The rows of --basis-from are those of the table itself, which are private: a basis made from them reveals "
    "something about the people in it. Give rows that anybody may have."
)


@dataclass(frozen=True)
class PublicRows:
    """A table that anybody may have, and why."""

    table: Any
    reason: str | None

    def check(self, mechanism: Mechanism, parameters: Any) -> None:
        """What can be refused before any table is read."""
        if not isinstance(mechanism, PrincipalLaplace):
            raise UsageError(f"--basis-from gives principal-laplace its basis, but {mechanism.name} has none.")
        for given in ("basis", "basis_reason"):
            if given in parameters:
                raise UsageError(f"The basis comes from --basis-from and the reason from --reason. Leave {given} out.")
        if not is_reason(self.reason):
            raise UsageError(
                "--basis-from needs a --reason: say in one sentence why these rows are public (who published them)."
            )

    def shape(self, mechanism: Mechanism, encoding: Encoding, ledger: Ledger) -> str:
        """Give the mechanism the principal components of the public rows; returns the rows' fingerprint."""
        only_private = Encoding(Schema(encoding.schema.private))
        source = Source(open_table(self.table), only_private, labelled=False)
        fingerprint = ledger.fingerprint(encoding.width)
        parts = []
        try:
            for block in source.blocks():
                parts.append(Moments.of(block.X))
                fingerprint.add(block.X)
        except (TableError, SchemaError) as error:
            raise type(error)(f"The public rows of --basis-from cannot be used: {error}") from None
        moments = reduce(add, parts, Moments.empty(encoding.width))
        mechanism.set_params(basis=principal_components(moments), basis_reason=self.reason)
        return fingerprint.hexdigest()
