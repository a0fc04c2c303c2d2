"""The README's examples in Python: they run as they stand, have a proved guarantee, and are better than guessing."""

import warnings
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone

from sfumato.core.errors import PrivacyLeakWarning

README = Path(__file__).parents[1] / "README.md"


def run(number):
    """The names that a block of Python leaves behind; a `PrivacyLeakWarning` would mean that bounds were learned."""
    text = README.read_text(encoding="utf-8")
    found = {}
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrivacyLeakWarning)
        block = text.split("```python\n")[number].split("```", 1)[0]
        block = block.replace("holdout=others)", "holdout=others, repeats=1)")  # ten times as fast, else the same
        exec(compile(block, "README.md", "exec"), found)
    return found


@pytest.fixture(scope="module")
def door(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("readme"))
        yield {**run(1), "here": Path.cwd()}


def test_the_front_door_has_public_bounds_and_writes_what_it_says(door):
    release, here = door["release"], door["here"]
    assert release.card.guarantee["kind"] == "local-dp"
    assert release.card.guarantee["epsilon_record"] <= 8
    assert (here / "report.html").stat().st_size > 20_000
    written = {"release.parquet", "card.json", "signed.txt", "signed.txt.sig", "trace.parquet"}
    assert {path.name for path in (here / "flowers").iterdir()} == written
    assert len(door["audit"].scores) > 5


def test_its_model_beats_the_majority_on_average(door):
    sf, words = door["sf"], {"schema": door["schema"], "mechanism": "additive-noise", "epsilon_record": 8}
    errors, commonest = [], door["model"].evaluate(door["others"]).commonest
    for seed in range(8):
        trial = sf.sanitize(door["ours"], **words, seed=seed)
        errors.append(sf.train(trial, classifier="reconstructed-naive-bayes").evaluate(door["others"]).error)
    assert np.mean(errors) < commonest - 0.3, errors


def test_the_scikit_learn_example_has_public_bounds_and_beats_the_majority(capsys):
    found = run(2)
    model, X, y = found["model"], found["X_train"], found["y_train"]
    assert model.guarantee().kind == "local-dp"
    assert "from 1 chance in 10 to at most" in capsys.readouterr().out
    majority = np.unique(found["y_test"], return_counts=True)[1].max() / len(found["y_test"])
    scores = [
        clone(model).set_params(random_state=seed).fit(X, y).score(found["X_test"], found["y_test"])
        for seed in range(12)
    ]
    assert np.mean(scores) > majority + 0.3, "measured: 0.76 on average (standard deviation 0.1) against 0.34"
    assert np.mean(np.array(scores) > majority) > 0.9
