"""Keys of sites: where one is enrolled, a stolen token alone does nothing, and no signature is taken twice."""

from __future__ import annotations

import base64
import json

import consortium
import pytest

from sfumato.core.errors import UsageError
from sfumato.guarantee.signer import Signer
from sfumato.study.protocol.messages import HEADER, push_wish, signed_header, withdraw_wish


@pytest.fixture
def signer(tmp_path):
    return Signer.at(tmp_path / "signer")


@pytest.fixture
def token(study, signer):
    """A site's, whose key is enrolled."""
    found = study.invite("North")
    study.store.keys.enroll(study.id, "North", signer.fingerprint)
    return found


def wish(study, body):
    return push_wish(study.id, consortium.sha(body), "train")


def refused(answer, code="unsigned"):
    assert (answer.status_code, answer.json()["error"]) == (403, code), answer.text
    return answer.json()["message"]


def test_a_token_alone_pushes_nothing(study, token, body):
    assert "not signed by it" in refused(study.push(body, token))
    assert study.call("GET", "/releases", token).json() == []


def test_a_signed_push_is_taken_once(study, token, body, signer):
    header = signed_header(signer, wish(study, body))
    answer = study.push(body, token, headers=header)
    assert answer.status_code == 201, answer.text
    assert "taken once" in refused(study.push(body, token, headers=header), "replayed")
    again = study.push(body, token, headers=signed_header(signer, wish(study, body)))
    assert (again.status_code, again.json()) == (200, answer.json())


@pytest.mark.parametrize(
    "changed", [{"study": "another"}, {"sha256": "0" * 64}, {"purpose": "test"}, {"do": "withdraw"}, {"more": "x"}]
)
def test_a_signature_of_something_else_is_refused(study, token, body, signer, changed):
    refused(study.push(body, token, headers=signed_header(signer, {**wish(study, body), **changed})))


def test_another_key_is_refused(study, token, body, tmp_path):
    other = Signer.at(tmp_path / "other")
    refused(study.push(body, token, headers=signed_header(other, wish(study, body))))
    study.store.keys.enroll(study.id, "North", other.fingerprint)
    assert study.push(body, token, headers=signed_header(other, wish(study, body))).status_code == 201


def test_a_signature_of_a_card_is_not_one_of_a_push(study, token, body, signer):
    once = "0" * 32
    text = json.dumps({**wish(study, body), "once": once}, sort_keys=True, separators=(",", ":"))
    packed = base64.b64encode(signer.sign(text.encode()).encode()).decode()
    refused(study.push(body, token, headers={HEADER: f"{once}.{packed}"}))


@pytest.mark.parametrize("header", ["", "x", ".", "0" * 32 + ".", "0" * 32 + ".AAAA", "Z" * 32 + ".AAAA"])
def test_what_is_no_signature(study, token, body, header):
    refused(study.push(body, token, headers={HEADER: header}))


def test_a_withdrawal_is_signed_too(study, token, body, signer):
    sha256 = consortium.sha(body)
    assert study.push(body, token, headers=signed_header(signer, wish(study, body))).status_code == 201
    refused(study.call("DELETE", f"/releases/{sha256}", token))
    refused(study.call("DELETE", f"/releases/{sha256}", token, headers=signed_header(signer, wish(study, body))))
    header = signed_header(signer, withdraw_wish(study.id, sha256))
    assert study.call("DELETE", f"/releases/{sha256}", token, headers=header).status_code == 204


def test_the_owner_withdraws_as_before(study, token, body, signer):
    assert study.push(body, token, headers=signed_header(signer, wish(study, body))).status_code == 201
    assert study.call("DELETE", f"/releases/{consortium.sha(body)}").status_code == 204


def test_sites_without_a_key_push_as_before(study, token, body):  # noqa: ARG001 - another site has one
    assert study.push(body, study.invite("South")).status_code == 201


def test_keys_are_listed_and_removed(study, token, body, signer):
    keys = study.store.keys
    assert [(one.site, one.fingerprint) for one in keys.all(study.id)] == [("North", signer.fingerprint)]
    assert keys.all(study.id, "South") == []
    with pytest.raises(UsageError, match="already"):
        keys.enroll(study.id, "North", signer.fingerprint)
    with pytest.raises(UsageError, match="no site with this name"):
        keys.enroll(study.id, "Nowhere", signer.fingerprint)
    with pytest.raises(UsageError, match="not enrolled"):
        keys.remove(study.id, "North", "another")
    keys.remove(study.id, "North", signer.fingerprint)
    assert study.push(body, token).status_code == 201
