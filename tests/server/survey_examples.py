"""A small survey and answers to it, for tests."""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from typing import Any

import numpy as np

from sfumato.study.protocol.survey_file import SurveyStudy
from sfumato.study.server.store.survey_store import Answer, pack, spelled

SURVEY: dict[str, Any] = {
    "kind": "survey",
    "name": "Habits",
    "by": "Example University",
    "languages": ["en", "de"],
    "questions": [
        {"name": f"q{n}", "kind": "yesno", "text": {"en": f"Question {n}?", "de": f"Frage {n}?"}} for n in range(5)
    ],
    "label": {"name": "ill", "text": "Were you ill?", "classes": ["no", "yes"]},
    "batch": 20,
}


def example_survey(**changes: Any) -> SurveyStudy:
    return SurveyStudy.from_dict({**SURVEY, **changes})


def some_bits(rng: np.random.Generator, width: int = 10) -> list[int]:
    return [int(j) for j in np.flatnonzero(rng.random(width) < 0.4)]


def some_answer(rng: np.random.Generator, version: int = 1) -> Answer:
    return Answer(secrets.token_bytes(16), version, int(rng.integers(2)), pack(some_bits(rng), 10))


def message(bits: Sequence[int], *, label: int = 0, version: int = 1, **more: Any) -> bytes:
    sent = {"id": spelled(secrets.token_bytes(16)), "version": version, "label": label, "bits": list(bits), **more}
    return json.dumps(sent).encode()
