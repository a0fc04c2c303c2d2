"""Study files: what a study asks of everybody who takes part, whatever its kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from sfumato.errors import SchemaError, SfumatoError
from sfumato.files import other_version
from sfumato.jobs.strength import MADE_UP
from sfumato.protocol.pool_study import PoolStudy
from sfumato.protocol.published_study import AS_PUBLISHED, published_study
from sfumato.protocol.survey_file import SurveyStudy
from sfumato.table.schema_file import read_yaml

VERSION = 1


class Study(Protocol):
    """What all kinds have: `hash` is what people compare out of band."""

    @property
    def kind(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def hash(self) -> str: ...

    def to_dict(self) -> dict[str, Any]: ...


KINDS: dict[str, Callable[[Mapping[str, Any]], Study]] = {
    PoolStudy.kind: PoolStudy.from_dict,
    SurveyStudy.kind: SurveyStudy.from_dict,
}
"""A new kind of study adds its reader here."""


def study_from_dict(found: Any) -> Study:
    """A study of any kind, checked."""
    kind = found.get("kind") if isinstance(found, Mapping) else None
    if isinstance(found, Mapping) and "version" in found:  # left out where it is 1, so that hashes stay what they are
        if why := other_version(found["version"], VERSION, older="Ask the study's owner for a new one."):
            raise SchemaError(f"The study file {why}")
        found = {key: value for key, value in found.items() if key != "version"}
    if isinstance(found, Mapping) and AS_PUBLISHED in found:
        found = published_study(found)
    if not isinstance(kind, str) or kind not in KINDS:
        raise SchemaError(f"A study file needs a `kind`, one of: {', '.join(KINDS)}.")
    return KINDS[kind](found)


def load_study(path: Path | str, *, published: bool = False, to_plan: bool = False) -> Study:
    """Read a study file (YAML or JSON); `published` is its `as_published: true`, said elsewhere. `to_plan`: it may lack
    a plan and a mechanism."""
    try:
        found = read_yaml(Path(path))
        if to_plan and isinstance(found, Mapping) and found.get("kind") == PoolStudy.kind:
            found = {"mechanism": {"name": MADE_UP}, **found}
        if published and isinstance(found, Mapping):
            found = {**found, AS_PUBLISHED: True}
        return study_from_dict(found)
    except SfumatoError as error:
        raise type(error)(f"{path}: {error}") from None
