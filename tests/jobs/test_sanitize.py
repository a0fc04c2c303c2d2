"""A table in, a folder out: what lies in it, who can read it, and what its card may claim."""

import json
import math
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow.parquet as pq
import pytest
from scipy import stats

from sfumato.auditing.report.page import write_certificate
from sfumato.core.errors import CardError, OutputError, PrivacyLeakWarning, SfumatoError, UsageError
from sfumato.guarantee import Card, Key
from sfumato.guarantee.card import recomputed
from sfumato.guarantee.words import card_in_words
from sfumato.release.release import Release
from sfumato.release.sanitize import Options, sanitize
from sfumato.release.write_release import CARD_METADATA
from sfumato.table import Column, Schema

PUBLIC = {"source": "public", "reason": "known from the form"}


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(0)
    n = 400
    return pd.DataFrame(
        {
            "age": rng.integers(18, 90, n),
            "height": np.where(rng.random(n) < 0.1, np.nan, rng.normal(170, 10, n).clip(140, 210)),
            "colour": rng.choice(["red", "green", "blue"], n),
            "visit": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 700, n), unit="D"),
            "ill": rng.choice(["no", "yes"], n),
            "who": np.arange(n) // 4,
        },
        index=pd.Index(np.arange(n) + 1000, name="hidden_index"),
    )


def schema_of_people():
    return (
        Column("age", "integer", low=0, high=120, **PUBLIC),
        Column("height", "numeric", low=100, high=250, missing=True, **PUBLIC),
        Column("colour", "categorical", categories=("red", "green", "blue", "grey"), **PUBLIC),
        Column("visit", "date", low="2020-01-01", high="2021-12-31", **PUBLIC),
        Column("ill", "categorical", role="label", categories=("no", "yes"), **PUBLIC),
        Column("who", "integer", role="identifier"),
    )


@pytest.fixture
def schema():
    return Schema(schema_of_people())


@pytest.fixture
def run(people, schema, tmp_path):
    """Sanitize the people by the public schema; words as in `Options`."""

    def sanitized(table=None, *, out="out", **words):
        table = people if table is None else table
        return sanitize(table, tmp_path / out, Options(**{"schema": schema, "mechanism": "additive-noise", **words}))

    return sanitized


def modes(folder):
    return {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()}


def test_files_and_who_can_read_them(run, tmp_path):
    done = run()
    public = dict.fromkeys(("release.parquet", "card.json", "signed.txt", "signed.txt.sig"), 0o644)
    assert modes(tmp_path / "out") == {**public, "trace.parquet": 0o600}
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o755
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert Card.load(tmp_path / "out") == done.card
    run(out="csv", format="csv")
    assert "release.csv" in modes(tmp_path / "csv")
    run(out="projected", mechanism="random-projection")
    assert modes(tmp_path / "projected")["key.json"] == 0o600


def test_the_parquet_file_holds_the_card_and_nothing_of_pandas(run, tmp_path):
    run()
    file = pq.ParquetFile(tmp_path / "out" / "release.parquet")
    metadata = dict(file.schema_arrow.metadata)
    assert list(metadata) == [CARD_METADATA]
    assert json.loads(metadata[CARD_METADATA]) == json.loads((tmp_path / "out" / "card.json").read_text())
    text = (tmp_path / "out" / "release.parquet").read_bytes()
    assert b"hidden_index" not in text
    assert b"pandas" not in text
    assert all(file.metadata.row_group(0).column(i).statistics is None for i in range(5))


def test_a_release_is_read_by_pandas_and_polars_with_the_label_last(run, tmp_path):
    run()
    for read in (pd.read_parquet, pl.read_parquet):
        table = read(tmp_path / "out" / "release.parquet")
        assert list(table.columns) == ["age", "height", "colour", "visit", "ill"]
        assert len(table) == 400
        assert set(table["ill"]) == {"no", "yes"}
    run(out="mixed", mechanism="principal-laplace")
    assert list(pd.read_parquet(tmp_path / "mixed" / "release.parquet").columns) == [
        "c000",
        "c001",
        "c002",
        "c003",
        "ill",
    ]


def test_rows_are_shuffled_and_only_the_trace_knows_how(run, people, tmp_path):
    run(parameters={"scale": 1e-6, "category_epsilon": 40})
    release = pd.read_parquet(tmp_path / "out" / "release.parquet")
    source = pd.read_parquet(tmp_path / "out" / "trace.parquet")["source"].to_numpy()
    assert sorted(source) == list(range(400))
    assert (np.diff(source) == 1).mean() < 0.05
    assert np.abs(release["age"].to_numpy() - people["age"].to_numpy()[source]).max() < 0.1
    assert (release["ill"].to_numpy() == people["ill"].to_numpy()[source]).all()


def test_like_original_gives_the_sources_kinds(run, tmp_path):
    for name, mechanism in (("a", "additive-noise"), ("b", "principal-laplace")):
        card = run(out=name, mechanism=mechanism, like_original=True).card
        table = pq.read_table(tmp_path / name / "release.parquet")
        assert [str(field.type) for field in table.schema] == ["int64", "double", "string", "date32[day]", "string"]
        frame = table.to_pandas()
        assert frame["age"].between(0, 120).all()
        assert frame["height"].dropna().between(100, 250).all()
        assert card.post_processing == "like-original"
        assert not any(channel.is_stated for channel in card.made_by().channels)
    with pytest.raises(UsageError, match="secret key"):
        run(out="c", mechanism="random-projection", like_original=True)


def test_public_schema_and_exact_noise_are_formal(run):
    stated = run(parameters={"epsilon_record": 2.0}).card.guarantee
    assert stated["kind"] == "local-dp"
    assert stated["epsilon_record"] == pytest.approx(2)
    assert stated["conditional_epsilon"] is None
    basis = run(out="b", mechanism="principal-laplace", parameters={"basis": "identity"}).card
    assert basis.guarantee["kind"] == "local-dp"
    assert basis.learned_from_data == []


@pytest.mark.parametrize(
    "words",
    [
        {"schema": None, "label": "ill"},
        {"parameters": {"noise": "float"}},
        {"mechanism": "principal-laplace"},
        {"seed": 1},
        {"parameters": {"law": "student-t"}},
    ],
    ids=str,
)
def test_anything_learned_or_inexact_is_empirical_with_a_conditional_figure(run, people, words):
    table = people.drop(columns="who")
    with pytest.warns(PrivacyLeakWarning) if "schema" in words else nullcontext():
        card = run(table if "schema" in words else None, **words).card
    stated = card.guarantee
    assert stated["kind"] == "empirical-only"
    assert stated["epsilon_record"] is None
    assert stated["conditional_epsilon"]["record"] > 0
    assert stated["in_the_way"]
    assert set(card.learned_from_data) <= {*stated["in_the_way"], "classes of the label 'ill'"}


def test_a_private_label_is_randomized_and_counted(run, people, tmp_path):
    many = pd.concat([people] * 20, ignore_index=True)
    done = run(many, private_label=True, label_epsilon=1.5, parameters={"epsilon_record": 2.0})
    card, keep = done.card, math.exp(1.5) / (1 + math.exp(1.5))
    assert card.label == "randomized"
    assert card.release_schema["label"] == {"name": "ill", "classes": ["no", "yes"], "keep": pytest.approx(keep)}
    assert card.guarantee["epsilon_record"] == pytest.approx(3.5)
    assert card.guarantee["label_epsilon"] == pytest.approx(1.5)
    assert not any("exactly as it was" in words for words in card.threat_model["not_protected"])
    released = Release.open(tmp_path / "out")
    kept = int(((many["ill"].to_numpy()[released.source] == "yes") == released.y).sum())
    assert stats.binomtest(kept, len(many), keep).pvalue > 1e-9
    assert stats.binomtest(kept, len(many), 1 - 1.3 * (1 - keep)).pvalue < 1e-9
    assert run(out="exact").card.label == "exact"


def test_a_seed_repeats_everything_and_is_never_for_release(run, tmp_path):
    cards = [run(out=name, seed=5, ledger=tmp_path / f"{name}.ledger").card for name in ("a", "b")]
    assert cards[0] == cards[1]
    for file in ("card.json", "release.parquet", "trace.parquet"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()
    assert cards[0].reproducible == "not for release"
    assert cards[0].earlier_releases["count"] == 0
    assert "seed" in " ".join(cards[0].guarantee["in_the_way"])
    assert run(out="c", seed=6).card != run(out="d").card
    assert (tmp_path / "c" / "release.parquet").read_bytes() != (tmp_path / "a" / "release.parquet").read_bytes()
    assert run(out="e").card.earlier_releases["count"] == 2  # a release with a seed can be seen as well


@pytest.mark.parametrize(
    "words",
    [
        {},
        {"engine": "stream"},
        {"seed": 4},
        {"mechanism": "random-rotation"},
        {"mechanism": "tree-resampling", "epsilon": 1.0},
        {"mechanism": "principal-laplace", "parameters": {"component_bounds": "data"}},
    ],
    ids=str,
)
def test_an_experiment_has_no_ledger_and_proves_nothing(run, tmp_path, people, words):
    ledger = tmp_path / "none" / "ledger"
    table = people.drop(columns=["height"])
    declared = Schema(tuple(column for column in schema_of_people() if column.name != "height"))
    for out in ("a", "b"):
        run(table, out=out, ledger=ledger, experiment=True, schema=declared, **words)
    assert not (tmp_path / "none").exists()
    assert {path.name for path in tmp_path.iterdir()} <= {"a", "b"}  # nor anything beside it
    card = Card.load(tmp_path / "b")
    assert card.reproducible == "not for release: an experiment"
    assert not card.is_formal
    assert "NOT FOR RELEASE: an experiment" in card_in_words(card)
    assert recomputed(card).proved == math.inf
    assert card.earlier_releases["count"] is None
    run(table, out="c", ledger=ledger, schema=declared)  # counted, and the first
    assert Card.load(tmp_path / "c").earlier_releases["count"] == 0
    with pytest.raises(CardError, match="not certified"):
        write_certificate(tmp_path / "b")


def test_an_experiment_needs_no_ledger_that_can_be_read(run, tmp_path):
    (tmp_path / "ledger").write_text("damaged")
    assert run(ledger=tmp_path / "ledger", experiment=True).card.reproducible
    with pytest.raises(SfumatoError, match="cannot be read"):
        run(out="counted", ledger=tmp_path / "ledger")


@pytest.mark.parametrize("words", [{"only_new": True}, {"resume": True, "engine": "stream"}], ids=str)
def test_an_experiment_cannot_be_held_against_what_was_released(run, words):
    with pytest.raises(UsageError, match="experiment"):
        run(experiment=True, **words)


def test_two_runs_never_draw_the_same_noise(run, tmp_path):
    for name in ("a", "b"):
        run(out=name)
    first, second = (Release.open(tmp_path / name) for name in ("a", "b"))
    one, two = (r.Z[np.argsort(r.source), 0] for r in (first, second))
    assert not np.isclose(one, two).any()


def test_the_ledger_counts_releases_of_the_same_people(run, people):
    first = run(out="a", parameters={"epsilon_record": 1.0}).card
    again = run(people.sample(frac=1, random_state=0), out="b", parameters={"epsilon_record": 2.0}).card
    fewer = run(people.iloc[:-1], out="c", parameters={"epsilon_record": 4.0}).card
    third = run(out="d", parameters={"law": "normal"}).card
    assert [card.earlier_releases["count"] for card in (first, again, fewer, third)] == [0, 1, 2, 3]
    totals = [card.earlier_releases["total_epsilon_record"] for card in (first, again, fewer, third)]
    assert totals == [pytest.approx(1), pytest.approx(3), pytest.approx(7), None]


def test_persons_are_capped_and_the_guarantee_is_theirs(run, schema, people, tmp_path):
    persons = Schema(tuple(replace(c, role="person") if c.name == "who" else c for c in schema.columns))
    capped = run(schema=persons, max_rows_per_person=3, parameters={"epsilon_record": 1.0}).card
    assert capped.rows == 300
    assert capped.guarantee["kind"] == "local-dp"
    assert capped.guarantee["rows_per_person"] == 3
    assert capped.guarantee["epsilon_person"] == pytest.approx(3)
    source = Release.open(tmp_path / "out").source
    assert np.bincount(people["who"].to_numpy()[source]).max() == 3
    counted = run(out="b", schema=persons).card
    assert counted.rows == 400
    assert counted.guarantee["kind"] == "empirical-only"
    assert counted.guarantee["rows_per_person"] == 4
    assert counted.guarantee["rows_per_person_learned"]
    assert '"who"' not in (tmp_path / "b" / "card.json").read_text()


def test_a_key_is_shared_by_two_sites_and_none_is_left_by_a_run_that_fails(run, people, tmp_path):
    key = tmp_path / "site.key"
    words = {"mechanism": "random-projection", "key": key}
    broken = people.assign(height="tall")
    with pytest.raises(Exception, match="height"):
        run(broken, out="broken", **words)
    assert not key.exists()
    first, second = (run(part, out=name, **words).card for part, name in ((people[:200], "a"), (people[200:], "b")))
    assert key.stat().st_mode & 0o777 == 0o600
    assert first.space == second.space
    assert not (tmp_path / "a" / "key.json").exists()
    assert Release.open(tmp_path / "a", key).key.commitment() == Key.load(key).commitment()
    with pytest.raises(CardError, match="but 2 were requested"):
        run(out="c", parameters={"components": 2}, **words)
    with pytest.raises(UsageError, match="has no key"):
        run(out="d", key=key)


@pytest.mark.parametrize("mechanism", ["additive-noise", "principal-laplace", "random-projection"])
def test_both_engines_write_the_same_release(run, tmp_path, mechanism):
    parameters = {"component_bounds": "data"} if mechanism == "principal-laplace" else {}
    key = {"key": tmp_path / "key"} if mechanism == "random-projection" else {}
    cards = [
        run(
            out=engine,
            engine=engine,
            mechanism=mechanism,
            parameters=parameters,
            seed=3,
            ledger=tmp_path / f"{engine}.ledger",
            **key,
        ).card
        for engine in ("memory", "stream")
    ]
    assert cards[0] == cards[1]
    first, second = (Release.open(tmp_path / engine, *key.values()) for engine in ("memory", "stream"))
    assert first.Z[np.argsort(first.source)] == pytest.approx(second.Z[np.argsort(second.source)])
    assert modes(tmp_path / "stream") == modes(tmp_path / "memory")


def test_an_existing_folder_is_replaced_only_by_force_and_only_when_all_went_well(run, people, tmp_path):
    run()
    before = (tmp_path / "out" / "release.parquet").read_bytes()
    with pytest.raises(OutputError, match="exists already"):
        run()
    with pytest.raises(Exception, match="height"):
        run(people.assign(height="tall"), force=True)
    assert (tmp_path / "out" / "release.parquet").read_bytes() == before
    run(force=True, format="csv")
    signed = {"signed.txt", "signed.txt.sig"}
    assert set(modes(tmp_path / "out")) == {"release.csv", "card.json", "trace.parquet", *signed}
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_force_does_not_remove_other_things(run, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.tex").write_text("years of work")
    with pytest.raises(OutputError, match="something other than a release"):
        run(force=True)
    assert (tmp_path / "out" / "thesis.tex").read_text() == "years of work"
    (tmp_path / "out" / "thesis.tex").unlink()
    run(force=True)
