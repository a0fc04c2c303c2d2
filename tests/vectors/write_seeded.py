"""Writes seeded.json: what one small made-up table gives under a seed, for every mechanism, attack and classifier.

A restructuring may move everything and change none of it. Columns of rows and fields of cards stand under a short hash
each, so that a difference says where it is. Rows of exact mechanisms are compared to the bit; where linear algebra or
the mathematical library of a machine has a say, numbers count to nine digits, and hashes of such numbers are left out.

`python tests/vectors/write_seeded.py` shows what changed, `--write` takes it: only where a change of results is meant.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

import sfumato as sf
from sfumato.attacks import ATTACKS
from sfumato.learn.classifiers import CLASSIFIERS
from sfumato.mechanisms import MECHANISMS

FILE = Path(__file__).parent / "seeded.json"
ROWS = 80
KNOWN = {"source": "public", "reason": "the form"}
LABEL = sf.Column("ill", "categorical", role="label", categories=("no", "yes"), **KNOWN)
NUMBERS = sf.Schema(
    (
        sf.Column("age", "integer", low=10, high=130, **KNOWN),
        sf.Column("weight", "numeric", low=20.0, high=220.0, **KNOWN),
        sf.Column("smokes", "categorical", categories=("never", "once", "yes"), **KNOWN),
        LABEL,
    )
)
CHOICES = sf.Schema((*(sf.Column(name, "categorical", categories=("a", "b", "c"), **KNOWN) for name in "pqr"), LABEL))
ON_CHOICES = ("guided-projection", "randomized-response")
ON_BITS = ("bernoulli-naive-bayes", "id3")
TO_THE_BIT = ("additive-noise", "piecewise-noise", "randomized-response", "square-wave", "tree-resampling")
"""Their noise is drawn from integers, and nothing about them is fitted by linear algebra."""
HASHED = ("space", "transform", "recipe")
"""Of the others these hold hashes of numbers that may differ in their last bit."""
LEFT_OUT = ("format", "version", "created", "versions", "threat_model", "earlier_releases")
"""Words, dates and the ledger, which have tests of their own."""
WORDS = ("words", "sentence", "assumptions", "in_the_way")


def people(rows: int = ROWS) -> pa.Table:
    """Made by arithmetic, so that it is the same wherever Python runs."""
    age = [15 + (37 * i + 11 * (i // 7)) % 80 for i in range(rows)]
    weight = [50.0 + age[i] / 2 + (53 * i) % 400 / 16 for i in range(rows)]
    smokes = [("never", "once", "yes")[(i * i + age[i] // 20) % 3] for i in range(rows)]
    ill = ["yes" if (age[i] + weight[i] > 135) != (i % 11 == 0) else "no" for i in range(rows)]
    return pa.table({"age": age, "weight": weight, "smokes": smokes, "ill": ill})


def answers(rows: int = ROWS) -> pa.Table:
    """A table of choices alone; the first tells most about the label."""
    choices = {
        name: ["abc"[(i * i + i // step) % 3] for i in range(rows)] for name, step in {"p": 2, "q": 3, "r": 5}.items()
    }
    ill = ["yes" if (choices["p"][i] == "a") != (i % 9 == 0) else "no" for i in range(rows)]
    return pa.table({**choices, "ill": ill})


AUDITED = (
    "additive-noise",
    "guided-projection",
    "noisy-operator",
    "principal-laplace",
    "random-rotation",
    "tree-resampling",
)
KEPT = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {"keys": {}}
"""`keys`: secrets of rotation and projection, which no seed draws."""


def made(mechanism: str, folder: Path, **words: Any) -> sf.Release:
    """A seeded release with a ledger of its own."""
    on_choices = mechanism in ON_CHOICES
    table, schema = (answers(), CHOICES) if on_choices else (people(), NUMBERS)
    if mechanism in KEPT["keys"]:
        (folder / "key.json").write_text(json.dumps(KEPT["keys"][mechanism]), encoding="utf-8")
        (folder / "key.json").chmod(0o600)
        words["key"] = folder / "key.json"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return sf.sanitize(
            words.pop("table", table),
            schema=schema,
            mechanism=mechanism,
            seed=5,
            unprotected=True,
            ledger=folder / "ledger.json",
            out=folder / "release",
            **words,
        )


def stated(value: Any, exact: bool) -> Any:
    """The same with numbers as they are compared."""
    if isinstance(value, dict):
        return {key: stated(one, exact) for key, one in value.items() if key not in WORDS}
    if isinstance(value, list | tuple):
        return [stated(one, exact) for one in value]
    if isinstance(value, float):
        return (value + 0.0).hex() if exact else f"{value + 0.0:.9g}"
    return value


def short(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:12]


def told(release: sf.Release, exact: bool) -> dict[str, dict[str, str]]:
    """A hash for each column and for each field of the card that says what was done."""
    card = {
        key: one for key, one in release.card.to_dict().items() if key not in LEFT_OUT and (exact or key not in HASHED)
    }
    columns = release.arrow.to_pydict()
    return {
        "rows": {name: short(stated(values, exact)) for name, values in columns.items()},
        "card": {key: short(stated(one, False)) for key, one in card.items()},
    }


def release_cases() -> Iterator[tuple[str, str]]:
    for mechanism, found in sorted(MECHANISMS.items()):
        yield mechanism, "memory"
        if not found.whole_table:
            yield mechanism, "stream"
    yield "additive-noise", "stream, several blocks"


def release_case(mechanism: str, engine: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        several = {"table": people(70_000)} if "blocks" in engine else {}
        release = made(mechanism, Path(folder), engine=engine.partition(",")[0], **several)
        return told(release, mechanism in TO_THE_BIT)


OTHER_ON_OTHER_MACHINES = {"independent-components", "known-rows"}
"""Attacks by iteration: another linear algebra leads them to another component, and there are few."""


def audit_case(mechanism: str) -> dict[str, Any]:
    """Of every attack that applies: score, baseline, worst, interval and score by column, to six digits."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        release = made(mechanism, Path(folder))
        everybody = (answers if mechanism in ON_CHOICES else people)(2 * ROWS)
        rows = {"original": everybody.slice(0, ROWS), "holdout": everybody.slice(ROWS)}
        found = sf.audit(release, **rows, attacks=sorted(ATTACKS), repeats=1, seed=5).data
    scores = {
        one["name"]: _scores(one)
        for one in found["attacks"]
        if one.get("score") is not None and one["name"] not in OTHER_ON_OTHER_MACHINES
    }
    return {
        **scores,
        "utility": [[one["classifier"], *_rounded(one, "release", "original")] for one in found["utility"]],
    }


def _scores(attack: dict[str, Any]) -> list[Any]:
    columns = [_rounded(one, "score")[0] for one in attack.get("columns") or []]
    return [*_rounded(attack, "score", "baseline", "worst", "interval"), columns]


def _rounded(found: dict[str, Any], *names: str) -> list[Any]:
    def rounded(value: Any) -> Any:
        if isinstance(value, list):
            return [rounded(one) for one in value]
        return round(value, 6) + 0.0 if isinstance(value, float) else value

    return [rounded(found.get(name)) for name in names]


def model_case(classifier: str) -> list[Any]:
    """The answers of a classifier to rows that it did not see, and its mean belief in the second class."""
    bits = classifier in ON_BITS
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        weak = {} if bits else {"parameters": {"scale": 0.05}}
        release = made("guided-projection" if bits else "additive-noise", Path(folder), **weak)
        model = sf.train(release, classifier=classifier)
        asked = (answers if bits else people)(ROWS + 40).slice(ROWS).drop_columns(["ill"])
        said = "".join(one[0] for one in model.predict(asked))
        try:
            return [said, round(float(model.predict_proba(asked)[:, 1].mean()), 4)]
        except sf.SfumatoError:
            return [said, "gives no probabilities"]


def cases() -> Iterator[tuple[str, str, Callable[[], Any]]]:
    """Kind, name, and what makes it."""
    for mechanism, engine in release_cases():
        yield "releases", f"{mechanism}, {engine}", partial(release_case, mechanism, engine)
    for mechanism in AUDITED:
        yield "audits", mechanism, partial(audit_case, mechanism)
    for classifier in sorted(CLASSIFIERS):
        yield "models", classifier, partial(model_case, classifier)


def written(found: dict[str, Any]) -> str:
    """JSON with a line for each case."""
    kinds = []
    for kind, entries in found.items():
        lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(entry)}" for name, entry in entries.items())
        kinds.append(f" {json.dumps(kind)}: {{\n{lines}\n }}")
    return "{\n" + ",\n".join(kinds) + "\n}\n"


if __name__ == "__main__":
    now: dict[str, Any] = {"keys": KEPT["keys"]}
    for kind, name, make in cases():
        now.setdefault(kind, {})[name] = make()
        if now[kind][name] != KEPT.get(kind, {}).get(name):
            print(f"{kind}: {name} is new or has changed")
    if "--write" in sys.argv[1:]:
        FILE.write_text(written(now), encoding="utf-8")
