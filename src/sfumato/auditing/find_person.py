"""What the attackers get of one person, who may be in the table or not, beside what they get of people who are not.

Everything is measured as in an audit, by the same attackers. What differs is who is asked about: one person, whose
values are given. Whether luck explains what is found is told by rank. The same attacker is aimed at the person and at
`n` people who are not in the table. If the person were one more of these, all n + 1 places in their order would be
equally likely, so that (1 + those who do as well) / (1 + n) is at most p with probability at most p.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from sfumato.attacks.base import Attack, Guess, Knowledge, Links, MembershipScores, Secrets
from sfumato.attacks.metrics.privacy import auc, learned
from sfumato.attacks.metrics.scored import unseen_guess
from sfumato.attacks.nearest_row import AttributeInference, NearestRow
from sfumato.attacks.row_ratios import Membership
from sfumato.auditing.asked import AuditAsked
from sfumato.auditing.attacking import NO_TRACE, added, attack_all, told_by_strongest
from sfumato.auditing.case import Case, read_people, sampled
from sfumato.auditing.extra import NO_HOLDOUT
from sfumato.auditing.open_case import MOST_CANDIDATES, is_folder, open_case, strangers_without_twins
from sfumato.auditing.report.bottom_line import proof, rows_html
from sfumato.core.array_types import Codes, Flags, Floats, Matrix
from sfumato.core.errors import SfumatoError, TableError, UsageError
from sfumato.core.progress import Progress, silent
from sfumato.core.wording import counted, joined, said
from sfumato.release.release import Release
from sfumato.table import Encoding, Schema

AnyGuess = TypeVar("AnyGuess", bound=Guess)
Answer = dict[str, Any]
ROW, PRESENCE, OWN_VALUES, VALUE = "row", "presence", "own values", "value"
QUESTIONS = {
    ROW: "Whose row is it?",
    PRESENCE: "In the table?",
    OWN_VALUES: "Learn values from the row?",
    VALUE: "Learn a value, the others known?",
}
ON_VALUES = ("naive-estimate", "known-transform", "linear-estimate", "bayes-window")
UNLIKE = "by being in the table or not, or by being unlike the others: which one is not known"
LUCK_UNKNOWN = "by chance or not: needs people who are not in the table"
CHANCE = 0.05
"""What is as likely as this by luck alone, or likelier, counts as chance."""
FEWEST = round(1 / CHANCE) - 1
"""People not in the table, of whom fewer can never put anything beyond chance."""

MADE_UP = "made-up rows belong to no one"
NOT_OF_ONE = (
    "made-up rows near a person show what people are like, not who is in the table: the proof says how "
    "much they can tell of that"
)
NOT_IN_TABLE = "the person is not in the table, and has no row"
NO_ROW = "no row among those attacked was made from this person"
TOO_FEW_COLUMNS = "needs at least two values of the person"
NOT_WHOLE = "needs every column of the person except the one to predict"
SEVERAL = "several people in the table have these values: give more columns"
NOTHING_GIVEN = "Give at least one value of the person, besides that of the column to predict."
CLIPPED = "{name} lies outside its declared range, and was taken as the nearer end, as the release takes it."


@dataclass(frozen=True)
class Found:
    """One question about the person: how often an attacker is right, of 100, or why none tried.

    right: about this person. without: without the release. outside: about people not in the table, where that has a
    meaning. chance: how likely luck alone does as well; None where that cannot be told, as of presence. columns: what
    the release tells, and is not guessed without it.
    """

    question: str
    attacker: str
    right: float | None = None
    without: float | None = None
    outside: float | None = None
    chance: float | None = None
    columns: tuple[str, ...] = ()
    not_tried: str = ""

    @property
    def learns(self) -> bool | None:
        """Whether the release tells more than luck would; None where it was not tried, or cannot be told."""
        if self.right is None or self.without is None:
            return None
        if self.right <= self.without:
            return False
        return None if self.chance is None else self.chance <= CHANCE

    def in_words(self) -> str:
        """One line."""
        if self.right is None or self.without is None:
            return f"not tried: {self.not_tried}"
        right = f"right {self.right:.0f} of 100"
        if self.question == ROW:  # there is one try
            right = "found" if self.right else "not found"
        parts = [right, f"{self.without:.0f} of 100 without the release"]
        if self.outside is not None:
            parts.append(f"{self.outside:.0f} for people not in the table")
        return "   ".join([*parts, self.verdict()])

    def verdict(self) -> str:
        """What the release adds, in points of 100, or that it adds nothing beyond chance."""
        if self.right is None or self.without is None:
            return "not tried"
        more = said("+{points} of 100", points=f"{self.right - self.without:.0f}")
        if self.learns is None:
            return joined([more, UNLIKE if self.question == PRESENCE else LUCK_UNKNOWN], ", ")
        return more if self.learns else "learns nothing" if self.right <= self.without else "within chance"


@dataclass(frozen=True)
class PersonFound:
    """What can be found out about one person: the proof first, then what was measured. Private.

    proof: what the release's card proves for anybody. fits: people in the table who have the values that were given.
    found: one entry for each question. notes: what the reader must know.
    """

    proof: str
    fits: int
    found: tuple[Found, ...]
    notes: tuple[str, ...] = ()

    def answer(self, question: str) -> Found:
        """The entry of one question: "row", "presence", "own values" or "value"."""
        for one in self.found:
            if one.question == question:
                return one
        raise UsageError(f"The questions are: {', '.join(QUESTIONS)}. Got {question[:60]!r} instead.")

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        found = [{**asdict(one), "verdict": one.verdict(), "columns": list(one.columns)} for one in self.found]
        return {"proof": self.proof, "fits": self.fits, "found": found, "notes": list(self.notes)}

    def _repr_html_(self) -> str:
        """The proof, then one line for each question."""
        fits = f"{counted(self.fits, 'person')} in the table"
        shown = [("Proof", self.proof), ("These values", fits)]
        return str(rows_html([*shown, *((QUESTIONS[one.question], one.in_words()) for one in self.found)]))


def find_person(
    release: Any,
    person: Mapping[str, Any],
    *,
    original: Any,
    holdout: Any = None,
    label: str | None = None,
    schema: Schema | None = None,
    max_rows: int = 20_000,
    seed: int = 0,
    progress: Progress = silent,
) -> PersonFound:
    """Let attackers look for one person in a release, whether that person is in the table or not.

    Parameters
    ----------
    release : Release, path, DataFrame or Arrow table
        A release or its folder; or the table of a release that another tool made.
    person : mapping
        Values of one person by column. What is left out, None or empty is unknown.
    original : DataFrame, Arrow table or path
        The table that the release was made from.
    holdout : DataFrame, Arrow table or path, optional
        People who are not in the table. Without them it cannot be told what is chance, and whether the person was in
        the table is not tried.
    label : str, optional
        The column to predict, of a release without a card.
    schema : Schema, optional
        Bounds and categories, for a release without a card.
    max_rows : int, default 20000
        Attack a random sample if there are more rows.
    seed : int, default 0
        The same seed gives the same answer.
    progress : callable, optional
        Called with step, done and total.

    Returns
    -------
    PersonFound
        `proof`, and `answer(question)` for "row", "presence", "own values" and "value". It is private.

    Examples
    --------
    >>> import sfumato as sf
    >>> people = {"age": [34, 61, 47, 29, 52] * 20, "ill": ["no", "yes", "yes", "no", "no"] * 20}
    >>> release = sf.sanitize(people, label="ill", mechanism="additive-noise", seed=1)
    >>> sf.find_person(release, {"age": 44}, original=people).answer("row").not_tried
    'the person is not in the table, and has no row'
    """
    if not isinstance(person, Mapping):
        raise UsageError("Give the person as a mapping from columns to values.")
    options = AuditAsked(
        original=original,
        holdout=holdout,
        label=label,
        schema=schema,
        max_rows=max_rows,
        seed=seed,
        attacks=ON_VALUES,
        progress=progress,
    )
    options.check(carded=isinstance(release, Release) or is_folder(release))
    rng = np.random.default_rng(seed)
    progress("Reading", 0, None)
    case = open_case(release, options, rng)
    asked = _read(case, person)
    crowd = _Crowd.of(case, asked, rng)
    found = tuple(_answered(question, case, asked, crowd) for question in QUESTIONS)
    card = case.card
    stated = (
        {} if card is None else {"guarantee": card.guarantee, "release": {"earlier_releases": card.earlier_releases}}
    )
    return PersonFound(proof(stated), len(asked.own), found, asked.notes)


# Who is asked about.


@dataclass(frozen=True)
class _Asked:
    """The person, encoded (NaN where a value is unknown), the class where it is known, the columns that are given by
    their place, and the people of the table who have these values by their row numbers."""

    x: Floats
    label: int | None
    given: tuple[int, ...]
    own: Codes
    notes: tuple[str, ...]

    @property
    def is_whole(self) -> bool:
        return not np.isnan(self.x).any()


def check_person(schema: Schema, person: Mapping[str, Any]) -> None:
    """Refuse values that fit no column, or too few of them, before anything is read or attacked; none is quoted."""
    known = {name: value for name, value in person.items() if value not in (None, "")}
    for column in schema.private:
        if column.name in known:
            _encoded(column.name, known[column.name], Encoding(Schema((column,))).encode)
    if not any(column.name in known for column in schema.private):
        raise UsageError(NOTHING_GIVEN)
    if schema.label is not None and schema.label.name in known:
        _encoded(schema.label.name, known[schema.label.name], Encoding(schema).encode_label)


def _read(case: Case, person: Mapping[str, Any]) -> _Asked:
    """Encode what is given, and look for it in the table. No value is ever quoted."""
    schema, encoding = case.encoding.schema, case.encoding
    names = [*(column.name for column in schema.private), *([] if schema.label is None else [schema.label.name])]
    strange = [name for name in person if name not in names]
    if strange:
        raise UsageError(f"The release has no column {str(strange[0])[:60]!r}. It has: {', '.join(names)}.")
    known = _known(person)
    x, given, notes = np.full(encoding.width, np.nan), [], []
    for place, group in enumerate(encoding.groups):
        name = group.column.name
        if name not in known:
            continue
        encoded = _encoded(name, known[name], Encoding(Schema((group.column,))).encode)
        if encoded.clipped:
            notes.append(said(CLIPPED, name=name))
        x[group.slice] = encoded.X[0]
        given.append(place)
    if not given:
        raise UsageError(NOTHING_GIVEN)
    label = None
    if schema.label is not None and schema.label.name in known:
        label = int(_encoded(schema.label.name, known[schema.label.name], encoding.encode_label)[0])
    return _Asked(x, label, tuple(given), _alike(case, x, label), tuple(notes))


def _known(person: Mapping[str, Any]) -> dict[str, Any]:
    """What is given of the person, without what is empty."""
    told = {name: value.strip() if isinstance(value, str) else value for name, value in person.items()}
    return {name: value for name, value in told.items() if value not in (None, "") and value == value}


def _encoded(name: str, value: Any, encode: Callable[[pa.Table], Any]) -> Any:
    """One cell of the person, as the table has it."""
    try:
        return encode(pa.table({name: pa.array([value])}))
    except (SfumatoError, pa.ArrowException, TypeError, ValueError):
        told = "The person's value does not fit column {name!r}. Give one as the table has it, or leave it out."
        raise TableError(told, name=name) from None


def _alike(case: Case, x: Floats, label: int | None) -> Codes:
    """Row numbers of all people in the table, attacked or not, whose values are those that are given."""
    people = read_people(case.original, case.encoding)
    held = ~np.isnan(x)
    same = np.all(np.abs(people.X[:, held] - x[held]) < 1e-9, axis=1)
    if label is not None and people.y is not None:
        same &= people.y == label
    return people.numbers[same]


@dataclass(frozen=True)
class _Crowd:
    """Whom attackers are aimed at in one go: the person first, then people not in the table, then others who are."""

    X: Matrix
    labels: Codes | None
    strangers: int

    @classmethod
    def of(cls, case: Case, asked: _Asked, rng: np.random.Generator) -> _Crowd:
        holdout, people = case.holdout, case.people
        outside = np.empty(0, dtype=np.int64) if holdout is None else strangers_without_twins(case.register, holdout.X)
        outside = outside[sampled(len(outside), MOST_CANDIDATES, rng)]
        others = np.flatnonzero(~np.isin(people.numbers, asked.own))
        others = others[sampled(len(others), MOST_CANDIDATES, rng)]
        aside = people.X[:0] if holdout is None else holdout.X[outside]
        labels = None
        if asked.label is not None and people.y is not None and (holdout is None or holdout.y is not None):
            theirs = people.y[:0] if holdout is None or holdout.y is None else holdout.y[outside]
            labels = np.concatenate([np.array([asked.label]), theirs, people.y[others]])
        return cls(np.vstack([asked.x[None, :], aside, people.X[others]]), labels, len(outside))

    def split(self, figures: Any) -> tuple[float, Floats, Floats]:
        """The person's figure, those of people not in the table, and those of others who are."""
        everybody = np.asarray(figures, dtype=np.float64)
        return float(everybody[0]), everybody[1 : 1 + self.strangers], everybody[1 + self.strangers :]


def by_luck(mine: float, others: Floats) -> float | None:
    """How likely one more of the others does as well as `mine` or better; None where they are too few to tell.

    >>> by_luck(3.0, np.arange(1.0, 100.0))
    0.98
    """
    return None if len(others) < FEWEST else float((1 + np.count_nonzero(others >= mine)) / (1 + len(others)))


# The questions.


class _NotTriedError(Exception):
    """Why a question was not tried."""


def _answered(question: str, case: Case, asked: _Asked, crowd: _Crowd) -> Found:
    attacker, answer = ANSWERS[question]
    try:
        return Found(question, attacker, **answer(case, asked, crowd))
    except _NotTriedError as why:
        return Found(question, attacker, not_tried=str(why))


def _guessed(attack: Attack, known: Knowledge, kind: type[AnyGuess]) -> AnyGuess:
    """The attacker's guess. An unexpected error is told by its type alone, and never counts as privacy."""
    try:
        guess = attack.run(known)
    except Exception as error:
        raise _NotTriedError(f"the attacker failed ({type(error).__name__})") from None
    if not isinstance(guess, kind):
        raise _NotTriedError(getattr(guess, "reason", "the attacker gave no answer of this kind"))
    return guess


def _own_rows(case: Case, asked: _Asked) -> Codes:
    """Places of the person's rows among the audited ones, where any is known to be the person's."""
    if case.is_made_up:
        raise _NotTriedError(MADE_UP)
    if not len(asked.own):
        raise _NotTriedError(NOT_IN_TABLE)
    if not asked.is_whole and len(asked.own) > 1:
        raise _NotTriedError(SEVERAL)
    if case.behind is None:
        raise _NotTriedError(NO_TRACE)
    mine = np.flatnonzero(np.isin(case.people.numbers, asked.own))
    found = np.flatnonzero(np.isin(case.behind, mine))
    if not len(found):
        raise _NotTriedError(NO_ROW)
    return found


def _row(case: Case, asked: _Asked, crowd: _Crowd) -> Answer:
    """Is the row that is likeliest the person's, or nearest, the person's?"""
    own, among = _own_rows(case, asked), np.arange(len(case.Z))
    known = replace(case.known, targets=crowd.X, target_labels=crowd.labels, images=None, sample=None)
    guess = _guessed(NearestRow(), known, Links)
    if case.y is not None and asked.label is not None and case.label_keep == 1.0:
        among = np.flatnonzero(case.y == asked.label)
    by_guessing = float(np.isin(own, among).sum() / max(1, len(among)))
    hit = bool(guess.index[0] in own)
    return {"right": 100.0 * hit, "without": 100 * by_guessing, "chance": by_guessing if hit else 1.0}


def _presence(case: Case, asked: _Asked, crowd: _Crowd) -> Answer:
    """Of the person and one from the other side of the table's edge: is it told who is in the table?"""
    for applies, why in (
        (not case.is_made_up, NOT_OF_ONE),
        (crowd.strangers, NO_HOLDOUT),
        (asked.is_whole, NOT_WHOLE),
    ):
        if not applies:
            raise _NotTriedError(why)
    known = replace(case.known, candidates=crowd.X, candidate_labels=crowd.labels, sample=None)
    mine, outside, inside = crowd.split(_guessed(Membership(), known, MembershipScores).scores)
    if len(asked.own):  # one who is not in the table is taken for a member in half of such pairs
        right, others = auc([mine], outside), 0.5
    else:
        right, others = auc(inside, [mine]), auc(inside, outside)
    # No rank against luck here: a person unlike all others stands out in such pairs, whether in the table or not.
    return {"right": 100 * right, "without": 50.0, "outside": 100 * others}


def _own_values(case: Case, asked: _Asked, crowd: _Crowd) -> Answer:  # noqa: ARG001 - the row itself is attacked
    """What the strongest attacker on values tells of the person's released row."""
    _own_rows(case, asked)
    mine = np.flatnonzero(np.isin(case.people.numbers, asked.own))
    case.lent = np.setdiff1d(case.lent, mine)  # an attacker who was given the person would have nothing to find
    told = told_by_strongest(case, attack_all(case))
    if told is None:
        raise _NotTriedError("no attacker on values could run")
    rows = np.isin(told.numbers, asked.own)
    if not rows.any():
        raise _NotTriedError(NO_ROW)
    hits, without = told.hits[rows][:, asked.given], told.without[rows][:, asked.given]
    chance = by_luck(float(told.added[rows].mean()), told.by_chance)
    return {**_shares(case, asked, hits, without), "chance": chance}


def _value(case: Case, asked: _Asked, crowd: _Crowd) -> Answer:
    """Each value of the person, guessed by an attacker who knows the others that are given."""
    if len(asked.given) < 2:
        raise _NotTriedError(TOO_FEW_COLUMNS)
    targets = np.where(np.isnan(asked.x), np.nan, crowd.X)  # of the others he knows no more than of the person
    known = replace(case.known, targets=targets, target_labels=crowd.labels, images=None)
    # The person counts among those from whom is learned what is usual, so that nothing sets the person apart there.
    truth = case.truth
    if truth.control is not None:
        labels = None
        if truth.control_labels is not None and asked.label is not None:
            labels = np.append(truth.control_labels, asked.label)
        truth = replace(truth, control=np.vstack([truth.control, np.nan_to_num(asked.x)]), control_labels=labels)
    usual = unseen_guess(truth, crowd.labels, len(targets))
    hits, without = [], []
    for place in asked.given:
        guess = _guessed(AttributeInference(), known.hiding(place), Secrets)
        group = case.encoding.groups[place]
        is_so = targets[:, group.slice]
        hits.append(learned(is_so, guess.X, group, truth.tolerance))
        without.append(learned(is_so, usual[:, group.slice], group, truth.tolerance))
    told, guessed = np.column_stack(hits), np.column_stack(without)
    mine, outside, _ = crowd.split(added(told, guessed))
    others = 100 * float(told[1 : 1 + crowd.strangers].mean()) if crowd.strangers else None
    return {**_shares(case, asked, told[:1], guessed[:1]), "outside": others, "chance": by_luck(mine, outside)}


def _shares(case: Case, asked: _Asked, hits: Flags, without: Flags) -> Answer:
    """What is right of the given columns with the release and without it, and the columns that it adds."""
    names = [case.encoding.groups[place].column.name for place in asked.given]
    more = np.any(hits & ~without, axis=0)
    columns = tuple(name for name, new in zip(names, more, strict=True) if new)
    return {"right": 100 * float(hits.mean()), "without": 100 * float(without.mean()), "columns": columns}


ANSWERS: Mapping[str, tuple[str, Callable[[Case, _Asked, _Crowd], Answer]]] = {
    ROW: (NearestRow.name, _row),
    PRESENCE: (Membership.name, _presence),
    OWN_VALUES: ("the strongest on values", _own_values),
    VALUE: (AttributeInference.name, _value),
}
"""By question who tries, and what a try says of it."""
