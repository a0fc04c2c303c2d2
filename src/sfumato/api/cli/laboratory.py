"""law, invariance, redraw, figure, canary: what the laboratory asks."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from sfumato.api.cli.blocks import keywords
from sfumato.api.cli.console import Console, Force, argument, parse_parameters
from sfumato.api.cli.tables import Query, TableArgument, Tables
from sfumato.auditing.asked import CanaryAsked, CondensationAsked, FilteringAsked, InvarianceAsked, ItemAsked
from sfumato.core.asked import asked, optional, switch
from sfumato.core.errors import UsageError
from sfumato.core.files import check_free, write_whole
from sfumato.core.wording import counted
from sfumato.release.asked import RedrawAsked

if TYPE_CHECKING:
    from sfumato.auditing.figures.item import Reached


def law(
    text: Annotated[str, argument("NAME|EXPRESSION", "A law, a distribution of scipy.stats, or a density in x.")],
    console: Console,
    width: float = asked(1.0, "Range of what is hidden: how far two values can lie apart."),
    param: list[str] | None = optional("Parameter of a law by name; repeatable.", metavar="NAME=VALUE"),
    log: bool = switch("The expression is the logarithm of a density."),
    prior: list[float] | None = optional("How likely a fact was before; repeatable.", metavar="P"),
) -> None:
    """Say whether additive noise of a law bounds what an attacker can learn, with the bound, or why there is none.

    This is Theorem 4 of the paper principal-laplace, with the condition that is missing there.

    Examples:
      sfumato law laplace --param scale=0.25
      sfumato law laplace --param scale=0.3 --prior 0.001
      sfumato law student-t --param scale=0.2 --param df=3 --width 2
      sfumato law dweibull --param c=0.5
      sfumato law "exp(-abs(x) / 0.3)"
      sfumato law "1 / (1 + x^4)"
      sfumato law --log -- "-abs(x) / 0.3"
    """
    from sfumato.auditing.invariance import BELIEFS
    from sfumato.auditing.invariance import law as run

    priors = tuple(prior or BELIEFS)
    if not all(0 < one < 1 for one in priors):
        raise UsageError("--prior is how likely a fact was before: between 0 and 1, for example 0.001.")
    found = run(text, width=width, parameters=parse_parameters(param or []), log=log)
    console.say(f"{found.law}: {found.in_words()}")
    if found.epsilon is not None:
        told = ", ".join(f"{100 * one:.3g}% to at most {found.posterior(one):.2%}" for one in priors)
        console.say(f"A belief can grow from {told}.")
    for line in found.conditions:
        console.say(f"  {line}")
    console.result({**found.to_dict(), "beliefs": {f"{one:g}": found.posterior(one) for one in priors}})


def invariance(table: TableArgument, tables: Tables, options: InvarianceAsked, console: Console) -> None:
    """Say which learners answer the same after a rotation of TABLE, and why. Nothing is released or written.

    Examples:
      sfumato invariance patients.csv --label diagnosis
      sfumato invariance patients.csv --label diagnosis --learner svm --learner "svm gamma=0.5 scaled=false"
      sfumato invariance patients.csv --target bmi
    """
    from sfumato.auditing.invariance import invariance as run

    with console.listening() as progress:
        found = run(tables.open(table), **keywords(options), progress=progress)
    console.say(
        f"{counted(found.rows, 'row')}, {counted(found.columns, 'encoded column')}, "
        f"{counted(found.rotations, 'rotation')}; {found.label!r} is predicted. Least share of equal answers:"
    )
    width = max([len(one.learner) for one in found.found], default=8)
    console.say(f"{'':{width}}  {'zero':>7}{'random':>8}  {'error':>6}{'rotated':>9}  the same with")
    for one in found.found:
        console.say(
            f"{one.learner:{width}}  {one.zero:>7.3f}{one.random:>8.3f}  {one.error:>6.3f}{one.rotated_error:>9.3f}"
            f"  {one.measured}" + (f" (in theory: {one.when})" if one.when and one.when != one.measured else "")
        )
    for why in dict.fromkeys(one.why for one in found.found if one.why):
        those = ", ".join(one.learner for one in found.found if one.why == why)
        console.say(f"{those}: {why}")
    for name, reason in found.refused.items():
        console.say(f"{name}: not tried. {reason}")
    console.result(found.to_dict())


def redraw(
    release: Annotated[Path, argument("RELEASE", "Folder of a release with model.json.")],
    options: RedrawAsked,
    console: Console,
) -> None:
    """Draw rows again from the model of RELEASE, whose rows are made up. The table is not needed.

    All that is drawn from one model rests on the same noisy measurements, so it costs nothing. `sfumato sanitize`
    measures the table again, and is paid for again.

    Example: sfumato redraw release --rows 100000 --out more
    """
    from sfumato.api.sanitize import redraw as run

    out = options.out
    if out is None:
        raise UsageError("Say where the rows are to be written: --out DIR.")
    with console.listening() as progress:
        made = run(release, **{**vars(options), "progress": progress})
    card = made.card
    console.say(f"Drew {counted(card.rows, 'row')} into {out}, at no further cost. {card.guarantee['words']}")
    console.say(f"To share: release.{options.format}, card.json, model.json. Nothing in the folder is private.")
    console.result({"folder": str(out), "rows": card.rows, "guarantee": dict(card.guarantee)})


class ItemOrCommand(TyperGroup):
    """What is no command is the name of an item; nothing at all lists them."""

    def otherwise(self, args: list[str]) -> list[str]:
        """The command that was meant."""
        known = {*self.commands, "--help", "--help-all", "-h"}
        return args if args and args[0] in known else ["item", *args]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, self.otherwise(args))


app = typer.Typer(
    cls=ItemOrCommand,
    help="A numbered table or figure of the papers, printed beside reached; nothing is released.",
    epilog="sfumato figure PAPER/ITEM [TABLE] computes one; sfumato figure alone lists all.",
)


@app.command(name="item")
def one_item(
    tables: Tables,
    options: ItemAsked,
    console: Console,
    name: Annotated[str | None, argument("PAPER/ITEM", "As the paper numbers it; without one, all are listed.")] = None,
    table: Annotated[str | None, argument("TABLE", "A table of your own.")] = None,
    listed: bool = switch("List all items with what each shows.", flag="--list"),
    out: Path | None = optional("Write the picture, an SVG, too.", metavar="FILE"),
    force: Force = False,
) -> None:
    """Compute a numbered table or figure of a paper, on a table of yours or on one of the paper's.

    Examples:
      sfumato figure
      sfumato figure principal-laplace/figure-6
      sfumato figure kernel-resampling/table-2 --set iris --repeats 20
      sfumato figure principal-laplace/figure-9 patients.csv --label diagnosis --out figure-9.svg
    """
    from sfumato.auditing.figures.item import figure, items

    if name is None or listed:
        known = [one for one in items().values() if name is None or one.paper == name.partition("/")[0]]
        for each in known:
            console.say(f"{each.name:38} {each.shows}{f' ({each.sets[0]}, ...)' if each.sets else ''}")
        console.result({"items": [{"item": one.name, "shows": one.shows, "sets": list(one.sets)} for one in known]})
        return
    if out is not None and (out.suffix.lower() != ".svg" or not out.parent.is_dir()):
        raise UsageError(f"--out is for a picture, an .svg in a folder that exists. Got {out} instead.")
    check_free(out, force=force)
    with console.listening() as progress:
        found = figure(name, tables.open_if_given(table), **keywords(options, tables), progress=progress)
    _say_item(found, console)
    if out is not None:
        write_whole(out, found.picture())
    console.result({**found.to_dict(), "picture": out})


def _say_item(found: Reached, console: Console) -> None:
    """What the item shows, of whose rows, and its values beside the printed ones."""
    console.say(f"{found.item.name}: {found.item.shows}")
    if found.item.sets:
        whose = f"{found.set}: {found.source}" if found.set else found.source
        console.say(f"{whose}, {counted(found.rows, 'row')}, {counted(found.repeats, 'repeat')}.")
    width = max(len(one.what) for one in found.values)
    console.say(f"{'':{width}}  {'printed':>9}  {'reached':>10}  {'standard error':>14}")
    for one in found.values:
        printed = "" if one.printed is None else f"{one.printed:g}"
        error = "" if one.standard_error is None else f"{one.standard_error:.3g}"
        console.say(f"{one.what:{width}}  {printed:>9}  {one.reached:>10.5g}  {error:>14}")


@app.command()
def filtering(table: TableArgument, tables: Tables, options: FilteringAsked, console: Console) -> None:
    """Average privacy with and without PCA, before and after filtering [principal-laplace, Fig. 8].

    Example: sfumato figure filtering patients.csv --label diagnosis
    """
    from sfumato.auditing.figures.principal_laplace import figure_filtering

    with console.listening() as progress:
        found = figure_filtering(tables.open(table), **keywords(options), progress=progress)
    console.say("Average privacy: width of the error's central 95% over the columns' ranges; larger is safer.")
    heads = ("No-Filtering", "PCA+Filtering", "No-PCA+Filtering", "No-PCA", "linear, PCA", "linear, no PCA", "mean")
    console.say(f"{'b':>5}  " + "  ".join(heads))
    for one in found:
        named = list(asdict(one).items())[1:-1]
        console.say(f"{one.b:>5g}  " + "  ".join(f"{x:>{len(h)}.3f}" for h, (_, x) in zip(heads, named, strict=True)))
        if one.standard_errors is not None:
            errors = (one.standard_errors[name] for name, _ in named)
            console.say("    ±  " + "  ".join(f"{x:>{len(h)}.3f}" for h, x in zip(heads, errors, strict=True)))
    console.say(
        "The first three are the paper's scenarios. The linear estimate is a stronger attack than filtering. Whoever "
        "knows the columns' means can guess them: what is wider than that is no privacy."
    )
    console.result({"filtering": [asdict(one) for one in found]})


@app.command()
def condensation(table: TableArgument, tables: Tables, options: CondensationAsked, console: Console) -> None:
    """Condensation by group size beside a searched rotation [random-rotation, 5.3, Figs 5-8].

    Example: sfumato figure condensation patients.csv --label diagnosis
    """
    from sfumato.auditing.figures.random_rotation import figure_condensation

    with console.listening() as progress:
        found = figure_condensation(tables.open(table), **keywords(options), progress=progress)
    console.say("Standard deviation of the attacker's error on columns scaled to [0, 1]; larger protects more.")
    console.say(f"{'':44}{'minimum':>9}{'average':>9}")
    lines: list[tuple[str, str, tuple[float, float]]] = [
        (f"condensation, groups of {one.k}: nearest row", f"k = {one.k}", (one.minimum, one.average))
        for one in found.condensed
    ]
    lines += [
        (f"rotation, best of {found.rotations}, as published: naive", "published", found.published),
        ("  ICA, as published", "published_ica", found.published_ica or (float("nan"), float("nan"))),
        (f"rotation, best of {found.rotations}, measured: naive", "measured", found.measured),
        ("  ICA, on any rotation tried, measured", "measured_ica", found.measured_ica),
        ("guessing the mean", "mean", found.mean),
    ]
    for words, name, (least, mean) in lines:
        console.say(f"{words:44}{least:>9.3f}{mean:>9.3f}")
        if found.standard_errors and name in found.standard_errors:
            console.say(f"{'±':>44}" + "".join(f"{one:>9.3f}" for one in found.standard_errors[name]))
    if small := [one for one in found.condensed if one.in_smaller_groups]:
        told = ", ".join(f"{one.in_smaller_groups:,} for k = {one.k}" for one in small)
        console.say(f"A class of fewer rows than k is one group. Rows in such classes, of {found.rows:,}: {told}.")
    if found.left_out:
        console.say(f"Left out, since no class has so many rows: k = {', '.join(map(str, found.left_out))}.")
    console.say(
        "The paper compares condensation with the published figures of a rotation. The attackers differ: the original "
        "row nearest to a condensed one need not be its source. Published figures can lie above the mean alone."
    )
    console.result(found.to_dict())


def canary(table: TableArgument, tables: Tables, options: CanaryAsked, console: Console, query: Query = None) -> None:
    """Try the claim of tree-resampling: fit it many times with and without planted records, and tell the two apart.

    The claim must hold for every table, so a public or an invented one will do. Nothing is released and the ledger is
    not charged. If TABLE is private, so is what is printed.

    Example: sfumato canary invented.csv --schema schema.yaml --epsilon 1
    """
    from sfumato.auditing.canary import canary as run

    with console.listening() as progress:
        found = run(tables.open(table, query), **keywords(options), progress=progress)
    console.say(found.in_words())
    console.result(found.to_dict())
