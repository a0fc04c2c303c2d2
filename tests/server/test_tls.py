"""TLS out of the box, over real sockets: the certificate that the invitation names, no other, and no plain HTTP."""

from __future__ import annotations

import datetime
import ssl

import consortium
import httpx
import pytest
from cryptography import x509
from live import live

from sfumato.core.errors import CoordinatorError, UsageError
from sfumato.guarantee.signer import Signer
from sfumato.study.client import Coordinator, Parcel
from sfumato.study.client.connection import Address
from sfumato.study.client.coordinator import open_log
from sfumato.study.server.settings import Certificate

OTHER = "sha256:" + "0" * 64


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A server with a certificate that it made: its address, the fingerprint, a study, a site's token, the store."""
    settings = consortium.settings(
        tmp_path_factory.mktemp("tls") / "data", tls_self_made=True, stranger_rate=consortium.PLENTY
    )
    settings.data.mkdir()
    made = Certificate.of(settings)
    with live(settings, ssl_certfile=made.certificate, ssl_keyfile=made.key) as (url, app):
        study, _ = app.state.store.studies.create(consortium.study())
        token = app.state.store.sites.invite(study, "North").token
        yield url, made.pin.removeprefix("#"), study, token, app.state.store


def test_the_named_certificate_is_enough(served):
    url, fingerprint, study, token, _ = served
    with Coordinator(f"{url}#{fingerprint}", token) as coordinator:
        assert coordinator.study(study).id == study
        assert coordinator.address.link == f"{url}#{fingerprint}"
    assert open_log(f"{url}/log#{fingerprint}").checkpoint.size == 0


def test_another_certificate_is_refused_before_anything_is_sent(served, monkeypatch):
    url, _, study, token, _ = served
    sent = []
    monkeypatch.setattr(ssl.SSLSocket, "sendall", lambda *_: sent.append(1))
    with Coordinator(f"{url}#{OTHER}", token) as coordinator, pytest.raises(CoordinatorError) as error:
        coordinator.study(study)
    assert "is not the one that its address names, so nothing was sent" in str(error.value)
    assert sent == []
    with pytest.raises(CoordinatorError, match="is not the one that its address names"):
        open_log(f"{url}#{OTHER}")


def test_a_certificate_without_a_name_for_it_is_not_trusted(served):
    url, _, study, token, _ = served
    with Coordinator(url, token) as coordinator, pytest.raises(CoordinatorError, match="give it whole"):
        coordinator.study(study)


def test_a_signed_push_over_tls(served, tmp_path):
    url, fingerprint, study, token, _ = served
    consortium.release(tmp_path)
    signer, parcel = Signer.at(tmp_path / "signer"), Parcel.open(tmp_path / "release")
    served[4].keys.enroll(study, "North", signer.fingerprint)
    with (
        Coordinator(f"{url}#{fingerprint}", token) as stolen,
        pytest.raises(CoordinatorError, match="not signed by it"),
    ):
        stolen.push(study, parcel)
    with Coordinator(f"{url}#{fingerprint}", token, signer=signer) as site:
        receipt = site.push(study, parcel)
        assert site.push(study, parcel) == receipt
        site.withdraw(study, parcel.sha256)


def test_never_less_than_tls(served):
    url, fingerprint, _, token, _ = served
    plain = url.replace("https://", "http://")
    with pytest.raises(UsageError, match="names a certificate, and http"):
        Coordinator(f"{plain}#{fingerprint}", token)
    with pytest.raises(UsageError, match="names a certificate"):
        Address.read(f"http://study.example#{fingerprint}", insecure_http=True)
    with pytest.raises(UsageError, match="is not encrypted"):
        Address.read("http://study.example")
    with pytest.raises(httpx.TransportError):  # the port speaks nothing else
        httpx.get(f"{plain}/healthz", trust_env=False)


@pytest.mark.parametrize("end", ["#sha256:" + "0" * 63, "#sha256:" + "G" * 64, "#0", "#sha256:" + "0" * 65, "#a=b"])
def test_half_a_fingerprint_is_no_fingerprint(end):
    with pytest.raises(UsageError, match="not whole"):
        Address.read(f"https://study.example{end}")


def test_a_server_that_falls_back_to_http_is_refused(served, tmp_path):
    """The same address, and plain HTTP behind it."""
    with live(consortium.settings(tmp_path)) as (url, _):
        address = url.replace("http://", "https://")
        for end in ("", f"#{served[1]}"):
            with Coordinator(address + end, served[3]) as coordinator:
                for met in (False, True):  # one that spoke TLS a moment ago is not waited for, either
                    coordinator._connection._met = met
                    with pytest.raises(CoordinatorError, match="does not speak TLS"):
                        coordinator.study(served[2])


def test_the_certificate_is_made_once_and_private(tmp_path):
    made = Certificate.self_made(tmp_path, ["study.example"])
    assert Certificate.self_made(tmp_path, ["another"]).pin == made.pin
    assert made.key.stat().st_mode & 0o777 == 0o600
    found = x509.load_pem_x509_certificate(made.certificate.read_bytes())
    names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost", "study.example"]
    assert found.not_valid_after_utc - found.not_valid_before_utc > datetime.timedelta(days=3650)
    assert found.signature_hash_algorithm.name == "sha256"
    made.certificate.write_text("damaged")
    with pytest.raises(UsageError, match="damaged"):
        Certificate.self_made(tmp_path, [])


def test_what_is_no_certificate(tmp_path):
    made = Certificate.self_made(tmp_path, [])
    (tmp_path / "other").mkdir()
    other = Certificate.self_made(tmp_path / "other", [])
    key = tmp_path / "key.pem"
    key.write_text(other.key.read_text().split("-----BEGIN CERTIFICATE")[0])

    def given(**words):
        return Certificate.of(consortium.settings(tmp_path, **{name: str(path) for name, path in words.items()}))

    assert given() is None
    assert given(tls_certificate=made.certificate, tls_key=made.key).pin == ""
    for words, why in (
        ({"tls_certificate": made.certificate}, "needs both files"),
        ({"tls_key": made.key}, "needs both files"),
        ({"tls_certificate": made.certificate, "tls_key": key}, "do not belong together"),
        ({"tls_certificate": tmp_path / "none", "tls_key": key}, "no file"),
        ({"tls_certificate": key, "tls_key": key}, "no certificate"),
    ):
        with pytest.raises(UsageError, match=why):
            given(**words)
    with pytest.raises(UsageError, match="Choose one"):
        Certificate.of(consortium.settings(tmp_path, tls_self_made=True, tls_key=str(key)))
