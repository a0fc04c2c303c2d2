"""The evidence: what is proved about the release and on what it rests, who gets most, and how near it comes to people.

Words are computed from figures. Sentences of the card are shown as the release's own words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sfumato.auditing.extra import points_of, shown_points, three_risks
from sfumato.auditing.report import markup
from sfumato.auditing.report.bottom_line import in_points, is_private
from sfumato.auditing.report.markup import Section, Shown, drawn
from sfumato.core.wording import QUESTIONS, own_words
from sfumato.guarantee import AllReleases
from sfumato.guarantee.cost import BELIEFS, but_for
from sfumato.guarantee.guarantee import CENTRAL_DP, LOCAL_DP, summarized
from sfumato.guarantee.rounding import amplification_at_most, epsilon_at_most, percent_down, percent_up

Attacks = Sequence[Mapping[str, Any]]


def strongest_section(audit: Mapping[str, Any]) -> Section:
    """Who gets most extra; with the others in a few lines."""
    attacks, limit = list(audit.get("attacks") or ()), (audit.get("extra") or {}).get("limit")
    return drawn(
        "strongest",
        "The strongest attacker of each risk",
        risks=strongest(attacks, limit),
        legend=markup.legend(attacks),
        others=list(other_lines(attacks)),
        limit=limit,
    )


def strongest(attacks: Attacks, limit: float | None = None) -> list[Shown]:
    """All three, also those that no attacker tried. `words` as in the bottom line; `beside`: what these leave out, such
    as a condition."""
    entries = {entry["name"]: entry for entry in attacks}
    shown = []
    for one in three_risks(attacks):
        chart, state, beside = None, "", list[str]()
        if one.points is not None:
            entry = entries[one.attacker]
            state = markup.verdict(entry)
            chart = markup.bar(entry, state)
            beside += [markup.IN_SHORT[state]] if state == markup.POPULATION else []
            beside += [*(f"if {line}" for line in entry.get("assumes") or ()), *rows_scored(entry)]
        told = {"question": QUESTIONS[one.risk], "risk": one.risk, "attacker": one.attacker, "verdict": state}
        shown.append(Shown(**told, words=in_points(one, limit), chart=chart, beside="; ".join(beside)))
    return shown


def rows_scored(entry: Mapping[str, Any]) -> Iterator[str]:
    """On how many rows a figure rests, where others are made up and fit no person."""
    details = entry.get("details") or {}
    if details.get("rows_of_people") is not None and details.get("rows_in_all") is not None:
        yield f"on {details['rows_of_people']:,.0f} of {details['rows_in_all']:,.0f} rows, which fit a person"


def other_lines(attacks: Attacks) -> Iterator[str]:
    """Who learns nothing, to whom the release is not open, and who failed: one line each."""
    points = [(str(entry["name"]), points_of(entry)) for entry in attacks]
    if nothing := [name for name, found in points if found is not None and not found.learns]:
        yield f"learn nothing: {', '.join(nothing)}"
    if not_open := {entry["name"]: str(entry["not_applicable"]) for entry in attacks if entry.get("not_applicable")}:
        reason, count = Counter(not_open.values()).most_common(1)[0]
        how = "" if count == len(not_open) else "mostly: " if count > 1 else "for one: "
        yield f"not applicable: {', '.join(not_open)} ({how}{reason})"
    if failed := [f"{entry['name']} ({entry['failed']})" for entry in attacks if entry.get("failed")]:
        yield f"failed, which says nothing about privacy: {', '.join(failed)}"


RIGHT = {
    "auc": "of two people, one of whom is in the table, it says which; 50 of 100 without the release",
    "predicates": "descriptions that fit exactly one person of the table",
    "source_hits": "released rows whose source was found",
    "bounds_hold": "the share of a column's range that the interval leaves out, 0 where it misses the truth",
    "eligible": "people about whom something unlikely became believable, and is true",
    "median_distance": "people whose own released row was found",
    "median_doubt": "people whose own released row was found",
}
NOT_OF_VALUES = {"out_of", *RIGHT}
"""Figures that come with attacks whose success counts something else than values guessed right."""


def attackers_section(audit: Mapping[str, Any]) -> Section:
    """One bar an attacker, those who learn from the release first, then by what is right; reasons of those who did not
    run; then each with all figures."""
    attacks = list(audit.get("attacks") or ())
    ran = [(markup.verdict(entry), entry) for entry in attacks if entry.get("score") is not None]
    ran.sort(key=lambda pair: (markup.ORDER.index(pair[0]), -shown_points(pair[1]).right, pair[1]["name"]))
    reasons: dict[str, list[str]] = {}
    for entry in attacks:
        if entry.get("not_applicable"):
            reasons.setdefault(str(entry["not_applicable"]), []).append(str(entry["name"]))
    return drawn(
        "attacks",
        f"Every attacker ({len(ran)} of {len(attacks)} ran)" if attacks else "Every attacker",
        "" if attacks else "no attacker was run; this says nothing about privacy",
        told=[_told(entry, state, (audit.get("settings") or {}).get("tolerance")) for state, entry in ran],
        in_all=markup.in_all(state for state, _ in ran),
        legend=markup.legend(attacks),
        not_applicable=reasons,
        failed=[entry for entry in attacks if entry.get("failed")],
    )


def _told(entry: Mapping[str, Any], state: str, tolerance: float | None) -> Shown:
    details, assumes = dict(entry.get("details") or {}), entry.get("assumes") or ()
    alone, bound = details.pop("own_choice", None), ""
    if entry.get("upper_bound"):
        bound = "An upper bound: the best of several guesses was taken, which only the truth can tell."
        bound += "" if alone is None else f" Alone the attacker gets {markup.of_100(alone)}."
    changed = ", ".join(f"{name} = {value}" for name, value in (entry.get("parameters") or {}).items())
    chosen = str(entry.get("chosen") or "")
    return Shown(
        name=str(entry["name"]),
        story=" ".join(filter(None, [str(entry.get("story") or ""), f"Run with {changed}." if changed else ""])),
        knows=[markup.in_words(markup.KNOWLEDGE, item) for item in entry.get("knows") or ()],
        assumes=assumes,
        verdict=state,
        sign=markup.SIGNS[state],
        in_short=", ".join([markup.IN_SHORT[state], *(f"if {line}" for line in assumes)]),
        in_words=markup.IN_WORDS[state],
        measure=measure(details, tolerance),
        chart=markup.bar(entry, state),
        value=markup.of_100(shown_points(entry).right / 100),
        scores=_scores(entry, details.pop("worst_baseline", None)),
        upper_bound=bound,
        chosen=f"{chosen[:1].upper()}{chosen[1:]}." if chosen else "",
        details=markup.detail_rows(details),
        columns=sorted(entry.get("columns") or (), key=lambda column: -shown_points(column).extra),
    )


def measure(details: Mapping[str, Any], tolerance: float | None) -> str:
    """What is right; told by the figures that come with it, so that new attackers of a known kind are covered."""
    for name, words in RIGHT.items():
        if name in details:
            return f"Right: {words}."
    if "out_of" in details:
        many = int(details["out_of"])
        who = "pairs of people that it tells apart" if many == 2 else f"rows whose person it picks out of {many}"
        return f"Right: {who}; {markup.of_100(1 / many)} of 100 without the release."
    if tolerance is None:
        return "Right: private values that were guessed."
    near = f"numbers: to within {100 * tolerance:g}% of the column's range, or rounded to the right one"
    return f"Right: private values that were guessed ({near})."


def _scores(entry: Mapping[str, Any], worst_without: float | None) -> list[tuple[str, str, str]]:
    """Right of 100 and what it is to be read against; other people only where there are any."""
    points, of_100 = shown_points(entry), markup.of_100
    whole = [(points.without + end) / 100 for end in (points.low, points.high)]
    interval = "" if markup.ends(entry.get("interval")) is None else markup.between(whole, of_100)
    below = "" if worst_without is None else f"{of_100(worst_without)} without the release"
    control, worst = entry.get("control"), entry.get("worst")
    return [
        ("pairs told apart of 100" if points.pairs else "right of 100", of_100(points.right / 100), interval),
        ("without the release", of_100(points.without / 100), ""),
        *([] if control is None else [("about people not in the table", of_100(control), "")]),
        ("extra", f"{points.extra:+.1f}", ""),
        ("share of what was left", markup.figure(share_of_what_was_left(entry)), ""),
        *([] if worst is None else [("about the worst 1% of records", of_100(worst), below)]),
    ]


def share_of_what_was_left(entry: Mapping[str, Any]) -> float:
    """As Anonymeter has it: (right - reference) / (1 - reference), the reference being right without the release or
    about people not in the table, whichever is more; 0 where right is below it."""
    reference = max(float(entry.get("control") or 0.0), float(entry.get("baseline") or 0.0))
    return max(0.0, (float(entry["score"]) - reference) / (1 - reference)) if reference < 1 else 0.0


MOST_EXPOSED = 12


def exposed_section(audit: Mapping[str, Any]) -> Section:
    """For each column the attacker on values who gets most extra."""
    attacks = list(audit.get("attacks") or ())
    found = exposure(attacks, int((audit.get("settings") or {}).get("rows_used") or 0))
    why = "" if found.columns or found.spared else "no attacker on values ran"
    return drawn("exposed", "Which columns reveal most", why, exposed=found, legend=markup.legend(attacks))


def riskiest_section(audit: Mapping[str, Any]) -> Section:
    """Records of the original, by their row numbers: in the owner's page alone."""
    records, title = audit.get("riskiest") or (), "Riskiest records"
    if not is_private(audit):
        return Section("riskiest", title)
    why = "" if records else "the release adds nothing about any one record beyond chance"
    names = [str(name) for name in (audit.get("release") or {}).get("source_columns") or ()]
    return drawn("riskiest", f"{title} ({len(records)})" if records else title, why, riskiest=records, names=names)


def exposure(attacks: Sequence[Mapping[str, Any]], people: int) -> Shown:
    """The columns with most extra, each with the attacker who tells most about it, how many more there are, and those
    about which no attacker learns anything; `people` is how many were attacked, for the verdict.

    Of attacks whose success counts values guessed right, so that columns of different ones can be compared.
    """
    of_values = [one for one in attacks if not NOT_OF_VALUES & set(one.get("details") or ())]
    compared = [
        (shown_points(column).extra, str(one["name"]), column) for one in of_values for column in one["columns"]
    ]
    best: dict[str, tuple[float, str, Mapping[str, Any]]] = {}
    for one in sorted(compared, key=lambda one: -one[0]):  # of equal ones the first counts
        best.setdefault(str(one[2]["name"]), one)
    gained = [best[name] for name in sorted(best, key=lambda name: (-best[name][0], name)) if best[name][0] > 0]
    shown = []
    for _, attack, column in gained[:MOST_EXPOSED]:
        state = markup.column_verdict(column, people, len(compared))
        told = {"name": str(column["name"]), "attack": attack, "verdict": state, "sign": markup.SIGNS[state]}
        short = attack if state == markup.GAINS else f"{attack}, {markup.IN_SHORT[state]}"
        value = markup.of_100(column["score"])
        shown.append(Shown(**told, in_short=short, chart=markup.bar(column, state), value=value))
    spared = sorted(name for name, one in best.items() if one[0] <= 0)
    return Shown(columns=shown, left_out=max(0, len(gained) - MOST_EXPOSED), spared=spared)


LEVELS = (
    ("component", "One released number", "what a single cell of the release reveals"),
    ("column", "One column of a person", "what a whole released row reveals about one original value"),
    ("record", "A person's whole record", "everything in the row at once"),
    ("person", "A person, with all their rows", "rows of the same person add up"),
)
ALL_RELEASES = "the headline: what an attacker who sees every release of these rows can learn"
HEADLINES = {
    "formal": "Proved: a bound holds for everybody",
    "weak": "Formally bounded, practically unprotected",
    "repeated": "Proved for this release alone: no bound holds for all releases of these rows together",
    "conditional": "Not proved: a bound would hold only if more had been public",
    "none": "Not proved: there is no bound at all",
    "unstated": "Nothing is stated about this release",
}
NO_CARD = (
    "The release came without a card, so nothing is known about how it was made, and nothing is proved about it. "
    "All that can be said is how well these attacks did."
)
MOST_LINES = 500


def guarantee_section(audit: Mapping[str, Any]) -> Section:
    """What is proved, for whom, and on what that rests."""
    release = audit.get("release") or {}
    found = shown_guarantee(audit.get("guarantee"), release.get("earlier_releases"))
    return drawn("guarantee", "What is proved", guarantee=found, owners_word=release.get("owners_word") or [])


def shown_guarantee(guarantee: Mapping[str, Any] | None, earlier: Mapping[str, Any] | None = None) -> Shown:
    """The figures of a card, and how often its rows were released before."""
    if guarantee is None:
        state, told = "unstated", {"words": NO_CARD, "kind": "none stated", "unprotected": False, "releases": 1}
        lists = dict.fromkeys(("levels", "beliefs", "in_the_way", "everything_in_the_way", "assumptions"), ())
        return Shown(state=state, headline=HEADLINES[state], conditional=False, **told, **lists)
    together = AllReleases.from_dict(guarantee, earlier or {})
    alone, but, state = together.alone, but_for(together.promised.delta), _state(together)
    reasons, in_the_way = _own(alone.in_the_way), _own(summarized(alone.in_the_way))
    return Shown(
        state=state,
        headline=HEADLINES[state],
        conditional=state == "conditional",
        words=together.in_words(),
        kind=alone.kind,
        unprotected=together.unprotected or alone.unprotected,
        releases=together.count,
        levels=_levels(together),
        beliefs=[
            (BELIEFS[prior][0], percent_up(most) + but, percent_down(least) + but)
            for prior, most, least in together.beliefs()
        ],
        in_the_way=in_the_way,
        everything_in_the_way=reasons if in_the_way != reasons else [],
        assumptions=_own(alone.assumptions),
    )


def _state(together: AllReleases) -> str:
    if together.bounded:
        return "weak" if together.unprotected else "formal"
    if together.alone.kind in (LOCAL_DP, CENTRAL_DP):
        return "repeated"
    return "conditional" if together.alone.record < float("inf") else "none"


def _levels(together: AllReleases) -> list[tuple[str, str, str, str, bool]]:
    """Title, epsilon, amplification, meaning, and whether it is the main one."""
    alone, several, promised = together.alone, together.earlier > 0, together.promised
    levels: list[tuple[str, str, str, str, bool]] = []
    if alone.central is not None:
        told = [
            ("That a record is in the table", alone.central, "presence", not several),
            ("What values a record has", alone.central.value, "one record goes and another comes", False),
        ]
        if alone.central_person is not None and alone.rows_per_person != 1:
            person, rows, meaning = alone.central_person, "with all their rows", "records that go together"
            told.append((f"A person's presence, {rows}", person, meaning, False))
            told.append((f"A person's values, {rows}", person.value, meaning, False))
        if several and together.hides_presence and together.central is not None:
            told.insert(0, ("All releases of this kind together", together.central, "presence", False))
        for title, one, meaning, head in told:
            words = one.words().removeprefix("epsilon ")
            levels.append((title, words, amplification_at_most(one.epsilon), meaning, head))
    elif alone.record < float("inf"):
        for level, title, meaning in LEVELS:
            epsilon, head = getattr(alone, level), level == "record" and not several
            levels.append((title, epsilon_at_most(epsilon), amplification_at_most(epsilon), meaning, head))
    if levels and several:  # one figure for a person's values, over all releases
        delta = f", delta {promised.delta:g}" if promised.bounded and promised.delta else ""
        epsilon, factor = epsilon_at_most(promised.epsilon) + delta, amplification_at_most(promised.epsilon)
        levels.insert(0, (f"All {together.count:,} releases together", epsilon, factor, ALL_RELEASES, True))
    return levels


def _own(lines: Sequence[str]) -> list[str]:
    return [own_words(str(line)) for line in lines[:MOST_LINES]]


BEYOND, WITHIN = "more than chance", "no more than chance"
AGAINST_PEOPLE = (
    ("marginals", "Columns", "mean distance of the distributions (KS of numbers, total variation of categories)"),
    ("pairs", "Pairs", "mean total variation of two columns together, numbers cut at deciles"),
    ("correlations", "Correlations", "mean change of the association of two columns"),
)
DISTANCES = (
    ("dcr", "Distance to the closest record", "a whole range, or another category, is 1"),
    ("nndr", "Closest over second closest", "near 0: one record stands out as the row's source"),
)


def _line(
    name: str,
    words: str,
    release: float | str | None,
    against: float | str | None,
    interval: Sequence[float] | None = None,
    chance: float | None = None,
) -> Shown:
    """One figure of the release, its interval, and what it is read against; with a verdict where `chance` is told."""
    verdict = "" if chance is None or not interval else BEYOND if interval[0] > chance else WITHIN
    release, against = (one if isinstance(one, str) else markup.figure(one) for one in (release, against))
    return Shown(
        name=name,
        words=words,
        release=release,
        interval=markup.between(interval),
        against=against,
        verdict=verdict,
    )


def copied_rows(found: Mapping[str, Any] | None) -> str:
    """What an audit leads with where rows were copied: how many, in a sentence; nothing where chance explains it."""
    exact = (found or {}).get("exact")
    if not exact or not exact["share"] or exact["interval"][0] <= (exact.get("control") or 0.0):
        return ""
    count = f"{round(exact['share'] * exact['rows']):,} of {exact['rows']:,} released rows"
    if exact.get("control") is None:
        return f"{count} are copies of a record in the table; how many by chance is unknown."
    return f"{count} are copies of a record in the table; of people not in the table, {exact['control']:.1%} have one."


def copies_section(audit: Mapping[str, Any]) -> Section:
    """Rows that are a person's record, or lie too near to one."""
    found = audit.get("copies") or {}
    lines = []
    if exact := found.get("exact"):
        control = exact.get("control")
        alone = markup.figure(exact["of_unique"])
        words = f"of {exact['rows']:,} released rows; {alone} copy a record that no other person has"
        lines.append(_line("Exact copies", words, exact["share"], control, exact["interval"], control))
    if near := found.get("near"):
        of = "people not in the table" if near["against"] == "holdout" else "the other people of the table"
        words = f"nearer to a record than 5% of {of}; {near['rows']:,} rows among {near['reference']:,} records"
        expected = near["expected"]
        lines.append(_line("Near copies", words, near["share"], expected, near["interval"], expected))
        if near.get("nearer") is not None:
            words = "released rows that lie nearer to a record than to one of as many people not in the table"
            most = near.get("nearer_at_most")
            if most is not None and most < 1:
                whole = markup.figure(most)
                words += f"; a copy of the whole table would show about {whole}, as there are more people in it"
            lines.append(_line("Nearer to the table", words, near["nearer"], 0.5, near["nearer_interval"], 0.5))
        for name, title, words in DISTANCES:
            for part, which in (("median", "median"), ("p05", "5% quantile")):
                sides = (near[name][side][part] for side in ("release", "control"))
                lines.append(_line(f"{title}, {which}", words, *sides))
    return drawn("copies", "Copies", "" if lines else found.get("not_applicable") or "not compared", lines=lines)


def crowds_section(audit: Mapping[str, Any]) -> Section:
    """k-anonymity and the like: lines, and one row for each sensitive column."""
    found = audit.get("uniqueness") or {}
    release, original = found.get("release") or {}, found.get("original") or {}
    why = "" if release else found.get("not_applicable") or "no quasi-identifier was named"
    lines = []
    if release:
        words = "rows of the smallest crowd of people who are alike"
        now, was, share = release["below"], original.get("below") or {}, "share of rows"
        lines.append(_line("k-anonymity", words, str(release["k"]), str(original.get("k", markup.DASH))))
        lines.append(_line("Alone", share, release["unique"], original.get("unique")))
        lines += [_line(f"Crowd below {size}", share, now[size], was.get(size)) for size in ("5", "10")]
        words = "people of the original who are alone there and, with the same cells, in the release"
        lines.append(_line("Still alone", words, found.get("still_unique"), None))
    for name, title in (("pitman", "Pitman's formula"), ("log_linear", "log-linear model")):
        if told := release.get(name):  # alone among all people that the table is a sample of
            words = f"share of those alone who are alone among {found['population']:,} people, estimated by {title}"
            if name == "log_linear":
                words += f" ({told['model']}); linking one of them hits with {markup.figure(told['hits'])}"
            was = (original.get(name) or {}).get("uniques")
            lines.append(_line("Alone in the population", words, told["uniques"], was))
    return drawn(
        "uniqueness",
        "Who stands out",
        why,
        names=", ".join(found.get("quasi_identifiers", ())),
        lines=lines,
        sensitive=release.get("sensitive", ()),
        before={one["name"]: one["t"] for one in original.get("sensitive", ())} if original else None,
    )


def fidelity_section(audit: Mapping[str, Any]) -> Section:
    """How far release and original are from people who are in neither: lines, columns, and what learners reach."""
    found = audit.get("fidelity") or {}
    figures = [(title, words, found.get(name) or {}) for name, title, words in AGAINST_PEOPLE]
    lines = [
        _line(title, words, one["release"], one.get("original"))
        for title, words, one in figures
        if one.get("release") is not None
    ]
    told = found.get("discriminator") or {}
    if auc := told.get("release"):
        words = "AUC of a learner that tells these rows from real ones; 0.5: it cannot, 1: always"
        was = (told.get("original") or {}).get("auc")
        lines.append(_line("Discriminator", words, auc["auc"], was, auc["interval"]))
    why = found.get("not_applicable") or ("" if found else "not compared")
    return drawn("fidelity", "Like real people", why, lines=lines, fidelity=found)
