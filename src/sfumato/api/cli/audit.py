"""audit: attack a release before anybody else does; audit find-person: let attackers look for one person in it."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from shutil import get_terminal_size
from typing import Annotated, Any

from sfumato.api.cli.blocks import keywords
from sfumato.api.cli.console import Console, Force, argument
from sfumato.api.cli.tables import Tables
from sfumato.auditing.asked import WHAT, AuditAsked
from sfumato.core.asked import RARE, REQUIRED, asked, optional
from sfumato.core.errors import OutputError, UsageError
from sfumato.core.files import check_free
from sfumato.core.wording import NO_BETTER, WORSE, counted

HEAD = f"{'attacker':<25}{'right of 100':>12}{'without':>9}{'not in table':>14}{'extra':>8}"


def audit_lines(found: Mapping[str, Any], width: int) -> Iterator[str]:
    """The worst news first, attackers, classifiers, the papers' measures, copies and likeness."""
    for lines in (lead_lines, attack_lines, utility_lines, measure_lines, copy_lines, crowd_lines, fidelity_lines):
        for line in lines(found):
            yield from wrapped(line, width)


def wrapped(line: str, width: int) -> list[str]:
    """A line that is too long goes on below, indented."""
    return textwrap.wrap(line, width, subsequent_indent="  ", break_on_hyphens=False, drop_whitespace=True) or [""]


def lead_lines(found: Mapping[str, Any]) -> Iterator[str]:
    """Rows that were copied, and on which rows figures rest."""
    from sfumato.auditing.report.evidence import copied_rows, rows_scored

    if copied := copied_rows(found.get("copies")):
        yield copied
    for rows in [line for entry in found["attacks"] for line in rows_scored(entry)][:1]:
        yield f"Attackers on values and links are scored {rows}; the other rows are made up."


def attack_lines(found: Mapping[str, Any]) -> Iterator[str]:
    """One line for each attacker with extra, the most first; the others share lines."""
    from sfumato.auditing.extra import shown_points
    from sfumato.auditing.report.bottom_line import in_digits
    from sfumato.auditing.report.evidence import other_lines

    ran = [(shown_points(entry), entry) for entry in found["attacks"] if entry.get("score") is not None]
    told = [pair for pair in ran if pair[0].learns or pair[1].get("upper_bound")]
    if told:
        yield HEAD
    for points, entry in sorted(told, key=lambda pair: -pair[0].extra):
        right, without, extra = in_digits(points)
        more = extra if extra.startswith("+") else f"{points.extra:+.0f}"
        others = "-" if entry.get("control") is None else f"{100 * entry['control']:.0f}"
        words = [*(["within chance"] if extra == "within chance" else []), *remarks(entry, pairs=points.pairs)]
        yield f"{entry['name']:<25}{right:>12}{without:>9}{others:>14}{more:>8}"
        if words:
            yield f"  {'; '.join(words)}"
    yield from other_lines(found["attacks"])


def remarks(entry: Mapping[str, Any], *, pairs: bool) -> Iterator[str]:
    """What the figures of one attacker rest on."""
    if pairs:
        yield "of pairs"
    if entry.get("upper_bound"):
        yield "an upper bound: the truth chose among several guesses"
    if changed := ", ".join(f"{one}={value}" for one, value in (entry.get("parameters") or {}).items()):
        yield f"with {changed}"
    yield from (f"if {line}" for line in entry.get("assumes") or ())
    if entry.get("chosen"):
        yield entry["chosen"]


def utility_lines(found: Mapping[str, Any]) -> Iterator[str]:
    """One line a classifier: right of 100, learned from the release and from the original."""
    from sfumato.auditing.report.bottom_line import asked_about

    if found["utility"]:
        yield f"learned, and tested on {asked_about(found['utility'][0])}:"
        yield f"{'classifier':<25}{'right of 100':>12}{'original':>10}{'lost':>7}{'commonest class':>17}"
    for row in found["utility"]:
        shares = [row.get(name) for name in ("release", "original", "commonest", "phi")]
        right, original, common, lost = ("-" if share is None else f"{100 * share:.1f}" for share in shares)
        than = row.get("than_commonest")
        yield f"{row['classifier']:<25}{right:>12}{original:>10}{lost:>7}{common:>17}"
        if than in (NO_BETTER, WORSE):
            yield f"  {than} than the commonest class"


def measure_lines(found: Mapping[str, Any]) -> Iterator[str]:
    """The papers' measures, one line each; none of them is a guarantee."""
    measures = found["measures"]
    if average := measures["average_privacy"]:
        mean = average.get("width_of_mean")
        beside = "" if mean is None else f", {mean:.3f} by the mean alone"
        yield f"average privacy {average['width']:.3f} ({average['attack']}{beside}; wider is better for privacy)"
    losses = [one["privacy_loss"] for one in measures["channels"] if one["privacy_loss"] is not None]
    if losses:
        most, mean = max(losses), sum(losses) / len(losses)
        yield f"privacy loss {mean:.3f} on average, {most:.3f} at most (lower is better for privacy)"
    if unified := measures["unified"]:
        least, attack = unified["sigma_min"], unified["sigma_min_attack"]
        yield f"lowest sigma over all attackers {least:.3f} ({attack}; larger is better for privacy)"
    if gap := measures["density_gap"]:
        yield (
            f"Gap of two density estimates {gap['loss']:.3f} (the release's, and one from {gap['held_apart']:,} rows "
            "held apart; it says nothing about privacy)"
        )


def copy_lines(found: Mapping[str, Any]) -> Iterator[str]:
    copies = found.get("copies") or {}
    if exact := copies.get("exact"):
        control = "" if exact["control"] is None else f", {exact['control']:.1%} of people not in the table"
        yield f"exact copies {exact['share']:.1%} of the release{control} (lower is better for privacy)"
    if near := copies.get("near"):
        beside = "people not in the table" if near["against"] == "holdout" else "other people of the table"
        yield (
            f"near copies {near['share']:.1%}, {near['expected']:.1%} of {beside}; "
            "median distance to the closest record "
            f"{near['dcr']['release']['median']:.3f}, {near['dcr']['control']['median']:.3f}"
        )


def crowd_lines(found: Mapping[str, Any]) -> Iterator[str]:
    """Who is alone among the rows."""
    if release := (found.get("uniqueness") or {}).get("release"):
        yield f"k-anonymity k = {release['k']}; {release['unique']:.1%} of the released rows are alone"
        for one in release["sensitive"][:3]:
            diverse = f"l = {one['distinct']} distinct, {one['entropy']:.2f} by entropy"
            yield f"  {one['name']}: {diverse}; t = {one['t']:.3f}"
        for name in ("pitman", "log_linear"):
            if release[name]:
                words = name.replace("_", "-")
                yield f"  of these {release[name]['uniques']:.1%} are alone in the population ({words} estimate)"


def fidelity_lines(found: Mapping[str, Any]) -> Iterator[str]:
    """How like real rows the release is."""
    fidelity = found.get("fidelity") or {}
    if "marginals" not in fidelity:
        return
    parts = []
    for name, words in (("marginals", "columns"), ("pairs", "pairs"), ("correlations", "correlations")):
        figures = fidelity[name]
        if figures["release"] is not None:
            was = "" if figures.get("original") is None else f" ({figures['original']:.3f} for the original)"
            parts.append(f"{words} {figures['release']:.3f}{was}")
    against = "people not in the table" if fidelity["against"] == "holdout" else "the original"
    yield f"distance from {against}: {', '.join(parts)} (lower is better for use)"
    if told := (fidelity.get("discriminator") or {}).get("release"):
        yield f"a learner tells released from real rows with AUC {told['auc']:.3f} (0.5: it cannot)"


TOGETHER = ("Two releases, attacked together", "Differencing", "Everybody audited is in both")
"""How the notes begin that --with adds."""


@dataclass(frozen=True)
class OfAnyTool:
    """A release without a card."""

    release: str | None = WHAT.optional("A release made by any tool, instead of DIR.", metavar="TABLE")
    release_encoding: str | None = RARE.optional(
        "Encoding of the release, where it is not that of the others.", metavar="NAME"
    )


def audit(
    tables: Tables,
    theirs: OfAnyTool,
    options: AuditAsked,
    console: Console,
    folder: Annotated[Path | None, argument("[DIR]", "Folder that `sfumato sanitize` wrote.")] = None,
    force: Force = False,
) -> None:
    """Try attackers on a release, and write what they find out: audit.json, audit.parquet and report.html.

    Examples:
      sfumato audit release --original patients.csv --holdout others.csv
      sfumato audit release --original patients.csv --public
      sfumato audit release --original patients.csv --param posterior-breach.rho1=0.05
      sfumato audit january --with february --with-original february.csv --original january.csv
      sfumato audit --release synthetic.csv --original patients.csv --out their-audit
      sfumato audit --release theirs.csv --original patients.csv --quasi-identifiers age,sex,zip --out their-audit
      sfumato audit --release theirs.csv --original patients.csv --match patient_id --columns age=AGE --out their-audit
    """
    from sfumato.auditing.audit import audit as run
    from sfumato.auditing.report.bottom_line import bottom_line

    if (folder is None) == (theirs.release is None):
        raise UsageError("Give the folder of a release, or --release TABLE for a release of another tool.")
    place = _place(folder, options)
    page = place / "report.html"
    if options.out is not None:
        check_free(page, force=force)
    with console.listening() as progress:
        released = folder or tables.open_if_given(theirs.release, encoding=theirs.release_encoding)
        found = run(released, **{**keywords(options, tables), "out": place, "progress": progress})
        found.save_report(page)
    width = min(get_terminal_size().columns, 100)
    console.say_each([*bottom_line(found.data, str(place), width=width), "", *audit_lines(found.data, width)])
    for note in found.notes:
        if ("clusters" in note and options.clusters) or (options.beside is not None and note.startswith(TOGETHER)):
            console.say_each(wrapped(note, width))
    if options.public and not options.with_audit:
        console.say("Nothing that was measured on private rows is in it; --with-audit puts it in.")
    console.say(f"Report{'' if options.public else ' (private)'}: {page}")
    console.result({"folder": str(place), "report": str(page), **found.data})


def find_person(
    release: Annotated[str, argument("RELEASE", "Folder that `sfumato sanitize` wrote, or a table of any tool.")],
    tables: Tables,
    console: Console,
    original: str = asked(REQUIRED, "The private table.", metavar="TABLE"),
    holdout: str | None = optional("Similar people who are not in the table.", metavar="TABLE"),
    label: str | None = optional("The column to predict, for a release without a card."),
) -> None:
    """Let attackers look for one person, whose values are read from standard input as JSON. Nothing is written.

    The values are no option, since lists of processes show options. The person need not be in the table.

    Example:
      sfumato audit find-person release --original patients.csv --holdout others.csv < person.json
    """
    from sfumato.auditing.find_person import QUESTIONS
    from sfumato.auditing.find_person import find_person as run

    person = tables.piped_object('what is known of the person, for example {"age": 44, "ward": "b"}')
    with console.listening() as progress:
        given = {"original": tables.open(original), "holdout": tables.open_if_given(holdout), "label": label}
        found = run(tables.open_or_folder(release), person, **given, progress=progress)
    console.tell(found.proof)
    console.say(f"{counted(found.fits, 'person')} in the table with these values")
    for one in found.found:
        console.tell(f"{QUESTIONS[one.question]} {one.in_words()}")
    for note in found.notes:
        console.tell(note)
    console.result(found.to_dict())


def _place(folder: Path | None, options: AuditAsked) -> Path:
    """The folder to write into: the release's own, its `public`, or the one that was named."""
    own = folder / "public" if folder is not None and options.public else folder
    if options.out is None and own is None:
        raise UsageError("With --release, say where to write the audit: --out DIR.")
    place = Path(options.out or own or "")
    if options.out is None and folder is not None and folder.is_file():
        raise UsageError(
            f"{folder} is a file, and a release of ours is a folder. Of another tool's: --release {folder} --out DIR."
        )
    if place.exists() and not place.is_dir():
        raise OutputError(f"{place} is a file, but a folder must be written there. Choose another --out.")
    return place
