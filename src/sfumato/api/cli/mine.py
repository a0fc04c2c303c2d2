"""cluster, rules, regress: what else is behind noise."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sfumato.api.cli.blocks import with_blocks
from sfumato.api.cli.console import Console, Force
from sfumato.api.cli.tables import Tables
from sfumato.core.errors import UsageError
from sfumato.core.wording import counted

Folders = Annotated[list[Path], typer.Argument(metavar="DIR", help="Folders that `sfumato sanitize` wrote.")]
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
    seed: Annotated[int, typer.Option(min=0, help="Of starts, folds and resamples.")] = 0,
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
    from sfumato.learn.cluster import cluster_releases
    from sfumato.release.release import Release

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


@with_blocks
def rules(
    folders: Folders,
    out: Out,
    console: Console,
    column: Annotated[list[str] | None, typer.Option(metavar="COL", help="Only this one; may be repeated.")] = None,
    min_support: Annotated[float, typer.Option(help="Least share of people, as estimated.")] = 0.05,
    min_confidence: Annotated[float, typer.Option(help="Least confidence of a rule, as estimated.")] = 0.5,
    longest: Annotated[int, typer.Option(help="Most answers in a rule.")] = 2,
    confidence: Annotated[float, typer.Option(help="Of each interval by itself.")] = 0.95,
    force: Force = False,
) -> None:
    """Find association rules and frequencies of pairs behind randomized answers, unbiased and with intervals.

    Writes OUT/pairs.csv, OUT/rules.csv and OUT/rules.json. Categorical columns and the column to predict take part.

    Example: sfumato rules release --min-support .1 --out rules
    """
    from sfumato.learn.rules import rules_of_releases
    from sfumato.release.release import Release

    with console.listening():
        found = rules_of_releases(
            [Release.public(one) for one in folders],
            columns=column or (),
            min_support=min_support,
            min_confidence=min_confidence,
            longest=longest,
            confidence=confidence,
        )
        found.save(out, force=force)
    about = found.about
    console.say(f"{counted(about['rules'], 'rule')} behind {counted(about['rows'], 'released row')}: {out}.")
    for rule in found.rules.slice(0, 10).to_pylist():
        console.say(
            f"  {rule['when']} -> {rule['then']}: confidence {rule['confidence']:.2f} "
            f"({rule['confidence_low']:.2f} to {rule['confidence_high']:.2f}), support {rule['support']:.2f}, "
            f"lift {rule['lift']:.2f}, chance {rule['chance']:.2g}"
        )
    for line in found.warnings:
        console.say(f"Warning: {line}")
    console.result({"out": str(out), **about, "notes": about["warnings"], "found": found.rules.to_pylist()})


@with_blocks
def regress(
    folders: Folders,
    target: Annotated[
        str, typer.Option(metavar="COL", help="A released number, or the one that `sanitize --target` kept.")
    ],
    out: Out,
    console: Console,
    column: Annotated[
        list[str] | None, typer.Option(metavar="COL", help="What explains it; may be repeated; default: all others.")
    ] = None,
    confidence: Annotated[float, typer.Option(help="Of each interval by itself.")] = 0.95,
    seed: Annotated[int, typer.Option(min=0, help="Of the groups of rows that intervals are made of.")] = 0,
    force: Force = False,
) -> None:
    """Fit a linear model between plain columns, with the noise on the cards taken out of both sides.

    Writes OUT/coefficients.csv and OUT/regression.json.

    Example: sfumato regress release --target income --column age --out regression
    """
    from sfumato.learn.regress import regress_releases
    from sfumato.release.release import Release

    opened = [Release.public(one) for one in folders]
    with console.listening():
        found = regress_releases(opened, target, columns=column or (), confidence=confidence, seed=seed)
        found.save(out, force=force)
    about = found.about
    explained = "" if about["explained"] is None else f", variance explained {about['explained']:.2f}"
    console.say(f"{target} behind {counted(about['rows'], 'released row')}{explained}: {out}.")
    for term in found.coefficients.to_pylist():
        between = "" if term["low"] is None else f" ({term['low']:.4g} to {term['high']:.4g})"
        console.say(f"  {term['term']}: {term['coefficient']:.4g}{between}; as released {term['as_released']:.4g}")
    if learned := about["as_released"]:
        told = ", ".join(f"{name} {error:.4g}" for name, error in learned["rmse"].items())
        console.say(
            f"Predicting released rows that are left out, root mean square error: {told}; "
            f"always the mean {learned['rmse_of_mean']:.4g}."
        )
    if same := about.get("as_on_plain_rows"):
        console.say(f"A rotation changes nothing for {', '.join(same)}: they answer as they would on plain rows.")
    for line in found.warnings:
        console.say(f"Warning: {line}")
    console.result(
        {"out": str(out), **about, "notes": about["warnings"], "coefficients": found.coefficients.to_pylist()}
    )


def _whole(given: str) -> int | str:
    if given == "auto":
        return given
    try:
        return int(given)
    except ValueError:
        raise UsageError(f"--clusters must be auto or a whole number. Got {given!r} instead.") from None
