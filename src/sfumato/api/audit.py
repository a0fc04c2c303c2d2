"""audit: attack a release before anybody else does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from sfumato.attacks.window import TOLERANCE
from sfumato.auditing.audit import AuditRequest
from sfumato.auditing.audit import audit as run_audit
from sfumato.auditing.document import write_audit
from sfumato.auditing.report import write_report
from sfumato.auditing.report.bottom_line import bottom_line_html
from sfumato.auditing.request import MAX_ROWS
from sfumato.core.errors import UsageError
from sfumato.core.progress import Progress, silent
from sfumato.release.config import Config
from sfumato.release.release import Release
from sfumato.table import Schema
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


def audit(
    release: Any,
    *,
    original: Any,
    holdout: Any = None,
    label: str | None = None,
    schema: Schema | Path | str | None = None,
    guess: Path | str | None = None,
    key: Path | str | None = None,
    attacks: Sequence[str] | None = None,
    parameters: Mapping[str, Any] | None = None,
    public: bool = False,
    with_audit: bool = False,
    max_rows: int = MAX_ROWS,
    repeats: int | None = None,
    tolerance: float = TOLERANCE,
    unknown: str = "missing",
    published: bool = False,
    beside: Any = None,
    beside_original: Any = None,
    clusters: int = 0,
    match: str | None = None,
    mapping: Path | str | None = None,
    columns: Mapping[str, str] | None = None,
    hierarchies: Mapping[str, Path | str] | None = None,
    quasi_identifiers: Sequence[str] = (),
    sensitive: Sequence[str] = (),
    population: int | None = None,
    max_extra: float | None = None,
    config: Path | str | None = None,
    device: str | None = None,
    device_memory: float = 4.0,
    engine: str = "memory",
    master: str | None = None,
    seed: int = 0,
    out: Path | str | None = None,
    progress: Progress = silent,
) -> Audit:
    """Run every attack on a release, and measure what the release is still good for.

    Parameters
    ----------
    release : Release, path, DataFrame or Arrow table
        A release or its folder; or the table of a release that another tool made, with the original's column names.
    original : DataFrame, Arrow table or path
        The private table that the release was made from.
    holdout : DataFrame, Arrow table or path, optional
        People of the same kind who are not in the table: the control.
    label : str, optional
        The label, for a release without a card.
    schema : Schema or path, optional
        For a release without a card.
    guess : path, optional
        Table with somebody else's guesses: source columns, one row for each row of the release.
    key : path, optional
        Key file, if the release has one that is not in its folder.
    attacks : sequence of str, optional
        Names of the attacks to run; all by default.
    parameters : mapping, default {}
        Settings of attacks: `{"posterior-breach.rho1": 0.05}`, or `{"posterior-breach": {"rho1": 0.05}}`.
    public : bool, default False
        For others: what is proved, and what follows from the released files alone. No attacker runs.
    with_audit : bool, default False
        With `public`: also what was measured on private rows, rounded; no guarantee covers it.
    max_rows : int, default 20000
        Attack a random sample if there are more people; at least 2.
    repeats : int, default 10, or 0 where attacks are named
        Splits of the table for measuring accuracy, at least 0; 0 leaves out all that learners would make of it.
    tolerance : float, default 0.05
        How near a guessed number counts as right, as a share of the column's range, between 0 and 1.
    unknown : {"missing", "refuse"}, default "missing"
        What to do with categories that only the holdout has.
    published : bool, default False
        Attacks and classifiers as their papers have them, wherever ours differ: see docs/as-published.md.
    beside : Release or path, optional
        Another release of the same people, with its trace: both are attacked together, by putting together what their
        channels say and by looking for people who are in one only. `audit.data["together"]` and the notes say what
        that gives. Both must keep the table's columns.
    beside_original : table, optional
        The table that `beside` was made from, if it is another one than `original`.
    clusters : int, default 0
        Look for so many clusters, and tell what is left of the original's (adjusted Rand index); 0: do not.
    match : str, optional
        A column of both tables that says whose row is whose, for a release without a card. Where nobody says so, rows
        in the same order are recognized, and others are matched as an adversary would.
    mapping : path, optional
        Table of row numbers, from 1: `original` and, unless it has a row for each release row, `release`.
    columns : mapping, default {}
        Columns that the release renamed: `{"age": "AGE"}`, the original's name first.
    hierarchies : mapping, default {}
        Files that say what generalised cells of a column stand for, in ARX's form: `{"job": "jobs.csv"}`. Ranges,
        intervals, prefixes ("902**"), sets ("{A, B}") and "*" are understood without one.
    quasi_identifiers : sequence of str, default ()
        Columns that others may know of a person: k-anonymity, uniques, l-diversity and t-closeness over them. By
        default those that the schema marks with `quasi_identifier: true`.
    sensitive : sequence of str, default ()
        Columns whose diversity is told; by default the label, or all columns that are no quasi-identifiers.
    population : int, optional
        Number of people that the original is a sample of, at least its rows: estimates who is unique among them.
    max_extra : float, optional
        Your limit, from 0 to 100: how many more of 100 any attacker may get right with the release than without it.
    config : path, optional
        The config of the release: its `max_extra` is the limit where none is given here.
    device : str, optional
        Make large products on this device of PyTorch ("cuda"), or "cupy"; the answers are the same. See
        docs/large-tables.md.
    device_memory : float, default 4.0
        GB that a block of products may take there, above 0.
    engine : {"memory", "spark"}, default "memory"
        "spark": the executors read the original (files, or a data frame of Spark), and only the people who are audited
        come here. The release needs its card and trace.
    master : str, optional
        For "spark": the cluster's address; the default is this machine (local[*]).
    seed : int, default 0
        Seed of the audit's own sampling, at least 0; the same seed gives the same audit.
    out : path, optional
        Folder to write audit.json and audit.parquet to; nothing is written without it.
    progress : callable, optional
        Called as `progress(step, done, total)`.

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
    if max_extra is None and config is not None:
        max_extra = Config.load(config).max_extra
    carded = isinstance(release, str | Path) and Path(release).is_dir()
    request = AuditRequest(
        original,
        folder=release if carded else None,
        release=None if carded else release,
        holdout=holdout,
        guess=guess,
        label=label,
        schema=Path(schema) if isinstance(schema, str) else schema,
        key=None if key is None else Path(key),
        out=out,
        public=public,
        with_audit=with_audit,
        seed=seed,
        max_rows=max_rows,
        repeats=repeats,
        attacks=None if attacks is None else tuple(attacks),
        parameters=dict(parameters or {}),
        tolerance=tolerance,
        unknown=unknown,
        published=published,
        clusters=clusters,
        beside=beside,
        beside_original=beside_original,
        match=match,
        mapping=mapping,
        columns=dict(columns or {}),
        hierarchies=dict(hierarchies or {}),
        quasi_identifiers=tuple(quasi_identifiers),
        sensitive=tuple(sensitive),
        population=population,
        max_extra=max_extra,
    )
    request.check()
    if engine not in ("memory", "spark"):
        raise UsageError(f"An audit has no engine {engine!r}. Choose one of: memory, spark.")
    if engine != "spark" and master is not None:
        raise UsageError("--master says where Spark runs. Add --engine spark.")
    if carded:  # opened here, so that nothing is written into the release's own folder
        request = replace(request, folder=None, release=Release.open(release, request.key), key=None)
    if not device_memory > 0:
        raise UsageError(f"--device-memory must be above 0 (GB). Got {device_memory} instead.")
    with on_device(device, int(device_memory * (1 << 30))), ExitStack() as until:
        if engine == "spark":
            from sfumato.release.spark import engine as in_spark  # PySpark is an extra

            if not isinstance(request.release, Release):
                raise UsageError("--engine spark audits a release with its card. Leave it out.")
            request = replace(request, original=until.enter_context(in_spark.table_in_spark(original, master)))
        return Audit(run_audit(request, progress).data, kind_of(original))
