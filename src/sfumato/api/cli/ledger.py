"""ledger: what was released of whom, a budget, how long people are remembered."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sfumato.api.cli.console import Console, Force, LedgerPath, Yes, argument
from sfumato.api.cli.tables import AtCoordinator
from sfumato.core.asked import REQUIRED, asked, optional, switch
from sfumato.core.errors import UsageError
from sfumato.core.wording import counted

if TYPE_CHECKING:
    from sfumato.ledger.asked import Noted

app = typer.Typer(no_args_is_help=True, help="The private ledger: what was released of whom, and how much is left.")


@app.command()
def show(
    console: Console,
    ledger: LedgerPath = None,
    people: bool = switch("Also what all releases come to for the people in each."),
) -> None:
    """List the releases that were made, oldest first. For their owner alone.

    Examples:
      sfumato ledger show
      sfumato ledger show --people --ledger /srv/team/ledger.json
    """
    from sfumato.ledger.asked import show_ledger

    shown = show_ledger(ledger, people=people)
    console.say(f"{shown.path}: {counted(len(shown.releases), 'release')}.")
    for one in shown.releases:
        console.say(_line(one))
    limit = "no budget" if shown.budget is None else f"budget {shown.budget.words()}"
    kept = "for good" if shown.keep_days is None else f"for {shown.keep_days:,} days"
    console.say(f"Settings: {limit}. Fingerprints of people are kept {kept} ({shown.bytes / 1e6:,.1f} MB).")
    console.result({"ledger": str(shown.path), **shown.to_dict()})


@app.command()
def budget(
    console: Console,
    epsilon: float | None = optional("What all releases may come to for anybody; beyond it none is made."),
    delta: float | None = optional("Largest delta of made-up rows."),
    none: bool = switch("Remove the budget."),
    ledger: LedgerPath = None,
) -> None:
    """Set a budget that `sfumato sanitize` keeps: a release that would exceed it is refused with exit code 10.

    Without an option, says which budget there is.

    Examples:
      sfumato ledger budget --epsilon 8
      sfumato ledger budget --none
    """
    from sfumato.ledger.asked import ledger_budget, show_ledger

    if none and (epsilon, delta) != (None, None):
        raise UsageError("--none removes the budget. Leave out --epsilon and --delta, or leave out --none.")
    if delta is not None and epsilon is None:
        raise UsageError("--delta belongs to a budget. Add --epsilon.")
    if none or epsilon is not None:
        found = ledger_budget(epsilon, delta=delta, ledger=ledger)
    else:
        found = show_ledger(ledger).budget
    console.say("There is no budget." if found is None else f"Budget: {found.words()} for anybody, over all releases.")
    console.result({"budget": None if found is None else found.to_dict()})


@app.command()
def keep(
    console: Console,
    days: int | None = optional("Days that fingerprints of people are kept.", metavar="N"),
    always: bool = switch("Keep them for good, as is usual."),
    ledger: LedgerPath = None,
) -> None:
    """Choose how long fingerprints of people are kept. Older ones are deleted now, and with every release.

    What is deleted can no longer be added up: a release older than that counts only if the whole table comes again.

    Example: sfumato ledger keep --days 730
    """
    from sfumato.ledger.asked import ledger_keep

    if (days is None) != always:
        raise UsageError("Say for how long: --days N, or --always.")
    ledger_keep(days, ledger=ledger)
    console.say("Fingerprints of people are kept for good." if days is None else f"They are kept for {days:,} days.")
    console.result({"keep_days": days})


@app.command()
def export(
    console: Console,
    out: Path = asked(REQUIRED, "JSON file to write, readable by its owner only.", metavar="FILE"),
    ledger: LedgerPath = None,
    force: Force = False,
) -> None:
    """Write what was released as JSON: no key, no fingerprint, nothing that was made from rows.

    Example: sfumato ledger export --out releases.json
    """
    from sfumato.ledger.asked import export_ledger

    shown = export_ledger(out, ledger=ledger, force=force)
    console.say(f"Wrote {out}: {counted(len(shown.releases), 'release')}.")
    console.result({"file": str(out), "releases": len(shown.releases)})


@app.command()
def publish(
    folder: Annotated[Path, argument("DIR", "Folder that `sfumato sanitize` wrote; or a commitment to noise (.json).")],
    at: AtCoordinator,
    console: Console,
    population: str | None = optional(
        "Who these people are, in the same words for each of their releases.", metavar="NAME"
    ),
    ledger: LedgerPath = None,
) -> None:
    """Commit to a release in a coordinator's public log: its guarantee, and of whom it is, signed with your key.

    Whoever checks a release of these people (`sfumato verify --log`) sees what all logged ones come to. No row is
    logged, and no total of the ledger. An entry stays for good. The receipt is kept as DIR/logged.json.

    A commitment of `sanitize --auditable` is logged before there is a release; the log's answer to it is printed.

    Examples:
      sfumato ledger publish january --population "patients of North" --to https://study.example
      sfumato ledger publish january.commitment.json --to https://study.example
    """
    import json

    from sfumato.core.files import write_whole
    from sfumato.guarantee.signer import Signer, signer_beside
    from sfumato.ledger.ledger import default_ledger
    from sfumato.ledger.public_log import Commitment

    if folder.is_file():
        _publish_noise(folder, at, console)
        return
    if population is None:
        raise UsageError("Say who these people are: --population NAME.")
    commitment, signer = Commitment.of(folder, population), Signer.at(signer_beside(ledger or default_ledger()))
    with at.connected(console) as connected:
        receipt = connected.commit(commitment.signed(signer))
    kept = folder / "logged.json"
    write_whole(kept, json.dumps({"server": at.to, "receipt": receipt.to_dict()}, indent=1))
    person = commitment.person.words() if commitment.person.bounded else commitment.record.words()
    console.say(
        f"Entry {receipt.check():,} of the log at {at.to}: {commitment.population!r}, {person}. Receipt: {kept}"
    )
    console.result({"commitment": commitment.to_dict(), "signed_by": signer.fingerprint, "receipt": receipt.to_dict()})


def _publish_noise(file: Path, at: AtCoordinator, console: Console) -> None:
    """Log a commitment before there is a release, and print the log's answer."""
    from sfumato.release.auditable import NoiseCommitment, spoken

    noise = NoiseCommitment.load(file)
    with at.connected(console) as connected:
        logged, given = connected.commit_noise(noise)
    answer = spoken(noise.commitment, given)
    console.recite(answer)
    console.say(f"Entry {logged.check():,} of the log at {at.to}. Release with --answer and this value.")
    console.result({"answer": answer, "receipt": logged.to_dict()})


@app.command()
def forget(
    folder: Annotated[Path, argument("DIR", "Release that was made with --only-new.")],
    console: Console,
    ledger: LedgerPath = None,
    yes: Yes = False,
) -> None:
    """Tell the ledger that a release never left this machine, so that its rows count as new again.

    For a release that was made by mistake and deleted unseen. One that was pushed cannot be forgotten, and one that
    anybody else has seen must not be.

    Example: sfumato ledger forget january
    """
    from sfumato.release.only_new import ledger_forget

    if not yes:
        console.confirm(
            f"Are you sure that you alone have seen, and will see, the release in {folder}?",
            unasked="A release that others have seen must not be forgotten. If you alone have seen it, add --yes.",
            kept="nothing was changed",
        )
    rows = ledger_forget(folder, ledger=ledger)
    console.say(f"Forgotten: {rows:,} rows or people are new again. Delete {folder} now.")
    console.result({"folder": str(folder), "rows": rows})


def _line(one: Noted) -> str:
    from sfumato.guarantee.rounding import epsilon_at_most, rounded_up

    delta = f", delta {one.delta:g}" if one.delta else ""
    about = "" if one.people is None else f", {one.people:,} people or different rows"
    epsilon = epsilon_at_most(one.epsilon, none="unbounded")
    line = f"{one.number:>4}  {one.when}  {one.mechanism}: {one.kind}, epsilon {epsilon}{delta}{about}"
    if one.cohort is not None:
        line += f", cohort {one.cohort!r}"
    if one.table is not None:
        line += f"\n      All releases of made-up rows: {one.table.words()} for presence."
    if one.totals is not None:
        times, proved, unproved = one.totals.releases, one.totals.epsilon, one.totals.unproved
        who = "person" if one.totals.by == "person" else "row"
        line += (
            f"\n      Over all releases, by {who}: at worst {times.worst:.0f} with epsilon {rounded_up(proved.worst)} "
            f"proved and {unproved.worst:.0f} unproved; median {times.median:.0f} with epsilon "
            f"{rounded_up(proved.median)} and {unproved.median:.0f}."
        )
    if one.values is not None:
        line += f"\n      All releases, for a person's values with all of their rows: {one.values.words()}."
    return line
