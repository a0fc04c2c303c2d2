"""What a careless or hostile user does to `sanitize --mechanism multiplicative-noise` and `reconstruct`: one clear
sentence each, the right exit code, nothing written, and no cell of the table in the sentence."""

import json
import shutil

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.api.cli import app
from sfumato.api.cli.console import run_guarded

pytestmark = pytest.mark.filterwarnings("ignore")
FACTORS = ["--mechanism", "multiplicative-noise", "--param", "law=uniform", "--param", "low=1", "--param", "high=3"]


def table(rows=200, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "income": 20 + rng.gamma(4, 10, rows),
            "age": rng.integers(20, 80, rows),
            "town": rng.choice(list("abc"), rows),
        }
    )


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    table().to_csv(folder / "ok.csv", index=False)
    (-table()[["income"]]).assign(age=30, town="a").to_csv(folder / "negative.csv", index=False)
    for name in ("ok", "negative"):
        given = [
            "sanitize",
            str(folder / f"{name}.csv"),
            *FACTORS,
            "--out",
            str(folder / name),
            "--seed",
            "1",
            "--quiet",
        ]
        assert run_guarded(app, given) == 0
    return folder


@pytest.fixture
def tell(place, capsys, monkeypatch):
    """Runs a command in the folder; returns the exit code and what was said."""
    monkeypatch.chdir(place)

    def run(*arguments):
        capsys.readouterr()
        code = run_guarded(app, [str(argument) for argument in arguments])
        said = capsys.readouterr()
        assert "Traceback" not in said.err + said.out
        return code, said.err

    return run


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--column", "nope"], "no column 'nope'"),
        (["--column", ""], "no column ''"),
        (["--column", "income", "--method", "magic"], "There is no method 'magic'"),
        (
            ["--column", "income", "--method", "expectation-maximization", "--penalty", "1"],
            "has no parameter 'penalty'",
        ),
        (["--column", "income", "--penalty", "-1"], "'penalty'"),
        (["--column", "income", "--penalty", "nan"], "'penalty'"),
        (["--column", "income", "--penalty", "x"], "--penalty must be"),
        (["--column", "income", "--bins", "1"], "'bins'"),
        (["--column", "income", "--bins", "100000"], "'bins'"),
        (["--column", "income", "--confidence", "1.5"], "'confidence'"),
        (["--column", "income", "--confidence", "nan"], "'confidence'"),
        (["--column", "income", "--resamples", "-1"], "'resamples'"),
        (["--column", "income", "--resamples", "1000000000"], "'resamples'"),
        (["--column", "income", "--original", "missing.csv"], "missing.csv"),
    ],
    ids=lambda value: " ".join(value[2:]) or "column" if isinstance(value, list) else "",
)
def test_wrong_options(tell, place, arguments, says):
    code, said = tell("reconstruct", "ok", *arguments, "--out", "never")
    assert code != 0
    assert says in said
    assert not (place / "never").exists()


@pytest.mark.parametrize(
    ("folders", "says"),
    [
        (["nowhere"], "There is no card"),
        (["ok.csv"], "is no card"),
        (["ok", "ok"], "each of them once"),
        (["ok", "./ok/"], "each of them once"),
        (["."], "There is no card"),
    ],
    ids=str,
)
def test_wrong_folders(tell, place, folders, says):
    code, said = tell("reconstruct", *folders, "--column", "income", "--out", "never", "--resamples", "0")
    assert code != 0
    assert says in said
    assert not (place / "never").exists()


def test_the_release_itself_is_not_overwritten(tell, place):
    before = sorted(path.name for path in (place / "ok").iterdir())
    code, said = tell("reconstruct", "ok", "--column", "income", "--out", "ok", "--resamples", "0")
    assert code != 0
    assert "exists already" in said
    assert sorted(path.name for path in (place / "ok").iterdir()) == before


def test_a_place_that_is_taken_is_found_before_the_work(tell, place, monkeypatch):
    monkeypatch.setattr(
        "sfumato.learn.reconstruct.reconstruct_from", lambda *_, **__: pytest.fail("worked for nothing")
    )
    (place / "taken").mkdir()
    code, said = tell("reconstruct", "ok", "--column", "income", "--out", "taken")
    assert code == 5
    assert "exists already" in said
    assert not list((place / "taken").iterdir())


def test_an_original_that_lacks_the_column_or_its_kind(tell, place):
    table()[["age"]].to_csv(place / "other.csv", index=False)
    table().assign(income="abc").to_csv(place / "words.csv", index=False)
    table().iloc[:0].to_csv(place / "empty.csv", index=False)
    for name in ("other", "words", "empty"):
        given = ("--column", "income", "--out", "never", "--resamples", "0", "--original", f"{name}.csv")
        code, said = tell("reconstruct", "ok", *given)
        assert code != 0, name
        assert "abc" not in said
        assert not (place / "never").exists()


@pytest.mark.parametrize("rows", [1, 5, 9])
def test_fewer_than_ten_values(tell, place, rows):
    table(max(rows, 2)).to_csv(place / "few.csv", index=False)
    assert tell("sanitize", "few.csv", *FACTORS, "--out", "few", "--force", "--quiet")[0] == 0
    code, said = tell("reconstruct", "few", "--column", "income", "--out", "never")
    assert code == 3
    assert "at least 10" in said


def test_a_constant_column(tell, place):
    table().assign(income=7.25).to_csv(place / "constant.csv", index=False)
    assert tell("sanitize", "constant.csv", *FACTORS, "--out", "constant", "--quiet")[0] == 0
    code, said = tell("reconstruct", "constant", "--column", "income", "--out", "never")
    assert code == 3
    assert "constant" in said
    assert "7.25" not in said


@pytest.mark.parametrize("lowest", [-4.991, 0.0])
def test_a_range_that_holds_zero_is_refused_without_telling_anybodys_value(tell, place, lowest):
    data = table().assign(income=np.linspace(lowest, 4.863, 200))
    data.to_csv(place / "zero.csv", index=False)
    code, said = tell("sanitize", "zero.csv", *FACTORS, "--out", "zero")
    assert code == 2
    assert "'income'" in said
    assert "can be 0" in said
    assert "4.86" not in said
    assert "4.99" not in said
    assert not (place / "zero").exists()


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        (["low=3", "high=1"], "low"),
        (["low=1", "high=1"], "low"),
        (["low=nan", "high=3"], "low"),
        (["law=magic"], "law"),
        (["scale=-1"], "scale"),
        (["low=1"], "high"),
        (["colour=red"], "colour"),
        (["law=laplace", "low=1", "high=3"], "low"),
    ],
    ids=str,
)
def test_wrong_parameters(tell, place, parameters, says):
    given = [word for parameter in parameters for word in ("--param", parameter)]
    code, said = tell("sanitize", "ok.csv", "--mechanism", "multiplicative-noise", *given, "--out", "never")
    assert code == 2, said
    assert says in said
    assert not (place / "never").exists()


def edited(place, change, embedded=True):
    """A copy of the release with another card, beside it and (so that nobody sees it) inside it too."""
    target = place / "edited"
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(place / "ok", target)
    card = json.loads((target / "card.json").read_text())
    change(card, card["recipe"]["channels"][0])
    (target / "card.json").write_text(json.dumps(card))
    if embedded:
        released = pq.read_table(target / "release.parquet")
        released = released.replace_schema_metadata({"sfumato.card": json.dumps(card)})
        pq.write_table(released, target / "release.parquet")
    return target


NARROWER = {"high": 1.2, "scale": 0.2 / 12**0.5}
CHANGES = {
    "an operator with another's parameters": lambda _, channel: channel.update(operator="additive"),
    "an operator that does not exist": lambda _, channel: channel.update(operator="magic"),
    "an own operator": lambda _, channel: channel.update(operator="custom", parameters={}),
    "a parameter that is no number": lambda _, channel: channel["noise"].update(low="1"),
    "an infinite base": lambda _, channel: channel.update(parameters={"base": float("inf")}),
    "noise that cannot have made these values": lambda _, channel: channel["noise"].update(NARROWER),
    "more rows": lambda card, _: card.update(rows=10_000),
    "no columns": lambda card, _: card["release_schema"].update(columns=[]),
    "no noise law": lambda _, channel: channel["noise"].pop("law"),
}


@pytest.mark.parametrize("change", CHANGES, ids=str)
def test_edited_cards(tell, place, change):
    edited(place, CHANGES[change])
    code, said = tell("reconstruct", "edited", "--column", "income", "--out", "never", "--resamples", "0")
    assert code != 0, change
    assert len(said) > 40
    assert not (place / "never").exists()


def test_a_card_that_was_edited_only_beside_the_release_is_found_out(tell, place):
    def wider(_, channel):
        channel["noise"] |= {"high": 3.5, "scale": 2.5 / 12**0.5}

    edited(place, wider, embedded=False)
    code, said = tell("reconstruct", "edited", "--column", "income", "--out", "never", "--resamples", "0")
    assert code == 6
    assert "edited" in said


def test_values_that_were_changed_in_the_release(tell, place):
    target = edited(place, lambda card, noise: None)  # noqa: ARG005
    whole = pq.read_table(target / "release.parquet")
    released = whole.to_pandas()
    for value in (1e9, np.inf):
        released.loc[0, "income"] = value
        pq.write_table(pa.Table.from_pandas(released, schema=whole.schema), target / "release.parquet")
        code, said = tell("reconstruct", "edited", "--column", "income", "--out", "never", "--resamples", "0")
        assert code == 3
        assert "1e" not in said


@pytest.mark.parametrize("column", ["income", "town"])
def test_a_release_that_was_cut_short(tell, place, column):
    target = edited(place, lambda card, noise: None)  # noqa: ARG005
    whole = (target / "release.parquet").read_bytes()
    table = pq.read_table(target / "release.parquet")
    pq.write_table(table.slice(0, 50), target / "release.parquet")
    code, said = tell("reconstruct", "edited", "--column", column, "--out", "never", "--resamples", "0")
    assert code == 6
    assert "states 200 rows, but the release has 50" in said
    (target / "release.parquet").write_bytes(whole[: len(whole) // 2])
    code, said = tell("reconstruct", "edited", "--column", column, "--out", "never", "--resamples", "0")
    assert code == 3
    assert "damaged" in said
    assert not (place / "never").exists()


def test_negative_values_are_multiplied_and_reconstructed(tell, place):
    assert tell("reconstruct", "negative", "--column", "income", "--out", "minus", "--resamples", "0")[0] == 0
    assert (place / "minus" / "density.csv").exists()


def test_parts_whose_ranges_lie_on_both_sides_of_zero(tell):
    """Each part alone is sound; the range of both holds 0, which multiplicative noise does not protect."""
    code, said = tell("reconstruct", "ok", "negative", "--column", "income", "--out", "never", "--resamples", "0")
    assert code != 0
    assert "0" in said
