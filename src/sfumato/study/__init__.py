"""Many sites or many respondents, and a coordinator whom none of them needs to trust: protocol, client, server."""

from __future__ import annotations

import importlib
from typing import Any

from sfumato.core.errors import UsageError


def server_part(name: str) -> Any:
    """A module of the server, or a word about what to install."""
    try:
        return importlib.import_module(f"sfumato.study.server.{name}")
    except ImportError as error:
        raise UsageError(
            f"The server needs {error.name}, which is not installed: pip install 'sfumato[server]'."
        ) from None
