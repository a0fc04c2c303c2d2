"""How much a column could tell about who a person is: by its name and kind, before any cell is looked at.

Leaving a column out because of its cells would be a choice on private rows, which the release would tell. Names and
kinds are on the form that everybody filled in.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from sfumato.table import Column, Schema

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
