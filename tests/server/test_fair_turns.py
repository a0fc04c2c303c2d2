"""Turns in rounds: who asks for many waits behind himself."""

import anyio
import pytest

from sfumato.study.server.context import FairTurns


def served(size, each, arrivals):
    """Who got turns in which order, one after the other, when all of `arrivals` wait from the start."""
    order = []

    async def use(turns, who):
        async with turns.turn(who):
            order.append(who)
            assert turns.running <= size
            await anyio.sleep(0)

    async def run():
        turns = FairTurns(size, each)
        async with anyio.create_task_group() as group, turns.turn("first"):
            for who in arrivals:
                group.start_soon(use, turns, who)
            await anyio.wait_all_tasks_blocked()
        assert (turns.running, turns.waiting) == (0, 0)

    anyio.run(run)
    return order


def test_a_late_site_waits_for_one_turn_of_each_other():
    order = served(1, 1, ["a", "a", "a", "a", "b", "c"])
    assert sorted(order[:3]) == ["a", "b", "c"]
    assert order[3:] == ["a", "a", "a"]


@pytest.mark.parametrize(("size", "each"), [(2, 1), (4, 2)])
def test_one_site_never_holds_all_turns(size, each):
    async def run():
        turns, release = FairTurns(size, each), anyio.Event()
        running = []

        async def hold(who):
            async with turns.turn(who):
                running.append(who)
                await release.wait()

        async with anyio.create_task_group() as group:
            for _ in range(8):
                group.start_soon(hold, "greedy")
            await anyio.wait_all_tasks_blocked()
            assert running == ["greedy"] * each
            assert turns.waiting == 8 - each
            group.start_soon(hold, "honest")
            await anyio.wait_all_tasks_blocked()
            assert running[-1] == "honest"
            release.set()
        assert (turns.running, turns.waiting) == (0, 0)

    anyio.run(run)


def test_who_gives_up_leaves_the_line():
    async def run():
        turns = FairTurns(1, 1)
        async with turns.turn("a"):
            with anyio.move_on_after(0):
                async with turns.turn("b"):
                    pytest.fail("there is no turn for b")
            assert turns.waiting == 0
        async with turns.turn("b"):
            assert turns.running == 1

    anyio.run(run)
