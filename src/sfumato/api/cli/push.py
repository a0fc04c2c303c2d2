"""push, withdraw: a site's side of a study."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from sfumato.api.cli.blocks import with_blocks
from sfumato.api.cli.console import Console
from sfumato.api.cli.tables import AtCoordinator
from sfumato.core.errors import UsageError
from sfumato.core.wording import counted

Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]


@dataclass(frozen=True)
class How:
    """What is asked before a push, and of whom."""

    dry_run: Annotated[bool, typer.Option(help="Show what would leave, and whether the study would accept it.")] = False
    yes: Yes = False
    study_hash: Annotated[
        str | None, typer.Option(metavar="HASH", help="The study's hash, agreed by other means: sha256:...")
    ] = None


@with_blocks
def push(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder that `sfumato sanitize` wrote.")],
    study: Annotated[str, typer.Option(metavar="ID", help="Id of the study.")],
    how: How,
    at: AtCoordinator,
    console: Console,
    purpose: Annotated[str, typer.Option(help="train, or test (rows for testing models).")] = "train",
) -> None:
    """Send a release to a study: one file, DIR/release.parquet, with its card inside. Nothing else leaves. Of a study
    with a plan it is DIR/counts.parquet: noisy counts, and no row.

    Shows what will leave and asks before the first push to a study. Compare the hash that it shows with the one that
    the study's owner told you by other means, or give that one with --study-hash. Pushing the same release again does
    nothing. The receipt is kept as DIR/receipt-ID.json.

    Examples:
      sfumato study push release --to https://study.example --study k3f9abcd2345 --dry-run
      sfumato study push release --to https://study.example --study k3f9abcd2345 --token-file site.token
    """
    from sfumato.study.client import carry_out, plan_push
    from sfumato.study.client.connection import plain
    from sfumato.study.client.coordinator import site_signer

    check_hash(how.study_hash)
    with at.connected(console) as connected:
        plan = plan_push(connected, folder, study, purpose=purpose, study_hash=how.study_hash)
        if how.dry_run:
            _show_dry(console, plan)
            return
        if not plan.objections and not plan.agreed and not how.yes:
            _ask(plan.in_words(), console.as_json)
        with console.listening() as progress:
            done = carry_out(plan, connected, progress=progress)
    receipt = done.receipt
    rows = counted(receipt.rows, "row")
    what = f"{rows if plan.study.plan is None else f'noisy counts of about {rows}'} ({receipt.bytes:,} bytes)"
    console.say(f"Pushed {what} to {study} at {plan.address} as {plain(receipt.site)}. Receipt: {done.receipt_file}")
    signer = site_signer()
    signed_by = None if signer is None else signer.fingerprint
    if signed_by is not None:
        console.say(f"Signed with your key {signed_by}.")
    told = {"receipt": receipt.to_dict(), "receipt_file": str(done.receipt_file), "signed_by": signed_by}
    console.result({**plan.to_dict(), **told})


def _show_dry(console: Console, plan: object) -> None:
    from sfumato.study.client import Plan

    assert isinstance(plan, Plan)
    console.say(plan.in_words())
    console.say()
    if plan.objections:
        console.say("The study would not accept it:")
        for line in plan.objections:
            console.say(f"  - {line}")
    else:
        console.say("The study would accept it. Nothing was sent.")
    console.result({**plan.to_dict(), "receipt": None})


def _ask(words: str, as_json: bool) -> None:
    """Show what will leave, and wait for a yes."""
    if as_json or not sys.stdin.isatty():
        raise UsageError(
            "This is the first push to this study, and no person is here to ask. Look at it with --dry-run, compare "
            "the study's hash, then push with --yes."
        )
    print(words)
    print()
    if not typer.confirm("Is this the study that you agreed to, and may this leave?"):
        raise UsageError("Not confirmed, so nothing was sent.")


@with_blocks
def withdraw(
    release: Annotated[
        str, typer.Argument(metavar="DIR_OR_SHA256", help="Folder that was pushed, or the sha256 on its receipt.")
    ],
    study: Annotated[str, typer.Option(metavar="ID", help="Id of the study.")],
    at: AtCoordinator,
    console: Console,
) -> None:
    """Take a pushed release back: its rows are deleted at the coordinator, and models that used it are marked.

    What was learned from it or copied before is not undone, and your ledger still counts it. The same release is not
    accepted again.

    Example: sfumato study withdraw release --to https://study.example --study k3f9abcd2345 --token-file site.token
    """
    from sfumato.study.client import Parcel
    from sfumato.study.client.pushing import pushed_before

    known = re.fullmatch(r"(?:sha256:)?([0-9a-f]{64})", release)
    sha256 = known[1] if known else pushed_before(Path(release), study) or Parcel.open(Path(release)).sha256
    with at.connected(console) as connected:
        connected.withdraw(study, sha256)
    console.say(f"Withdrawn from {study}: {sha256}")
    console.result({"study": study, "sha256": sha256, "withdrawn": True})


def check_hash(study_hash: str | None) -> None:
    if study_hash is not None and not re.fullmatch(r"sha256:[0-9a-f]{64}", study_hash):
        raise UsageError("--study-hash must be sha256: and 64 hexadecimal digits, as `sfumato study new` printed them.")
