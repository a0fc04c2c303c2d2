"""Release and original in, audit.json out: what each adversary gets, and what the release is still good for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from sfumato.auditing.arena import Arena, set_up
from sfumato.auditing.attacking import Attempt, attack_all, attempt_from_file, chosen_attacks, settings_of
from sfumato.auditing.copies import copies
from sfumato.auditing.document import check, document, write_audit
from sfumato.auditing.evidence import Evidence
from sfumato.auditing.fidelity import clusters_lost, fidelity
from sfumato.auditing.jointly import attack_together
from sfumato.auditing.measures import measures
from sfumato.auditing.pictures import correlations, distributions
from sfumato.auditing.read_folder import evidence_from_release
from sfumato.auditing.read_tables import evidence_from_tables
from sfumato.auditing.request import Audit, AuditRequest
from sfumato.auditing.riskiest import riskiest_records
from sfumato.auditing.uniqueness import uniqueness
from sfumato.auditing.utility import utility
from sfumato.core.errors import UsageError
from sfumato.core.progress import Progress, silent
from sfumato.release.release import Release
from sfumato.table import open_table

__all__ = ["Audit", "AuditRequest", "audit"]


def audit(request: AuditRequest, progress: Progress = silent) -> Audit:
    """Attack a release, measure what it is good for, and write `audit.json` and `audit.parquet`.

    The owner's audit shows original records and is private; `request.public` makes one that others may see,
    with nothing that was measured on private rows unless `request.with_audit` asks for it.
    """
    request.check()
    attacks = chosen_attacks(request.attacks) if request.measured else []
    rng = np.random.default_rng(request.seed)
    progress("Reading", 0, None)
    evidence = _evidence(request, rng)
    if request.with_audit and evidence.card is not None and evidence.card.made_by().rows == "nobody":
        raise UsageError(
            "The figures of an audit are exact facts about the original table, which this release hides: made public, "
            "they would void its guarantee. Share what is proved, and keep what was measured. Leave --with-audit out."
        )
    alone = uniqueness(evidence, request)  # first, since it refuses columns that are not there
    arena = set_up(evidence, request.tolerance, rng)
    attempts = attack_all(arena, attacks, settings_of(request.parameters, published=request.published), progress)
    if request.guess is not None:
        attempts.append(attempt_from_file(Path(request.guess), arena))
    entries = [attempt.to_dict() for attempt in attempts]
    together = _together(request, arena, rng)
    progress("Comparing", 0, None)
    data = document(
        evidence,
        request,
        attacks=entries,
        measures=measures(evidence, entries),
        utility=utility(evidence, request.splits, request.seed, progress, published=request.published),
        clusters=clusters_lost(evidence, request.clusters, request.seed),
        distributions=distributions(evidence, request.public),
        correlations=correlations(evidence, request.public),
        riskiest=riskiest_records(arena, attempts),
        settings=_settings(request, evidence, arena, attempts),
        copies=copies(evidence, request.seed) if request.measured else None,
        uniqueness=alone,
        together=together,
        fidelity=fidelity(evidence, request.seed, learn=request.splits > 0) if request.measured else None,
    )
    check(data)
    target = request.target
    return Audit(data, () if target is None else write_audit(data, target))


def _together(request: AuditRequest, arena: Arena, rng: np.random.Generator) -> dict[str, Any] | None:
    """What another release of the same people adds; said in the notes as well."""
    if request.beside is None:
        return None
    original = request.original if request.beside_original is None else request.beside_original
    other = request.beside if isinstance(request.beside, Release) else Release.open(request.beside)
    theirs = evidence_from_release(other, replace(request, original=original, label=None), rng)
    found = attack_together(
        arena, set_up(theirs, request.tolerance, rng), (open_table(request.original), open_table(original)), rng
    )
    arena.evidence.notes.extend(found.sentences())
    return found.to_dict()


def _evidence(request: AuditRequest, rng: np.random.Generator) -> Evidence:
    if request.folder is not None:
        return evidence_from_release(Release.open(request.folder, request.key), request, rng)
    if isinstance(request.release, Release):
        return evidence_from_release(request.release, request, rng)
    return evidence_from_tables(request, rng)


def _settings(request: AuditRequest, evidence: Evidence, arena: Arena, attempts: list[Attempt]) -> dict[str, object]:
    if evidence.sampled:
        evidence.notes.append(
            f"A sample of {len(evidence.Z):,} release rows was audited. Linking is easier in a sample than in the "
            "whole release, so its score errs on the safe side."
        )
    failed = [attempt.name for attempt in attempts if attempt.failed is not None]
    if failed:
        evidence.notes.append(f"Attacks that failed and say nothing about privacy: {', '.join(failed)}.")
    return {
        "rows_used": len(evidence.Z),
        "people_used": len(evidence.people.X),
        "holdout_rows": 0 if evidence.holdout is None else len(evidence.holdout.X),
        "sampled": evidence.sampled,
        "seed": request.seed,
        "tolerance": request.tolerance,
        "alignment": evidence.alignment,
        "targets": len(arena.targets),
        "candidates": 0 if arena.known.candidates is None else len(arena.known.candidates),
        "repeats": request.splits,
        **({"as_published": True} if request.published else {}),
    }
