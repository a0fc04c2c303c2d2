"""What can be asked of `sanitize`: every option once, for the command line, for Python and for the job itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from sfumato.core.asked import Group, Table, asked, choice, optional, papers_own, switch
from sfumato.core.progress import Progress, silent

if TYPE_CHECKING:
    from sfumato.guarantee import Key
    from sfumato.table import Schema

OWNER, NOBODY = TRUSTS = ("owner", "nobody")
RELEASE_FORMATS = ("parquet", "csv", "sav", "zsav", "dta", "xpt", "xlsx", "ods")
"""What a release can be written as. Only Parquet carries the card inside."""
SCORINGS = ("measured", "published")
"""How a search for a rotation scores: by what attacks leave, or by the paper's Eq. 6 to the letter."""
WHAT, HOW_MUCH, WHERE = Group("What is released"), Group("How much is given away"), Group("Where to, and how")


class Abilities(NamedTuple):
    """What an engine can do with a table."""

    hold_table: bool = False
    """Keep all of it in memory."""
    resume: bool = False
    """Go on with a run that was stopped."""
    spread: bool = False
    """Go through it on many machines, where the rows then stay."""


ENGINES = {"memory": Abilities(hold_table=True), "stream": Abilities(resume=True), "spark": Abilities(spread=True)}


class Presence(NamedTuple):
    """The weakest guarantee about a person's presence in a table that a study takes."""

    epsilon: float
    delta: float


@dataclass(frozen=True)
class Terms:
    """What a study settles for a site that sanitizes, and the weakest guarantee that it takes: for a record that is
    perturbed, or for a person's presence in the table."""

    name: str
    hash: str
    schema: Schema
    mechanism: str
    parameters: Mapping[str, Any]
    epsilon_record: float | None
    presence: Presence | None = None


@dataclass(frozen=True, kw_only=True)
class SanitizeAsked:
    """The options of `sanitize`, in the order in which `sfumato.sanitize` shows them."""

    label: str | None = WHAT.optional(
        "The column that classifiers are to predict.", "It is released as it is, unless `private_label`."
    )
    person: str | None = WHAT.optional(
        "The column that says whose rows they are; never released.",
        "The ledger adds up by it. Give `max_rows_per_person` with it: a cap that is counted in the table is not "
        "public.",
    )
    target: str | None = optional(
        "A number that regressions are to predict: released exactly as it is.",
        "It stands beside the perturbed columns and is never mixed with them, so that no formal guarantee is left for "
        "the record.",
    )
    schema: Schema | Path | str | None = WHAT.optional(
        "Columns with their bounds, categories and roles; otherwise inferred.",
        "Inferring one warns with a `PrivacyLeakWarning`: what was learned from the data cannot carry a formal "
        "guarantee.",
    )
    study: Terms | Path | str | None = WHAT.optional(
        "Study file of a consortium: its schema, method and guarantee apply.",
        "Or what was read from one.",
        kind="path or Terms",
        metavar="FILE",
    )
    mechanism: str | None = WHAT.optional(
        "The method (`sfumato list mechanisms`); without it the study's, or what `epsilon` chooses.",
        "Where only `epsilon` or `max_posterior` is given, the one that `trust` asks for; else principal-laplace.",
    )
    parameters: Mapping[str, Any] = WHAT.asked(
        dict, "Parameter of the method; repeatable.", 'For example `{"law": "normal", "scale": 0.25}`.'
    )
    columns: Mapping[str, Mapping[str, Any]] = WHAT.asked(
        dict,
        "What a single column chooses instead; repeatable.",
        'For example `{"income": {"scale": 0.5}}`; as `noise` in the schema.',
        flag="--column-param",
        metavar="COL.NAME=VALUE",
    )
    epsilon_record: float | None = optional("The same number as `epsilon`; alone it never changes the method.")
    epsilon: float | None = HOW_MUCH.optional(
        "Bound for anybody's values, above 0; alone it chooses the method too (see `trust`).",
        "One record, or all rows of a person, replaced by any other. Where it chooses the method, ranges must be "
        "public.",
    )
    epsilon_presence: float | None = optional(
        "Of made-up rows: the bound for the presence of one record instead.",
        "For `tree-resampling`, as the literature states it.",
    )
    delta: float | None = optional(
        "Of made-up rows: how rarely the bound may fail, between 0 and 1; 0 never (more noise).", "1e-6 by default."
    )
    trust: str = HOW_MUCH.choice(
        TRUSTS,
        "Who may hold the rows: 'owner' (made-up rows), or 'nobody' (blurred rows).",
        '"owner": made-up rows are drawn from noisy counts of the table. "nobody": each row is blurred by itself, by '
        "square-wave below epsilon 3 and by piecewise-noise from 3 on.",
    )
    measured_only: bool = switch(
        "Release though ranges were read off the table: nothing is proved.", "Each row is blurred by itself."
    )
    privacy_loss: float | None = optional(
        "Fit the noise of each number to this privacy loss, 1 - 2^-I (measured, not proved).",
        "Between 0 (tells nothing) and 1. It is learned from the values, so there is no formal guarantee. For "
        "additive-noise, multiplicative-noise and noisy-operator.",
    )
    max_posterior: float | None = optional(
        "Instead of `epsilon`: how sure an attacker may become of a fact, between `prior` and 1.",
        "It bounds all rows of a person, and alone chooses the method as `epsilon` does.",
    )
    prior: float | None = optional(
        "How sure that attacker was before, between 0 and 1.", "Only with `max_posterior`.", unset="0.1"
    )
    private_label: bool = switch("Blur the column to predict too; learners correct for it.", opposite=True)
    label_epsilon: float | None = optional(
        "The share of epsilon of the column to predict, above 0. Only with `private_label`.", unset="1"
    )
    basis_from: Table = optional(
        "principal-laplace: public rows with the same columns, to take the basis from.",
        "The basis is that of their principal components.",
        kind="DataFrame, Arrow table, path or SqlQuery",
    )
    reason: str | None = optional(
        "Why the rows of `basis_from` are public, in one sentence.", "Needed with it; it appears on the card."
    )
    conditional: bool = switch(
        "Go on, unproved, though rows of `basis_from` are private ones.", "Nothing is proved then, whatever was found."
    )
    unlabelled: bool = switch("Release rows to be classified, without the column to predict.", opposite=True)
    max_rows_per_person: int | None = HOW_MUCH.optional(
        "Use at most this many rows per person.", "At least 1. Needs a column with the role person.", at_least=1
    )
    out_of_bounds: str = choice(("clip", "refuse"), "What to do with values outside declared bounds.")
    like_original: bool = switch("Round and clip back to the kinds of the source's columns.", opposite=True)
    key: Key | Path | str | None = optional("For methods with a secret: the key to use, or where to write a new one.")
    search: int | None = optional("random-rotation: the best of this many rotations.", at_least=1, parameter=True)
    search_goal: str = choice(("minimum", "average"), "Which guarantee `search` raises.", parameter=True)
    search_scoring: str = choice(
        SCORINGS,
        "How `search` judges: by what attackers leave, or by Eq. 6 of the paper to the letter.",
        parameter=True,
    )
    published: bool = papers_own("See docs/as-published.md. The card says so.")
    only_new: bool = WHERE.switch(
        "Leave out rows (or people) that were released before.",
        "In whatever way: those that the ledger knows.",
        opposite=True,
    )
    again: bool = switch(
        "With `only_new`: release also those again, which counts.", "The ledger remembers the new ones."
    )
    ledger: Path | str | None = optional(
        "Private ledger of releases, if not the usual one.",
        "The usual one can also be named by the variable SFUMATO_LEDGER.",
        metavar="PATH",
    )
    cohort: str | None = optional(
        "Your name for these people; releases of other cohorts are not added up.",
        "At most 100 characters. Rows that belong to nobody add up with every release of the ledger, because nothing "
        "of them may be compared, unless both name a cohort and nobody is in two.",
        metavar="NAME",
    )
    seed: int | None = optional("Repeatable noise, for tests only: not for release.", "The card says so.")
    experiment: bool = switch(
        "Count it in no ledger, for repeats in a laboratory: not for release.",
        "No ledger is read or made. The card says so, nothing is proved of it, and it is neither certified nor pushed.",
    )
    out: Path | str | None = WHERE.optional(
        "Folder to write.",
        "Rows are written as they are perturbed. Without it the release stays in memory until `Release.save`.",
        metavar="DIR",
    )
    engine: str = choice(
        tuple(ENGINES),
        "What goes through the rows: stream is for tables larger than memory.",
        '"spark" is for tables larger than a machine. Both need `out`.',
    )
    master: str | None = optional(
        "Where Spark runs; the default is here.", 'The cluster\'s address, for "spark"; here is local[*].'
    )
    format: str = choice(RELEASE_FORMATS, "Format of the released rows in `out`.")
    force: bool = WHERE.switch("Replace an earlier release in `out`.")
    resume: bool = switch(
        "`engine` stream: go on with a run into `out` that was stopped.",
        "What is finished is kept if this one stops too.",
    )
    config: Path | str | None = WHAT.optional(
        "What `recommend` chose; `study` outranks it, and what is given here outranks both."
    )
    dry_run: bool = WHERE.switch(
        "Say what would be released; write nothing, also not in the ledger.",
        "It goes all the way: the answer has the card and no rows.",
    )
    unprotected: bool = switch(
        "Release though the usual strength comes to an epsilon above 30 here.",
        "As with many columns, where nobody named a strength.",
    )
    auditable: Path | str | None = optional(
        "Noise that the auditor with this public key can recompute; without `answer`, only commit to it.",
        "Seed and release together are the table. See docs/auditable.md. Needs `out`.",
        metavar="FILE",
    )
    answer: str | None = optional(
        "With `auditable`: release what was committed to, with what the auditor or a log answered.",
        "As `sfumato auditor answer` or `sfumato ledger publish` printed it.",
        metavar="VALUE",
    )
    progress: Progress = asked(silent, "Called as `progress(step, done, total)`.")


@dataclass(frozen=True, kw_only=True)
class RedrawAsked:
    """The options of `redraw`, in the order in which `sfumato.redraw` shows them."""

    rows: int | None = WHAT.optional(
        "Rows to draw; as many as the noisy count of the table says, if not given.", metavar="N"
    )
    out: Path | str | None = WHERE.optional(
        "Folder to write.", "Without it the release stays in memory until `Release.save`.", metavar="DIR"
    )
    format: str = WHERE.choice(RELEASE_FORMATS, "Format of the rows in `out`.")
    seed: int | None = WHAT.optional("The same rows every time. It weakens nothing: the noise was drawn at the fit.")
    ledger: Path | str | None = WHERE.optional(
        "The owner's ledger, where the redraw is noted if it knows the model; if not the usual one.", metavar="PATH"
    )
    force: bool = WHERE.switch("Replace an earlier release in `out`.")
    progress: Progress = asked(silent, "Called as `progress(step, done, total)`.")


@dataclass(frozen=True, kw_only=True)
class VerifyAsked:
    """The options of `verify`."""

    owner: str | None = optional(
        "Refuse what the key with this fingerprint did not sign.",
        "As `sfumato signer show` writes it. A release that is unsigned is then refused too.",
        flag="--from",
        metavar="FINGERPRINT",
    )
    statements: Path | str | None = optional(
        "What the owner's keys said of each other, if not in the folder.",
        "As `sfumato signer rotate` and `revoke` write it.",
        metavar="FILE",
    )
    log: Path | str | None = optional(
        "Add up what this public log has of the same people.",
        "A coordinator's address, or a folder that `sfumato study log` keeps. What was not logged is not in the sum.",
        typed=str,
        metavar="WHERE",
    )
    log_key: str | None = optional(
        "Key that the log must be signed by.", "Without one, the key that it shows.", metavar="KEY"
    )
    with_seed: Path | str | None = optional(
        "Recompute the noise from this sealed seed, bit for bit.",
        "For the auditor of a release whose noise can be recomputed. It is made again in a private folder, which is "
        "then removed.",
        metavar="FILE",
    )
    auditor_key: Path | str | None = optional("The key that opens the seed.", metavar="FILE")
    table: Any = optional(
        "The original table, to recompute the release from.",
        kind="DataFrame, Arrow table or path",
        typed=str,
        metavar="TABLE",
    )
