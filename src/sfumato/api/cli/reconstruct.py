"""reconstruct: from a release to the distributions behind its columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sfumato.api.cli.blocks import keywords, with_blocks
from sfumato.api.cli.console import Console
from sfumato.api.cli.mine import Into
from sfumato.api.cli.tables import Folders, Tables
from sfumato.core.errors import UsageError
from sfumato.core.wording import counted
from sfumato.learn.asked import ReconstructAsked, TradeOffAsked

if TYPE_CHECKING:
    from sfumato.learn.reconstruct import Reconstructed, Wish
    from sfumato.release.release import Release


@dataclass(frozen=True)
class Wished:
    """Which distributions, and what else is to be said of them."""

    column: Annotated[
        list[str] | None, typer.Option(metavar="COL", help="A column of the release; may be repeated.")
    ] = None
    joint: Annotated[list[str] | None, typer.Option(metavar="A,B", help="Two columns together; may be repeated.")] = (
        None
    )
    along: Annotated[
        list[str] | None, typer.Option(metavar="SUM", help='A weighted sum, such as "a - 2 * b"; may be repeated.')
    ] = None
    original: Annotated[
        str | None, typer.Option(metavar="TABLE", help="Owner only: measure how far the density is from this table.")
    ] = None
    trade_off: Annotated[
        bool, typer.Option(help="Owner only, with --original: what privacy costs, for noise of several strengths.")
    ] = False
    estimate_noise: Annotated[
        bool, typer.Option(help="Estimate how strong the noise was, as if the card did not say it.")
    ] = False


@with_blocks
def reconstruct(
    folders: Folders, into: Into, wished: Wished, options: ReconstructAsked, tables: Tables, console: Console
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
    from sfumato.core.files import new_folder
    from sfumato.learn.reconstruct import reconstruct_each, save_each
    from sfumato.learn.trade_off import ITERATION, trade_off_of
    from sfumato.release.release import opened

    wishes = _wishes(wished, len(folders))
    given = ReconstructAsked(**keywords(options))
    how = replace(given, rounds=None) if wished.trade_off and given.method != ITERATION else given
    releases, table = opened(folders, public=True), tables.open_if_given(wished.original)
    costs = None
    with console.listening() as progress, new_folder(into.out, force=into.force) as folder:
        done = reconstruct_each(releases, wishes, how, table, progress)
        files = save_each([(one.wish.name, one.found) for one in done], folder)
        if wished.trade_off:
            asked = TradeOffAsked(published=given.published, rounds=given.rounds)
            costs = trade_off_of(releases[0], wishes[0].name, table, asked, progress)
            costs.save(folder)
    summaries = [{**one.found.summary(), "files": paths} for one, paths in zip(done, files, strict=True)]
    for one, summary in zip(done, summaries, strict=True):
        for line in _told(one, summary, into.out):
            console.say(line)
    if wished.estimate_noise:
        for line in _strengths(releases, wished.column or [], summaries):
            console.say(line)
    if costs is not None:
        console.say(f"What privacy costs: {into.out / 'trade-off.svg'}. It is made from private values: keep it.")
        if costs.left_out:
            console.say(costs.left_out)
        summaries[0]["trade_off"] = costs.summary()
    console.result(summaries[0] if len(summaries) == 1 else {"columns": summaries})


def _wishes(wished: Wished, releases: int) -> list[Wish]:
    """What is to be reconstructed: columns, pairs and sums, in this order."""
    from sfumato.learn.reconstruct import Wish

    wishes = [Wish((name,)) for name in wished.column or ()] + [Wish(_pair(one)) for one in wished.joint or ()]
    wishes += [Wish(along=one) for one in wished.along or ()]
    one_column = releases == len(wishes) == len(wished.column or ()) == 1
    if wished.trade_off and (wished.original is None or not one_column):
        raise UsageError(
            "--trade-off takes one release, one --column of numbers, and the owner's table with --original."
        )
    if not wishes or len({wish.name for wish in wishes}) < len(wishes):
        raise UsageError(
            "Name at least one column (or two with --joint, or a sum with --along), and each of them once."
        )
    return wishes


def _told(one: Reconstructed, summary: dict[str, Any], out: Path) -> Iterator[str]:
    """A distribution in sentences; how far it is from the original is added to its summary."""
    where = (out / summary["files"][0]).parent
    rows, name = counted(summary["rows"], "released row"), summary.get("column") or " and ".join(summary["columns"])
    yield f"Reconstructed {name} from {rows} into {where}: {_figure(summary)}."
    if "residual" in summary:
        yield f"The programme is solved: its conditions (Eq. 18) hold to within {summary['residual']:.1g}."
    for atom in summary.get("atoms", ()):
        share, probability = f"{atom['share']:.0%}", f"{atom['probability']:.2f}"
        yield f"Point mass at {atom['value']:.5g}: {share} of the people (probability {probability})."
    if words := getattr(one.found, "band_in_words", ""):
        yield words
    if one.information_loss is not None:
        summary["information_loss"] = one.information_loss
        yield f"Information loss against the original: {one.information_loss:.4f} (0 is perfect, 1 is disjoint)."


def _strengths(releases: list[Release], columns: list[str], summaries: list[dict[str, Any]]) -> Iterator[str]:
    """How strong the noise of each column was; added to its summary."""
    from sfumato.learn.reconstruct import strength_of

    states = "The card states" if len(releases) == 1 else "Each of the cards states"
    for summary, name in zip(summaries, columns, strict=False):
        strength = strength_of(releases, name)
        summary["noise_strength"] = asdict(strength)
        yield f"{name}: {strength.in_words()} {states} 1."


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
