"""A command as a user types it, and a running server for commands that speak to one."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pytest
from example_study import STUDY

from sfumato.api.cli.app import app
from sfumato.api.cli.console import run_guarded


@pytest.fixture
def command(capsys):
    """Run a command; returns exit code, standard output and standard error."""

    def run(*arguments):
        code = run_guarded(app, [str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


@dataclass(frozen=True)
class Served:
    """A server in this process, its data folder, and a study in it."""

    url: str
    data: Path
    id: str
    hash: str
    owner: Path
    store: object

    @property
    def as_owner(self) -> tuple[str, ...]:
        return ("--to", self.url, "--token-file", str(self.owner))


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    from sfumato.api.demo import serving
    from sfumato.core.files import write_whole
    from sfumato.study.protocol.study_file import load_study

    folder = tmp_path_factory.mktemp("served")
    (folder / "study.yaml").write_text(STUDY)
    study = load_study(folder / "study.yaml")
    with serving(folder / "data") as (url, store):
        identity, token = store.studies.create(study)
        write_whole(folder / "owner.token", token, private=True)
        yield Served(url, folder / "data", identity, study.hash, folder / "owner.token", store)


@pytest.fixture(scope="module")
def people(tmp_path_factory):
    """A private table of 80 people whose age tells much about the label."""
    import numpy as np
    import pandas as pd

    rng = np.random.default_rng(0)
    ill = rng.random(80) < 0.5
    table = {"age": np.where(ill, 75, 25) + rng.integers(-9, 9, 80), "height": rng.normal(170, 9, 80)}
    path = tmp_path_factory.mktemp("people") / "people.csv"
    pd.DataFrame({**table, "ill": np.where(ill, "yes", "no")}).to_csv(path, index=False)
    return path


@pytest.fixture
def release(people, served, tmp_path):
    """Sanitize the people for the study; more words as in `Options`."""
    from sfumato.release.sanitize import Options, sanitize
    from sfumato.study.protocol.study_file import load_study

    def make(name="release", **words):
        schema = load_study(served.owner.parent / "study.yaml").schema
        parameters = {"parameters": {"epsilon_record": 5.0}}
        sanitize(people, tmp_path / name, Options(mechanism="additive-noise", schema=schema, **{**parameters, **words}))
        return tmp_path / name

    return make


@pytest.fixture
def site(served, tmp_path):
    """Options of a site that was invited under a name of this test's own."""
    name = "Site " + os.urandom(4).hex()
    token = served.store.sites.invite(served.id, name).token
    (tmp_path / "site.token").write_text(token)
    (tmp_path / "site.token").chmod(0o600)
    return name, ("--to", served.url, "--study", served.id, "--token-file", str(tmp_path / "site.token")), token
