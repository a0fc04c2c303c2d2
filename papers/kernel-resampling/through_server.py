"""The L-site experiment through the server: sites push, the coordinator pools and trains; for `run.py --server`."""

from __future__ import annotations

from typing import Any


def compare() -> dict[str, Any]:
    """Errors of one configuration, pooled through a server on the loopback and pooled in memory."""
    raise SystemExit("The experiment through the server is not part of this version; leave --server out.")
