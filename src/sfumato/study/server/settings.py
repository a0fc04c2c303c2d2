"""How the server runs; nothing is read or opened before it is asked for."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from sfumato.core.errors import UsageError
from sfumato.ledger.notes import COSIGNATURE, NoteKey

PREFIX = "SFUMATO_"
_TRUTH = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}


@dataclass(frozen=True)
class Rate:
    """So many requests a second on average, and so many at once."""

    per_second: float
    burst: float

    @classmethod
    def read(cls, text: str) -> Rate:
        """ "20" or "20/100": requests a second, and the burst (five seconds' worth without it)."""
        try:
            first, _, second = text.partition("/")
            rate = cls(float(first), float(second or 5 * float(first)))
        except ValueError:
            raise UsageError(f"A rate must be written as 20 or 20/100. Got {text!r} instead.") from None
        if not (0 < rate.per_second < 1e9 and 1 <= rate.burst < 1e9):
            raise UsageError(f"A rate must be positive, and its burst at least 1. Got {text!r} instead.")
        return rate


@dataclass(frozen=True)
class Settings:
    """Every knob of the server. Sizes are in bytes, times in seconds.

    `database` None is SQLite in the data folder; several processes need PostgreSQL. `trust_proxy` believes a proxy's
    X-Forwarded headers, which anybody can write who reaches the server without one; `proxy_hops` is how many proxies in
    a row add to them. `hosts` are the names that the server goes by, with commas between them; empty for any. The
    public log is called `log_name` from its first entry on, for example study.example/log; by default the first of
    `hosts` names it. `witnesses` are the keys of those whose word on the log is shown, with commas between them.
    The server speaks TLS with the files `tls_certificate` and `tls_key`, or with a certificate that it makes.
    """

    data: Path
    database: str | None = None
    max_push_bytes: int = 2 << 30
    max_test_bytes: int = 256 << 20
    max_json_bytes: int = 64 << 10
    max_rows: int = 50_000_000
    max_pushes: int = 128
    max_site_pushes: int = 8
    max_site_bytes: int = 100 << 30
    max_site_rows: int = 1_000_000_000
    max_site_releases: int = 10_000
    token_rate: Rate = Rate(20, 200)
    study_rate: Rate = Rate(200, 2000)
    stranger_rate: Rate = Rate(5, 50)
    respondent_rate: Rate = Rate(20, 600)
    idle_seconds: float = 60.0
    session_hours: float = 8.0
    validators: int = 2
    validation_seconds: int = 600
    validation_memory: int = 2 << 30
    training_memory: int = 8 << 30
    shutdown_seconds: int = 60
    spare_disk_bytes: int = 64 << 20
    trust_proxy: bool = False
    proxy_hops: int = 1
    hosts: str = ""
    tls_certificate: str = ""
    tls_key: str = ""
    tls_self_made: bool = False
    log_name: str = ""
    witnesses: str = ""
    worker: bool = True

    def host_names(self) -> list[str]:
        """`hosts`, one by one."""
        return [name.strip() for name in self.hosts.split(",") if name.strip()]

    def witness_keys(self) -> list[NoteKey]:
        """`witnesses`, one by one."""
        try:
            found = [NoteKey.read(one) for one in self.witnesses.split(",") if one.strip()]
        except ValueError as error:
            raise UsageError(f"SFUMATO_WITNESSES has a key that cannot be read. {error}") from None
        if any(one.kind != COSIGNATURE for one in found):
            raise UsageError(
                "SFUMATO_WITNESSES has a key of a log; `sfumato study log --cosign` makes one of a witness."
            )
        return found

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None, **given: Any) -> Settings:
        """SFUMATO_DATA, SFUMATO_DATABASE, SFUMATO_MAX_PUSH_BYTES, ...; what is `given` (and not None) comes first."""
        environment = os.environ if environment is None else environment
        found: dict[str, Any] = {}
        for field in fields(cls):
            text = environment.get(PREFIX + field.name.upper())
            if text:
                found[field.name] = _read(field.name, str(field.type), text)
        found |= {name: value for name, value in given.items() if value is not None}
        if "data" not in found:
            raise UsageError("The server needs a data folder. Give --data, or set SFUMATO_DATA.")
        found["data"] = Path(found["data"])
        made = cls(**found)
        made.witness_keys()
        return made


def _read(name: str, kind: str, text: str) -> Any:
    try:
        if kind == "bool":
            return _TRUTH[text.lower()]
        if kind in ("int", "float"):
            value = {"int": int, "float": float}[kind](text)
            if not 0 < value < 1e18:
                raise ValueError
            return value
    except (KeyError, ValueError):
        raise UsageError(f"The setting {PREFIX}{name.upper()} must be {_KIND[kind]}. Got {text!r} instead.") from None
    return Rate.read(text) if kind == "Rate" else text


_KIND = {"bool": "true or false", "int": "a positive whole number", "float": "a positive number"}
