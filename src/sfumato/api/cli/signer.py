"""verify: whether a release is consistent, and whose; signer: the owner's key; auditor: the key of who recomputes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sfumato.api.cli.blocks import keywords
from sfumato.api.cli.console import Console, Force, LedgerPath, argument, option
from sfumato.core.asked import REQUIRED, asked, optional, switch
from sfumato.core.errors import CardError, SfumatoError, UsageError
from sfumato.core.files import check_free, write_whole
from sfumato.release.asked import VerifyAsked

if TYPE_CHECKING:
    from sfumato.guarantee.signer import Signer

app = typer.Typer(no_args_is_help=True, help="The key that signs your releases: show its fingerprint, replace it.")
Out = Annotated[Path | None, option("File for what your keys say of each other, to be handed on.", metavar="FILE")]


@app.command()
def show(console: Console, ledger: LedgerPath = None, out: Out = None, force: Force = False) -> None:
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


@app.command()
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


@app.command()
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
