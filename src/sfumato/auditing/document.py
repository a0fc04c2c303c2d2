"""audit.json: put together, checked against its published schema, and written whole."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pyarrow as pa

from sfumato import __version__
from sfumato.auditing.case import Case
from sfumato.auditing.extra import extra_dict, with_extra
from sfumato.core.errors import SfumatoError
from sfumato.core.files import write_whole
from sfumato.guarantee import Card, ThreatModel
from sfumato.guarantee.words import declared, owners_word
from sfumato.table import write_table

SPREADS = ("rmse_of_mean", "vod_of_mean", "width_of_mean")
"""Standard deviation, variance and width of an original column, which guessing its mean comes to."""
IN_OWN_UNITS = ("rmse",)
"""Beside errors as shares of a column's range they tell the range: public on a card, private without one."""
OF_THE_RELEASE = ("edges", "release", "names", "categories")
"""Parts that anybody with the release computes."""


OF_A_COLUMN = ("name", "kind", "edges", "categories", "release", "missing", "reported", "not_applicable")
OF_CROWDS = ("quasi_identifiers", "left_out", "not_applicable", "population", "c", "release")
SIDES = ("release", "original")


def released_alone(parts: Mapping[str, Any]) -> dict[str, Any]:
    """What an audit for others holds: what anybody with the released files computes; parts were made without the
    original's own figures.

    Scores, baselines and distances are measured on private rows, and no guarantee covers them. Whoever holds two audits
    of tables that differ in one person would find the person in the last digits. So they are left out; with
    --with-audit they are there, rounded, and no statistic of the original is told in full.
    """

    def kept(part: Mapping[str, Any], names: Iterable[str], **more: None) -> dict[str, Any]:
        return {name: part[name] for name in names if name in part} | more

    correlated = ("names", "release", "not_applicable")
    return {
        "attacks": [],
        "measures": {"average_privacy": None, "unified": None, "channels": [], "density_gap": None},
        "utility": [],
        "uniqueness": parts["uniqueness"] and kept(parts["uniqueness"], OF_CROWDS, original=None),
        "distributions": [kept(one, OF_A_COLUMN, original=None) for one in parts["distributions"]],
        "correlations": kept(parts["correlations"], correlated, original=None, distance=None),
        "riskiest": [],
        "settings": kept(parts["settings"], ("rows_used", "sampled", "seed")),
        "notes": [],
    }


def published(part: Any, *, card: bool) -> Any:
    """The same with three digits, and without the spread of original columns; without a card, without their units."""
    left_out = SPREADS if card else SPREADS + IN_OWN_UNITS
    if isinstance(part, dict):
        return {
            key: value if key in OF_THE_RELEASE and isinstance(value, list) else published(value, card=card)
            for key, value in part.items()
            if key not in left_out
        }
    if isinstance(part, list | tuple):
        return [published(item, card=card) for item in part]
    return float(f"{part:.3g}") if isinstance(part, float) else part


WORDS = ("kind", "attack", "column", "metric")
FIGURES = ("value", "low", "high", "baseline", "control")
SCHEMA = pa.schema([*((name, pa.string()) for name in WORDS), *((name, pa.float64()) for name in FIGURES)])
BESIDE = ("baseline", "control")
Row = dict[str, Any]


def tidy_table(audit: dict[str, Any]) -> pa.Table:
    """Every result as one row a figure. kind: attack, measure, utility, distribution, correlation, copies, uniqueness
    or fidelity; attack: its name (of a utility: the classifier). `control` is the holdout's, `baseline` the original's
    or, of an attack, that without the release. What was not measured has no row."""
    rows = [row for part in (_attacks, _measures, _against_people) for row in part(audit)]
    return pa.Table.from_pylist([row for row in rows if row["value"] is not None], schema=SCHEMA)


def _row(kind: str, metric: str, value: Any, ends: Sequence[float | None] | None = None, **more: Any) -> Row:
    """`ends` of the value's interval; `more`: what else the row says, by column."""
    low, high = ends or (None, None)
    found = {"kind": kind, "metric": metric, "value": value, "low": low, "high": high, **more}
    return {name: found.get(name) for name in SCHEMA.names}


def _attacks(audit: dict[str, Any]) -> Iterator[Row]:
    for attack in audit["attacks"]:
        name = {"attack": attack["name"]}
        beside = {key: attack[key] for key in BESIDE}
        yield _row("attack", "score", attack["score"], attack["interval"], **name, **beside)
        for metric, value in {"worst": attack["worst"], "extra": attack.get("extra"), **attack["details"]}.items():
            yield _row("attack", metric, value, **name)
        for column in attack["columns"]:
            beside = {key: column.get(key) for key in BESIDE}
            for metric, value in column.items():
                if metric not in ("name", *BESIDE):
                    more = beside if metric == "score" else {}
                    yield _row("attack", metric, value, **name, column=column["name"], **more)


def _at(audit: Mapping[str, Any], *path: str) -> Any:
    """The part at this path; nothing where there is none."""
    found: Any = audit
    for name in path:
        found = found.get(name) or {}
    return found


def _measures(audit: dict[str, Any]) -> Iterator[Row]:
    average, unified, gap = (_at(audit, "measures", name) for name in ("average_privacy", "unified", "density_gap"))
    measure = partial(_row, "measure")
    yield measure("average-privacy", average.get("width"), attack=average.get("attack"))
    for column in average.get("columns", ()):
        more = {"column": column["name"], "baseline": column.get("width_of_mean")}
        yield measure("average-privacy", column["width"], **more)
    for name in ("minimum", "average", "sigma_min", "sigma_avg"):
        metric = f"unified-{name.replace('_', '-')}"
        yield measure(metric, unified.get(name), attack=unified.get(f"{name}_attack"))
    for column in _at(audit, "measures", "channels"):
        yield measure("privacy-loss", column["privacy_loss"], column=column["name"])
    yield measure("density-gap", gap.get("loss"))
    for entry in audit["utility"]:
        utility = partial(_row, "utility", attack=entry["classifier"])
        yield utility("accuracy-original", entry["original"])
        yield utility("accuracy-release", entry["release"], baseline=entry["original"])
        yield utility("accuracy-commonest-class", entry.get("commonest"))
        yield utility("phi", entry["phi"], entry["interval"])
    for entry in audit["distributions"]:
        for metric in ("ks", "wasserstein", "total_variation"):
            yield _row("distribution", metric, entry.get(metric), column=entry["name"])
    yield _row("correlation", "distance", audit["correlations"]["distance"])


def _against_people(audit: dict[str, Any]) -> Iterator[Row]:
    """What the release is held against people by: copies, crowds, and how like them it is."""
    copied, exact, near = partial(_row, "copies"), _at(audit, "copies", "exact"), _at(audit, "copies", "near")
    yield copied("exact-copies", exact.get("share"), exact.get("interval"), control=exact.get("control"))
    yield copied("near-copies", near.get("share"), near.get("interval"), control=near.get("expected"))
    for measure in ("dcr", "nndr"):
        for name, value in _at(near, measure, "release").items():
            yield copied(f"{measure}-{name}", value, control=near[measure]["control"][name])
    yield copied("nearer", near.get("nearer"), near.get("nearer_interval"))
    crowd, release, original = partial(_row, "uniqueness"), *(_at(audit, "uniqueness", side) for side in SIDES)
    for name in ("k", "unique"):
        yield crowd(name, release.get(name), baseline=original.get(name))
    for name in ("pitman", "log_linear"):
        now, was = (_at(side, name).get("uniques") for side in (release, original))
        yield crowd(f"population-unique-{name.replace('_', '-')}", now, baseline=was)
    before = {one["name"]: one for one in original.get("sensitive", ())}
    for one in release.get("sensitive", ()):
        for name in ("distinct", "entropy", "recursive", "t", "t_mean"):
            yield crowd(name, one[name], column=one["name"], baseline=_at(before, one["name"]).get(name))
    like = partial(_row, "fidelity")
    for name in ("marginals", "pairs", "correlations"):
        figures = _at(audit, "fidelity", name)
        yield like(name, figures.get("release"), baseline=figures.get("original"))
    now, was = (_at(audit, "fidelity", "discriminator", side) for side in SIDES)
    yield like("discriminator-auc", now.get("auc"), now.get("interval"), baseline=was.get("auc"))
    for part, learned in (("columns", ""), ("targets", "learned-")):
        for one in _at(audit, "fidelity", part):
            yield like(learned + one["measure"], one["release"], column=one["name"], baseline=one.get("original"))


FORMAT, VERSION = "sfumato-audit", 1
PRIVATE = "Private: shows original records and distributions. For the owner of the data only; never publish it."
PUBLIC = "May be shown to others: what is proved, and what follows from the released files alone."
PUBLIC_MEASURED = (
    "May be shown to others: contains no original record, no row number and no histogram of the original. "
    "Its figures were measured on the originals and rounded; no guarantee covers them."
)


def document(case: Case, parts: Mapping[str, Any]) -> dict[str, Any]:
    """All results in the order of the report; for others, what they may see of them."""
    card, options = case.card, case.options
    label = "none" if case.y is None else "exact"
    unknown = ThreatModel.of(label=label, rows=f"{case.release_rows:,}", learned_bounds=False).to_dict()
    adversary = "Holds the whole release, and is assumed to know how strongly each column was changed."
    shown = {
        "extra": extra_dict(parts["attacks"], options.limit),
        **parts,
        "attacks": [with_extra(entry) for entry in parts["attacks"]],
        "notes": list(case.notes),
    }
    notice = PRIVATE
    if options.public:
        notice = PUBLIC_MEASURED if options.with_audit else PUBLIC
        crowds = shown["uniqueness"]
        shown |= {"riskiest": [], "uniqueness": crowds and {**crowds, "original": None}}
        shown = published(shown if options.with_audit else released_alone(shown), card=card is not None)
    whole = {
        "private": not options.public,
        "notice": notice,
        "format": FORMAT,
        "version": VERSION,
        "release": {
            "rows": case.release_rows,
            "columns": case.Z.shape[1],
            "source_columns": [column.name for column in case.encoding.schema.private],
            "label": None if case.encoding.schema.label is None else case.encoding.schema.label.name,
            "columnwise": case.columnwise,
            "card": card is not None,
            **(stated(card) if card is not None else NOTHING_STATED),
        },
        "guarantee": card and card.stated_guarantee().to_dict() | {"words": card.guarantee["words"]},
        "threat_model": {**unknown, "adversary": [adversary]} if card is None else dict(card.threat_model),
        **{name: part for name, part in shown.items() if part is not None},
        "versions": {"sfumato": __version__},
    }
    return {name: finite(part) for name, part in whole.items()}


def stated(card: Card) -> dict[str, Any]:
    """What a release says about itself, as an audit holds it."""
    return {
        "mechanism": dict(card.mechanism),
        "space": card.space,
        "label_state": card.label,
        "learned_from_data": list(card.learned_from_data),
        "owners_word": owners_word(card.source_schema),
        "declared": [{"reason": why, "ranges": len(names)} for why, names in declared(card.source_schema).items()],
        "earlier_releases": dict(card.earlier_releases),
        "reproducible": card.reproducible,
        "post_processing": card.post_processing,
        "papers": list(card.papers),
        "created": card.created,
    }


NOTHING_STATED: dict[str, Any] = {
    **dict.fromkeys(["mechanism", "space", "label_state", "learned_from_data", "earlier_releases", "reproducible"]),
    **dict.fromkeys(["post_processing", "created"]),
    **{"owners_word": [], "declared": [], "papers": []},
}


def finite(value: Any) -> Any:
    """The same with None for numbers that JSON does not have."""
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def check(data: dict[str, Any]) -> None:
    """A fault of ours if it fails: what was computed does not follow the published schema."""
    problem = next(iter(audit_validator().iter_errors(data)), None)
    if problem is not None:
        place = ".".join(map(str, problem.absolute_path)) or "the top level"
        raise SfumatoError(f"The audit does not follow its own schema at {place}. Please report this.")


def write_audit(data: dict[str, Any], folder: Path) -> None:
    """audit.json and audit.parquet; the owner's can be read by the owner alone."""
    private = bool(data["private"])
    folder.mkdir(parents=True, exist_ok=True)
    write_table(tidy_table(data), folder / "audit.parquet", private=private)
    write_whole(folder / "audit.json", json.dumps(data, indent=1, allow_nan=False), private=private)


@cache
def audit_validator() -> Any:
    """The published schema of `audit.json`."""
    text = files("sfumato.auditing").joinpath("audit.schema.json").read_text(encoding="utf-8")
    return jsonschema.Draft202012Validator(json.loads(text))
