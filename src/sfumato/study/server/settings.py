"""How the server runs, the certificate that it speaks TLS with, and its data folder; nothing is opened unasked."""

from __future__ import annotations

import contextlib
import datetime
import fcntl
import hashlib
import ipaddress
import os
import secrets
import shutil
import ssl
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from sfumato.core.errors import UsageError
from sfumato.core.files import PRIVATE, exclusive, locked, put_in_place, sync_folder, write_whole
from sfumato.ledger.notes import COSIGNATURE, NoteKey

PREFIX = "SFUMATO_"
_TRUTH = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}


@dataclass(frozen=True)
class Rate:
    """So many requests a second on average, and so many at once."""

    per_second: float
    burst: float

    @classmethod
    def read(cls, text: str) -> Rate:
        """ "20" or "20/100": requests a second, and the burst (five seconds' worth without it)."""
        try:
            first, _, second = text.partition("/")
            rate = cls(float(first), float(second or 5 * float(first)))
        except ValueError:
            raise UsageError(f"A rate must be written as 20 or 20/100. Got {text!r} instead.") from None
        if not (0 < rate.per_second < 1e9 and 1 <= rate.burst < 1e9):
            raise UsageError(f"A rate must be positive, and its burst at least 1. Got {text!r} instead.")
        return rate


@dataclass(frozen=True)
class Settings:
    """Every knob of the server. Sizes are in bytes, times in seconds.

    `database` None is SQLite in the data folder; several processes need PostgreSQL. `trust_proxy` believes a proxy's
    X-Forwarded headers, which anybody can write who reaches the server without one; `proxy_hops` is how many proxies in
    a row add to them. `hosts` are the names that the server goes by, with commas between them; empty for any. The
    public log is called `log_name` from its first entry on, for example study.example/log; by default the first of
    `hosts` names it. `witnesses` are the keys of those whose word on the log is shown, with commas between them.
    The server speaks TLS with the files `tls_certificate` and `tls_key`, or with a certificate that it makes.
    """

    data: Path
    database: str | None = None
    max_push_bytes: int = 2 << 30
    max_test_bytes: int = 256 << 20
    max_json_bytes: int = 64 << 10
    max_rows: int = 50_000_000
    max_pushes: int = 128
    max_site_pushes: int = 8
    max_site_bytes: int = 100 << 30
    max_site_rows: int = 1_000_000_000
    max_site_releases: int = 10_000
    token_rate: Rate = Rate(20, 200)
    study_rate: Rate = Rate(200, 2000)
    stranger_rate: Rate = Rate(5, 50)
    respondent_rate: Rate = Rate(20, 600)
    idle_seconds: float = 60.0
    session_hours: float = 8.0
    validators: int = 2
    validation_seconds: int = 600
    validation_memory: int = 2 << 30
    training_memory: int = 8 << 30
    shutdown_seconds: int = 60
    spare_disk_bytes: int = 64 << 20
    trust_proxy: bool = False
    proxy_hops: int = 1
    hosts: str = ""
    tls_certificate: str = ""
    tls_key: str = ""
    tls_self_made: bool = False
    log_name: str = ""
    witnesses: str = ""
    worker: bool = True

    def host_names(self) -> list[str]:
        """`hosts`, one by one."""
        return [name.strip() for name in self.hosts.split(",") if name.strip()]

    def witness_keys(self) -> list[NoteKey]:
        """`witnesses`, one by one."""
        try:
            found = [NoteKey.read(one) for one in self.witnesses.split(",") if one.strip()]
        except ValueError as error:
            raise UsageError(f"SFUMATO_WITNESSES has a key that cannot be read. {error}") from None
        if any(one.kind != COSIGNATURE for one in found):
            words = "SFUMATO_WITNESSES has a key of a log; `sfumato study log --cosign` makes one of a witness."
            raise UsageError(words)
        return found

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None, **given: Any) -> Settings:
        """SFUMATO_DATA, SFUMATO_DATABASE, SFUMATO_MAX_PUSH_BYTES, ...; what is `given` (and not None) comes first."""
        environment = os.environ if environment is None else environment
        stated = {one: environment.get(PREFIX + one.name.upper()) for one in fields(cls)}
        found = {one.name: _read(one.name, str(one.type), text) for one, text in stated.items() if text}
        found |= {name: value for name, value in given.items() if value is not None}
        if "data" not in found:
            raise UsageError("The server needs a data folder. Give --data, or set SFUMATO_DATA.")
        found["data"] = Path(found["data"])
        made = cls(**found)
        made.witness_keys()
        return made


_KIND = {"bool": "true or false", "int": "a positive whole number", "float": "a positive number"}


def _read(name: str, kind: str, text: str) -> Any:
    try:
        if kind == "bool":
            return _TRUTH[text.lower()]
        if kind in ("int", "float"):
            value = {"int": int, "float": float}[kind](text)
            if not 0 < value < 1e18:
                raise ValueError
            return value
    except (KeyError, ValueError):
        raise UsageError(f"The setting {PREFIX}{name.upper()} must be {_KIND[kind]}. Got {text!r} instead.") from None
    return Rate.read(text) if kind == "Rate" else text


# The certificate: the operator's own files, or one that the server makes for itself. One that nobody else has signed is
# believed by its fingerprint, which is part of the address that sites get.

FILE, YEARS = "tls.pem", 20  # key and certificate in one file, which only the server's user can read


@dataclass(frozen=True)
class Certificate:
    """Files as uvicorn takes them. `pin`, its fingerprint, ends the address; empty if an authority vouches for it."""

    certificate: Path
    key: Path
    pin: str = ""

    @classmethod
    def of(cls, settings: Settings) -> Certificate | None:
        """As the settings say; None where the server speaks plain HTTP."""
        files = [Path(one) for one in (settings.tls_certificate, settings.tls_key) if one]
        if settings.tls_self_made:
            if files:
                raise UsageError("The server has a certificate of its own, or makes one. Choose one of the two.")
            return cls.self_made(settings.data, settings.host_names())
        if len(files) == 1:
            raise UsageError("TLS needs both files: --certificate and --certificate-key.")
        return cls(files[0], files[1]) if files else None

    @classmethod
    def self_made(cls, data: Path, names: Iterable[str]) -> Certificate:
        """The one in the data folder, made there at first use."""
        path = data / FILE
        with exclusive(path):
            if not path.exists():
                write_whole(path, _made(list(names)), private=True)
        try:
            pem = path.read_text(encoding="ascii")
            der = ssl.PEM_cert_to_DER_cert(pem[pem.index("-----BEGIN CERTIFICATE-----") :])
        except (OSError, ValueError):
            raise UsageError(f"{path} is damaged. Take it from the backup: sites know this certificate.") from None
        return cls(path, path, f"#sha256:{hashlib.sha256(der).hexdigest()}")

    def __post_init__(self) -> None:
        if missing := [path for path in (self.certificate, self.key) if not path.is_file()]:
            raise UsageError(f"There is no file {missing[0]} for TLS.")
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(self.certificate, self.key, password="")
        except (ssl.SSLError, OSError, ValueError):
            raise UsageError(
                f"{self.certificate} and {self.key} are no certificate and its key, as PEM and without a password, or "
                "they do not belong together."
            ) from None


def _made(names: list[str]) -> bytes:
    """A key on P-256, and a certificate for it that it signed itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "sfumato coordinator")])
    now = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
    others: list[x509.GeneralName] = [x509.DNSName(one) for one in ["localhost", *names] if one.isascii()]
    built = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=365 * YEARS))
        .add_extension(x509.SubjectAlternativeName([*others, x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), True)
        .sign(key, hashes.SHA256())
    )
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()) + built.public_bytes(Encoding.PEM)


# Where files lie in the data folder, and how a pushed one becomes durable.
#
#     data/incoming/<random>/      what one process is receiving; gone when the process is
#     data/releases/<study>/       <sha256>.parquet
#     data/tests/<study>/          <sha256>.parquet or .csv: public test tables
#     data/models/<study>/         <model>.skops
#
# A release is visible once its row is committed. Files come first: body, fsync, rename, fsync of the folder, then the
# row. Between rename and commit a shared lock is held; who sweeps away files without a row takes it exclusively, so
# that no process removes what another is about to acknowledge.

NAME = "in-use"


class DataFolder:
    """Paths of one data folder, and this process's corner of `incoming`."""

    def __init__(self, data: Path) -> None:
        self.data = data
        for part in (data, data / "incoming", data / "releases", data / "tests", data / "models"):
            part.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._corner: tuple[Path, int] | None = None

    def release(self, study: str, sha256: str) -> Path:
        return self.data / "releases" / study / f"{sha256}.parquet"

    def test_table(self, study: str, sha256: str, format: str) -> Path:
        return self.data / "tests" / study / f"{sha256}.{format}"

    def model(self, study: str, model: str) -> Path:
        return self.data / "models" / study / f"{model}.skops"

    def open(self) -> None:
        """Take a corner of `incoming`, and remove those of processes that are gone."""
        with self.settling(exclusive=True):
            for old in (self.data / "incoming").iterdir():
                if not _is_held(old / NAME):
                    shutil.rmtree(old, ignore_errors=True)
            corner = self.data / "incoming" / secrets.token_hex(8)
            corner.mkdir(mode=0o700)
            in_use = os.open(corner / NAME, os.O_RDWR | os.O_CREAT, PRIVATE)
            fcntl.flock(in_use, fcntl.LOCK_EX)
            self._corner = corner, in_use

    def close(self) -> None:
        if self._corner is not None:
            shutil.rmtree(self._corner[0], ignore_errors=True)
            os.close(self._corner[1])
            self._corner = None

    def incoming(self) -> Path:
        """A new name to receive into."""
        if self._corner is None:
            self.open()
        assert self._corner is not None
        return self._corner[0] / secrets.token_hex(16)

    @contextlib.contextmanager
    def settling(self, *, exclusive: bool = False) -> Iterator[None]:
        """Held (shared) from rename to commit, and (exclusively) by who sweeps."""
        descriptor = os.open(self.data / ".settling", os.O_RDWR | os.O_CREAT, PRIVATE)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH)
            yield
        finally:
            os.close(descriptor)

    def settle(self, received: Path, place: Path) -> None:
        """Rename a received and synced file to its place, durably."""
        if not place.parent.exists():
            place.parent.mkdir(exist_ok=True, mode=0o700)
            sync_folder(place.parent.parent)
        put_in_place(received, place)

    def sweep(self, kept: set[tuple[str, str]]) -> None:
        """Remove release files that no row speaks of: pushes that died before they were acknowledged, withdrawals."""
        for path in (self.data / "releases").glob("*/*.parquet"):
            if (path.parent.name, path.stem) not in kept:
                path.unlink(missing_ok=True)


def _is_held(lock: Path) -> bool:
    """Whether a living process holds the corner, or may hold it, where the file system cannot tell."""
    try:
        file = lock.open("r+")
    except OSError:
        return False
    with file:
        try:
            return not locked(file, wait=False)
        except OSError:
            return True
