"""study new, invite, revoke, status, releases, test, train, models, download: the coordinator's commands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sfumato.api.cli.console import AsPublished, Console, Force, Yes, argument, option, parse_parameters
from sfumato.api.cli.tables import AtCoordinator, AtServer, InsecureHttp, To
from sfumato.core.asked import REQUIRED, asked, optional
from sfumato.core.errors import CoordinatorError, OutputError, UsageError
from sfumato.core.files import check_free, write_whole
from sfumato.core.wording import BETTER, counted, plain, than_commonest, to_type

if TYPE_CHECKING:
    from sfumato.study.protocol.messages import ModelInfo, ReleaseInfo, SharedRows, SiteInfo

PublicStartUp = Annotated[
    bool, option("Accept that a survey's few start-up rows can be read from their public counts.")
]


def respondents_link(study: str, digest: str) -> str:
    """The respondents' page below a host, with the survey that it must show."""
    return f"/survey/#survey={study}&hash={digest.removeprefix('sha256:')}"


app = typer.Typer(no_args_is_help=True, help="Studies: create them, invite sites, train, download.")

StudyId = Annotated[str, argument("ID", "Id of the study.")]


@app.command()
def new(
    file: Annotated[Path, argument("STUDY_FILE", "What the study requires, as YAML.")],
    server: AtServer,
    console: Console,
    public_start_up: PublicStartUp = False,
    as_published: AsPublished = False,
) -> None:
    """Create a study on this machine's server, and write its owner's token to a file that only you can read.

    Tell the sites the id and the hash by other means than the server: the hash shows that they and you mean the same
    study. Works before the server is started and while it runs.

    Example: sfumato study new study.yaml --data server
    """
    from sfumato.study.protocol.pool_study import PoolStudy
    from sfumato.study.protocol.study_file import load_study, rehearse
    from sfumato.study.protocol.survey_file import FEW_ROWS, SurveyStudy, fewest_rows

    if not file.is_file():
        raise UsageError(f"There is no study file {file}.")
    study = load_study(file, published=as_published)
    if isinstance(study, PoolStudy):
        rehearse(study)
    if isinstance(study, SurveyStudy) and study.closed(datetime.now(UTC).date()):
        raise UsageError(
            f"{file}: the survey closed on {study.closes}: people could no longer answer it. Give a later day."
        )
    # Counts of start-up rows become public; of few rows they are as good as the rows.
    fewest = fewest_rows(study.start_up) if isinstance(study, SurveyStudy) and not public_start_up else None
    if fewest is not None and fewest < FEW_ROWS:
        raise UsageError(
            f"{file}: a class has {counted(fewest, 'start-up row')}, fewer than {FEW_ROWS}. Everybody can read the "
            "counts of these rows, and so few counts reveal the rows themselves. Give more rows, write `start_up: "
            "random`, or add --public-start-up if these people agreed that anybody may read their answers."
        )
    with server.store() as store:
        identity, token = store.studies.create(study)
        digest = store.studies.find(identity).hash
    token_file = server.data / f"owner-{identity}.token"
    try:
        write_whole(token_file, token + "\n", private=True)
    except OutputError as error:
        raise OutputError(
            f"{error} The study {identity} was created. Once that is fixed, its owner can get a token with: "
            f"{to_type('study owner-token', identity, data=server.data)}"
        ) from None
    console.say(
        f"Study {study.name}\n  id     {identity}\n  hash   {digest}\n  token  {token_file}  (the owner's; keep it)"
    )
    if isinstance(study, SurveyStudy):
        console.say(f"  link   https://your-host{respondents_link(identity, digest)}  (for respondents)")
    console.result({"id": identity, "name": study.name, "hash": digest, "token_file": str(token_file)})


@app.command("owner-token")
def renew_owner_token(study: StudyId, server: AtServer, console: Console) -> None:
    """Create a new token for an owner whose token was lost or leaked; the old one becomes invalid. Run it on the
    server.

    Example: sfumato study owner-token k3f9abcd2345 --data server
    """
    if not server.data.is_dir():
        raise UsageError(f"There is no data folder {server.data}.")
    with server.store() as store:
        token = store.tokens.new_owner_token(study)
    token_file = server.data / f"owner-{study}.token"
    write_whole(token_file, token + "\n", private=True)
    console.say(f"The owner's new token is in {token_file}. The old one has ended.")
    console.result({"id": study, "token_file": str(token_file)})


@app.command()
def invite(
    study: StudyId,
    at: AtCoordinator,
    console: Console,
    site: str = asked(REQUIRED, "Name of the site.", metavar="NAME"),
    days: int = asked(365, "How long the token is valid."),
    out: Path | None = optional("Write the token to this file; otherwise it is printed.", metavar="FILE"),
    force: Force = False,
) -> None:
    """Invite a site. Its token is shown only once; inviting the site again replaces its token.

    Example: sfumato study invite k3f9abcd2345 --site North --to https://study.example --token-file owner.token
    """
    from sfumato.study.client.connection import check_token

    check_free(out, force=force)
    with at.connected(console) as connected:
        invited = connected.invite(study, site, days)
        address = connected.address
    check_token(invited.token, "The coordinator's answer")
    if out is not None:
        write_whole(out, invited.token + "\n", private=True)
    where = f"in {out}" if out is not None else invited.token
    console.say(f"Invited {plain(invited.name)} until {plain(invited.expires)}. Token: {where}")
    told = {"name": invited.name, "expires": invited.expires, "token_file": out}
    if address.certificate is not None:
        console.say(f"Its address, with the certificate that the server must show: {address.link}")
        told["address"] = address.link
    console.result(told | ({"token": invited.token} if out is None else {}))


@app.command()
def keys(
    study: StudyId,
    server: AtServer,
    console: Console,
    site: str | None = optional("Name of the site.", metavar="NAME"),
    enroll: str | None = optional("Take what this key signs, and nothing unsigned any more.", metavar="FINGERPRINT"),
    remove: str | None = optional("Take what this key signs no longer.", metavar="FINGERPRINT"),
) -> None:
    """List, enroll or remove the keys that sign a site's pushes. Run it on the server.

    A site with a key pushes and withdraws signed requests only: its token alone is worth nothing to a thief. The site
    tells you its fingerprint by telephone or on paper (`sfumato signer show`).

    Example: sfumato study keys k3f9abcd2345 --data server --site North --enroll acorn-river-...
    """
    from sfumato.guarantee.signer import from_words

    if (enroll or remove) and site is None:
        raise UsageError("Say whose key it is: --site NAME.")
    with server.store() as store:
        if enroll is not None and site is not None:
            store.keys.enroll(study, site, from_words(enroll))
        if remove is not None and site is not None:
            store.keys.remove(study, site, from_words(remove))
        found = store.keys.all(study, site)
    if not found:
        console.say("No key is enrolled: whoever has a site's token can push.")
    for one in found:
        console.say(f"{one.site}: {one.fingerprint}, since {one.enrolled}")
    console.result({"study": study, "keys": [one.to_dict() for one in found]})


@app.command()
def revoke(
    study: StudyId,
    at: AtCoordinator,
    console: Console,
    site: str = asked(REQUIRED, "Name of the site.", metavar="NAME"),
) -> None:
    """End a site's token. What it pushed stays until it is withdrawn.

    Example: sfumato study revoke k3f9abcd2345 --site North --to https://study.example --token-file owner.token
    """
    with at.connected(console) as connected:
        connected.revoke(study, site)
    console.say(f"Revoked: {site} can no longer push to {study}.")
    console.result({"study": study, "site": site, "revoked": True})


@app.command()
def status(study: StudyId, at: AtCoordinator, console: Console) -> None:
    """Show a study: what it is, its sites (to the owner) or your releases (to a site), and its models.

    Example: sfumato study status k3f9abcd2345 --to https://study.example --token-file owner.token
    """
    from sfumato.study.client.connection import RefusedError

    with at.connected(console) as connected:
        info = connected.study(study)
        try:
            sites = connected.sites(study)
        except RefusedError as error:
            if error.status != 403:
                raise
            sites = None
        releases = connected.releases(study)
        shared = [] if sites is None or info.kind != "pool" else connected.shared_rows(study)
        models = connected.models(study)
    console.say(f"{plain(info.name)} ({plain(info.id)}), {plain(info.kind)}, since {plain(info.created)}")
    console.say(f"hash {plain(info.hash)}")
    console.say()
    console.say_each(release_lines(releases) if sites is None else [*site_lines(sites), *shared_lines(shared)])
    console.say()
    console.say_each(model_lines(models))
    console.result(
        {
            "study": info.to_dict(),
            "sites": None if sites is None else [site.to_dict() for site in sites],
            "releases": [release.to_dict() for release in releases],
            "shared_rows": [pair.to_dict() for pair in shared],
            "models": [model.to_dict() for model in models],
        }
    )


@app.command("test")
def give_test_table(
    study: StudyId,
    table: Annotated[Path, argument("TABLE", "PUBLIC rows with the column to predict: CSV or Parquet.")],
    at: AtCoordinator,
    console: Console,
    yes: Yes = False,
) -> None:
    """Give the study a PUBLIC table to test models on. Its rows are sent as they are: never give a private one.

    Example: sfumato study test k3f9abcd2345 public.csv --to https://study.example --token-file owner.token
    """
    if not yes:
        console.confirm(
            f"The rows of {table} are sent as they are, without noise. Are they public?",
            unasked="The rows of the table are sent as they are. If they are public, add --yes.",
        )
    with at.connected(console) as connected, console.listening() as progress:
        kept = connected.put_test(study, table, progress=progress)
    rows = kept.get("rows") if isinstance(kept, dict) else None
    many = f" ({counted(rows, 'row')})" if rows else ""
    console.say(f"Models of {study} are tested on {table} from now on{many}.")
    console.result({"study": study, "rows": rows})


@app.command()
def train(
    study: StudyId,
    at: AtCoordinator,
    console: Console,
    wait: Annotated[bool, option("Wait until all are trained, and show their errors.")] = False,
    classifier: list[str] | None = optional(
        "Repeatable, with optional parameters ('knn k=5'); the default is those that the study names.", metavar="NAME"
    ),
    param: list[str] | None = optional("Parameter of every classifier named; repeatable.", metavar="NAME=VALUE"),
    sites: str = asked("all", "all, or agreeing: the sites that agree with most others."),
    as_published: AsPublished = False,
) -> None:
    """Train classifiers on everything that was pushed; the server does it in the background.

    Example: sfumato study train k3f9abcd2345 --classifier naive-bayes --wait --to https://study.example
    """
    from sfumato.study.client.coordinator import until_done

    with at.connected(console) as connected:
        definition = connected.study(study).definition
        names = classifier or list(definition.get("classifiers") or ())
        if not names:
            raise UsageError("The study names no classifiers. Give one with --classifier.")
        parameters = parse_parameters(param or [])
        if as_published:
            from sfumato.learn.classifiers.factory import choose_classifier
            from sfumato.study.protocol.study_file import papers_of

            papers = papers_of(definition)
            names, parameters = [choose_classifier(one, parameters, published=papers).text for one in names], {}
        wanted = [connected.train(study, name, sites, parameters) for name in names]
        models_now = partial(map, partial(connected.model, study), wanted)
        with console.listening() as progress:
            models = until_done(lambda: list(models_now()), "Training", progress) if wait else list(models_now())
    console.say_each(model_lines(models))
    console.result({"models": [model.to_dict() for model in models]})
    if failed := [model for model in models if model.state == "failed"]:
        raise CoordinatorError(f"{len(failed)} of {len(models)} trainings failed; `sfumato study models` says why.")


@app.command("log")
def follow_log(
    to: To,
    console: Console,
    out: Path = asked(REQUIRED, "Folder of the copy; one that is there is continued.", metavar="DIR"),
    insecure_http: InsecureHttp = False,
    key: str | None = optional("Key that the log must be signed by.", metavar="KEY"),
    cosign: Path | None = optional("As a witness, sign what was seen; the key is made in FILE.", metavar="FILE"),
) -> None:
    """Follow a coordinator's public log: read what is new, and refuse a log that does not continue the copy.

    Run it from time to time, on a machine that the coordinator does not rule. A witness adds --cosign; its file is
    named as the witness, and the coordinator is told the key that is printed (SFUMATO_WITNESSES).

    Example: sfumato study log --to https://study.example --out study-log
    """
    from sfumato.ledger.public_log import AtLeast, commitments
    from sfumato.study.client.coordinator import follow, witness

    found = follow(to, out, key=key, insecure_http=insecure_http)
    logged = commitments(found)
    sums = [
        AtLeast.of(name, (one for one in logged if one.what.population == name))
        for name in dict.fromkeys(one.what.population for one in logged)
    ]
    console.say(f"{out}: {counted(len(found.entries), 'entry')} of {found.key.name}, each as it was signed.")
    console.say(f"  key  {found.key.text}")
    for one in sums:
        console.say(f"  {one.in_words()}")
    told = {"log": found.key.text, "size": len(found.entries), "populations": [one.to_dict() for one in sums]}
    if cosign is not None:
        known = witness(to, found, cosign, insecure_http=insecure_http)
        console.say(f"Signed as {known.name}, whose key is {known.text}")
        told["witness"] = known.text
    console.result(told)


@app.command()
def models(study: StudyId, at: AtCoordinator, console: Console) -> None:
    """List the models of a study, with their errors.

    Example: sfumato study models k3f9abcd2345 --to https://study.example --token-file owner.token
    """
    with at.connected(console) as connected:
        found = connected.models(study)
    console.say_each(model_lines(found))
    console.result({"models": [model.to_dict() for model in found]})


@app.command()
def download(
    study: StudyId,
    model: Annotated[str, argument("MODEL", "Id of the model, from `study models`.")],
    at: AtCoordinator,
    console: Console,
    out: Path = asked(REQUIRED, "Model file to write, for example model.skops.", metavar="FILE"),
    force: Force = False,
) -> None:
    """Download a trained model. One that contains released rows is for the owner alone.

    Example: sfumato study download k3f9abcd2345 m7 --out model.skops --to https://study.example
    """
    with at.connected(console) as connected, console.listening() as progress:
        connected.download(study, model, out, force=force, progress=progress)
    console.say(f"Wrote {out}. Try it at home: {to_type('evaluate', out, 'TABLE')}")
    console.result({"model": model, "file": str(out)})


# Sites, releases and models as lines of a terminal; what a server says is printed as plain text only.


def site_lines(sites: Sequence[SiteInfo]) -> Iterator[str]:
    if not sites:
        yield "No site was invited yet."
        return
    width = max(len(site.name) for site in sites)
    yield f"{'site':{width}}  {'releases':>8}  {'rows':>10}  {'last push':10}  token until  guarantee (site-asserted)"
    for site in sites:
        until = "revoked" if site.revoked else plain(site.expires)
        counts = f"{site.releases:>8,}  {site.rows:>10,}  {plain(site.last_push or 'never'):10}"
        yield f"{plain(site.name):{width}}  {counts}  {until:11}  {plain(site.guarantee or '-')}"


def release_lines(releases: Sequence[ReleaseInfo]) -> Iterator[str]:
    if not releases:
        yield "Nothing was pushed yet."
        return
    yield f"{'sha256':64}  {'rows':>10}  {'purpose':7}  received"
    for release in releases:
        withdrawn = "  withdrawn" if release.withdrawn else ""
        about = f"{release.rows:>10,}  {plain(release.purpose):7}  {plain(release.received)}"
        yield f"{plain(release.sha256):64}  {about}{withdrawn}"


def shared_lines(shared: Sequence[SharedRows]) -> Iterator[str]:
    """Nothing where no two releases share rows."""
    if shared:
        yield ""
        yield "Releases that share rows beyond chance:"
    for pair in shared:
        one = f"{plain(pair.sha256)[:12]} ({plain(pair.site)}, to {plain(pair.purpose)})"
        other = f"{plain(pair.other)[:12]} ({plain(pair.other_site)}, to {plain(pair.other_purpose)})"
        shares = f"{pair.share:.1%} of {one} and {pair.other_share:.1%} of {other}"
        yield f"  {shares}; expected by chance: {pair.expected:.1%}"


def model_lines(models: Sequence[ModelInfo]) -> Iterator[str]:
    if not models:
        yield "No model was trained yet."
        return
    width = max(len(model.text) for model in models)
    for model in models:
        yield f"{plain(model.id)}  {plain(model.text):{width}}  {_words(model)}"


def _words(model: ModelInfo) -> str:
    if model.state == "failed":
        return f"failed: {plain(model.failure or 'no reason was given')}"
    if model.state != "done":
        return f"{plain(model.state)}, {model.progress:.0%} {plain(model.step)}".rstrip()
    results = model.results or {}
    words = [f"error on {plain(str(found.get('kind')))} {_error(found)}" for found in results.get("test") or ()]
    if found := results.get("cross_validation"):
        words.append(f"cross-validation error {_error(found)}")
    words = words or ["trained"]
    if model.sites != "all":
        words.append("trained on the sites that agree")
    words += _better_without(results)
    shuffled = results.get("shuffled") or {}
    epsilon, delta = shuffled.get("epsilon"), shuffled.get("delta")
    if isinstance(epsilon, int | float) and isinstance(delta, int | float):
        from sfumato.guarantee.rounding import rounded_up

        central = f"shuffled pool: central epsilon {rounded_up(epsilon)}, delta {delta:g}"
        words.append(f"{central}, if the shuffler is honest (not against the coordinator)")
    if model.contains_rows:
        words.append("contains released rows")
    if model.uses_withdrawn:
        words.append("USES A WITHDRAWN RELEASE")
    return "; ".join(words)


def _better_without(results: Mapping[str, Any]) -> Iterator[str]:
    """Sites with which the error lies above the interval of the error without them."""
    for one in (results.get("trust") or {}).get("sites") or ():
        found = one.get("without") or {}
        error, full, interval = found.get("error"), found.get("with"), found.get("interval")
        if error is not None and full is not None and interval and full > interval[1]:
            yield f"BETTER WITHOUT {plain(str(one.get('site')))}: {float(error):.3f}"


def _error(found: dict[str, object]) -> str:
    error, interval = found.get("error"), found.get("interval")
    if not isinstance(error, int | float) or not isinstance(interval, list) or len(interval) != 2:
        return "unknown"
    words, commonest = f"{error:.3f} ({interval[0]:.3f} to {interval[1]:.3f})", found.get("commonest")
    if not isinstance(commonest, int | float):
        return words
    than = than_commonest(interval[0] - commonest, interval[1] - commonest)
    return f"{words}, commonest class {commonest:.3f}" + ("" if than == BETTER else f" ({than.upper()} THAN THAT)")
