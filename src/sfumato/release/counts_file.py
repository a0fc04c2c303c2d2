"""counts.parquet: noisy counts under an agreed plan, with the card inside; what a site of such a study pushes."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sfumato.channels.recipe import Measurement
from sfumato.core.array_types import Codes
from sfumato.core.errors import CardError, TableError
from sfumato.guarantee import Card
from sfumato.mechanisms import find_mechanism, make_mechanism
from sfumato.mechanisms.central.scoring import AgreedPlan, NoisyFigures
from sfumato.release.signature import COUNTS

FARTHEST = {"gaussian": 8.0, "laplace": 30.0}
"""Standard deviations that noise hardly ever exceeds: fewer than one honest site in 1e10 is refused."""
LARGEST = 10**12
NOT_COUNTS = f"{COUNTS} is damaged, or something else than noisy counts. Sanitize again with the study's file."
UNLIKELY = (
    "The counts cannot be those of one table with the noise that the card states: a count is far below zero, or tables "
    f"disagree about the number of rows. Push the {COUNTS} that `sfumato sanitize` wrote."
)


def check_fields(file: pq.ParquetFile) -> None:
    """One column of whole numbers, and nothing else."""
    schema = file.schema_arrow
    if schema.names != ["count"] or schema.field("count").type != pa.int64():
        raise TableError(NOT_COUNTS)


def read_cells(path: Path) -> Codes:
    """The counts as they lie in the file."""
    try:
        with pq.ParquetFile(path) as file:
            check_fields(file)
            column = file.read(["count"], use_threads=False)["count"]
    except (pa.ArrowException, OSError):
        raise TableError(NOT_COUNTS) from None
    if column.null_count:
        raise TableError(NOT_COUNTS)
    return np.asarray(column.to_numpy(), dtype=np.int64)


def noisy_counts(cells: Codes, plan: AgreedPlan, card: Card) -> NoisyFigures:
    """Counts with the noise that their card states; refused where they do not fit plan or noise."""
    classes, measured = max(1, len(card.classes)), card.made_by().measured
    if len(cells) != plan.cells(classes):
        raise TableError(
            f"The file has {len(cells):,} counts, and the study's plan asks for {plan.cells(classes):,}: they were "
            "measured under another plan. Release with the study's file."
        )
    far = FARTHEST["laplace" if any(one.way == "laplace" for one in measured) else "gaussian"]
    found = plan.figures(classes, cells, measured)
    if np.abs(cells).max(initial=0) > LARGEST or not found.likely(far):
        raise TableError(UNLIKELY)
    return found


def expected_measurements(plan: AgreedPlan, card: Card) -> list[Measurement]:
    """What a card must state that was made under this plan with its own epsilon and delta."""
    stated = card.mechanism["parameters"]
    if find_mechanism(card.mechanism["name"]) is None:
        raise CardError("The card's method is unknown.")
    made = make_mechanism(card.mechanism["name"], {"epsilon": stated["epsilon"], "delta": stated["delta"]})
    return made.measured_under(plan)


def counts_identity(cells: Codes) -> str:
    """One hash of all counts: the same counts in another file are the same."""
    return hashlib.sha256(b"counts/" + cells.astype("<i8").tobytes()).hexdigest()
