"""What travels to Spark's tasks and back is sealed: nothing private stands in a closure, a log or a spilled file.

Tasks carry secrets: the run key, the ledger's key, a rotation. What they find is private too: sums over rows. Both are
encrypted (AES-256-GCM) under a secret that no task carries. On a cluster it is Spark's own,
`spark.authenticate.secret`, which executors hold in their environment and which Spark keeps out of its logs. On one
machine it lies in a file that only its owner can read, and is removed with the run.
"""

from __future__ import annotations

import os
import pickle
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from sfumato.core.errors import UsageError
from sfumato.core.files import write_whole

VARIABLE = "_SPARK_AUTH_SECRET"
"""Where Spark hands its secret to executors, which hand it on to their Python processes."""
INFO, NONCE_BYTES, SALT_BYTES = b"sfumato/spark/seal/1", 12, 16


@dataclass(frozen=True)
class Seal:
    """Says where the secret is, and never what it is: this is all that a closure holds in the clear."""

    salt: bytes
    file: str | None = None

    def close(self, value: Any) -> bytes:
        """The value, encrypted; functions that were defined anywhere travel as well."""
        nonce = os.urandom(NONCE_BYTES)
        return nonce + AESGCM(self._key()).encrypt(nonce, _dumps(value), INFO)

    def open(self, sealed: bytes) -> Any:
        """The inverse of `close`; what was not closed under the same secret is never looked at."""
        try:
            plain = AESGCM(self._key()).decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], INFO)
        except InvalidTag:
            raise UsageError(
                "A task of another Spark application, or an executor with another spark.authenticate.secret, answered. "
                "Nothing was released."
            ) from None
        return pickle.loads(plain)

    def _key(self) -> bytes:
        secret = Path(self.file).read_bytes() if self.file else os.environ.get(VARIABLE, "").encode()
        if not secret:
            raise UsageError(
                f"Executors do not hold Spark's secret ({VARIABLE}), so the run key cannot reach them. Standalone and "
                "Kubernetes clusters hand it to them; on YARN, use a client of one machine (--master local[*])."
            )
        return HKDF(algorithm=SHA256(), length=32, salt=self.salt, info=INFO).derive(secret)


@contextmanager
def seal_for(master: str, secret: str | None) -> Iterator[Seal]:
    """The seal of one run: with Spark's own secret, or on one machine with a file of the owner's."""
    if not is_one_machine(master):
        assert secret is not None  # checked when the session was
        before = os.environ.get(VARIABLE)
        os.environ[VARIABLE] = secret  # for this process, which has it from Spark's settings
        try:
            yield Seal(os.urandom(SALT_BYTES))
        finally:
            if before is None:
                os.environ.pop(VARIABLE)
            else:
                os.environ[VARIABLE] = before
        return
    folder = Path(tempfile.mkdtemp(prefix="sfumato-"))  # 0700
    try:
        write_whole(folder / "seal", os.urandom(32), private=True)
        yield Seal(os.urandom(SALT_BYTES), str(folder / "seal"))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def is_one_machine(master: str) -> bool:
    """Whether driver and tasks are threads and children of one process; local-cluster is a cluster that pretends."""
    return master == "local" or master.startswith("local[")


def _dumps(value: Any) -> bytes:
    try:
        from pyspark import cloudpickle
    except ImportError:  # without Spark only our own tests come here, with functions that have a name
        return pickle.dumps(value)
    return bytes(cloudpickle.dumps(value))
