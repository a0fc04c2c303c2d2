"""One spelling for one meaning, so that people can compare a hash."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any


def canonical_json(value: Mapping[str, Any]) -> str:
    """JSON with sorted keys and no spaces; what JSON cannot say (NaN, infinity) is refused."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def hash_of(value: Mapping[str, Any]) -> str:
    """ "sha256:" and the hash of the canonical JSON."""
    return "sha256:" + hashlib.sha256(canonical_json(value).encode()).hexdigest()
