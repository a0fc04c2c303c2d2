"""serve: the coordinator's server; open: the owner's desk in a browser, on this computer only."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from sfumato.api.cli.console import Console, Quiet, argument, option
from sfumato.api.cli.tables import AtServer, InsecureHttp, TokenFile
from sfumato.core.asked import asked, optional, switch
from sfumato.core.errors import OutputError, UsageError
from sfumato.study import server_part


@dataclass(frozen=True)
class Encryption:
    """How the server speaks TLS, where no proxy does it."""

    certificate: Path | None = optional("Speak TLS with this certificate (PEM).", metavar="FILE")
    certificate_key: Path | None = optional("The certificate's key (PEM).", metavar="FILE")
    self_made: bool = switch(
        "Speak TLS with a certificate of its own; its fingerprint is in the address.", flag="--self-made-certificate"
    )


PLAIN = (
    "Other machines reach this server without encryption, and their programs refuse to push that way. Add "
    "--self-made-certificate, or give --certificate, unless a proxy in front speaks TLS."
)


def serve(
    server: AtServer,
    encryption: Encryption,
    host: str = asked("127.0.0.1", "Address to listen on; behind a proxy, keep the default."),
    port: int = asked(8000, "Port to listen on; 0 picks a free one."),
    quiet: Quiet = False,
) -> None:
    """Serve studies until interrupted; requests in progress are finished first.

    Prints its address and writes it to DIR/address. Sites reach it over HTTPS: through a proxy, or directly with a
    certificate. Other settings are variables, SFUMATO_MAX_PUSH_BYTES and the like: see docs/operations.md.

    Examples:
      sfumato serve --data server
      sfumato serve --data server --host 0.0.0.0 --self-made-certificate
    """
    if not 0 <= port <= 65535:
        raise UsageError(f"--port must be between 0 and 65535. Got {port} instead.")
    data = server.data
    if data.exists() and not data.is_dir():
        raise OutputError(f"{data} is a file, but the server needs a folder. Choose another name.")
    from sfumato.core.files import write_whole

    console = Console(quiet)
    run = server_part("app").serve
    typed = {"tls_certificate": encryption.certificate, "tls_key": encryption.certificate_key}
    given = {name: path and str(path) for name, path in typed.items()}  # None where nothing was typed
    settings = server.settings(**given, tls_self_made=encryption.self_made or None)
    plain = not (settings.tls_certificate or settings.tls_self_made or settings.trust_proxy)
    if plain and host not in ("localhost", "::1") and not host.startswith("127."):
        print(f"sfumato: {PLAIN}", file=sys.stderr)
    announced = data / "address"

    def ready(address: str) -> None:
        write_whole(announced, address + "\n")
        if not quiet:
            print(f"Serving {data} at {address}. Stop with Ctrl-C.", flush=True)

    try:
        run(settings, host, port, ready)
    except KeyboardInterrupt:
        pass  # asked to stop, and stopped: everything acknowledged is durable
    finally:
        announced.unlink(missing_ok=True)
    console.say("Stopped.")


@dataclass(frozen=True)
class OfSite:
    """For a site of a consortium: what its release is made for, and where it is pushed to in a sixth step."""

    study: str | None = optional("For a consortium's site: id of the study.", metavar="ID")
    study_file: Path | None = optional("The site's own copy of the study file, which settles the rest.", metavar="FILE")
    to: str | None = optional("The coordinator's address, https://...", metavar="URL")
    token_file: TokenFile = None
    insecure_http: InsecureHttp = False


def open_desk(
    console: Console,
    of_site: OfSite,
    table: Annotated[Path | None, argument("[TABLE]", "Table to begin with.")] = None,
    browser: Annotated[bool, option("Show the desk in a browser; without, only print its address.")] = True,
    port: int = asked(0, "Port on this computer; 0 takes a free one.", metavar="N"),
) -> None:
    """Open the desk: a page on this computer alone, from a dropped table to a release and its certificate.

    Everything that it does is also a command, which it shows. It ends with Ctrl-C, with its own button, or ten minutes
    after its last page.

    Examples:
      sfumato open
      sfumato open patients.csv
      sfumato open patients.csv --no-browser --port 8765
      sfumato open north.csv --study-file study.json --study k3f9abcd2345 --to https://study.example --token-file t
    """
    from sfumato.api.desk.job import Site
    from sfumato.api.desk.serve import open_desk as serve

    site = None
    if any(one is not None for one in (of_site.study, of_site.study_file, of_site.to, of_site.token_file)):
        if of_site.study is None or of_site.study_file is None or of_site.to is None:
            raise UsageError("A consortium's site needs --study ID, --study-file FILE and --to URL together.")
        study_file = of_site.study_file.absolute()
        site = Site(study_file, of_site.study, of_site.to, of_site.token_file, of_site.insecure_http)

    def say(line: str) -> None:
        console.say(line)
        sys.stdout.flush()

    serve(table, port=port, browser=browser, say=say, site=site)
