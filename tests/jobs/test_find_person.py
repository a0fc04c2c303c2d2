"""One person is looked for: found where the release leaks, not told where it does not, and not tried is never 0."""

import io
import json
import re

import numpy as np
import pandas as pd
import pytest

import sfumato as sf
from sfumato.api.cli.app import app
from sfumato.api.cli.console import run_guarded
from sfumato.auditing.find_person import CHANCE, by_luck
from sfumato.core.errors import SfumatoError, TableError, UsageError
from sfumato.table import Column, Schema

PUBLIC = {"source": "public", "reason": "the form"}
NUMBERS = tuple(f"n{place}" for place in range(5))
SCHEMA = Schema(
    (
        *(Column(name, "numeric", low=0.0, high=100.0, **PUBLIC) for name in NUMBERS),
        Column("town", "categorical", categories=("here", "there", "elsewhere"), **PUBLIC),
        Column("ill", "categorical", role="label", categories=("no", "yes"), **PUBLIC),
    )
)
PLANTED = {"n0": 97.0, "n1": 3.0, "n2": 96.0, "n3": 4.0, "n4": 95.0, "town": "elsewhere", "ill": "yes"}
OTHER = {"n0": 93.0, "n1": 91.0, "n2": 7.0, "n3": 95.0, "n4": 8.0, "town": "elsewhere", "ill": "no"}
ASKED = ("row", "presence", "own values", "value")


def drawn(count, seed):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(np.clip(rng.normal(50, 12, (count, len(NUMBERS))), 0, 100), columns=NUMBERS)
    return frame.assign(town=rng.choice(["here", "there"], count), ill=rng.choice(["no", "yes"], count))


@pytest.fixture(scope="module")
def people():
    return pd.concat([drawn(300, 1), pd.DataFrame([PLANTED])], ignore_index=True)


@pytest.fixture(scope="module")
def outside():
    return drawn(150, 2)


@pytest.fixture(scope="module")
def leaky(people, tmp_path_factory):
    """Noise of a hundredth of the range: nothing that matters is hidden."""
    folder = tmp_path_factory.mktemp("leaky") / "release"
    sf.sanitize(
        people,
        schema=SCHEMA,
        mechanism="additive-noise",
        parameters={"scale": 0.01},
        unprotected=True,
        seed=1,
        out=folder,
    )
    return folder


@pytest.fixture(scope="module")
def made_up(people, tmp_path_factory):
    folder = tmp_path_factory.mktemp("made") / "release"
    ledger = folder.parent / "ledger.json"  # as if it were the only release
    sf.sanitize(people, schema=SCHEMA, mechanism="tree-resampling", epsilon_presence=1.0, out=folder, ledger=ledger)
    return folder


def test_a_planted_outlier_is_found_in_a_release_that_is_hardly_blurred(leaky, people, outside):
    found = sf.find_person(leaky, PLANTED, original=people, holdout=outside)
    assert found.fits == 1
    row, presence, own, value = (found.answer(name) for name in ASKED)
    assert row.right == 100
    assert row.learns is True
    assert presence.right > 99
    assert presence.learns is None  # a person unlike the others stands out either way
    assert own.right == 100
    assert own.learns is True
    assert set(own.columns) == {*NUMBERS, "town"}
    assert value.right > value.outside
    assert value.right > value.without
    assert value.learns is True


def test_what_is_proved_comes_first(made_up, people, outside):
    found = sf.find_person(made_up, PLANTED, original=people, holdout=outside)
    assert found.proof.startswith("Proved")
    page = found._repr_html_()
    assert page.index("Proved") < page.index("Whose row is it?")
    assert next(iter(found.to_dict())) == "proof"
    json.dumps(found.to_dict(), allow_nan=False)
    quoted = [text for one in found.to_dict()["found"] for text in one.values() if isinstance(text, str)]
    for value in PLANTED.values():  # figures may well have the digits of a cell
        assert not [text for text in quoted if re.search(rf"\b{re.escape(str(value))}\b", text)]


def test_made_up_rows_tell_nothing_of_one_person(made_up, people, outside):
    found = sf.find_person(made_up, PLANTED, original=people, holdout=outside)
    for name in ("row", "own values"):
        one = found.answer(name)
        assert one.right is None
        assert one.in_words() == "not tried: made-up rows belong to no one"
    assert found.answer("presence").right is None
    assert found.answer("value").learns is False


def test_one_who_is_not_in_the_table_is_told_from_members_only_where_the_release_leaks(
    leaky, people, outside, tmp_path
):
    clear = sf.find_person(leaky, OTHER, original=people, holdout=outside)
    assert clear.fits == 0
    assert clear.answer("row").not_tried == "the person is not in the table, and has no row"
    assert clear.answer("presence").right > 95
    assert clear.answer("presence").outside > 95
    sf.sanitize(
        people,
        schema=SCHEMA,
        mechanism="additive-noise",
        parameters={"scale": 20.0},
        unprotected=True,
        seed=1,
        out=tmp_path / "blurred",
    )
    several = drawn(10, 5).to_dict("records")
    blurred = [sf.find_person(tmp_path / "blurred", one, original=people, holdout=outside) for one in several]
    assert abs(np.mean([one.answer("presence").right for one in blurred]) - 50) < 30
    assert all(one.answer("presence").outside < 70 for one in blurred)


def test_people_like_those_outside_are_seldom_beyond_chance(made_up, people, outside):
    """About one in twenty would be by luck."""
    several = drawn(12, 9).to_dict("records")
    found = [sf.find_person(made_up, one, original=people, holdout=outside) for one in several]
    assert sum(one.answer("value").learns is True for one in found) <= 3


def test_without_people_outside_presence_is_not_tried_and_chance_not_told(leaky, people):
    found = sf.find_person(leaky, PLANTED, original=people)
    assert found.answer("presence").right is None
    assert "holdout" in found.answer("presence").in_words()
    value = found.answer("value")
    assert value.outside is None
    assert value.learns is None
    assert "by chance or not" in value.verdict()


def test_what_is_left_out_is_unknown(leaky, people, outside):
    some = {"n0": "97", "n1": "3", "town": "elsewhere", "n2": "", "n3": None, "n4": float("nan")}
    found = sf.find_person(leaky, some, original=people, holdout=outside)
    assert found.fits == 1
    assert found.answer("row").right == 100
    assert found.answer("presence").right is None
    assert found.answer("own values").right == 100
    many = sf.find_person(leaky, {"town": "here"}, original=people, holdout=outside)
    assert many.fits > 1
    assert all(many.answer(name).right is None for name in ASKED)
    assert "several people" in many.answer("row").not_tried


def test_a_release_of_another_tool_is_searched_too(people, outside):
    found = sf.find_person(people.copy(), PLANTED, original=people, holdout=outside, label="ill")
    assert "not proved" in found.proof
    assert found.answer("row").right == 100


@pytest.mark.parametrize(
    ("person", "error", "words"),
    [
        ({"secretname": 3}, UsageError, "no column"),
        ({"n0": "secretcell"}, TableError, "n0"),
        ({"n0": object()}, TableError, "n0"),
        ({"n0": [1]}, SfumatoError, "n0"),
        ({"n0": 5, "town": "secretcell"}, TableError, "town"),
        ({"n0": 5, "ill": "secretcell"}, TableError, "ill"),
        ({"ill": "yes"}, UsageError, "at least one"),
        ({}, UsageError, "at least one"),
        ("secretcell", UsageError, "mapping"),
    ],
)
def test_bad_input_is_refused_without_a_cell(leaky, people, person, error, words):
    with pytest.raises(error) as caught:
        sf.find_person(leaky, person, original=people)
    assert words in str(caught.value)
    assert "secretcell" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_a_value_beyond_its_range_is_taken_as_the_release_takes_it(leaky, people):
    found = sf.find_person(leaky, {**PLANTED, "n0": 4_000}, original=people)
    assert "n0 lies outside" in found.notes[0]
    assert "4" not in found.notes[0]


def test_luck_is_told_by_rank_and_only_of_enough_people():
    others = np.arange(19.0)
    assert by_luck(100.0, others) == pytest.approx(CHANCE)
    assert by_luck(-1.0, others) == 1.0
    assert by_luck(9.0, others) == pytest.approx(11 / 20)
    assert by_luck(100.0, others[:18]) is None


def test_the_command_reads_the_person_from_standard_input_and_quotes_nothing(leaky, people, outside, tmp_path, capsys):
    """What the function finds, and in no argument, file or message a value of the person."""
    for name, frame in (("original", people), ("holdout", outside)):
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
    tables = {f"--{name}": str(tmp_path / f"{name}.csv") for name in ("original", "holdout")}
    words = ["audit", "find-person", str(leaky), *(part for pair in tables.items() for part in pair)]

    def asked(told, *more):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(told.encode())))
            code = run_guarded(app, [*words, *more])
        return code, capsys.readouterr()

    before = {file: file.read_bytes() for file in leaky.iterdir()}
    code, said = asked(json.dumps(PLANTED), "--json")
    assert code == 0
    calls = sf.find_person(leaky, PLANTED, original=tables["--original"], holdout=tables["--holdout"])
    assert json.loads(said.out)["found"] == json.loads(json.dumps(calls.to_dict()["found"]))
    code, said = asked(json.dumps(PLANTED))
    assert (code, said.out.startswith("Measured") or said.out.startswith("Proved")) == (0, True)
    assert "Whose row is it? found" in said.out
    assert {file: file.read_bytes() for file in leaky.iterdir()} == before
    for told in ("secretcell", '["secretcell"]', '{"n0": "secretcell"}', '{"n0": {"secretcell": 1}}', "{" * 9_000):
        code, said = asked(told)
        assert code in (2, 3)
        assert "secretcell" not in said.out + said.err
    words[words.index("--original") + 1] = "-"
    assert asked(json.dumps(PLANTED))[0] == 2
