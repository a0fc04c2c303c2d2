"""What a client signs: every attempt anew, and nothing without a key."""

from __future__ import annotations

from scripted import BREAK, SITE

from sfumato.guarantee.signer import Signer
from sfumato.study.client import Coordinator, Parcel
from sfumato.study.protocol.messages import HEADER, push_wish, signed_by, withdraw_wish


def headers(server):
    return [request["headers"].get(HEADER) for request in server.seen]


def test_every_attempt_is_signed_anew(server, waits, release, receipt, tmp_path):
    server.script = [BREAK, (503, {}), receipt]
    signer, parcel = Signer.at(tmp_path / "signer"), Parcel.open(release())
    with Coordinator(server.url, SITE, patience=waits[1], signer=signer) as coordinator:
        coordinator.push("k3f9", parcel)
    said = [signed_by(header, push_wish("k3f9", parcel.sha256, "train")) for header in headers(server)]
    assert [key for key, _ in said] == [signer.public] * 3
    assert len({once for _, once in said}) == 3


def test_a_withdrawal_is_signed(server, waits, tmp_path):
    server.script = [(204, b"")]
    signer = Signer.at(tmp_path / "signer")
    with Coordinator(server.url, SITE, patience=waits[1], signer=signer) as coordinator:
        coordinator.withdraw("k3f9", "a" * 64)
    assert signed_by(headers(server)[0], withdraw_wish("k3f9", "a" * 64))[0] == signer.public


def test_without_a_key_nothing_is_signed(server, waits, release, receipt):
    server.script = [receipt]
    with Coordinator(server.url, SITE, patience=waits[1]) as coordinator:
        coordinator.push("k3f9", Parcel.open(release()))
    assert headers(server) == [None]
