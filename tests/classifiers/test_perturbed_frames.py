"""Rows as users have them: DataFrames of numbers, words and dates, sparse matrices; and no cell in any error."""

import traceback
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy.sparse import csc_array, csr_matrix
from sklearn.model_selection import cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.utils.estimator_checks import parametrize_with_checks

from sfumato.core.errors import PrivacyLeakWarning, SchemaError, SfumatoError, TableError, UsageError
from sfumato.learn.classifiers import PerturbedClassifier, RadiusVote, ReconstructedNaiveBayes
from sfumato.mechanisms import AdditiveNoise, PrincipalLaplace
from sfumato.table import Column, Schema
from sfumato.table.encoding import UnknownCategoryWarning

WEAK = AdditiveNoise(scale=0.02, category_epsilon=6.0)


def people(rows=300, seed=0):
    """The country tells the class, nearly; other columns do not."""
    rng = np.random.default_rng(seed)
    country = rng.choice(["de", "fr", "it"], rows)
    frame = pd.DataFrame(
        {
            "age": rng.integers(20, 80, rows),
            "country": country,
            "member": rng.random(rows) < 0.5,
            "since": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, rows), "D"),
            "income": np.where(np.arange(rows) % 9 == 0, np.nan, rng.normal(50, 9, rows)),
            "pet": pd.Categorical(np.where(np.arange(rows) % 7 == 0, None, rng.choice(["cat", "dog"], rows))),
        }
    )
    return frame, np.where(country == "de", "yes", "no")


def public():
    said = {"source": "public", "reason": "a form"}
    return Schema(
        (
            Column("age", "integer", low=0, high=120, **said),
            Column("country", "categorical", categories=("de", "fr", "it"), **said),
            Column("member", "categorical", categories=("false", "true"), **said),
            Column("since", "date", low="2020-01-01", high="2023-01-01", **said),
            Column("income", "numeric", low=0, high=200, missing=True, **said),
            Column("pet", "categorical", categories=("cat", "dog"), missing=True, **said),
        )
    )


@parametrize_with_checks([PerturbedClassifier(AdditiveNoise(scale=0.01), "naive-bayes", random_state=0)])
@pytest.mark.filterwarnings("ignore::sfumato.core.errors.PrivacyLeakWarning")
def test_scikit_learn_contract(estimator, check):
    check(estimator)


class TestMixedFrames:
    @pytest.mark.parametrize(
        "classifier", ["radius-vote", "reconstructed-naive-bayes", "forest", GaussianNB()], ids=str
    )
    @pytest.mark.parametrize("mechanism", [WEAK, PrincipalLaplace(b=0.02, components=1.0)], ids=lambda m: m.name)
    def test_words_truth_values_dates_and_empty_cells(self, mechanism, classifier):
        X, y = people()
        model = PerturbedClassifier(mechanism, classifier, schema=public(), random_state=0).fit(X[:200], y[:200])
        assert model.score(X[200:], y[200:]) > 0.85
        assert list(model.feature_names_in_) == list(X.columns)
        assert model.predict_proba(X[200:]).shape == (100, 2)

    def test_a_schema_gives_a_guarantee_and_no_schema_a_warning(self):
        X, y = people()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert PerturbedClassifier(AdditiveNoise(), schema=public()).fit(X, y).guarantee().kind == "local-dp"
        with pytest.warns(PrivacyLeakWarning, match="age, country, member, since, income, pet were read off"):
            learned = PerturbedClassifier(AdditiveNoise()).fit(X, y)
        assert learned.guarantee().kind == "empirical-only"

    def test_bounds_by_name(self):
        X, y = people()
        with pytest.warns(PrivacyLeakWarning, match="of country, member, since, pet were read off"):
            PerturbedClassifier(AdditiveNoise(), bounds={"age": (0, 120), "income": (0, 200)}).fit(X, y)
        numbers = X[["age", "income"]].fillna(50)
        both = {"age": (0, 120), "income": (0, 200)}
        assert PerturbedClassifier(AdditiveNoise(), bounds=both).fit(numbers, y).guarantee().kind == "local-dp"
        with pytest.raises(UsageError, match=r"names 'aeg'\. Did you mean 'age'"):
            PerturbedClassifier(bounds={"aeg": (0, 1)}).fit(X, y)
        with pytest.raises(UsageError, match="give bounds by name"):
            PerturbedClassifier(bounds=([0] * 6, [1] * 6)).fit(X, y)
        with pytest.raises(UsageError, match="low <= high"):
            PerturbedClassifier(bounds={"age": (9, 1)}).fit(X, y)

    def test_other_frames_and_cross_validation(self):
        X, y = people()
        model = PerturbedClassifier(WEAK, "naive-bayes", schema=public(), random_state=0)
        assert cross_val_score(model, X, y, cv=3).mean() > 0.85
        arrow = pa.Table.from_pandas(X, preserve_index=False)
        np.testing.assert_array_equal(model.fit(arrow, y).predict(arrow), model.fit(X, y).predict(X))
        polars = pytest.importorskip("polars")
        np.testing.assert_array_equal(model.fit(polars.from_arrow(arrow), y).predict(arrow), model.fit(X, y).predict(X))

    def test_new_categories_are_counted_and_treated_as_missing(self):
        X, y = people()
        model = PerturbedClassifier(WEAK, "naive-bayes", schema=public(), random_state=0).fit(X, y)
        strange = X.head(5).assign(country=["de", "secretland", "fr", "secretland", "it"])
        with pytest.warns(UnknownCategoryWarning, match=r"country \(2 cells\)") as caught:
            assert len(model.predict(strange)) == 5
        assert "secret" not in str(caught[0].message)
        assert "--unknown" not in str(caught[0].message)

    def test_what_does_not_fit(self):
        X, y = people()
        model = PerturbedClassifier(WEAK, "naive-bayes", schema=public(), random_state=0).fit(X, y)
        with pytest.raises(ValueError, match="feature names should match"):
            model.predict(X.drop(columns="age"))
        with pytest.raises(UsageError, match="answers for DataFrames only"):
            model.predict(X.to_numpy())
        with pytest.raises(UsageError, match="needs a DataFrame"):
            PerturbedClassifier(schema=public()).fit(np.zeros((4, 6)), [0, 1, 0, 1])
        with pytest.raises(UsageError, match="not both"):
            PerturbedClassifier(schema=public(), bounds=(0, 1)).fit(X, y)
        with pytest.raises(SchemaError, match="no column 'more'"):
            PerturbedClassifier(schema=public()).fit(X.assign(more=1), y)


class TestSparse:
    @pytest.mark.parametrize("form", [csr_matrix, csc_array])
    def test_sparse_rows_are_those_of_the_dense_matrix(self, form):
        rng = np.random.default_rng(0)
        X, y = (rng.random((120, 6)) < 0.3) * 1.0, np.arange(120) % 2
        X[:, 0] = y
        model = PerturbedClassifier(AdditiveNoise(scale=0.05), "naive-bayes", bounds=(0, 1), random_state=0)
        dense, sparse = model.fit(X, y).predict_proba(X), model.fit(form(X), y).predict_proba(form(X))
        np.testing.assert_allclose(sparse, dense)
        assert model.score(form(X), y) > 0.9


SECRETS = {
    "words in an array": (np.array([["1", "secret"], ["2", "3"]], dtype=object), [0, 1]),
    "words in a list": ([[1.0, "secret"], [2.0, 3.0]], [0, 1]),
    "numbers and a word": (pd.DataFrame({"a": [1.0, 2.0], "b": [1, "secret"]}), [0, 1]),
    "one row": (np.array([77.125, 1.0, 2.0]), [0, 1, 0]),
    "a number": (77.125, [0]),
    "complex numbers": (np.array([[77.125 + 1j], [2.0]]), [0, 1]),
    "infinite": (np.array([[77.125, np.inf], [1.0, 2.0]]), [0, 1]),
    "other lengths": (np.array([[77.125], [2.0], [3.0]]), [0, 1]),
    "continuous classes": (np.array([[1.0], [2.0], [3.0]]), [77.125, 0.2, 0.3]),
    "empty classes": (np.array([[1.0], [2.0], [3.0]]), [77.125, np.nan, 0.3]),
    "classes of two kinds": (np.array([[1.0], [2.0], [3.0]]), np.array(["secret", 1, None], dtype=object)),
    "a dict": (np.array([[{"secret": 77.125}], [2.0]], dtype=object), [0, 1]),
    "free text": (pd.DataFrame({"a": [f"secret story {n} of my life and works" for n in range(200)]}), [0, 1] * 100),
    "classes beside a frame": (pd.DataFrame({"a": ["x", "y", "x"]}), ["secret", None, "secret"]),
    "one class less": (pd.DataFrame({"a": ["x", "y", "x"]}), ["secret", "other"]),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("learner", [PerturbedClassifier(), RadiusVote(), ReconstructedNaiveBayes()], ids=repr)
@pytest.mark.parametrize("case", SECRETS)
def test_no_error_quotes_a_cell(learner, case):
    """Neither the message nor the trace that a notebook prints below it."""
    X, y = SECRETS[case]
    with pytest.raises((ValueError, TypeError, SfumatoError)) as caught:
        learner.fit(X, y)
    shown = "".join(traceback.format_exception_only(caught.value)) + str(caught.value)
    cause = caught.value if caught.value.__suppress_context__ else caught.value.__context__
    shown += str(cause)
    assert "secret" not in shown
    assert "77.1" not in shown


@pytest.mark.filterwarnings("ignore")
def test_queries_are_not_quoted_either():
    X = np.random.default_rng(0).random((40, 2))
    model = PerturbedClassifier(AdditiveNoise(), bounds=(0, 1)).fit(X, np.arange(40) % 2)
    for rows in ([[1.0, "secret"]], np.array([77.125]), [[77.125, 1.0, 2.0]]):
        with pytest.raises((ValueError, TypeError)) as caught:
            model.predict(rows)
        assert "secret" not in str(caught.value)
        assert "77.1" not in str(caught.value)


def test_mechanisms_do_not_quote_cells():
    with pytest.raises(TableError, match="must be numbers") as caught:
        AdditiveNoise().fit([["secret"]])
    assert "secret" not in str(caught.value)
    with pytest.raises(TableError, match="must be codes"):
        AdditiveNoise().fit([[0.5], [0.25]], ["secret", "other"])
