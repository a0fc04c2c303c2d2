"""Release and original in, audit.json out: what each adversary gets, and what the release is still good for."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from scipy.special import logsumexp

from sfumato.attacks.base import Knowledge, KnownNoise, Values, promised
from sfumato.attacks.bayes_window import BayesWindow
from sfumato.attacks.column_beliefs import Beliefs, JointBeliefs, Likely
from sfumato.attacks.metrics.privacy import auc
from sfumato.attacks.metrics.score import score_guess
from sfumato.attacks.metrics.scored import ScoredGuess
from sfumato.attacks.support import CELLS
from sfumato.auditing.asked import AuditAsked
from sfumato.auditing.attacking import Attempt, attack_all, attempt_from_file, riskiest_records
from sfumato.auditing.case import Case, sampled
from sfumato.auditing.copies import copies, uniqueness
from sfumato.auditing.document import check, document, write_audit
from sfumato.auditing.fidelity import clusters_lost, correlations, distributions, fidelity
from sfumato.auditing.open_case import is_folder, open_case
from sfumato.auditing.report.bottom_line import bottom_line_html
from sfumato.auditing.report.page import write_report
from sfumato.auditing.utility import measures, utility
from sfumato.core.array_types import Codes, Matrix
from sfumato.core.asked import asks
from sfumato.core.errors import UsageError
from sfumato.core.wording import WORSE_THAN_GUESSING
from sfumato.guarantee.person_hash import PersonHash, Prints
from sfumato.release.asked import ENGINES
from sfumato.release.release import Release
from sfumato.table import Encoding, Schema
from sfumato.table.cell_sets import as_frame, cell_words, kind_of
from sfumato.table.encoding import MISSING_INSTEAD, column_of
from sfumato.table.neighbours.nearest import on_device
from sfumato.table.statistics import NO_CLASS

FEWEST = 20
"""With fewer people in both, nothing is measured."""
MOST = 500
"""Rows of the first release that are compared with all of the second, for who is in one only."""


class JointWindow(BayesWindow):
    """The adversary holds two releases of the same people, knows which rows belong together, multiplies what the
    channels of both say, and guesses the value that most of its belief lies within the scoring window of."""

    def __init__(
        self, other: KnownNoise, encoding: Encoding, translate: Callable[[Matrix], Matrix], first_tells: bool
    ) -> None:
        super().__init__(people=1000)
        self.other, self.encoding, self.translate, self.first_tells = other, encoding, translate, first_tells

    def _beliefs(self, known: Knowledge, people: Likely) -> Beliefs:
        assert known.noise is not None
        noise = (known.noise.of_class(people.code), self.other.of_class(people.code))
        encodings = (known.encoding, self.encoding)
        return JointBeliefs(noise, encodings, people, self.cells, self.translate, self.first_tells)


def attack_together(one: Case, two: Case, rng: np.random.Generator) -> dict[str, Any]:
    """What two releases give away of the people in both; whose row is whose, the auditor knows from both traces.

    All figures are successes of the same attack, with the same prior, on the same columns and within the same window.
    differencing: how well rows of the first whose people are not in the second can be told (0.5: not at all).
    """
    for case in (one, two):
        if case.behind is None or case.unowned.any():
            raise UsageError(
                "To attack two releases together, both need their private match file and a stated noise: give the "
                "owner's folders."
            )
        if not case.columnwise:
            raise UsageError("Two releases can be attacked together if both keep the table's columns. One mixes them.")
    if np.array_equal(one.Z, two.Z, equal_nan=True):
        raise UsageError("Both are the same release: its noise counts once. Give another one of the same people.")
    keys = _keys(one, two)
    assert one.behind is not None
    assert two.behind is not None
    own, theirs = keys[0][one.behind], keys[1][two.behind]  # who is behind every row
    usable = np.flatnonzero(~np.isin(one.behind, one.lent))
    others = np.flatnonzero(~np.isin(two.behind, two.lent))
    found, first, second = np.intersect1d(own[usable], theirs[others], return_indices=True)
    if len(found) < FEWEST:
        raise UsageError(
            f"{len(found):,} of the audited people are in both releases; at least {FEWEST} are needed. Give two "
            "releases of the same people, and the original of the other with --with-original if it is another table."
        )
    first, second = usable[first], others[second]
    known, encodings = one.known_to(BayesWindow()), (one.encoding, two.encoding)
    aligned = replace(known, release=one.Z[first], labels=None if one.y is None else one.y[first])
    both = replace(aligned, release=np.hstack([one.Z[first], two.Z[second]]))
    translate = translation(*encodings)
    alone = _score(one, known, BayesWindow().guess(aligned), first)
    theirs_alone, together = (
        _score(one, known, JointWindow(two.noise, two.encoding, translate, tells).guess(both), first)
        for tells in (False, True)
    )
    left, differencing = ~np.isin(own, keys[1]), None
    gone = int(left[usable].sum())
    if FEWEST <= gone <= len(usable) - FEWEST:
        # Of every row of the first: how likely it is that some row of the second is of the same person.
        sample = promised(known.sample)
        people = Likely(NO_CLASS, usable, sample, np.zeros(len(sample)))
        beliefs = JointBeliefs((one.noise, two.noise), encodings, people, CELLS, translate)
        rows = usable[sampled(len(usable), MOST, rng)]
        fit = logsumexp(beliefs.same_person(one.Z[rows], two.Z), axis=1)
        differencing = float(auc(-fit[left[rows]], -fit[~left[rows]]))
    return {
        "people": len(found),
        "first": alone.score,
        "second": theirs_alone.score,
        "both": together.score,
        "baseline": alone.baseline,
        "differencing": differencing,
        "missing": gone,
    }


def translation(first: Encoding, second: Encoding) -> Callable[[Matrix], Matrix]:
    """How an encoded row of the first encoding looks in the second; columns that it lacks are in the middle."""
    shared = {group.column.name for group in first.groups} & {group.column.name for group in second.groups}
    middle = np.concatenate([group.vertices.mean(axis=0) for group in second.groups])

    def translate(X: Matrix) -> Matrix:
        found = np.tile(middle, (len(X), 1))
        table = first.decode(X, like_original=True)
        for group in second.groups:
            if group.column.name in shared:
                alone = Encoding(Schema((group.column,)))
                batch = table.select([group.column.name])
                found[:, group.slice] = alone.encode(batch, unknown=MISSING_INSTEAD).X
        return found

    return translate


def _score(case: Case, known: Knowledge, guess: Any, rows: Codes) -> ScoredGuess:
    """Beside a guesser who has seen the people that the adversary has: without a holdout, those lent to it."""
    truth = replace(case.truth, rows=case.truth.rows[rows], sample=known.sample, sample_labels=known.sample_labels)
    if not isinstance(guess, Values):
        raise UsageError("The noise of these releases leaves nothing that could be put together.")
    found = score_guess(guess, replace(truth, labels=None if truth.labels is None else truth.labels[rows]))
    if not isinstance(found, ScoredGuess):
        raise UsageError(f"The attacker on both releases cannot be judged: {found.reason}.")
    return found


def _keys(one: Case, two: Case) -> list[Prints]:
    """The audited people of both tables by the cells that both have: equal for the same person."""
    names = [column.name for column in one.encoding.schema.private if column.name in two.encoding.schema.names]
    if not names:
        raise UsageError("The two releases have no column in common, so that no person can be found in both.")
    hasher = PersonHash(b"audit")  # these are compared here and now, and never kept
    tags, found = [hasher.tag(name) for name in names], []
    for case in (one, two):
        prints = [
            hasher.of_rows([cell_words(column_of(batch, name), name) for name in names], tags)
            for batch in case.original.blocks()
        ]
        found.append(np.concatenate(prints)[case.people.numbers])
    return found


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
        rows = []
        for attack in self.data["attacks"]:
            low, high = attack["interval"] or (None, None)
            note = f"failed: {attack['failed']}" if attack.get("failed") else None
            if reason := attack.get("not_applicable"):
                note = f"not applicable: {reason}"
            rows.append({"attack": attack["name"], **attack, "low": low, "high": high, "note": note})
        types = {"attack": pa.string(), **dict.fromkeys(FIGURES, pa.float64()), "note": pa.string()}
        return as_frame(pa.Table.from_pylist(rows, schema=pa.schema(types)), self._kind)

    @property
    def utility(self) -> Any:
        """One row per classifier: accuracy when trained on original and on released rows."""
        types = {"classifier": pa.string(), **dict.fromkeys(("original", "release", "phi"), pa.float64())}
        return as_frame(pa.Table.from_pylist(list(self.data["utility"]), schema=pa.schema(types)), self._kind)

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


@asks(AuditAsked)
def audit(release: Any, options: AuditAsked) -> Audit:
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


def _data(release: Any, options: AuditAsked) -> dict[str, Any]:
    """Every part of `audit.json`."""
    options.chosen  # noqa: B018 (an attack that does not exist is refused before anything is read)
    rng = np.random.default_rng(options.seed)
    options.progress("Reading", 0, None)
    case = open_case(release, options, rng)
    if options.with_audit and case.is_made_up:
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
    case.notes.append(
        f"Two releases, attacked together: {found['people']:,} audited people are in both. Bayes' rule with the "
        f"noise of both gets {found['both']:.3f} of their values, {found['first']:.3f} with this release alone and "
        f"{found['second']:.3f} with the other alone; without them {found['baseline']:.3f}"
        + (f": {WORSE_THAN_GUESSING}." if found["both"] < found["baseline"] else ".")
    )
    case.notes.append(
        "Everybody audited is in both releases, so that there is no difference to find."
        if found["differencing"] is None
        else f"Differencing: {found['missing']:,} audited people of this release are not in the other. Whoever "
        f"compares all rows of both tells them from the rest with an area under the curve of "
        f"{found['differencing']:.3f} (0.5 is guessing, 1 is certain)."
    )
    return found


def _settings(case: Case, attempts: list[Attempt]) -> dict[str, object]:
    sampled = len(case.positions) < case.release_rows  # only some rows of the release are audited
    if sampled:
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
        "sampled": sampled,
        "seed": case.options.seed,
        "tolerance": case.options.tolerance,
        "alignment": case.alignment,
        "targets": len(case.targets),
        "candidates": 0 if case.known.candidates is None else len(case.known.candidates),
        "repeats": case.options.splits,
        **({"as_published": True} if case.options.published else {}),
    }
