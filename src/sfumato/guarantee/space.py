"""Which releases may be pooled: those whose rows mean the same numbers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from sfumato.table import Encoding


def encoding_space(encoding: Encoding) -> str:
    """SHA-256 of what gives encoded numbers their meaning: names, kinds, bounds, categories, missing, classes.

    Where bounds come from, weights and reasons do not change the numbers and are left out, so that a schema
    whose bounds an owner declared public still pools with one whose owner did not.
    """
    columns = [
        [c.name, c.kind, c.low, c.high, list(c.categories) if c.categories is not None else None, c.missing]
        for c in encoding.schema.private
    ]
    label = encoding.schema.label
    classes = [label.name, list(encoding.classes)] if label is not None else None
    text = json.dumps([columns, classes], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def space_of(encoding: Encoding, transform: Mapping[str, Any], *, post_processing: str | None = None) -> str:
    """The `space` of a release: its encoding, and the basis or a commitment to the key.

    Noise is not part of it: parts of different strength lie in the same space, and learners know each part's noise.
    """
    text = json.dumps([encoding_space(encoding), dict(transform, variances=None), post_processing], sort_keys=True)
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()
