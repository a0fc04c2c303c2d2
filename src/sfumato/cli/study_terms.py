"""What a study file settles for a site that sanitizes: read from the site's own copy, never from a server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sfumato.errors import UsageError
from sfumato.protocol.pool_study import PoolStudy
from sfumato.protocol.study_file import load_study
from sfumato.table import Schema


@dataclass(frozen=True)
class Terms:
    """Schema, mechanism and parameters of a study, and the weakest guarantee that it takes."""

    name: str
    hash: str
    schema: Schema
    mechanism: str
    parameters: Mapping[str, Any]
    epsilon_record: float | None

    @classmethod
    def of(cls, file: Path) -> Terms:
        if not file.is_file():
            raise UsageError(f"There is no study file {file}.")
        study = load_study(file)
        if not isinstance(study, PoolStudy):
            raise UsageError(f"{file} is a study of kind {study.kind}, for which no table is sanitized.")
        return cls(study.name, study.hash, study.schema, study.mechanism, study.parameters, study.epsilon_record)

    def mechanism_instead_of(self, given: str, schema: Path | None, *, default: str) -> str:
        """The study's mechanism; what else was asked for must not contradict it."""
        if schema is not None:
            raise UsageError("The study has a schema already. Leave out one of --study, --schema.")
        if given not in (default, self.mechanism):
            raise UsageError(f"The study asks for {self.mechanism}. Leave --mechanism out.")
        return self.mechanism

    def with_parameters(self, given: dict[str, Any]) -> dict[str, Any]:
        """The study's parameters and, where it leaves them open, the site's own."""
        for name in given:
            if name in self.parameters:
                raise UsageError(f"The study fixes the parameter {name}. Leave --param {name} out.")
        return {**self.parameters, **given}
