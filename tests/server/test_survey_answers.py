"""Answers as they arrive: what fits is packed, and everything else is refused with its reason."""

from __future__ import annotations

import json

import numpy as np
import pytest
from survey_examples import message

from sfumato.study.server.store.survey_store import AnswerError, pack, read_answer, unpack


def read(body: bytes, **how: object) -> object:
    return read_answer(body, **{"width": 10, "classes": 2, "latest": 3, **how})  # type: ignore[arg-type]


def test_bits_survive_packing() -> None:
    rng = np.random.default_rng(5)
    rows = (rng.random((40, 13)) < 0.5).astype(np.uint8)
    packed = [pack([int(j) for j in np.flatnonzero(row)], 13) for row in rows]
    assert {len(each) for each in packed} == {2}
    assert np.array_equal(unpack(packed, 13), rows)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", "malformed"),
        (b"[1, 2]", "malformed"),
        (b'{"id": 3}', "malformed"),
        (message([1], name="somebody"), "malformed"),  # nothing about the respondent may be sent, even by mistake
        (message([1]).replace(b"[1]", b'["1"]'), "malformed"),
        (message([1], version=0), "unknown-version"),
        (message([1], version=4), "unknown-version"),
        (message([1], label=2), "unknown-label"),
        (message([1], label=-1), "unknown-label"),
        (message([10]), "bad-bits"),
        (message([-1]), "bad-bits"),
        (message([3, 3]), "bad-bits"),
        (message([3, 2]), "bad-bits"),
        (message([1], id="short"), "bad-id"),
        (message([1], id="A" * 21 + "B"), "bad-id"),  # a second spelling of another name
        (message([1], id="A" * 21 + "/"), "bad-id"),
    ],
    ids=map(str, range(20)),
)
def test_what_does_not_fit_is_refused(body: bytes, code: str) -> None:
    with pytest.raises(AnswerError) as refused:
        read(body)
    assert refused.value.code == code


def test_a_survey_by_invitation_asks_for_a_ticket_of_this_name() -> None:
    body = message([1], ticket="abc")
    for refused in (message([1]), body):
        with pytest.raises(AnswerError, match="by invitation"):
            read(refused, good_ticket=lambda _name, _ticket: False)
    asked: list[tuple[str, str]] = []
    read(body, good_ticket=lambda *given: bool(asked.append(given)) or True)
    assert asked == [(json.loads(body)["id"], "abc")]
    with pytest.raises(AnswerError, match="JSON object"):  # a code beside an answer would say whose it is
        read(message([1], code="abc"))


def test_numbers_that_are_too_large_do_no_harm() -> None:
    with pytest.raises(AnswerError):
        read(json.dumps({"id": "A" * 22, "version": 10**30, "label": 0, "bits": []}).encode())
    with pytest.raises(AnswerError):
        read(message([1], label=10**18))
