"""study plan, study draw: sites push noisy counts, the coordinator adds them, and rows are drawn from the sum."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.cli.at_coordinator import AtCoordinator, InsecureHttp, TokenFile
from sfumato.cli.blocks import with_blocks
from sfumato.cli.console import Console, Force
from sfumato.cli.study import StudyId
from sfumato.errors import UsageError
from sfumato.wording import counted


@with_blocks
def plan(
    study: Annotated[Path, typer.Argument(metavar="STUDY_FILE", help="Study that names no method.")],
    out: Annotated[Path, typer.Option(metavar="FILE", help="Study file to write, with the plan, as JSON.")],
    console: Console,
    release: Annotated[
        Path | None, typer.Option(metavar="DIR", help="One site's release: its noisy model becomes the plan.")
    ] = None,
    sites: Annotated[int, typer.Option(metavar="S", help="With --release: how many such sites will take part.")] = 1,
    pair: Annotated[
        list[str] | None, typer.Option(metavar="A,B", help="Without --release: columns that belong together.")
    ] = None,
    reason: Annotated[
        str | None, typer.Option(help="With --pair: how you know that without looking at the table.")
    ] = None,
    scores: Annotated[
        bool,
        typer.Option("--scores", help="Write the study of a first round, in which sites measure pairs of columns."),
    ] = False,
    scored: Annotated[
        list[Path] | None, typer.Option(metavar="DIR", help="A site's release of that round; once for every site.")
    ] = None,
    scored_in: Annotated[
        str | None, typer.Option(metavar="ID", help="Id of the first round's study at the coordinator.")
    ] = None,
    to: Annotated[str | None, typer.Option(metavar="URL", help="With --scored-in: the coordinator's address.")] = None,
    token_file: TokenFile = None,
    insecure_http: InsecureHttp = False,
    force: Force = False,
) -> None:
    """Plan which tables all sites count, so that they push noisy counts instead of rows.

    The plan comes from one site's tree-resampling release, which that site has paid for; from public rules: bins of
    equal width, and the pairs of columns that you name; or from what all sites measure in a first round with 30%
    of the budget and that are added. It becomes part of the study and of its hash.

    Examples:
      sfumato study plan study.yaml --release north --sites 4 --out agreed.json
      sfumato study plan study.yaml --pair age,glucose --reason "a textbook" --out agreed.json
      sfumato study plan study.yaml --scores --out first.json
      sfumato study plan study.yaml --scored north --scored south --out agreed.json
    """
    from sfumato.central.plan import Plan
    from sfumato.door.plan_counts import plan_counts
    from sfumato.guarantee.rounding import rounded_up
    from sfumato.protocol.pool_study import PoolStudy

    found: Any = scored or None
    if scored_in is not None:
        if scored or to is None:
            raise UsageError("--scored-in takes the sum from a coordinator: give --to, and leave --scored out.")
        with AtCoordinator(to, token_file, insecure_http).connected(console) as connected:
            found = connected.added(scored_in)
    pairs = [_pair(one) for one in pair or ()]
    made = plan_counts(
        study,
        release,
        sites=sites,
        pairs=pairs,
        reason=reason,
        scores=scores,
        scored=found,
        out=out,
        force=force,
    )
    read = PoolStudy.from_dict(made)
    agreed = read.plan
    assert agreed is not None
    counts = agreed.cells(max(1, len(read.encoding.classes)))
    what = (
        f"{counts:,} counts from every site, {counted(len(agreed.joined), 'pair')} of columns"
        if isinstance(agreed, Plan)
        else f"{counts:,} measurements of pairs and quantiles from every site, in a first round"
    )
    console.say(f"Wrote {out}: {what}, by {agreed.chosen_by}.")
    if read.presence is not None and (scores or found):
        console.say(f"  epsilon {rounded_up(read.presence.epsilon)} of everybody at delta {read.presence.delta:g}")
    console.say(f"  plan  {agreed.digest}\n  hash  {read.hash}")
    console.result({"study": str(out), "hash": read.hash, "plan": agreed.digest, "counts": counts})


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

    The rows are made up, and drawing costs nothing. `sfumato redraw` draws more of them at home.

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
