"""Draw rows again from the model of an earlier release: the table is not needed, and nothing is spent."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from sfumato.core.errors import CardError, UsageError
from sfumato.core.files import new_folder
from sfumato.core.progress import Progress, silent
from sfumato.guarantee import Card
from sfumato.ledger import Ledger
from sfumato.mechanisms import MECHANISMS, ModelDrawing
from sfumato.noise import Streams
from sfumato.release.engines import draw_blocks
from sfumato.release.release import Release
from sfumato.release.write_release import MODEL, InFolder, Laid, Layout, check_replaceable, today


def redraw(
    release: Release,
    *,
    rows: int | None = None,
    out: Path | None = None,
    format: str = "parquet",
    seed: int | None = None,
    ledger: Path | None = None,
    force: bool = False,
    progress: Progress = silent,
) -> Release:
    """New rows under the claim of the release whose model they come from; its ledger notes a redraw, which is free."""
    made = draw_from(release, rows=rows, out=out, format=format, seed=seed, force=force, progress=progress)
    if (digest := release.card.made_by().model) is not None:
        Ledger(ledger).redrawn(digest)
    return made


def draw_from(
    release: Release,
    *,
    rows: int | None = None,
    out: Path | None = None,
    format: str = "parquet",
    seed: int | None = None,
    force: bool = False,
    progress: Progress = silent,
) -> Release:
    """The same for somebody who has no ledger."""
    mechanism = fitted_of(release, rows)
    card = card_of_redraw(release.card, mechanism)
    layout = Layout(mechanism, mechanism.encoding_)
    streams = Streams() if seed is None else Streams.seeded(seed)  # what was measured is noisy: no draw is a secret

    def laid() -> Iterator[Laid]:
        for block in draw_blocks(mechanism, streams, 0, progress):
            yield layout.table(block.X, block.y), None

    model = mechanism.model()
    if out is None:
        return Release(card, rows=pa.concat_tables([table for table, _ in laid()]), model=model, kind=release.kind)
    check_replaceable(out, force)
    with new_folder(out, force=force) as folder:
        landing = InFolder(folder, out, format, "stream")
        landing.take(card, laid())
        landing.take_model(model)
    return Release(card, folder=out, kind=release.kind)


def fitted_of(release: Release, rows: int | None) -> ModelDrawing:
    """The mechanism as its fit left it, from the release's card and model."""
    card = release.card
    made_by = MECHANISMS.get(card.mechanism["name"])
    if made_by is None or not issubclass(made_by, ModelDrawing):
        raise UsageError(
            f"Rows can only be drawn again from a model of the table, and the release {release.where} was made by "
            f"{card.mechanism['name']}. Make one with --mechanism tree-resampling."
        )
    if release.model is None:
        raise CardError(f"There is no {MODEL} beside the release {release.where}, so nothing can be drawn again.")
    parameters: dict[str, Any] = {**card.mechanism["parameters"], "rows": rows}
    mechanism = made_by(**{name: value for name, value in parameters.items() if name in _names(made_by)})
    mechanism.check_parameters()
    return mechanism.restore_model(release.model, card.made_by(), card.release_schema["label"] is not None)


def card_of_redraw(card: Card, mechanism: ModelDrawing) -> Card:
    """The card of the model's first release, with what is different here."""
    return replace(
        card,
        rows=mechanism.released(0),
        mechanism={**card.mechanism, "parameters": mechanism.parameters_used()},
        earlier_releases={**card.earlier_releases, "redrawn": True},
        created=today(),
    ).in_own_words()


def _names(mechanism: type[ModelDrawing]) -> set[str]:
    return set(mechanism().get_params(deep=False))
