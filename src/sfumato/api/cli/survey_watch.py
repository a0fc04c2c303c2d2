"""survey verify, witness, page: for those who watch a survey, and for those who host its page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sfumato.api.cli.blocks import with_blocks
from sfumato.api.cli.console import Console, Force
from sfumato.api.cli.tables import InsecureHttp
from sfumato.core.errors import UsageError
from sfumato.study import server_part

app = typer.Typer()

Link = Annotated[
    str, typer.Argument(metavar="URL", help="The survey's link: https://host/survey/#survey=ID&hash=HASH.")
]
Witnesses = Annotated[
    list[str] | None,
    typer.Option(
        "--witness",
        metavar="WHERE",
        help="A witness of your own choice, an address or a file; it must agree. Repeatable.",
    ),
]


@app.command()
@with_blocks
def verify(
    link: Link,
    console: Console,
    last: Annotated[int, typer.Option(help="Recompute this many of the newest versions; 0 for all.")] = 0,
    witnesses: Witnesses = None,
    insecure_http: InsecureHttp = False,
) -> None:
    """Follow a survey's public log from its beginning, and recompute the guidance from the published counts.

    Example: sfumato survey verify 'https://study.example/survey/#survey=k3f9abcd2345&hash=HASH'
    """
    from sfumato.study.client.survey_server import SurveyServer, verify_survey

    if last < 0:
        raise UsageError(f"--last must be at least 0. Got {last} instead.")
    with SurveyServer(link, insecure_http=insecure_http) as server, console.listening() as progress:
        found = verify_survey(server, last=last or None, pinned=witnesses or (), progress=progress)
    named = "the one in the link" if found.pinned else "the link names none: compare it by other means"
    console.say(
        f"{found.entries} versions follow from each other; {found.recomputed} were recomputed from their counts and "
        f"are right. {found.answers:,} answers were counted.\nhead {found.head} (version {found.version}); "
        f"{found.witnesses}\nsurvey {found.survey} ({named})"
    )
    console.result(found._asdict())


@app.command()
@with_blocks
def witness(
    link: Link,
    out: Annotated[Path, typer.Option(metavar="FILE", help="File to publish where respondents can read it.")],
    console: Console,
    insecure_http: InsecureHttp = False,
) -> None:
    """Be a witness: check that the log continues what FILE says, and write its newest entry there for others to see.

    Run it every few minutes and publish FILE; respondents compare it with what the server shows them. Its address goes
    into the link (&witness=ADDRESS), so that the server does not name its own witnesses.

    Example: sfumato survey witness 'https://study.example/survey/#survey=k3f9abcd2345&hash=HASH' --out public/head.json
    """
    from sfumato.study.client.survey_server import SurveyServer, witness_survey

    with SurveyServer(link, insecure_http=insecure_http) as server:
        found = witness_survey(server, out)
    console.say(f"Witnessed version {found['version']}: {out}")
    console.result(found)


@app.command()
@with_blocks
def page(
    console: Console,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Folder to write, for anybody to serve.")] = None,
    show_hash: Annotated[bool, typer.Option("--hash", help="Only print the hash of the page's files.")] = False,
    force: Force = False,
) -> None:
    """Write the respondents' page to a folder, for a host other than the survey's server, or print its hash.

    A page from elsewhere asks for the survey at the address in its link:
    https://elsewhere/DIR/#survey=https://study.example/api/v1/surveys/ID&hash=HASH

    The hash is that of all files together (LC_ALL=C sha256sum * | sha256sum) and is published for every version.

    Example: sfumato survey page --out survey-page
    """
    from sfumato.core.files import new_folder

    part = server_part("web.respondent_files")
    if (out is None) is not show_hash:
        raise UsageError("Give either --out DIR or --hash.")
    digest, published = part.page_hash(part.page_files()), part.published_hashes()
    if digest != published["current"]:
        raise UsageError(
            "The page in this installation is not the one that was packaged: its files were changed. Install sfumato "
            "again."
        )
    version = next((name for name, known in published["released"].items() if known == digest), None)
    if out is not None:
        with new_folder(out, force=force) as folder:
            part.write_page(folder)
    console.say(f"{digest}  {f'page of version {version}' if version else 'page of no released version'}")
    console.result({"hash": digest, "version": version, "folder": None if out is None else str(out)})
