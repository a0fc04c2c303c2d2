"""The owner's road in one go (sanitize, audit, report), on a table that ships with scikit-learn or on one's own; and a
consortium: a server on the loopback, and four sites that share in two ways, one of them proved."""

from __future__ import annotations

import json
import re
import socket
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.advising.advice import Advice, Known, advise
from sfumato.advising.asked import DemoAsked
from sfumato.advising.trial import split
from sfumato.advising.wish import Wish
from sfumato.api.sanitize import study_terms
from sfumato.auditing.audit import Audit, audit
from sfumato.auditing.report.page import write_report
from sfumato.core.errors import CoordinatorError, PrivacyLeakWarning, TableError, UsageError
from sfumato.core.files import new_folder
from sfumato.core.progress import Progress, silent
from sfumato.core.wording import counted
from sfumato.guarantee import Card
from sfumato.learn.classifiers.factory import make_classifier
from sfumato.learn.classifiers.reads_noise import Part
from sfumato.learn.classifiers.training import fit_on_parts
from sfumato.ledger import Ledger
from sfumato.release.sanitize import Options, sanitize, schema_for
from sfumato.release.sanitize_checks import read_off
from sfumato.release.strength import MADE_UP
from sfumato.study import server_part
from sfumato.study.client import Coordinator, carry_out, plan_push
from sfumato.study.client.coordinator import until_done
from sfumato.study.client.private_notes import Agreements
from sfumato.study.plan_counts import plan_counts
from sfumato.study.pooling.trials import ErrorRate
from sfumato.study.protocol.study_file import load_study
from sfumato.table import Column, Encoding, Schema, open_table, write_table

LABEL = "diagnosis"
EPSILON = 1.0
IN_THE_TABLE = 0.75
FEWEST = 2
"""Rows that an audit needs of each part."""
REASON = "what the imaging program can measure"
RANGES = {
    "radius": (0, 40, 5), "texture": (0, 60, 8), "perimeter": (0, 300, 40), "area": (0, 6_000, 1_000),
    "smoothness": (0, 0.4, 0.06), "compactness": (0, 2, 0.3), "concavity": (0, 2, 0.6),
    "concave_points": (0, 0.5, 0.1), "symmetry": (0, 1, 0.15), "fractal_dimension": (0, 0.4, 0.06),
}  # fmt: skip
"""Limits of each measurement, and of its standard error: from what the program can tell, not from these patients."""


@dataclass(frozen=True)
class Demonstration:
    """What the demo found, for printing. `read`: columns whose ranges were read off the table, so that nothing is
    proved. `others`: rows that are not in the table, and test the release."""

    folder: Path
    schema: Schema
    read: list[str]
    card: Card
    audit: Audit
    advice: Advice
    before: pa.Table
    after: pa.Table
    others: int


def demonstrate(asked: DemoAsked, progress: Progress = silent) -> Demonstration:
    """Run the road into a folder; without a table of one's own, on the example's.

    Three quarters of the rows are released, the others are the control. Nothing is written elsewhere: the ledger is the
    demonstration's own and is thrown away, so what it released of a table of one's own is to look at, not to share.
    """
    own = asked.table is not None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)  # told in the first sentence
        rows = open_table(asked.table).read() if own else example_table()
        agreed = schema_for(rows, asked.schema, asked.label) if own else declared(rows.column_names)
        read = read_off(agreed)
        people = None if agreed.person is None else rows[agreed.person.name].to_pylist()
        chosen = split(people, rows.num_rows, (IN_THE_TABLE, 1 - IN_THE_TABLE), np.random.default_rng(0))
        before, others = (rows.take(part) for part in chosen)
        if min(before.num_rows, others.num_rows) < FEWEST:
            raise TableError(
                f"The table has {counted(rows.num_rows, 'row')}, too few for the demo: a quarter is kept aside, and "
                f"both parts need at least {FEWEST} rows. `sfumato sanitize` takes any table."
            )
        with new_folder(asked.out, force=asked.force, private=own) as folder:
            if not own:
                write_table(before, folder / "patients.csv")
                write_table(others, folder / "others.csv")
            agreed.save(folder / "schema.yaml")
            release, ledger, cap = folder / "release", folder / "ledger.json", asked.max_rows_per_person
            unproved = bool(read)
            options = Options(
                schema=agreed, epsilon=EPSILON, measured_only=unproved, max_rows_per_person=cap, ledger=ledger
            )
            done = sanitize(before, release, options, progress)
            Ledger(ledger).discard()
            found = audit(release, original=before, holdout=others, out=release, progress=progress)
            after = open_table(release / "release.parquet").read()
            write_report(found.data, release / "report.html")
    predicted = None if agreed.label is None else agreed.label.name
    advice = advise(Wish(epsilon=EPSILON), Known(predicted, counted=before.num_rows))
    return Demonstration(asked.out, agreed, read, done.card, found, advice, before, after, others.num_rows)


def declared(names: Sequence[str]) -> Schema:
    """The ranges that an owner would declare, each with its reason."""
    known: dict[str, Any] = {"source": "public", "reason": REASON}

    def column(name: str) -> Column:
        if name == LABEL:
            return Column(name, "categorical", role="label", categories=("benign", "malignant"), **known)
        low, high, error = RANGES[name.removeprefix("mean_").removeprefix("worst_").removesuffix("_error")]
        return Column(name, "numeric", low=float(low), high=float(error if name.endswith("_error") else high), **known)

    return Schema(tuple(map(column, names)))


def example_table() -> pa.Table:
    """The patients whose breast cancer ships with scikit-learn, in a fixed order that tells nothing."""
    _, patients = _patients(0)
    return patients.rename_columns([name.replace(" ", "_") for name in patients.column_names])


def _patients(seed: int) -> tuple[Any, pa.Table]:
    """The data set, and its patients in an order of their own."""
    from sklearn.datasets import load_breast_cancer

    data = load_breast_cancer()
    order = np.random.default_rng(seed).permutation(len(data.data))
    columns = {str(name): pa.array(data.data[order, j]) for j, name in enumerate(data.feature_names)}
    return data, pa.table({**columns, LABEL: pa.array([str(data.target_names[code]) for code in data.target[order]])})


# A consortium.

CLASSIFIER = "svm"
MECHANISM = "kernel-resampling"
GUARANTEE = {"epsilon": 1.0, "delta": 1e-6}
"""Of the study whose sites push noisy counts, for anybody's presence."""
SHARES = {"North": 0.4, "East": 0.3, "South": 0.2, "West": 0.1}
TEST_SHARE = 0.25
MOST_SITES = 20
PUBLISHED = "published in the description of the data set"
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
    data, patients = _patients(1)
    # Bounds from the table of smallest and largest values that was published with the data; nothing is learned.
    known: dict[str, Any] = {"source": "public", "reason": PUBLISHED}
    told = re.findall(r"^([a-z ]+) \(([a-z ]+)\):\s+([\d.]+)\s+([\d.]+)", data.DESCR, re.MULTILINE)
    bounds = {STATISTICS[which].format(what): (float(low), float(high)) for what, which, low, high in told}
    names, classes = [str(name) for name in data.feature_names], tuple(str(name) for name in data.target_names)
    numbers = [Column(name, "numeric", low=bounds[name][0], high=bounds[name][1], **known) for name in names]
    schema = Schema((*numbers, Column(LABEL, "categorical", role="label", categories=classes, **known)))
    cut = round(TEST_SHARE * len(patients))
    ends = cut + np.round(np.cumsum(list(shares.values())) * (len(patients) - cut)).astype(int)
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
            study = {**consortium.study, "guarantee": GUARANTEE, "classifiers": [COUNTS_CLASSIFIER]}
            del study["mechanism"]
            unnamed.write_text(json.dumps(study))
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
