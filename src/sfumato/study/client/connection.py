"""A conversation with a coordinator: requests that are tried again where that is safe and can help, and answers that
are read with suspicion: bounded, of the expected shape, and printable.
"""

from __future__ import annotations

import email.utils
import hashlib
import hmac
import ipaddress
import json
import os
import random
import re
import socket
import ssl
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar
from urllib.parse import urlsplit

import httpx

from sfumato import __version__
from sfumato.core.errors import CoordinatorError, PrivacyLeakWarning, UsageError
from sfumato.core.files import is_private
from sfumato.core.records import FieldError, Record
from sfumato.core.wording import plain

MOST_BYTES = 32 << 20  # no answer in JSON is longer
MEANINGS = {
    401: "The token is unknown, revoked or expired. Ask the study's owner for a new one.",
    403: "The token belongs to this study but does not allow that: sites push and withdraw, the owner does the rest.",
    404: "There is nothing with that name here for this token. Check the study's id and the address.",
    410: "This release was withdrawn before, and a withdrawn release is not accepted again.",
    413: "It is larger than this coordinator accepts.",
    429: "The coordinator asks to send less often. Try again later.",
    507: "The coordinator's disk is full; nothing was stored. Tell the coordinator, and push again later.",
}


class RefusedError(CoordinatorError):
    """The server understood the request and declined; `status` and `code` say why, `objections` in detail."""

    def __init__(self, message: str, status: int, code: str = "", objections: tuple[str, ...] = ()):
        super().__init__(message)
        self.status, self.code, self.objections = status, code, objections


class BrokenOffError(CoordinatorError):
    """An answer began and did not end."""


def pieces_of(response: httpx.Response, size: int = 1 << 16) -> Iterator[bytes]:
    try:
        yield from response.iter_bytes(size)
    except httpx.HTTPError as error:
        raise BrokenOffError(f"The coordinator's answer broke off ({type(error).__name__}). Try again.") from None


def body_of(response: httpx.Response, most: int | None = None) -> bytes:
    """The answer's body, as far as an honest server's goes."""
    body = bytearray()
    for piece in pieces_of(response):
        body += piece
        if len(body) > (most or MOST_BYTES):
            raise CoordinatorError("The coordinator's answer is far too long, and was not read to its end.")
    return bytes(body)


def json_of(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise CoordinatorError(
            "What answered is not a coordinator, or something in between changed its answer: it is not JSON. "
            "Check the address."
        ) from None


Kind = TypeVar("Kind", bound=Record)


def message_of(kind: type[Kind], found: Any) -> Kind:
    """A message whose fields have the types that it declares, or an error: no text is taken for a number."""
    try:
        return kind.from_dict(found)
    except FieldError:
        raise misshapen() from None


def messages_of(kind: type[Kind], found: Any) -> list[Kind]:
    if not isinstance(found, list):
        raise misshapen()
    return [message_of(kind, entry) for entry in found]


def misshapen() -> CoordinatorError:
    return CoordinatorError("The coordinator's answer is incomplete: it has another version. Update both.")


def refusal(status: int, body: bytes) -> RefusedError:
    """The server's own words where it has some, else the meaning of the status."""
    try:
        found = json.loads(body)
        code, message = str(found["error"]), plain(str(found["message"]))
        objections = tuple(plain(str(line)) for line in found.get("objections") or ())[:50]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        code, message, objections = "", "", ()
    message = message or MEANINGS.get(status, f"The coordinator answered with status {status}.")
    if not all(line in message for line in objections):
        message = "\n".join([message, *(f"  - {line}" for line in objections)])
    return RefusedError(message, status, plain(code), objections)


# Where a coordinator is, and whether a token may be sent there.

TOKEN_VARIABLE = "SFUMATO_TOKEN"
_TOKEN = re.compile(r"sfu_[a-z]+_[A-Za-z0-9_-]{20,200}")
PINNED = re.compile(r"sha256:[0-9a-f]{64}")


class Address(NamedTuple):
    """The base of all addresses of a coordinator, without a slash at its end. `certificate` is the fingerprint of the
    one that it must show, where the address says so: https://host#sha256:..."""

    base: str
    loopback: bool
    certificate: str | None = None

    @property
    def link(self) -> str:
        """As a site is told it."""
        return self.base if self.certificate is None else f"{self.base}#{self.certificate}"

    @classmethod
    def read(cls, url: str, *, insecure_http: bool = False) -> Address:
        """Check an address as it was typed; plain http is for this machine only, unless that is asked for."""
        try:
            parts = urlsplit(url.strip())
            host, port = parts.hostname or "", parts.port
        except ValueError:
            words = "The coordinator's address cannot be understood. Write https://host or https://host:port."
            raise UsageError(words) from None
        if parts.scheme not in ("http", "https") or not host:
            raise UsageError("The coordinator's address must begin with https:// and name a host.")
        if "@" in parts.netloc or parts.query:
            raise UsageError(
                "The coordinator's address must be https://host[:port][/path] alone. A token goes into "
                f"{TOKEN_VARIABLE} or --token-file, never into an address."
            )
        if parts.fragment and not PINNED.fullmatch(parts.fragment):
            raise UsageError(
                "After # an address has the fingerprint of the server's certificate, sha256: and 64 letters, as the "
                "invitation has it. This one is not whole: copy it again."
            )
        if parts.fragment and parts.scheme == "http":
            raise UsageError(
                f"The address names a certificate, and http://{host} shows none: nothing was sent. Write https://, as "
                "the invitation has it."
            )
        loopback = host == "localhost"
        with suppress(ValueError):  # a name, and no number
            loopback = ipaddress.ip_address(host).is_loopback
        if parts.scheme == "http" and not loopback and not insecure_http:
            raise UsageError(
                f"http://{host} is not encrypted: everybody along the way could read the token and the release. "
                "Use https://, or add --insecure-http if you know that the connection is safe (a private network, a "
                "tunnel)."
            )
        return cls(f"{parts.scheme}://{_netloc(host, port)}{parts.path.rstrip('/')}", loopback, parts.fragment or None)


def _netloc(host: str, port: int | None) -> str:
    """Spelled in one way: names of a server that were noted on this machine begin with it."""
    shown = f"[{host}]" if ":" in host else host
    return shown if port is None else f"{shown}:{port}"


class PinnedContext(ssl.SSLContext):
    """TLS with the one server whose certificate has this fingerprint, whoever issued it and whatever name it bears. The
    handshake proves that the server has the certificate's key; nothing is sent before the fingerprint was compared."""

    certificate: str

    def wrap_socket(self, *given: Any, **words: Any) -> ssl.SSLSocket:
        wrapped = super().wrap_socket(*given, **words)
        shown = wrapped.getpeercert(binary_form=True) or b""
        if not hmac.compare_digest(f"sha256:{hashlib.sha256(shown).hexdigest()}", self.certificate):
            wrapped.close()
            raise ssl.SSLCertVerificationError("the certificate is another one")
        return wrapped

    def wrap_bio(self, *_: Any, **__: Any) -> ssl.SSLObject:
        """Through a proxy that is reached by TLS itself the certificate could not be compared in time."""
        raise ssl.SSLCertVerificationError("the certificate cannot be compared through this proxy")


def read_token(file: Path | None = None) -> str:
    """The token in `file`, or in the environment; never quoted in an error."""
    if file is not None:
        if not file.is_file():
            raise UsageError(f"There is no token file {file}.")
        if not is_private(file):
            warnings.warn(
                f"The token file {file} can be read by others on this machine. Fix it: chmod 600 {file}",
                PrivacyLeakWarning,
                stacklevel=2,
            )
        text, where = file.read_text(encoding="utf-8", errors="replace"), f"The file {file}"
    else:
        text, where = os.environ.get(TOKEN_VARIABLE, ""), f"The variable {TOKEN_VARIABLE}"
        if not text.strip():
            raise UsageError(f"A token is needed. Give its file with --token-file, or set {TOKEN_VARIABLE}.")
    return check_token(text.strip(), where)


def check_token(token: str, where: str = "The token") -> str:
    if not _TOKEN.fullmatch(token):
        words = f"{where} does not contain a token. Tokens begin with sfu_ and are shown once, when they are created."
        raise UsageError(words)
    return token


Content = Callable[[], Iterator[bytes]]
"""Makes the body from its beginning, once for every attempt."""
Signed = Callable[[], Mapping[str, str]]
"""Makes the headers of a signature, anew for every attempt: none is taken twice."""

AGAIN = {408, 500, 502, 503, 504}
NOT_DONE = {429, 503}  # the server did nothing, so that even what must happen once only may be asked for again
LONGEST_WAIT = 120.0
NO_TLS = "what answers there does not speak TLS"


class UnansweredError(CoordinatorError):
    """Something was sent, and no answer came: whether it was done is not known."""


class Patience(NamedTuple):
    """Waits of 0.5, 1, 2, 4, ... seconds, shortened by up to half at random: sites that failed together spread out."""

    attempts: int = 7
    first: float = 0.5
    longest: float = 30.0
    sleep: Callable[[float], None] = time.sleep

    def wait(self, attempt: int, asked: float | None) -> None:
        doubled = min(self.longest, self.first * 2.0**attempt)
        pause = doubled * (0.5 + 0.5 * random.random())
        self.sleep(max(pause, asked or 0.0))


class Connection:
    """Sends requests with the token; keeps sockets open between them. Close it, or use it in a `with` block."""

    def __init__(self, address: Address, token: str | None, *, patience: Patience | None = None, transport: Any = None):
        self.address, self._patience = address, patience or Patience()
        self._met = False
        verify: bool | PinnedContext = True
        if address.certificate is not None:
            verify = PinnedContext(ssl.PROTOCOL_TLS_CLIENT)
            verify.check_hostname, verify.verify_mode, verify.certificate = False, ssl.CERT_NONE, address.certificate
        headers = {"User-Agent": f"sfumato/{__version__}", "Accept": "application/json"}
        if token is not None:
            headers["Authorization"] = f"Bearer {check_token(token)}"
        self._client = httpx.Client(
            headers=headers,
            # The server looks at a whole release before it answers.
            timeout=httpx.Timeout(60.0, connect=15.0, read=900.0),
            follow_redirects=False,  # a token or a release never goes where the user did not send it
            trust_env=not address.loopback,  # proxies and certificates of the environment; none to reach ourselves
            verify=verify,
            transport=transport,
        )

    def close(self) -> None:
        self._client.close()

    def ask(self, method: str, path: str, *, once: bool = False, **words: Any) -> Any:
        """Send and read the JSON that comes back (None without a body); `once`: it must not happen twice."""
        for attempt in range(self._patience.attempts):
            try:
                with self.answer(method, path, once=once, **words) as response:
                    body = body_of(response)
                return json_of(body) if body else None
            except BrokenOffError:
                if once or attempt == self._patience.attempts - 1:
                    raise
                self._patience.wait(attempt, None)
        raise AssertionError("the last attempt returns or raises")

    @contextmanager
    def answer(
        self,
        method: str,
        path: str,
        *,
        content: Content | None = None,
        signed: Signed | None = None,
        once: bool = False,
        **words: Any,
    ) -> Iterator[httpx.Response]:
        """The first answer that is not to be tried again, if it is a good one; its body is not read yet. `content` and
        `signed` are asked for anew for every attempt; `words` are those of a request: json, headers, params."""
        for attempt in range(self._patience.attempts):
            last = attempt == self._patience.attempts - 1
            body = content() if content else None
            request = self._client.build_request(method, self.address.base + path, content=body, **words)
            request.headers.update(signed() if signed else {})
            response = self._send(request, once, last)
            if response is None:
                self._patience.wait(attempt, None)
                continue
            try:
                if response.is_success:
                    yield response
                    return
                if response.is_redirect:
                    raise CoordinatorError(
                        f"{self.address.base} redirects to another address, which is not followed: a token or a "
                        "release goes only where you send it. If the coordinator has moved, give the new address with "
                        "--to."
                    )
                failed = refusal(response.status_code, body_of(response))
                asked = _seconds(response.headers.get("Retry-After"))
                if last or not _again(failed.status, once, asked):
                    raise failed
            finally:
                response.close()
            self._patience.wait(attempt, asked)

    def _send(self, request: httpx.Request, once: bool, last: bool) -> httpx.Response | None:
        """An answer, or None where none came and another attempt is allowed."""
        base = self.address.base
        try:
            response = self._client.send(request, stream=True)
            self._met = True
            return response
        except httpx.UnsupportedProtocol:
            raise CoordinatorError(f"{base} cannot be contacted: check the address.") from None
        except (httpx.TransportError, httpx.InvalidURL) as error:
            sent_nothing = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)
            self._met = self._met or not sent_nothing
            if "certificate" in str(error).lower():
                raise CoordinatorError(
                    f"The certificate of {base} is not trusted, so nothing was sent. If the invitation has an address "
                    "with #sha256:..., give it whole. If your organization has its own authority, name its file in "
                    "SSL_CERT_FILE."
                    if self.address.certificate is None
                    else f"The certificate of {base} is not the one that its address names, so nothing was sent. Ask "
                    "the study's owner whether the server has a new one; if not, someone else answers in its place."
                ) from None
            # A server that was there and refuses now is being restarted; one that never was is not there.
            if (absent := _absent(error)) and (absent == NO_TLS or not self._met):
                words = f"{base} cannot be reached: {absent}. Nothing was sent. Check the address and the port."
                raise CoordinatorError(words) from None
            if last or (once and not sent_nothing):
                raise UnansweredError(
                    f"{base} cannot be reached ({type(error).__name__}). Check the address, the network and the proxy "
                    "(HTTPS_PROXY), and try again: what was already sent is not sent or counted twice."
                ) from None
            return None


class Speaker:
    """Whoever speaks over a connection, for a `with` block."""

    _connection: Connection

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._connection.close()


def _absent(error: BaseException | None) -> str | None:
    """Why there is no server, where waiting would not help: the port is closed, or there is no such name."""
    while error is not None:
        if isinstance(error, ConnectionRefusedError):
            return "no server listens there"
        if isinstance(error, ssl.SSLError) and getattr(error, "reason", None) == "WRONG_VERSION_NUMBER":
            return NO_TLS
        if isinstance(error, socket.gaierror) and error.errno == socket.EAI_NONAME:
            return "no machine has that name"
        error = error.__cause__ or error.__context__
    return None


def _again(status: int, once: bool, asked: float | None) -> bool:
    if asked is not None and asked > LONGEST_WAIT:
        return False
    if status in NOT_DONE:
        return True
    # A conflict that ends by itself says when: an earlier attempt of ours is still being looked at.
    return not once and (status in AGAIN or (status == 409 and asked is not None))


def _seconds(text: str | None) -> float | None:
    """Retry-After: seconds, or a date."""
    for read in (float, lambda date: email.utils.parsedate_to_datetime(date).timestamp() - time.time()):
        with suppress(TypeError, ValueError):
            return max(0.0, read(text))  # type: ignore[arg-type]
    return None
