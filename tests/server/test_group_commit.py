"""Answers that arrive together are written together, and every one learns its own outcome."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

import pytest

from sfumato.study.server.shell import ApiError
from sfumato.study.server.survey import desk
from sfumato.study.server.survey.desk import GroupCommit


def test_many_items_take_few_transactions_and_keep_their_outcomes() -> None:
    groups: list[int] = []

    def write(items: Sequence[int]) -> list[int]:
        groups.append(len(items))
        return [item * item for item in items]

    async def run() -> list[int]:
        commit: GroupCommit[int, int] = GroupCommit(write, largest=400)
        outcomes = await asyncio.gather(*(commit.put(n) for n in range(1000)))
        await commit.close()
        return list(outcomes)

    assert asyncio.run(run()) == [n * n for n in range(1000)]
    assert sum(groups) == 1000
    assert max(groups) <= 400
    assert len(groups) <= 4


def test_an_error_reaches_its_own_group_and_later_groups_go_on() -> None:
    def write(items: Sequence[int]) -> list[int]:
        if 0 in items:
            raise ConnectionError("the database went away")
        return list(items)

    async def run() -> tuple[BaseException | int, int]:
        commit: GroupCommit[int, int] = GroupCommit(write)
        first = (await asyncio.gather(commit.put(0), return_exceptions=True))[0]
        second = await commit.put(1)
        await commit.close()
        return first, second

    first, second = asyncio.run(run())
    assert isinstance(first, ConnectionError)
    assert second == 1


def test_a_client_that_goes_away_takes_nobody_with_it() -> None:
    gate = threading.Event()
    written: list[int] = []

    def write(items: Sequence[int]) -> list[int]:
        gate.wait(5)
        written.extend(items)
        return list(items)

    async def run() -> int:
        commit: GroupCommit[int, int] = GroupCommit(write)
        leaving, staying = asyncio.create_task(commit.put(1)), asyncio.create_task(commit.put(2))
        await asyncio.sleep(0.01)
        leaving.cancel()
        gate.set()
        outcome = await staying
        await commit.close()
        return outcome

    assert asyncio.run(run()) == 2
    assert sorted(written) == [1, 2]


def test_a_full_queue_refuses_instead_of_growing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desk, "LONGEST_QUEUE", 3)
    gate = threading.Event()

    def write(items: Sequence[int]) -> list[int]:
        gate.wait(5)
        return list(items)

    async def run() -> None:
        commit: GroupCommit[int, int] = GroupCommit(write)
        first = asyncio.create_task(commit.put(0))
        await asyncio.sleep(0.01)
        others = [asyncio.create_task(commit.put(n)) for n in (1, 2, 3)]
        await asyncio.sleep(0.01)
        with pytest.raises(ApiError, match="503"):
            await commit.put(4)
        gate.set()
        assert await asyncio.gather(first, *others) == [0, 1, 2, 3]
        await commit.close()

    asyncio.run(run())
