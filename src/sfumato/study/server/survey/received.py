"""What a survey has received, for its owner: how it goes, and the bits as releases with their cards."""

from __future__ import annotations

import math
from collections import Counter
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
from sfumato.mechanisms.guided_projection import FROM_A_SURVEY, GuidedProjection
from sfumato.release.write_release import CARD_METADATA, Layout, make_card
from sfumato.study.protocol.agreed import LogEntry
from sfumato.study.protocol.survey_file import SurveyStudy
from sfumato.study.protocol.survey_guidance import survey_encoding
from sfumato.study.server.store.sql_tables import CLOSED, OPEN
from sfumato.study.server.store.survey_store import SurveyStore, unpack
from sfumato.table import write_table
from sfumato.table.statistics import Statistics

MOST_ROWS = 5_000
MOST_POINTS = 200  # versions whose epsilon is computed: of more, evenly spread ones


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
                "epsilon": _cached_epsilon(*_guidance(store, study, survey, entry)) if place in spread else None,
            }
            for place, (entry, _) in enumerate(log)
        ],
        "disclosure_at_even_choices": _cached_disclosure(*_guidance(store, study, survey, log[-1][0])) if log else None,
        "most_bits": most_bits(AnswerSpace(survey.sizes), log[-1][0].k, survey.floor, survey.link) if log else None,
        "codes": {"given": codes, "used": used} if survey.invitations else None,
        "floor": survey.floor,
        "accuracy": _accuracy(store, study, survey, len(log)),
    }


def _accuracy(store: SurveyStore, study: str, survey: SurveyStudy, latest: int) -> dict[str, Any] | None:
    """How often naive Bayes, trained on other received rows, meets the class of a received row; newest rows first."""
    from sfumato.learn.classifiers.survey_bits import accuracy_on_received  # brings scikit-learn with it

    received: list[tuple[int, bytes]] = []
    for version in range(latest, 0, -1):
        received += store.answers(study, version)
        if len(received) >= MOST_ROWS:
            break
    if not received:
        return None
    labels, bits = zip(*received[:MOST_ROWS], strict=True)
    share = accuracy_on_received(unpack(bits, survey.width), np.array(labels))
    commonest = max(Counter(labels).values()) / len(labels)
    return None if share is None else {"share": share, "commonest": commonest, "rows": len(labels)}


def _guidance(
    store: SurveyStore, study: str, survey: SurveyStudy, entry: LogEntry
) -> tuple[str, int, Any, float, Link]:
    """One version as its measures are remembered by."""
    version = store.version(study, entry.version)
    assert version is not None
    return encode_matrix(version.directions), entry.k, survey.sizes, survey.floor, survey.link


@lru_cache(maxsize=4 * MOST_POINTS)
def _cached_epsilon(matrix: str, k: int, sizes: tuple[int, ...], floor: float, link: Link) -> float | None:
    epsilon = survey_epsilon(decode_matrix(matrix, sum(sizes), k), AnswerSpace(sizes), floor, link).record
    return epsilon if math.isfinite(epsilon) else None


@lru_cache(maxsize=64)
def _cached_disclosure(matrix: str, k: int, sizes: tuple[int, ...], floor: float, link: Link) -> dict[str, float]:
    """Disclosure where every choice is as likely as another: the server does not know who answered what. `share` is of
    `of_bits`, the sum of the questions' log2 choices."""
    rng = np.random.default_rng(0)
    people = np.column_stack([rng.integers(0, size, 1000) for size in sizes])
    found = disclosure(people, AnswerSpace(sizes), decode_matrix(matrix, sum(sizes), k), floor, link, draws=1000)
    of_bits = sum(math.log2(size) for size in sizes)
    return {"share": found.bits / of_bits, "error": found.error / of_bits, "of_bits": of_bits}


def write_parts(store: SurveyStore, study: str, survey: SurveyStudy, folder: Path) -> list[Path]:
    """Received bits as releases, in `folder`/part-00001/{release.parquet, card.json}: a part by version."""
    parts, encoding, floor, link = [], survey_encoding(survey), survey.floor, survey.link
    for number in range(1, store.latest(study) + 1):
        received = list(store.answers(study, number))
        version = store.version(study, number) if received else None
        if version is None:
            continue
        bits = unpack([bits for _, bits in received], survey.width)
        matrix = encode_matrix(version.directions)
        mechanism = GuidedProjection(guidance=matrix, floor=floor, link=link, guidance_reason=FROM_A_SURVEY)
        mechanism.fit_statistics(Statistics.empty(encoding.width), encoding)
        layout = Layout(mechanism, encoding, like_original=False)
        card = make_card(layout, mechanism.guarantee().beside_exact_label(), rows=len(bits))
        part = folder / f"part-{number:05d}"
        part.mkdir()
        table = layout.table(bits.astype(np.float64), np.array([label for label, _ in received], dtype=np.int64))
        write_table(table, part / "release.parquet", metadata={CARD_METADATA.decode(): card.to_json()})
        card.save(part / "card.json")
        parts.append(part)
    return parts
