"""What a study file settles for a site that sanitizes: read from the site's own copy, never from a server."""

from __future__ import annotations

from pathlib import Path

from sfumato.errors import UsageError
from sfumato.jobs.strength import Terms
from sfumato.protocol.pool_study import PoolStudy
from sfumato.protocol.study_file import load_study


def study_terms(file: Path | str) -> Terms:
    """Schema, mechanism, parameters and the weakest guarantee of the study in a file."""
    file = Path(file)
    if not file.is_file():
        raise UsageError(f"There is no study file {file}.")
    study = load_study(file)
    if not isinstance(study, PoolStudy):
        raise UsageError(f"{file} is a study of kind {study.kind}, for which no table is released.")
    settled = study.schema, study.mechanism, study.parameters, study.epsilon_record, study.presence
    return Terms(study.name, study.hash, *settled)
