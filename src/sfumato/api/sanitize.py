"""sanitize: from a private table to a release, in memory or in a folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from sfumato.core.errors import UsageError
from sfumato.core.progress import Progress, silent
from sfumato.guarantee import Card, Key
from sfumato.guarantee.words import card_in_words
from sfumato.ledger.read_off import told_to_the_owner
from sfumato.release.release import Release
from sfumato.release.sanitize import Options, sanitize_in_memory
from sfumato.release.sanitize import sanitize as sanitize_into
from sfumato.release.strength import Terms
from sfumato.release.write_release import check_replaceable
from sfumato.study.protocol.pool_study import PoolStudy
from sfumato.study.protocol.study_file import load_study
from sfumato.table import Schema
from sfumato.table.persons import kind_of

# What a study file settles for a site that sanitizes: read from the site's own copy, never from a server.


def study_terms(file: Path | str) -> Terms:
    """Schema, mechanism, parameters and the weakest guarantee of the study in a file."""
    file = Path(file)
    if not file.is_file():
        raise UsageError(f"There is no study file {file}.")
    study = load_study(file)
    if not isinstance(study, PoolStudy):
        raise UsageError(f"{file} is a study of kind {study.kind}, for which no table is released.")
    settled = study.schema, study.mechanism, study.parameters, study.epsilon_record, study.presence
    return Terms(study.name, study.hash, *settled)


def sanitize(
    table: Any,
    *,
    label: str | None = None,
    person: str | None = None,
    target: str | None = None,
    schema: Schema | Path | str | None = None,
    study: Terms | Path | str | None = None,
    mechanism: str | None = None,
    parameters: Mapping[str, Any] | None = None,
    columns: Mapping[str, Mapping[str, Any]] | None = None,
    epsilon_record: float | None = None,
    epsilon: float | None = None,
    epsilon_presence: float | None = None,
    delta: float | None = None,
    trust: str = "owner",
    measured_only: bool = False,
    privacy_loss: float | None = None,
    max_posterior: float | None = None,
    prior: float | None = None,
    private_label: bool = False,
    label_epsilon: float | None = None,
    basis_from: Any = None,
    reason: str | None = None,
    conditional: bool = False,
    unlabelled: bool = False,
    max_rows_per_person: int | None = None,
    out_of_bounds: str = "clip",
    like_original: bool = False,
    key: Key | Path | str | None = None,
    search: int | None = None,
    search_goal: str = "minimum",
    search_scoring: str = "measured",
    published: bool = False,
    only_new: bool = False,
    again: bool = False,
    ledger: Path | str | None = None,
    cohort: str | None = None,
    seed: int | None = None,
    out: Path | str | None = None,
    engine: str = "memory",
    master: str | None = None,
    format: str = "parquet",
    force: bool = False,
    resume: bool = False,
    config: Path | str | None = None,
    dry_run: bool = False,
    unprotected: bool = False,
    progress: Progress = silent,
) -> Release:
    """Perturb a private table row by row, and state what the release guarantees.

    Every call counts as a release of these rows in the owner's ledger, even if you discard the result: what several
    releases reveal adds up. `dry_run` tries without releasing anything. A run with a `seed` counts too, and must not be
    released.

    Parameters
    ----------
    table : DataFrame, Arrow table, dict of columns, path, list of paths or SqlQuery
        The private table: pandas, polars, pyarrow; a CSV, Parquet or Arrow file; a folder, a glob or a list of files
        with the same columns. An index is never released.
    label : str, optional
        The column that classifiers are to predict. It is released as it is, unless `private_label`.
    person : str, optional
        The column that says whose rows they are. It is never released; the ledger adds up by it. Give
        `max_rows_per_person` with it: a cap that is counted in the table is not public.
    target : str, optional
        A number that regressions are to predict. It is released exactly as it is, beside the perturbed columns and
        never mixed with them, so that no formal guarantee is left for the record.
    schema : Schema or path, optional
        Columns with their bounds, categories and roles. Without one it is inferred, with a `PrivacyLeakWarning`: what
        was learned from the data cannot carry a formal guarantee.
    study : path or Terms, optional
        Study file of a consortium, or what was read from one: its schema, mechanism, parameters and guarantee apply.
    mechanism : str, optional
        How to perturb: one of those that `sfumato list mechanisms` lists. By default the study's; where only `epsilon`
        is given, the one that `trust` asks for; else principal-laplace.
    parameters : mapping, default {}
        Of the mechanism, for example `{"law": "normal", "scale": 0.25}`.
    columns : mapping, default {}
        What single columns choose instead, for example `{"income": {"scale": 0.5}}`; as `noise` in the schema.
    epsilon_record : float, optional
        The same number as `epsilon`; alone it never changes the mechanism.
    epsilon : float, optional
        Bound for anybody's values, above 0: one record, or all rows of a person, replaced by any other. With nothing
        else it also chooses the mechanism: made-up rows, or by `trust`; ranges must be public then.
    epsilon_presence : float, optional
        For made-up rows (`tree-resampling`): the bound for the presence of one record, as the literature states it.
    delta : float, optional
        Of made-up rows: the probability with which the bound may fail, between 0 and 1; 1e-6 by default.
    trust : {"owner", "nobody"}, default "owner"
        Who may hold the rows. "owner": made-up rows are drawn from noisy counts of the table. "nobody": each row is
        blurred by itself, by square-wave below epsilon 3 and by piecewise-noise from 3 on.
    measured_only : bool, default False
        Release although ranges were read off the table: each row is blurred by itself, and nothing is proved.
    privacy_loss : float, optional
        Fit the noise of every number to this privacy loss, 1 - 2^-I between 0 (tells nothing) and 1. It is learned from
        the values, so there is no formal guarantee. For additive-noise, multiplicative-noise and noisy-operator.
    max_posterior : float, optional
        Instead of `epsilon`: how sure somebody may become of a fact, between `prior` and 1.
    prior : float, default 0.1
        How sure that somebody was before, between 0 and 1. Only with `max_posterior`.
    private_label : bool, default False
        Randomize the label too; learners correct for it.
    label_epsilon : float, default 1
        The label's share of the epsilon, above 0. Only with `private_label`.
    basis_from : DataFrame, Arrow table, path or SqlQuery, optional
        For principal-laplace: public rows with the same columns. The basis is that of their principal components.
    reason : str, optional
        Why these rows are public, in one sentence. Needed with `basis_from`; it appears on the card.
    conditional : bool, default False
        Go on where rows of `basis_from` turn out to be private ones. Nothing is proved then, whatever was found.
    unlabelled : bool, default False
        Release rows that are to be classified, without a label.
    max_rows_per_person : int, optional
        Use at most this many rows per person, at least 1. Needs a column with the role person.
    out_of_bounds : {"clip", "refuse"}, default "clip"
        What to do with values outside declared bounds.
    like_original : bool, default False
        Round and clip the release to the kinds of the source's columns.
    key : Key or path, optional
        For mechanisms with a secret: the key to use, or a path to write a new one to.
    search : int, optional
        For random-rotation: the best of this many rotations, at least 1.
    search_goal : {"minimum", "average"}, default "minimum"
        Which guarantee a search raises.
    search_scoring : {"measured", "published"}, default "measured"
        How a search scores rotations: by what attacks leave, or by Eq. 6 of the paper random-rotation to the letter.
    published : bool, default False
        The paper's own variant wherever our default differs: see docs/as-published.md. The card says so.
    only_new : bool, default False
        Leave out rows (or people) that the ledger knows as released before, in whatever way.
    again : bool, default False
        With `only_new`: release them again all the same. It counts, and the ledger remembers the new ones.
    ledger : path, optional
        The owner's private ledger of releases, if not the usual one (or the variable SFUMATO_LEDGER).
    cohort : str, optional
        Your name for these people, at most 100 characters. Rows that belong to nobody add up with every release of the
        ledger, because nothing of them may be compared, unless both name a cohort and nobody is in two.
    seed : int, optional
        Repeatable noise, for tests and trials. The card says that it is not for release.
    out : path, optional
        Folder to write to as rows are perturbed. Without it the release stays in memory until `Release.save`.
    engine : {"memory", "stream", "spark"}, default "memory"
        "stream" is for tables larger than memory, "spark" for those larger than a machine; both need `out`.
    master : str, optional
        For "spark": the cluster's address; the default is this machine (local[*]).
    format : {"parquet", "csv", "sav", "zsav", "dta", "xpt", "xlsx", "ods"}, default "parquet"
        Format of the released rows in `out`.
    force : bool, default False
        Replace an earlier release in `out`.
    resume : bool, default False
        For "stream": go on with a run into `out` that was killed, and keep what is finished if this one stops too.
    config : path, optional
        Config file of `recommend`: mechanism and parameters. A study outranks it, and what is given here outranks both.
    dry_run : bool, default False
        Go all the way, but release nothing: the answer has the card and no rows, and the ledger is not told.
    unprotected : bool, default False
        Release though nobody named a strength and the usual one comes to an epsilon above 30, as with many columns.
    progress : callable, optional
        Called as `progress(step, done, total)`.

    Returns
    -------
    Release
        `release.table` and `release.card` are for everybody. The trace of rows and the key are the owner's; they stay
        on the object, and `release.save` writes them so that only the owner can read them.

    Raises
    ------
    UsageError, TableError, SchemaError, OutputError, CardError
        One sentence each: what was wrong, where, and what to do. No error quotes a cell.

    Examples
    --------
    >>> import sfumato as sf
    >>> known = {"source": "public", "reason": "the admission form"}
    >>> schema = sf.Schema((
    ...     sf.Column("age", "integer", low=0, high=120, **known),
    ...     sf.Column("ill", "categorical", role="label", categories=("no", "yes"), **known),
    ... ))
    >>> people = {"age": [34, 61, 47, 29, 52] * 20, "ill": ["no", "yes", "yes", "no", "no"] * 20}
    >>> release = sf.sanitize(people, schema=schema, mechanism="additive-noise", epsilon_record=4)
    >>> release
    <Release of 100 rows x 1 by additive-noise: local-dp, with its owner's files>
    >>> release.card.guarantee["epsilon_record"] <= 4
    True
    """
    options = Options(
        mechanism=mechanism,
        parameters=dict(parameters or {}),
        columns=dict(columns or {}),
        label=label,
        person=person,
        target=target,
        schema=schema,
        engine=engine,
        master=master,
        key=Path(key) if isinstance(key, str) else key,
        format=format,
        like_original=like_original,
        out_of_bounds=out_of_bounds,
        max_rows_per_person=max_rows_per_person,
        unlabelled=unlabelled,
        private_label=private_label,
        label_epsilon=label_epsilon,
        search=search,
        search_goal=search_goal,
        search_scoring=search_scoring,
        published=published,
        seed=seed,
        ledger=None if ledger is None else Path(ledger),
        cohort=cohort,
        only_new=only_new,
        again=again,
        force=force,
        resume=resume,
        epsilon_record=epsilon_record,
        epsilon=epsilon,
        epsilon_presence=epsilon_presence,
        trust=trust,
        measured_only=measured_only,
        delta=delta,
        max_posterior=max_posterior,
        privacy_loss=privacy_loss,
        prior=prior,
        terms=study_terms(study) if isinstance(study, str | Path) else study,
        basis_from=basis_from,
        reason=reason,
        conditional=conditional,
        config=config,
        dry_run=dry_run,
        unprotected=unprotected,
    )
    if dry_run:  # what the release would be refused for, whoever would go through the rows
        options.checked_mechanism(options.strength())
        if out is not None:
            check_replaceable(Path(out), force)
        tried = sanitize_in_memory(table, replace(options, engine="memory"), progress)
        return Release(tried.card, told=tried.told)
    if out is None:
        return sanitize_in_memory(table, options, progress)
    told = sanitize_into(table, out, options, progress)
    return Release.made(told, kind_of(table))


def show(release: Release | Card | Path | str) -> None:
    """Print in words what a release's card states: guarantee, what it rests on, what is not protected.

    Parameters
    ----------
    release : Release, Card or path
        A release, its card, or the folder of one.

    Examples
    --------
    >>> import sfumato as sf
    >>> people = {"age": [34, 61, 47, 29, 52] * 20, "ill": ["no", "yes", "yes", "no", "no"] * 20}
    >>> release = sf.sanitize(people, label="ill", mechanism="random-rotation")
    >>> sf.show(release)  # doctest: +ELLIPSIS
    Guarantee: ...
    """
    if isinstance(release, str | Path):
        release = Card.load(release)
    card = release.card if isinstance(release, Release) else release
    print(card_in_words(card))
    if told := told_to_the_owner(card):
        print(told)
