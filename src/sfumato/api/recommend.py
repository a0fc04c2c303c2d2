"""recommend: which mechanism, how strong, for this table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.advising.advice import Advice
from sfumato.advising.recommend import recommend as run
from sfumato.advising.wish import Wish
from sfumato.core.progress import Progress, silent
from sfumato.table import Schema

if TYPE_CHECKING:
    from sfumato.advising.recommendation import Recommendation


def recommend(
    table: Any,
    *,
    label: str | None = None,
    person: str | None = None,
    schema: Schema | Path | str | None = None,
    trust: str = "owner",
    max_risk: float | None = None,
    max_posterior: float | None = None,
    prior: float | None = None,
    max_loss: float | None = None,
    epsilon: float | None = None,
    use_table: bool = False,
    rows: int | None = None,
    max_rows_per_person: int | None = None,
    tries: int | None = None,
    seed: int = 0,
    workers: int | None = None,
    ledger: Path | str | None = None,
    out: Path | str | None = None,
    progress: Progress = silent,
) -> Recommendation | Advice:
    """Say which method and how strong, and what public tables kept under it, before anything is released.

    No row has a say: the method follows from `trust` and epsilon, the strength from the wish by arithmetic, and it
    holds against every attacker once all ranges are public. How useful it will be is told by public tables of about
    this size. With `use_table` settings are tried on one half of the private rows and confirmed on the other: that is
    measured, and the card of a release says so and proves nothing. Nothing is released, and the ledger is not told.

    Parameters
    ----------
    table : DataFrame, Arrow table, dict of columns, path, SqlQuery or Release
        The private table; or a release whose rows belong to nobody (or its folder), where a choice costs nothing more
        if the ledger charged it with a proof. Of any other release the choice proves nothing.
    label : str, optional
        The column to predict; or a `schema` that has one.
    person : str, optional
        The column that says whose rows they are; needs `max_rows_per_person`.
    schema : Schema or path, optional
        Bounds and categories; learned from the table by default.
    trust : {"owner", "nobody", "people"}, default "owner"
        Whom the people trust with their rows: the table's owner, nobody, or only themselves (a survey).
    max_risk : float, optional
        The most that any belief about a person may gain by their own row, between 0 and 1; on rows that are looked at,
        what the strongest attacker that was tried may gain.
    max_posterior : float, optional
        How sure somebody may become of a fact, between `prior` and 1. 0.2 where nothing is wished for.
    prior : float, default 0.1
        How sure they were before. Only with `max_posterior`.
    max_loss : float, optional
        Accuracy that may be lost against training on the original, between 0 and 1; needs `rows`, or `use_table`.
    epsilon : float, optional
        A bound for anybody's values, above 0. Give one of epsilon, max_risk and max_posterior.
    use_table : bool, default False
        Choose by trials on the private rows, which measure and prove nothing.
    rows : int, optional
        About how many rows the table has, as a number that is public: the forecast is for tables of this size.
    max_rows_per_person : int, optional
        The most rows that one person has, at least 1: the bound is then for all of them.
    tries : int, optional
        On rows that are looked at: how many methods are tried, at least 1; all by default.
    seed : int, default 0
        Of splits and of the noise that is tried.
    workers : int, optional
        Processes at a time, at least 1; by default as many as there are cores, or one for a small table.
    ledger : path, optional
        The owner's private ledger, if not the usual one: it is read to know a release again, and never written.
    out : path, optional
        Config file to write, for `sanitize(config=...)`; not written where nothing keeps the wish.
    progress : callable, optional
        Called as `progress(step, done, total)`.

    Returns
    -------
    Advice, or Recommendation where rows were looked at
        `met` says whether the wish is kept and of use; `mechanism`, `parameters`, `forecast`, `paragraph()`,
        `to_dict()`, `config`.

    Examples
    --------
    >>> import sfumato as sf
    >>> known = {"source": "public", "reason": "the admission form"}
    >>> schema = sf.Schema((
    ...     sf.Column("age", "integer", low=0, high=120, **known),
    ...     sf.Column("ill", "categorical", role="label", categories=("no", "yes"), **known),
    ... ))
    >>> people = {"age": [34, 61, 47, 29, 52] * 20, "ill": ["no", "yes", "yes", "no", "no"] * 20}
    >>> answer = sf.recommend(people, schema=schema, trust="nobody", epsilon=2)
    >>> answer.mechanism, answer.parameters
    ('square-wave', {'epsilon_record': 2.0})
    """
    wish = Wish(max_risk, max_loss, epsilon, trust, max_posterior, prior)
    read = Schema.load(Path(schema)) if isinstance(schema, str | Path) else schema
    found = run(
        table,
        wish,
        label=label,
        person=person,
        schema=read,
        use_table=use_table,
        rows=rows,
        max_rows_per_person=max_rows_per_person,
        tries=tries,
        seed=seed,
        workers=workers,
        ledger=None if ledger is None else Path(ledger),
        progress=progress,
    )
    if out is not None and found.met:
        found.config.save(out)
    return found
