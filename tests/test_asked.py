"""An option is declared once: command line, Python and the checks say what the field says."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

import sfumato as sf
from sfumato.advising.asked import CompareAsked, RecommendAsked
from sfumato.api.cli import app
from sfumato.api.cli.blocks import GroupedCommand, keywords, typed_again, with_blocks
from sfumato.auditing.asked import AuditAsked, CanaryAsked, InvarianceAsked
from sfumato.core.asked import (
    NOT_TYPED,
    REQUIRED,
    Group,
    Read,
    Table,
    asked,
    asked_fields,
    asks,
    check_asked,
    in_words,
    optional,
    papers_own,
    switch,
)
from sfumato.core.errors import UsageError
from sfumato.core.progress import Progress
from sfumato.core.registry import names_in
from sfumato.learn.asked import ClusterAsked, PredictAsked, RegressAsked, RulesAsked, TrainAsked
from sfumato.mechanisms import AdditiveNoise
from sfumato.noise import LAWS
from sfumato.release.asked import SanitizeAsked
from sfumato.study.asked import CountsAsked, EdgesAsked, RehearseAsked, SurveyPlanAsked
from sfumato.table import Schema

DECLARED = {
    "sanitize": SanitizeAsked,
    "recommend": RecommendAsked,
    "compare": CompareAsked,
    "audit": AuditAsked,
    "canary": CanaryAsked,
    "invariance": InvarianceAsked,
    "train": TrainAsked,
    "predict": PredictAsked,
    "evaluate": PredictAsked,
    "cluster": ClusterAsked,
    "rules": RulesAsked,
    "regress": RegressAsked,
    "plan_counts": CountsAsked,
    "rehearse": RehearseAsked,
    "plan_survey": SurveyPlanAsked,
    "survey_edges": EdgesAsked,
}
COMMANDS = {
    **{job: f"mine {job}" for job in ("cluster", "rules", "regress")},
    "plan_counts": "study plan",
    "rehearse": "study rehearse",
    "plan_survey": "survey plan",
    "survey_edges": "survey edges",
}
"""Where the command is not called like the function."""


@dataclass(frozen=True, kw_only=True)
class Baking:
    crust: str = Group("Taste").asked("thin", "How the edge is; see `minutes`.", choices=("thin", "thick"))
    minutes: int | None = asked(None, "In the oven.", more="At 220 degrees.", at_least=1, unset="12")
    toppings: dict = asked(dict, "What is on it.", kind="mapping", unset="{}", typed=list[str], flag="--on")
    heat: int = asked(220, "Degrees.", at_least=100, at_most=300)
    with_: dict = asked(dict, "More.", read=Read.PARAMETERS, flag="--with", kind="mapping")
    beside: object = asked(None, "A table.", read=Read.TABLE)
    slices: int | str = asked(8, "How many.", typed=str, read=lambda typed: int(typed) * 2)
    layers: tuple = asked((1, 2), "How thick each is.", kind="sequence", typed=str, read=lambda typed: typed.split(","))
    tell: object = asked(print, "Called when done.", kind="callable", typed=NOT_TYPED)


@asks(Baking)
def bake(dough, options):
    """Bake.

    Parameters
    ----------
    dough : str
        What is baked.
    {options}

    Returns
    -------
    tuple
    """
    return dough, options


@dataclass(frozen=True, kw_only=True)
class Unsaid:
    """Declared by name and annotation alone."""

    parameters: Mapping[str, Any] = asked(dict, "Of it.")
    columns: Mapping[str, Mapping[str, Any]] = asked(dict, "Of each.")
    names: Mapping[str, str] = asked(dict, "Old and new.")
    learners: Sequence[str] | None = optional("One or more.")
    words: Sequence[str] | None = optional("All at once.", read=str.split)
    original: Table = asked(REQUIRED, "A table.")
    schema: Schema | Path | str | None = optional("A schema.")
    atoms: bool = switch("Look for them.", opposite=True)
    published: bool = papers_own("Of all.")
    progress: Progress = asked(print, "Called.")


def test_name_and_annotation_say_what_is_typed_how_it_is_read_and_what_stands_for_it():
    said = {one.name: (says.flag, says.typed, says.read, says.metavar) for one, says in asked_fields(Unsaid)}
    assert said == {
        "parameters": ("--param", list[str], Read.PARAMETERS, None),
        "columns": ("--columns", list[str], Read.COLUMN_PARAMETERS, None),
        "names": ("--names", list[str], Read.PAIRS, None),
        "learners": ("--learner", list[str], None, None),
        "words": ("--words", str, str.split, None),
        "original": ("--original", str, Read.TABLE, None),
        "schema": ("--schema", Path, None, "FILE"),
        "atoms": ("--atoms/--no-atoms", bool, None, None),
        "published": ("--as-published", bool, None, None),
        "progress": ("--progress", NOT_TYPED, None, None),
    }
    kinds = [line.partition(" : ")[2] for line in in_words(Unsaid).splitlines() if not line.startswith(" ")]
    assert kinds[:4] == ["mapping, default {}"] * 3 + ["sequence of str, optional"]
    assert kinds[5:7] == ["DataFrame, Arrow table or path", "Schema or path, optional"]
    assert kinds[9] == "callable, optional"


def test_keywords_become_the_object_and_defaults_are_the_fields():
    assert bake("rye", crust="thick") == ("rye", Baking(crust="thick"))
    assert bake(dough="rye") == ("rye", Baking())
    assert str(inspect.signature(bake)).startswith("(dough, *, crust: 'str' = 'thin', minutes: 'int | None' = None, ")
    with pytest.raises(TypeError, match="unexpected keyword argument 'crus'"):
        bake("rye", crus="thick")


def test_the_docstring_describes_every_field_where_it_left_room():
    described = inspect.getdoc(bake)
    assert 'crust : {"thin", "thick"}, default "thin"\n    How the edge is; see `minutes`.\n' in described
    assert "minutes : int, default 12\n    In the oven. At 220 degrees.\ntoppings : mapping, default {}\n" in described
    assert "tell : callable, optional\n    Called when done.\n\nReturns" in described


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"crust": "none"}, "--crust must be thin or thick. Got 'none' instead."),
        ({"minutes": 0}, "--minutes must be at least 1. Got 0 instead."),
        ({"heat": 400}, "--heat must be at least 100 and at most 300. Got 400 instead."),
    ],
)
def test_what_the_field_does_not_allow_is_refused(given, said):
    check_asked(Baking(crust="thick", minutes=1))
    with pytest.raises(UsageError, match=re.escape(said)):
        check_asked(Baking(**given))
    with pytest.raises(UsageError, match=re.escape(said)):
        bake("rye", **given)


def test_a_second_thing_may_be_left_out_and_comes_before_the_options():
    @asks(Baking)
    def slice_up(loaf, pieces=2, options=None):
        """Cut."""
        return loaf, pieces, options.crust

    assert slice_up("rye") == ("rye", 2, "thin")
    assert slice_up("rye", 3, crust="thick") == slice_up(pieces=3, loaf="rye", crust="thick") == ("rye", 3, "thick")


def test_what_was_typed_is_read_as_the_field_says():
    class Tables:
        def open(self, given):
            return f"opened {given}"

    typed = Baking(toppings=None, with_=["salt=2"], beside="rows.csv", slices="4")
    assert keywords(typed, Tables()) == {"with_": {"salt": 2}, "beside": "opened rows.csv", "slices": 8}
    assert keywords(Baking(toppings=None, with_=None)) == {}, "what was not typed is left to the function"


def test_what_was_asked_can_be_typed_again():
    assert typed_again(Baking(crust="thick", heat=250, toppings=None, with_=None)) == {"crust": "thick", "heat": 250}


def test_a_command_takes_the_same_object_and_shows_rare_options_only_when_asked():
    kitchen = typer.Typer(rich_markup_mode=None)

    @kitchen.command(cls=GroupedCommand)
    @with_blocks
    def oven(options: Baking) -> None:
        print(options.crust, options.minutes, options.toppings, keywords(options).get("layers"))

    def say(*words):
        return CliRunner().invoke(kitchen, words).output

    assert say("--crust", "thick", "--minutes", "3", "--on", "a", "--on", "b") == "thick 3 ['a', 'b'] None\n"
    assert say("--layers", "3,1").endswith("['3', '1']\n")
    assert "[default: 1,2]" in say("--help-all"), "several values are typed as one word"
    first, whole = say("--help"), say("--help-all")
    assert re.search(r"Taste:\n +--crust thin\|thick +How the edge is; see --minutes", first)
    assert "--minutes <int>" not in first
    assert "In the oven.\n" in whole, "what the docstring adds is not on the command line"
    assert "--tell" not in whole, "only Python can give it"
    assert first.splitlines()[-1].endswith("--help-all")


@pytest.mark.parametrize("job", DECLARED)
def test_command_and_function_offer_what_the_job_declares(job):
    declared = dict(asked_fields(DECLARED[job]))
    names = [one.name for one in declared]
    keywords = [
        one.name for one in inspect.signature(getattr(sf, job)).parameters.values() if one.kind is one.KEYWORD_ONLY
    ]
    assert keywords == names
    assert [one.name for one in fields(DECLARED[job])] == names, "every field can be asked for"
    command = typer.main.get_command(app)
    for word in COMMANDS.get(job, job).split():
        command = command.commands[word]
    offered = {flag for one in command.params for flag in one.opts}
    flags = {says.flag.partition("/")[0] for says in declared.values() if says.typed is not NOT_TYPED}
    assert flags <= offered


@pytest.mark.parametrize("job", ["sanitize", "audit"])
def test_the_first_screen_is_short_and_names_the_rest(job):
    help_text = CliRunner().invoke(app, [job, "--help"]).output
    shown = re.findall(r"^ {2}(?:-\w, )?(--[a-z-]+)", help_text, re.MULTILINE)
    typed = [(one, says) for one, says in asked_fields(DECLARED[job]) if says.typed is not NOT_TYPED]
    own = {says.flag.partition("/")[0] for _, says in typed if not says.parameter}
    assert len(own & set(shown)) <= 20
    assert len(set(shown) - {"--help", "--param", "--column-param"}) <= 25
    assert help_text.strip().splitlines()[-1].endswith(f"{job} --help-all")
    whole = CliRunner().invoke(app, [job, "--help-all"]).output
    assert own <= set(re.findall(r"--[a-z-]+", whole))


def test_declarations_load_without_what_a_job_needs():
    """`--help` may read them at no cost."""
    rooms = ", ".join(sorted({declared.__module__ for declared in DECLARED.values()}))
    seen = f"import sys, {rooms}; print(sorted({{'numpy', 'pyarrow', 'typer'}} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", seen], capture_output=True, text=True).stdout == "[]\n"


def test_help_lists_every_classifier_there_is():
    from sfumato.learn.classifiers import CLASSIFIERS

    assert names_in("sfumato.learn.classifiers.named") == list(CLASSIFIERS)
    shown = re.sub(r"\s+", "", CliRunner().invoke(app, ["train", "--help"]).output)
    assert [name for name in CLASSIFIERS if name not in shown] == []
    assert [name for name in CLASSIFIERS if name not in inspect.getdoc(sf.train)] == []


def test_additive_noise_names_every_law():
    assert f"law : {', '.join(map(repr, LAWS))}.".replace("'", '"') in inspect.getdoc(AdditiveNoise)
