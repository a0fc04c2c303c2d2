"""reconstruct: from a release to the distribution behind one of its columns."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sfumato.cli.console import Console, Force, Json, Quiet
from sfumato.errors import UsageError
from sfumato.wording import counted


def reconstruct(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR...", help="Folders that `sfumato sanitize` wrote.")],
    column: Annotated[str, typer.Option(metavar="COL", help="The column of the release.")],
    out: Annotated[Path, typer.Option(metavar="OUT", help="Folder to write.")],
    method: Annotated[str, typer.Option(help="parzen-program or expectation-maximization.")] = "parzen-program",
    penalty: Annotated[str | None, typer.Option(help="Of parzen-program: auto, or a number; 0 takes none.")] = None,
    bins: Annotated[int, typer.Option(help="Cells of the density.")] = 75,
    confidence: Annotated[float, typer.Option(help="Of the band.")] = 0.9,
    resamples: Annotated[int, typer.Option(help="Bootstrap samples for the band; 0: no band.")] = 50,
    original: Annotated[
        Path | None, typer.Option(metavar="TABLE", help="Owner only: tell how far the density is from this table.")
    ] = None,
    force: Force = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Reconstruct the distribution of one column from releases and their cards.

    Writes OUT/density.parquet, OUT/density.csv and OUT/density.svg. Several folders (parts with
    different noise) give one joint estimate. Nobody's value is recovered: only how values are spread.

    Examples:
      sfumato reconstruct release --column income --out density
      sfumato reconstruct site-a site-b --column age --method expectation-maximization --out density
    """
    from sfumato.jobs.reconstruct import reconstruct_column

    console = Console(quiet, as_json)
    with console.listening():
        done = reconstruct_column(
            folders,
            column,
            out,
            method=method,
            penalty=_penalty(penalty),
            original=original,
            force=force,
            bins=bins,
            confidence=confidence,
            resamples=resamples,
        )
    summary = done.summary()
    figure = f"mean {summary['mean']:.5g}" if "mean" in summary else f"{len(summary['shares'])} categories"
    console.say(f"Reconstructed {column} from {counted(summary['rows'], 'released row')} into {out}: {figure}.")
    if done.information_loss is not None:
        console.say(
            f"Information loss against the original: {done.information_loss:.4f} (0 is perfect, 1 is disjoint)."
        )
    console.result(summary)


def _penalty(given: str | None) -> float | str | None:
    if given is None or given == "auto":
        return given
    try:
        return float(given)
    except ValueError as error:
        raise UsageError(f"--penalty must be auto or a number. Got {given!r} instead.") from error
