"""What the functions say, in the reader's language: by the template of a sentence and the values that it was made of.

English readers get the sentence. German ones get that of `german.json`, with the same values in it; what is not in it,
such as a rare error, is quoted as it is and marked as English, so that a screen reader pronounces it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from markupsafe import Markup, escape

from sfumato.api.desk.words import ENGLISH, GERMAN, figure, say
from sfumato.core.wording import Said, said

OPTION = re.compile(r"(?<!\S)--(?=[a-z])")
PLACE = re.compile(r"\{(\w+)[^}]*\}")
NAMES = ("name", "names", "where", "path", "learner")
"""Values that are no figures, whatever they look like."""
SOURCES = {"form": "a form", "instrument": "what the instrument can measure", "law": "a law", "codebook": "a code book"}
"""Where a range may be known from, with the words that readers of the card are told; or the owner's own words."""
_SAID, _VALUES = "__said__", "values"


@cache
def german() -> Mapping[str, str]:
    """German sentences by English ones."""
    found: dict[str, str] = json.loads(files("sfumato.api.desk").joinpath("german.json").read_text(encoding="utf-8"))
    return found


def heard(told: str, language: str, plainly: Callable[[str], str] = str) -> Markup:
    """A sentence for a page. `plainly`: names and paths as the owner knows them."""
    if language == ENGLISH:
        return escape(without_options(plainly(told)))
    whole = said(told)
    if whole.template in german() or not _has_words(whole):
        return _in_german(whole, plainly)
    return say("in_english", language, told=_quoted(whole, plainly))


def _in_german(told: Said, plainly: Callable[[str], str]) -> Markup:
    """With a part in quotes where it is known in English alone."""
    if told.template not in german() and _has_words(told):
        return _quoted(told, plainly)
    template = PLACE.sub(r"{\1}", german().get(told.template, told.template))
    values: dict[str, Any] = {}
    for name, one in told.values.items():
        if isinstance(one, Said):
            values[name] = _in_german(one, plainly)
        elif name == "reason":
            known, why = source_of(one.strip('"'))  # in the words of the form, where one of its sources was chosen
            told_so = ": ".join(filter(None, (say(f"known_{known}", GERMAN), why)))
            values[name] = one if known == "other" else f"„{told_so}“"
        else:
            values[name] = plainly(str(one)) if name in NAMES else figure(one, GERMAN)
    return Markup(template).format(**values) if values else escape(template)


def source_of(reason: str) -> tuple[str, str]:
    """The source that a reason names, and what else it says; "other" where it is in the owner's own words."""
    for key, words in SOURCES.items():
        if reason == words or reason.startswith(f"{words}: "):
            return key, reason.removeprefix(words).removeprefix(": ")
    return "other", reason


def _quoted(told: str, plainly: Callable[[str], str]) -> Markup:
    return Markup('<span lang="en">{}</span>').format(without_options(plainly(told)))


def _has_words(told: Said) -> bool:
    return re.search(r"[^\W\d_]", PLACE.sub("", told.template)) is not None


def sentence_of(error: Exception) -> str:
    """What an error says, with the template if it has one."""
    return error.args[0] if error.args and isinstance(error.args[0], Said) else str(error)


def packed(told: Any) -> Any:
    """For JSON, from which `unpacked` makes the same sentences again."""
    if isinstance(told, Said):
        return {_SAID: told.template, _VALUES: packed(dict(told.values))}
    if isinstance(told, Mapping):
        return {name: packed(one) for name, one in told.items()}
    if isinstance(told, list | tuple):
        return [packed(one) for one in told]
    return str(told) if isinstance(told, Path) else told


def unpacked(found: dict[str, Any]) -> Any:
    """The `object_hook` of `json.loads`."""
    return said(found[_SAID], **found[_VALUES]) if _SAID in found else found


def without_options(told: str) -> str:
    """What the engine says, without its sentences on what to type: a page has fields and buttons for that.

    >>> without_options("It needs people not in the table (--holdout).")
    'It needs people not in the table.'

    >>> without_options("It is not UTF-8 text. Name its encoding, for example --encoding cp1252.")
    'It is not UTF-8 text.'
    """
    for typed in (r" \(--[a-z-]+\)", ": give a holdout table", ": see `sfumato show`"):
        told = re.sub(typed, "", told)
    sentences = re.split(r"(?<=[.!?])\s+(?=[A-Z])", told)
    return " ".join(one for one in sentences if not OPTION.search(one)) or OPTION.sub("", told)
