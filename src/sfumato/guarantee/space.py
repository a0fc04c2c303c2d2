"""Which releases may be pooled: those whose rows mean the same numbers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from sfumato.table import Encoding

GUIDED = ("guided", "staged")


def space_of(encoding: Encoding, transform: Mapping[str, Any], *, post_processing: str | None = None) -> str:
    """The `space` of a release: SHA-256 of its encoding, and of the basis or a commitment to the key.

    Noise is not part of it: parts of different strength lie in the same space, and learners know each part's noise. For
    the same reason guidance is not: it steers how likely bits are, and a bit means the same choice under any of it. Nor
    are the guides of stages: each release has its own, and learners that know the stages read it by them.
    """
    told = {name: value for name, value in transform.items() if name not in ("reason", "orthogonal", "estimated")}
    meaning = {"kind": transform["kind"]} if transform["kind"] in GUIDED else {**told, "variances": None}
    text = json.dumps([encoding.fingerprint(), meaning, post_processing], sort_keys=True)
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()
