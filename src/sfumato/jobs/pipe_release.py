"""A finished release on standard output, for whoever waits behind a pipe."""

from __future__ import annotations

from pathlib import Path
from typing import IO

import pyarrow as pa

from sfumato.guarantee import Card
from sfumato.jobs.write_release import CARD_METADATA
from sfumato.table import open_table


def pipe_release(folder: Path, format: str, stream: IO[bytes]) -> None:
    """The released rows as an Arrow stream with their card in its metadata, block by block.

    Only what stands is piped: a run that fails has written no byte.
    """
    table = open_table(folder / f"release.{format}")
    card = Card.load(folder).to_json()
    schema = table.arrow_schema.with_metadata({CARD_METADATA: card})
    with pa.ipc.new_stream(stream, schema) as writer:
        for block in table.blocks():
            writer.write_batch(block.replace_schema_metadata(schema.metadata))
    stream.flush()
