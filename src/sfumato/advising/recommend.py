"""recommend: which method and how strong, for this table, before anything is released."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.advising.advice import Advice, Known, advise
from sfumato.advising.asked import RecommendAsked
from sfumato.advising.wish import Wish
from sfumato.core.asked import asks
from sfumato.core.errors import UsageError
from sfumato.release.release import Release
from sfumato.release.sanitize import schema_for
from sfumato.release.sanitize_checks import check_rows_per_person
from sfumato.table import open_table

if TYPE_CHECKING:  # brings all attackers and learners with it, which an answer by rule does not need
    from sfumato.advising.recommendation import Recommendation


@asks(RecommendAsked)
def recommend(table: Any, options: RecommendAsked) -> Recommendation | Advice:
    """Say which method and how strong, and what public tables kept under it, before anything is released.

    No row has a say: the method follows from `trust` and epsilon, the strength from the wish by arithmetic, and it
    holds against every attacker once all ranges are public. How useful it will be is told by public tables of about
    this size. With `use_table` settings are tried on one half of the private rows and confirmed on the other: that is
    measured, and the card of a release says so and proves nothing. Nothing is released, and the ledger is not told.

    Parameters
    ----------
    table : DataFrame, Arrow table, dict of columns, path, SqlQuery or Release
        The private table; or a release of made-up rows (or its folder), where a choice costs nothing more
        if the ledger charged it with a proof. Of any other release the choice proves nothing.
    {options}

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
    found = _answer(table, options)
    if options.out is not None and found.met:
        found.config.save(options.out)
    return found


def _answer(table: Any, options: RecommendAsked) -> Recommendation | Advice:
    """By trials where rows may be looked at, else by rule."""
    wish = Wish.of(options)
    wish.check()
    released = _released(table, options)
    rows = open_table(table if released is None else released.arrow)
    options.progress("Reading", 0, None)
    if released is None:
        agreed = schema_for(rows, options.schema, options.label, options.person)
    else:
        agreed = released.encoding.schema
    if released is not None or options.use_table:
        if options.max_rows_per_person is not None:
            raise UsageError("--max-rows-per-person is for an answer by rule. Leave it or --use-table out.")
        from sfumato.advising.recommendation import choose_on

        return choose_on(rows.read(), agreed, wish, options, released)
    if options.tries is not None or options.workers is not None:
        raise UsageError("--tries and --workers are for trials on your own rows: add --use-table, or leave them out.")
    check_rows_per_person(agreed, options.max_rows_per_person)
    counted = None if options.rows is not None else rows.read().num_rows
    return advise(wish, Known.of(agreed, options, counted))


def _released(table: Any, options: RecommendAsked) -> Release | None:
    """The release that a folder holds, or that was given, if its rows can stand for a table. It brings its own columns,
    and no answer by rule is given for it."""
    if isinstance(table, str | Path) and (Path(table) / "card.json").is_file():
        table = Release.public(table)
    if not isinstance(table, Release):
        return None
    table.check()
    if table.card.made_by().rows != "nobody":
        raise UsageError(
            f"The rows of the release {table.where} are people's rows with noise: what is chosen on them is chosen for "
            "noisier rows than yours. Give one of made-up rows (tree-resampling), or the table itself."
        )
    label = table.encoding.schema.label
    own = None if label is None else label.name
    if options.schema is not None or options.person is not None or options.label not in (None, own):
        raise UsageError(
            f"A release has its own schema, and predicts {own!r}: leave out --schema, --label and --person."
        )
    if options.max_rows_per_person is not None:
        raise UsageError("--max-rows-per-person is for an answer by rule, and rows are looked at here. Leave it out.")
    return table
