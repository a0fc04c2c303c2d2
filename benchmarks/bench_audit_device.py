"""An audit of a million rows on a card: bench_audit_device.py [--device cuda|processor] [--rows 1000000]

First votes within a radius, matching by likelihood and the Bayes window, on the card for all rows and on the processor
for a part, which must give the same answers. Then the whole audit on the card, with seconds by attack. Prints as it
goes.
"""

from __future__ import annotations

import argparse
import resource
import threading
import time
import warnings
from importlib.util import find_spec

import numpy as np
import pyarrow as pa

import sfumato as sf
from sfumato.attacks.bayes_window import BayesWindow
from sfumato.attacks.nearest_row import NearestRow, NearestSource
from sfumato.attacks.row_ratios import Membership
from sfumato.auditing import attacking
from sfumato.auditing import audit as job
from sfumato.auditing import utility as learning
from sfumato.auditing.asked import AuditAsked
from sfumato.auditing.open_case import open_case
from sfumato.table.neighbours.nearest import on_device
from sfumato.table.neighbours.votes import radius_votes

NUMBERS, CATEGORIES, FEW = 16, 4, 2_000
BEGAN = time.perf_counter()


def say(*words: object) -> None:
    print(f"[{time.perf_counter() - BEGAN:6.1f} s]", *words, flush=True)


def table(rows: int, seed: int) -> pa.Table:
    """Three classes, correlated numbers, categories that depend on them."""
    rng, shared = np.random.default_rng(seed), np.random.default_rng(7)
    middles, loads = shared.normal(size=(3, NUMBERS)), shared.normal(size=(4, NUMBERS))
    code = rng.integers(3, size=rows)
    X = middles[code] + 0.7 * rng.normal(size=(rows, 4)) @ loads + rng.normal(size=(rows, NUMBERS))
    columns = {f"n{i}": X[:, i] for i in range(NUMBERS)}
    for j in range(CATEGORIES):
        cut = np.digitize(X[:, j] + rng.normal(size=rows), [-1, 0, 1])
        columns[f"c{j}"] = np.array(["a", "b", "c", "d"])[cut]
    return pa.table({**columns, "label": np.array(["x", "y", "z"])[code]})


class Card:
    """The clock and the memory of a device."""

    def __init__(self, device: str | None) -> None:
        self.torch = None
        if device is not None and device.startswith("cuda"):
            import torch

            self.torch = torch
            say(torch.cuda.get_device_name(), "torch", torch.__version__)

    def clocked(self, work):
        if self.torch:
            self.torch.cuda.synchronize()
        start = time.perf_counter()
        found = work()
        if self.torch:
            self.torch.cuda.synchronize()
        return time.perf_counter() - start, found

    def peak(self) -> str:
        if not self.torch:
            return "no card"
        return f"{self.torch.cuda.max_memory_allocated() / 1e9:.1f} GB on the card"


def votes(card: Card, device: str | None, memory: int, rows: int) -> None:
    """Every row votes; circles of about 1% of the rows."""
    rng = np.random.default_rng(1)
    b = rng.normal(size=(rows, 20))
    a, codes = b[: rows // 10] + 0.3 * rng.normal(size=(rows // 10, 20)), rng.integers(3, size=rows)
    radius = float(np.quantile(((b[:5000] - a[0]) ** 2).sum(axis=1), 0.01))
    with on_device(device, memory):
        radius_votes(a[:100], b[:1000], codes[:1000], 3, radius)  # the first product loads the library
        taken, found = card.clocked(lambda: radius_votes(a, b, codes, 3, radius))
    here, expected = card.clocked(lambda: radius_votes(a[:FEW], b, codes, 3, radius))
    assert (found.exact[:FEW] == expected.exact).all()
    assert np.allclose(found.votes[:FEW], expected.votes, rtol=1e-7, atol=0)
    say(f"votes: {len(a):,} queries x {rows:,} rows {taken:.2f} s; processor {here:.2f} s for {FEW:,} queries, equal")


def attacks(card: Card, device: str | None, memory: int, release, original, holdout, rows: int, some: int) -> None:
    """Likelihoods and the Bayes window, on all rows by the card, and on some by both."""
    for most, both in ((some, True), (rows, False)):
        options = AuditAsked(original=original, holdout=holdout, max_rows=most)
        known = open_case(release, options, np.random.default_rng(0)).known
        for attack in (NearestRow(), Membership(statistic="likelihood"), NearestSource(), BayesWindow()):
            with on_device(device, memory):
                taken, found = card.clocked(lambda attack=attack, known=known: attack.run(known))
            line = f"{attack.name}: {len(known.release):,} rows {taken:.2f} s"
            if both:
                here, expected = card.clocked(lambda attack=attack, known=known: attack.run(known))
                same(found, expected)
                line += f"; processor {here:.2f} s, equal"
            say(line)


def same(found, expected) -> None:
    """The same answers, and figures to rounding."""
    if hasattr(expected, "index"):
        assert (found.index == expected.index).all(), "other links than the processor's"
        assert np.allclose(found.distance, expected.distance, atol=1e-6)
    elif hasattr(expected, "aimed"):
        share = float((found.aimed == expected.aimed).mean())
        assert share == 1.0, f"only {share:.6%} of the guesses are the processor's"
        assert np.allclose(found.X, expected.X, atol=1e-4)
    else:
        assert np.allclose(found.scores, expected.scores, atol=1e-6)


def timed(module, name: str, label=None) -> None:
    """Print how long every call takes."""
    real = getattr(module, name)

    def run(*given, **more):
        start, busy = time.perf_counter(), time.thread_time()
        try:
            return real(*given, **more)
        finally:
            what = label(*given) if label else name
            wall, busy = time.perf_counter() - start, time.thread_time() - busy
            if wall > 0.5:
                say(f"   {what:26s} {wall:6.1f} s, of its thread {busy:6.1f} s")

    setattr(module, name, run)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--some", type=int, default=6_000, help="rows that the processor attacks as well")
    parser.add_argument("--memory", type=float, default=8.0, help="GB for one block of products")
    parser.add_argument("--mechanism", nargs="*", default=["additive-noise", "square-wave"])
    parser.add_argument("--audit", choices=("yes", "no"), default="yes")
    parser.add_argument("--parts", choices=("yes", "no"), default="yes")
    given = parser.parse_args()
    device = None if given.device == "processor" else given.device
    if device is not None and device != "cupy" and not find_spec("torch"):
        print("left out: PyTorch is not installed; --device processor needs none")
        return
    warnings.filterwarnings("ignore", message="Bounds and categories")  # of a made table
    card, memory = Card(device), int(given.memory * 2**30)
    original, holdout = table(given.rows, 1), table(20_000, 2)
    say(f"{given.rows:,} rows x {NUMBERS + CATEGORIES} columns made; {threading.active_count()} threads")
    if given.parts == "yes":
        votes(card, device, memory, given.rows)
    for number, mechanism in enumerate(given.mechanism):
        release = sf.sanitize(original, label="label", mechanism=mechanism, seed=3, unprotected=True)
        say(f"{mechanism}: released")
        if given.parts == "yes":
            attacks(card, device, memory, release, original, holdout, given.rows, given.some)
        if given.audit == "no" or number:
            continue
        for module, name, label in (
            (attacking, "_played", lambda attack, *_: attack.name),
            (learning, "_entry", lambda name, *_: f"learn {name}"),
            *((job, name, None) for name in ("open_case", "attack_all", "measures", "utility", "copies")),
            *(
                (job, name, None)
                for name in ("distributions", "correlations", "riskiest_records", "fidelity", "document")
            ),
        ):
            timed(module, name, label)
        taken, found = card.clocked(
            lambda release=release: sf.audit(
                release,
                original=original,
                holdout=holdout,
                max_rows=given.rows,
                device=device,
                device_memory=given.memory,
            )
        )
        scores = {entry["name"]: entry["score"] for entry in found.data["attacks"] if entry["score"] is not None}
        failed = [entry["name"] for entry in found.data["attacks"] if entry.get("failed")]
        say({name: round(score, 4) for name, score in scores.items()}, "failed:", failed)
        here = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        say(f"whole audit of {given.rows:,} rows ({mechanism}): {taken:.1f} s, {card.peak()}, {here:.1f} GB of memory")


if __name__ == "__main__":
    main()
