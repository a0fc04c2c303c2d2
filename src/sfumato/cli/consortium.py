"""demo --consortium: a server on the loopback, four sites that push, a model trained on all of them."""

from __future__ import annotations

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

from sfumato.cli.at_coordinator import until_done
from sfumato.cli.at_server import server_part
from sfumato.client import Coordinator, carry_out, plan_push
from sfumato.client.agreements import Agreements
from sfumato.errors import CoordinatorError
from sfumato.jobs.audit import AuditRequest, audit
from sfumato.jobs.consortium import CLASSIFIER, MECHANISM, Consortium, make_consortium
from sfumato.jobs.sanitize import Options, sanitize
from sfumato.protocol.study_file import study_from_dict
from sfumato.table import write_table

PATIENCE_SECONDS = 300.0
LINKING = {"nearest-row": "finds a patient's own row", "pair": "says whose of two a row is"}
"""Attacks that are tried on a site's release, and what they do."""
Say = Callable[[str], None]


@dataclass(frozen=True)
class Shown:
    """Errors on patients whom no site has: of originals together, of each site alone, and of the pooled releases."""

    original: dict[str, Any]
    alone: dict[str, dict[str, Any]]
    pooled: dict[str, Any]
    commonest: float
    rows: dict[str, int]
    risk: dict[str, Any]

    @property
    def line(self) -> str:
        mean = sum(found["error"] for found in self.alone.values()) / len(self.alone)
        return (
            f"Error on other patients ({CLASSIFIER}): original rows of all sites {self.original['error']:.3f}, "
            f"pooled releases {self.pooled['error']:.3f}, own rows of one site {mean:.3f} on average, "
            f"always the commonest diagnosis {self.commonest:.3f}."
            + (" Here sharing loses to staying alone." if self.pooled["error"] > mean else "")
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
            f"{'; '.join(told)}. A site measures this with `sfumato audit` before it pushes."
        )

    def to_dict(self) -> dict[str, Any]:
        return {"classifier": CLASSIFIER, **vars(self)}


@dataclass(frozen=True)
class Place:
    """Where the study is, what its hash is, and the owner's token."""

    url: str
    hash: str
    study: str
    owner: str


def show_consortium(say: Say, sites: int | None = None) -> Shown:
    """Run the whole of it in a temporary folder, which is removed at the end."""
    with tempfile.TemporaryDirectory(prefix="sfumato-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        consortium = make_consortium(count=sites)
        study = study_from_dict(consortium.study)
        with serving(folder / "server") as (url, store):
            place = Place(url, study.hash, *store.studies.create(study))
            say(f"The coordinator serves the study {study.name!r} at {url}.")
            say(f"Its hash, which the sites know from elsewhere: {study.hash}")
            with ThreadPoolExecutor(min(len(consortium.sites), 8)) as pool:
                for line in pool.map(lambda site: _take_part(folder / site, site, consortium, place), consortium.sites):
                    say(line)
            test = folder / "test.parquet"
            write_table(consortium.test, test)
            with Coordinator(url, place.owner) as coordinator:
                coordinator.put_test(place.study, test)
                say(f"The coordinator trains {CLASSIFIER} on all of it, and tests on patients that no site has.")
                wanted = coordinator.train(place.study, CLASSIFIER)
                original = consortium.error(list(consortium.sites.values())).to_dict()
                alone = {site: consortium.error([table]).to_dict() for site, table in consortium.sites.items()}
                [model] = until_done(lambda: [coordinator.model(place.study, wanted)], "Training", lambda *_: None, 0.1)
        if model.state != "done" or not model.results or not model.results.get("test"):
            raise CoordinatorError(f"Training failed: {model.failure or 'no reason was given'}")
        pooled = {**model.results["test"][0], "alone": model.results["by_sites"]["alone"]}
        rows = {site: table.num_rows for site, table in consortium.sites.items()}
        return Shown(original, alone, pooled, consortium.commonest(), rows, _risk(folder, consortium))


def _take_part(folder: Path, site: str, consortium: Consortium, place: Place) -> str:
    """What a site does: release at home with a ledger of its own, look at what would leave, push."""
    table, ledger = consortium.sites[site], folder / "ledger.json"
    options = Options(mechanism=MECHANISM, schema=consortium.schema, only_new=True, ledger=ledger)
    sanitize(table, folder / "release", options)
    with Coordinator(place.url, place.owner) as coordinator:
        token = coordinator.invite(place.study, site).token
    agreements = Agreements(folder / "agreements.json")
    with Coordinator(place.url, token) as coordinator:
        release = folder / "release"
        plan = plan_push(coordinator, release, place.study, study_hash=place.hash, agreements=agreements)
        receipt = carry_out(plan, coordinator, agreements=agreements).receipt
    kept = f"{site:<6} {table.num_rows:>3} patients stay at home"
    return f"{kept}; {receipt.rows:>3} new rows pushed, {receipt.bytes:,} bytes."


def _risk(folder: Path, consortium: Consortium) -> dict[str, Any]:
    """Of the first site's release, as the site itself can measure it: it alone has the originals and the trace."""
    site = next(iter(consortium.sites))
    request = AuditRequest(
        folder=folder / site / "release",
        original=consortium.sites[site],
        holdout=consortium.test,
        attacks=tuple(LINKING),
    )
    return {"site": site, "attacks": {entry["name"]: entry for entry in audit(request).data["attacks"]}}


@contextmanager
def serving(data: Path) -> Iterator[tuple[str, Any]]:
    """The server in a thread of this process, at a free port of the loopback."""
    server_part("run")  # all that a server needs is there, or the error says what is not
    import uvicorn

    settings = server_part("settings").Settings(data=data, validators=1)

    listening = socket.create_server(("127.0.0.1", 0), backlog=64)
    app = server_part("app").create_app(settings)
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
