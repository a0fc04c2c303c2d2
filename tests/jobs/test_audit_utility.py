"""What a release is good for: with the card in hand, and where a classifier has no answer for plain rows."""

import numpy as np
import pandas as pd

from sfumato.api.cli.audit import utility_lines
from sfumato.auditing.audit import audit
from sfumato.auditing.report.columns import VERDICTS, dots, learned
from sfumato.auditing.utility import CLASSIFIERS, WITH_CARD
from sfumato.release.sanitize import Options, sanitize
from sfumato.table import Column, Schema

TOLD = {"source": "public", "reason": "test"}
SCHEMA = Schema(
    (
        Column("pulse", "numeric", low=40.0, high=140.0, **TOLD),
        Column("age", "numeric", low=20.0, high=90.0, **TOLD),
        Column("ill", "categorical", role="label", categories=("no", "yes"), **TOLD),
    )
)


def audited(folder, mechanism, parameters, rows=400):
    rng = np.random.default_rng(0)
    ill = rng.random(rows) < 0.3
    frame = pd.DataFrame(
        {
            "pulse": np.clip(rng.normal(np.where(ill, 110, 70), 8), 40, 140),
            "age": rng.uniform(20, 90, rows),
            "ill": np.where(ill, "yes", "no"),
        }
    )
    options = Options(mechanism=mechanism, parameters=parameters, schema=SCHEMA, seed=1)
    sanitize(frame, folder, options)
    found = audit(folder, original=frame, attacks=("naive-estimate",), repeats=4).data
    return {entry["classifier"]: entry for entry in found["utility"]}, found["notes"]


def test_an_analyst_with_the_card_is_among_them(tmp_path):
    """Uniform noise nearly as wide as the range: naive Bayes by itself believes in normal classes that are too wide."""
    entries, notes = audited(tmp_path / "r", "additive-noise", {"law": "uniform", "scale": 0.4})
    assert list(entries) == [*CLASSIFIERS, *WITH_CARD]
    assert not any("failed" in entry for entry in entries.values())
    assert not any("No utility" in note for note in notes)
    assert entries["reconstructed-naive-bayes"]["release"] > 0.93
    assert max(entries[name]["release"] for name in ("knn", "mlp", "forest", "naive-bayes")) < 0.93


def test_multiplied_rows_are_tested_where_each_classifier_wants_them(tmp_path):
    """Factors of mean 4: plain rows in the place of released ones, or the other way round, would all look well."""
    entries, _ = audited(tmp_path / "r", "multiplicative-noise", {"low": 3.8, "high": 4.2})
    assert all(entry["release"] > 0.93 for entry in entries.values()), entries


def test_without_noise_there_is_nothing_more_to_know(tmp_path):
    entries, _ = audited(tmp_path / "r", "condensation", {"k": 10})
    assert set(entries) == set(CLASSIFIERS)


def test_classifiers_that_cannot_answer_for_plain_rows_are_named(tmp_path):
    parameters = {"operator": "quartic", "law": "uniform", "low": -0.5, "high": 1.0}
    entries, notes = audited(tmp_path / "r", "noisy-operator", parameters)
    assert set(entries) == {"reconstructed-naive-bayes", "reconstructed-tree"}
    for name in (*CLASSIFIERS, "noise-aware-lda", "noise-aware-qda"):
        assert any("No utility of" in note and name in note and "quartic" in note for note in notes), name
    assert entries["reconstructed-naive-bayes"]["release"] > 0.85


def test_every_accuracy_stands_beside_that_of_the_commonest_class(tmp_path):
    """Seven of ten are not ill: weak noise beats that, strong noise does not, and both are said."""
    weak, _ = audited(tmp_path / "weak", "additive-noise", {"scale": 0.02})
    assert {entry["than_commonest"] for entry in weak.values()} == {"better"}
    strong, _ = audited(tmp_path / "strong", "additive-noise", {"scale": 50.0})
    for entry in (*weak.values(), *strong.values()):
        assert 0.6 < entry["commonest"] < 0.8
    assert {strong[name]["than_commonest"] for name in ("radius-vote", "noise-aware-lda")} == {"no better"}
    lines = list(utility_lines({"utility": list(strong.values())}))
    assert lines[0].startswith("learned, and tested on ")
    assert "commonest class" in lines[1]
    below = lines[1 + next(k for k, line in enumerate(lines) if line.startswith("radius-vote"))]
    assert below == "  no better than the commonest class"
    assert "no better than the commonest class" not in "".join(utility_lines({"utility": list(weak.values())}))
    page = learned(list(strong.values()))
    assert VERDICTS[page[-1]["than_commonest"]] == "no better than the commonest class"
    assert "by always answering the commonest class" in str(dots(page[0]))
