"""The audit of a survey: simulated respondents answer to given guidance, and every adversary has his turn.

Nobody has the respondents' answers, so that people of a population stand for them. Posteriors are exact all the same:
they follow from the guidance, whoever answers.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.array_types import Codes
from sfumato.attacks.malicious_miner import KINDS, MaliciousMiner, Reading
from sfumato.errors import TableError
from sfumato.files import new_folder
from sfumato.guarantee import Ledger
from sfumato.guidance import AnswerSpace, Link, decode_matrix
from sfumato.jobs.audit import audit
from sfumato.jobs.auditing.request import Audit, AuditRequest
from sfumato.jobs.progress import Progress, silent
from sfumato.jobs.sanitize import Options, sanitize
from sfumato.jobs.survey_measures import SurveyMeasures, measure_survey
from sfumato.mechanisms.guided_projection import FROM_A_SURVEY
from sfumato.table import Encoding, Schema, write_table

MOST_PEOPLE = 4_000
LEAST_PEOPLE = 40
SIMULATED = (
    "The respondents are simulated: people from a population answered under the guidance. Posteriors follow exactly "
    "from the guidance, whoever answers."
)


@dataclass(frozen=True)
class MinerReading:
    """What a collector who makes up the guidance reads, of the question it reads best, with the floor or without."""

    kind: str
    floor: float
    question: str
    reading: Reading


@dataclass(frozen=True)
class SurveyAudit:
    """The audit of simulated answers, malicious collectors beside it, and the paper's two degrees."""

    audit: Audit
    miners: tuple[MinerReading, ...]
    measures: SurveyMeasures


def audit_survey(
    people: pa.Table,
    schema: Schema,
    guidance: str,
    out: Path,
    *,
    floor: float,
    link: Link,
    seed: int = 0,
    force: bool = False,
    progress: Progress = silent,
    report: Callable[..., None],
) -> SurveyAudit:
    """Half of `people` (plain answers in the schema's words) respond, the others are the control; writes `out`."""
    if people.num_rows < LEAST_PEOPLE:
        raise TableError(f"An audit needs at least {LEAST_PEOPLE} people to play the respondents.")
    order = np.random.default_rng(seed).permutation(people.num_rows)[:MOST_PEOPLE]
    half = len(order) // 2
    with new_folder(out, force=force) as folder:
        asked, others = folder / "respondents.parquet", folder / "others.parquet"
        write_table(people.take(order[:half]), asked, private=True)
        write_table(people.take(order[half:]), others, private=True)
        options = Options(
            mechanism="guided-projection",
            parameters={"guidance": guidance, "floor": floor, "link": link, "guidance_reason": FROM_A_SURVEY},
            schema=schema,
            ledger=folder / "ledger.json",
        )
        sanitize(asked, folder / "answers", options, progress)
        Ledger(folder / "ledger.json").discard()
        found = audit(
            AuditRequest(folder=folder / "answers", original=asked, holdout=others, seed=seed), progress=progress
        )
        encoding = Encoding(schema)
        space = AnswerSpace([group.width for group in encoding.groups])
        respondents = people.take(order[:half])
        codes = space.codes(np.rint(encoding.encode(respondents).X))
        y = np.asarray(encoding.encode_label(respondents))
        V = decode_matrix(guidance, space.width, _columns(guidance, space.width))
        measures = measure_survey(codes, y, space, V, floor=floor, link=link, seed=seed)
        found.data["notes"] += [SIMULATED, *measures.sentences()]
        report(found.data, folder / "answers" / "report.html")
        miners = _miners(codes, space, encoding, floor, link)
    return SurveyAudit(found, miners, measures)


def _columns(guidance: str, width: int) -> int:
    """Number of directions of guidance as it travels."""
    return len(base64.b64decode(guidance)) // (8 * width)


def _miners(codes: Codes, space: AnswerSpace, encoding: Encoding, floor: float, link: Link) -> tuple[MinerReading, ...]:
    floors = dict.fromkeys((floor, 0.0))
    return tuple(_worst(kind, tried, codes, space, encoding, link) for kind in KINDS for tried in floors)


def _worst(kind: str, floor: float, codes: Codes, space: AnswerSpace, encoding: Encoding, link: Link) -> MinerReading:
    """Of all questions the one of which most people are identified, then most are guessed beyond the usual answer."""
    found = []
    for place, group in enumerate(encoding.groups):
        if group.width >= 2 and (kind == "unit" or len(space.sizes) > 2):
            reading = MaliciousMiner(kind, question=place, steps=100).read(codes, space, floor, link)
            found.append(MinerReading(kind, floor, group.column.name, reading))
    return max(found, key=lambda one: (one.reading.identified, one.reading.right - one.reading.baseline))


def miner_dict(found: MinerReading) -> dict[str, Any]:
    """As `--json` prints it."""
    return {"kind": found.kind, "floor": found.floor, "question": found.question, **vars(found.reading)}
