"""What can be said before anything is released: which method and how strong, and how much columns tell."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
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
from sfumato.table import Column, Schema, open_table

if TYPE_CHECKING:
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
    wish = Wish(**{one.name: getattr(options, one.name) for one in fields(Wish)})
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


# How much a column could tell about who a person is: by its name and kind, before any cell is looked at.
#
# Leaving a column out because of its cells would be a choice on private rows, which the release would tell. Names and
# kinds are on the form that everybody filled in.

MOST = 5
IDENTIFIER, KNOWN_TO_OTHERS, WHERE_AND_WHEN, ORDINARY = "identifier", "known to others", "place or time", "ordinary"


@dataclass(frozen=True)
class Exposure:
    """Of one column: a level from 1 to 5 (names a person), and why."""

    column: str
    level: int
    why: str

    @property
    def is_identifier(self) -> bool:
        """Whether it looks as if it named people."""
        return self.why == IDENTIFIER and self.level == MOST


_IDENTIFIERS = (
    "id|ident|identifier|uuid|guid|mrn|ssn|nhs|nino|iban|bic|account|konto|passport|pass|licence|license|card|karte|"
    "phone|tel|telephone|telefon|mobile|handy|fax|email|mail|name|surname|forename|firstname|lastname|vorname|nachname|"
    "address|adresse|street|strasse|straße|url|ip|login|username|user|plate|kennzeichen|kennung|aktenzeichen|akte|"
    "signature|unterschrift|photo|foto|patientenname"
)
_ENDINGS = ("nr", "nummer", "kennung", "kennzeichen", "kennziffer")
"""Of German words for numbers of people, cases and files, which are written in one."""
_OTHERS_KNOW = (
    "age|alter|sex|gender|geschlecht|race|ethnicity|ethnic|nationality|nation|country|land|religion|konfession|"
    "language|sprache|marital|familienstand|children|kinder|household|haushalt|education|bildung|school|schule|"
    "occupation|job|beruf|profession|employer|arbeitgeber|height|groesse|größe|weight|gewicht|income|einkommen|salary"
)
_PLACE_TIME = (
    "zip|plz|postcode|postal|postleitzahl|city|town|stadt|ort|county|kreis|region|district|bezirk|state|lat|lon|"
    "latitude|longitude|geo|birth|born|dob|geburt|geburtstag|geburtsdatum|date|datum|day|tag|time|zeit|admission|"
    "admitted|discharge|aufnahme|entlassung|visit|death|tod|aufnahmedatum|entlassdatum|wohnort|geburtsort|uhrzeit"
)
_PARTS = re.compile(r"[^\W\d_]+", re.UNICODE)
_HUMPS = re.compile(r"(?<=[a-zß-ÿ])(?=[A-ZÀ-Þ])")


def exposure(schema: Schema) -> list[Exposure]:
    """What each column could tell of who a person is, by its name and kind alone.

    Parameters
    ----------
    schema : Schema
        Of the table; bounds and categories are not looked at.

    Returns
    -------
    list of Exposure
        In the order of the columns: `column`, `level` from 1 to 5, `why`, `is_identifier`.

    Examples
    --------
    >>> from sfumato.table import Column, Schema
    >>> schema = Schema((Column("mrn", "integer"), Column("birth_date", "date"), Column("glucose", "numeric")))
    >>> [(one.column, one.level) for one in exposure(schema)]
    [('mrn', 5), ('birth_date', 4), ('glucose', 2)]
    """
    return [_of(column) for column in schema.columns]


def _of(column: Column) -> Exposure:
    words = {word.lower() for word in _PARTS.findall(_HUMPS.sub(" ", column.name))}
    if words & set(_IDENTIFIERS.split("|")) or any(word.endswith(_ENDINGS) for word in words):
        return Exposure(column.name, MOST, IDENTIFIER)
    if words & set(_PLACE_TIME.split("|")) or column.kind == "date":
        return Exposure(column.name, 4, WHERE_AND_WHEN)
    if words & set(_OTHERS_KNOW.split("|")):
        return Exposure(column.name, 3, KNOWN_TO_OTHERS)
    return Exposure(column.name, 2 if column.kind == "numeric" else 1, ORDINARY)
