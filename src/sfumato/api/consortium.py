"""demo --consortium: a server on the loopback, and four sites that share in two ways, one of them proved."""

from __future__ import annotations

import json
import re
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.api.sanitize import study_terms
from sfumato.auditing.audit import audit
from sfumato.core.errors import CoordinatorError, UsageError
from sfumato.core.wording import counted
from sfumato.guarantee import Card
from sfumato.learn.classifiers.factory import make_classifier
from sfumato.learn.classifiers.reads_noise import Part
from sfumato.learn.classifiers.training import fit_on_parts
from sfumato.release.sanitize import Options, sanitize
from sfumato.release.strength import MADE_UP
from sfumato.study import server_part
from sfumato.study.client import Coordinator, carry_out, plan_push
from sfumato.study.client.coordinator import until_done
from sfumato.study.client.private_notes import Agreements
from sfumato.study.plan_counts import plan_counts
from sfumato.study.pooling.trials import ErrorRate
from sfumato.study.protocol.study_file import load_study
from sfumato.table import Column, Encoding, Schema, write_table

LABEL = "diagnosis"
CLASSIFIER = "svm"
MECHANISM = "kernel-resampling"
GUARANTEE = {"epsilon": 1.0, "delta": 1e-6}
"""Of the study whose sites push noisy counts, for anybody's presence."""
SHARES = {"North": 0.4, "East": 0.3, "South": 0.2, "West": 0.1}
TEST_SHARE = 0.25
MOST_SITES = 20
REASON = "published in the description of the data set"
STATISTICS = {"mean": "mean {}", "standard error": "{} error", "worst": "worst {}"}
"""How the description of the data set and its columns name the same thing."""


@dataclass(frozen=True)
class Consortium:
    """The study's file, each site's private table, and patients whom no site has."""

    study: dict[str, Any]
    schema: Schema
    sites: dict[str, pa.Table]
    test: pa.Table

    def error(self, tables: list[pa.Table]) -> ErrorRate:
        """Error on the other patients after training on original rows, as if these could be shared."""
        encoding = Encoding(self.schema)
        rows = pa.concat_tables(tables)
        part = Part(encoding.encode(rows).X, encoding.encode_label(rows))
        truth = encoding.encode_label(self.test)
        answers = fit_on_parts(make_classifier(CLASSIFIER), [part]).predict(encoding.encode(self.test).X)
        return ErrorRate.of(int(np.count_nonzero(answers != truth)), len(truth))


def check_sites(count: int | None) -> None:
    if count is not None and not 1 <= count <= MOST_SITES:
        raise UsageError(
            f"--sites must be from 1 to {MOST_SITES}: more would leave a site too few patients. Got {count}."
        )


def make_consortium(count: int | None = None) -> Consortium:
    """Deal 569 patients to sites and a test table, always alike; bounds are the published ones.

    Four sites of unequal size, or as many as wanted of equal size.
    """
    check_sites(count)
    shares = SHARES if count is None else {f"Site {place}": 1 / count for place in range(1, count + 1)}
    from sklearn.datasets import load_breast_cancer

    data = load_breast_cancer()
    order = np.random.default_rng(1).permutation(len(data.data))
    columns = {str(name): pa.array(data.data[order, j]) for j, name in enumerate(data.feature_names)}
    columns[LABEL] = pa.array([str(data.target_names[code]) for code in data.target[order]])
    patients = pa.table(columns)
    # Bounds from the table of smallest and largest values that was published with the data; nothing is learned.
    known: dict[str, Any] = {"source": "public", "reason": REASON}
    told = re.findall(r"^([a-z ]+) \(([a-z ]+)\):\s+([\d.]+)\s+([\d.]+)", data.DESCR, re.MULTILINE)
    bounds = {STATISTICS[which].format(what): (float(low), float(high)) for what, which, low, high in told}
    names, classes = [str(name) for name in data.feature_names], tuple(str(name) for name in data.target_names)
    numbers = [Column(name, "numeric", low=bounds[name][0], high=bounds[name][1], **known) for name in names]
    schema = Schema((*numbers, Column(LABEL, "categorical", role="label", categories=classes, **known)))
    cut = round(TEST_SHARE * len(order))
    ends = cut + np.round(np.cumsum(list(shares.values())) * (len(order) - cut)).astype(int)
    starts = [cut, *ends[:-1]]
    sites = {name: patients.slice(start, end - start) for name, start, end in zip(shares, starts, ends, strict=True)}
    study = {
        "kind": "pool",
        "name": "Four hospitals" if count is None else counted(count, "hospital"),
        "schema": schema.to_dict(),
        "mechanism": {"name": MECHANISM, "parameters": {}},
        "guarantee": "empirical-allowed",
        "classifiers": [CLASSIFIER],
    }
    return Consortium(study, schema, sites, patients.slice(0, cut))


PATIENCE_SECONDS = 300.0
LINKING = {"nearest-row": "finds a patient's own row", "pair": "says whose of two a row is"}
"""Attacks that are tried on a site's rows, and what they do."""
COUNTS_CLASSIFIER = "auto"


@dataclass(frozen=True)
class Shown:
    """Errors on patients whom no site has: of originals together, of each site alone, and of two ways to share.
    `pooled` and `risk` are kernel resampling's; `counts` and `proof` those of noisy counts that add up."""

    original: dict[str, Any]
    alone: dict[str, dict[str, Any]]
    pooled: dict[str, Any]
    commonest: float
    rows: dict[str, int]
    risk: dict[str, Any]
    counts: dict[str, Any]
    proof: str

    @property
    def line(self) -> str:
        mean = sum(found["error"] for found in self.alone.values()) / len(self.alone)
        ways = {"kernel resampling": self.pooled["error"], "noisy counts": self.counts["error"]}
        losing = [name for name, error in ways.items() if error > mean]
        return (
            f"Own rows of one site give {mean:.3f} on average ({CLASSIFIER}), original rows of all sites would give "
            f"{self.original['error']:.3f}, and always the commonest diagnosis gives {self.commonest:.3f}."
            + (f" Here sharing by {' or '.join(losing)} loses to staying alone." if losing else "")
        )

    @property
    def risk_line(self) -> str:
        """What the coordinator, who gets every release, can do with one; figures only, since sites differ."""
        told = [
            f"{LINKING[name]} {100 * one['score']:.0f} of 100 times (without the release {100 * one['baseline']:.0f})"
            if one["score"] is not None
            else f"{LINKING[name]}: not tried"
            for name, one in self.risk["attacks"].items()
        ]
        return (
            f"Nothing is proved of these releases. In {self.risk['site']}'s, whoever holds patients' records "
            f"{'; '.join(told)}."
        )

    def to_dict(self) -> dict[str, Any]:
        return {"classifier": CLASSIFIER, **vars(self)}


@dataclass(frozen=True)
class Place:
    """Where a study is, its file and its hash, and the owner's token."""

    url: str
    file: Path
    hash: str
    study: str
    owner: str


def show_consortium(say: Callable[[str], None], sites: int | None = None) -> Shown:
    """Run the whole of it in a temporary folder, which is removed at the end."""
    with tempfile.TemporaryDirectory(prefix="sfumato-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        consortium = make_consortium(count=sites)
        test = folder / "test.parquet"
        write_table(consortium.test, test)
        with serving(folder / "server") as (url, store):
            say(f"The coordinator serves at {url}; sites know the hash of each study from elsewhere.")

            def play(study: Path) -> Place:
                """Make the study, and let every site take part."""
                read = load_study(study)
                place = Place(url, study, read.hash, *store.studies.create(read))
                with ThreadPoolExecutor(min(len(consortium.sites), 8)) as pool:
                    bytes_sent = pool.map(lambda site: _take_part(folder, site, consortium, place), consortium.sites)
                    say(f"{study.stem}: {sum(bytes_sent):,} bytes pushed by {counted(len(consortium.sites), 'site')}.")
                return place

            named, unnamed = folder / "kernel resampling.json", folder / "study.json"
            named.write_text(json.dumps(consortium.study))
            pooled = _trained(play(named), CLASSIFIER, test)
            # The same without a mechanism: noisy counts that add up. All sites first score what belongs together.
            open_study = {
                key: value for key, value in consortium.study.items() if key not in ("mechanism", "classifiers")
            }
            unnamed.write_text(json.dumps({**open_study, "guarantee": GUARANTEE, "classifiers": [COUNTS_CLASSIFIER]}))
            plan_counts(unnamed, scores=True, out=folder / "noisy scores.json")
            first = play(folder / "noisy scores.json")
            with Coordinator(url, first.owner) as coordinator:
                plan_counts(unnamed, scored=coordinator.added(first.study), out=folder / "noisy counts.json")
            counts = _trained(play(folder / "noisy counts.json"), COUNTS_CLASSIFIER, test)
        original = consortium.error(list(consortium.sites.values())).to_dict()
        alone = {site: consortium.error([table]).to_dict() for site, table in consortium.sites.items()}
        rows = {site: table.num_rows for site, table in consortium.sites.items()}
        site = next(iter(consortium.sites))
        proof = Card.load(folder / MADE_UP / site / "noisy counts").all_releases().bottom_line()
        # As the first site itself can measure it of its rows: it alone has the originals and the trace.
        risky, own = folder / MECHANISM / site / "kernel resampling", consortium.sites[site]
        found = audit(risky, original=own, holdout=consortium.test, attacks=tuple(LINKING), out=risky)
        risk = {"site": site, "attacks": {entry["name"]: entry for entry in found.data["attacks"]}}
        diagnoses = np.bincount(Encoding(consortium.schema).encode_label(consortium.test))
        commonest = 1.0 - float(diagnoses.max() / diagnoses.sum())  # error of always answering the commonest
        return Shown(original, alone, pooled, commonest, rows, risk, counts, proof)


def _trained(place: Place, classifier: str, test: Path) -> dict[str, Any]:
    """Error of a model that the coordinator trains on all that came, on patients that no site has."""
    with Coordinator(place.url, place.owner) as coordinator:
        coordinator.put_test(place.study, test)
        wanted = coordinator.train(place.study, classifier)
        [model] = until_done(lambda: [coordinator.model(place.study, wanted)], "Training", lambda *_: None, 0.1)
    if model.state != "done" or not model.results or not model.results.get("test"):
        raise CoordinatorError(f"Training failed: {model.failure or 'no reason was given'}")
    return {**model.results["test"][0], "alone": (model.results.get("by_sites") or {}).get("alone") or []}


def _take_part(folder: Path, site: str, consortium: Consortium, place: Place) -> int:
    """What a site does: sanitize at home with a ledger of its own, look at what would leave, push. Bytes that left."""
    terms = study_terms(place.file)
    # Each way to share is shown as if it were the only one: both rounds of counts have one ledger.
    home = folder / terms.mechanism / site
    home.mkdir(parents=True, exist_ok=True)
    options = Options(study=terms, only_new=terms.mechanism == MECHANISM, ledger=home / "ledger.json")
    release = home / place.file.stem
    sanitize(consortium.sites[site], release, options)
    with Coordinator(place.url, place.owner) as coordinator:
        token = coordinator.invite(place.study, site).token
    agreements = Agreements(home / "agreements.json")
    with Coordinator(place.url, token) as coordinator:
        plan = plan_push(coordinator, release, place.study, study_hash=place.hash, agreements=agreements)
        return int(carry_out(plan, coordinator, agreements=agreements).receipt.bytes)


@contextmanager
def serving(data: Path) -> Iterator[tuple[str, Any]]:
    """The server in a thread of this process, at a free port of the loopback."""
    server_part("app")  # all that a server needs is there, or the error says what is not
    import uvicorn

    listening = socket.create_server(("127.0.0.1", 0), backlog=64)
    app = server_part("app").create_app(server_part("settings").Settings(data=data, validators=1))
    config = uvicorn.Config(app, log_config=None, log_level="critical", access_log=False, lifespan="on")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        until = time.monotonic() + PATIENCE_SECONDS
        while not server.started:
            if not thread.is_alive() or time.monotonic() > until:
                raise CoordinatorError("The server did not start. Try `sfumato serve --data DIR` to see why.")
            time.sleep(0.01)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}", app.state.store
    finally:
        server.should_exit = True
        thread.join(30.0)
        listening.close()
