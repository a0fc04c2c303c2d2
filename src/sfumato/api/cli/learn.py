"""train, predict, evaluate: from releases to classifiers to answers, and how often these are wrong."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.api.cli.blocks import keywords, with_blocks
from sfumato.api.cli.console import Console, Force
from sfumato.api.cli.tables import Folders, Tables
from sfumato.core.files import check_free
from sfumato.core.wording import commonest_words, counted, right_of_100
from sfumato.learn.asked import PredictAsked, TrainAsked


@dataclass(frozen=True)
class Rows:
    """The rows that a model is asked about."""

    source: Annotated[
        str, typer.Argument(metavar="TABLE_OR_DIR", help="Plain rows, or the folder of a release of them.")
    ]
    survey: Annotated[
        Path | None, typer.Option(metavar="SURVEY_FILE", help="For a survey's model: TABLE contains plain answers.")
    ] = None

    def open(self, tables: Tables) -> Any:
        """The table as it is, or as answers in the words of a survey: numbers become the intervals that they fall
        into."""
        found = tables.open_or_folder(self.source)
        if self.survey is None or isinstance(found, Path):
            return found
        from sfumato.study.protocol.study_file import load_survey
        from sfumato.study.protocol.survey_table import answers_in_words

        return answers_in_words(load_survey(self.survey), found.read())


@dataclass(frozen=True)
class Predictions:
    """Where answers go."""

    out: Annotated[Path, typer.Option(metavar="FILE", help="Predictions to write: .csv or .parquet.")]
    force: Force = False


@dataclass(frozen=True)
class Findings:
    """Where figures go."""

    out: Annotated[Path | None, typer.Option(metavar="FILE", help="JSON file to write, readable by you alone.")] = None
    force: Force = False


@with_blocks
def train(
    folders: Folders,
    out: Annotated[Path, typer.Option(metavar="FILE", help="Model file to write, for example model.skops.")],
    options: TrainAsked,
    console: Console,
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
        console.say(_choice_in_words(about["chosen"]))
    if about["answers_one_class"]:
        console.say(
            "The model gives the same class for every released row, so it is no better than that. "
            f"{about['classifier']} finds nothing under this noise; more rows, weaker noise or another classifier may "
            "help."
        )
    console.result({"model": str(out), "about": dict(about)})


def _choice_in_words(chosen: Mapping[str, Any]) -> str:
    losses = ", ".join(
        f"{name} {loss:.4f}" for name, loss in sorted(chosen["held_out_loss"].items(), key=lambda one: one[1])
    )
    if not losses:
        return f"auto chose {chosen['classifier']}, which needs no choice: the rows have no noise of their own."
    return f"auto chose {chosen['classifier']}: it predicts labels of held-out released rows best (loss: {losses})."


@with_blocks
def predict(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Model file that `sfumato train` wrote.")],
    rows: Rows,
    file: Predictions,
    options: PredictAsked,
    tables: Tables,
    console: Console,
) -> None:
    """Classify plain rows (embedded with the card or the key) or rows that are already blurred.

    Examples:
      sfumato predict model.skops new-patients.csv --out predictions.csv
      sfumato predict model.skops released-queries --out predictions.csv
      sfumato predict model.skops people.csv --survey survey.yaml --out predictions.csv
    """
    from sfumato.learn.model import load_model

    with console.listening():
        check_free(file.out, force=file.force)
        predicted = load_model(model).classify(rows.open(tables), **keywords(options))
        predicted.save(file.out)
    met = ""
    if predicted.accuracy is not None:
        on = f"the {counted(predicted.told, 'row')} that tell the answer"
        met = f" {right_of_100(predicted.accuracy, 'this model', on, predicted.commonest)}."
    console.say(f"Classified {counted(predicted.rows, 'row')}: {file.out}.{met}")
    if predicted.than_commonest is not None and (words := commonest_words(predicted.than_commonest)):
        console.say(words)
    console.result(
        {
            "predictions": str(file.out),
            "rows": predicted.rows,
            "accuracy": predicted.accuracy,
            "commonest": predicted.commonest,
            "than_commonest_class": predicted.than_commonest,
            "unknown_categories": dict(predicted.unknown),
        }
    )


@with_blocks
def evaluate(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Model file, trained here or by a coordinator.")],
    rows: Rows,
    file: Findings,
    options: PredictAsked,
    tables: Tables,
    console: Console,
) -> None:
    """Say how often MODEL errs on rows whose answer is known. Nothing is sent, and nothing is written without --out.

    Example: sfumato evaluate model.skops our-patients.csv
    """
    from sfumato.learn.model import evaluate as run

    with console.listening():
        check_free(file.out, force=file.force)
        found = run(model, rows.open(tables), **keywords(options))
        if file.out is not None:
            found.save(file.out)
    low, high = found.interval
    console.say(
        f"Error {found.error:.3f} (95% interval {low:.3f} to {high:.3f}) on {counted(found.rows, 'row')}; "
        f"always the commonest class: {found.commonest:.3f}."
    )
    if words := commonest_words(found.than_commonest):
        console.say(words)
    names = [str(name) for name in found.classes]
    width = max(len(name) for name in names)
    console.say("Counts, true class by answer (they stay here):")
    console.say(f"  {'':{width}}  " + "  ".join(f"{name:>{max(8, len(name))}}" for name in names))
    for name, counts in zip(names, found.confusion.tolist(), strict=True):
        cells = (f"{count:>{max(8, len(other))},}" for other, count in zip(names, counts, strict=True))
        console.say(f"  {name:{width}}  " + "  ".join(cells))
    console.result({"model": str(model), "out": None if file.out is None else str(file.out), **found.to_dict()})
