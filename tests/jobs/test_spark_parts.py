"""The adapter to Spark without Spark: the same release law, sealed travel, tasks that run twice or see other rows."""

from __future__ import annotations

import pickle
import stat
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_allclose
from scipy.stats import ks_2samp
from spark_double import Frame, Session

import sfumato as sf
import sfumato.release.spark as in_spark_package
from sfumato.core.errors import TableError, UsageError
from sfumato.release.sanitize import Options, sanitize
from sfumato.release.spark import engine, spark_table
from sfumato.release.spark.spark_table import Seal, SparkTable, deal, files_in_spark, seal_for
from sfumato.table import Column, Schema, open_table

PARTS, ROWS = 40, 50
LABEL = Column("ill", "categorical", role="label", categories=("no", "yes"), source="public", reason="a diagnosis")
SCHEMA = Schema(
    (*(Column(name, "numeric", low=0.0, high=1.0, source="public", reason="shares") for name in "abc"), LABEL)
)


@pytest.fixture(scope="module")
def batches():
    rng = np.random.default_rng(8)
    found = []
    for _ in range(PARTS):
        a = rng.random(ROWS)
        columns = {"a": a, "b": np.clip(a + 0.1 * rng.normal(size=ROWS), 0, 1), "c": rng.random(ROWS)}
        found.append(pa.record_batch({**columns, "ill": rng.choice(["no", "yes"], ROWS)}))
    return found


@pytest.fixture(autouse=True)
def _travels(monkeypatch):
    """Functions that have no name cannot be pickled by Python alone: without Spark they stay in a drawer."""
    drawer: dict[bytes, object] = {}

    def dumps(value):
        name = b"%d" % len(drawer)
        drawer[name] = value
        return pickle.dumps(name)

    plain_open = Seal.open

    def unseal(self, closed):
        return drawer[plain_open(self, closed)]

    monkeypatch.setattr(spark_table, "_dumps", dumps)
    monkeypatch.setattr(Seal, "open", unseal)
    monkeypatch.setattr(engine, "spark_schema", lambda schema: schema)


@pytest.fixture
def spark(monkeypatch):
    """`sanitize` with the engine spark on a double of it."""

    def put(frame, schema, **words):
        @contextmanager
        def table_in_spark(table, master):  # noqa: ARG001
            with seal_for("local[2]", None) as seal:
                yield SparkTable(frame, schema, seal, **words)

        monkeypatch.setattr(engine, "table_in_spark", table_in_spark)

    return put


def options(engine, **words):
    given = {"mechanism": "principal-laplace", "parameters": {"b": 0.2}, "schema": SCHEMA, **words}
    return Options(engine=engine, **given)


@pytest.mark.parametrize(
    ("mechanism", "parameters"),
    [
        ("principal-laplace", {"b": 0.2}),
        ("additive-noise", {"epsilon_record": 4.0}),
        ("random-rotation", {}),
        ("kernel-resampling", {}),
        ("staged-release", {"epsilon_record": 4.0}),
    ],
)
def test_the_release_has_the_law_of_the_memory_engine(batches, spark, tmp_path, mechanism, parameters):
    spark(Frame.of(batches, again={3, 17}), batches[0].schema)
    words = {"mechanism": mechanism, "parameters": parameters, "seed": 7}
    there = sanitize(None, tmp_path / "spark", options("spark", **words)).card
    words["key"] = tmp_path / "spark" / "key.json" if mechanism == "random-rotation" else None
    here = sanitize(pa.Table.from_batches(batches), tmp_path / "memory", options("memory", **words)).card
    releases = [pq.read_table(tmp_path / name / "release.parquet").to_pandas() for name in ("spark", "memory")]
    assert there.rows == here.rows == len(releases[0]) == PARTS * ROWS
    assert not releases[0].iloc[:, :-1].duplicated().any()
    assert there.guarantee["kind"] == here.guarantee["kind"]
    stated = [[card.guarantee[of] or 0 for of in ("epsilon_component", "epsilon_record")] for card in (there, here)]
    assert_allclose(*stated, rtol=1e-9)
    for name in releases[0].columns[:-1]:
        one, other = (release[name].dropna() for release in releases)
        assert ks_2samp(one, other).pvalue > 1e-4
        assert ks_2samp(one * 1.3 + 0.3, other).pvalue < 1e-4  # 30% off is seen
    trace = pq.read_table(tmp_path / "spark" / "trace.parquet")["source"].to_numpy()
    labels = pa.Table.from_batches(batches)["ill"].to_numpy()
    assert (labels[trace] == releases[0]["ill"]).all()
    if mechanism != "kernel-resampling":
        assert (np.sort(trace) == np.arange(PARTS * ROWS)).all()
        assert abs(np.corrcoef(trace, np.arange(len(trace)))[0, 1]) < 0.1
    private = {"trace.parquet", "key.json"}
    assert {path.name for path in (tmp_path / "spark").iterdir()} - private == {"release.parquet", "card.json"}


def test_rows_that_belong_to_nobody_are_drawn_from_counts_of_all_partitions(batches, spark, tmp_path):
    spark(Frame.of(batches), batches[0].schema)
    told = sanitize(None, tmp_path / "out", options("spark", mechanism="tree-resampling", parameters={}, epsilon=2.0))
    assert told.card.guarantee["kind"] == "central-dp"
    assert told.card.rows > 0


def test_an_audit_fetches_the_people_that_it_attacks_and_finds_what_the_memory_engine_finds(batches, spark, tmp_path):
    spark(Frame.of(batches, again={3}), batches[0].schema)
    whole = pa.Table.from_batches(batches)
    noisy = {"mechanism": "additive-noise", "parameters": {"epsilon_record": 20.0}}
    sanitize(whole, tmp_path / "out", options("memory", **noisy))
    words = {"attacks": ["nearest-row", "naive-estimate"], "repeats": 0, "max_rows": 300}
    there = sf.audit(tmp_path / "out", original=None, engine="spark", **words)
    here = sf.audit(tmp_path / "out", original=whole, **words)
    for one, other in zip(there.data["attacks"], here.data["attacks"], strict=True):
        assert one["score"] == other["score"] is not None
        assert one["interval"] == other["interval"] is not None
    assert there.data["settings"]["sampled"]
    assert any("A sample of 300 release rows" in note for note in there.notes)
    (tmp_path / "out" / "trace.parquet").unlink()
    with pytest.raises(UsageError, match="private match file"):
        sf.audit(tmp_path / "out", original=None, engine="spark", **words)
    with pytest.raises(UsageError, match="with its card"):
        sf.audit(whole, original=whole, engine="spark", **words)
    with pytest.raises(UsageError, match="Add --engine spark"):
        sf.audit(tmp_path / "out", original=whole, master="local[2]", **words)


def test_a_schema_is_inferred_where_the_rows_are(batches, spark, tmp_path):
    spark(Frame.of(batches), batches[0].schema)
    with pytest.warns(UserWarning, match="read off the private table"):
        told = sanitize(None, tmp_path / "out", options("spark", schema=None, label="ill"))
    found = {column["name"]: column for column in told.card.source_schema["columns"]}
    whole = pa.Table.from_batches(batches)
    assert_allclose(found["a"]["low"], min(whole["a"].to_pylist()))
    assert found["ill"]["categories"] == ["no", "yes"]


@pytest.mark.parametrize("mechanism", ["additive-noise", "staged-release"])  # seen by the release, by another pass
def test_a_frame_that_gives_other_rows_the_second_time_is_refused(batches, spark, tmp_path, mechanism):
    asked = []

    def compute():
        asked.append(1)
        order = list(batches) if len(asked) < 3 else [batches[1], batches[0], *batches[2:]]
        return [[batch] for batch in order]

    spark(Frame(compute), batches[0].schema)
    with pytest.raises(TableError, match="different when it was read again"):
        sanitize(None, tmp_path / "out", options("spark", mechanism=mechanism, parameters={"epsilon_record": 4.0}))
    assert not list(tmp_path.iterdir())


def test_a_users_mistake_in_a_task_is_one_sentence(batches, spark, tmp_path):
    broken = [*batches[:5], batches[5].set_column(0, "a", pa.array([9.0] * ROWS)), *batches[6:]]
    spark(Frame.of(broken), batches[0].schema)
    with pytest.raises(TableError, match=r"'a'.*partition 5"):
        sanitize(None, tmp_path / "out", options("spark", out_of_bounds="refuse"))
    with pytest.raises(UsageError, match="--only-new goes through the rows on one machine"):
        sanitize(None, tmp_path / "out", options("spark", only_new=True))


def test_an_error_of_ours_comes_out_of_javas_story_of_it():
    told = (
        "Job aborted:\nsfumato.core.errors.TableError: in/p1.parquet vanished. Nothing was released.\n\tat org.apache"
    )
    with (
        pytest.raises(TableError, match=r"^in/p1.parquet vanished. Nothing was released.$"),
        spark_table.tasks_errors(),
    ):
        raise RuntimeError(told)
    with pytest.raises(RuntimeError, match="No space left"), spark_table.tasks_errors():
        raise RuntimeError("java.io.IOException: No space left on device")


def test_files_are_dealt_in_order_and_read_by_the_tasks(batches, tmp_path, monkeypatch):
    monkeypatch.setattr(spark_table, "FEWEST_ROWS", 60)
    for i in range(0, PARTS, 10):
        table = pa.Table.from_batches(batches[i : i + 10])
        pq.write_table(table, tmp_path / f"p{i:02}.parquet", row_group_size=50)
    monkeypatch.chdir(tmp_path.parent)
    table = open_table(tmp_path.name)
    monkeypatch.chdir("/")  # tasks run elsewhere
    tasks = deal(table, 2)
    assert [piece for task in tasks for piece in task] == [(part, (group,)) for part in range(4) for group in range(10)]
    assert len(tasks) >= 8
    with seal_for("local[2]", None) as seal:
        read = files_in_spark(Session(), table, seal)
        assert spark_table.told_where("Empty in row 7.", len(tasks) - 1, read.reader).endswith("p30.parquet.)")
        rows = [row for task in range(len(tasks)) for row in read.reader(iter([pa.record_batch({"id": [task]})]))]
    assert pa.Table.from_batches(rows).equals(pa.Table.from_batches(batches))


def test_csv_is_read_as_text_and_never_on_the_driver(tmp_path, monkeypatch):
    (tmp_path / "p0.csv").write_text("a,code\n1,01\n2,2\n")
    table = open_table(tmp_path / "p0.csv")
    monkeypatch.setattr("sfumato.table.csv_table.Dialect.rank", None)  # no type is guessed
    with seal_for("local[2]", None) as seal:
        found = files_in_spark(Session(), table, seal)
        assert found.arrow_schema == pa.schema({"a": pa.string(), "code": pa.string()})
        with pytest.raises(TypeError, match="stay with"):
            found.read()


@pytest.mark.usefixtures("batches")
def test_what_travels_is_sealed_and_the_seal_is_private(monkeypatch):
    monkeypatch.undo()
    key = bytes(range(32))
    with seal_for("local[*]", None) as seal:
        file = Path(seal.file)
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
        closed = seal.close(engine.CarriedStreams(key))
        assert key not in closed
        assert file.read_bytes() not in pickle.dumps(seal)
        opened = seal.open(closed)
        assert opened.export_key() == key
        with pytest.raises(UsageError, match="another Spark application"):
            seal.open(closed[:-1] + bytes([closed[-1] ^ 1]))
    assert not file.parent.exists()
    with seal_for("spark://host:7077", "its secret") as seal:
        assert b"its secret" not in pickle.dumps(seal)
        assert seal.open(seal.close(3)) == 3
    with pytest.raises(UsageError, match="do not hold Spark's secret"):
        seal.open(closed)


def test_a_cluster_needs_an_authenticated_encrypted_channel():
    guarded = {"spark.authenticate": "true", "spark.network.crypto.enabled": "true"}
    assert engine.checked_secret("local[*]", {}) is None
    assert engine.checked_secret("spark://a:7077", {**guarded, engine.SECRET: "s"}) == "s"
    for lacking, words in (({}, "spark.authenticate true and spark.network"), (guarded, f"a {engine.SECRET}")):
        with pytest.raises(UsageError, match=words):
            engine.checked_secret("local-cluster[2,1,512]", lacking)


def test_without_spark_one_line_says_what_to_install(monkeypatch, tmp_path, batches):
    monkeypatch.setattr(engine, "find_spec", lambda name: None)  # noqa: ARG005
    pq.write_table(pa.Table.from_batches(batches), tmp_path / "t.parquet")
    with pytest.raises(UsageError, match=r"sfumato\[spark\].*default-jre-headless"):
        sanitize(tmp_path / "t.parquet", tmp_path / "out", options("spark"))
    assert not (tmp_path / "out").exists()


def test_java_is_looked_for_where_spark_looks(monkeypatch, tmp_path):
    monkeypatch.setattr(engine, "find_spec", lambda name: name)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").touch(mode=0o700)
    with pytest.raises(UsageError, match="default-jre-headless"):
        engine.check_installed()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    engine.check_installed()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "bin"))
    with pytest.raises(UsageError, match="JAVA_HOME is"):
        engine.check_installed()


def test_why_spark_did_not_start_is_one_sentence():
    with pytest.raises(UsageError, match="no address of Spark"), engine.running_session("host:7077"):
        pass
    told = RuntimeError(
        "An error occurred while calling X.\n: java.lang.IllegalArgumentException: no such host\n\tat org"
    )
    assert engine._reason(told) == "no such host"
    assert "reached from here" in engine._hint(told, "spark://a:7077")
    assert engine._hint(told, "local[2]") == ""
    assert "17 or newer" in engine._hint(RuntimeError("[JAVA_GATEWAY_EXITED]"), "local[2]")


def test_the_double_runs_tasks_twice(batches):
    seen = []

    def note(found):
        seen.append(1)
        return found

    Frame.of(batches[:3], again={1}).mapInArrow(note, None).collect()
    assert len(seen) == 4
    assert spark_table.FAN < PARTS  # so that findings are merged in more than one step


def test_the_function_for_frames_takes_nothing_else(tmp_path):
    with pytest.raises(UsageError, match="a data frame of Spark"):
        in_spark_package.sanitize(tmp_path / "t.parquet", tmp_path / "out")
