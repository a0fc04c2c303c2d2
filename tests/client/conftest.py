"""A scripted server, patience that does not wait, and a release to push."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scripted import DEFINITION, serving

from sfumato.release.sanitize import Options, sanitize
from sfumato.study.client.connection import Patience
from sfumato.study.protocol.study_file import study_from_dict


@pytest.fixture
def server():
    with serving() as scripted:
        yield scripted


@pytest.fixture
def waits():
    """Patience that notes how long it would have waited."""
    slept: list[float] = []
    return slept, Patience(sleep=slept.append)


@pytest.fixture(scope="session")
def study():
    return study_from_dict(DEFINITION)


@pytest.fixture
def release(study, tmp_path):
    """Make a release of 60 people that the study takes, or another by words of `Options`."""

    def make(name="release", **words):
        rng = np.random.default_rng(0)
        people = pd.DataFrame(
            {"age": rng.integers(18, 90, 60), "height": rng.normal(170, 9, 60), "ill": rng.choice(["no", "yes"], 60)}
        )
        given = {"mechanism": "additive-noise", "schema": study.schema, "parameters": {"epsilon_record": 5.0}, **words}
        sanitize(people, tmp_path / name, Options(**given))
        return tmp_path / name

    return make


@pytest.fixture
def described(study):
    """The study as a server describes it."""
    return {
        "id": "k3f9",
        "kind": "pool",
        "name": study.name,
        "hash": study.hash,
        "definition": study.to_dict(),
        "created": "2026-01-01",
        "state": "open",
    }


@pytest.fixture
def receipt():
    """A handler that takes what is pushed and sends the receipt."""

    def take(request):
        sha256 = request["path"].split("/")[-1].split("?")[0]
        found = {"sha256": sha256, "bytes": len(request["body"]), "rows": 60, "purpose": "train", "site": "North"}
        return 201, {**found, "study": "k3f9", "received": "2026-01-02", "assertions": "site-asserted"}

    return take
