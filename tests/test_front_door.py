"""`import sfumato as sf`: light to import, and the same road for a data frame as for files."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.core.errors import CardError, OutputError, SchemaError, TableError, UsageError
from sfumato.learn.model import load_model
from sfumato.ledger import Ledger
from sfumato.release.only_new import ledger_forget

pytestmark = pytest.mark.filterwarnings("ignore::sfumato.core.errors.PrivacyLeakWarning")
PUBLIC = {"source": "public", "reason": "known from the form"}
SCHEMA = sf.Schema(
    (
        sf.Column("age", "integer", low=0, high=120, **PUBLIC),
        sf.Column("height", "numeric", low=100, high=250, **PUBLIC),
        sf.Column("town", "categorical", categories=("north", "south", "west"), **PUBLIC),
        sf.Column("ill", "categorical", role="label", categories=("no", "yes"), **PUBLIC),
    )
)


def make_people(rows=200, seed=0):
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 90, rows)
    return pd.DataFrame(
        {
            "age": age,
            "height": rng.normal(170, 10, rows).clip(140, 210),
            "town": rng.choice(["north", "south"], rows),
            "ill": np.where(age + rng.normal(0, 10, rows) > 55, "yes", "no"),
        },
        index=pd.Index(np.arange(rows) + 7_000, name="secret_index"),
    )


@pytest.fixture(scope="module")
def people():
    return make_people()


def test_import_brings_nothing_heavy_with_it():
    heavy = "[m for m in ('numpy', 'pyarrow', 'sklearn', 'scipy', 'typer', 'sfumato.table') if m in sys.modules]"
    done = subprocess.run(
        [sys.executable, "-c", f"import sys, sfumato; print({heavy})"], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_every_name_is_there_and_no_other():
    assert all(getattr(sf, name) is not None for name in sf.__all__)
    assert dir(sf) == sorted(sf.__all__)
    assert set(sf._WHERE) | {"__version__"} == set(sf.__all__)
    with pytest.raises(AttributeError, match="no attribute 'anonymize'"):
        sf.anonymize  # noqa: B018


def test_type_checkers_see_every_name(tmp_path):
    names = [name for name in sf.__all__ if not name.startswith("_")]
    uses = ["import sfumato as sf", "from sfumato import *", *names, *(f"sf.{name}" for name in names)]
    (tmp_path / "uses.py").write_text("\n".join(uses))
    mypy = [sys.executable, "-m", "mypy", "--config-file=", "--no-incremental", "--follow-imports=skip"]
    done = subprocess.run([*mypy, sf.__file__, tmp_path / "uses.py"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


class TestInMemory:
    def test_nothing_is_written_but_the_ledger(self, people, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        words = {"mechanism": "additive-noise", "epsilon_record": 4, "ledger": tmp_path / "ledger.json"}
        release = sf.sanitize(people, schema=SCHEMA, **words)
        assert {path.name.strip(".") for path in tmp_path.iterdir()} <= {
            "ledger.json",
            "ledger.json.lock",
            "ledger.json.people",
            "ledger.json.read",
            "ledger.json.read.lock",
        }
        assert release.folder is None
        assert release.card.guarantee["kind"] == "local-dp"
        assert release.card.guarantee["epsilon_record"] <= 4
        assert release.card.chosen_by == "epsilon 4"

    def test_it_is_the_same_release_as_in_a_folder(self, people, tmp_path):
        words = {"schema": SCHEMA, "mechanism": "additive-noise", "epsilon_record": 6, "seed": 3}
        held = sf.sanitize(people, **words, ledger=tmp_path / "one.json")
        written = sf.sanitize(people, **words, ledger=tmp_path / "two.json", out=tmp_path / "written")
        assert held.card == written.card
        pd.testing.assert_frame_equal(held.table, written.table)
        assert np.array_equal(held.source, written.source)
        held.save(tmp_path / "saved")
        for name in ("card.json", "release.parquet", "trace.parquet"):
            assert (tmp_path / "saved" / name).read_bytes() == (tmp_path / "written" / name).read_bytes(), name

    def test_saving_is_whole_private_and_never_over_other_things(self, people, tmp_path):
        release = sf.sanitize(people, schema=SCHEMA, mechanism="random-rotation")
        assert release.save(tmp_path / "r") == tmp_path / "r"
        modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "r").iterdir()}
        private = {"trace.parquet": 0o600, "key.json": 0o600}
        public = dict.fromkeys(("release.parquet", "card.json", "signed.txt", "signed.txt.sig"), 0o644)
        assert modes == {**public, **private}
        with pytest.raises(OutputError, match="exists already"):
            release.save(tmp_path / "r")
        (tmp_path / "other").mkdir()
        (tmp_path / "other" / "thesis.txt").write_text("years of work")
        with pytest.raises(OutputError, match="something other than a release"):
            release.save(tmp_path / "other", force=True)
        with pytest.raises(UsageError, match="no format 'pdf'"):
            release.save(tmp_path / "x", format="pdf")
        assert sorted(path.name for path in tmp_path.iterdir()) == ["other", "r"]
        opened = sf.open_release(tmp_path / "r")
        assert opened.card == release.card
        assert opened.key.commitment() == release.key.commitment()
        assert np.array_equal(opened.Z, release.Z)

    def test_a_release_that_cannot_be_saved_leaves_nothing(self, people, tmp_path, monkeypatch):
        release = sf.sanitize(people, schema=SCHEMA, mechanism="random-rotation")

        def full(*_, **__):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("sfumato.guarantee.maps.write_whole", full)
        with pytest.raises(OutputError, match="full"):
            release.save(tmp_path / "r")
        assert list(tmp_path.iterdir()) == []

    def test_the_ledger_counts_it_and_a_failed_run_is_struck(self, people, tmp_path):
        book = tmp_path / "ledger.json"
        words = {"schema": SCHEMA, "mechanism": "additive-noise", "epsilon_record": 6, "ledger": book}
        counts = [sf.sanitize(people, **words).card.earlier_releases["count"] for _ in range(2)]
        assert counts == [0, 1]
        with pytest.raises(OutputError):
            sf.sanitize(people, schema=SCHEMA, mechanism="random-rotation", key=Path("/no/key"), ledger=book)
        assert Ledger(book).releases == 2
        assert sf.sanitize(people, **words, dry_run=True).card.earlier_releases["count"] == 2
        assert Ledger(book).releases == 2, "a dry run is not counted"

    def test_only_new_rows_are_new_once_and_can_be_forgotten(self, people, tmp_path):
        words = {"schema": SCHEMA, "mechanism": "additive-noise", "only_new": True, "ledger": tmp_path / "ledger.json"}
        january = sf.sanitize(people.head(150), **words)
        february = sf.sanitize(people, **words)
        assert (len(january), len(february), february.told.known) == (150, 50, 150)
        with pytest.raises(sf.SfumatoError, match="None of the 200 rows is new"):
            sf.sanitize(people, **words)
        february.save(tmp_path / "february")
        assert ledger_forget(tmp_path / "february", ledger=tmp_path / "ledger.json") == 50
        assert len(sf.sanitize(people, **words)) == 50

    def test_neither_index_nor_trace_nor_key_nor_source_words_are_shown(self, people):
        release = sf.sanitize(people, schema=SCHEMA, mechanism="random-rotation")
        assert len(repr(release)) < 160
        everything = repr(release) + release.card.to_json() + str(release.arrow.schema)
        assert "secret_index" not in everything
        assert "hmac" not in repr(release)
        assert not set(release.table.index) & set(people.index)
        assert "secret_index" not in release.table.reset_index().columns

    def test_noise_is_exact_where_a_guarantee_is_claimed(self, people):
        card = sf.sanitize(people, schema=SCHEMA, mechanism="additive-noise", epsilon_record=4).card
        assert card.noise_path == "exact-grid"


class TestKindsOfTables:
    def test_what_comes_in_says_what_goes_out(self, people, tmp_path):
        words = {"schema": SCHEMA, "mechanism": "additive-noise", "seed": 1}
        people.to_csv(tmp_path / "people.csv", index=False)
        given = {
            pd.DataFrame: [people, tmp_path / "people.csv", people.to_dict("list")],
            pl.DataFrame: [pl.from_pandas(people)],
            pa.Table: [pa.Table.from_pandas(people, preserve_index=True).drop(["secret_index"])],
        }
        tables = []
        for kind, sources in given.items():
            for source in sources:
                release = sf.sanitize(source, **words)
                assert isinstance(release.table, kind)
                tables.append(release.arrow)
        assert all(table.equals(tables[0]) for table in tables)

    def test_categories_that_nobody_has_do_not_travel(self, people):
        town = pd.Categorical(people["town"], categories=["north", "south", "atlantis"])
        release = sf.sanitize(people.assign(town=town), label="ill", mechanism="additive-noise")
        assert "atlantis" not in release.card.to_json()
        assert set(release.table["town"]) == {"north", "south"}

    def test_without_pandas_paths_give_arrow_tables(self, people, tmp_path, monkeypatch):
        people.to_csv(tmp_path / "people.csv", index=False)
        monkeypatch.setattr("sfumato.table.cell_sets.find_spec", lambda _: None)
        release = sf.sanitize(tmp_path / "people.csv", schema=SCHEMA, mechanism="additive-noise")
        assert isinstance(release.table, pa.Table)


MISTAKES = {
    "no table": ({"table": 7}, TableError, "A int cannot be read as a table"),
    "a list": ({"table": [[1, 2]]}, TableError, "cannot be read as a table"),
    "no such file": ({"table": "nobody.csv"}, TableError, "nobody.csv does not exist"),
    "mechanism": ({"mechanism": "blur"}, UsageError, "no method 'blur'"),
    "parameter": ({"parameters": {"volume": 11}}, UsageError, "volume"),
    "two knobs": ({"epsilon_record": 1, "max_posterior": 0.5}, UsageError, "not both"),
    "prior alone": ({"prior": 0.1}, UsageError, "--prior belongs to"),
    "negative": ({"epsilon_record": -1}, UsageError, "must be a positive number"),
    "strength twice": ({"epsilon_record": 1, "parameters": {"b": 1}}, UsageError, "leave --param b out"),
    "label's share": ({"epsilon_record": 1, "private_label": True}, UsageError, "must exceed that of the private"),
    "label's epsilon alone": ({"label_epsilon": 1}, UsageError, "Add --private-label"),
    "label of no column": ({"schema": None, "label": "sick"}, (SchemaError, TableError), "sick"),
    "another label": ({"label": "age"}, SchemaError, "the column to predict is not 'age'"),
    "label not in the schema": ({"label": "sick"}, SchemaError, "no column 'sick'"),
    "key": ({"mechanism": "additive-noise", "key": "key.json"}, UsageError, "has no key"),
    "stream in memory": ({"engine": "stream"}, UsageError, "writes to a folder"),
    "study": ({"study": "absent.yaml"}, UsageError, "no study file"),
    "empty": ({"table": pd.DataFrame()}, TableError, "no columns"),
}


@pytest.mark.parametrize(("words", "kind", "said"), MISTAKES.values(), ids=MISTAKES)
def test_mistakes_are_one_sentence_and_cost_no_release(people, tmp_path, words, kind, said):
    given = {"table": people, "schema": SCHEMA, "ledger": tmp_path / "ledger.json", **words}
    with pytest.raises(kind, match=said) as caught:
        sf.sanitize(given.pop("table"), **given)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "ledger.json").exists() or not Ledger(tmp_path / "ledger.json").releases


def test_a_column_that_the_schema_has_and_the_table_lacks(people):
    with pytest.raises((TableError, SchemaError), match="town"):
        sf.sanitize(people.drop(columns="town"), schema=SCHEMA)


class TestAudit:
    @pytest.fixture
    def release(self, people):
        return sf.sanitize(people, schema=SCHEMA, mechanism="additive-noise", parameters={"scale": 0.1})

    def test_scores_are_a_frame_with_a_row_for_each_attack(self, release, people, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        found = sf.audit(release, original=people, holdout=make_people(80, 1), repeats=2)
        assert isinstance(found.scores, pd.DataFrame)
        assert list(found.scores) == ["attack", "score", "low", "high", "baseline", "control", "worst", "extra", "note"]
        assert len(found.scores) == len(found.data["attacks"]) > 5
        assert found.scores["score"].notna().any()
        assert found.scores.loc[found.scores["score"].isna(), "note"].str.contains("not applicable|failed").all()
        assert len(found.utility) > 2
        assert found.data["settings"]["alignment"] == "trace"
        assert list(tmp_path.iterdir()) == [], "nothing is written until it is saved"
        found.save_report(tmp_path / "report.html")
        found.save(tmp_path / "audit")
        assert (tmp_path / "report.html").stat().st_mode & 0o777 == 0o600
        assert json.loads((tmp_path / "audit" / "audit.json").read_text())["attacks"]
        assert len(repr(found)) < 160
        shown = found._repr_html_()
        assert "<dt>YOUR DECISION</dt>" in shown
        assert "<dt>Whose row is it?</dt>" in shown
        (tmp_path / "c.yaml").write_text("format: sfumato-config\nversion: 1\nmechanism: square-wave\nmax_extra: 3\n")
        asked = {"original": people, "repeats": 0, "attacks": ["naive-estimate"], "config": tmp_path / "c.yaml"}
        told = sf.audit(release, **asked).data["extra"]
        assert (told["limit"], told["state"]) == (3, "not within your limits"), "naive-estimate gets more"
        assert sf.audit(release, **asked, max_extra=100).data["extra"]["state"] == "unknown", "two risks were not tried"
        (tmp_path / "c.yaml").write_text((tmp_path / "c.yaml").read_text().replace("max_extra: 3", "max_extra: lots"))
        with pytest.raises(UsageError, match="`max_extra` must be a number"):
            sf.audit(release, **asked)
        with pytest.raises(UsageError, match="no attacker 'magic'"):
            found.attack("magic")

    def test_a_folder_a_path_and_the_object_are_audited_alike(self, release, people, tmp_path):
        release.save(tmp_path / "r")
        before = sorted(path.name for path in (tmp_path / "r").iterdir())
        words = {"original": people, "repeats": 0, "attacks": ("naive-estimate",)}
        held, opened = sf.audit(release, **words), sf.audit(tmp_path / "r", **words)
        assert held.data == opened.data
        assert sorted(path.name for path in (tmp_path / "r").iterdir()) == before

    def test_a_release_of_any_tool_needs_no_card(self, people):
        theirs = people.assign(age=people["age"] + 1)
        found = sf.audit(pl.from_pandas(theirs), original=pl.from_pandas(people), label="ill", repeats=0)
        assert isinstance(found.scores, pl.DataFrame)
        assert found.data["release"]["card"] is False

    def test_mistakes(self, release, people):
        with pytest.raises(UsageError, match="--seed must be at least 0"):
            sf.audit(release, original=people, seed=-1)
        with pytest.raises(UsageError, match="Leave --schema out"):
            sf.audit(release, original=people, schema=SCHEMA)
        with pytest.raises(TableError, match="cannot be read as a table"):
            sf.audit(release, original=12)
        with pytest.raises(TableError, match="classes differ"):
            sf.audit(release, original=people.iloc[::-1], repeats=0)


class TestLearning:
    @pytest.fixture
    def releases(self):
        words = {"schema": SCHEMA, "mechanism": "additive-noise", "epsilon_record": 30, "seed": 1}
        return [sf.sanitize(make_people(400, seed), **words) for seed in (3, 4)]

    def test_train_predict_evaluate_save_and_load(self, releases, people, tmp_path):
        model = sf.train(releases, classifier="noise-aware-lda")
        assert model.about["rows"] == 800
        found = model.predict(people.drop(columns="ill"))
        assert found.shape == (200,)
        assert set(found) <= {"no", "yes"}
        assert np.mean(found == people["ill"]) > 0.75, "measured: 0.85"
        assert model.predict_proba(people).shape == (200, 2)
        judged = model.evaluate(people)
        assert judged.error == pytest.approx(np.mean(found != people["ill"]))
        assert repr(judged).startswith("<Evaluation: error")
        model.save(tmp_path / "model.skops")
        again = sf.load_model(tmp_path / "model.skops")
        assert isinstance(again, sf.Model)
        assert np.array_equal(again.predict(pl.from_pandas(people)), found)
        assert np.array_equal(sf.predict(tmp_path / "model.skops", people), found)
        assert sf.evaluate(tmp_path / "model.skops", people).error == judged.error

    @pytest.mark.parametrize(
        "classes",
        [
            [0, 1],
            [-1, 2],
            [0.5, 1.5],
            [1.0, 2.5],
            [False, True],
            ["no", "yes"],
            ["0", "1"],
            ["0.5", "1.5"],
            ["01", "2"],
        ],
        ids=str,
    )
    def test_answers_are_of_the_labels_type(self, classes, tmp_path):
        """Compared with the frame that they came from; a file of answers likewise."""
        people = make_people(200, 3)
        people["ill"] = np.asarray(classes, dtype=object if isinstance(classes[0], str) else None)[
            (people["ill"] == "yes").to_numpy().astype(int)
        ]
        release = sf.sanitize(people, label="ill", mechanism="additive-noise", epsilon_record=30, seed=1)
        model = sf.train(release, classifier="noise-aware-lda")
        judged = model.evaluate(people)
        truth = people["ill"].to_numpy()
        found = np.asarray(model.predict(people))
        assert np.mean(found == truth) == pytest.approx(1 - judged.error)
        assert judged.error < 0.3
        assert list(judged.classes) == classes
        assert [type(one) for one in judged.classes] == [type(one) for one in classes]
        model.save(tmp_path / "m.skops")
        people.to_parquet(tmp_path / "people.parquet")
        load_model(tmp_path / "m.skops").classify(tmp_path / "people.parquet").save(tmp_path / "found.parquet")
        assert np.array_equal(pd.read_parquet(tmp_path / "found.parquet")["prediction"].to_numpy(), found)
        if not isinstance(classes[0], str):
            assert np.array_equal(model.predict(people.drop(columns="ill")), found)
            assert np.array_equal(np.asarray(model.classes)[model.predict_proba(people).argmax(axis=1)], found)

    def test_a_folder_and_the_object_train_alike(self, releases, people, tmp_path):
        releases[0].save(tmp_path / "r", force=True)
        one, other = (sf.train(source, classifier="noise-aware-lda") for source in (releases[0], tmp_path / "r"))
        assert np.array_equal(one.predict(people), other.predict(people))

    def test_rows_under_a_secret_key_need_it(self, people):
        release = sf.sanitize(people, schema=SCHEMA, mechanism="random-rotation")
        model = sf.train(release, classifier="knn")
        with pytest.raises(CardError, match="only with the key"):
            model.predict(people)
        assert np.mean(model.predict(people, key=release.key) == people["ill"]) > 0.7
        assert len(model.predict(release)) == 200, "released rows lie in the model's space already"

    def test_a_distribution_comes_back(self, releases):
        found = sf.reconstruct(releases, "age", resamples=0)
        assert found.mean == pytest.approx(53.5, abs=4)
        shares = sf.reconstruct(releases[0], "town", resamples=0)
        assert shares.summary()["shares"]["west"] < 0.1

    def test_mistakes(self, releases, people):
        with pytest.raises(UsageError, match="no classifier 'oracle'"):
            sf.train(releases, classifier="oracle")
        with pytest.raises(UsageError, match="at least one"):
            sf.train([])
        with pytest.raises(TableError, match="A DataFrame is not a release"):
            sf.train(people)
        with pytest.raises(CardError, match="do not fit together"):
            sf.train([releases[0], sf.sanitize(people, label="ill", mechanism="additive-noise")])
        with pytest.raises(CardError, match="There is no card"):
            sf.train("nowhere")
        with pytest.raises(UsageError, match="each of them once"):
            sf.reconstruct([releases[0], releases[0]], "age")


def test_show_prints_the_card_in_words(people, capsys):
    release = sf.sanitize(people, schema=SCHEMA, epsilon_record=4)
    sf.show(release)
    sf.show(release.card)
    first, second = capsys.readouterr().out.split("Guarantee: ")[1:]
    assert first == second
    assert "What is not protected" in first
