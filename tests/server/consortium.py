"""A small study, releases for it, and an app to push them to: what the tests of the server share."""

import copy
import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from fastapi.testclient import TestClient

from sfumato.release.sanitize import Options, sanitize
from sfumato.study.protocol.study_file import study_from_dict
from sfumato.study.server.settings import Rate, Settings
from sfumato.table import Schema

PLENTY = Rate(1e6, 1e6)
PUBLIC = {"source": "public", "reason": "the form says so"}
COLUMNS = [
    {"name": "age", "kind": "integer", "low": 0, "high": 120, **PUBLIC},
    {"name": "weight", "kind": "numeric", "low": 0.0, "high": 200.0, "missing": True, **PUBLIC},
    {"name": "sex", "kind": "categorical", "categories": ["f", "m"], **PUBLIC},
    {"name": "ill", "kind": "categorical", "role": "label", "categories": ["no", "yes"], **PUBLIC},
]
DEFINITION = {
    "kind": "pool",
    "name": "Four hospitals",
    "schema": {"version": 1, "columns": COLUMNS},
    "mechanism": {"name": "additive-noise", "parameters": {}},
    "guarantee": {"epsilon_record": 8.0},
}


def study(**changes):
    return study_from_dict({**copy.deepcopy(DEFINITION), **changes})


def people(rows=60, seed=0):
    """A table that fits the study."""
    rng = np.random.default_rng(seed)
    age = rng.integers(0, 121, rows)
    return {
        "age": age.tolist(),
        "weight": [None if hidden else float(value) for hidden, value in zip(rng.random(rows) < 0.1, age, strict=True)],
        "sex": rng.choice(["f", "m"], rows).tolist(),
        "ill": np.where(age + rng.normal(0, 20, rows) > 60, "yes", "no").tolist(),
    }


def release(folder: Path, rows=60, seed=0, columns=COLUMNS, mechanism="additive-noise", parameters=None, **options):
    """The bytes of a release.parquet with its card inside."""
    schema = Schema.from_dict({"columns": copy.deepcopy(columns)})
    parameters = {"epsilon_record": 8.0} if parameters is None else parameters
    chosen = Options(mechanism=mechanism, parameters=parameters, schema=schema, force=True, **options)
    sanitize(people(rows, seed), folder / "release", chosen)
    return (folder / "release" / "release.parquet").read_bytes()


def rewritten(body: bytes, folder: Path, change=None, card=None, **writing) -> bytes:
    """The same file with its table or its card changed, as somebody without scruples would."""
    path = folder / "rewritten.parquet"
    path.write_bytes(body)
    table = pq.read_table(path)
    metadata = dict(table.schema.metadata)
    if change is not None:
        table = change(table)
    if card is not None:
        metadata[b"sfumato.card"] = card(metadata[b"sfumato.card"])
    pq.write_table(table.replace_schema_metadata(metadata), path, **writing)
    return path.read_bytes()


def sha(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def settings(data: Path, **changes) -> Settings:
    return Settings(data, **{"worker": False, "validators": 1, "max_site_pushes": 32, **changes})


@dataclass
class Study:
    """One study of an app under test."""

    client: TestClient
    id: str
    owner: str

    @property
    def url(self):
        return f"/api/v1/studies/{self.id}"

    @property
    def store(self):
        return self.client.app.state.store

    def invite(self, name="St. Mary", days=30):
        return self.store.sites.invite(self.id, name, days).token

    def call(self, method, path="", token=None, **more):
        headers = {"Authorization": f"Bearer {self.owner if token is None else token}"} | more.pop("headers", {})
        return self.client.request(method, self.url + path, headers=headers, **more)

    def push(self, body, token, sha256=None, purpose="train", **more):
        path = f"/releases/{sha256 or sha(body)}?purpose={purpose}"
        return self.call("PUT", path, token, content=body, **more)
