"""Whether the parts of a card agree: a card that was edited in one place is detected.

This stops mistakes and careless edits, not liars. A card whose parts were all changed together, or whose
release was made differently, is not detected here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from sfumato.guarantee.guarantee import EMPIRICAL, Guarantee

LABEL_CLASSES = "classes of the label"
_IN_WORDS = ("words",)  # wording may change between versions; figures may not


def contradiction(data: Mapping[str, Any]) -> str | None:
    """What does not fit on a card that follows the schema, or None."""
    stated = data["guarantee"]
    computed = Guarantee.from_dict(stated).to_dict()
    for name, value in computed.items():
        if name in stated and name not in _IN_WORDS and not _same(stated[name], value):
            return f"its guarantee contradicts itself ({name})"
    return (
        _wrong_total(stated, data["earlier_releases"])
        or _wrong_target(data)
        or _wrong_claim(data)
        or _wrong_label(data)
        or _wrong_transform(data)
    )


def _wrong_target(data: Mapping[str, Any]) -> str | None:
    target = data["release_schema"].get("target")
    named = [column["name"] for column in data["source_schema"]["columns"] if column.get("role") == "target"]
    if named != ([target["name"]] if target else []):
        return "what it says about the number to predict is inconsistent"
    return None


def _wrong_claim(data: Mapping[str, Any]) -> str | None:
    """A guarantee beside what rules one out."""
    if data["guarantee"]["kind"] == EMPIRICAL:
        return None
    if data["release_schema"].get("target"):
        return "it claims a guarantee beside a number that is released as it is"
    learned = any(not item.startswith(LABEL_CLASSES) for item in data["learned_from_data"])
    return "it claims a guarantee that its own assumptions do not allow" if learned or data["reproducible"] else None


def _wrong_label(data: Mapping[str, Any]) -> str | None:
    label = data["release_schema"]["label"]
    state = label_state(label and label["keep"], data["recipe"]["rows"] == "nobody")
    return "what it says about the label is inconsistent" if state != data["label"] else None


def _wrong_transform(data: Mapping[str, Any]) -> str | None:
    transform = data["transform"]
    if transform["kind"] == "affine" and not _is_matrix(transform, len(data["release_schema"]["columns"])):
        return "its transform is not a matrix with a finite row for every released column"
    return None


def label_state(keep: float | None, made_up: bool) -> str:
    """What became of the label: how often it was kept (None without one), and whether rows are made up."""
    if keep is None:
        return "none"
    return "drawn" if made_up else "exact" if keep == 1 else "randomized"


def _wrong_total(stated: Mapping[str, Any], earlier: Mapping[str, Any]) -> str | None:
    """All releases together prove no more than this one alone; without earlier ones nobody reads the total."""
    total, proved = earlier["total_epsilon_record"], stated["epsilon_record"]
    if stated.get("central"):
        return None  # its own cost is kept apart from the total, which is of records that were perturbed
    if earlier["count"] and total is not None and (proved is None or total < proved * (1 - 1e-9)):
        return "its total of all releases contradicts its own guarantee"
    return None


def _is_matrix(transform: Mapping[str, Any], columns: int) -> bool:
    matrix, offset = transform["matrix"], transform["offset"]
    widths = {len(row) for row in matrix}
    if len(matrix) != columns or len(offset) != columns or len(widths) != 1:
        return False
    return all(map(math.isfinite, offset)) and all(math.isfinite(math.fsum(map(abs, row))) for row in matrix)


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, int | float) and isinstance(other, int | float):
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-300)
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_same(one[name], other[name]) for name in one)
    if isinstance(one, Sequence) and isinstance(other, Sequence) and not isinstance(one, str):
        return len(one) == len(other) and all(_same(a, b) for a, b in zip(one, other, strict=True))
    return bool(one == other)
