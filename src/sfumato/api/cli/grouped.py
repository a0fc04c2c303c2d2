"""Help in groups: commands by who needs them, options by what they settle; and how old spellings find the new ones."""

from __future__ import annotations

import sys
from typing import Any

from typer.core import TyperCommand, TyperGroup

from sfumato.core.asked import RARE

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
            (name.removeprefix(first), one.get_short_help_str())
            for name, one in beside.items()
            if name.startswith(first)
        ]
        for title, records in groups.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)
        if rare:
            formatter.write_paragraph()
            formatter.write_text(f"{len(rare)} more options, rarely needed: {ctx.command_path} --help-all")
