"""Files from somebody without scruples: each is refused in words, in a child process that can do no harm."""

import dataclasses
import json
import os
import struct
from pathlib import Path

import consortium
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from consortium import rewritten

from sfumato.guarantee import Card
from sfumato.release.sanitize import Options, sanitize
from sfumato.study.server.validation.checker_pool import Limits, ValidationPool
from sfumato.study.server.validation.file_checks import check_release, check_table
from sfumato.table import Schema

DEFINITION = consortium.study().to_dict()
ANYTHING = consortium.study(guarantee="empirical-allowed").to_dict()


@pytest.fixture
def verdict(tmp_path):
    """The check itself, without the child around it: quick."""

    def check(body, definition=DEFINITION, **limits):
        path = tmp_path / "pushed"
        path.write_bytes(body)
        return check_release(path, definition, Limits(**limits))

    return check


def refused(found, words):
    assert found.objections, "it was accepted"
    assert words in found.objections[0], found.objections
    assert found.card == {}


def edited(**changes):
    """A card edited by hand."""

    def edit(text):
        card = json.loads(text)
        for path, value in changes.items():
            *way, last = path.split("__")
            place = card
            for step in way:
                place = place[int(step) if isinstance(place, list) else step]
            place[int(last) if isinstance(place, list) else last] = value
        return json.dumps(card).encode()

    return edit


def set_cell(name, value):
    def change(table):
        position = table.schema.get_field_index(name)
        cells = table[name].to_pylist()
        cells[7] = value
        return table.set_column(position, name, pa.array(cells, table.schema.field(name).type))

    return change


def test_an_honest_release_passes_with_what_was_recomputed(verdict, body):
    found = verdict(body)
    assert found.objections == []
    assert found.rows == 60
    assert found.epsilon == pytest.approx(8.0, rel=1e-6)
    assert found.card["rows"] == 60


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("mechanism", "parameters"),
    [
        ("condensation", {"k": 5}),
        ("principal-laplace", {}),
        ("principal-laplace", {"basis": "identity", "b": 3.0}),
        ("random-rotation", {}),
        ("random-rotation", {"noise": "laplace", "scale": 4.0}),
        ("random-projection", {}),
        ("kernel-resampling", {}),
        ("additive-noise", {"law": "normal"}),
        ("additive-noise", {"law": "student-t", "df": 2.5}),
    ],
    ids=str,
)
def test_releases_of_every_kind_pass_where_the_study_allows(verdict, tmp_path, mechanism, parameters):
    body = consortium.release(tmp_path, mechanism=mechanism, parameters=parameters, private_label=True, rows=400)
    card = Card.load(tmp_path / "release")
    asked = consortium.study(guarantee="empirical-allowed", mechanism={"name": mechanism}, space=card.space)
    found = verdict(body, asked.to_dict())
    assert found.objections == []
    assert (found.epsilon is None) == (not card.is_formal)


def test_what_is_kept_of_a_card_is_worded_from_its_figures(verdict, body, tmp_path):
    """`guarantee.words` of a pushed card is anybody's text, of any length."""
    found = verdict(rewritten(body, tmp_path, card=edited(guarantee__words="Perfectly safe. " * 10_000)))
    assert found.objections == []
    assert found.card["guarantee"]["words"].startswith(
        "Practically unprotected, formally bounded: epsilon 8. Proved: whatever the other rows teach"
    )
    assert "Perfectly safe" not in json.dumps(found.card)


@pytest.mark.parametrize(
    ("card", "words"),
    [
        (edited(rows=61), "another number of rows"),
        (edited(guarantee__sentence="x" * 5001), "schema at guarantee.sentence"),
        (edited(threat_model__adversary=["x"] * 51), "schema at threat_model.adversary"),
        (edited(earlier_releases={"count": 1, "total_epsilon_record": 0.1}), "total of all releases"),
        (edited(rows=10**12), "another number of rows"),
        (edited(version=3), "version 3"),
        (edited(version=1), "version 1"),
        (edited(format="other"), "schema at format"),
        (edited(source_schema__columns__0__high=100), "'high' differs"),
        (edited(release_schema__label__classes=["yes", "no"]), "classes of the column to predict"),
        (edited(space="sha256:" + "0" * 64), "another space"),
        (edited(mechanism__name="condensation"), "another mechanism"),
        (edited(guarantee__epsilon_record=0.5), "contradicts itself"),
        (edited(recipe__channels__0__noise__scale=2**-30, recipe__channels__0__grid=2**-40), "states less"),
        (
            edited(recipe__channels__0__noise={"law": "laplace", "scale": "big"}),
            "channel (additive) that is impossible",
        ),
        (edited(recipe__channels__0={"channel": "exact", "columns": 10**400}), "channel (exact) that is impossible"),
        (edited(recipe__channels__0={"channel": "tidal"}), "channel that does not exist"),
        (edited(recipe__channels__2={"channel": "additive", "noise": {"law": "laplace", "scale": 1}}), "do not fit"),
        (edited(release_schema__columns__0__name="years"), "not those of its card"),
        (edited(release_schema__columns=[]), "schema at release_schema.columns"),
        (lambda _: b"", "not valid JSON"),
        (lambda _: b"{}", "schema at"),
        (lambda _: b'{"rows": Infinity}', "not valid JSON"),
        (lambda _: b"[" * 200_000, "not valid JSON"),
        (lambda text: text.replace(b'"rows": 60', b'"rows": 6e1000'), ""),
    ],
)
def test_a_card_that_lies_or_is_damaged(verdict, body, tmp_path, card, words):
    refused(verdict(rewritten(body, tmp_path, card=card)), words)


def test_a_card_that_claims_less_in_every_place_at_once(verdict, tmp_path):
    """Guarantee edited consistently; then also the noise: the rows themselves tell."""
    body = consortium.release(tmp_path, parameters={"scale": 0.1}, rows=2000)
    card = Card.load(tmp_path / "release")
    strong = consortium.release(tmp_path, parameters={"epsilon_record": 8.0}, rows=2000)
    honest = Card.load(tmp_path / "release").to_dict()
    claim = dataclasses.replace(card.stated_guarantee(), component=1.0, column=1.0, record=3.0)
    data = {**card.to_dict(), "guarantee": claim.to_dict()}
    refused(verdict(rewritten(body, tmp_path, card=lambda _: json.dumps(data).encode())), "states less")
    assert verdict(strong).objections == []
    weak_rows_strong_card = rewritten(body, tmp_path, card=lambda _: json.dumps(honest).encode())
    refused(verdict(weak_rows_strong_card), "vary less than the noise")


@pytest.mark.parametrize("value", [1e6, -1e6, 1e308, 6000.0])
def test_one_cell_that_noise_cannot_have_made_is_refused_by_its_place(verdict, body, tmp_path, value):
    """One of them among 1,600 rows takes naive Bayes from an error of .11 to .61."""
    found = verdict(rewritten(body, tmp_path, change=set_cell("age", value)))
    refused(found, "row 8, column 'age'")
    assert f"{value:g}" not in found.objections[0]
    assert "1e-09" in found.objections[0]


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_cell_that_is_no_number_is_named_by_its_place(verdict, body, tmp_path, value):
    refused(verdict(rewritten(body, tmp_path, change=set_cell("age", value))), "row 8, column 'age'")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), None])
def test_cells_that_are_no_numbers(verdict, body, tmp_path, value):
    assert verdict(rewritten(body, tmp_path, change=set_cell("age", value))).objections
    if value is not None:  # an empty weight is what its schema expects
        assert verdict(rewritten(body, tmp_path, change=set_cell("weight", value))).objections


@pytest.mark.parametrize(("column", "value"), [("ill", "perhaps"), ("ill", None), ("sex", "<b>"), ("sex", None)])
def test_labels_and_categories_that_nobody_knows(verdict, body, tmp_path, column, value):
    found = verdict(rewritten(body, tmp_path, change=set_cell(column, value)))
    assert found.objections
    assert "<b>" not in found.objections[0]
    assert "perhaps" not in found.objections[0]


@pytest.mark.parametrize(
    "change",
    [
        lambda table: table.append_column("name", pa.array(["Mary"] * 60)),
        lambda table: table.drop_columns(["age"]),
        lambda table: table.select(["weight", "age", "sex", "ill"]),
        lambda table: table.rename_columns(["age", "weight", "sex", "../ill"]),
    ],
)
def test_columns_that_the_card_does_not_name(verdict, body, tmp_path, change):
    refused(verdict(rewritten(body, tmp_path, change=change)), "columns are not those of its card")


@pytest.mark.parametrize(
    "cells",
    [
        pa.array([[1.0]] * 60),
        pa.array([{"a": 1}] * 60),
        pa.array([b"x"] * 60),
        pa.array(["x"] * 60).dictionary_encode(),
    ],
    ids=lambda cells: str(cells.type),
)
def test_types_that_no_release_has(verdict, body, tmp_path, cells):
    assert verdict(rewritten(body, tmp_path, change=lambda table: table.set_column(0, "age", cells))).objections


def test_text_where_numbers_should_be(verdict, body, tmp_path):
    wild = rewritten(body, tmp_path, change=lambda table: table.set_column(0, "age", pa.array(["=cmd()"] * 60)))
    found = verdict(wild)
    assert found.objections
    assert "cmd" not in found.objections[0]


def test_a_release_that_anybody_can_repeat(verdict, tmp_path):
    schema = Schema.from_dict({"columns": consortium.COLUMNS})
    options = Options(mechanism="additive-noise", schema=schema, parameters={"epsilon_record": 8.0}, seed=5)
    sanitize(consortium.people(), tmp_path / "seeded", options)
    refused(verdict((tmp_path / "seeded" / "release.parquet").read_bytes(), ANYTHING), "fixed seed")


def test_files_without_a_card_or_with_a_huge_one(verdict, body, tmp_path):
    path = tmp_path / "bare.parquet"
    pq.write_table(pa.table({"age": [1.0]}), path)
    refused(verdict(path.read_bytes()), "contains no card")
    padded = rewritten(body, tmp_path, card=lambda text: text + b" " * 10_000)
    refused(verdict(padded, card_bytes=10_000), "more than 10000 bytes")
    refused(verdict(padded, card_bytes=2_000), "not a Parquet file")  # nothing that long is even unpacked


def test_a_file_with_another_card_for_other_readers(verdict, body, tmp_path):
    """Arrow's readers see the words of Arrow's own schema, Parquet's those of the footer: who trains must see ours."""
    path = tmp_path / "two.parquet"
    path.write_bytes(body)
    table = pq.read_table(path)
    text = table.schema.metadata[b"sfumato.card"]
    for arrows in ({b"sfumato.card": edited(rows=61)(text)}, None):
        with pq.ParquetWriter(path, table.schema.with_metadata(arrows)) as writer:
            writer.write_table(table.replace_schema_metadata(arrows))
            writer.add_key_value_metadata({"sfumato.card": text.decode()})
        refused(verdict(path.read_bytes()), "two cards")


@pytest.mark.parametrize("place", ["file", "column"])
def test_words_of_another_program_beside_the_rows(verdict, body, tmp_path, place):
    def carrying(table):
        words = {b"note": b"seen at St. Mary"}
        return table.cast(table.schema.set(0, table.schema.field(0).with_metadata(words)))

    path = tmp_path / "more.parquet"
    path.write_bytes(rewritten(body, tmp_path, carrying if place == "column" else None))
    if place == "file":
        table = pq.read_table(path)
        pq.write_table(table.replace_schema_metadata({**table.schema.metadata, b"pandas": b"{}"}), path)
    refused(verdict(path.read_bytes()), "more than rows and card")


def test_limits_on_rows_and_row_groups(verdict, body, tmp_path):
    refused(verdict(body, rows=59), "more than 59 rows")
    refused(verdict(rewritten(body, tmp_path, row_group_size=1), row_groups=10), "row groups")
    refused(verdict(body, row_group_bytes=100), "row group")


def test_damage_anywhere_is_a_refusal_and_never_a_crash(verdict, body):
    """Bytes flipped and cut at many places; what still reads as the same release may pass."""
    rng = np.random.default_rng(5)
    for _ in range(150):
        damaged = bytearray(body)
        for position in rng.integers(0, len(body), 3):
            damaged[position] ^= int(rng.integers(1, 256))
        verdict(bytes(damaged))
    for length in rng.integers(0, len(body), 30):
        assert verdict(body[:length]).objections


# Bombs, in the child that they are meant for


@pytest.fixture(scope="module")
def pool(tmp_path_factory):
    pool = ValidationPool(1, Limits(seconds=3, memory=1 << 30), tmp_path_factory.getbasetemp())
    yield pool
    pool.close()


def bomb(body, tmp_path, rows=900_000):
    """Few bytes that unpack to very many: columns of zeros, and a card that speaks of them."""
    zeros = pa.array(np.zeros(rows))
    table = pa.table({"age": zeros, "weight": zeros, "sex": pa.array(["f"] * rows), "ill": pa.array(["no"] * rows)})
    card = json.loads(pq.read_metadata(_at(body, tmp_path)).metadata[b"sfumato.card"])
    metadata = {b"sfumato.card": json.dumps({**card, "rows": rows}).encode()}
    out = tmp_path / "bomb.parquet"
    pq.write_table(table.replace_schema_metadata(metadata), out, compression="zstd", use_dictionary=False)
    return out.read_bytes()


def _at(body, tmp_path):
    path = tmp_path / "here.parquet"
    path.write_bytes(body)
    return path


def test_a_file_that_unpacks_to_a_thousand_times_its_size(pool, body, tmp_path):
    packed = bomb(body, tmp_path)
    assert len(packed) < 100_000
    found = pool.check("release", _at(packed, tmp_path), DEFINITION)
    refused(found, "hundredfold")


def test_a_page_that_claims_to_be_huge_kills_nobody_but_the_child(pool, body, tmp_path):
    """Sizes in page headers are changed to two gigabytes: whatever the reader does, the server lives."""
    survivors = 0
    for position in range(4, len(body) - 8, 97):
        damaged = bytearray(body)
        damaged[position : position + 5] = struct.pack("<Ib", 0xFFFFFFFF, 0x07)
        found = pool.check("release", _at(bytes(damaged), tmp_path), DEFINITION)
        survivors += not found.objections
    assert pool.check("release", _at(body, tmp_path), DEFINITION).objections == []
    assert survivors <= len(body) // 97


@pytest.mark.system
def test_a_child_that_died_before_decides_nothing(tmp_path, body):
    pool = ValidationPool(1, Limits(seconds=60), tmp_path)
    path = _at(body, tmp_path)
    assert pool.check("release", path, DEFINITION).objections == []
    os.kill(pool._idle[0]._process.pid, 9)
    assert pool.check("release", path, DEFINITION).objections == []  # a new one took its place
    pool.close()


def test_children_are_started_before_they_are_needed_and_not_after_the_end(tmp_path):
    pool = ValidationPool(2, Limits(seconds=60), tmp_path)
    for _ in range(2):
        pool.warm()
        assert len(pool._idle) == 2
    pool.close()
    pool.warm()
    assert pool._idle == []


@pytest.mark.system
def test_a_child_that_hangs_has_refused(tmp_path, body, monkeypatch):
    pool = ValidationPool(1, Limits(seconds=60), tmp_path)
    path = _at(body, tmp_path)
    pool.check("release", path, DEFINITION)
    (child,) = pool._idle
    os.kill(child._process.pid, 19)  # stopped
    monkeypatch.setattr(pool, "limits", Limits(seconds=-120))  # no time at all
    refused(pool.check("release", path, DEFINITION), "within the memory and time")
    assert child._process.poll() is not None
    assert pool._idle == []


def test_a_child_has_no_secrets_and_little_of_everything(body, tmp_path, monkeypatch):
    monkeypatch.setenv("SFUMATO_DATABASE", "postgresql://me:hunter2@x/y")
    pool = ValidationPool(1, Limits(memory=1 << 30, seconds=7), tmp_path)
    pool.check("release", _at(body, tmp_path), DEFINITION)
    process = pool._idle[0]._process.pid
    about = Path(f"/proc/{process}")
    assert b"hunter2" not in (about / "environ").read_bytes()
    found = {line[:25].strip(): line[25:46].strip() for line in (about / "limits").read_text().splitlines()}
    assert found["Max address space"] == str(1 << 30)
    assert found["Max file size"] == "0"
    assert int(found["Max cpu time"]) < 60
    pool.close()
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


def test_a_file_that_needs_too_much_memory_is_refused(body, tmp_path):
    pool = ValidationPool(1, Limits(memory=64 << 20, expansion=1e9), tmp_path)  # less than the child has taken already
    found = pool.check("release", _at(bomb(body, tmp_path), tmp_path), DEFINITION)
    assert "memory" in found.objections[0]
    pool.close()


@pytest.mark.parametrize(
    "rows",
    [
        "age,weight,sex,ill\n1,2,f,",
        "age,weight,sex\n1,2,f",
        "age,weight,sex,ill\nx,2,f,no\n",
        "",
        "PAR1PAR1",
        "\x00\x01",
    ],
)
def test_test_tables_that_do_not_fit(tmp_path, rows):
    path = tmp_path / "t.csv"
    path.write_text(rows)
    found = check_table(path, DEFINITION, Limits())
    assert found.objections
    assert str(tmp_path) not in found.objections[0]
