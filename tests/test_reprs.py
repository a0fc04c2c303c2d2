"""What is printed in a notebook or a log: short, and without what belongs to somebody."""

import html
import re

import numpy as np
import pandas as pd
import pytest

from sfumato.auditing.audit import audit
from sfumato.learn.model import Model, load_model
from sfumato.learn.train import train
from sfumato.mechanisms import GuidedProjection, PrincipalLaplace, RandomRotation
from sfumato.reconstruction.reconstruct import reconstruct
from sfumato.release.release import Release
from sfumato.release.sanitize import Options, sanitize

pytestmark = pytest.mark.filterwarnings("ignore::sfumato.core.errors.PrivacyLeakWarning")

LONGEST = 160


def people(columns=40, rows=60):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(rows, columns)), columns=[f"number-{n}" for n in range(columns)])
    return table.assign(place=[f"secretplace{n % 50}" for n in range(rows)], label=np.arange(rows) % 2)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """One of everything that users hold in their hands."""
    folder = tmp_path_factory.mktemp("reprs")
    table = people()
    sanitized = sanitize(
        table, folder / "r", Options(mechanism="random-rotation", parameters={}, label="label", seed=1)
    )
    release = Release.open(folder / "r")
    train([folder / "r"], classifier="knn").save(folder / "m.skops")
    sanitize(
        table, folder / "a", Options(mechanism="additive-noise", parameters={}, label="label", seed=1, unprotected=True)
    )
    noisy = Release.open(folder / "a")
    values = np.random.default_rng(1).normal(size=60)
    encoding = release.encoding
    return {
        "schema": encoding.schema,
        "column": encoding.schema["place"],
        "encoding": encoding,
        "group": encoding.groups[-1],
        "card": release.card,
        "release": release,
        "key": release.key,
        "sanitized": sanitized,
        "guarantee": release.card.stated_guarantee(),
        "model": Model.load(folder / "m.skops"),
        "predicted": load_model(folder / "m.skops").classify(table, key=folder / "r" / "key.json"),
        "audit": audit(folder / "r", original=table, repeats=0, attacks=("naive-estimate",)),
        "density": reconstruct(values, noisy.card, column="number-0", resamples=0),
        "basis": PrincipalLaplace(basis=np.eye(60)),
        "listed basis": PrincipalLaplace(basis=np.eye(60).tolist()),
        "guidance": GuidedProjection(guidance="ab" * 5000),
    }


def test_all_are_short_and_tell_nothing_of_anybody(made):
    smallest = repr(made["schema"]["number-0"].low)
    for name, thing in made.items():
        for text in (repr(thing), str(thing)):
            assert len(text) <= LONGEST + len(str(getattr(thing, "folder", ""))), (name, text)
            assert "secretplace" not in text, name
            assert smallest not in text, name
            assert "\n" not in text, name


def test_a_key_shows_none_of_its_numbers(made):
    key = made["key"]
    text = repr(key) + str(key) + repr(made["release"])
    assert key.salt.hex() not in text
    assert repr(key.salt) not in text
    assert all(f"{abs(value):.4f}"[1:] not in text for array in key.arrays.values() for value in array.ravel())


def test_mechanisms_still_say_their_parameters():
    assert repr(PrincipalLaplace(b=0.1)) == "PrincipalLaplace(b=0.1)"
    assert repr(PrincipalLaplace(basis=np.eye(60))) == "PrincipalLaplace(basis=<60 x 60 numbers>)"
    assert repr(GuidedProjection(guidance="ab" * 5000)) == "GuidedProjection(guidance=<str of 10000 letters>)"
    assert repr(RandomRotation()) == "RandomRotation()"


def test_a_notebook_shows_what_a_release_gives_away_and_what_a_model_has_to_beat(made):
    release, model = made["release"]._repr_html_(), made["model"]._repr_html_()
    assert release.startswith("<p>&lt;Release of 60 rows x ")
    assert made["release"].card.guarantee["words"].splitlines()[0] in html.unescape(release)
    assert re.fullmatch(
        r"<p>&lt;Model knn from 60 released rows&gt;</p>"
        r"<p>Predicts label; always answering the commonest class is right for 50.0% of its rows.</p>",
        model,
    )
    assert "secretplace" not in release + model
