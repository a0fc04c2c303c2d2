"""cluster: clusters behind noise."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sfumato.cli.blocks import with_blocks
from sfumato.cli.console import Console, Force
from sfumato.cli.tables import Tables
from sfumato.errors import UsageError
from sfumato.wording import counted

Folders = Annotated[list[Path], typer.Argument(metavar="DIR...", help="Folders that `sfumato sanitize` wrote.")]
Out = Annotated[Path, typer.Option(metavar="OUT", help="Folder to write.")]


@with_blocks
def cluster(
    folders: Folders,
    out: Out,
    tables: Tables,
    console: Console,
    clusters: Annotated[str, typer.Option(metavar="K", help="How many; auto: as many as the release shows.")] = "auto",
    model: Annotated[str, typer.Option(help="spherical (k-means' own), diagonal, or auto.")] = "auto",
    resamples: Annotated[int, typer.Option(help="Bootstrap samples for the stability.")] = 10,
    seed: Annotated[int, typer.Option(help="Of starts, folds and resamples.")] = 0,
    original: Annotated[
        str | None, typer.Option(metavar="TABLE", help="Owner only: tell what was lost against this table.")
    ] = None,
    force: Force = False,
) -> None:
    """Find clusters of the plain rows behind releases, with the noise on their cards taken out.

    Writes OUT/clusters.csv (centres), OUT/rows.parquet (cluster of each released row) and OUT/clusters.json. Says how
    stable the clusters are, and warns where the release does not show them.

    Examples:
      sfumato cluster release --out clusters
      sfumato cluster site-a site-b --clusters 3 --out clusters
    """
    from sfumato.jobs.cluster import cluster_releases
    from sfumato.jobs.release import Release

    number = _whole(clusters)
    opened = [Release.public(one) if original is None else Release.open(one) for one in folders]
    with console.listening():
        found = cluster_releases(
            opened,
            clusters=number,
            model=model,
            resamples=resamples,
            seed=seed,
            original=tables.open_if_given(original),
        )
        found.save(out, force=force)
    about = found.about
    console.say(
        f"Found {counted(about['clusters'], 'cluster')} behind {counted(about['rows'], 'released row')}: {out}."
    )
    console.say("Shares: " + ", ".join(f"{share:.0%}" for share in about["shares"]) + ".")
    if about["stability"]:
        mean = sum(about["stability"]) / len(about["stability"])
        console.say(f"Stability over {len(about['stability'])} resamples: adjusted Rand index {mean:.2f} on average.")
    for kind, words in (("released_rows", "Released rows"), ("plain_rows", "Plain rows")):
        if kind in about.get("lost", {}):
            naive = about["lost"].get(f"{kind}_by_k_means")
            beside = "" if naive is None else f"; k-means that ignores the noise: {naive:.2f}"
            console.say(f"{words} against the clusters of the original: {about['lost'][kind]:.2f}{beside}.")
    console.result({"out": str(out), **about, "notes": about["warnings"]})
    for line in found.warnings:
        console.say(f"Warning: {line}")


def _whole(given: str) -> int | str:
    if given == "auto":
        return given
    try:
        return int(given)
    except ValueError:
        raise UsageError(f"--clusters must be auto or a whole number. Got {given!r} instead.") from None
