"""Whether pushed noisy counts are what their card says, and what the study's plan asks for."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq

from sfumato.central.plan import MOST_CELLS
from sfumato.errors import CardError
from sfumato.guarantee import Card
from sfumato.jobs.counts_file import check_fields, counts_identity, noisy_counts, read_cells
from sfumato.jobs.release import card_inside, carries_more
from sfumato.protocol.acceptance import objections, read_card
from sfumato.protocol.pool_study import PoolStudy
from sfumato.server.validation.check_job import Limits, Verdict


def check_counts(path: Path, study: PoolStudy, limits: Limits) -> Verdict:
    """Check a file of counts that anybody may have made; errors are for the caller to put into words."""
    assert study.plan is not None
    with pq.ParquetFile(
        path, pre_buffer=False, thrift_string_size_limit=4 * limits.card_bytes, thrift_container_size_limit=1_000_000
    ) as file:
        if file.metadata.num_rows > MOST_CELLS or file.metadata.num_row_groups > limits.row_groups:
            return Verdict.refused("The file has more counts than any plan asks for.")
        check_fields(file)
        if carries_more(file):
            return Verdict.refused("The file contains more than counts and card: another program has written to it.")
        card = embedded(file, limits)
    if wrongs := objections(study, card):
        return Verdict.refused(*(reason[:1000] for reason in wrongs[:50]))
    found = noisy_counts(read_cells(path), study.plan, card)
    return Verdict(rows=found.rows, card=card.to_dict(), identity=counts_identity(found.cells))


def embedded(file: pq.ParquetFile, limits: Limits) -> Card:
    """The card inside a file that anybody may have made."""
    text = card_inside(file)
    if text is None:
        raise CardError("The file contains no card. Push what `sfumato sanitize` wrote.")
    if len(text) > limits.card_bytes:
        raise CardError(f"The card inside the release has more than {limits.card_bytes} bytes.")
    return read_card(text)
