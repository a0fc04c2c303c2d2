"""ledger: what was released of whom, a budget, how long people are remembered; signer: the owner's key; verify: whether
a release is consistent, and whose; auditor: the key of who recomputes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sfumato.api.cli.blocks import keywords
from sfumato.api.cli.console import Console, Force, LedgerPath, Yes, argument, option
from sfumato.api.cli.tables import AtCoordinator
from sfumato.core.asked import REQUIRED, asked, optional, switch
from sfumato.core.errors import CardError, SfumatoError, UsageError
from sfumato.core.files import check_free, write_whole
from sfumato.core.wording import counted
from sfumato.release.asked import VerifyAsked

if TYPE_CHECKING:
    from sfumato.guarantee.signer import Signer
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
    from sfumato.guarantee.signer import Signer
    from sfumato.ledger.public_log import Commitment

    if folder.is_file():
        _publish_noise(folder, at, console)
        return
    if population is None:
        raise UsageError("Say who these people are: --population NAME.")
    commitment, signer = Commitment.of(folder, population), Signer.at(_path(ledger))
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


# Keys: what signs releases, what is checked of one, and who may recompute its noise.

signers = typer.Typer(no_args_is_help=True, help="The key that signs your releases: show its fingerprint, replace it.")
Out = Annotated[Path | None, option("File for what your keys say of each other, to be handed on.", metavar="FILE")]


@signers.command("show")
def show_key(console: Console, ledger: LedgerPath = None, out: Out = None, force: Force = False) -> None:
    """Show the fingerprint of your key, which others give to `sfumato verify --from`. A key that is missing is made.

    The key lies beside the ledger, and only you can read it. Tell its fingerprint by telephone or on paper: what
    travels with a release can be exchanged with it.

    Examples:
      sfumato signer show
      sfumato signer show --json
    """
    from sfumato.guarantee.signer import Signer

    check_free(out, force=force)
    _tell(Signer.at(_path(ledger)), console, out)


@signers.command()
def rotate(console: Console, ledger: LedgerPath = None, out: Out = None, force: Force = False) -> None:
    """Replace your key by a new one, which the old one signs before it is erased.

    Whoever knows the old fingerprint accepts what the new key signs: every release carries the statement as
    signer.json. Releases of the old key stay valid. A key that others may have had is no such case: revoke it.

    Example: sfumato signer rotate
    """
    check_free(out, force=force)
    new = _known(ledger).rotated()
    console.say("The key was replaced.")
    _tell(new, console, out)


@signers.command()
def revoke(
    console: Console,
    out: Path = asked(REQUIRED, "File for the statement, to be handed on.", metavar="FILE"),
    fingerprint: Annotated[
        str | None, argument("[FINGERPRINT]", "Of a key that was replaced; else the present one.")
    ] = None,
    ledger: LedgerPath = None,
    force: Force = False,
) -> None:
    """Say that nothing a key signed counts any more, since others may have had it; if it is your present key, a new
    one is made.

    The statement reaches readers with your later releases, and only if you hand it to them: send FILE to whoever has a
    release (`sfumato verify --statements FILE`). They need your new fingerprint as well, since a key that was stolen
    could name any other as the next. A key that is lost cannot be revoked.

    Example: sfumato signer revoke --out revoked.json
    """
    from sfumato.guarantee.signer import from_words, statements_text

    check_free(out, force=force)
    old = _known(ledger)
    said = old.revocation(old.fingerprint if fingerprint is None else from_words(fingerprint))
    write_whole(out, statements_text([said]))  # first: it could not be made again
    console.say(f"The key was revoked. Hand {out} to everyone who has a release that it signed.")
    _tell(old.without(said), console, None)


def _path(ledger: Path | None) -> Path:
    from sfumato.guarantee.signer import signer_beside
    from sfumato.ledger.ledger import default_ledger

    return signer_beside(ledger or default_ledger())


def _known(ledger: Path | None) -> Signer:
    from sfumato.guarantee.signer import Signer

    if (found := Signer.known(_path(ledger))) is None:
        raise UsageError(f"There is no signing key {_path(ledger)} yet, so there is nothing to replace or revoke.")
    return found


def _tell(signer: Signer, console: Console, out: Path | None) -> None:
    from sfumato.guarantee.signer import statements_text

    console.say(f"Your fingerprint: {signer.fingerprint}")
    console.say(f"For ssh-keygen: {signer.public.in_ssh()}")
    if out is not None:
        write_whole(out, statements_text(signer.stated))
        console.say(f"Wrote {out}.")
    public, key = signer.public.in_ssh(), str(signer.path)
    console.result({"fingerprint": signer.fingerprint, "public": public, "key": key, "stated": len(signer.stated)})


def verify(
    release: Annotated[Path, argument("RELEASE", "Folder of a release.")],
    console: Console,
    options: VerifyAsked,
    page: Path | None = optional("Write what was found as one page, too.", metavar="FILE"),
    force: bool = switch("Replace what is at --page."),
) -> None:
    """Check a release that you received: signature, guarantee, files and rows against its card.

    It needs neither the table nor a ledger nor a key, and writes nothing but --page. Consistent means that nothing
    contradicts the card; what cannot be checked from outside is listed. Owners show the fingerprint of their key,
    replace it or revoke it with sfumato signer. An auditor who has the table and the seed of a release can recompute
    its noise; such keys are made with sfumato auditor.

    Exit codes: 0 consistent, 6 not consistent, 2 no such release or a wrong option.

    Examples:
      sfumato verify release
      sfumato verify release --from acorn-river-...
      sfumato verify release --page check.html
      sfumato verify release --json
      sfumato verify release --log https://study.example
      sfumato verify release --with-seed release.seed.age --auditor-key auditor.key --table patients.csv
    """
    from sfumato.api.verify import verify as run

    try:
        check_free(page, force=force)
        found = run(release, **keywords(options))
        if page is not None:
            write_whole(page, found.to_html())
    except (SfumatoError, OSError) as error:
        console.result(
            {"release": str(release), "ok": False, "signed_by": None, "cannot_check": [], "error": str(error)}
        )
        raise
    console.recite(found.in_words())
    console.result(found.to_dict())
    if not found.ok:
        if console.quiet or console.as_json:
            raise CardError(found.headline)
        raise typer.Exit(CardError.exit_code)


auditors = typer.Typer(no_args_is_help=True, help="Recompute the noise of a release: the auditor's key and answers.")


@auditors.command()
def key(file: Annotated[Path, argument("FILE", "File to write, for you alone.")], console: Console) -> None:
    """Make a key that owners can seal their seeds to; the public half is FILE.pub, to be sent to them.

    It is a key of age: `age-keygen` makes such keys too, and `age --decrypt` opens what was sealed to it.

    Example: sfumato auditor key auditor.key
    """
    from sfumato.release.auditable import new_auditor

    public = new_auditor(file)
    console.say(f"Wrote {file}, for you alone. To owners: {file}.pub ({public})")
    console.result({"key": str(file), "public": f"{file}.pub", "auditor": str(public)})


@auditors.command()
def answer(
    commitment: Annotated[Path, argument("FILE", "Commitment that an owner sent you.")],
    console: Console,
    key: Path = asked(REQUIRED, "Your key.", metavar="FILE"),
) -> None:
    """Answer a commitment: the owner releases with that value, which was not known before. Ask for every such release.

    One owner, one table, one commitment: whoever asks again may have tried out noise. Answers are noted beside the key.

    Example: sfumato auditor answer january.commitment.json --key auditor.key
    """
    from sfumato.release.auditable import NoiseCommitment
    from sfumato.release.auditable import answer as answered

    value, number = answered(commitment, key)
    console.recite(value)
    console.say(f"This key answered {number:,} in all. Send the value to the owner, who releases with --answer.")
    told = NoiseCommitment.load(commitment)
    console.result({"commitment": told.commitment, "answer": value, "answered": number})
