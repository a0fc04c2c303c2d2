"""An audit by hand that holds every kind of part, checked against the published schema."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from typing import Any

import pytest

from sfumato.auditing.document import PRIVATE, PUBLIC_MEASURED, check

NASTY = "<script>alert(1)</script>"
LONG = "a_very_long_name_of_a_column_that_never_ends_" * 6
VOID = {"meta", "wbr", "br", "hr", "img", "input", "link"}


class Page(HTMLParser):
    """The page as a browser would see it: elements with their attributes, text, and whether every tag is closed."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.stack: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.stack.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.stack, f"</{tag}> closes nothing"
        assert self.stack.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.stack:
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join("".join(self.words).split())

    def all(self, tag: str) -> Iterator[dict[str, str | None]]:
        return (attributes for name, attributes in self.elements if name == tag)


@pytest.fixture
def read() -> Callable[[str], Page]:
    return Page


@pytest.fixture
def private_audit() -> dict[str, Any]:
    """Four columns, among them one with a name that wants to be a script and one that is very long."""
    audit = copy.deepcopy(AUDIT)
    check(audit)
    return audit


@pytest.fixture
def public_audit(private_audit: dict[str, Any]) -> dict[str, Any]:
    """The same as others may see it."""
    audit = private_audit | {"private": False, "notice": PUBLIC_MEASURED, "riskiest": []}
    for entry in audit["distributions"]:
        entry["original"] = None
    audit["correlations"]["original"] = None
    check(audit)
    return audit


def attack(name: str, score: float | None, **more: Any) -> dict[str, Any]:
    """One entry as the audit writes it."""
    entry = {"name": name, "story": f"Story of {name}.", "knows": ["release", "noise_covariance"], "score": score}
    entry |= {"baseline": None, "control": None, "interval": None, "worst": None, "columns": [], "details": {}}
    if score is not None:
        entry |= {"baseline": 0.2, "control": 0.22, "interval": [score - 0.05, score + 0.05], "worst": 0.9}
    return entry | more


def column(name: str, score: float, baseline: float = 0.3) -> dict[str, Any]:
    return {"name": name, "score": score, "baseline": baseline, "control": 0.2, "rmse": 12.5, "rmse_of_mean": 20.0}


NAMES = ["age", NASTY, LONG, "colour"]
AUDIT: dict[str, Any] = {
    "private": True,
    "notice": PRIVATE,
    "format": "sfumato-audit",
    "version": 1,
    "release": {
        "rows": 1200,
        "columns": 6,
        "source_columns": NAMES,
        "label": "ill",
        "columnwise": True,
        "card": True,
        "mechanism": {"name": "additive-noise", "parameters": {"law": "laplace", "scale": 0.3, "low": None}},
        "space": "sha256:0123",
        "label_state": "exact",
        "earlier_releases": {"count": 1, "total_epsilon_record": 12.5},
        "papers": ["principal-laplace"],
        "created": "2026-11-15",
    },
    "guarantee": {
        "kind": "empirical-only",
        "epsilon_component": 3.3,
        "epsilon_column": None,
        "epsilon_record": None,
        "epsilon_person": None,
        "conditional_epsilon": {"component": 3.3, "column": 3.3, "record": 9.9, "person": 9.9},
        "posteriors": [{"prior": 0.001, "at_most": 0.96, "at_least": 5e-8}],
        "assumptions": ["The noise is secret."],
        "in_the_way": [f"bounds or categories of column {name!r}" for name in NAMES],
        "words": "Nothing is proved: bounds & co. That is formally bounded, practically unprotected.",
    },
    "threat_model": {"adversary": ["Holds the release."], "not_protected": ["That a person is in the table."]},
    "attacks": [
        attack("quiet-attack", 0.1, columns=[column("age", 0.1), column("colour", 0.2)]),
        attack("loud-attack", 0.8, columns=[column(name, 0.8) for name in NAMES], details={"worst_baseline": 0.5}),
        attack("membership", 0.3, control=None, details={"auc": 0.65, "auc_low": 0.6, "auc_high": 0.7}),
        attack("upper", 0.5, upper_bound=True, details={"own_choice": 0.41}, assumes=["the secret key has leaked"]),
        attack("no-use", None, not_applicable="needs what nobody has"),
        attack("no-use-either", None, not_applicable="needs what nobody has"),
        attack("broken", None, failed="ZeroDivisionError"),
    ],
    "utility": [
        {"classifier": "forest", "original": 0.9, "release": 0.8, "phi": 0.1, "interval": [0.05, 0.15]},
        {"classifier": "knn", "original": 0.9, "release": 0.85, "phi": 0.05, "interval": [0.0, 0.1]},
        {
            "classifier": "mlp",
            "original": None,
            "release": None,
            "phi": None,
            "interval": [None, None],
            "failed": "ValueError",
        },
    ],
    "distributions": [
        {
            "name": name,
            "kind": "numeric",
            "edges": [0.0, 10.0, 20.0, 30.0],
            "original": [711, 1, 0],
            "release": [300, 212, 200],
            "missing": {"original": 0.11, "release": 0.25},
            "ks": 0.1 * k,
            "distance": 0.1 * k,
        }
        for k, name in enumerate(NAMES[:3])
    ]
    + [
        {
            "name": "colour",
            "kind": "categorical",
            "categories": [f"shade {k}" for k in range(11)],
            "original": [733, *range(10)],
            "release": [100] * 11,
            "total_variation": 0.5,
            "distance": 0.5,
        }
    ],
    "correlations": {
        "names": NAMES,
        "original": [[1.0, 0.5, 0.0, -0.6373], [0.5, 1.0, 0.1, 0.2], [0.0, 0.1, 1.0, 0.3], [-0.6373, 0.2, 0.3, 1.0]],
        "release": [[1.0, 0.2, 0.0, -0.1], [0.2, 1.0, 0.1, 0.2], [0.0, 0.1, 1.0, 0.3], [-0.1, 0.2, 0.3, 1.0]],
        "distance": 0.12,
    },
    "riskiest": [
        {"record": 977, "score": 0.75, "columns": NAMES[:3], "attacks": ["loud-attack"]},
        {"record": 978, "score": None, "columns": [], "attacks": []},
    ],
    "settings": {
        "rows_used": 1200,
        "people_used": 1200,
        "holdout_rows": 300,
        "sampled": False,
        "seed": 0,
        "tolerance": 0.05,
        "alignment": "trace",
        "targets": 1000,
        "candidates": 1300,
        "repeats": 10,
    },
    "notes": ["A note with <b>tags</b> & more."],
    "versions": {"sfumato": "0.1.0"},
}
