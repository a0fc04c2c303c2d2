"""Children of the server: processes that speak JSON, a line at a time, know none of its secrets, and have limits."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
import platform
import select
import struct
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

# A process that gives up the network and nearly all files, for good: what it reads was written by strangers. On Linux,
# Landlock leaves it only some folders to read and none to write, and a seccomp filter refuses sockets, new
# programs and looking into other processes. Both are asked of the kernel directly; neither needs any right. Where a
# kernel or a processor has one of them not, the other still holds, and `confine` says what does.

FILES, NETWORK = "files", "network"
FOLDER = "SFUMATO_CHECKED_FOLDER"  # variable that tells a child which folder it may see
_NO_NEW_PRIVILEGES, _SECCOMP, _FILTER = 38, 22, 2
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same on every processor
_READ_FILE, _READ_FOLDER = 1 << 2, 1 << 3
_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
"""Rights over files that each version of Landlock knows: all of them are taken, reading is given back for some."""
_SYSTEM = ("/usr/share/zoneinfo", "/etc/ssl", "/etc/localtime")

_PROCESSORS: dict[str, tuple[int, dict[str, int]]] = {
    "x86_64": (
        0xC000003E,
        {"socket": 41, "socketpair": 53, "execve": 59, "ptrace": 101, "process_vm_readv": 310, "process_vm_writev": 311}
        | {"execveat": 322, "bpf": 321, "io_uring_setup": 425, "pidfd_getfd": 438},
    ),
    "aarch64": (
        0xC00000B7,
        {"socket": 198, "socketpair": 199, "execve": 221, "ptrace": 117, "process_vm_readv": 270}
        | {"process_vm_writev": 271, "execveat": 281, "bpf": 280, "io_uring_setup": 425, "pidfd_getfd": 438},
    ),
}
"""Of every processor its number in filters and the calls that are refused."""


def confine(readable: Iterable[Path]) -> list[str]:
    """Give up everything but reading the `readable` folders and Python's own; what of it the system could do. To be
    called before there is a second thread: it holds for this one and for those that it starts."""
    if sys.platform != "linux":
        return []
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) != 0:
        return []
    # Where Python's modules and their libraries lie: some are loaded only when they are first needed.
    own = [sys.prefix, sys.base_prefix, sys.exec_prefix, "/usr/lib", "/lib", "/lib64", "/usr/local/lib", *_SYSTEM]
    loaded = [Path(place) for place in dict.fromkeys([*own, *sys.path]) if place and Path(place).exists()]
    held = [FILES] if _give_up_files(libc, [*readable, *loaded]) else []
    return held + ([NETWORK] if _give_up_network(libc) else [])


def _give_up_files(libc: ctypes.CDLL, readable: list[Path]) -> bool:
    version = libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), 1)
    if version < 1:  # the kernel has no Landlock, or it is turned off
        return False
    taken = (1 << _RIGHTS[min(version, max(_RIGHTS))]) - 1
    asked = ctypes.create_string_buffer(struct.pack("=Q", taken))
    rules = libc.syscall(_CREATE_RULESET, asked, ctypes.c_size_t(8), 0)
    if rules < 0:
        return False
    try:
        for place in readable:
            try:
                opened = os.open(place, os.O_PATH | os.O_CLOEXEC)
            except OSError:  # what cannot be opened cannot be read either
                continue
            rights = _READ_FILE | _READ_FOLDER if place.is_dir() else _READ_FILE
            libc.syscall(_ADD_RULE, rules, 1, ctypes.create_string_buffer(struct.pack("=Qi", rights, opened)), 0)
            os.close(opened)
        return int(libc.syscall(_RESTRICT_SELF, rules, 0)) == 0
    finally:
        os.close(rules)


def _give_up_network(libc: ctypes.CDLL) -> bool:
    """By instructions (code, jump if so, jump if not, value): calls in the list fail with EPERM, others pass. Calls in
    another numbering (32 bits, x32) could mean anything, and end the process."""
    if platform.machine() not in _PROCESSORS:
        return False
    processor, refused = _PROCESSORS[platform.machine()]
    load, equal, at_least, give = 0x20, 0x15, 0x35, 0x06
    end, refuse, let = 0x80000000, 0x00050000 | errno.EPERM, 0x7FFF0000
    numbers = sorted(refused.values())
    count = len(numbers)
    program = [(load, 0, 0, 4), (equal, 1, 0, processor), (give, 0, 0, end), (load, 0, 0, 0)]
    program += [(at_least, 0, 1, 0x40000000), (give, 0, 0, end)]
    program += [(equal, count - place, 0, number) for place, number in enumerate(numbers)]
    program += [(give, 0, 0, let), (give, 0, 0, refuse)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *instruction) for instruction in program))
    header = ctypes.create_string_buffer(struct.pack("@HP", len(program), ctypes.addressof(code)))
    return int(libc.prctl(_SECCOMP, _FILTER, ctypes.byref(header), 0, 0)) == 0


_PASSED_ON = ("PATH", "HOME", "LANG", "LC_ALL", "PYTHONPATH", "VIRTUAL_ENV", "TMPDIR")
LONGEST_ANSWER = 64 << 20


class Child:
    """A process that does `what`, with pipes at both ends, and of the environment only what every program may know.
    `-P`: the folder in which the server happens to run is no place for modules."""

    def __init__(self, what: str, environment: Mapping[str, str]) -> None:
        known = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "sfumato.study.server.child_jobs", what],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**known, **environment},
            start_new_session=True,
        )
        self._heard = bytearray()

    @property
    def pid(self) -> int:
        return self._process.pid

    def tell(self, job: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(job).encode() + b"\n")
        self._process.stdin.flush()

    def hear(self, seconds: float) -> list[dict[str, Any]]:
        """What it has said meanwhile; waits for up to `seconds`. `OSError` of a child that is gone, `ValueError` of one
        that says what it should not."""
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], max(0.0, seconds))
        if not ready:
            return []
        part = os.read(self._process.stdout.fileno(), 1 << 20)
        if not part or len(self._heard) > LONGEST_ANSWER:
            raise OSError("The child is gone.")
        self._heard += part
        if b"\n" not in part:
            return []
        *lines, self._heard = self._heard.split(b"\n")
        return [json.loads(line) for line in lines]

    def close(self) -> None:
        self._process.kill()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        self._process.wait()
