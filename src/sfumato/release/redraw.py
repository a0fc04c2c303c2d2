"""Draw rows again from the model of an earlier release: the table is not needed, and nothing is spent."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from sfumato.core.asked import check_asked
from sfumato.core.errors import CardError, UsageError
from sfumato.core.files import new_folder
from sfumato.ledger import Ledger
from sfumato.mechanisms import Mechanism, find_mechanism
from sfumato.noise import Streams
from sfumato.release.asked import RedrawAsked
from sfumato.release.engines.release import drawn
from sfumato.release.release import Release
from sfumato.release.write_release import MODEL, InFolder, InMemory, Layout, check_replaceable, today


def redraw(release: Release, asked: RedrawAsked) -> Release:
    """New rows under the claim of the release whose model they come from; its ledger notes a redraw, which is free."""
    made = draw_from(release, asked)
    Ledger(asked.ledger).redrawn(release.card.made_by().model)
    return made


def draw_from(release: Release, asked: RedrawAsked) -> Release:
    """The same for a reader who has no ledger."""
    check_asked(asked)
    mechanism = fitted_of(release, asked.rows)
    card = replace(
        release.card,
        rows=mechanism.released(0),
        mechanism={**release.card.mechanism, "parameters": mechanism.parameters_used()},
        earlier_releases={**release.card.earlier_releases, "redrawn": True},
        created=today(),
    ).in_own_words()
    # What was measured is noisy: no draw is a secret.
    streams = Streams() if asked.seed is None else Streams.seeded(asked.seed)
    laid = drawn(Layout(mechanism, mechanism.encoding_), streams, 0, asked.progress)
    if asked.out is None:
        held = InMemory()
        held.take(card, laid, mechanism.model())
        return Release(card, held=held, kind=release.kind)
    out = Path(asked.out)
    check_replaceable(out, asked.force)
    with new_folder(out, force=asked.force) as folder:
        InFolder(folder, out, asked.format).take(card, laid, mechanism.model())
    return Release(card, folder=out, kind=release.kind)


def fitted_of(release: Release, rows: int | None) -> Mechanism:
    """The mechanism as its fit left it, from the release's card and model."""
    card = release.card
    made_by = find_mechanism(card.mechanism["name"])
    if made_by is None or not made_by.made_up:
        raise UsageError(
            f"Rows can only be drawn again from a model of the table, and the release {release.where} was made by "
            f"{card.mechanism['name']}. Make one with --mechanism tree-resampling."
        )
    if release.model is None:
        raise CardError(f"There is no {MODEL} beside the release {release.where}, so nothing can be drawn again.")
    parameters: dict[str, Any] = {**card.mechanism["parameters"], "rows": rows}
    mechanism = made_by(
        **{name: value for name, value in parameters.items() if name in made_by().get_params(deep=False)}
    )
    mechanism.check_parameters()
    return mechanism.restore_model(release.model, card.made_by(), card.release_schema["label"] is not None)
