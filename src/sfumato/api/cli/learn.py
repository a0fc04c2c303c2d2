"""train, predict, evaluate: from releases to classifiers to answers; reconstruct: the distribution behind noise."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sfumato.api.cli.blocks import keywords
from sfumato.api.cli.console import Console, Force, argument, option
from sfumato.api.cli.tables import Folders, Tables
from sfumato.core.asked import REQUIRED, asked, optional
from sfumato.core.errors import UsageError
from sfumato.core.files import check_free
from sfumato.core.wording import COMMONEST_WORDS, counted, right_of_100
from sfumato.learn.asked import (
    ClusterAsked,
    PredictAsked,
    ReconstructAsked,
    RegressAsked,
    RulesAsked,
    TradeOffAsked,
    TrainAsked,
)

if TYPE_CHECKING:
    from sfumato.learn.reconstruct import Reconstructed, Wish


@dataclass(frozen=True)
class Into:
    """Where the findings go."""

    out: Path = asked(REQUIRED, "Folder to write.", metavar="OUT")
    force: Force = False


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
    rows = counted(about["rows"], "released row")
    console.say(f"Found {counted(about['clusters'], 'cluster')} behind {rows}: {into.out}.")
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


def regress(
    folders: Folders,
    into: Into,
    options: RegressAsked,
    console: Console,
    target: str = asked(REQUIRED, "A released number, or the one that `sanitize --target` kept."),
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
    terms = found.coefficients.to_pylist()
    for term in terms:
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
    console.result({"out": str(into.out), **about, "notes": about["warnings"], "coefficients": terms})


Source = Annotated[str, argument("TABLE_OR_DIR", "Plain rows, or the folder of a release of them.")]
OfSurvey = Annotated[
    Path | None, option("For a survey's model: TABLE contains plain answers.", "--survey", metavar="SURVEY_FILE")
]


def _rows(source: str, survey: Path | None, tables: Tables) -> Any:
    """The table as it is, or as answers in the words of a survey: numbers become the intervals that they fall into."""
    found = tables.open_or_folder(source)
    if survey is None or isinstance(found, Path):
        return found
    from sfumato.study.protocol.study_file import load_survey
    from sfumato.study.protocol.survey_guidance import answers_in_words

    return answers_in_words(load_survey(survey), found.read())


def train(
    folders: Folders,
    options: TrainAsked,
    console: Console,
    out: Path = asked(REQUIRED, "Model file to write, for example model.skops.", metavar="FILE"),
    force: Force = False,
) -> None:
    """Pool releases of one space and train a classifier that knows their noise.

    Examples:
      sfumato train release --out model.skops
      sfumato train site-a site-b site-c --classifier forest --out model.skops
      sfumato train release --classifier forest --reconstruction by-class --out model.skops
      sfumato train release --classifier knn --param k=cross-validation --param weights=1/d^2 --out model.skops
      sfumato train release --classifier svm --param kernel=sigmoid --param gamma=0.5 --param scaled=false --out m.skops
    """
    from sfumato.learn.train import train as run

    with console.listening():
        check_free(out, force=force)
        model = run(folders, **keywords(options))
        model.save(out)
    about = model.about
    console.say(
        f"Trained {model.chosen} on {counted(about['rows'], 'released row')} of {counted(len(folders), 'release')}: "
        f"{out}." + (" The model contains released rows." if about["contains_rows"] else "")
    )
    console.say(
        f"The figure to beat: always answering the commonest class is right for {about['commonest']:.1%} of them."
    )
    for name, value in about.get("chosen", {}).items():
        if about["parameters"].get(name) == "cross-validation":
            console.say(f"Cross-validation on the released rows chose {name} = {value:.4g}.")
    if about["classifier"] == "auto":
        first = f"auto chose {about['chosen']['classifier']}"
        losses = sorted(about["chosen"]["held_out_loss"].items(), key=lambda one: one[1])
        if told := ", ".join(f"{name} {loss:.4f}" for name, loss in losses):
            console.say(f"{first}: it predicts labels of held-out released rows best (loss: {told}).")
        else:
            console.say(f"{first}, which needs no choice: the rows have no noise of their own.")
    if about["answers_one_class"]:
        console.say(
            "The model gives the same class for every released row, so it is no better than that. "
            f"{about['classifier']} finds nothing under this noise; more rows, weaker noise or another classifier may "
            "help."
        )
    console.result({"model": str(out), "about": dict(about)})


def predict(
    model: Annotated[Path, argument("MODEL", "Model file that `sfumato train` wrote.")],
    source: Source,
    options: PredictAsked,
    tables: Tables,
    console: Console,
    survey: OfSurvey = None,
    out: Path = asked(REQUIRED, "Predictions to write: .csv or .parquet.", metavar="FILE"),
    force: Force = False,
) -> None:
    """Classify plain rows (embedded with the card or the key) or rows that are already blurred.

    Examples:
      sfumato predict model.skops new-patients.csv --out predictions.csv
      sfumato predict model.skops released-queries --out predictions.csv
      sfumato predict model.skops people.csv --survey survey.yaml --out predictions.csv
    """
    from sfumato.learn.model import load_model

    with console.listening():
        check_free(out, force=force)
        predicted = load_model(model).classify(_rows(source, survey, tables), **keywords(options))
        predicted.save(out)
    met = ""
    if predicted.accuracy is not None:
        on = f"the {counted(predicted.told, 'row')} that tell the answer"
        met = f" {right_of_100(predicted.accuracy, 'this model', on, predicted.commonest)}."
    console.say(f"Classified {counted(predicted.rows, 'row')}: {out}.{met}")
    if words := COMMONEST_WORDS.get(predicted.than_commonest or ""):
        console.say(words)
    console.result(
        {
            "predictions": str(out),
            "rows": predicted.rows,
            "accuracy": predicted.accuracy,
            "commonest": predicted.commonest,
            "than_commonest_class": predicted.than_commonest,
            "unknown_categories": dict(predicted.unknown),
        }
    )


def evaluate(
    model: Annotated[Path, argument("MODEL", "Model file, trained here or by a coordinator.")],
    source: Source,
    options: PredictAsked,
    tables: Tables,
    console: Console,
    survey: OfSurvey = None,
    out: Path | None = optional("JSON file to write, readable by you alone.", metavar="FILE"),
    force: Force = False,
) -> None:
    """Say how often MODEL errs on rows whose answer is known. Nothing is sent, and nothing is written without --out.

    Example: sfumato evaluate model.skops our-patients.csv
    """
    from sfumato.learn.model import evaluate as run

    with console.listening():
        check_free(out, force=force)
        found = run(model, _rows(source, survey, tables), **keywords(options))
        if out is not None:
            found.save(out)
    low, high = found.interval
    console.say(
        f"Error {found.error:.3f} (95% interval {low:.3f} to {high:.3f}) on {counted(found.rows, 'row')}; "
        f"always the commonest class: {found.commonest:.3f}."
    )
    if words := COMMONEST_WORDS[found.than_commonest]:
        console.say(words)
    names = [str(name) for name in found.classes]
    width = max(len(name) for name in names)
    console.say("Counts, true class by answer (they stay here):")
    console.say(f"  {'':{width}}  " + "  ".join(f"{name:>{max(8, len(name))}}" for name in names))
    for name, counts in zip(names, found.confusion.tolist(), strict=True):
        cells = (f"{count:>{max(8, len(other))},}" for other, count in zip(names, counts, strict=True))
        console.say(f"  {name:{width}}  " + "  ".join(cells))
    console.result({"model": str(model), "out": out and str(out), **found.to_dict()})


@dataclass(frozen=True)
class Wished:
    """Which distributions, and what else is to be said of them."""

    column: list[str] | None = optional("A column of the release; may be repeated.", metavar="COL")
    joint: list[str] | None = optional(
        "Two columns together (more with --independent); may be repeated.", metavar="A,B"
    )
    along: list[str] | None = optional('A weighted sum, such as "a - 2 * b"; may be repeated.', metavar="SUM")
    original: str | None = optional("Owner only: measure how far the density is from this table.", metavar="TABLE")
    trade_off: Annotated[
        bool, option("Owner only, with --original: what privacy costs, for noise of several strengths.")
    ] = False
    estimate_noise: Annotated[bool, option("Estimate how strong the noise was, as if the card did not say it.")] = False


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
      sfumato reconstruct release --column income --param width=2.5 --param points=400 --out density
      sfumato reconstruct site-a site-b --column age --method expectation-maximization --param rounds=50 --out density
    """
    from sfumato.core.files import new_folder
    from sfumato.learn.reconstruct import reconstruct_each, save_each, strength_of
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
        console.say_each(_told(one, summary, into.out))
    if wished.estimate_noise:
        states = "The card states" if len(releases) == 1 else "Each of the cards states"
        for summary, name in zip(summaries, wished.column or [], strict=False):
            strength = strength_of(releases, name)
            summary["noise_strength"] = asdict(strength)
            console.say(f"{name}: {strength.in_words()} {states} 1.")
    if costs is not None:
        console.say(f"What privacy costs: {into.out / 'trade-off.svg'}. It is made from private values: keep it.")
        if costs.left_out:
            console.say(costs.left_out)
        summaries[0]["trade_off"] = costs.summary()
    console.result(summaries[0] if len(summaries) == 1 else {"columns": summaries})


def _wishes(wished: Wished, releases: int) -> list[Wish]:
    """What is to be reconstructed: columns, pairs and sums, in this order."""
    from sfumato.learn.reconstruct import Wish

    columns = wished.column or []
    wishes = [Wish((name,)) for name in columns]
    for given in wished.joint or ():
        names = tuple(map(str.strip, given.split(",")))
        if len(names) < 2 or not all(names):
            raise UsageError(f"--joint takes columns with commas between them, such as income,age. Got {given!r}.")
        wishes.append(Wish(names))
    wishes += [Wish(along=one) for one in wished.along or ()]
    one_column = releases == len(wishes) == len(columns) == 1
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
    if "mean" in summary:
        figure = f"mean {summary['mean']:.5g}"
    elif "shares" in summary:
        figure = f"{len(summary['shares'])} categories"
    else:
        correlation = f"correlation {summary['correlation']:.2f}, " if "correlation" in summary else ""
        figure = f"{correlation}{summary['mutual_information']:.2f} bits in common"
    yield f"Reconstructed {name} from {rows} into {where}: {figure}."
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


mine = typer.Typer(no_args_is_help=True, help="What else is behind noise: clusters, rules, linear models.")
for find in (cluster, regress, rules):
    mine.command()(find)
