"""The certificate that the server speaks TLS with: the operator's own files, or one that the server makes for itself.

A certificate that nobody else has signed is believed by its fingerprint, which is part of the address that sites get.
"""

from __future__ import annotations

import datetime
import hashlib
import ipaddress
import ssl
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from sfumato.core.errors import UsageError
from sfumato.core.files import exclusive, write_whole
from sfumato.study.server.settings import Settings

FILE, YEARS = "tls.pem", 20
"""Key and certificate in one file, which only the server's user can read."""


@dataclass(frozen=True)
class Certificate:
    """Files as uvicorn takes them. `fingerprint` is what sites pin; None where an authority vouches for it."""

    certificate: Path
    key: Path
    fingerprint: str | None = None

    @classmethod
    def of(cls, settings: Settings) -> Certificate | None:
        """As the settings say; None where the server speaks plain HTTP."""
        if settings.tls_self_made:
            if settings.tls_certificate or settings.tls_key:
                raise UsageError("The server has a certificate of its own, or makes one. Choose one of the two.")
            return cls.self_made(settings.data, settings.host_names())
        if not settings.tls_certificate and not settings.tls_key:
            return None
        if not settings.tls_certificate or not settings.tls_key:
            raise UsageError("TLS needs both files: --certificate and --certificate-key.")
        return cls(Path(settings.tls_certificate), Path(settings.tls_key))._checked()

    @classmethod
    def self_made(cls, data: Path, names: Iterable[str]) -> Certificate:
        """The one in the data folder, made there at first use."""
        path = data / FILE
        with exclusive(path):
            if not path.exists():
                write_whole(path, _made(list(names)), private=True)
        try:
            der = ssl.PEM_cert_to_DER_cert(_part(path.read_text(encoding="ascii")))
        except (OSError, ValueError):
            raise UsageError(f"{path} is damaged. Take it from the backup: sites know this certificate.") from None
        return cls(path, path, f"sha256:{hashlib.sha256(der).hexdigest()}")._checked()

    def _checked(self) -> Certificate:
        for path in (self.certificate, self.key):
            if not path.is_file():
                raise UsageError(f"There is no file {path} for TLS.")
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(self.certificate, self.key, password="")
        except (ssl.SSLError, OSError, ValueError):
            raise UsageError(
                f"{self.certificate} and {self.key} are no certificate and its key, as PEM and without a password, or "
                "they do not belong together."
            ) from None
        return self


def _part(pem: str) -> str:
    return pem[pem.index("-----BEGIN CERTIFICATE-----") :]


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
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return secret + built.public_bytes(Encoding.PEM)
