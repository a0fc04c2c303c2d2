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
from sfumato.core.array_types import Codes, Flags, Floats
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

NOT_OF_ONE = (
    "made-up rows near a person show what people are like, not who is in the table: the proof says how "
    "much they can tell of that"
)
NO_ROW = "no row among those attacked was made from this person"
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
        beyond_luck = None if self.chance is None else self.chance <= CHANCE
        return beyond_luck if self.right > self.without else False

    def in_words(self) -> str:
        """One line."""
        if self.right is None or self.without is None:
            return f"not tried: {self.not_tried}"
        right = f"right {self.right:.0f} of 100"
        if self.question == ROW:  # there is one try
            right = "found" if self.right else "not found"
        outside = [] if self.outside is None else [f"{self.outside:.0f} for people not in the table"]
        return "   ".join([right, f"{self.without:.0f} of 100 without the release", *outside, self.verdict()])

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
    search = _Search(case, person, rng)
    found = tuple(search.answer(question) for question in QUESTIONS)
    stated: dict[str, Any] = {}
    if case.card is not None:
        stated = {"guarantee": case.card.guarantee, "release": {"earlier_releases": case.card.earlier_releases}}
    return PersonFound(proof(stated), len(search.own), found, tuple(search.notes))


def check_person(schema: Schema, person: Mapping[str, Any]) -> tuple[dict[str, Any], int | None]:
    """The given cells of the person, encoded column by column, and the class where it is known.

    Refuses values that fit no column, or too few of them, before anything is read or attacked; none is ever quoted.
    """
    told = {name: value.strip() if isinstance(value, str) else value for name, value in person.items()}
    known = {name: value for name, value in told.items() if value not in (None, "") and value == value}

    def encoded(name: str, encode: Callable[[pa.Table], Any]) -> Any:
        try:
            return encode(pa.table({name: pa.array([known[name]])}))
        except (SfumatoError, pa.ArrowException, TypeError, ValueError):
            told = "The person's value does not fit column {name!r}. Give one as the table has it, or leave it out."
            raise TableError(told, name=name) from None

    columns = [column for column in schema.private if column.name in known]
    cells = {column.name: encoded(column.name, Encoding(Schema((column,))).encode) for column in columns}
    if not cells:
        raise UsageError("Give at least one value of the person, besides that of the column to predict.")
    if schema.label is None or schema.label.name not in known:
        return cells, None
    return cells, int(encoded(schema.label.name, Encoding(schema).encode_label)[0])


def by_luck(mine: float, others: Floats) -> float | None:
    """How likely one more of the others does as well as `mine` or better; None where they are too few to tell.

    >>> by_luck(3.0, np.arange(1.0, 100.0))
    0.98
    """
    return None if len(others) < FEWEST else float((1 + np.count_nonzero(others >= mine)) / (1 + len(others)))


class _NotTriedError(Exception):
    """Why a question was not tried."""


def _refuse(*reasons: tuple[Any, str]) -> None:
    """Do not try a question for the first of these reasons that holds."""
    for holds, why in reasons:
        if holds:
            raise _NotTriedError(why)


def _guessed(attack: Attack, known: Knowledge, kind: type[AnyGuess]) -> AnyGuess:
    """The attacker's guess. An unexpected error is told by its type alone, and never counts as privacy."""
    try:
        guess = attack.run(known)
    except Exception as error:
        raise _NotTriedError(f"the attacker failed ({type(error).__name__})") from None
    if not isinstance(guess, kind):
        raise _NotTriedError(getattr(guess, "reason", "the attacker gave no answer of this kind"))
    return guess


class _Search:
    """One person, and whom attackers are aimed at in one go.

    x: the person, encoded (NaN where a value is unknown). label: the class where it is known. given: the columns that
    are given, by their place. own: row numbers of the people of the table, attacked or not, who have these values. X,
    labels: the person first, then people not in the table, as many as `strangers`, then others who are in it.
    """

    def __init__(self, case: Case, person: Mapping[str, Any], rng: np.random.Generator) -> None:
        schema, encoding = case.encoding.schema, case.encoding
        names = [*(column.name for column in schema.private), *([] if schema.label is None else [schema.label.name])]
        if strange := [name for name in person if name not in names]:
            raise UsageError(f"The release has no column {str(strange[0])[:60]!r}. It has: {', '.join(names)}.")
        cells, self.label = check_person(schema, person)
        self.case, self.x = case, np.full(encoding.width, np.nan)
        self.notes = [said(CLIPPED, name=name) for name, cell in cells.items() if cell.clipped]
        self.given = [place for place, group in enumerate(encoding.groups) if group.column.name in cells]
        for group in (encoding.groups[place] for place in self.given):
            self.x[group.slice] = cells[group.column.name].X[0]
        people, held = read_people(case.original, encoding), ~np.isnan(self.x)
        same = np.all(np.abs(people.X[:, held] - self.x[held]) < 1e-9, axis=1)
        if self.label is not None and people.y is not None:
            same &= people.y == self.label
        self.own: Codes = people.numbers[same]
        self._gather(rng)

    def _gather(self, rng: np.random.Generator) -> None:
        """Put the person, people not in the table and others who are in it into one crowd, with their classes."""
        case, people = self.case, self.case.people
        holdout = people.take(np.arange(0)) if case.holdout is None else case.holdout
        outside = strangers_without_twins(case.register.X, holdout.X) if len(holdout.X) else np.arange(0)
        aside = holdout.take(outside[sampled(len(outside), MOST_CANDIDATES, rng)])
        inside = np.flatnonzero(~np.isin(people.numbers, self.own))
        others = people.take(inside[sampled(len(inside), MOST_CANDIDATES, rng)])
        self.X, self.strangers = np.vstack([self.x[None, :], aside.X, others.X]), len(aside.X)
        self.labels: Codes | None = None
        if self.label is not None and aside.y is not None and others.y is not None:
            self.labels = np.concatenate([np.array([self.label]), aside.y, others.y])

    def answer(self, question: str) -> Found:
        """Who tries, and what a try says of it."""
        attacker, tried = {
            ROW: (NearestRow.name, self.row),
            PRESENCE: (Membership.name, self.presence),
            OWN_VALUES: ("the strongest on values", self.own_values),
            VALUE: (AttributeInference.name, self.value),
        }[question]
        try:
            return Found(question, attacker, **tried())
        except _NotTriedError as why:
            return Found(question, attacker, not_tried=str(why))

    def split(self, figures: Any) -> tuple[float, Floats, Floats]:
        """The person's figure, those of people not in the table, and those of others who are."""
        everybody = np.asarray(figures, dtype=np.float64)
        return float(everybody[0]), everybody[1 : 1 + self.strangers], everybody[1 + self.strangers :]

    def own_rows(self) -> Codes:
        """Places of the person's rows among the audited ones, where any is known to be the person's."""
        case = self.case
        _refuse(
            (case.is_made_up, "made-up rows belong to no one"),
            (not len(self.own), "the person is not in the table, and has no row"),
            (
                np.isnan(self.x).any() and len(self.own) > 1,
                "several people in the table have these values: give more columns",
            ),
            (case.behind is None, NO_TRACE),
        )
        assert case.behind is not None
        found = np.flatnonzero(np.isin(case.behind, np.flatnonzero(np.isin(case.people.numbers, self.own))))
        _refuse((not len(found), NO_ROW))
        return found

    def row(self) -> Answer:
        """Is the row that is likeliest the person's, or nearest, the person's?"""
        case, own, among = self.case, self.own_rows(), np.arange(len(self.case.Z))
        known = replace(case.known, targets=self.X, target_labels=self.labels, images=None, sample=None)
        guess = _guessed(NearestRow(), known, Links)
        if case.y is not None and self.label is not None and case.label_keep == 1.0:
            among = np.flatnonzero(case.y == self.label)
        by_guessing = float(np.isin(own, among).sum() / max(1, len(among)))
        hit = bool(guess.index[0] in own)
        return {"right": 100.0 * hit, "without": 100 * by_guessing, "chance": by_guessing if hit else 1.0}

    def presence(self) -> Answer:
        """Of the person and one from the other side of the table's edge: is it told who is in the table?"""
        _refuse(
            (self.case.is_made_up, NOT_OF_ONE),
            (not self.strangers, NO_HOLDOUT),
            (np.isnan(self.x).any(), "needs every column of the person except the one to predict"),
        )
        known = replace(self.case.known, candidates=self.X, candidate_labels=self.labels, sample=None)
        mine, outside, inside = self.split(_guessed(Membership(), known, MembershipScores).scores)
        if len(self.own):  # one who is not in the table is taken for a member in half of such pairs
            right, others = auc([mine], outside), 0.5
        else:
            right, others = auc(inside, [mine]), auc(inside, outside)
        # No rank against luck here: a person unlike all others stands out in such pairs, in the table or not.
        return {"right": 100 * right, "without": 50.0, "outside": 100 * others}

    def own_values(self) -> Answer:
        """What the strongest attacker on values tells of the person's released row."""
        self.own_rows()
        case, mine = self.case, np.flatnonzero(np.isin(self.case.people.numbers, self.own))
        case.lent = np.setdiff1d(case.lent, mine)  # an attacker who was given the person would have nothing to find
        told = told_by_strongest(case, attack_all(case))
        if told is None:
            raise _NotTriedError("no attacker on values could run")
        rows = np.isin(told.numbers, self.own)
        _refuse((not rows.any(), NO_ROW))
        hits, without = told.hits[rows][:, self.given], told.without[rows][:, self.given]
        return {**self.shares(hits, without), "chance": by_luck(float(told.added[rows].mean()), told.by_chance)}

    def value(self) -> Answer:
        """Each value of the person, guessed by an attacker who knows the others that are given."""
        _refuse((len(self.given) < 2, "needs at least two values of the person"))
        targets = np.where(np.isnan(self.x), np.nan, self.X)  # of the others he knows no more than of the person
        known = replace(self.case.known, targets=targets, target_labels=self.labels, images=None)
        # The person counts among those from whom is learned what is usual, so that nothing sets the person apart there.
        truth = self.case.truth
        if truth.sample is not None:
            labels = None
            if truth.sample_labels is not None and self.label is not None:
                labels = np.append(truth.sample_labels, self.label)
            truth = replace(truth, sample=np.vstack([truth.sample, np.nan_to_num(self.x)]), sample_labels=labels)
        usual = unseen_guess(truth, self.labels, len(targets))
        hits: list[Flags] = []
        without: list[Flags] = []
        for place in self.given:
            guess = _guessed(AttributeInference(), known.hiding(place), Secrets)
            group = self.case.encoding.groups[place]
            for told, of in ((hits, guess.X), (without, usual[:, group.slice])):
                told.append(learned(targets[:, group.slice], of, group, truth.tolerance))
        right, guessed = np.column_stack(hits), np.column_stack(without)
        mine, outside, _ = self.split(added(right, guessed))
        others = 100 * float(right[1 : 1 + self.strangers].mean()) if self.strangers else None
        return {**self.shares(right[:1], guessed[:1]), "outside": others, "chance": by_luck(mine, outside)}

    def shares(self, hits: Flags, without: Flags) -> Answer:
        """What is right of the given columns with the release and without it, and the columns that it adds."""
        more = np.any(hits & ~without, axis=0)
        groups = [self.case.encoding.groups[place] for place in self.given]
        columns = tuple(group.column.name for group, new in zip(groups, more, strict=True) if new)
        return {"right": 100 * float(hits.mean()), "without": 100 * float(without.mean()), "columns": columns}
