"""An option is declared once, as a field of its job's dataclass.

From the field come the keyword in Python with its line in the docstring (`asks`), the command's option (api/cli/blocks)
and the check of what was given (`check_asked`). docs/architecture.md shows a job from declaration to command.
"""

from __future__ import annotations

import functools
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import MISSING, Field, dataclass, field, fields, replace
from enum import Enum
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, overload

from sfumato.core.errors import UsageError

REQUIRED: Any = MISSING
"""The default of an option that must be given."""
Table = Any
"""A table as Python takes it: a data frame, an Arrow table, a path."""
DOC_WIDTH = 116
MARK = "{options}"
"""Where a docstring's own words leave room for the options."""

Words = ParamSpec("Words")
Second = TypeVar("Second", contravariant=True)
Wanted = TypeVar("Wanted", covariant=True)
Made = TypeVar("Made", covariant=True)


class Read(Enum):
    """What every command reads in the same way from what was typed."""

    TABLE = "a table"
    PARAMETERS = "name=value, repeatable"
    COLUMN_PARAMETERS = "column.name=value, repeatable"
    PAIRS = "left=right as they are written, repeatable"


@dataclass(frozen=True)
class Asked:
    """What a field says of itself, besides type and default. Options are named in backticks, as in Python."""

    help: str
    """One or two sentences: all that the command line shows."""
    more: str = ""
    """What the docstring adds."""
    group: str = ""
    kind: str = ""
    """The type in words, where neither the annotation nor the way of reading says what a person calls it."""
    unset: str = ""
    """What leaving it out stands for, where the default does not say it."""
    choices: tuple[str, ...] = ()
    at_least: float | None = None
    at_most: float | None = None
    typed: Any = None
    """The type on the command line, where the annotation does not say it; `NOT_TYPED` where only Python can give it."""
    read: Read | Callable[[Any], Any] | None = None
    """How what was typed becomes what Python takes."""
    flag: str = ""
    """The option's name, where it is not that of the field."""
    opposite: bool = False
    """Whether there is a `--no-` option too."""
    metavar: str | None = None
    """What stands for the value in help, where neither the name nor the choices nor the way of reading say it."""
    parameter: bool = False
    """Whether it is one of the method's parameters; its own option is an old spelling, which help leaves out."""


NOT_TYPED = object()
TYPED = {
    "Progress": NOT_TYPED,
    "Path": Path,
    "str": str,
    "int": int,
    "float": float,
    "bool": bool,
    "list[str]": list[str],
    "Sequence[str]": list[str],
    "Sequence[int]": list[int],
    "Sequence[float]": list[float],
}
"""What is typed for an annotation, the first of these that it names: a path where a path will do."""
READS = {
    "Table": Read.TABLE,
    "Mapping[str, Any]": Read.PARAMETERS,
    "Mapping[str, Mapping[": Read.COLUMN_PARAMETERS,
    "Mapping[": Read.PAIRS,
}
"""How it is read, by the first of these that its annotation begins with."""
VALUES = {
    **dict.fromkeys(("label", "person", "target"), "COL"),
    **{"schema": "FILE", "config": "FILE", "key": "PATH", "master": "URL"},
}
"""What stands for the value in help, of options that many jobs have."""


class Group(str):
    """A heading of options in `--help`, and how these are declared."""

    def asked(self, default: Any, help: str, more: str = "", **words: Any) -> Any:
        """A field with its default (a class stands for a new one of it, `REQUIRED` for none) and what `Asked` says."""
        given: dict[str, Any] = {"default_factory": default} if isinstance(default, type) else {"default": default}
        return field(**given, metadata={"asked": Asked(help, more, self, **words)})

    def optional(self, help: str, more: str = "", **words: Any) -> Any:
        """What may be left out, and is None then."""
        return self.asked(None, help, more, **words)

    def switch(self, help: str, more: str = "", **words: Any) -> Any:
        """What is off where it is left out."""
        return self.asked(False, help, more, **words)

    def choice(self, choices: tuple[str, ...], help: str, more: str = "", **words: Any) -> Any:
        """One of a few words: the first where it is left out."""
        return self.asked(choices[0], help, more, choices=choices, **words)


RARE, NONE = Group("Rarely needed"), Group()
"""The group of options that only `--help-all` shows, and no group: rare ones too, where other options have one."""
asked, optional, switch, choice = NONE.asked, NONE.optional, NONE.switch, NONE.choice


def papers_own(more: str) -> Any:
    """The switch of every job that a paper does otherwise; `more` says of what."""
    return switch("The paper's own variant wherever our default differs.", more, flag="--as-published")


def asked_fields(options: Any) -> Iterator[tuple[Field[Any], Asked]]:
    """The fields that can be asked for, in the order of the declaration."""
    return ((one, said_of(one)) for one in fields(options) if "asked" in one.metadata)


@functools.cache
def said_of(one: Field[Any]) -> Asked:
    """What a field says, with what its name, its annotation and the way of reading say without words."""
    says: Asked = one.metadata["asked"]
    annotation = str(one.type)
    read = says.read or next((how for begins, how in READS.items() if annotation.startswith(begins)), None)
    typed = _typed(annotation, read) if says.typed is None else says.typed
    flag = says.flag or _flag(one.name, annotation.startswith("Sequence[") and typed is not str, says.opposite)
    return replace(says, typed=typed, read=read, flag=flag, metavar=says.metavar or VALUES.get(one.name))


def _typed(annotation: str, read: Any) -> Any:
    """What is typed for an annotation, of which a word or a list of words may be made by reading."""
    if read is not None:
        return list[str] if read in (Read.PARAMETERS, Read.COLUMN_PARAMETERS, Read.PAIRS) else str
    named = annotation.split(" | ")
    return next((kind for name, kind in TYPED.items() if name in named), str)


def _flag(name: str, once: bool, opposite: bool) -> str:
    """The option of a field; `once`: each time it is typed it gives one value of several."""
    shown = {"parameters": "param"}.get(name, name.removesuffix("s") if once else name).replace("_", "-")
    return f"--{shown}/--no-{shown}" if opposite else f"--{shown}"


def default_of(one: Field[Any]) -> Any:
    """What a signature shows: None where each call gets a new object, nothing where it must be given."""
    if one.default is one.default_factory is MISSING:
        return inspect.Parameter.empty
    return None if one.default is MISSING else one.default


def check_asked(options: Any) -> None:
    """Refuse what is none of the choices, too small or too large."""
    for one, says in asked_fields(options):
        check_given(says, getattr(options, one.name))


def check_given(says: Asked, given: Any) -> None:
    """The same of a single option."""
    if given is None:
        return
    if says.choices and given not in says.choices:
        *others, last = says.choices
        known = f"{', '.join(others)} or {last}"
        raise UsageError(f"{says.flag} must be {known}. Got {str(given)[:60]!r} instead.")
    least, most = says.at_least, says.at_most
    if least is most is None:
        return
    number = isinstance(given, int | float) and not isinstance(given, bool)
    if not number or (least is not None and not given >= least) or (most is not None and not given <= most):
        bounds = [f"at {word} {limit:g}" for word, limit in (("least", least), ("most", most)) if limit is not None]
        raise UsageError(f"{says.flag} must be {' and '.join(bounds)}. Got {given!r} instead.")


def short_help(options: Any, says: Asked) -> str:
    """The help of the command line: other options by the names they have there."""
    flags = {one.name: other.flag.partition("/")[0] for one, other in asked_fields(options)}
    return re.sub(r"`(\w+)`", lambda found: flags.get(found[1], found[0]), says.help)


def in_words(options: Any) -> str:
    """The entries of a docstring's Parameters, in the numpydoc manner."""
    lines = []
    for one, says in asked_fields(options):
        lines.append(f"{one.name} : {_kind(one, says)}")
        text = f"{says.help} {says.more}".strip()
        lines += textwrap.wrap(text, DOC_WIDTH, initial_indent="    ", subsequent_indent="    ", break_on_hyphens=False)
    return "\n".join(lines)


def _kind(one: Field[Any], says: Asked) -> str:
    default, kind = default_of(one), says.kind or _type_in_words(str(one.type), says)
    if default is inspect.Parameter.empty:
        return kind
    if default is None or callable(default):
        unset = says.unset or ("{}" if kind == "mapping" else "")
        return f"{kind}, default {unset}" if unset else f"{kind}, optional"
    return f'{kind}, default "{default}"' if isinstance(default, str) else f"{kind}, default {default}"


def _type_in_words(annotation: str, says: Asked) -> str:
    """What a person calls the type: "Schema or path", "sequence of str", "mapping"."""
    if says.choices:
        return "{" + ", ".join(f'"{choice}"' for choice in says.choices) + "}"
    if says.read is Read.TABLE:
        return "DataFrame, Arrow table or path"
    if annotation.startswith("Mapping["):
        return "mapping"
    if annotation.startswith("Progress"):
        return "callable"
    first, *others = [name for name in annotation.split(" | ") if name != "None"]
    if first.startswith("Sequence["):
        return f"sequence of {first.removeprefix('Sequence[').removesuffix(']')}"
    if "Path" in others:
        return f"{first} or path"
    return "path" if first == "Path" else first


class OfTwo(Protocol[Second, Words, Made]):
    """A function of two things and options; the second may have a default."""

    def __call__(self, first: Any, second: Second = ..., /, *args: Words.args, **words: Words.kwargs) -> Made:
        """Run the job."""


class Asks(Protocol[Words, Wanted]):
    """What makes a function with keywords of a job with options; type checkers see the keywords."""

    @overload
    def __call__(
        self, job: Callable[[Any, Any, Any, Wanted], Made], /
    ) -> Callable[Concatenate[Any, Any, Any, Words], Made]: ...

    @overload
    def __call__(self, job: Callable[[Any, Second, Wanted], Made], /) -> OfTwo[Second, Words, Made]: ...

    @overload
    def __call__(self, job: Callable[[Any, Wanted], Made], /) -> Callable[Concatenate[Any, Words], Made]: ...


def asks(options: Callable[Words, Wanted]) -> Asks[Words, Wanted]:
    """Let a job that takes its options as one object, last, be called with a keyword for each."""

    def of(job: Callable[..., Any]) -> Any:
        *own, last = inspect.signature(job).parameters.values()
        keywords = [
            inspect.Parameter(one.name, inspect.Parameter.KEYWORD_ONLY, default=default_of(one), annotation=one.type)
            for one, _ in asked_fields(options)
        ]
        shown = inspect.signature(job).replace(parameters=[*own, *keywords])

        @functools.wraps(job)
        def run(*given: Any, **words: Any) -> Any:
            bound = shown.bind(*given, **words).arguments
            own_words = {one.name: bound.pop(one.name) for one in own if one.name in bound}
            wanted = options(**bound)  # type: ignore[call-arg]
            check_asked(wanted)
            return job(**own_words, **{last.name: wanted})

        run.__signature__ = shown  # type: ignore[attr-defined]
        run.__annotations__ = {one.name: one.annotation for one in shown.parameters.values()}
        run.__annotations__["return"] = shown.return_annotation
        run.__doc__ = inspect.cleandoc(job.__doc__ or "").replace(MARK, in_words(options))
        return run

    return of
