"""reconstruct: from a release to the distributions behind its columns."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.api.cli.blocks import with_blocks
from sfumato.api.cli.console import AsPublished, Console, Force
from sfumato.api.cli.tables import Tables
from sfumato.core.errors import UsageError
from sfumato.core.wording import counted


@with_blocks
def reconstruct(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR", help="Folders that `sfumato sanitize` wrote.")],
    out: Annotated[Path, typer.Option(metavar="OUT", help="Folder to write.")],
    tables: Tables,
    console: Console,
    column: Annotated[
        list[str] | None, typer.Option(metavar="COL", help="A column of the release; may be repeated.")
    ] = None,
    joint: Annotated[
        list[str] | None, typer.Option(metavar="A,B", help="Two columns together; may be repeated.")
    ] = None,
    independent: Annotated[bool, typer.Option(help="Of --joint: the product of both, as published.")] = False,
    along: Annotated[
        list[str] | None, typer.Option(metavar="SUM", help='A weighted sum, such as "a - 2 * b"; may be repeated.')
    ] = None,
    method: Annotated[str, typer.Option(help="parzen-program or expectation-maximization.")] = "parzen-program",
    penalty: Annotated[str | None, typer.Option(help="For parzen-program: auto or a number; 0 for no penalty.")] = None,
    rounds: Annotated[
        int | None, typer.Option(help="For expectation-maximization: how often, in place of our stopping rule.")
    ] = None,
    bins: Annotated[
        int | None, typer.Option(help="Cells of the density; 75 if not given, and 25 of each column of --joint.")
    ] = None,
    confidence: Annotated[float, typer.Option(help="Of the band.")] = 0.9,
    resamples: Annotated[int, typer.Option(help="Number of draws for the band; 0 for no band.")] = 400,
    atoms: Annotated[bool, typer.Option(help="Look for values that many people share before smoothing.")] = True,
    original: Annotated[
        str | None, typer.Option(metavar="TABLE", help="Owner only: measure how far the density is from this table.")
    ] = None,
    as_published: AsPublished = False,
    trade_off: Annotated[
        bool, typer.Option(help="Owner only, with --original: what privacy costs, for noise of several strengths.")
    ] = False,
    estimate_noise: Annotated[
        bool, typer.Option(help="Estimate how strong the noise was, as if the card did not say it.")
    ] = False,
    force: Force = False,
) -> None:
    """Reconstruct the distribution of columns from releases and their cards.

    Writes OUT/density.parquet, OUT/density.csv and OUT/density.svg; with several columns, each gets a folder OUT/COL.
    Several folders (parts with different noise) give one joint estimate. No person's value is recovered, only the
    distribution. In --along, put a name that is no single word between `backticks`.

    Examples:
      sfumato reconstruct release --column income --out density
      sfumato reconstruct release --column income --column age --out densities
      sfumato reconstruct release --joint income,age --along "income - 2 * rent" --out together
      sfumato reconstruct release --column income --original table.csv --trade-off --out density
      sfumato reconstruct site-a site-b --column age --method expectation-maximization --out density
    """
    from sfumato.learn.reconstruct import reconstruct_columns
    from sfumato.learn.trade_off import ITERATION, trade_off_of
    from sfumato.release.release import Release

    if trade_off and (original is None or len(folders) != 1 or len(column or ()) != 1 or joint or along):
        raise UsageError(
            "--trade-off takes one release, one --column of numbers, and the owner's table with --original."
        )
    releases, table = [Release.public(folder) for folder in folders], tables.open_if_given(original)
    with console.listening() as progress:
        done = reconstruct_columns(
            folders,
            column or [],
            out,
            joint=[_pair(one) for one in joint or ()],
            independent=independent,
            published=as_published,
            along=along or [],
            method=method,
            penalty=_penalty(penalty),
            rounds=None if trade_off and method != ITERATION else rounds,
            original=table,
            force=force,
            progress=progress,
            **({} if bins is None else {"bins": bins, "joint_bins": bins}),
            confidence=confidence,
            resamples=resamples,
            atoms=atoms,
        )
        costs = None
        if trade_off:
            costs = trade_off_of(
                releases[0], (column or [""])[0], table, published=as_published, rounds=rounds, progress=progress
            )
            costs.save(out)
    summaries = [one.summary() for one in done]
    for one, summary in zip(done, summaries, strict=True):
        where = (out / one.files[0]).parent
        rows, name = counted(summary["rows"], "released row"), summary.get("column") or " and ".join(summary["columns"])
        console.say(f"Reconstructed {name} from {rows} into {where}: {_figure(summary)}.")
        if "residual" in summary:
            console.say(f"The programme is solved: its conditions (Eq. 18) hold to within {summary['residual']:.1g}.")
        for atom in summary.get("atoms", ()):
            console.say(
                f"Point mass at {atom['value']:.5g}: {atom['share']:.0%} of the people "
                f"(probability {atom['probability']:.2f})."
            )
        if words := getattr(one.found, "band_in_words", ""):
            console.say(words)
        if one.information_loss is not None:
            console.say(
                f"Information loss against the original: {one.information_loss:.4f} (0 is perfect, 1 is disjoint)."
            )
    if estimate_noise:
        from sfumato.learn.reconstruct import strength_of

        for summary, name in zip(summaries, column or (), strict=False):
            strength = strength_of(releases, name)
            states = "The card states" if len(releases) == 1 else "Each of the cards states"
            console.say(f"{name}: {strength.in_words()} {states} 1.")
            summary["noise_strength"] = asdict(strength)
    if costs is not None:
        console.say(f"What privacy costs: {out / 'trade-off.svg'}. It is made from private values: keep it.")
        if costs.left_out:
            console.say(costs.left_out)
        summaries[0]["trade_off"] = costs.summary()
    console.result(summaries[0] if len(summaries) == 1 else {"columns": summaries})


def _figure(summary: dict[str, Any]) -> str:
    if "mean" in summary:
        return f"mean {summary['mean']:.5g}"
    if "shares" in summary:
        return f"{len(summary['shares'])} categories"
    correlation = f"correlation {summary['correlation']:.2f}, " if "correlation" in summary else ""
    return f"{correlation}{summary['mutual_information']:.2f} bits in common"


def _pair(given: str) -> tuple[str, str]:
    found = [name.strip() for name in given.split(",")]
    if len(found) != 2 or not all(found):
        raise UsageError(f"--joint takes two columns with a comma between them, such as income,age. Got {given!r}.")
    return found[0], found[1]


def _penalty(given: str | None) -> float | str | None:
    if given is None or given == "auto":
        return given
    try:
        return float(given)
    except ValueError as error:
        raise UsageError(f"--penalty must be auto or a number. Got {given!r} instead.") from error
