"""What a survey has received, for its owner: how it goes, and the bits as releases with their cards."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from sfumato.channels.guidance.disclosure import disclosure
from sfumato.channels.guidance.epsilon import survey_epsilon
from sfumato.channels.guidance.guidance import decode_matrix, encode_matrix
from sfumato.channels.guidance.most_disclosure import most_bits
from sfumato.channels.guidance.space import AnswerSpace, Link
from sfumato.core.array_types import Matrix
from sfumato.guarantee import Card
from sfumato.mechanisms.guided_projection import FROM_A_SURVEY, GuidedProjection
from sfumato.release.write_release import CARD_METADATA, Layout, make_card
from sfumato.study.protocol.survey_file import SurveyStudy
from sfumato.study.protocol.survey_guidance import survey_encoding
from sfumato.study.protocol.survey_log import LogEntry
from sfumato.study.server.store.sql_tables import CLOSED, OPEN
from sfumato.study.server.store.survey_store import SurveyStore, Version
from sfumato.study.server.survey.received_answer import unpack
from sfumato.table import write_table
from sfumato.table.statistics import Statistics

# How a survey goes: answers by hour, and by version the level and what the guidance allows to learn.


MOST_ROWS = 5_000
MOST_POINTS = 200
"""Versions whose epsilon is computed: of more, evenly spread ones."""


def survey_progress(store: SurveyStore, study: str, survey: SurveyStudy) -> dict[str, Any]:
    """Everything that the owner's page and `sfumato survey status` show."""
    log = store.log(study, limit=1_000_000)
    hours: Counter[str] = Counter()
    before = 0
    for entry, hour in log:
        hours[hour] += entry.answers - before
        before = entry.answers
    spread = {round(place) for place in np.linspace(0, len(log) - 1, min(len(log), MOST_POINTS))} if log else set()
    codes, used = store.codes.counts(study)
    return {
        "state": CLOSED if store.closed(study) or survey.closed(datetime.now(UTC).date()) else OPEN,
        "answers": store.count(study),
        "counted": before,
        "by_hour": [{"hour": hour, "answers": number} for hour, number in sorted(hours.items()) if number],
        "versions": [
            {
                "version": entry.version,
                "answers": entry.answers,
                "k": entry.k,
                "epsilon": _epsilon(store, study, survey, entry.version, entry.k) if place in spread else None,
            }
            for place, (entry, _) in enumerate(log)
        ],
        "disclosure_at_even_choices": _disclosure(store, study, survey, log[-1][0]) if log else None,
        "most_bits": most_bits(AnswerSpace(survey.sizes), log[-1][0].k, survey.floor, survey.link) if log else None,
        "codes": {"given": codes, "used": used} if survey.invitations else None,
        "floor": survey.floor,
        "accuracy": _accuracy(store, study, survey, len(log)),
    }


def _accuracy(store: SurveyStore, study: str, survey: SurveyStudy, latest: int) -> dict[str, Any] | None:
    """How often naive Bayes, trained on other received rows, meets the class of a received row; newest rows first."""
    from sfumato.learn.classifiers.survey_bits import accuracy_on_received  # brings scikit-learn with it

    labels: list[int] = []
    bits: list[bytes] = []
    for version in range(latest, 0, -1):
        for label, row in store.answers(study, version):
            labels.append(label)
            bits.append(row)
        if len(labels) >= MOST_ROWS:
            break
    if not labels:
        return None
    share = accuracy_on_received(unpack(bits[:MOST_ROWS], survey.width), np.array(labels[:MOST_ROWS]))
    commonest = max(Counter(labels[:MOST_ROWS]).values()) / min(len(labels), MOST_ROWS)
    return None if share is None else {"share": share, "commonest": commonest, "rows": min(len(labels), MOST_ROWS)}


def _epsilon(store: SurveyStore, study: str, survey: SurveyStudy, number: int, k: int) -> float | None:
    V = _guidance(store, study, survey, number, k)
    return _cached_epsilon(encode_matrix(V), k, survey.sizes, survey.floor, survey.link)


def _disclosure(store: SurveyStore, study: str, survey: SurveyStudy, latest: LogEntry) -> dict[str, float]:
    V = _guidance(store, study, survey, latest.version, latest.k)
    return _cached_disclosure(encode_matrix(V), latest.k, survey.sizes, survey.floor, survey.link)


def _guidance(store: SurveyStore, study: str, survey: SurveyStudy, number: int, k: int) -> Matrix:
    version = store.version(study, number)
    assert version is not None
    return np.asarray(np.frombuffer(version.matrix, dtype="<f8").reshape(survey.width, k))


@lru_cache(maxsize=4 * MOST_POINTS)
def _cached_epsilon(matrix: str, k: int, sizes: tuple[int, ...], floor: float, link: Link) -> float | None:
    epsilon = survey_epsilon(decode_matrix(matrix, sum(sizes), k), AnswerSpace(sizes), floor, link).record
    return epsilon if math.isfinite(epsilon) else None


@lru_cache(maxsize=64)
def _cached_disclosure(matrix: str, k: int, sizes: tuple[int, ...], floor: float, link: Link) -> dict[str, float]:
    """Disclosure where every choice is as likely as another: the server does not know who answered what.

    `share` is of `of_bits`, the sum of the questions' log2 choices.
    """
    rng = np.random.default_rng(0)
    people = np.column_stack([rng.integers(0, size, 1000) for size in sizes])
    found = disclosure(people, AnswerSpace(sizes), decode_matrix(matrix, sum(sizes), k), floor, link, draws=1000)
    of_bits = sum(math.log2(size) for size in sizes)
    return {"share": found.bits / of_bits, "error": found.error / of_bits, "of_bits": of_bits}


# Received bits as releases: one part for every version of the guidance, each with its card.


def write_parts(store: SurveyStore, study: str, survey: SurveyStudy, folder: Path) -> list[Path]:
    """Write `folder`/part-00001/{release.parquet, card.json} for every version that has answers."""
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
