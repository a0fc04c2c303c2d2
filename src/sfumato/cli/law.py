"""law: does noise of a law bound what an attacker can learn?"""

from __future__ import annotations

from typing import Annotated

import typer

from sfumato.cli.blocks import with_blocks
from sfumato.cli.console import Console, parse_parameters


@with_blocks
def law(
    text: Annotated[
        str, typer.Argument(metavar="NAME|EXPRESSION", help="A law, a distribution of scipy.stats, or a density in x.")
    ],
    console: Console,
    width: Annotated[float, typer.Option(help="Range of what is hidden: how far two values can lie apart.")] = 1.0,
    param: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="Parameter of a law by name; repeatable.")
    ] = None,
    log: Annotated[bool, typer.Option("--log", help="The expression is the logarithm of a density.")] = False,
) -> None:
    """Say whether additive noise of a law bounds what an attacker can learn, with the bound, or why there is none.

    This is Theorem 4 of the paper principal-laplace, with the condition that is missing there.

    Examples:
      sfumato law laplace --param scale=0.25
      sfumato law student-t --param scale=0.2 --param df=3 --width 2
      sfumato law dweibull --param c=0.5
      sfumato law "exp(-abs(x) / 0.3)"
      sfumato law "1 / (1 + x^4)"
      sfumato law --log -- "-abs(x) / 0.3"
    """
    from sfumato.jobs.law import BELIEFS, check_law

    found = check_law(text, width, parse_parameters(param or []), log=log)
    console.say(f"{found.law}: {found.in_words()}")
    if found.epsilon is not None:
        told = ", ".join(f"{prior:.0%} to at most {found.posterior(prior):.2%}" for prior in BELIEFS)
        console.say(f"A belief can grow from {told}.")
    for line in found.conditions:
        console.say(f"  {line}")
    console.result(found.to_dict())
