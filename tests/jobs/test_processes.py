"""Work in several processes: the same results as in one, and a process that is lost or fails is told."""

import math
import os

import pytest

from sfumato.core.errors import SfumatoError
from sfumato.core.processes import _Other, in_processes


def test_two_processes_find_what_one_finds():
    wanted = {number: number**2 for number in range(40)}
    assert dict(in_processes(range(40), math.pow, (2,), 1)) == wanted
    assert dict(in_processes(iter(range(40)), math.pow, (2,), 2)) == wanted


def test_a_process_that_fails_or_is_lost_is_told_without_a_cell():
    other, lost = _Other(math.sqrt, ()), _Other(os._exit, ())
    try:
        assert other.ask(4.0) == 2.0
        with pytest.raises(SfumatoError, match=r"failed \(ValueError\)"):
            other.ask(-1.0)
        assert other.ask(9.0) == 3.0, "the next item is another matter"
        with pytest.raises(SfumatoError, match="fewer --workers"):
            lost.ask(3)
    finally:
        other.end()
        lost.end()
    assert other.process.returncode is not None
