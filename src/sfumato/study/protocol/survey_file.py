"""The survey file: what is asked, of whom it is learned, and how much the respondents' own devices blur it.

Everything that a respondent's program needs to perturb an answer stands here or in the guidance: nothing else is asked
of the server.
"""

from __future__ import annotations

import datetime
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar, Self

import numpy as np

from sfumato.channels.guidance.guidance import MU, Order, SurveyCounts
from sfumato.channels.guidance.space import FLOOR, AnswerSpace, Link
from sfumato.core.accepted import Accepted, Between, Either, Nothing, Whole
from sfumato.core.errors import SchemaError, TableError
from sfumato.core.records import BRIEF, FieldError, Record
from sfumato.core.wording import counted
from sfumato.study.protocol.agreed import hash_of, must, read_key
from sfumato.table.column import checked_edges, interval_names

# What the first guidance is computed from: counts of start-up rows. Rows are counted when a file is read, and dropped.
#
# A survey file is public, so no row may stand in what is published. Counts are what guidance needs and all that
# remains. Of few rows counts say nearly everything; see `fewest_rows` and docs/survey.md.

RANDOM = "random"
FEW_ROWS = 20
"""Rows of a class below which its counts may as well be the rows: answers that one person alone gave show."""


def read_start_up(found: Any, sizes: Sequence[int], classes: int) -> str:
    """ "random", or the counts (as text) of the rows or of the counts that a file gives."""
    if found == RANDOM:
        return RANDOM
    if isinstance(found, Mapping):
        return _checked(found, sizes, classes).to_json()
    told = "`start_up` must be the word random, or a list of rows of choice numbers with the class last."
    wanted = [*sizes, classes]
    for number, row in enumerate(_listed(found, told), start=1):
        told = (
            f"Row {number} of `start_up` does not fit the questions: it needs {len(wanted)} choice numbers, counted "
            "from 0, the class last."
        )
        must(len(_listed(row, told)) == len(wanted), told)
        must(all(type(c) is int and 0 <= c < size for c, size in zip(row, wanted, strict=True)), told)
    rows = np.array(found, dtype=np.int64)
    return SurveyCounts.of(AnswerSpace(tuple(sizes)).onehot(rows[:, :-1]), rows[:, -1]).to_json()


def _checked(found: Mapping[str, Any], sizes: Sequence[int], classes: int) -> SurveyCounts:
    """Counts that rows of these questions can have: every row chooses once in every question."""
    wrong = SchemaError("The counts in `start_up` are not those of rows that answer these questions.")
    try:
        counts = SurveyCounts.from_json(json.dumps(found))
    except (TableError, TypeError, ValueError, RecursionError, OverflowError):
        raise wrong from None
    if set(found) != {"width", "classes"} or counts.width != sum(sizes) or not counts.n:
        raise wrong
    starts = np.cumsum([0, *sizes])
    for label in counts:
        chosen = np.add.reduceat(counts.ones(label), starts[:-1])
        if not 0 <= label < classes or (chosen != counts.rows[label]).any():
            raise wrong
    return counts


def _start_up_told(start_up: str) -> Any:
    return start_up if start_up == RANDOM else json.loads(start_up)


def fewest_rows(start_up: str) -> int | None:
    """The number of start-up rows of the smallest class; None where they are random."""
    return None if start_up == RANDOM else min(SurveyCounts.from_json(start_up).rows.values())


# One question of a survey: its kind, its choices and its words in every language.

KINDS = ("choice", "number", "yesno")
MOST_CHOICES = 500
_KEYS = frozenset({"name", "kind", "text", "choices", "classes", "edges", "low", "high"})


@dataclass(frozen=True)
class Made(Accepted):
    """What was read together with other fields; `told` says how it stands in the file."""

    told: Callable[[Any], Any]
    words = "as the survey file has it"

    def allows(self, value: Any) -> bool:  # noqa: ARG002
        return True

    def write(self, value: Any) -> Any:
        return self.told(value)


Text = Annotated[tuple[tuple[str, str], ...], Made(dict)]
"""The same words in every language: (code, text) pairs in the survey's order of languages."""


@dataclass(frozen=True)
class Choice(Record):
    """One possible answer."""

    value: str
    text: Text


@dataclass(frozen=True)
class Question(Record):
    """What is asked; a number is cut at public `edges` (the same for everybody) into ``len(edges) + 1`` choices."""

    name: str
    kind: str
    text: Text
    choices: tuple[Choice, ...]
    edges: Annotated[tuple[float, ...], BRIEF] = ()

    def choice_of(self, answer: Any) -> int:
        """Number of the choice that a plain answer falls into; an edge belongs to the upper interval."""
        if self.kind == "number":
            try:
                value = float(answer)
            except (TypeError, ValueError, OverflowError):
                value = math.nan
            if not math.isfinite(value):
                raise SchemaError(f"The answer to {self.name!r} must be a number.")
            return sum(value >= edge for edge in self.edges)
        for number, choice in enumerate(self.choices):
            if str(answer) == choice.value:
                return number
        values = ", ".join(choice.value for choice in self.choices[:8])
        raise SchemaError(f"The answer to {self.name!r} is not one of its choices ({values}).")

    @classmethod
    def read(cls, found: Any, languages: tuple[str, ...], where: str) -> Question:
        must(isinstance(found, Mapping), f"The {where} must have a name, a kind and a text.")
        for key in found:
            must(key in _KEYS, f"The {where} has an unknown key {key!r}.")
        name, kind = found.get("name"), found.get("kind", "choice")
        must(isinstance(name, str) and name.strip() and len(name) <= 100, f"The {where} needs a short `name`.")
        must(kind in KINDS, f"The kind of {name!r} must be {', '.join(KINDS)}. Got {kind!r} instead.")
        text = read_text(found.get("text", name), languages, f"text of {name!r}")
        edges: tuple[float, ...] = ()
        if kind == "number":
            must(
                found.get("edges"),
                f"The number {name!r} needs `edges`: where it is cut into intervals. Declare them from what is "
                "publicly known, not from answers.",
            )
            edges = checked_edges(found["edges"], repr(name))
        choices = _choices(found.get("choices", found.get("classes")), kind, edges, name, languages)
        must(
            2 <= len(choices) <= MOST_CHOICES,
            f"The question {name!r} has {counted(len(choices), 'choice')}; a question needs 2 to {MOST_CHOICES}. "
            "With one choice there is nothing to ask.",
        )
        different = len({choice.value for choice in choices}) == len(choices)
        must(different, f"Two choices of {name!r} have the same value.")
        return cls(name.strip(), kind, text, choices, edges)


def read_text(found: Any, languages: tuple[str, ...], where: str) -> Text:
    """One text for all languages, or one for each."""
    if isinstance(found, int | float) and not isinstance(found, bool):
        found = f"{found:g}" if isinstance(found, float) else str(found)
    if isinstance(found, str):
        return tuple((code, found.strip()) for code in languages)
    must(isinstance(found, Mapping), f"The {where} must be text, or one text for each language.")
    for code in languages:
        must(isinstance(found.get(code), str), f"The {where} has no text in the language {code!r}.")
    return tuple((code, found[code].strip()) for code in languages)


def _choices(
    found: Any, kind: str, edges: tuple[float, ...], name: str, languages: tuple[str, ...]
) -> tuple[Choice, ...]:
    if kind == "number":
        return tuple(Choice(label, tuple((code, label) for code in languages)) for label in interval_names(edges))
    if kind == "yesno" and found is None:
        found = ["no", "yes"]
    choices = []
    for choice in _listed(found, f"The question {name!r} needs a list of `choices`.", or_none=True):
        stated = choice if isinstance(choice, Mapping) else {"value": str(choice)}
        value = stated.get("value")
        valued = isinstance(value, str | int | float) and not isinstance(value, bool)
        must(valued, f"Every choice of {name!r} needs a `value`.")
        choices.append(Choice(str(value), read_text(stated.get("text", value), languages, f"choice of {name!r}")))
    return tuple(choices)


MOST_ANSWERS = 20_000  # of one batch: they lie in memory while their guidance is computed
MOST_BITS = 2000  # counts grow with the square of the bits, guidance with the cube: 8 MB and seconds for each batch
MOST_CELLS = 2 * MOST_BITS**2  # of the matrices of all classes: many classes leave room for fewer bits
_HASH = re.compile(r"sha256:[0-9a-f]{64}")


@dataclass(frozen=True)
class SurveyStudy(Record):
    """A study of kind `survey`.

    `mu`, `order`, `link`, `balance` fix the guidance (`k` its level, instead of `mu`), `floor` the least probability of
    every bit, `batch` how many answers change it; `start_up` is "random" or counts of the owner's rows, as text. The
    server adds `ticket_key` (where there are invitations: what tickets are checked by) and `origin` (the hash that an
    older version gave to this survey).
    """

    kind: ClassVar[str] = "survey"
    takes_more = False
    beside = ("kind",)

    name: str
    by: str
    about: Text
    consent: Text
    languages: tuple[str, ...]
    questions: Annotated[tuple[Question, ...], Made(lambda asked: [question.to_dict() for question in asked])]
    label: Annotated[Question, Made(Question.to_dict)]
    mu: Annotated[float, Between(0.0, 0.9999)] = MU
    batch: Annotated[int, Whole(1, MOST_ANSWERS)] = 100
    floor: Annotated[float, Between(0.0, 0.4999)] = FLOOR
    link: Link = "square"
    order: Order = "magnitude"
    balance: Annotated[bool, BRIEF] = True
    k: Annotated[int | None, Either((Whole(1, MOST_BITS), Nothing())), BRIEF] = None
    start_up: Annotated[str, Made(_start_up_told)] = RANDOM
    closes: str | None = None
    witnesses: tuple[str, ...] = ()
    invitations: bool = False
    ticket_key: Annotated[str | None, BRIEF] = None
    origin: Annotated[str | None, BRIEF] = None

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of choices of every question: the one-hot groups of an answer, in order."""
        return tuple(len(question.choices) for question in self.questions)

    @property
    def space(self) -> AnswerSpace:
        return AnswerSpace(self.sizes)

    @property
    def width(self) -> int:
        """Bits of an answer."""
        return sum(self.sizes)

    @property
    def classes(self) -> tuple[str, ...]:
        return tuple(choice.value for choice in self.label.choices)

    def closed(self, today: datetime.date) -> bool:
        """Whether the closing date lies behind us; the date itself is the last day of answers."""
        return self.closes is not None and today > datetime.date.fromisoformat(self.closes)

    @cached_property
    def hash(self) -> str:
        """SHA-256 of the canonical file: what respondents and witnesses compare."""
        return hash_of(self.to_dict())

    @property
    def root(self) -> str:
        """What the log begins from and random start-up rows follow from: the hash, or the one it had at first."""
        return self.origin or self.hash

    def to_dict(self) -> dict[str, Any]:
        """As respondents hash it: a brief field is left out, so that files without it keep the hash they always had."""
        return {"kind": self.kind, **super().to_dict()}

    @classmethod
    def refusal(cls, problem: FieldError) -> SchemaError:
        return SchemaError(f"The survey: {problem}.")

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Self:
        """Read and check; a `SchemaError` says what is wrong and where."""
        languages = _languages(found.get("languages", ["en"]))
        questions = _questions(found.get("questions"), languages)
        told = "The survey needs a `label`: the question whose answer is to be predicted."
        must(isinstance(found.get("label"), Mapping), told)
        label = Question.read(found["label"], languages, "label")
        told = "The question to predict must be a choice, not a number: classes are to be predicted."
        must(label.kind != "number", told)
        told = f"The question to predict {label.name!r} is also one of the questions. Ask it once."
        must(label.name not in {question.name for question in questions}, told)
        sizes, classes = [len(question.choices) for question in questions], len(label.choices)
        most = min(MOST_BITS, math.isqrt(MOST_CELLS // classes))
        must(
            sum(sizes) <= most,
            f"The questions have {sum(sizes)} choices together; at most {most} are possible where the question to "
            f"predict has {classes}. Merge choices or drop questions.",
        )
        lines = {key: found.get(key) for key in ("name", "by")}
        for key, line in lines.items():
            fits = isinstance(line, str) and line.strip() and len(line) <= 200
            must(fits, f"The survey needs `{key}`: one line of text.")
        made = {
            **{key: str(line).strip() for key, line in lines.items()},
            **{key: read_text(found.get(key, ""), languages, key) for key in ("about", "consent")},
            "languages": languages,
            "questions": questions,
            "label": label,
            "start_up": read_start_up(found.get("start_up", RANDOM), sizes, classes),
            "closes": _date(found.get("closes")),
            "witnesses": _addresses(found.get("witnesses", ())),
        }
        survey = super().from_dict({**found, **made})
        must((survey.k or 1) <= sum(sizes), f"The survey: `k` must be a whole number from 1 to {sum(sizes)}.")
        if survey.ticket_key is not None:
            must(survey.invitations, "`ticket_key` belongs to a survey by invitation; the server writes it there.")
            read_key(survey.ticket_key)
        told = "`origin` must be the hash that the survey had before; the server writes it there."
        must(survey.origin is None or _HASH.fullmatch(survey.origin), told)
        return survey


def _listed(found: Any, told: str, *, or_none: bool = False) -> Sequence[Any]:
    """A list with something in it, or (`or_none`) with nothing."""
    must(isinstance(found, Sequence) and not isinstance(found, str) and (found or or_none), told)
    return tuple(found)


def _languages(found: Any) -> tuple[str, ...]:
    told = "`languages` must be a list of language codes, for example [en, de]."
    codes = tuple(str(code) for code in _listed(found, told))
    short = all(code.isascii() and 2 <= len(code) <= 8 for code in codes)
    told = "`languages` must be different short codes, for example [en, de]."
    must(len(set(codes)) == len(codes) and short, told)
    return codes


def _questions(found: Any, languages: tuple[str, ...]) -> tuple[Question, ...]:
    asked = _listed(found, "The survey needs a list of `questions`.")
    read = tuple(Question.read(q, languages, f"question {n}") for n, q in enumerate(asked, start=1))
    names = [question.name for question in read]
    for name in sorted(set(names)):
        must(names.count(name) == 1, f"Two questions are called {name!r}. Names must differ.")
    return read


def _date(found: Any) -> str | None:
    try:
        return None if found is None else datetime.date.fromisoformat(str(found)).isoformat()
    except ValueError:
        raise SchemaError(f"`closes` must be a date such as 2027-01-31. Got {found!s:.40} instead.") from None


def _addresses(found: Any) -> tuple[str, ...]:
    addresses = _listed(found, "`witnesses` must be a list of addresses.", or_none=True)
    secure = ("https://", "http://127.0.0.1", "http://localhost")
    told = "A witness must be an https address."
    must(all(isinstance(one, str) and one.startswith(secure) for one in addresses), told)
    return tuple(address.rstrip("/") for address in addresses)
