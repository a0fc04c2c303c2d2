"""The owner's ledger: what was released, a budget, how long people are remembered, an export."""

from __future__ import annotations

from pathlib import Path

from sfumato.guarantee.budget import Budget
from sfumato.ledger import asked as jobs
from sfumato.release.only_new import forget_release


def show_ledger(ledger: Path | str | None = None, *, people: bool = False) -> jobs.LedgerShown:
    """What was released, oldest first, and the owner's settings. Private: it is for the owner alone.

    Parameters
    ----------
    ledger : path, optional
        The owner's ledger, if not the usual one.
    people : bool, default False
        Also compare every release with every other: what all of them come to for the people in each.

    Returns
    -------
    LedgerShown
        `releases`, `budget`, `keep_days`, and how many `bytes` the fingerprints of people take.

    Raises
    ------
    CardError
        Where the ledger is damaged.

    Examples
    --------
    >>> import sfumato as sf
    >>> people = {"age": [34, 61, 47, 29, 52] * 20, "ill": ["no", "yes", "yes", "no", "no"] * 20}
    >>> release = sf.sanitize(people, label="ill", mechanism="additive-noise")
    >>> sf.show_ledger().releases[-1].mechanism
    'additive-noise'
    """
    return jobs.show_ledger(_path(ledger), people=people)


def ledger_budget(
    epsilon: float | None, *, delta: float | None = None, ledger: Path | str | None = None
) -> Budget | None:
    """Set a limit on what all releases may come to for anybody; `sanitize` refuses what would exceed it.

    Parameters
    ----------
    epsilon : float or None
        The limit, above 0; None removes it.
    delta : float, optional
        The largest delta of a release of rows that belong to nobody.
    ledger : path, optional
        The owner's ledger, if not the usual one.

    Returns
    -------
    Budget or None
        What holds from now on.

    Raises
    ------
    UsageError
        Where a figure cannot be a limit.

    Examples
    --------
    >>> import sfumato as sf
    >>> sf.ledger_budget(8).epsilon
    8
    >>> sf.ledger_budget(None)
    """
    return jobs.set_budget(epsilon, delta, _path(ledger))


def ledger_keep(days: int | None, *, ledger: Path | str | None = None) -> None:
    """Say for how many days fingerprints of people are kept; older ones are deleted now and with every release.

    Parameters
    ----------
    days : int or None
        From 1 to 36,500; None keeps them for good.
    ledger : path, optional
        The owner's ledger, if not the usual one.

    Returns
    -------
    None
        Nothing. That a release was made stays noted; only its whole table is known again.

    Raises
    ------
    UsageError
        Where `days` is no number of days.
    """
    jobs.keep_for(days, _path(ledger))


def ledger_forget(folder: Path | str, *, ledger: Path | str | None = None) -> int:
    """Tell the ledger that a release made with `only_new` never left this machine: it is no longer counted.

    Parameters
    ----------
    folder : path
        The release. One that was pushed, or that anybody has seen, must not be forgotten.
    ledger : path, optional
        The owner's ledger, if not the usual one.

    Returns
    -------
    int
        How many rows or people are new again.

    Raises
    ------
    UsageError, TableError
        Where the release was pushed, or the ledger does not know it.
    """
    return forget_release(Path(folder), _path(ledger))


def export_ledger(out: Path | str, *, ledger: Path | str | None = None, force: bool = False) -> jobs.LedgerShown:
    """Write what was released as JSON, without the key and without anything that was made from rows.

    Parameters
    ----------
    out : path
        File to write; only its owner can read it.
    ledger : path, optional
        The owner's ledger, if not the usual one.
    force : bool, default False
        Replace what is at `out`.

    Returns
    -------
    LedgerShown
        What was written.

    Raises
    ------
    OutputError, CardError
        Where `out` exists, or the ledger is damaged.
    """
    return jobs.export_ledger(Path(out), _path(ledger), force=force)


def _path(ledger: Path | str | None) -> Path | None:
    return None if ledger is None else Path(ledger)
