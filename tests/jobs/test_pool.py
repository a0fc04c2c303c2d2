"""The pool of several sites: error with an interval, what more sites bring, the model's card, bad and hostile input."""

import json
import math

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import stats
from sklearn.datasets import load_wine

from daily import first_daily
from sfumato.core.errors import CardError, TableError, UsageError
from sfumato.guarantee.cost import shuffled_epsilon
from sfumato.learn.classifiers import CLASSIFIERS
from sfumato.learn.model import Model
from sfumato.release.release import Release
from sfumato.release.sanitize import Options, sanitize
from sfumato.study.pooling.gather import EMBEDDED, PUBLIC, Limits, Pushed, gather
from sfumato.study.pooling.train_pool import HELD_OUT, Request, shuffled_pool, train_pool
from sfumato.study.pooling.trials import MOST_ALONE, MOST_COUNTS, ErrorRate, Part, Plan, Queries, dealt, plan_of
from sfumato.table import Column, Schema, open_table, write_table

ON_BITS = [name for name, one in CLASSIFIERS.items() if one.on_bits]

SLOW = {"boosting", "reconstructed-naive-bayes"}
"""Trained like the others, but for minutes where many tests run."""
OF_ONE_RELEASE = {"private-discriminant"}
WINE = load_wine(as_frame=True).frame.rename(columns={"target": "cultivar"})
COLUMNS = [name for name in WINE.columns if name != "cultivar"]


def schema():
    columns = [
        Column(name, "numeric", low=0.0, high=float(WINE[name].max()), source="public", reason="test")
        for name in COLUMNS
    ]
    label = Column("cultivar", "categorical", role="label", categories=("0", "1", "2"), source="public", reason="test")
    return Schema((*columns, label))


def shuffled():
    return WINE.sample(frac=1.0, random_state=0).reset_index(drop=True)


def pushed(folder, site, frame, mechanism="additive-noise", **options):
    parameters = options.pop("parameters", {"scale": 0.03})
    sanitize(frame, folder, Options(mechanism=mechanism, parameters=parameters, schema=schema(), **options))
    return Pushed(folder / "release.parquet", site, f"sha256:{folder.name}")


def written(frame, path):
    write_table(open_table(frame).read(), path)
    return path


@pytest.fixture(scope="module")
def sites(tmp_path_factory):
    """Four sites of the same wines, the last with two pushes; 38 rows are left over."""
    folder, rows = tmp_path_factory.mktemp("sites"), shuffled()
    cuts = [("north", 0, 30), ("south", 30, 60), ("east", 60, 90), ("west", 90, 115), ("west", 115, 140)]
    made = [pushed(folder / f"r{start}", site, rows.iloc[start:stop]) for site, start, stop in cuts]
    return made, rows.iloc[140:]


@pytest.mark.parametrize(
    "name", first_daily((name for name in CLASSIFIERS if name not in (*SLOW, *ON_BITS, *OF_ONE_RELEASE)), 4)
)
def test_every_classifier_is_trained_measured_and_saved(sites, tmp_path, name, monkeypatch):
    monkeypatch.setattr(
        "sfumato.learn.classifiers.training.THROUGH_NOISE", ("noise-aware-lda", "noise-aware-qda")
    )  # fast ones
    releases, rest = sites
    request = Request([releases[0], *releases[3:]], name, test_table=written(rest, tmp_path / "test.csv"))
    model, results = train_pool(request, tmp_path / "m.skops")
    assert Model.load(tmp_path / "m.skops").about == json.loads(json.dumps(dict(model.about)))
    assert model.about["contains_rows"] is (name in ("radius-vote", "knn", "kernel-smoother", "svm"))
    folded, (tested,) = results["cross_validation"], results["test"]
    assert tested["rows"] == 38
    assert results["by_sites"]["tested_on"] == PUBLIC
    # Learners of plain rows that cannot classify perturbed ones are not held against them.
    assert (folded is None) is (name in ("auto", "reconstructed-tree", "noise-aware-lda", "noise-aware-qda"))
    assert any("plain rows" in note for note in results["notes"]) is (folded is None)
    for rate in (tested, *([folded] if folded else [])):
        assert rate["interval"][0] <= rate["error"] <= rate["interval"][1]
        assert rate["error"] < 0.35 < rate["commonest"]
    json.dumps(results, allow_nan=False)


def test_results_tell_what_was_used_and_how_far_along_it_was(sites, tmp_path):
    releases, rest = sites
    seen = []
    request = Request(releases, "naive-bayes", test_table=written(rest, tmp_path / "test.csv"))
    model, results = train_pool(request, tmp_path / "m.skops", lambda *step: seen.append(step))
    assert [(entry["site"], entry["sha256"]) for entry in model.about["releases"]] == [
        (one.site, one.sha256) for one in releases
    ]
    assert (results["rows"], results["sites"], results["releases"]) == (140, 4, 5)
    assert results["test"][0]["kind"] == PUBLIC
    curve = results["by_sites"]
    assert [point["sites"] for point in curve["points"]] == [1, 2, 3, 4]
    assert [one["site"] for one in curve["alone"]] == ["north", "south", "east", "west"]
    assert curve["points"][0]["error"] == pytest.approx(np.mean([one["error"] for one in curve["alone"]]))
    assert curve["points"][-1]["choices"] == 1
    assert seen[0][0] == "Reading the releases"
    assert seen[-1][1] == seen[-1][2]
    done = [step[1] / step[2] for step in seen if step[2]]
    assert done == sorted(done)


def test_the_error_is_what_the_model_does_on_the_test_rows(sites, tmp_path):
    """Counted a second way: the saved model, the plain rows, the card's own map."""
    releases, rest = sites
    written(rest, tmp_path / "test.parquet")
    _, results = train_pool(Request(releases, "naive-bayes", tmp_path / "test.parquet"), tmp_path / "m.skops")
    X = rest[COLUMNS].to_numpy() / WINE[COLUMNS].max().to_numpy()
    wrong = int((Model.load(tmp_path / "m.skops").classifier.predict(X) != rest["cultivar"]).sum())
    expected = stats.binomtest(wrong, len(rest)).proportion_ci(method="wilson")
    assert results["test"][0]["error"] == pytest.approx(wrong / len(rest))
    assert results["test"][0]["interval"] == pytest.approx([expected.low, expected.high])


def test_more_sites_make_fewer_errors_where_there_is_much_to_learn(tmp_path):
    """A chessboard of 36 fields, sixty rows a site: one site alone cannot know it, six together can."""
    rng = np.random.default_rng(1)
    corners = rng.integers(0, 6, (960, 2))
    rows = pd.DataFrame((corners + rng.normal(0, 0.12, (960, 2))).clip(-1, 7), columns=["a", "b"])
    rows["c"] = (corners.sum(axis=1) % 2).astype(str)
    columns = [Column(name, "numeric", low=-1.0, high=7.0, source="public", reason="test") for name in "ab"]
    label = Column("c", "categorical", role="label", categories=("0", "1"), source="public", reason="test")
    releases = []
    for number in range(6):
        options = Options(parameters={"scale": 0.001}, mechanism="additive-noise", schema=Schema((*columns, label)))
        folder = tmp_path / f"r{number}"
        sanitize(rows.iloc[60 * number : 60 * number + 60], folder, options)
        releases.append(Pushed(folder / "release.parquet", f"s{number}", str(number)))
    written(rows.iloc[360:], tmp_path / "test.csv")
    _, results = train_pool(Request(releases, "radius-vote", tmp_path / "test.csv"), tmp_path / "m.skops")
    first, last = results["by_sites"]["points"][0], results["by_sites"]["points"][-1]
    assert last["interval"][1] < first["interval"][0]
    assert first["lowest"] <= first["error"] <= first["highest"]


def test_without_test_rows_sites_are_compared_on_rows_held_out(sites, tmp_path):
    releases, _ = sites
    _, results = train_pool(Request(releases, "naive-bayes"), tmp_path / "m.skops")
    assert results["test"] == []
    assert results["by_sites"]["tested_on"] == HELD_OUT
    assert "perturbed" in results["by_sites"]["words"]
    assert "perturbed" in results["cross_validation"]["words"]
    assert 140 / 5 - 5 <= results["by_sites"]["rows"] <= 140 / 5 + 5


def test_rows_embedded_by_sites_are_told_from_a_public_table(sites, tmp_path):
    releases, rest = sites
    embedded = pushed(tmp_path / "t", "north", rest, parameters={"scale": 0.0001})
    request = Request(releases, "naive-bayes", test_releases=[embedded])
    _, results = train_pool(request, tmp_path / "m.skops")
    assert [(one["kind"], one["rows"]) for one in results["test"]] == [(EMBEDDED, len(rest))]
    assert results["by_sites"]["tested_on"] == EMBEDDED
    assert results["rows"] == 140


def test_a_secret_key_leaves_the_public_table_aside(tmp_path):
    rows = shuffled()
    first = pushed(tmp_path / "a", "north", rows.iloc[:100], "random-projection", parameters={"components": 8})
    written(rows.iloc[100:], tmp_path / "test.csv")
    _, results = train_pool(Request([first], "knn", tmp_path / "test.csv"), tmp_path / "m.skops")
    assert results["test"] == []
    assert any("key" in note for note in results["notes"])


def test_folds_of_resampled_rows_are_said_to_be_too_kind(tmp_path):
    """Rows drawn around one person lie on both sides of a fold."""
    drawn = pushed(tmp_path / "k", "north", shuffled().iloc[:120], "kernel-resampling", parameters={})
    for classifier, warned in (("naive-bayes", True), ("noise-aware-lda", False)):
        _, results = train_pool(Request([drawn], classifier), tmp_path / "m.skops")
        assert any("one person" in note for note in results["notes"]) is warned
        assert (results["cross_validation"] is not None) is warned


def test_other_spaces_missing_and_damaged_files_are_refused(sites, tmp_path):
    releases, _ = sites
    with pytest.raises(UsageError, match="No site has pushed"):
        train_pool(Request([], "knn"), tmp_path / "m.skops")
    with pytest.raises(UsageError, match="no classifier"):
        train_pool(Request(releases, "oracle"), tmp_path / "m.skops")
    other = pushed(tmp_path / "o", "odd", shuffled().iloc[:50], "principal-laplace", parameters={"b": 0.1})
    with pytest.raises(CardError, match=r"'odd' and .*'north' do not fit together"):
        train_pool(Request([*releases, other], "knn"), tmp_path / "m.skops")
    with pytest.raises(TableError, match="withdrawn"):
        train_pool(Request([Pushed(tmp_path / "none", "north", "0")], "knn"), tmp_path / "m.skops")
    (tmp_path / "junk.parquet").write_bytes(b"PAR1 junk PAR1")
    with pytest.raises(CardError, match="damaged"):
        train_pool(Request([Pushed(tmp_path / "junk.parquet", "x", "0")], "knn"), tmp_path / "m.skops")
    written(pd.DataFrame({"a": [1.0]}), tmp_path / "bare.parquet")
    with pytest.raises(CardError, match="no card"):
        train_pool(Request([Pushed(tmp_path / "bare.parquet", "x", "0")], "knn"), tmp_path / "m.skops")
    assert not (tmp_path / "m.skops").exists()


def test_a_large_pool_is_sampled_and_says_so(sites, tmp_path):
    releases, _ = sites
    limits = Limits(trained_rows=70, measured_rows=40)
    model, results = train_pool(Request(releases, "knn", limits=limits), tmp_path / "m.skops")
    assert 65 <= results["trained_rows"] == model.about["trained_rows"] <= 70
    assert results["rows"] == 140
    assert results["cross_validation"]["rows"] == pytest.approx(40, abs=3)
    assert any("140 rows" in note for note in results["notes"])
    assert any("random sample of 4" in note or "random sample of 3" in note for note in results["notes"])


def test_a_site_that_knows_one_class_always_answers_it(sites, tmp_path):
    releases, rest = sites
    single = pushed(tmp_path / "s", "single", WINE[WINE["cultivar"] == 1].iloc[:20])
    written(rest, tmp_path / "test.csv")
    _, results = train_pool(Request([*releases, single], "naive-bayes", tmp_path / "test.csv"), tmp_path / "m.skops")
    alone = {one["site"]: one["error"] for one in results["by_sites"]["alone"]}
    assert alone["single"] == pytest.approx(float((rest["cultivar"] != 1).mean()))


def test_errors_against_randomized_labels_are_those_against_true_ones(tmp_path):
    """Labels kept with probability 0.8: uncorrected, the error would be 0.2 or more."""
    rows = pd.concat([shuffled()] * 8, ignore_index=True)
    private = {"private_label": True, "label_epsilon": math.log(0.8 / 0.1)}
    found = []
    for name, options in (("exact", {}), ("randomized", private)):
        parts = [pushed(tmp_path / f"{name}{i}", f"s{i}", rows.iloc[i::2], seed=i, **options) for i in range(2)]
        found.append(train_pool(Request(parts, "naive-bayes"), tmp_path / "m.skops")[1])
    truth, folded = (results["cross_validation"] for results in found)
    assert folded["interval"][0] <= truth["error"] <= folded["interval"][1] < 0.1
    assert any("randomized" in note for note in found[1]["notes"])


def gathered(parts):
    return gather(Request(parts, "naive-bayes"), np.random.default_rng(0), lambda: None, plain=True)


def test_the_shuffled_pool_is_told_class_by_class(tmp_path):
    """Two sites with one recipe are one crowd; a private label joins the classes; no local epsilon, no figure."""
    rows = pd.concat([shuffled()] * 12, ignore_index=True)
    private = {"private_label": True, "label_epsilon": 0.5}
    found = {}
    for name, options in (("exact", {}), ("randomized", private), ("seeded", {"seed": 1})):
        wave = {"mechanism": "square-wave", "parameters": {"epsilon_record": 1.0}, **options}
        parts = [pushed(tmp_path / f"{name}{i}", f"s{i}", rows.iloc[i::2], **wave) for i in range(2)]
        found[name] = shuffled_pool(gathered(parts))
    assert found["seeded"] is None
    by_class = {one["class"]: one for one in found["exact"]["crowds"]}
    counts = rows["cultivar"].astype(str).value_counts()
    assert {name: one["rows"] for name, one in by_class.items()} == dict(counts)
    for one in by_class.values():
        assert one["epsilon"] == shuffled_epsilon(one["local_epsilon"], one["rows"])
    assert found["exact"]["epsilon"] == by_class[counts.idxmin()]["epsilon"] < 0.35
    (together,) = found["randomized"]["crowds"]
    assert (together["rows"], together["class"], together["stage"]) == (len(rows), None, None)
    assert together["local_epsilon"] == pytest.approx(1.5, abs=0.01)
    assert "does not hold against the coordinator" in found["exact"]["words"]


def test_stages_and_strengths_divide_the_crowd(tmp_path):
    rows = pd.concat([shuffled()] * 3, ignore_index=True)
    staged = pushed(tmp_path / "a", "north", rows, "staged-release", parameters={"epsilon_record": 4.0})
    crowds = shuffled_pool(gathered([staged]))["crowds"]
    assert {(one["class"], one["stage"]) for one in crowds} == {(name, k) for name in "012" for k in (1, 2, 3)}
    assert sum(one["rows"] for one in crowds) == len(rows)
    strengths = [
        pushed(tmp_path / f"w{epsilon}", f"s{epsilon}", rows, "square-wave", parameters={"epsilon_record": epsilon})
        for epsilon in (1.0, 2.0)
    ]
    crowds = shuffled_pool(gathered(strengths))["crowds"]
    assert all(one["local_epsilon"] > 1.9 for one in crowds)
    assert max(one["rows"] for one in crowds) == rows["cultivar"].value_counts().max()


def test_the_shuffled_pool_stands_on_the_models_card(tmp_path):
    release = pushed(tmp_path / "a", "north", shuffled(), parameters={"epsilon_record": 2.0})
    model, results = train_pool(Request([release], "naive-bayes"), tmp_path / "m.skops")
    assert model.about["shuffled"] == results["shuffled"]
    assert results["shuffled"]["delta"] == 1e-6


def test_the_interval_is_wilsons():
    for wrong, rows in ((0, 10), (3, 17), (50, 50), (120, 1000)):
        expected = stats.binomtest(wrong, rows).proportion_ci(method="wilson")
        rate = ErrorRate.of(wrong, rows)
        assert (rate.low, rate.high) == pytest.approx((expected.low, expected.high))


def test_the_correction_for_labels_inverts_what_randomization_did():
    """500 simulated classifiers with error 0.15, labels kept with 0.7 among four classes: 95% are covered."""
    rng = np.random.default_rng(0)
    rows, error, keep, k = 4_000, 0.15, 0.7, 4
    is_wrong = rng.random((500, rows)) < error
    kept = rng.random((500, rows)) < keep
    # A right answer agrees where the label was kept; a wrong one where it was turned into just that class.
    agrees = np.where(is_wrong, ~kept & (rng.random((500, rows)) < 1 / (k - 1)), kept)
    rates = [ErrorRate.of(float(rows - count), rows, keep=keep, classes=k) for count in agrees.sum(axis=1)]
    assert np.mean([rate.error for rate in rates]) == pytest.approx(error, abs=0.002)
    assert 0.93 < np.mean([rate.low <= error <= rate.high for rate in rates]) < 0.98
    assert np.mean([rate.low <= 1.3 * error <= rate.high for rate in rates]) < 0.3
    assert ErrorRate.of(5, 10, keep=0.25, classes=4).to_dict()["error"] is None


def test_learners_of_plain_rows_are_told_which_rows_are_perturbed():
    class Plain:
        answers_plain_rows = True

        def predict(self, Z):
            return np.zeros(len(Z), dtype=int)

        def predict_released(self, Z, card):
            assert card == "its card"
            return np.ones(len(Z), dtype=int)

    rows, labels = np.zeros((4, 1)), np.array([0, 1, 1, 1])
    for part, answer in ((Part(rows, labels), 0), (Part(rows, labels, "its card"), 1)):
        assert Queries([part], 2).answers(Plain()).tolist() == 4 * [answer]


def test_folds_of_noisy_rows_are_held_against_blurred_densities(tmp_path):
    """The values of the ill are narrow, and noise widens them: taken for plain rows, released ones look healthy."""
    rng = np.random.default_rng(0)
    told = {"source": "public", "reason": "test"}
    columns = [Column(name, "numeric", low=0.0, high=1.0, **told) for name in "abc"]
    label = Column("ill", "categorical", role="label", categories=("no", "yes"), **told)
    releases = []
    for seed, name in enumerate("rt"):
        ill = rng.random(1_000) < 0.5
        values = np.where(ill[:, None], rng.normal(0.5, 0.03, (1_000, 3)), rng.random((1_000, 3)))
        frame = pd.DataFrame(values, columns=list("abc")).assign(ill=np.where(ill, "yes", "no"))
        options = Options(
            mechanism="additive-noise",
            parameters={"law": "uniform", "scale": 0.3},
            schema=Schema((*columns, label)),
            seed=seed,
        )
        sanitize(frame, tmp_path / name, options)
        releases.append(Pushed(tmp_path / name / "release.parquet", "north", f"sha256:{name}"))
    request = Request(releases[:1], "reconstructed-naive-bayes", test_releases=releases[1:])
    model, results = train_pool(request, tmp_path / "m.skops")
    fresh = Release.open(tmp_path / "t")
    blurred = np.mean(model.classifier.predict_released(fresh.Z, fresh.card) != fresh.y)
    assert np.mean(model.classifier.predict(fresh.Z) != fresh.y) > blurred + 0.15
    assert results["test"][0]["error"] == pytest.approx(blurred)
    assert results["by_sites"]["alone"][0]["error"] == pytest.approx(blurred)
    assert results["cross_validation"]["error"] == pytest.approx(blurred, abs=0.06)


def test_folds_are_even_within_every_class():
    y = np.repeat([0, 1, 2], [50, 23, 2])
    fold = dealt(Part(np.zeros((75, 1)), y), 5, np.random.default_rng(0))
    assert np.bincount(fold).tolist() == [15] * 5
    for code in range(3):
        counts = np.bincount(fold[y == code], minlength=5)
        assert counts.max() - counts.min() <= 1


def test_choices_of_sites_are_different_ones():
    plan = Plan(["a", "b", "c"], [2, 3], 5)
    assert sorted(plan.choices(3, 2, np.random.default_rng(0))) == [(0, 1), (0, 2), (1, 2)]
    assert plan.choices(3, 3, np.random.default_rng(0)) == [(0, 1, 2)]
    assert len(set(plan.choices(9, 4, np.random.default_rng(0)))) == 5
    assert plan.trainings(3) == 3 + 3 + 1


def test_many_sites_are_measured_on_a_ladder():
    part = Part(np.zeros((10, 1)), np.zeros(10, dtype=int))
    plan = plan_of({f"s{i}": [part] for i in range(1_000)}, np.random.default_rng(0))
    assert len(plan.alone) == MOST_ALONE
    assert plan.counts[0] == 2
    assert plan.counts[-1] == 1_000
    assert len(plan.counts) <= MOST_COUNTS
    one = plan_of({"s": [part]}, np.random.default_rng(0))
    assert (one.alone, one.counts, one.trainings(1)) == (["s"], [], 1)


def forged(release, folder, column, value, card=None):
    """The same release with one cell changed, and its card if somebody edited that too."""
    table = pq.read_table(release.path)
    cells = table[column].to_pylist()
    cells[3] = value
    metadata = dict(table.schema.metadata)
    if card is not None:
        metadata[b"sfumato.card"] = card(metadata[b"sfumato.card"])
    place = table.schema.get_field_index(column)
    table = table.set_column(place, column, pa.array(cells)).replace_schema_metadata(metadata)
    pq.write_table(table, folder / "forged.parquet")
    return Pushed(folder / "forged.parquet", release.site, "sha256:forged")


def wide(text):
    """Noise 2^20 times what the other sites state, in one column."""
    card = json.loads(text)
    channel = card["recipe"]["channels"][0]
    channel["noise"]["scale"] *= 2.0**20
    channel["grid"] *= 2.0**20
    return json.dumps(card).encode()


@pytest.fixture(scope="module")
def honest(sites, tmp_path_factory):
    """What models of the honest sites reach."""
    releases, rest = sites
    folder = tmp_path_factory.mktemp("honest")
    test = written(rest, folder / "test.csv")
    return {
        name: train_pool(Request(releases, name, test_table=test), folder / "m.skops")[1]
        for name in ("naive-bayes", "svm")
    }


@pytest.mark.parametrize("card", [None, wide], ids=["received long ago", "the site's own noise"])
@pytest.mark.parametrize("value", first_daily([1e308, 1e6]))
def test_one_cell_does_not_ruin_a_model(sites, honest, tmp_path, value, card):
    """One of 140 rows: naive Bayes and the svm do as well as without it, and the results say what was done."""
    releases, rest = sites
    test = written(rest, tmp_path / "test.csv")
    far = forged(releases[1], tmp_path, COLUMNS[0], value, card)
    for name, other in honest.items():
        _, results = train_pool(Request([releases[0], far, *releases[2:]], name, test_table=test), tmp_path / "m.skops")
        assert results["test"][0]["error"] <= other["test"][0]["error"] + 0.03
        assert any("1 cell lies further out" in note for note in results["notes"])
        assert not any("further out" in note for note in other["notes"])
