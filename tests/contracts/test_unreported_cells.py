"""A cell that is not reported is neither missing nor zero, on the whole way from `sanitize` to the coordinator."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sampled_columns import HERE, SampledColumns, Silent

from scores import scores_of
from sfumato.api.cli.app import app
from sfumato.api.cli.console import run_guarded
from sfumato.auditing.audit import audit
from sfumato.channels import Additive, Exact, Identity, OrMissing, RandomizedResponse, Recipe, Sampled
from sfumato.core.errors import CardError, TableError, UsageError
from sfumato.guarantee import Card
from sfumato.guarantee.card import recomputed
from sfumato.learn.classifiers import PerturbedClassifier
from sfumato.learn.classifiers.factory import CLASSIFIERS, make_classifier
from sfumato.learn.classifiers.noise_aware_discriminant import NoiseAwareDiscriminant
from sfumato.learn.classifiers.training import reads_gaps
from sfumato.learn.model import load_model
from sfumato.learn.reconstruct import reconstruct
from sfumato.learn.train import train
from sfumato.mechanisms import MECHANISMS
from sfumato.noise import Laplace
from sfumato.release.check_rows import WRONG_GAPS, NoiseEvidence, wrong_rows
from sfumato.release.release import CARD_METADATA, Release, matrix_of
from sfumato.release.sanitize import Options, sanitize
from sfumato.study.server.validation.row_identity import RowIdentity
from sfumato.table import Column, Encoding, Schema, open_table, write_table

pytestmark = pytest.mark.filterwarnings("ignore")

PUBLIC = {"source": "public", "reason": "by its definition"}
SCHEMA = Schema(
    (
        Column("age", "numeric", low=0.0, high=100.0, **PUBLIC),
        Column("income", "numeric", low=0.0, high=10.0, **PUBLIC),
        Column("height", "integer", low=100, high=220, **PUBLIC),
        Column("colour", "categorical", categories=("red", "green", "blue"), **PUBLIC),
        Column("ill", "categorical", categories=("no", "yes"), role="label", **PUBLIC),
    )
)
ROWS = 3000


def table(rows=ROWS, seed=0):
    """Nobody lies in the middle of a range, so that whoever believes it is found out; the label hangs on all."""
    rng = np.random.default_rng(seed)
    ill = rng.random(rows) < 0.5
    return pd.DataFrame(
        {
            "age": np.where(ill, rng.normal(80, 6, rows), rng.normal(20, 6, rows)).clip(0, 100),
            "income": rng.gamma(2.0, 0.5, rows).clip(0, 10) + np.where(ill, 0.0, 1.0),
            "height": np.where(ill, rng.normal(195, 8, rows), rng.normal(190, 8, rows))
            .round()
            .clip(100, 220)
            .astype(int),
            "colour": np.where(ill, rng.choice(["red", "green", "blue"], rows, p=[0.8, 0.1, 0.1]), "green"),
            "ill": np.where(ill, "yes", "no"),
        }
    )


@pytest.fixture(scope="module", autouse=True)
def registered():
    """The mechanisms of the tests can be chosen by name here, and nowhere else."""
    MECHANISMS.update(HERE)
    yield
    for name in HERE:
        del MECHANISMS[name]


@pytest.fixture(scope="module")
def home(tmp_path_factory, registered):  # noqa: ARG001
    folder = tmp_path_factory.mktemp("unreported")
    table().to_csv(folder / "table.csv", index=False)
    for name, mechanism, more in (
        ("parquet", "sampled-columns", {}),
        ("csv", "sampled-columns", {"format": "csv"}),
        ("stream", "sampled-columns", {"engine": "stream"}),
        ("like", "sampled-columns", {"like_original": True}),
        ("mixed", "sampled-components", {}),
        ("whole", "additive-noise", {}),
        ("clear", "sampled-columns", {}),
    ):
        parameters = {} if mechanism == "sampled-components" else {"scale": 0.1 if name == "clear" else 0.3}
        sanitize(
            table(),
            folder / name,
            Options(mechanism=mechanism, parameters=parameters, label="ill", schema=SCHEMA, seed=1, **more),
        )
    return folder


class TestTables:
    @pytest.mark.parametrize("name", ["parquet", "csv", "stream", "like"])
    def test_what_is_left_out_is_written_as_null_and_read_as_nothing(self, home, name):
        kind = "csv" if name == "csv" else "parquet"
        released = open_table(home / name / f"release.{kind}").read()
        shares = [released[column].null_count / ROWS for column in SCHEMA.names[:-1]]
        assert shares == pytest.approx([0.5] * 4, abs=0.05)
        assert released["ill"].null_count == 0
        release = Release.open(home / name)
        groups = release.encoding.groups
        told = np.column_stack([~np.isnan(release.Z[:, group.start]) for group in groups])
        assert (told.sum(axis=1) == 2).all(), "two columns of every row"
        for group, column in zip(groups, told.T, strict=True):
            cells = np.isnan(release.Z[:, group.slice])
            assert (cells.all(axis=1) == cells.any(axis=1)).all()
            assert released[group.column.name].is_valid().to_numpy().tolist() == column.tolist()
        onehot = release.Z[told[:, 3], groups[3].slice]
        assert (onehot.sum(axis=1) == 1).all()

    def test_the_card_says_it_through_the_channels(self, home):
        card = Card.load(home / "parquet")
        assert card.made_by().left_out == set(SCHEMA.names[:-1])
        assert [channel["channel"] for channel in card.recipe["channels"]] == ["sampled"] * 4
        assert [channel["rate"] for channel in card.recipe["channels"]] == [0.5] * 4
        assert card.stated_guarantee().proved == pytest.approx(recomputed(card).proved)

    def test_mixed_columns_too(self, home):
        Z = Release.open(home / "mixed").Z
        assert np.mean(np.isnan(Z)) == pytest.approx(0.5, abs=0.03)

    def test_a_null_in_any_other_column_is_refused(self, home):
        for name, column, words in (("whole", "age", "is empty in row 1"), ("parquet", "ill", "is missing in row 1")):
            card, released = Card.load(home / name), open_table(home / name / "release.parquet").read()
            cells = [None, *released[column].to_pylist()[1:]]
            place = released.column_names.index(column)
            changed = released.set_column(place, column, pa.array(cells, released[column].type))
            with pytest.raises(TableError, match=words):
                matrix_of(changed, card)

    def test_show(self, home, capsys):
        assert run_guarded(app, ["show", str(home / "parquet")]) == 0
        assert "empty cells are left out in: 'age', 'colour', 'height', 'income'." in capsys.readouterr().out
        assert run_guarded(app, ["show", str(home / "whole")]) == 0
        assert "left out" not in capsys.readouterr().out


class TestAudit:
    @pytest.fixture(scope="class")
    def audits(self, home):
        own, others = table(400, 3), table(300, 4)
        found = {}
        for name, mechanism in (
            ("sampled", "sampled-columns"),
            ("whole", "additive-noise"),
            ("mixed", "sampled-components"),
        ):
            parameters = {} if name == "mixed" else {"scale": 0.05}
            folder = home / f"audited-{name}"
            sanitize(
                own, folder, Options(mechanism=mechanism, parameters=parameters, label="ill", schema=SCHEMA, seed=2)
            )
            found[name] = audit(folder, original=own, holdout=others, repeats=2)
        return found

    @pytest.mark.parametrize("name", ["sampled", "mixed"])
    def test_every_attack_gives_a_score_or_a_reason(self, audits, name):
        for entry in audits[name].data["attacks"]:
            assert "failed" not in entry, entry["name"]
            assert entry["score"] is not None or len(entry["not_applicable"]) > 20, entry["name"]

    def test_who_needs_all_cells_says_so(self, audits):
        reasons = {e["name"]: e.get("not_applicable", "") for e in audits["sampled"].data["attacks"]}
        assert "leaves some out" in reasons["principal-filter"]
        for name in ("linear-estimate", "membership", "nearest-row", "attribute-inference", "posterior-breach"):
            assert not reasons[name]

    def test_half_of_the_cells_tell_less_than_all_and_more_than_none(self, audits):
        less, more = (scores_of(audits[name]) for name in ("sampled", "whole"))
        values = ("linear-estimate", "bayes-window", "naive-estimate", "known-transform")
        for name in (*values, "nearest-row", "posterior-breach"):
            assert less[name] < more[name], name
        baseline = {entry["name"]: entry["baseline"] for entry in audits["sampled"].data["attacks"]}
        assert less["bayes-window"] > baseline["bayes-window"] + 0.05  # which knows the class and others like it
        for name in ("nearest-row", "nearest-source"):
            assert less[name] > 3 * baseline[name], name

    def test_nobody_believes_the_middle_of_a_range(self, audits):
        """The distribution of what was released is that of the reported cells: a spike at the middle would show."""
        (age,) = (one for one in audits["sampled"].data["distributions"] if one["name"] == "age")
        assert age["reported"] == pytest.approx(0.5, abs=0.1)
        assert sum(age["release"]) == round(age["reported"] * 400)
        edges, counts = np.array(age["edges"]), np.array(age["release"])
        middle = counts[(edges[:-1] > 42) & (edges[1:] < 58)].sum()
        assert middle < 0.15 * counts.sum()

    def test_learners_that_cannot_are_named(self, audits):
        notes = " ".join(audits["sampled"].data["notes"])
        assert "No utility of radius-vote, knn, naive-bayes, mlp: Not applicable" in notes
        assert {entry["classifier"] for entry in audits["sampled"].data["utility"]} >= {
            "forest",
            "reconstructed-naive-bayes",
            "reconstructed-tree",
            "noise-aware-lda",
            "noise-aware-qda",
        }
        assert all("failed" not in entry for entry in audits["sampled"].data["utility"])

    def test_like_the_original(self, home):
        found = audit(home / "like", original=table(), holdout=table(300, 4), repeats=0, max_rows=300)
        assert all("failed" not in entry for entry in found.data["attacks"])
        assert found.attack("linear-estimate")["score"] < 0.9


class TestReconstruction:
    @pytest.mark.parametrize("method", ["parzen-program", "expectation-maximization"])
    def test_densities_and_shares_come_from_the_reported_cells(self, home, method):
        age, height, colour = (
            reconstruct(home / "clear", name, method=method, resamples=0) for name in ("age", "height", "colour")
        )
        truth = table()
        assert age.rows == pytest.approx(ROWS / 2, abs=120)
        assert age.missing == 0
        middles = age.cells.middles
        assert age.mass[(middles > 35) & (middles < 65)].sum() < 0.15
        assert age.mass @ middles == pytest.approx(truth["age"].mean(), abs=4)
        assert height.mass @ height.cells.middles == pytest.approx(truth["height"].mean(), abs=6)
        shares = [np.mean(truth["colour"] == name) for name in colour.categories]
        assert colour.mass == pytest.approx(shares, abs=0.07)
        assert colour.rows == pytest.approx(ROWS / 2, abs=120)


class TestLearners:
    @pytest.mark.parametrize("name", CLASSIFIERS)
    def test_it_learns_from_reported_cells_or_says_that_it_cannot(self, home, tmp_path, name):
        model = tmp_path / "model.skops"
        if not reads_gaps(make_classifier(name)):
            with pytest.raises(UsageError, match="Not applicable: this classifier needs every cell of a row"):
                train([home / "clear"], classifier=name).save(model)
            assert not model.exists()
            return
        train([home / "clear"], classifier=name).save(model)
        others = table(1000, 5)
        others.to_csv(tmp_path / "others.csv", index=False)
        assert load_model(model).classify(tmp_path / "others.csv").accuracy > 0.8

    def test_released_rows_are_classified_by_what_they_report(self, home, tmp_path):
        train([home / "parquet"], classifier="reconstructed-naive-bayes").save(tmp_path / "m.skops")
        found = load_model(tmp_path / "m.skops").classify(home / "parquet")
        assert found.accuracy > 0.65

    @pytest.mark.parametrize("name", ["forest", "noise-aware-lda", "reconstructed-naive-bayes"])
    def test_components_that_are_left_out(self, home, tmp_path, name):
        train([home / "mixed"], classifier=name).save(tmp_path / "m.skops")

    def test_pairs_that_nobody_reports_are_not_invented(self, tmp_path):
        sanitize(
            table(),
            tmp_path / "one",
            Options(mechanism="sampled-columns", parameters={"columns": 1}, label="ill", schema=SCHEMA, seed=1),
        )
        with pytest.raises(UsageError, match="no row reports two of the columns together"):
            train([tmp_path / "one"], classifier="noise-aware-lda").save(tmp_path / "m.skops")
        train([tmp_path / "one"], classifier="reconstructed-naive-bayes").save(tmp_path / "m.skops")

    def test_without_noise_covariances_are_still_possible(self):
        rng = np.random.default_rng(0)
        encoding = Encoding.unit(6)
        recipe = Recipe(encoding, Identity(6), (Sampled(Exact(), 0.4),) * 6)
        y = rng.integers(0, 2, 300)
        X = np.clip(rng.normal(0.4 + 0.2 * y[:, None], 0.1, (300, 6)), 0, 1)
        Z = recipe.perturb(X, rng)
        for kind in ("linear", "quadratic"):
            model = NoiseAwareDiscriminant(kind).fit(Z, y, sources=recipe)
            assert model.score(X, y) > 0.9


class TestCoordinator:
    def test_an_honest_release_passes(self, home):
        card = Card.load(home / "parquet")
        assert wrong_rows(home / "parquet" / "release.parquet", card) is None
        assert wrong_rows(home / "mixed" / "release.parquet", Card.load(home / "mixed")) is None
        evidence = NoiseEvidence.of(card)
        evidence.add(*matrix_of(open_table(home / "parquet" / "release.parquet").read(), card))
        assert evidence.against() is None

    @pytest.mark.parametrize("share", [0.3, 0.7])
    def test_more_or_fewer_cells_than_the_card_says_are_found_out(self, home, share):
        card = Card.load(home / "parquet")
        matrix, codes = matrix_of(open_table(home / "parquet" / "release.parquet").read(), card)
        column = matrix[:, 0]
        gone = np.isnan(column)
        rng = np.random.default_rng(0)
        if share < 0.5:
            column[rng.random(ROWS) < 0.4] = np.nan
        else:
            column[gone & (rng.random(ROWS) < 0.4)] = 0.5 + rng.laplace(scale=0.3)
        evidence = NoiseEvidence.of(card)
        evidence.add(matrix, codes)
        assert evidence.against() == WRONG_GAPS

    def test_a_far_cell_is_refused_among_those_that_are_left_out(self, home, tmp_path):
        card, released = Card.load(home / "parquet"), open_table(home / "parquet" / "release.parquet").read()
        cells = released["age"].to_pylist()
        row = next(number for number, cell in enumerate(cells) if cell is not None)
        cells[row] = 1e6
        changed = released.set_column(0, "age", pa.array(cells, pa.float64()))
        write_table(changed, tmp_path / "r.parquet", metadata={CARD_METADATA.decode(): card.to_json()})
        assert f"row {row + 1}, column 'age'" in wrong_rows(tmp_path / "r.parquet", card)

    def test_rows_are_known_again_in_any_order(self, home):
        Z = Release.open(home / "parquet").Z

        def identity(rows):
            held = RowIdentity(Z.shape[1])
            held.add(rows, None)
            return held.identity

        assert identity(Z) == identity(Z[::-1])
        filled = np.where(np.isnan(Z), 0.5, Z)
        assert identity(Z) != identity(filled)


class TestSilence:
    """A mechanism that leaves cells empty without saying so is refused, wherever it is used."""

    @pytest.mark.parametrize("engine", ["memory", "stream"])
    def test_sanitize(self, tmp_path, engine):
        with pytest.raises(TableError, match="'age', and its channels do not say"):
            sanitize(
                table(),
                tmp_path / "out",
                Options(mechanism="silent", parameters={}, label="ill", schema=SCHEMA, seed=1, engine=engine),
            )
        assert not (tmp_path / "out").exists()

    def test_in_memory(self):
        X = np.random.default_rng(0).random((50, 3))
        with pytest.raises(TableError, match="do not say"):
            Silent().release(X, rng=np.random.default_rng(0))
        with pytest.raises(TableError, match="do not say"):
            PerturbedClassifier(Silent(), "forest").fit(X, (X[:, 0] > 0.5).astype(int))

    @pytest.mark.parametrize("cell", [np.nan, np.inf])
    def test_part_of_a_cell_or_an_infinite_one(self, cell):
        encoding = Encoding(Schema(SCHEMA.private))
        recipe = SampledColumns().fit_statistics(None, encoding).recipe_
        Z = recipe.perturb(
            np.tile(encoding.encode(pa.Table.from_pandas(table(1).drop(columns="ill"))).X, (20, 1)),
            np.random.default_rng(0),
        )
        recipe.check_gaps(Z)
        row = np.flatnonzero(~np.isnan(Z[:, 4]))[0]
        Z[row, 4] = cell
        with pytest.raises(TableError, match="'colour'"):
            recipe.check_gaps(Z)

    def test_a_forged_file_is_refused_by_every_reader(self, home, tmp_path):
        """Half of the cells of a plain release emptied, its card as it was: see also test_emptied_release.py."""
        card, released = Card.load(home / "whole"), open_table(home / "whole" / "release.parquet").read()
        rng = np.random.default_rng(0)
        for place, name in enumerate(SCHEMA.names[:-1]):
            mask = rng.random(ROWS) < 0.5
            cells = pa.array(released[name].to_numpy(), released[name].type, mask=mask)
            released = released.set_column(place, name, cells)
        (tmp_path / "forged").mkdir()
        write_table(released, tmp_path / "forged/release.parquet", metadata={CARD_METADATA.decode(): card.to_json()})
        card.save(tmp_path / "forged/card.json")
        assert "empty cell" in wrong_rows(tmp_path / "forged/release.parquet", card)
        with pytest.raises(TableError, match="empty in row"):
            train([tmp_path / "forged"], classifier="forest").save(tmp_path / "m.skops")
        with pytest.raises(TableError, match="empty in row"):
            audit(tmp_path / "forged", original=table(), repeats=0)
        with pytest.raises(TableError, match="empty cell"):
            reconstruct(tmp_path / "forged", "age")


class TestMissingAndLeftOut:
    def test_an_empty_cell_means_one_thing(self):
        encoding = Encoding(Schema((Column("x", "numeric", low=0.0, high=1.0, missing=True),)))
        inside = OrMissing(Additive(Laplace(0.3)), 0.8)
        for channel in (Sampled(inside, 0.5), OrMissing(Sampled(Additive(Laplace(0.3)), 0.5), 0.8)):
            with pytest.raises(UsageError, match="would mean two things"):
                Recipe(encoding, Identity(2), (channel,)).check_writable()
        stated = Recipe(encoding, Identity(2), (inside,)).to_dict()
        stated["channels"] = [{"channel": "sampled", "inner": stated["channels"][0], "rate": 0.5}]
        with pytest.raises(CardError, match="two things"):
            Recipe.from_dict(stated, {"kind": "identity"}, encoding)

    def test_answers_too(self):
        encoding = Encoding(Schema((Column("x", "categorical", categories=("a", "b"), missing=True),)))
        with pytest.raises(UsageError, match="would mean two things"):
            Recipe(encoding, Identity(3), (Sampled(RandomizedResponse(0.8, 3), 0.5),)).check_writable()

    def test_nothing_is_written(self, tmp_path):
        gone = table(100).assign(age=lambda frame: frame["age"].where(frame.index > 5))
        with pytest.raises(UsageError, match=r"'age' can be missing.*would mean two things"):
            sanitize(gone, tmp_path / "out", Options(mechanism="sampled-columns", parameters={}, label="ill", seed=1))
        assert not (tmp_path / "out").exists()
