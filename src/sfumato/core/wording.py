"""The words that readers meet: one vocabulary for terminal, pages, certificate and documentation.

`WORDS` says what a thing is called, what it means, and which other words for it are out of readers' text.
`docs/glossary.md` is written from it (`make reference`), and tests/test_vocabulary.py reads pages, terminal and
documentation for words that are out. Fields of JSON, options, files, classes and the papers' pages keep their own.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Word:
    """What readers are told. `out`: what they must not meet instead; `known_as`: what law, papers or files call it,
    which may stand small beside it, in parentheses."""

    means: str
    out: tuple[str, ...] = ()
    known_as: str = ""


PICK_OUT, FIND_ROW, LEARN_VALUE = "pick out one person", "find whose row it is", "learn a value"
MEASURED, PROVED = "measured, not proved", "proved"
QUESTIONS = {"linkability": "Whose row is it?", "inference": "Learn a value?", "singling out": "Pick out one?"}
"""The three risks as an owner asks for them, by their legal words, which stand small beside."""

OWN = (
    *("audit", "card", "channel", "fits together with", "floor", "guidance"),
    *("key", "ledger", "level", "private match file", "recipe", "release"),
)
"""All words that a reader must learn here; the others mean what they mean elsewhere."""

WORDS = {
    "accuracy lost": Word(
        "How many more of 100 rows a classifier gets wrong when it learned from the release and not from the original, "
        "on average over random splits.",
        ("phi",),
        "phi",
    ),
    "attacker": Word(
        "Whoever tries to find out about a person from the release. An audit plays many, each of whom knows "
        "something else; what they achieve is a lower bound on what can be learned.",
        ("adversary", "an attack", "the attack", "each attack", "every attack", "no attack", "attacks"),
        "adversary, attack",
    ),
    "audit": Word(
        "A trial: attackers are let loose on a release, and what each gets right is set against the same without the "
        "release. What was not tried is unknown, never 0."
    ),
    "blur": Word(
        "To change a row by chance before it leaves, so that it could be that of many other people.",
        ("perturb", "perturbation", "sanitize"),
        "perturb, sanitize",
    ),
    "card": Word(
        "The file `card.json`, in which a release describes itself: method, parameters, recipe, what is proved, "
        "and what was read off the data. It holds no seed, no key and no row, but ranges and categories that were"
        " read off the data do appear on it."
    ),
    "column to predict": Word("What others should learn to predict from the release.", ("label",), "label, target"),
    "epsilon": Word(
        "The largest change, as a logarithm of a likelihood ratio, that a release can make to anyone's belief "
        "about a person. Smaller protects more; the card says how far a person's own row can lift a fact at "
        "most. It is stated for one released number, one source column with all others fixed, and the whole row. "
        "The row's figure is the one that matters; a person with several rows has that figure times the number of"
        " rows."
    ),
    "extra": Word(
        'How many more of 100 an attacker gets right with the release than without: "+17 of 100". What is right '
        "without the release too is not the release's doing.",
        ("gain", "excess"),
        "gain, excess, advantage",
    ),
    FIND_ROW: Word(
        "Connect what is known of a person with that person's row of the release, or with having been in the table.",
        ("linkability",),
        "linkability",
    ),
    "fits together with": Word(
        "Releases fit together if they were encoded and mixed in the same way. Others are never pooled, trained "
        "on or predicted with together.",
        ("another space", "same space", "different spaces", "other space"),
        "space",
    ),
    "floor": Word(
        "The least probability of either value of a bit in a guided survey. It is what makes the survey's epsilon"
        " finite, whatever guidance the collector sends."
    ),
    "guidance": Word(
        "The directions in which the classes of a survey differ, computed from blurred answers and sent to "
        "respondents. Their devices blur answers so that mostly these directions remain."
    ),
    "key": Word(
        "The owner's private file `key.json`, which holds a secret map such as a rotation. Sites of one study "
        "share it; it must never reach the coordinator or anyone else."
    ),
    LEARN_VALUE: Word("Tell what stands in one column of a person's row.", ("inference",), "inference"),
    "ledger": Word(
        "The owner's private count of earlier releases, by person. It lets the card state what holds against an "
        "attacker who sees all of them, and keeps a budget."
    ),
    "level": Word(
        "The number of directions of guidance that a respondent's bits follow. A respondent chooses the highest "
        "level they accept, and waits until the survey needs no more than that."
    ),
    "made-up rows": Word(
        "Rows drawn from noisy counts of the table. None of them is a person's row.",
        ("belong to nobody", "belongs to nobody", "rows of nobody"),
    ),
    MEASURED: Word(
        "Nothing is proved about this release. Only what the audit's attackers achieved speaks for it.",
        ("empirical only", "empirical-only", "no formal guarantee"),
        "empirical only",
    ),
    "method": Word(
        "How a table is turned into a release: `sfumato list mechanisms` has them all.", ("mechanism",), "mechanism"
    ),
    "owner's word": Word(
        "That a range is known without the table (`source: public`, with a reason). A proof rests on it, a reader"
        " cannot check it, and every reader is told so."
    ),
    "people not in the table": Word(
        "People of the same kind whose rows were not released (`--holdout`). What an attacker gets right about "
        "them is true of people in general, and not the release's doing.",
        ("stranger", "holdout", "the control", "a control", "control group", "control people"),
        "control, holdout",
    ),
    "person": Word(
        "An individual, who may own several rows, which a column with `role: person` ties together. Their "
        "epsilons add up, so `--max-rows-per-person` caps the total."
    ),
    PICK_OUT: Word(
        "Give a description that fits one person of the table alone.",
        ("singling out", "single out", "singled out"),
        "singling out",
    ),
    "private match file": Word(
        "The owner's private file `trace.parquet`, which says which released row came from which source row. Only"
        " the audit needs it.",
        ("the trace", "its trace", "their trace", "a trace", "traces"),
        "trace",
    ),
    PROVED: Word(
        "A bound on epsilon that holds against every attacker, whatever they know. It covers values (`local-dp` "
        "on the card), or values and presence in the table (`central-dp`). Nothing that it rests on was read off "
        "the data.",
        ("local-dp", "central-dp"),
        "local-dp, central-dp",
    ),
    "ranges read off your data": Word(
        "Minima, maxima or categories that come from the table. They are people's values, so no proof can rest on"
        " them: say what you know without the table instead (`sfumato schema declare`).",
        ("learned bounds", "bounds learned", "bounds were learned", "learned ranges", "bounds are learned"),
        "learned bounds",
    ),
    "record": Word("One row of the source table. A proof is for a record unless it says otherwise."),
    "release": Word(
        "The table that leaves the owner's hands, together with its card. Everything else that `sfumato sanitize`"
        " writes stays with the owner."
    ),
    "right x of 100": Word(
        "How often an attacker is right, of 100 tries: 1 of 10 is 10 of 100.",
        ("success", "succeed", "score"),
        "success, score",
    ),
    "without the release": Word(
        "What an attacker gets right who never saw the release. Only what goes beyond it is the release's doing.",
        ("baseline", "guesser", "guessing"),
        "baseline, reference",
    ),
}

EXPERTS = {
    "amplification": Word(
        "The largest ratio of the probabilities of one released value under two different sources: e to the epsilon.",
        ("amplification", "amplifying"),
    ),
    "channel": Word(
        "The law of what is released given what was true, for one column or group of columns. Guarantee, "
        "attackers and learners all read the same channel.",
        ("channel", "law of the noise"),
    ),
    "conditional epsilon": Word(
        "The epsilon that would hold if everything it rests on had been public. It is shown with a release that "
        "is measured, not proved, and is not a promise."
    ),
    "DAPL": Word(
        'The mean L1 error of the density estimates of the sites, halved (the "privacy loss" of the kernel '
        "paper). It measures the quality of an estimate and says nothing about privacy. It needs the true "
        "density; audits and rehearsals have another estimate in its place, and call the result the gap of two "
        "density estimates (`density_gap`)."
    ),
    "k\\*": Word(
        "The smallest level that serves the classifier. The first direction beyond it has at most the share `mu` "
        "of the first direction's strength."
    ),
    "predicate": Word(
        "A description that is true of exactly one released row, with which an attacker picks out a person.",
        ("predicate", "vacuous"),
    ),
    "recipe": Word(
        "What is done to a whole row (nothing, a public map or a secret one) and the channels behind it: together "
        "they say how a release came about. The card holds it, and the coordinator recomputes the guarantee from it."
    ),
}
"""Words of the experts' part of a page and of the papers' pages; owners do not meet them."""

UNNAMED = ("shall", "nobody", "somebody")
"""English that hides who acts. Say who does it: the attacker, the owner, the coordinator."""

IRREGULAR = {
    "class": "classes",
    "person": "people",
    "category": "categories",
    "search": "searches",
    "query": "queries",
    "entry": "entries",
}

BETTER, NO_BETTER, WORSE = "better", "no better", "worse"

COMMONEST_WORDS = {
    BETTER: "",
    NO_BETTER: "No better than always answering the commonest class, as far as these rows can tell.",
    WORSE: "Worse than always answering the commonest class: do not use this model.",
}
"""One sentence where a model is no better than guessing; nothing where it is."""


class Said(str):
    """A sentence that knows the `template` and the `values` it was made of, so that a page can say it in another
    language. For everybody else it is a text like any other."""

    template: str
    values: Mapping[str, Any]


def said(template: str, /, **values: Any) -> Said:
    """The sentence of a template; values that are words of ours, and no names or figures, are `Said` too.

    >>> said("{rows:,} of them", rows=1_200), said("{rows:,} of them", rows=1_200).values
    ('1,200 of them', {'rows': 1200})
    """
    if isinstance(template, Said) and not values:
        return template
    made = Said(template.format(**values) if values else template)
    made.template, made.values = template, values
    return made


def joined(parts: Sequence[str], between: str) -> Said:
    """Sentences one after the other, each of which stays what it is."""
    places = "{between}".join(f"{{part{place}}}" for place in range(len(parts)))
    return said(places, between=said(between), **{f"part{place}": said(part) for place, part in enumerate(parts)})


def counted(number: int, noun: str) -> str:
    """A number with its noun: 1 row, 2 rows, 1,200 rows. The last word of `noun` takes the plural.

    >>> counted(1, "private column"), counted(2, "private column"), counted(1200, "person")
    ('1 private column', '2 private columns', '1,200 people')
    """
    head, space, last = noun.rpartition(" ")
    plural = IRREGULAR.get(last, f"{last}s")
    return f"{number:,} {noun if number == 1 else head + space + plural}"


def first_names(names: Sequence[str], most: int = 5) -> str:
    """A few names, and how many more there are.

    >>> first_names(["age", "bmi", "sex"], 2)
    'age, bmi and 1 more'
    """
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more:,} more" if more > 0 else "")


def in_a_row(names: Sequence[str], most: int, more: str = "more") -> str:
    """Names with an "and" before the last, which says how many more there are.

    >>> in_a_row(["age", "bmi", "sex"], 3), in_a_row(["age", "bmi", "sex"], 2, "more columns")
    ('age, bmi and sex', 'age and 2 more columns')
    """
    shown = [*names] if len(names) <= most else [*names[: most - 1], f"{len(names) - most + 1} {more}"]
    return " and ".join(filter(None, [", ".join(shown[:-1]), shown[-1]]))


def to_type(command: str, *given: object, **options: object) -> str:
    """A command for a shell: paths and names are quoted where they need it. Options that are None are left out, those
    that are True have no value, and a list repeats its option.

    >>> to_type("sanitize", "my table.csv", schema="s.yaml", label=None, max_posterior=0.2, force=True)
    "sfumato sanitize 'my table.csv' --schema s.yaml --max-posterior 0.2 --force"
    """
    words = [shlex.quote(str(one)) for one in given]
    for name, value in options.items():
        option = f"--{name.replace('_', '-')}"
        for one in value if isinstance(value, list) else [value]:
            if one is True:
                words.append(option)
            elif one is not None:
                words += [option, shlex.quote(str(one))]
    return " ".join(["sfumato", command, *words])


def right_of_100(
    right: float, learner: str, on: str, commonest: float | None = None, originals: float | None = None
) -> str:
    """How often a learner is right, on which rows of whom, and beside what: the one phrase for an accuracy.

    `originals`: of the learner that is best on the original rows.

    >>> right_of_100(0.93, "knn", "143 people not in the table", 0.63, 0.95)
    '93 of 100 right (commonest class 63, originals 95), by knn on 143 people not in the table'
    """
    known = {"commonest class {share}": commonest, "originals {share}": originals}
    beside = [said(name, share=f"{100 * value:.0f}") for name, value in known.items() if value is not None]
    return said(
        "{share} of 100 right{beside}, by {learner} on {on}",
        share=f"{100 * right:.0f}",
        beside=said(" ({figures})", figures=joined(beside, ", ")) if beside else "",
        learner=learner,
        on=on,
    )


def than_commonest(low: float, high: float) -> str:
    """From the 95% interval of (error - error of the commonest class): below 0 is better, above it worse.

    >>> than_commonest(-0.2, -0.1), than_commonest(-0.1, 0.1), than_commonest(0.1, 0.2)
    ('better', 'no better', 'worse')
    """
    if math.isnan(low) or math.isnan(high):
        return NO_BETTER
    return BETTER if high < 0.0 else WORSE if low > 0.0 else NO_BETTER


WORSE_THAN_GUESSING = "learns nothing: right less often than without the release"
"""No attacker is made to look harmless by a guess that they would not make."""


def is_worse_than_guessing(score: float | None, baseline: float | None) -> bool:
    """Whether an attacker who never saw the release gets more."""
    return score is not None and baseline is not None and score < baseline - 1e-9


# Free text of a card, which anybody may have written: shown as one printable line, never endless, and in quotes.

LONGEST = 600
"""Characters; the longest sentence of our own mechanisms has about 500."""
LONGEST_REASON = 200
MOST_REASONS = 8


def own_words(text: str, most: int = LONGEST) -> str:
    """Without control characters, line breaks and marks that turn the direction of writing.

    >>> own_words("Safe.\\x1b[2J\\nReally.")
    'Safe. [2J Really.'
    """
    shown = "".join(character if character.isprintable() else " " for character in text[: 4 * most])
    return shown if len(shown) <= most and len(text) <= 4 * most else shown[: most - 1] + "…"


def plain(text: str, most: int = 500) -> str:
    """Text from elsewhere as it may be printed: no control characters, which a terminal would obey; not endless."""
    shown = "".join(character if character.isprintable() else " " for character in text)
    return shown if len(shown) <= most else shown[: most - 3] + "..."


def quoted(text: str, most: int = LONGEST) -> str:
    """The same in quotes that its own text cannot close."""
    return f'"{own_words(text, most).replace(chr(34), chr(39))}"'


def listed(reasons: Sequence[str], most: int = MOST_REASONS) -> str:
    """A few reasons one after the other, and how many more there are."""
    shown = [one if isinstance(one, Said) else own_words(one, LONGEST_REASON) for one in reasons[:most]]
    more = [said("and {count:,} more", count=len(reasons) - most)] if len(reasons) > most else []
    return joined([*shown, *more], "; ")
