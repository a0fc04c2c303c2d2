"""sanitize: from a private table to a release, in memory or in a folder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.core.asked import asks
from sfumato.core.errors import UsageError
from sfumato.core.files import check_folder
from sfumato.guarantee import Card
from sfumato.ledger.memories import told_to_the_owner
from sfumato.release.asked import RedrawAsked, Terms
from sfumato.release.release import Release
from sfumato.release.release import redraw as redraw_release
from sfumato.release.sanitize import Options, sanitize_in_memory, settled
from sfumato.release.sanitize import sanitize as sanitize_into
from sfumato.release.sanitize_checks import check_table
from sfumato.release.write_release import check_replaceable
from sfumato.table import Encoding, open_table
from sfumato.table.cell_sets import kind_of

if TYPE_CHECKING:
    from sfumato.release.auditable import Committed


def study_terms(file: Path | str) -> Terms:
    """Schema, mechanism, parameters and the weakest guarantee of the study in a file."""
    from sfumato.study.protocol.pool_study import PoolStudy  # knows the classifiers, which no release needs
    from sfumato.study.protocol.study_file import load_study

    file = Path(file)
    if not file.is_file():
        raise UsageError(f"There is no study file {file}.")
    study = load_study(file)
    if not isinstance(study, PoolStudy):
        raise UsageError(f"{file} is a study of kind {study.kind}, for which no table is released.")
    settled = study.schema, study.mechanism, study.parameters, study.epsilon_record, study.presence
    return Terms(study.name, study.hash, *settled)


@asks(Options)
def sanitize(table: Any, options: Options) -> Release:
    """Perturb a private table row by row, and state what the release guarantees.

    Every call counts as a release of these rows in the owner's ledger, even if you discard the result: what several
    releases reveal adds up. `dry_run` tries without releasing anything. A run with a `seed` counts too, and must not be
    released.

    Parameters
    ----------
    table : DataFrame, Arrow table, dict of columns, path, list of paths or SqlQuery
        The private table: pandas, polars, pyarrow; a CSV, Parquet or Arrow file; a folder, a glob or a list of files
        with the same columns. An index is never released.
    {options}

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
    out, progress = options.out, options.progress
    options = _with_terms(options)
    if options.auditable is not None and options.answer is None:
        raise UsageError("Commit to the noise first, with `sfumato.commit`; then release with the answer to it.")
    if options.dry_run:  # what the release would be refused for, whoever would go through the rows
        options.settle()
        if out is not None:
            check_replaceable(Path(out), options.force)
        tried = sanitize_in_memory(table, replace(options, engine="memory"), progress)
        return Release(tried.card, told=tried.told)
    if out is None:
        return sanitize_in_memory(table, options, progress)
    told = sanitize_into(table, out, options, progress)
    return Release.made(told, kind_of(table))


def _with_terms(options: Options) -> Options:
    study = options.study
    return replace(options, study=study_terms(study)) if isinstance(study, str | Path) else options


@asks(Options)
def commit(table: Any, options: Options) -> Committed:
    """Commit to the noise of a release that an auditor can recompute; nothing is released, and nothing is counted.

    Parameters
    ----------
    table : DataFrame, Arrow table, dict of columns, path, list of paths or SqlQuery
        The private table, as `sanitize` takes it.
    {options}

    Returns
    -------
    Committed
        The commitment, which is to be published, and where it stands: send `published` to the auditor, or have a
        coordinator log it, and `sealed` to the auditor. Then `sanitize` with the same options and the answer.
    """
    from sfumato.release.auditable import commit as commit_to
    from sfumato.release.recompute import check_exact

    plan = _with_terms(options).settle()
    if options.auditable is None or options.out is None or options.answer is not None:
        raise UsageError("To commit needs `auditable` and `out`, and no `answer`.")
    out, private = Path(options.out), open_table(table)
    check_replaceable(out, options.force)
    check_folder(out, force=options.force)
    schema, plan = settled(plan, private)
    check_table(plan, Encoding(schema), private.names)
    check_exact(plan, schema, private)
    return commit_to(private, plan, schema, out)


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
    from sfumato.guarantee.words import card_in_words

    if isinstance(release, str | Path):
        release = Card.load(release)
    card = release.card if isinstance(release, Release) else release
    print(card_in_words(card))
    if told := told_to_the_owner(card):
        print(told)


def certificate(
    folder: Path | str, *, out: Path | str | None = None, with_audit: bool = False, force: bool = False
) -> Path:
    """Write one page to print: what is proved, what was released, what is not protected, and hashes.

    Parameters
    ----------
    folder : path
        Folder of a release.
    out : path, optional
        File to write; certificate.html in the folder by default.
    with_audit : bool, default False
        Show what the audit.json in the folder measured, too: facts about private rows. If that audit is private, so is
        the page.
    force : bool, default False
        Replace what is there.

    Returns
    -------
    Path
        The page.
    """
    from sfumato.auditing.report.page import write_certificate

    return write_certificate(Path(folder), None if out is None else Path(out), with_audit=with_audit, force=force)


@asks(RedrawAsked)
def redraw(release: Release | Path | str, options: RedrawAsked) -> Release:
    """Draw rows again from the model of a release of made-up rows. The table is not needed.

    Whatever is drawn from one model rests on the same noisy measurements, so it costs nothing: the card states the
    claim of the first release. Fitting again (`sanitize`) measures again, and is paid for again.

    Parameters
    ----------
    release : Release or path
        A release by `tree-resampling`, or its folder with `model.json`.
    {options}

    Returns
    -------
    Release
        New rows. `card.earlier_releases` says that they were redrawn.

    Raises
    ------
    UsageError, CardError, OutputError
        Where the release has no model, or model and card do not belong together.

    Examples
    --------
    >>> import sfumato as sf
    >>> known = {"source": "public", "reason": "the admission form"}
    >>> schema = sf.Schema((sf.Column("age", "integer", low=0, high=120, **known),))
    >>> people = {"age": [34, 61, 47, 29, 52] * 20}
    >>> release = sf.sanitize(people, schema=schema, mechanism="tree-resampling", epsilon=1)
    >>> len(sf.redraw(release, rows=500))
    500
    """
    given = Release.public(release) if isinstance(release, str | Path) else release
    return redraw_release(given, options)
