"""A card that was edited in one place contradicts itself, and is refused."""

import json

import pytest

from sfumato.core.errors import CardError
from sfumato.guarantee import Card
from sfumato.release.release import Release
from sfumato.release.sanitize import Options, sanitize
from sfumato.table import Column, Schema

SCHEMA = Schema(
    (
        Column("age", "integer", low=0, high=100, source="public", reason="test"),
        Column("ill", "categorical", role="label", categories=("no", "yes"), source="public", reason="test"),
    )
)


@pytest.fixture
def folder(tmp_path):
    table = {"age": [10, 20, 30, 40] * 5, "ill": ["no", "yes"] * 10}
    sanitize(table, tmp_path / "r", Options(mechanism="additive-noise", schema=SCHEMA))
    return tmp_path / "r"


def edit(folder, **changes):
    card = json.loads((folder / "card.json").read_text())
    for path, value in changes.items():
        *way, last = path.split("__")
        place = card
        for step in way:
            place = place[step]
        place[last] = value
    (folder / "card.json").write_text(json.dumps(card))


@pytest.mark.parametrize(
    "changes",
    [
        {"guarantee__epsilon_record": 0.01},
        {"guarantee__posteriors": []},
        {"guarantee__amplification_record": 1.0},
        {"guarantee__kind": "empirical-only"},
        {"learned_from_data": ["bounds or categories of column 'age'"]},
        {"label": "randomized"},
        {"noise_path": "float-noise"},
        {"reproducible": "not for release"},
        {"reproducible": "not for release: an experiment"},
    ],
    ids=str,
)
def test_one_edited_part_is_found_out(folder, changes):
    assert Card.load(folder).is_formal
    edit(folder, **changes)
    with pytest.raises(CardError, match="was edited or is damaged"):
        Card.load(folder)


def test_words_are_computed_and_never_quoted(folder):
    """Wording may differ between versions, so another wording is read; what is shown is computed from the figures."""
    edit(folder, guarantee__words="Perfectly safe.")
    assert "Perfectly safe" not in Card.load(folder).stated_guarantee().in_words()


def test_a_card_that_differs_from_the_one_inside_the_release_is_refused(folder):
    Release.open(folder)
    edit(folder, mechanism__name="super-safe")
    Card.load(folder)
    with pytest.raises(CardError, match="not the one inside it"):
        Release.open(folder)
