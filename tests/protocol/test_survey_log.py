"""The log of guidance: any change, gap or fork is found out."""

from __future__ import annotations

import dataclasses

import pytest

from sfumato.core.errors import CardError
from sfumato.study.protocol.agreed import LogEntry, check_chain

START = "sha256:survey"


def log(length: int, word: str = "v") -> list[LogEntry]:
    entries: list[LogEntry] = []
    for version in range(1, length + 1):
        previous = entries[-1].hash if entries else START
        entries.append(
            LogEntry.chained(
                previous, version=version, k=2, sha256=f"{word}{version}", inputs_sha256="i", answers=100 * version
            )
        )
    return entries


def test_a_chain_leads_to_its_head() -> None:
    entries = log(5)
    assert check_chain(entries, START) == entries[-1].hash
    assert check_chain(entries[3:], entries[2].hash, first=4) == entries[-1].hash
    assert [LogEntry.from_dict(entry.to_dict()) for entry in entries] == entries


@pytest.mark.parametrize("field", ["version", "k", "sha256", "inputs_sha256", "answers", "previous", "hash"])
def test_no_field_of_an_entry_can_be_changed(field: str) -> None:
    found = log(1)[0].to_dict()
    found[field] = found[field] + 1 if isinstance(found[field], int) else found[field][:-1] + "x"
    with pytest.raises(CardError, match="was changed"):
        LogEntry.from_dict(found)


def test_gaps_forks_and_shrinking_counts_are_found() -> None:
    entries = log(4)
    with pytest.raises(CardError, match="gap or a fork"):
        check_chain([entries[0], *entries[2:]], START)
    with pytest.raises(CardError, match="gap or a fork"):
        check_chain([*entries[:2], *log(4, "w")[2:]], START)
    with pytest.raises(CardError, match="gap or a fork"):
        check_chain(entries, "sha256:another survey")
    shrunk = LogEntry.chained(entries[1].hash, version=3, k=2, sha256="v", inputs_sha256="i", answers=1)
    with pytest.raises(CardError, match="fewer answers"):
        check_chain([*entries[:2], shrunk], START)


def test_an_unreadable_entry_is_refused() -> None:
    broken = dataclasses.asdict(log(1)[0]) | {"k": "many"}
    with pytest.raises(CardError, match="cannot be read"):
        LogEntry.from_dict(broken)
