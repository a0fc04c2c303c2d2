"""Fetch a survey's received bits: a zip file of parts, unpacked with suspicion."""

from __future__ import annotations

import re
import tempfile
import zipfile
from pathlib import Path

from sfumato.client.coordinator import Coordinator
from sfumato.errors import CoordinatorError
from sfumato.files import new_folder

_MEMBER = re.compile(r"(part-\d{5,})/(release\.parquet|card\.json)")
PIECE = 1 << 20


def export_survey(coordinator: Coordinator, study: str, out: Path, *, force: bool = False) -> list[Path]:
    """Write every part as a folder inside `out`; all of them or nothing."""
    with tempfile.TemporaryFile() as packed:
        for piece in coordinator.survey_parts(study):
            packed.write(piece)
        with new_folder(out, force=force) as folder:
            try:
                with zipfile.ZipFile(packed) as archive:
                    names = [_unpacked(archive, member, folder) for member in archive.infolist()]
            except zipfile.BadZipFile:
                raise CoordinatorError(
                    "What the coordinator sent is damaged. Nothing was written; try again."
                ) from None
    return [out / name for name in sorted(set(names))]


def _unpacked(archive: zipfile.ZipFile, member: zipfile.ZipInfo, folder: Path) -> str:
    """Only names that an export has are ever written."""
    named = _MEMBER.fullmatch(member.filename)
    if named is None:
        raise CoordinatorError("What the coordinator sent contains files that no export has. Nothing was written.")
    part = folder / named[1]
    part.mkdir(exist_ok=True)
    with archive.open(member) as source, (part / named[2]).open("wb") as target:
        while piece := source.read(PIECE):
            target.write(piece)
    return named[1]
