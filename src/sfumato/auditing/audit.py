"""Release and original in, audit.json out: what each adversary gets, and what the release is still good for."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.auditing.attacking import Attempt, attack_all, attempt_from_file
from sfumato.auditing.case import Case
from sfumato.auditing.copies import copies, uniqueness
from sfumato.auditing.document import check, document, write_audit
from sfumato.auditing.fidelity import clusters_lost, correlations, distributions, fidelity
from sfumato.auditing.jointly import attack_together
from sfumato.auditing.measures import measures
from sfumato.auditing.open_case import is_folder, open_case
from sfumato.auditing.options import Options
from sfumato.auditing.report import write_report
from sfumato.auditing.report.bottom_line import bottom_line_html
from sfumato.auditing.riskiest import riskiest_records
from sfumato.auditing.utility import utility
from sfumato.core.asked import asks
from sfumato.core.errors import UsageError
from sfumato.release.asked import ENGINES
from sfumato.release.release import Release
from sfumato.table.neighbours import on_device
from sfumato.table.persons import as_frame, kind_of

FIGURES = ("score", "low", "high", "baseline", "control", "worst", "extra")


class Audit:
    """What each attacker gets from a release, and what the release is still good for.

    The owner's audit shows original records and is private: `save` and `save_report` write files that only the owner
    can read, unless it was made with `public=True`.

    Attributes
    ----------
    data : dict
        The whole audit, as in `audit.json`.
    """

    def __init__(self, data: dict[str, Any], kind: str) -> None:
        self.data, self._kind = data, kind

    def __repr__(self) -> str:
        """Without its content, which shows original records."""
        applied = [attack for attack in self.data["attacks"] if attack["score"] is not None]
        extras = {attack["name"]: attack["extra"] for attack in applied if attack.get("extra") is not None}
        worst = max(extras, key=extras.__getitem__, default=None)
        most = "" if worst is None else f"; {worst} gets most extra: {extras[worst]:+.1f} of 100"
        return f"<Audit of {len(self.data['attacks'])} attackers, {len(applied)} of whom ran{most}>"

    def _repr_html_(self) -> str:
        """The bottom line, as the report has it first."""
        return str(bottom_line_html(self.data))

    @property
    def scores(self) -> Any:
        """One row per attack: success from 0 to 1 (higher is worse for privacy) with its interval, the same for a
        baseline that never saw the release and for a control group, the worst record, and `extra`: right minus right
        without the release, in points of 100. `note` says why an attack has no score. The frame has the same type as
        `original`."""
        rows = [_row(attack) for attack in self.data["attacks"]]
        types = {"attack": pa.string(), **dict.fromkeys(FIGURES, pa.float64()), "note": pa.string()}
        return as_frame(pa.Table.from_pylist(rows, schema=pa.schema(types)), self._kind)

    @property
    def utility(self) -> Any:
        """One row per classifier: accuracy when trained on original and on released rows."""
        rows = [{name: entry[name] for name in ("classifier", "original", "release", "phi")} for entry in self._learned]
        types = {"classifier": pa.string(), "original": pa.float64(), "release": pa.float64(), "phi": pa.float64()}
        return as_frame(pa.Table.from_pylist(rows, schema=pa.schema(types)), self._kind)

    @property
    def measures(self) -> dict[str, Any]:
        """The papers' own measures: average privacy, privacy loss of every released column, the lowest unified privacy
        over all attacks, and the gap of two density estimates. They are measured, and guarantee nothing."""
        return dict(self.data["measures"])

    @property
    def copies(self) -> dict[str, Any]:
        """Exact and near copies of records: shares, distance to the closest record and ratio of the two closest."""
        return dict(self.data.get("copies") or {})

    @property
    def uniqueness(self) -> dict[str, Any]:
        """k-anonymity, uniques, l-diversity and t-closeness; empty where no quasi-identifier was named."""
        return dict(self.data.get("uniqueness") or {})

    @property
    def fidelity(self) -> dict[str, Any]:
        """How far release and original are from people who are in neither: columns, pairs and a learner's view."""
        return dict(self.data.get("fidelity") or {})

    @property
    def _learned(self) -> list[dict[str, Any]]:
        return list(self.data["utility"])

    @property
    def notes(self) -> list[str]:
        """What the reader must know about the figures."""
        return list(self.data["notes"])

    def attack(self, name: str) -> dict[str, Any]:
        """Everything about one attack; raises `UsageError` if there is none with that name."""
        for entry in self.data["attacks"]:
            if entry["name"] == name:
                return dict(entry)
        raise UsageError(f"The audit has no attacker {name!r}.")

    def save(self, folder: Path | str) -> None:
        """Write audit.json and audit.parquet into a folder."""
        write_audit(self.data, Path(folder))

    def save_report(self, path: Path | str) -> None:
        """Write one HTML page that a data steward can read, print and keep."""
        write_report(self.data, Path(path))


def _row(attack: dict[str, Any]) -> dict[str, Any]:
    low, high = attack["interval"] or (None, None)
    reason = attack.get("not_applicable")
    note = f"not applicable: {reason}" if reason else f"failed: {attack['failed']}" if attack.get("failed") else None
    figures = {name: attack.get(name) for name in ("score", "baseline", "control", "worst", "extra")}
    return {"attack": attack["name"], **figures, "low": low, "high": high, "note": note}


@asks(Options)
def audit(release: Any, options: Options) -> Audit:
    """Run every attack on a release, and measure what the release is still good for.

    Parameters
    ----------
    release : Release, path, DataFrame or Arrow table
        A release or its folder; or the table of a release that another tool made, with the original's column names.
    {options}

    Returns
    -------
    Audit
        `audit.scores` has one row for each attack; `audit.save_report("report.html")` writes the page.

    Examples
    --------
    >>> import sfumato as sf
    >>> people = {"age": [34, 61, 47, 29, 52] * 20, "ill": ["no", "yes", "yes", "no", "no"] * 20}
    >>> release = sf.sanitize(people, label="ill", mechanism="additive-noise", seed=1)
    >>> found = sf.audit(release, original=people, repeats=0, attacks=["naive-estimate"])
    >>> found.attack("naive-estimate")["score"] > 0
    True
    """
    if isinstance(release, Release) and options.key is not None:
        raise UsageError("The release is open, with its key where it has one. Leave --key out.")
    options.check(carded=isinstance(release, Release) or is_folder(release))
    kind = kind_of(options.original)
    with on_device(options.device, int(options.device_memory * (1 << 30))), ExitStack() as until:
        if ENGINES[options.engine].spread:
            from sfumato.release.spark import engine as in_spark  # PySpark is an extra

            rows = until.enter_context(in_spark.table_in_spark(options.original, options.master))
            options = replace(options, original=rows)
        found = Audit(_data(release, options), kind)
    if options.out is not None:
        found.save(options.out)
    return found


def _data(release: Any, options: Options) -> dict[str, Any]:
    """Every part of `audit.json`."""
    options.chosen  # noqa: B018 (an attack that does not exist is refused before anything is read)
    rng = np.random.default_rng(options.seed)
    options.progress("Reading", 0, None)
    case = open_case(release, options, rng)
    if options.with_audit and case.card is not None and case.card.made_by().rows == "nobody":
        raise UsageError(
            "The figures of an audit are exact facts about the original table, which this release hides: made public, "
            "they would void its guarantee. Share what is proved, and keep what was measured. Leave --with-audit out."
        )
    alone = uniqueness(case)  # first, since it refuses columns that are not there
    attempts = attack_all(case)
    if options.guess is not None:
        attempts.append(attempt_from_file(Path(options.guess), case))
    entries = [attempt.to_dict() for attempt in attempts]
    together = _together(case, rng)
    options.progress("Comparing", 0, None)
    parts = {
        "attacks": entries,
        "measures": measures(case, entries),
        "utility": utility(case),
        "clusters": clusters_lost(case),
        "copies": copies(case) if options.measured else None,
        "uniqueness": alone,
        "fidelity": fidelity(case) if options.measured else None,
        "together": together,
        "distributions": distributions(case),
        "correlations": correlations(case),
        "riskiest": riskiest_records(case, attempts),
        "settings": _settings(case, attempts),
    }
    data = document(case, parts)
    check(data)
    return data


def _together(case: Case, rng: np.random.Generator) -> dict[str, Any] | None:
    """What another release of the same people adds; said in the notes as well."""
    options = case.options
    if options.beside is None:
        return None
    original = options.original if options.beside_original is None else options.beside_original
    beside = options.beside if isinstance(options.beside, Release) else Release.open(options.beside)
    theirs = open_case(beside, replace(options, original=original, label=None, key=None), rng)
    found = attack_together(case, theirs, rng)
    case.notes.extend(found.sentences())
    return found.to_dict()


def _settings(case: Case, attempts: list[Attempt]) -> dict[str, object]:
    if case.sampled:
        case.notes.append(
            f"A sample of {len(case.Z):,} release rows was audited. Linking is easier in a sample than in the "
            "whole release, so its score errs on the safe side."
        )
    failed = [attempt.name for attempt in attempts if attempt.failed is not None]
    if failed:
        case.notes.append(f"Attacks that failed and say nothing about privacy: {', '.join(failed)}.")
    return {
        "rows_used": len(case.Z),
        "people_used": len(case.people.X),
        "holdout_rows": 0 if case.holdout is None else len(case.holdout.X),
        "sampled": case.sampled,
        "seed": case.options.seed,
        "tolerance": case.options.tolerance,
        "alignment": case.alignment,
        "targets": len(case.targets),
        "candidates": 0 if case.known.candidates is None else len(case.known.candidates),
        "repeats": case.options.splits,
        **({"as_published": True} if case.options.published else {}),
    }
