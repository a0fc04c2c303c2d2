"""Options written once: a command takes a dataclass as one parameter, and its fields become options.

Options say with `core.asked` what they are, as fields of a block or as a command's own parameters: that is how those of
a job in Python are those of its command too. What has a form of its own is annotated as the parser reads it.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from dataclasses import Field, fields, is_dataclass, replace
from typing import Annotated, Any, get_args, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from sfumato.api.cli.console import parse_column_parameters, parse_pairs, parse_parameters
from sfumato.core.asked import NOT_TYPED, RARE, Asked, Read, asked_fields, check_given, default_of, said_of, short_help

SHOW_ALL = "help_all"
"""Whether `--help-all` was typed, among what a context knows."""
OLD_COMMANDS = {
    "declare": "schema declare",
    "forget": "ledger forget",
    "push": "study push",
    "withdraw": "study withdraw",
    "cluster": "mine cluster",
    "regress": "mine regress",
    "rules": "mine rules",
}
"""What commands were called in 0.2: they work for one version more."""


def say_old(old: str, new: str) -> None:
    """Tell whoever typed an old spelling what it is now."""
    print(f"sfumato: `{old}` is now `{new}`. The old spelling works for one more version.", file=sys.stderr)


class GroupedCommands(TyperGroup):
    """The first screen: commands under their headings; one without a heading works, and is named where it belongs.

    A command may be two words, such as `schema declare` beside `schema`.
    """

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that was meant, by its old name too."""
        if (now := OLD_COMMANDS.get(args[0])) is not None:
            if not {"-q", "--quiet"} & set(args):
                say_old(f"sfumato {args[0]}", f"sfumato {now}")
            args = [*now.split(), *args[1:]]
        if (two := " ".join(args[:2])) in self.commands:
            args = [two, *args[2:]]
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
        """One section for each heading, in the order in which the commands were added."""
        groups: dict[str, list[Any]] = {}
        for command in self.commands.values():
            if isinstance(heading := getattr(command, "rich_help_panel", None), str):
                groups.setdefault(heading, []).append(command)
        width = max(len(command.name) for commands in groups.values() for command in commands)
        for heading, commands in groups.items():
            with formatter.section(heading):
                room = formatter.width - width - 6
                formatter.write_dl([(f"{one.name:<{width}}", one.get_short_help_str(room)) for one in commands])


class GroupedCommand(TyperCommand):
    """A command whose help shows options by group, and rare ones only under `--help-all`."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """One section a group, in the order of the declaration; then the commands of which this is the first word."""
        groups: dict[str, list[tuple[str, str]]] = {}
        for one in self.get_params(ctx):
            plain = "Arguments" if one.param_type_name == "argument" else "Options"
            if (record := one.get_help_record(ctx)) is not None:
                groups.setdefault(getattr(one, "rich_help_panel", None) or plain, []).append(record)
        for last in ("Options", RARE):
            groups[last] = groups.pop(last, [])
        rare = [] if ctx.meta.get(SHOW_ALL) else groups.pop(RARE)
        beside = getattr(ctx.parent and ctx.parent.command, "commands", {})
        first = f"{self.name} "
        groups["Commands"] = [
            (name.removeprefix(first), beside[name].get_short_help_str()) for name in beside if name.startswith(first)
        ]
        for title, records in groups.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)
        if rare:
            formatter.write_paragraph()
            formatter.write_text(f"{len(rare)} more options, rarely needed: {ctx.command_path} --help-all")


READ: dict[Any, Callable[[Any], Any]] = {
    Read.PARAMETERS: parse_parameters,
    Read.COLUMN_PARAMETERS: parse_column_parameters,
    Read.PAIRS: parse_pairs,
}
READ_AS: dict[Any, str] = {Read.TABLE: "TABLE", Read.PARAMETERS: "NAME=VALUE"}
"""What stands for the value in help."""
KEYWORD = inspect.Parameter.KEYWORD_ONLY


def with_blocks(command: Callable[..., None]) -> Callable[..., None]:
    """The command with each parameter that is a dataclass taken apart into its options, which come last."""
    taken = inspect.signature(command, eval_str=True).parameters.values()
    blocks: dict[str, Any] = {one.name: one.annotation for one in taken if is_dataclass(one.annotation)}
    options = {name: _options(block) for name, block in blocks.items()}
    shared = [_own(one) for one in taken if one.name not in blocks]
    shared += [one for block in options.values() for one in block]
    told = (said for option in shared for said in getattr(option.annotation, "__metadata__", ()))
    if any(getattr(said, "rich_help_panel", None) == RARE for said in told):
        shown = typer.Option("--help-all", is_eager=True, callback=_show_all, help="Show every option and exit.")
        shared.append(inspect.Parameter(SHOW_ALL, KEYWORD, default=False, annotation=Annotated[bool, shown]))

    @functools.wraps(command)
    def run(**words: Any) -> None:
        words.pop(SHOW_ALL, None)
        whole = {name: blocks[name](**{one.name: words.pop(one.name) for one in options[name]}) for name in blocks}
        if not any(getattr(block, "quiet", False) for block in whole.values()):
            for typed, one, says in ((block, *asked) for block in whole.values() for asked in asked_fields(block)):
                if says.parameter and getattr(typed, one.name) != default_of(one):  # of one method: its parameter now
                    say_old(says.flag, f"--param {one.name.replace('_', '-')}=...")
        command(**words, **whole)

    run.__signature__ = inspect.Signature(shared)  # type: ignore[attr-defined]
    return run


def _own(parameter: inspect.Parameter) -> inspect.Parameter:
    """A parameter of the command itself."""
    if isinstance(one := parameter.default, Field):
        one.name, one.type = parameter.name, parameter.annotation
        return _option(one, replace(said_of(one), typed=parameter.annotation))
    return parameter.replace(kind=KEYWORD)


def _options(block: Any) -> list[inspect.Parameter]:
    asked = {one.name: says for one, says in asked_fields(block)}
    hints = {} if len(asked) == len(fields(block)) else get_type_hints(block, include_extras=True)
    rare = RARE if any(says.group not in ("", RARE) for says in asked.values()) else ""
    found = []
    for one in fields(block):
        if (says := asked.get(one.name)) is None:
            if one.init:
                found.append(inspect.Parameter(one.name, KEYWORD, default=default_of(one), annotation=hints[one.name]))
        elif says.typed is not NOT_TYPED:
            typed = says.typed if default_of(one) is not None else says.typed | None
            help = short_help(block, says)
            found.append(_option(one, replace(says, help=help, group=says.group or rare, typed=typed)))
    return found


def _option(one: Field[Any], says: Asked) -> inspect.Parameter:
    """The option that a field declares. What it does not allow is refused before the command begins."""

    def check(value: Any) -> Any:
        check_given(says, value)
        return value

    option = typer.Option(
        says.flag,
        help=says.help,
        metavar=says.metavar or "|".join(says.choices) or READ_AS.get(says.read),
        show_default=bool not in (says.typed, *get_args(says.typed)),
        hidden=says.parameter,
        callback=check if says.choices or not says.at_least is says.at_most is None else None,
        rich_help_panel=says.group or None,
    )
    default, annotation = _default_typed(one, says), Annotated[says.typed, option]
    return inspect.Parameter(one.name, KEYWORD, default=default, annotation=annotation)


def _default_typed(one: Field[Any], says: Asked) -> Any:
    """The default as it would be typed, where several values are typed as one word."""
    default = default_of(one)
    return ",".join(map(str, default)) if says.typed is str and isinstance(default, tuple) else default


def keywords(options: Any, tables: Any = None) -> dict[str, Any]:
    """What was typed, as the job's function takes it: parameters and words read, tables opened by the command's own
    `Tables`. What was not typed is left to the function."""
    given = {}
    for one, says in asked_fields(options):
        value = getattr(options, one.name)
        if says.typed is NOT_TYPED or value is None or value in (default_of(one), _default_typed(one, says)):
            continue
        if says.read is Read.TABLE:
            value = tables.open(value)
        elif (read := READ[says.read] if isinstance(says.read, Read) else says.read) is not None:
            value = read(value)
        given[one.name] = value
    return given


def typed_again(options: Any) -> dict[str, Any]:
    """The options that ask for the same, for `to_type`."""
    given = {}
    for one, says in asked_fields(options):
        value = getattr(options, one.name)
        if says.typed is not NOT_TYPED and value is not None and value != default_of(one):
            given[says.flag.partition("/")[0].removeprefix("--")] = value
    return given


def _show_all(context: typer.Context, wanted: bool) -> None:
    if wanted:
        context.meta[SHOW_ALL] = True
        print(context.get_help())
        raise typer.Exit
