"""No honest release is accused, whatever the method and however odd the table; what is not honest is found.

Where the power that `verify` states covers a departure, the departure is tried.
"""

import json
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato import sanitize, verify
from sfumato.core.errors import SfumatoError, UsageError
from sfumato.mechanisms import MECHANISMS
from sfumato.table import Column, Schema

KNOWN = {"source": "public", "reason": "the form"}
LABEL = Column("ill", "categorical", role="label", categories=("no", "yes", "rare"), **KNOWN)
NUMBERS = Schema(
    (
        Column("size", "numeric", low=1.0, high=9.0, **KNOWN),
        Column("ties", "integer", low=1, high=200, **KNOWN),
        Column("same", "numeric", low=2.0, high=4.0, **KNOWN),
        LABEL,
    )
)
MIXED = Schema(
    (
        Column("size", "numeric", low=1.0, high=9.0, missing=True, **KNOWN),
        Column("day", "date", low="2020-01-01", high="2023-12-31", **KNOWN),
        Column("ward", "categorical", categories=("a", "b", "c"), missing=True, **KNOWN),
        LABEL,
    )
)
WORDS = Schema((Column("one", "categorical", categories=("a", "b"), **KNOWN), *MIXED.columns[2:]))


def rows_of(schema, rows, rng):
    made = {
        "size": rng.beta(2, 5, rows) * 8 + 1,
        "ties": rng.choice([1, 1, 1, 200], rows),
        "same": np.full(rows, 3.0),
        "day": np.datetime64("2020-01-01") + rng.integers(0, 1400, rows),
        "ward": rng.choice(["a", "b", "c"], rows, p=[0.9, 0.09, 0.01]).astype(object),
        "one": rng.choice(["a", "b"], rows),
        "ill": rng.choice(["no", "yes", "rare"], rows, p=[0.7, 0.28, 0.02]),
    }
    for column in schema.columns:
        if column.missing:
            made[column.name] = [None if rng.random() < 0.3 else cell for cell in made[column.name].tolist()]
    return pa.table({column.name: pa.array(made[column.name]) for column in schema.columns})


STRENGTHS = (
    {"epsilon_record": 0.1, "private_label": True},
    {"max_posterior": 0.2},
    {"epsilon_record": 50.0},
    {"epsilon": 50.0},
    {"epsilon": 1.0, "delta": 0.0},
    {},
)


def released(name, schema, words, rows, rng, folder, **more):
    table = rows_of(schema, rows, rng)
    sanitize(table, schema=schema, mechanism=name, out=folder, ledger=folder.parent / "ledger", **words, **more)


@pytest.mark.parametrize("name", list(MECHANISMS))
def test_an_honest_release_is_never_accused(name, tmp_path):
    rng, tried = np.random.default_rng(4), 0  # the first that the method takes
    for number, (schema, words) in enumerate((schema, one) for schema in (NUMBERS, MIXED, WORDS) for one in STRENGTHS):
        folder = tmp_path / str(number)
        try:
            format = ("parquet", "csv")[number % 2]
            released(name, schema, words, (10, 30)[number % 2], rng, folder, format=format)
        except SfumatoError:  # not for such a table, or so strong
            continue
        found = verify(folder)
        assert found.ok, (schema.names, words, found.in_words())
        tried += 1
        break
    assert tried


@pytest.mark.system
@pytest.mark.parametrize("name", list(MECHANISMS))
def test_no_honest_release_of_many_is_accused(name, tmp_path):
    rng = np.random.default_rng()
    for number in range(60):
        schema, words = (NUMBERS, MIXED, WORDS)[number % 3], STRENGTHS[rng.integers(len(STRENGTHS))]
        try:
            released(name, schema, words, int(rng.choice([10, 30, 150, 400])), rng, tmp_path / str(number))
        except SfumatoError:
            continue
        found = verify(tmp_path / str(number))
        assert found.ok, (schema.names, words, found.in_words())


ROWS = 400
SHOWN = Schema((*NUMBERS.columns[:2], *WORDS.columns[:1], LABEL))


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    folder, rng = tmp_path_factory.mktemp("honest"), np.random.default_rng(9)
    words = {"epsilon_record": 6.0, "private_label": True, "label_epsilon": 1.0}
    for name in "ab":
        table = rows_of(SHOWN, ROWS, rng)
        pq.write_table(table, folder / f"{name}.parquet")
        sanitize(table, schema=SHOWN, mechanism="additive-noise", out=folder / name, ledger=folder / "ledger", **words)
        (folder / name / "signed.txt").unlink()
        (folder / name / "signed.txt.sig").unlink()
    assert verify(folder / "a").ok
    return folder


def exact(folder):
    """What was behind the rows, in their units and types."""
    table, released_ = pq.read_table(folder / "a.parquet"), pq.read_table(folder / "a" / "release.parquet")
    return {field.name: np.asarray(table[field.name].to_pylist()) for field in released_.schema}


def weaker(folder, share, only=None):
    """The same release with a share of its noise, on the grid of its card."""
    card, truth = json.loads((folder / "a" / "card.json").read_text()), exact(folder)
    rng = np.random.default_rng(3)
    cells = pq.read_table(folder / "a" / "release.parquet").to_pydict()
    for column, channel in zip(card["source_schema"]["columns"], card["recipe"]["channels"], strict=False):
        if column["kind"] == "categorical" or (only is not None and column["name"] != only):
            continue
        low, width = column["low"], column["high"] - column["low"]
        z = (truth[column["name"]] - low) / width + share * rng.laplace(0, channel["noise"]["scale"], ROWS)
        cells[column["name"]] = low + np.round(z / channel["grid"]) * channel["grid"] * width
    return cells


def doubled(cells):
    half = ROWS // 8
    return {name: np.concatenate([np.asarray(some)[:half]] * 8) for name, some in cells.items()}


DEPARTURES = {
    "no noise": lambda folder: weaker(folder, 0.0),
    "a tenth of the noise": lambda folder: weaker(folder, 0.1),
    "none in one column": lambda folder: weaker(folder, 0.0, "ties"),
    "the label as it was": lambda folder: weaker(folder, 1.0) | {"ill": exact(folder)["ill"]},
    "no word randomized": lambda folder: weaker(folder, 1.0) | {"one": np.full(ROWS, "a")},
    "rows that are missing": lambda folder: {name: some[:-1] for name, some in weaker(folder, 1.0).items()},
    "rows several times": lambda folder: doubled(weaker(folder, 1.0)),
}


@pytest.mark.parametrize("what", DEPARTURES)
def test_what_is_not_honest_is_found(honest, tmp_path, what):
    folder = shutil.copytree(honest / "a", tmp_path / "r")
    before = pq.read_table(folder / "release.parquet")
    cells = DEPARTURES[what](honest)
    columns = [pa.array(np.asarray(cells[field.name]).tolist()).cast(field.type) for field in before.schema]
    names = before.schema.names
    pq.write_table(pa.table(columns, names).replace_schema_metadata(before.schema.metadata), folder / "release.parquet")
    assert not verify(folder).ok


def test_rows_with_all_of_their_noise_made_here_are_consistent(honest, tmp_path):
    """The departures above differ from this by what they are called after, and by nothing else."""
    folder = shutil.copytree(honest / "a", tmp_path / "r")
    before, cells = pq.read_table(folder / "release.parquet"), weaker(honest, 1.0)
    columns = [pa.array(np.asarray(cells[field.name]).tolist()).cast(field.type) for field in before.schema]
    made = pa.table(columns, before.schema.names).replace_schema_metadata(before.schema.metadata)
    pq.write_table(made, folder / "release.parquet")
    assert verify(folder).ok


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    folder, rng = tmp_path_factory.mktemp("drawn"), np.random.default_rng(2)
    for name, epsilon in {"a": 20.0, "b": 20.0}.items():
        table = rows_of(NUMBERS, ROWS if name == "a" else 300, rng)
        pq.write_table(table, folder / f"{name}.parquet")
        words = {"schema": NUMBERS, "mechanism": "tree-resampling", "epsilon": epsilon, "parameters": {"rows": ROWS}}
        sanitize(table, out=folder / name, ledger=folder / "ledger", **words)
        (folder / name / "signed.txt").unlink()
        (folder / name / "signed.txt.sig").unlink()
    return folder


def with_rows(folder, change):
    table = pq.read_table(folder / "release.parquet")
    pq.write_table(change(table).replace_schema_metadata(table.schema.metadata), folder / "release.parquet")


def with_columns(table, **columns):
    for name, cells in columns.items():
        at = table.schema.names.index(name)
        table = table.set_column(at, table.schema.field(at), pa.array(cells).cast(table.schema.field(at).type))
    return table


def test_made_up_rows_are_held_against_their_model(drawn, tmp_path):
    assert verify(drawn / "a").ok
    source = pq.read_table(drawn / "a.parquet")
    changes = {
        "the table itself": lambda table: with_columns(
            table, **{name: source[name].to_pylist() for name in table.schema.names}
        ),
        "one class": lambda table: with_columns(table, ill=["yes"] * ROWS),
        "one value": lambda table: with_columns(table, size=[3.25] * ROWS),
        "many times the same": lambda table: pa.concat_tables([table.slice(0, ROWS // 8)] * 8),
    }
    for what, change in changes.items():
        folder = shutil.copytree(drawn / "a", tmp_path / what.replace(" ", "-"))
        with_rows(folder, change)
        assert not verify(folder).ok, what


def test_a_model_that_was_not_paid_for_and_one_of_another_release_are_told(drawn, tmp_path):
    other = shutil.copytree(drawn / "a", tmp_path / "other")
    shutil.copy(drawn / "b" / "model.json", other)
    assert "not the model of the card" in verify(other).in_words()
    cheap = shutil.copytree(drawn / "a", tmp_path / "cheap")
    card = json.loads((cheap / "card.json").read_text())
    for one in card["recipe"]["measured"]:
        one["times"] = min(one["times"], 1)
    (cheap / "card.json").write_text(json.dumps(card))
    table = pq.read_table(cheap / "release.parquet")
    words = {**table.schema.metadata, b"sfumato.card": json.dumps(card).encode()}
    pq.write_table(table.replace_schema_metadata(words), cheap / "release.parquet")
    assert "more measurements than the card states" in verify(cheap).in_words()
    without = shutil.copytree(drawn / "a", tmp_path / "without")
    (without / "model.json").unlink()
    found = verify(without)
    assert found.ok
    assert any("not handed over" in one for one in found.cannot_check)


@pytest.mark.parametrize("name", ["additive-noise", "tree-resampling"])
def test_drawing_again_after_a_failed_test_is_charged(name, tmp_path):
    """Who draws until a test passes chooses the noise: each draw stands in the ledger, and on the next card."""
    table = rows_of(NUMBERS, 60, np.random.default_rng(1))
    strength = {"epsilon": 1.0} if name == "tree-resampling" else {"epsilon_record": 4.0}
    for number in range(2):
        made = sanitize(
            table,
            schema=NUMBERS,
            mechanism=name,
            out=tmp_path / "r",
            force=True,
            ledger=tmp_path / "ledger",
            **strength,
        )
        assert made.card.earlier_releases["count"] == number


@pytest.mark.parametrize("format", ["csv", "xlsx", "ods"])
def test_a_format_that_loses_rows_without_a_cell_is_refused_before_anything_is_charged(format, tmp_path):
    """A reader would count fewer rows than the card, and an honest release would be accused."""
    schema = Schema((Column("size", "numeric", low=1.0, high=9.0, missing=True, **KNOWN),))
    words = {"schema": schema, "mechanism": "additive-noise", "ledger": tmp_path / "ledger", "epsilon_record": 4.0}
    table = {"size": [None, None, 2.0, 3.0, None]}
    with pytest.raises(UsageError, match="that is no row"):
        sanitize(table, out=tmp_path / "r", format=format, **words)
    assert not (tmp_path / "r").exists()
    made = sanitize(table, out=tmp_path / "p", **words)
    assert made.card.earlier_releases["count"] == 0
    assert verify(tmp_path / "p").ok
    with pytest.raises(UsageError, match="that is no row"):
        made.save(tmp_path / "r", format=format)
