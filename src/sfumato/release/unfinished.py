"""What a streaming run keeps so that, killed, it can go on where it stopped: beside the release, private, until commit.

A pass that is finished left its sums, a block that is perturbed lies in the file of buckets, both under a hash. The run
key rests with them (0600) and is overwritten and removed right before the release gets its name. Streams depend on what
a block holds, so even a table that changed unnoticed meets no noise a second time.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import pickle
import secrets
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sfumato.core.errors import UsageError
from sfumato.core.files import write_whole
from sfumato.guarantee import Key
from sfumato.noise import Streams

WORK, PLAN, KEY, SECRET = ".run", "plan.json", "noise.key", "key.json"


def unfinished_of(out: Path) -> Path:
    """Where a streaming run works until its folder gets its name."""
    return out.with_name(f".{out.name}.unfinished")


@dataclass
class Unfinished:
    """The private files of one run that may be resumed, inside the folder that is not yet the release."""

    work: Path
    plan: dict[str, Any] = field(default_factory=dict)
    spend: Callable[[], None] | None = None
    """Tells the ledger that the run ended, so that it cannot be continued from a copy of these files."""
    _passes: int = 0

    @property
    def begun(self) -> bool:
        """Whether there is anything to go on with."""
        return (self.work / PLAN).is_file()

    @property
    def name(self) -> str:
        """Of the run, in the ledger."""
        return str(self.plan["run"])

    def begin(self, plan: Mapping[str, Any], given: Streams | None) -> Streams:
        """Start a run of this plan, or go on with it; returns its streams. Another plan than the first is refused. The
        key of streams that are `given` is known elsewhere, and is not kept here."""
        for file in self.work.parent.iterdir():  # files that were being written when the run died
            if file != self.work:
                file.unlink()
        if not self.begun:
            streams = given or Streams()
            self.work.mkdir(mode=0o700, exist_ok=True)
            if given is None:
                write_whole(self.work / KEY, streams.export_key().hex(), private=True)
            self._note({**plan, "run": secrets.token_hex(8)})
            return streams
        try:
            self.plan = json.loads((self.work / PLAN).read_text(encoding="utf-8"))
            streams = given or Streams(bytes.fromhex((self.work / KEY).read_text(encoding="utf-8")))
        except (OSError, ValueError, UsageError):
            raise self._hopeless("its notes are damaged") from None
        plan = json.loads(json.dumps(plan))
        before = {path: mark for path, *mark in self.plan.get("files", [])}
        for path, *mark in plan["files"]:
            if before.get(path) != mark:
                raise self._hopeless(f"{path} changed since it began, or is new")
        if len(before) != len(plan["files"]):
            raise self._hopeless("a file of the table is gone")
        for what, value in plan.items():
            if _without_comments(self.plan.get(what)) != _without_comments(value):
                also = " or with other parameters" if what == "mechanism" else ""
                raise self._hopeless(f"it was begun with another {what}{also}")
        return streams

    def check_owner(self) -> None:
        """What others could have put there is not read: sums are Python objects, and the key decides the noise."""
        if not hasattr(os, "geteuid"):
            return
        for folder in (self.work.parent, self.work):
            if folder.is_symlink() or folder.exists():
                about = folder.lstat()
                if about.st_mode & 0o077 or about.st_uid != os.geteuid():
                    raise self._hopeless(f"others than you may have written into {folder}, which is not yours alone")

    def _note(self, plan: Mapping[str, Any]) -> None:
        self.plan = dict(plan)
        write_whole(self.work / PLAN, json.dumps(self.plan), private=True)

    def check_fit(self, recipe: Mapping[str, Any]) -> None:
        """Blocks of one release have one recipe."""
        digest = hashlib.sha256(json.dumps(recipe, sort_keys=True, default=str).encode()).hexdigest()
        if self.plan.setdefault("recipe", digest) != digest:
            raise self._hopeless(
                "what was fitted differs: a file that it rests on changed, or it was begun on another processor"
            )
        self._note(self.plan)

    def _hopeless(self, why: str) -> UsageError:
        return UsageError(
            f"The unfinished run in {self.work.parent} cannot go on: {why}. Undo that, or start again with --force "
            "instead of --resume."
        )

    def saved_sum(self) -> Any:
        """The sum of the pass that comes next, if the killed run finished it; None otherwise."""
        path = self._pass_file()
        if path.name not in self.plan:  # not finished, or killed before it was noted
            return None
        self._passes += 1
        try:
            content = path.read_bytes()
            if hashlib.sha256(content).hexdigest() != self.plan[path.name]:
                raise self._hopeless(f"{path} is not what it wrote")
            return _SumsOnly(io.BytesIO(content)).load()
        except (OSError, pickle.UnpicklingError):
            raise self._hopeless("its notes are damaged") from None

    def save_sum(self, found: Any) -> None:
        """Keep the sum of the pass that was just made."""
        path, content = self._pass_file(), pickle.dumps(found)
        write_whole(path, content, private=True)
        self._note({**self.plan, path.name: hashlib.sha256(content).hexdigest()})
        self._passes += 1

    def _pass_file(self) -> Path:
        return self.work / f"pass-{self._passes}"

    def secret(self, draw: Callable[[], Key]) -> Key:
        """The mechanism's key: that of the killed run, or a new one."""
        path = self.work / SECRET
        if not path.exists():
            draw().save(path)
        return Key.load(path)

    def finish(self) -> None:
        """The release gets its name now. Spent comes first: a run that could end twice would be paid for once."""
        if self.spend is not None:
            self.spend()
        self.destroy()

    def destroy(self) -> None:
        """The run key is overwritten first, then everything goes."""
        erase(self.work / KEY)
        if self.work.exists():
            shutil.rmtree(self.work)


class _SumsOnly(pickle.Unpickler):
    """Reads arrays and our own classes, and calls nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        from sfumato.core.moved import module_now  # of earlier versions, whose runs alone name such modules

        module = module_now(module)
        array = module.partition(".")[0] == "numpy" and name in ("_reconstruct", "ndarray", "dtype", "scalar")
        if array or module.startswith("sfumato."):
            found = super().find_class(module, name)
            if array or (isinstance(found, type) and found.__module__ == module):  # not what a module of ours imports
                return found
        raise pickle.UnpicklingError("something that is no sum")


def erase(path: Path) -> None:
    """Overwrite a secret, then remove its file. What a disk or a backup copied meanwhile stays there."""
    if not path.exists():
        return
    with path.open("r+b") as file:
        file.write(bytes(path.stat().st_size))
        file.flush()
        os.fsync(file.fileno())
    path.unlink()


def _without_comments(value: Any) -> Any:
    """What a schema's text says, whichever version explained it in the comments above."""
    if not isinstance(value, str):
        return value
    return [line for line in value.splitlines() if not line.startswith("#")]
