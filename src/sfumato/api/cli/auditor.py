"""auditor: for those who recompute the noise of releases, with the table: their key, and answers to commitments."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sfumato.api.cli.console import Console

app = typer.Typer(no_args_is_help=True, help="Recompute the noise of a release: the auditor's key and answers.")


@app.command()
def key(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="File to write, for you alone.")],
    console: Console,
) -> None:
    """Make a key that owners can seal their seeds to; the public half is FILE.pub, to be sent to them.

    It is a key of age: `age-keygen` makes such keys too, and `age --decrypt` opens what was sealed to it.

    Example: sfumato auditor key auditor.key
    """
    from sfumato.release.auditable import new_auditor

    public = new_auditor(file)
    console.say(f"Wrote {file}, for you alone. To owners: {file}.pub ({public.text})")
    console.result({"key": str(file), "public": f"{file}.pub", "auditor": str(public)})


@app.command()
def answer(
    commitment: Annotated[Path, typer.Argument(metavar="FILE", help="Commitment that an owner sent you.")],
    key: Annotated[Path, typer.Option(metavar="FILE", help="Your key.")],
    console: Console,
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
