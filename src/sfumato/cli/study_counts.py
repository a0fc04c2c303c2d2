"""study plan, study draw: sites push noisy counts, the coordinator adds them, and rows are drawn from the sum."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from sfumato.cli.at_coordinator import AtCoordinator
from sfumato.cli.blocks import with_blocks
from sfumato.cli.console import Console, Force
from sfumato.cli.study import StudyId
from sfumato.errors import UsageError
from sfumato.wording import counted


@with_blocks
def plan(
    study: Annotated[Path, typer.Argument(metavar="STUDY_FILE", help="Study with tree-resampling.")],
    out: Annotated[Path, typer.Option(metavar="FILE", help="Study file to write, with the plan, as JSON.")],
    console: Console,
    release: Annotated[
        Path | None, typer.Option(metavar="DIR", help="One site's release: its noisy model becomes the plan.")
    ] = None,
    sites: Annotated[int, typer.Option(metavar="S", help="How many sites like that one will take part.")] = 1,
    pair: Annotated[
        list[str] | None, typer.Option(metavar="A,B", help="Without --release: columns that belong together.")
    ] = None,
    force: Force = False,
) -> None:
    """Plan which tables all sites count, so that they push noisy counts instead of rows.

    The plan comes from one site's tree-resampling release, which that site has paid for, or from public rules: bins of
    equal width, and the pairs of columns that you name. It becomes part of the study and of its hash.

    Examples:
      sfumato study plan study.yaml --release north --sites 4 --out agreed.json
      sfumato study plan study.yaml --pair age,glucose --out agreed.json
    """
    from sfumato.central.plan import Plan
    from sfumato.door.plan_counts import plan_counts
    from sfumato.protocol.pool_study import PoolStudy

    made = plan_counts(study, release, sites=sites, pairs=[_pair(one) for one in pair or ()], out=out, force=force)
    read = PoolStudy.from_dict(made)
    found = read.plan
    assert isinstance(found, Plan)
    classes = max(1, len(read.encoding.classes))
    joined = counted(len(found.joined), "pair") + " of columns"
    console.say(f"Wrote {out}: {found.cells(classes):,} counts from every site, {joined}, by {found.chosen_by}.")
    console.say(f"  plan  {found.digest}\n  hash  {read.hash}")
    console.result({"study": str(out), "hash": read.hash, "plan": found.digest, "counts": found.cells(classes)})


@with_blocks
def draw(
    study: StudyId,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder to write.")],
    at: AtCoordinator,
    console: Console,
    rows: Annotated[int | None, typer.Option(metavar="N", help="Rows to draw; the noisy count if not given.")] = None,
    format: Annotated[str, typer.Option(help="parquet or csv.")] = "parquet",
    force: Force = False,
) -> None:
    """Draw rows from the sum of all sites' noisy counts; for the owner of a study with a plan.

    Rows belong to nobody, and drawing costs nothing. `sfumato redraw` draws more of them at home.

    Example: sfumato study draw k3f9abcd2345 --out everybody --to https://study.example --token-file owner.token
    """
    from sfumato.files import check_free
    from sfumato.jobs.redraw import draw_from
    from sfumato.jobs.release import Release
    from sfumato.protocol.acceptance import read_card

    check_free(out, force=force)
    if format not in ("parquet", "csv"):
        raise UsageError(f"There is no format {format!r}. Choose one of: parquet, csv.")
    with at.connected(console) as connected:
        found = connected.added(study)
    added = Release(read_card(json.dumps(found.card)), model=found.model)
    with console.listening() as progress:
        made = draw_from(added, rows=rows, out=out, format=format, force=force, progress=progress)
    card = made.card
    console.say(f"Drew {counted(card.rows, 'row')} into {out} from counts of {counted(len(found.sites), 'site')}.")
    console.say(str(card.guarantee["words"]))
    console.say(f"To share: release.{format}, card.json, model.json. Nothing in the folder is private.")
    console.result(
        {"folder": str(out), "rows": card.rows, "sites": len(found.sites), "guarantee": dict(card.guarantee)}
    )


def _pair(text: str) -> tuple[str, str]:
    one, comma, other = text.partition(",")
    if not comma:
        raise UsageError(f"--pair must be two columns with a comma between them. Got {text[:60]!r} instead.")
    return one.strip(), other.strip()
