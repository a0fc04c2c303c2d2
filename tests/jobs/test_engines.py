"""Engines: the same fit, every row once, in an order that says nothing; a run that fails leaves nothing behind."""

from __future__ import annotations

import errno
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from sfumato.core.errors import OutputError, TableError
from sfumato.core.progress import silent
from sfumato.ledger import Ledger
from sfumato.mechanisms import make_mechanism
from sfumato.mechanisms.base import Given, Phase, Rows
from sfumato.noise import Streams
from sfumato.release import shuffle as shuffle_module
from sfumato.release import source as source_module
from sfumato.release.engine import Work, release_blocks
from sfumato.release.sanitize import Options, sanitize
from sfumato.release.shuffle import MemoryShuffle
from sfumato.release.source import Source, block_rows_for, play
from sfumato.release.write_release import InMemory, Layout
from sfumato.table import Column, Encoding, Schema, open_table

ROWS, BLOCK = 500, 64


def numeric(name: str) -> Column:
    return Column(name, "numeric", low=-1.0, high=3.0, source="public", reason="the instrument's range")


COLOURS = Column("colour", "categorical", categories=("red", "green", "blue"), source="public", reason="the catalogue")
LABEL = Column("ill", "categorical", role="label", categories=("no", "yes"), source="public", reason="a diagnosis")
PERSON = Column("who", "categorical", role="person")
NUMBERS = Schema((numeric("a"), numeric("b"), numeric("c"), LABEL))
MIXED = Schema((numeric("a"), numeric("b"), COLOURS, numeric("c"), LABEL))


@pytest.fixture(scope="module")
def table() -> pa.Table:
    rng = np.random.default_rng(5)
    a = rng.uniform(-1, 2.5, ROWS)
    return pa.table(
        {
            "a": a,
            "b": np.clip(a + 0.3 * rng.normal(size=ROWS), -1, 3),
            "c": rng.uniform(-1, 3, ROWS),
            "colour": rng.choice(["red", "green", "blue"], ROWS),
            "who": rng.choice([f"person {i}" for i in range(ROWS // 5)], ROWS),
            "ill": rng.choice(["no", "yes"], ROWS),
        }
    )


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many blocks and many buckets, though the table is small."""
    monkeypatch.setattr(source_module, "block_rows_for", lambda width: BLOCK)  # noqa: ARG005
    monkeypatch.setattr(shuffle_module, "MOST_BUCKET_ROWS", 50)


def trace(folder: Path) -> np.ndarray:
    return pq.read_table(folder / "trace.parquet")["source"].to_numpy()


# -- fits -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "parameters", "schema"),
    [
        ("principal-laplace", {"components": 2}, MIXED),
        ("principal-laplace", {"components": 2, "component_bounds": "data"}, MIXED),
        ("additive-noise", {"law": "laplace", "scale": 0.2}, MIXED),
        ("random-projection", {}, NUMBERS),
    ],
    ids=["principal-laplace", "principal-laplace as published", "additive-noise", "random-projection"],
)
def test_merged_streamed_and_one_pass_fits_agree(table, name, parameters, schema):
    encoding = Encoding(schema)
    X = encoding.encode(table).X
    mechanisms = {way: make_mechanism(name, dict(parameters)) for way in ("one pass", "streamed", "merged")}
    first = mechanisms["one pass"]
    key = first.draw_key(encoding) if first.needs_key else None
    first.fit(X, encoding=encoding, key=key)
    source = Source(open_table(table), encoding, block_rows=37)
    given = Given(encoding, key, Streams())
    rows = play(mechanisms["streamed"].phases(given), source, Ledger().fingerprint(encoding.width), silent)
    merged = mechanisms["merged"]
    for phase in merged.phases(given):
        phase.finish(phase.observe(Rows(X[300:], None)) + phase.observe(Rows(X[:300], None)))
    assert rows == ROWS
    for other in (mechanisms["streamed"], merged):
        assert_allclose(other.embed(X), first.embed(X), atol=1e-10)
        assert_allclose(
            [channel.added_moments[0] for channel in other.recipe_.channels],
            [channel.added_moments[0] for channel in first.recipe_.channels],
        )
        assert other.guarantee().record == pytest.approx(first.guarantee().record, rel=1e-9)


def test_phases_are_played_in_order_and_paid_before_the_first_noise(table):
    encoding, happened = Encoding(NUMBERS), []

    def phases():
        yield Phase("free", lambda rows: len(rows.X), lambda found: happened.append(("free", found)))
        for _ in range(2):
            paid = partial(happened.append, "paid")
            yield Phase("paid", lambda rows: len(rows.X), lambda _, paid=paid: paid(), is_paid_before=True)
        happened.append("asked for more")

    source = Source(open_table(table), encoding, block_rows=37)
    fingerprint = Ledger().fingerprint(encoding.width)
    assert play(phases(), source, fingerprint, silent, lambda: happened.append("charged")) == ROWS
    assert happened == [("free", ROWS), "charged", "paid", "paid", "asked for more"]


def test_both_engines_read_the_same_rows(table, tmp_path):
    """The ledger knows the rows again, whichever engine read them."""
    sanitize(table, tmp_path / "memory", Options(schema=MIXED, engine="memory"))
    second = sanitize(table.take(np.arange(ROWS)[::-1]), tmp_path / "stream", Options(schema=MIXED, engine="stream"))
    assert second.card.earlier_releases["count"] == 1


def test_values_are_clipped_and_counted_once_in_every_engine(table, tmp_path):
    shifted = table.set_column(0, "a", pa.array(table["a"].to_numpy() + 1.0))
    outside = int((shifted["a"].to_numpy() > 3).sum())
    assert outside > 0
    for engine in ("memory", "stream"):
        done = sanitize(shifted, tmp_path / engine, Options(schema=MIXED, engine=engine))
        assert done.clipped == {"a": outside}


def test_a_bad_cell_is_named_by_its_row_in_the_whole_table(table, tmp_path):
    values = table["c"].to_numpy().copy()
    values[321] = np.inf
    with pytest.raises(TableError, match=r"'c' is infinite in row 322"):
        sanitize(table.set_column(2, "c", pa.array(values)), tmp_path / "out", Options(schema=MIXED, engine="stream"))
    assert list(tmp_path.iterdir()) == []


# -- rows, once and shuffled ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["memory", "stream"])
@pytest.mark.parametrize("mechanism", ["principal-laplace", "additive-noise"])
def test_every_row_is_released_once_beside_its_own_label(table, tmp_path, engine, mechanism):
    options = Options(mechanism=mechanism, schema=MIXED, engine=engine)
    card = sanitize(table, tmp_path / "out", options).card
    order = trace(tmp_path / "out")
    release = pq.read_table(tmp_path / "out" / "release.parquet")
    assert_array_equal(np.sort(order), np.arange(ROWS))
    assert card.rows == release.num_rows == ROWS
    assert release["ill"].to_pylist() == table["ill"].take(order).to_pylist()


@pytest.mark.parametrize("engine", ["memory", "stream"])
def test_released_values_belong_to_the_row_that_the_trace_names(table, tmp_path, engine):
    """With next to no noise the release is the table again, in the order of the trace."""
    options = Options(
        mechanism="additive-noise", parameters={"scale": 1e-6, "noise": "float"}, schema=NUMBERS, engine=engine
    )
    sanitize(table, tmp_path / "out", options)
    order = trace(tmp_path / "out")
    release = pq.read_table(tmp_path / "out" / "release.parquet")
    for name in "abc":
        assert_allclose(release[name], table[name].to_numpy()[order], atol=1e-3)


@pytest.mark.parametrize("engine", ["memory", "stream"])
def test_the_order_is_shuffled_anew_in_every_run(table, tmp_path, engine):
    def order(name: str, seed: int | None) -> list[int]:
        sanitize(table, tmp_path / name, Options(schema=MIXED, engine=engine, seed=seed))
        return trace(tmp_path / name).tolist()

    first, second = order("first", None), order("second", None)
    assert first != second
    # ranks of source and place are uncorrelated: 0.045 is the standard error at 500 rows
    assert abs(np.corrcoef(first, np.arange(ROWS))[0, 1]) < 0.25
    assert order("third", 7) == order("fourth", 7) != order("fifth", 8)


# -- noise ------------------------------------------------------------------------------------------------------------


class InOrder(MemoryShuffle):
    """No shuffle, so that a test sees blocks as they were perturbed."""

    def blocks(self, rng):  # noqa: ARG002
        yield from self._blocks


def perturbed(mechanism, source: Source, streams: Streams) -> list[np.ndarray]:
    work = Work(Layout(mechanism, source.encoding), source, streams, None, InMemory(), ROWS, silent)
    return [block.X for block in release_blocks(work, InOrder())]


@pytest.mark.parametrize("noise", ["exact", "float"])
def test_blocks_of_equal_content_never_share_noise_and_a_retry_repeats_it(table, noise):
    encoding = Encoding(MIXED)
    twice = pa.concat_tables([table.slice(0, BLOCK)] * 2)
    mechanism = make_mechanism("principal-laplace", {"noise": noise, "components": 2})
    mechanism.fit(encoding.encode(twice).X, encoding=encoding)
    source = Source(open_table(twice), encoding, block_rows=BLOCK)
    key = bytes(range(32))
    first, second = perturbed(mechanism, source, Streams(key))
    assert not np.isclose(first, second, rtol=0, atol=1e-9).any()
    for again, block in zip(perturbed(mechanism, source, Streams(key)), (first, second), strict=True):
        assert_array_equal(again, block)
    other = perturbed(mechanism, source, Streams(bytes(reversed(key))))[0]
    assert not np.isclose(first, other, rtol=0, atol=1e-9).any()


def test_one_changed_cell_changes_the_noise_of_its_whole_block(table):
    """Two releases of two versions of a block cannot be subtracted."""
    encoding = Encoding(NUMBERS)
    mechanism = make_mechanism("additive-noise", {"scale": 0.3, "noise": "float"})
    X = encoding.encode(table).X
    mechanism.fit(X, encoding=encoding)
    values = table["c"].to_numpy().copy()
    values[3] += 0.001
    changed = table.set_column(2, "c", pa.array(values))

    def blocks(source: pa.Table) -> list[np.ndarray]:
        return perturbed(mechanism, Source(open_table(source), encoding, block_rows=BLOCK), Streams.seeded(1))

    before, after = blocks(table), blocks(changed)
    assert not np.isclose(before[0], after[0], rtol=0, atol=1e-6).any()
    assert_array_equal(before[1], after[1])


def test_memory_and_stream_give_the_same_noise_with_the_same_seed(table, tmp_path):
    """Who calls `perturb` does not matter: only the order, drawn by another shuffle, differs."""
    releases = []
    for engine in ("memory", "stream"):
        sanitize(table, tmp_path / engine, Options(schema=MIXED, engine=engine, seed=4))
        release = pq.read_table(tmp_path / engine / "release.parquet")
        back = np.argsort(trace(tmp_path / engine))
        releases.append(np.column_stack([release[name].to_numpy()[back] for name in release.column_names[:-1]]))
    assert_allclose(releases[0], releases[1], rtol=0, atol=1e-12)


# -- persons ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["memory", "stream"])
def test_the_cap_of_rows_per_person_counts_across_blocks(table, tmp_path, engine):
    schema = Schema((*MIXED.columns, PERSON))
    card = sanitize(table, tmp_path / "out", Options(schema=schema, engine=engine, max_rows_per_person=2)).card
    seen: dict[str, int] = {}
    expected = []
    for row, person in enumerate(table["who"].to_pylist()):
        seen[person] = seen.get(person, 0) + 1
        if seen[person] <= 2:
            expected.append(row)
    assert len(expected) < ROWS
    assert np.sort(trace(tmp_path / "out")).tolist() == expected
    assert card.rows == len(expected)


# -- failures leave nothing -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["memory", "stream"])
@pytest.mark.parametrize("step", ["Reading", "Perturbing", "Writing"])
def test_an_interrupted_run_leaves_nothing(table, tmp_path, engine, step):
    def interrupt(now: str, done: int, total: int | None) -> None:  # noqa: ARG001
        if now == step:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sanitize(table, tmp_path / "out", Options(schema=MIXED, engine=engine), interrupt)
    assert list(tmp_path.iterdir()) == []


def full(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize(
    ("owner", "name"),
    [(pq.ParquetWriter, "write_table"), (shuffle_module, "private_opener")],
    ids=["release", "shuffle"],
)
def test_a_full_disk_leaves_nothing_and_says_so(table, tmp_path, monkeypatch, owner, name):
    monkeypatch.setattr(owner, name, full)
    with pytest.raises(OutputError, match="is full"):
        sanitize(table, tmp_path / "out", Options(schema=MIXED, engine="stream"))
    assert list(tmp_path.iterdir()) == []


def test_an_old_release_survives_a_run_that_fails(table, tmp_path, monkeypatch):
    sanitize(table, tmp_path / "out", Options(schema=MIXED, engine="stream"))
    before = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    monkeypatch.setattr(pq.ParquetWriter, "write_table", full)
    with pytest.raises(OutputError, match="is full"):
        sanitize(table, tmp_path / "out", Options(schema=MIXED, engine="stream", force=True))
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == before
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


# -- blocks -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [1, 3, 20, 100, 1000, 100_000])
def test_blocks_fit_a_fixed_memory_however_wide_the_table_is(width):
    rows = block_rows_for(width)
    assert rows & (rows - 1) == 0
    assert rows * width <= max(source_module.BLOCK_CELLS, 256 * width)
