"""cluster, rules, regress: what else is behind noise."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from sfumato.api.cli.blocks import keywords, with_blocks
from sfumato.api.cli.console import Console, Force
from sfumato.api.cli.tables import Folders, Tables
from sfumato.core.wording import counted
from sfumato.learn.asked import ClusterAsked, RegressAsked, RulesAsked


@dataclass(frozen=True)
class Into:
    """Where the findings go."""

    out: Annotated[Path, typer.Option(metavar="OUT", help="Folder to write.")]
    force: Force = False


@with_blocks
def cluster(folders: Folders, into: Into, options: ClusterAsked, tables: Tables, console: Console) -> None:
    """Find clusters of the plain rows behind releases, with the noise on their cards taken out.

    Writes OUT/clusters.csv (centres), OUT/rows.parquet (cluster of each released row) and OUT/clusters.json. Says how
    stable the clusters are, and warns where the release does not show them.

    Examples:
      sfumato mine cluster release --out clusters
      sfumato mine cluster site-a site-b --clusters 3 --out clusters
    """
    from sfumato.learn.cluster import cluster as run

    with console.listening():
        found = run(folders, **keywords(options, tables))
        found.save(into.out, force=into.force)
    about = found.about
    console.say(
        f"Found {counted(about['clusters'], 'cluster')} behind {counted(about['rows'], 'released row')}: {into.out}."
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
    console.result({"out": str(into.out), **about, "notes": about["warnings"]})
    for line in found.warnings:
        console.say(f"Warning: {line}")


@with_blocks
def rules(folders: Folders, into: Into, options: RulesAsked, console: Console) -> None:
    """Find association rules and frequencies of pairs behind randomized answers, unbiased and with intervals.

    Writes OUT/pairs.csv, OUT/rules.csv and OUT/rules.json. Categorical columns and the column to predict take part.

    Example: sfumato mine rules release --min-support .1 --out rules
    """
    from sfumato.learn.rules import rules as run

    with console.listening():
        found = run(folders, **keywords(options))
        found.save(into.out, force=into.force)
    about = found.about
    console.say(f"{counted(about['rules'], 'rule')} behind {counted(about['rows'], 'released row')}: {into.out}.")
    for rule in found.rules.slice(0, 10).to_pylist():
        console.say(
            f"  {rule['when']} -> {rule['then']}: confidence {rule['confidence']:.2f} "
            f"({rule['confidence_low']:.2f} to {rule['confidence_high']:.2f}), support {rule['support']:.2f}, "
            f"lift {rule['lift']:.2f}, chance {rule['chance']:.2g}"
        )
    for line in found.warnings:
        console.say(f"Warning: {line}")
    console.result({"out": str(into.out), **about, "notes": about["warnings"], "found": found.rules.to_pylist()})


@with_blocks
def regress(
    folders: Folders,
    target: Annotated[
        str, typer.Option(metavar="COL", help="A released number, or the one that `sanitize --target` kept.")
    ],
    into: Into,
    options: RegressAsked,
    console: Console,
) -> None:
    """Fit a linear model between plain columns, with the noise on the cards taken out of both sides.

    Writes OUT/coefficients.csv and OUT/regression.json.

    Example: sfumato mine regress release --target income --column age --out regression
    """
    from sfumato.learn.regress import regress as run

    with console.listening():
        found = run(folders, target, **keywords(options))
        found.save(into.out, force=into.force)
    about = found.about
    explained = "" if about["explained"] is None else f", variance explained {about['explained']:.2f}"
    console.say(f"{target} behind {counted(about['rows'], 'released row')}{explained}: {into.out}.")
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
        {"out": str(into.out), **about, "notes": about["warnings"], "coefficients": found.coefficients.to_pylist()}
    )
