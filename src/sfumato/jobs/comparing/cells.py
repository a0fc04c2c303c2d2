"""One cell of a comparison: a mechanism at a strength on one split. What it finds is kept as soon as it is found."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from sfumato.errors import SfumatoError
from sfumato.files import write_whole
from sfumato.jobs.advising.candidates import LONGEST_REASON, Candidate
from sfumato.jobs.advising.ground import Ground
from sfumato.jobs.advising.trial import trial
from sfumato.jobs.comparing.audited import audited_by_canaries, audited_epsilon
from sfumato.mechanisms import MECHANISMS, ModelDrawing


@dataclass(frozen=True)
class Cell:
    """A candidate at an openness (0 protects most, 1 tells most) on the split of this number."""

    candidate: Candidate
    openness: float
    split: int

    @property
    def name(self) -> str:
        """Of the file that holds what was found."""
        parameters = self.candidate.parameters(self.openness)
        text = json.dumps([self.candidate.mechanism, parameters, self.split], sort_keys=True, default=str)
        return f"{self.candidate.mechanism}-{hashlib.sha256(text.encode()).hexdigest()[:16]}.json"


def run_cell(
    cell: Cell,
    grounds: Sequence[Ground],
    attacks: tuple[str, ...] | None,
    learners: tuple[str, ...] | None,
    folder: Path,
) -> dict[str, Any]:
    """Try it and keep the result. Whatever happens to one cell, the others go on."""
    begun = time.monotonic()
    parameters, name = cell.candidate.parameters(cell.openness), cell.candidate.mechanism
    found: dict[str, Any] = {
        "mechanism": name,
        "parameters": parameters,
        "openness": cell.openness,
        "split": cell.split,
        "refused": None,
    }
    try:
        ground = grounds[cell.split]
        seen = trial(
            ground,
            name,
            parameters,
            seed=cell.split,
            learners=learners,
            attacks=attacks,
            attacked=500,
            needs_learner=False,
        )
        exposed = {attack: _numbers(ground, places) for attack, places in seen.exposed.items()}
        found["outcome"] = asdict(replace(seen, exposed=exposed))
        if cell.split == 0:
            found |= _audited(name, parameters, ground)
    except SfumatoError as error:
        found["refused"] = str(error)[:LONGEST_REASON]
    except Exception as error:  # its text might quote a cell of the table
        found["refused"] = f"it failed on these rows ({type(error).__name__})"
    found["seconds"] = round(time.monotonic() - begun, 2)
    write_whole(folder / cell.name, json.dumps(found), private=True)
    return found


def _numbers(ground: Ground, places: Sequence[int]) -> list[int]:
    """Row numbers in the private table, from 1."""
    return [int(place if ground.numbers is None else ground.numbers[place]) + 1 for place in places]


def _audited(name: str, parameters: dict[str, Any], ground: Ground) -> dict[str, Any]:
    try:
        if issubclass(MECHANISMS[name], ModelDrawing):
            return audited_by_canaries(name, parameters, ground.schema, ground.train, seed=7)
        return {"audited_epsilon": audited_epsilon(name, parameters, ground.schema, ground.train, seed=7)}
    except SfumatoError as error:
        return {"audited_epsilon": None, "not_audited": str(error)[:LONGEST_REASON]}
    except Exception as error:
        return {"audited_epsilon": None, "not_audited": f"it failed ({type(error).__name__})"}
