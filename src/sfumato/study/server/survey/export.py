"""Received bits as releases: one part for every version of the guidance, each with its card."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from sfumato.channels.guidance import encode_matrix
from sfumato.guarantee import Card
from sfumato.mechanisms.guided_projection import FROM_A_SURVEY, GuidedProjection
from sfumato.release.write_release import CARD_METADATA, Layout, make_card
from sfumato.study.protocol.survey_file import SurveyStudy
from sfumato.study.protocol.survey_table import survey_encoding
from sfumato.study.server.store.survey_store import SurveyStore, Version
from sfumato.study.server.survey.received_answer import unpack
from sfumato.table import write_table
from sfumato.table.statistics import Statistics


def write_parts(store: SurveyStore, study: str, survey: SurveyStudy, folder: Path) -> list[Path]:
    """Write `folder`/part-00001/{release.parquet, card.json} for every version that somebody answered to."""
    return [_write_part(survey, *part, folder) for part in _answered(store, study, survey)]


def _answered(
    store: SurveyStore, study: str, survey: SurveyStudy
) -> Iterator[tuple[Version, np.ndarray[tuple[int, int], np.dtype[np.uint8]], list[int]]]:
    for number in range(1, store.latest(study) + 1):
        received = list(store.answers(study, number))
        version = store.version(study, number) if received else None
        if version is not None:
            labels = [label for label, _ in received]
            yield version, unpack([bits for _, bits in received], survey.width), labels


def _write_part(
    survey: SurveyStudy,
    version: Version,
    bits: np.ndarray[tuple[int, int], np.dtype[np.uint8]],
    labels: list[int],
    folder: Path,
) -> Path:
    encoding = survey_encoding(survey)
    V = np.frombuffer(version.matrix, dtype="<f8").reshape(survey.width, version.entry.k)
    mechanism = GuidedProjection(
        guidance=encode_matrix(V), floor=survey.floor, link=survey.link, guidance_reason=FROM_A_SURVEY
    )
    mechanism.fit_statistics(Statistics.empty(encoding.width), encoding)
    layout = Layout(mechanism, encoding, like_original=False)
    card: Card = make_card(layout, mechanism.guarantee().beside_exact_label(), rows=len(bits))
    part = folder / f"part-{version.entry.version:05d}"
    part.mkdir()
    table = layout.table(bits.astype(np.float64), np.array(labels, dtype=np.int64))
    write_table(table, part / "release.parquet", metadata={CARD_METADATA.decode(): card.to_json()})
    card.save(part / "card.json")
    return part
