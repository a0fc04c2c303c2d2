"""What is random and must be the same for every block and site: drawn once, kept apart, never uploaded."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sfumato.core.array_types import Floats
from sfumato.core.errors import CardError
from sfumato.core.files import is_private, read_kept, write_whole

FORMAT, VERSION = "sfumato-key", 1


@dataclass(frozen=True, repr=False)
class Key:
    """Named matrices (a projection, a rotation, a centre) for one mechanism and one source space.

    `fingerprint` is the source encoding's: a key drawn for other columns or bounds is refused. The card carries
    `commitment()`, a salted hash: it tells whether two releases share a key and nothing about the key.
    """

    mechanism: str
    fingerprint: str
    arrays: Mapping[str, Floats]
    salt: bytes

    @classmethod
    def draw(cls, mechanism: str, fingerprint: str, arrays: Mapping[str, Floats]) -> Key:
        """A new key around freshly drawn `arrays`."""
        frozen = {name: np.ascontiguousarray(array, dtype="<f8") for name, array in sorted(arrays.items())}
        return cls(mechanism, fingerprint, frozen, os.urandom(32))

    def __repr__(self) -> str:
        shapes = {name: array.shape for name, array in self.arrays.items()}
        return f"Key(mechanism={self.mechanism!r}, shapes={shapes}, content hidden)"

    def commitment(self) -> str:
        """HMAC-SHA256 of the content under the salt, which stays in the key file."""
        return "hmac-sha256:" + hmac.new(self.salt, self._content(), hashlib.sha256).hexdigest()

    def affine(self) -> tuple[Floats, Floats]:
        """(A, c) of ``z = A x + c``: the secret `matrix`, turned about the `centre` where there is one."""
        matrix = self.arrays["matrix"]
        centre = self.arrays.get("centre")
        return matrix, np.zeros(len(matrix)) if centre is None else -(matrix @ centre)

    def _content(self) -> bytes:
        parts = [f"{self.mechanism}|{self.fingerprint}".encode()]
        for name, array in sorted(self.arrays.items()):
            parts += [f"|{name}{array.shape}|".encode(), np.ascontiguousarray(array, dtype="<f8").tobytes()]
        return b"".join(parts)

    def save(self, path: Path) -> None:
        """Write the key so that only its owner can read it."""
        arrays = {
            name: {
                "shape": array.shape,
                "float64": base64.b64encode(np.ascontiguousarray(array, dtype="<f8").tobytes()).decode(),
            }
            for name, array in self.arrays.items()
        }
        data = {
            "format": FORMAT,
            "version": VERSION,
            "private": "As sensitive as the data it was used on. Never upload it.",
            "mechanism": self.mechanism,
            "source": self.fingerprint,
            "salt": self.salt.hex(),
            "arrays": arrays,
            "commitment": self.commitment(),
        }
        write_whole(path, json.dumps(data, indent=1), private=True)

    @classmethod
    def load(cls, path: Path | str) -> Key:
        """Read a key; one that others could have read, or that was edited or cut short, is refused."""
        path = Path(path)
        if not path.is_file():
            raise CardError(f"There is no key file {path}.")
        lost = f"{path} is not a key, or it is damaged or cut short. Take it from a backup."
        key, commitment = read_kept(path, "The key", (FORMAT, VERSION), cls._read, lost)
        if not is_private(path):
            raise CardError(
                f"The key {path} can be read by others on this machine. Find out who could have, then: chmod 600 {path}"
            )
        if not hmac.compare_digest(key.commitment(), commitment):
            raise CardError(f"The key {path} was changed since it was drawn. Take it from a backup.")
        return key

    @classmethod
    def _read(cls, data: Mapping[str, Any]) -> tuple[Key, str]:
        """The key, and the commitment that was written beside it."""
        arrays = {
            name: np.frombuffer(base64.b64decode(part["float64"], validate=True), dtype="<f8")
            .reshape(part["shape"])
            .astype(np.float64)
            for name, part in data["arrays"].items()
        }
        return cls(data["mechanism"], data["source"], arrays, bytes.fromhex(data["salt"])), str(data["commitment"])

    def check(self, mechanism: str, fingerprint: str) -> None:
        """Refuse a key that was drawn for another mechanism or another source space."""
        if self.mechanism != mechanism:
            raise CardError(f"This key belongs to {self.mechanism}, not to {mechanism}. Give the right --key.")
        if self.fingerprint != fingerprint:
            raise CardError(
                "This key was drawn for other columns, bounds or categories. "
                "Use the schema it was drawn with (--schema), so that all releases share one space."
            )
