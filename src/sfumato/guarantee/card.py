"""The card: what a release says about itself, whether its parts agree, and the guarantee once more from its recipe."""

from __future__ import annotations

import hashlib
import json
import math
import secrets
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, fields, replace
from functools import cache, cached_property
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema

from sfumato.channels import Identity, RandomizedResponse, Recipe
from sfumato.core.errors import CardError
from sfumato.core.files import other_version, write_whole
from sfumato.core.wording import counted
from sfumato.guarantee.all_releases import AllReleases
from sfumato.guarantee.cost import Central
from sfumato.guarantee.guarantee import EMPIRICAL, LABEL_CLASSES, Guarantee, exact_target, learned_domain, proved
from sfumato.table import Encoding, Schema

# Whether the parts of a card agree: a card that was edited in one place is detected.
#
# This stops mistakes and careless edits, not liars. A card whose parts were all changed together, or whose release was
# made differently, is not detected here.


def contradiction(data: Mapping[str, Any]) -> str | None:
    """What does not fit on a card that follows the schema, or None."""
    stated, earlier = data["guarantee"], data["earlier_releases"]
    for name, value in Guarantee.from_dict(stated).to_dict().items():
        # wording may change between versions; figures may not
        if name in stated and name != "words" and not _same(stated[name], value):
            return f"its guarantee contradicts itself ({name})"
    # All releases together prove no more than this one alone. Without earlier ones the total is not read, and the cost
    # of made-up rows is kept apart from it: it is of records that were perturbed.
    total, alone = earlier["total_epsilon_record"], stated["epsilon_record"]
    counted_in = earlier["count"] and total is not None and not stated.get("central")
    if counted_in and (alone is None or total < alone * (1 - 1e-9)):
        return "its total of all releases contradicts its own guarantee"
    return next(_contradictions(data), None)


def _contradictions(data: Mapping[str, Any]) -> Iterator[str]:
    released, transform = data["release_schema"], data["transform"]
    label, target = released["label"], released.get("target")
    named = [column["name"] for column in data["source_schema"]["columns"] if column.get("role") == "target"]
    if named != ([target["name"]] if target else []):
        yield "what it says about the number to predict is inconsistent"
    if data["guarantee"]["kind"] != EMPIRICAL:  # beside what rules a guarantee out
        if target:
            yield "it claims a guarantee beside a number that is released as it is"
        learned = any(not item.startswith(LABEL_CLASSES) for item in data["learned_from_data"])
        if learned or data["reproducible"]:
            yield "it claims a guarantee that its own assumptions do not allow"
    if label_state(label and label["keep"], data["recipe"]["rows"] == "nobody") != data["label"]:
        yield "what it says about the label is inconsistent"
    if transform["kind"] == "affine" and not _is_matrix(transform, len(released["columns"])):
        yield "its transform is not a matrix with a finite row for every released column"


def label_state(keep: float | None, made_up: bool) -> str:
    """What became of the label: how often it was kept (None without one), and whether rows are made up."""
    if keep is None:
        return "none"
    return "drawn" if made_up else "exact" if keep == 1 else "randomized"


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


# Which releases may be pooled: those whose rows mean the same numbers.

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


FORMAT, VERSION = "sfumato-card", 2
MOST_BYTES = 1 << 26  # of a card; a matrix of a thousand columns takes a third of it
MOST_VALUES = 1 << 20  # of a card, without its matrix
SEEDED, EXPERIMENT = "not for release", "not for release: an experiment"
NOT_FOR_RELEASE = {
    SEEDED: "a fixed seed: anybody can repeat the noise",
    EXPERIMENT: "an experiment that no ledger counts",
}
"""Why nothing is proved of what is not for release, by what its card says (`reproducible`)."""
OLDER = "Make the release again with this version, or read it with the sfumato that the card's `versions` name."


@dataclass(frozen=True, repr=False)
class Card:
    """One release; see `card.schema.json` for the meaning of every field."""

    mechanism: Mapping[str, Any]
    source_schema: Mapping[str, Any]
    release_schema: Mapping[str, Any]
    space: str
    rows: int
    learned_from_data: list[str]
    label: str
    guarantee: Mapping[str, Any]
    transform: Mapping[str, Any]
    recipe: Mapping[str, Any]
    threat_model: Mapping[str, Any]
    reproducible: str | None
    chosen_by: str
    post_processing: str | None
    earlier_releases: Mapping[str, Any]
    papers: list[str]
    created: str
    versions: Mapping[str, str]
    format: str = FORMAT
    version: int = VERSION
    auditable: Mapping[str, str] | None = None
    """The auditor's public key, what the owner committed to, and what was answered; only where there is an auditor."""

    def __repr__(self) -> str:
        return f"<Card of {counted(self.rows, 'row')} by {self.mechanism['name']}: {self.guarantee['kind']}>"

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON; the format and version come first."""
        return deepcopy(self._stated())

    def _stated(self) -> dict[str, Any]:
        names = dict.fromkeys(["format", "version", *(field.name for field in fields(self))])
        return {name: getattr(self, name) for name in names if name != "auditable" or self.auditable is not None}

    def to_json(self) -> str:
        """To be read by people too: one line a value, and one a row of the matrix, which may have millions of them."""
        data, matrix = self._stated(), self.transform.get("matrix")
        if not matrix:
            return json.dumps(data, indent=1, allow_nan=False)
        here = secrets.token_hex(16)  # stands nowhere else, whatever columns are called
        text = json.dumps({**data, "transform": {**self.transform, "matrix": here}}, indent=1, allow_nan=False)
        rows = ",\n   ".join(json.dumps(row, allow_nan=False) for row in matrix)
        return text.replace(f'"{here}"', f"[\n   {rows}\n  ]")

    def save(self, path: Path) -> None:
        write_whole(path, self.to_json())

    @classmethod
    def load(cls, path: Path | str) -> Card:
        """Read `card.json`, given the file or the folder that holds it."""
        path = Path(path)
        path = path / "card.json" if path.is_dir() else path
        if not path.is_file():
            raise CardError(f"There is no card {path}. Give the folder that `sfumato sanitize` wrote.")
        try:
            data = from_json(path.read_bytes() if path.stat().st_size <= MOST_BYTES else b"")
        except ValueError as error:
            if path.suffix != ".json":
                raise CardError(f"{path} is no card. Give the folder that `sfumato sanitize` wrote.") from None
            raise CardError(f"The card {path} is not valid JSON: it is damaged or cut short.") from error
        return cls.from_dict(data, where=str(path))

    @classmethod
    def from_dict(cls, data: Any, where: str = "the card") -> Card:
        """Check against the published JSON Schema, then read."""
        check_version(data, where)
        small = _without_numbers(data)
        if _is_endless(small):
            raise CardError(f"{where} has more values than any card: it was edited or is damaged.")
        problems = sorted(card_validator().iter_errors(small), key=lambda error: list(error.absolute_path))
        if problems:
            place = ".".join(map(str, problems[0].absolute_path)) or "the top level"
            raise CardError(f"{where} does not follow the card's schema at {place}: it was edited or is damaged.")
        if wrong := contradiction(data):
            raise CardError(f"{where} was edited or is damaged: {wrong}.")
        card = cls(**data).in_own_words()
        card.made_by()  # refuses channels that cannot be, or do not fit the columns
        return card

    def in_own_words(self) -> Card:
        """The same with `guarantee.words` computed from its figures: what stands there is never read."""
        return replace(self, guarantee={**self.guarantee, "words": self.all_releases().in_words()})

    def says_the_same(self, text: bytes) -> bool:
        """Whether `text` is this card too; words may differ, which every version finds anew."""
        try:
            other = from_json(text)
            other["guarantee"]["words"] = self.guarantee["words"]
        except (ValueError, KeyError, TypeError):
            return False
        return bool(other == json.loads(self.to_json()))

    @property
    def is_formal(self) -> bool:
        """Whether the guarantee is proved, and not only conditional or empirical."""
        return bool(self.guarantee["kind"] != EMPIRICAL)

    @property
    def is_columnwise(self) -> bool:
        """Whether the release keeps the source's columns and units."""
        return bool(self.transform["kind"] == Identity.kind)

    @property
    def noise_path(self) -> str:
        """How noise was drawn."""
        return self.made_by().path

    @property
    def classes(self) -> tuple[str, ...]:
        """The label's classes, in the order of their codes; empty without a label."""
        label = self.release_schema["label"]
        return tuple(label["classes"]) if label else ()

    @property
    def target(self) -> str | None:
        """The number to predict that is released as it is, by name."""
        found = self.release_schema.get("target")
        return str(found["name"]) if found else None

    @property
    def label_keep(self) -> float:
        """Probability that a released label is the true one; 1 for an exact label."""
        label = self.release_schema["label"]
        return float(label["keep"]) if label else 1.0

    def source_encoding(self) -> Encoding:
        """How source rows become numbers."""
        return self._encoding

    @cached_property
    def _encoding(self) -> Encoding:
        """Made once: many ask for it, and it may have thousands of columns."""
        return Encoding(Schema.from_dict(self.source_schema))

    def stated_guarantee(self) -> Guarantee:
        """This release alone."""
        return Guarantee.from_dict(self.guarantee)

    def all_releases(self) -> AllReleases:
        """This release together with the earlier ones of the same rows: what the headline is about."""
        return AllReleases.of(self.stated_guarantee(), self.earlier_releases)

    def made_by(self) -> Recipe:
        """How the release came about: what adversaries, learners and coordinators read."""
        return self._recipe

    @cached_property
    def _recipe(self) -> Recipe:
        made = Recipe.from_dict(self.recipe, self.transform, self.source_encoding())
        written = len(made.encoding.groups) if made.is_columnwise else made.width
        if written != len(self.release_schema["columns"]):
            raise CardError("The card's recipe does not fit its released columns: it was edited or is damaged.")
        return made


def check_version(data: Any, where: str) -> None:
    """Refuse a card of another version before anything else of it is believed."""
    ours = isinstance(data, Mapping) and data.get("format") == FORMAT
    if ours and (why := other_version(data.get("version"), VERSION, older=OLDER)):
        raise CardError(f"{where} {why}")


def from_json(text: bytes | str) -> Any:
    """JSON that anybody may have written, with one meaning: no NaN, no number beyond doubles, no key twice. Else
    ValueError, also for what is too deep or too long."""
    if len(text) > MOST_BYTES:
        raise ValueError("too long")
    try:
        return json.loads(text, parse_constant=_a_double, parse_float=_a_double, object_pairs_hook=_each_once)
    except RecursionError:
        raise ValueError("too deep") from None


def _a_double(word: str) -> float:
    """Neither NaN nor Infinity, which JSON does not have and Python reads all the same."""
    if not math.isfinite(found := float(word)):
        raise ValueError(word)
    return found


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(found := dict(pairs)) != len(pairs):
        raise ValueError("a key twice")
    return found


def _is_endless(data: Any) -> bool:
    """Whether so much stands there that the validator would take minutes."""
    count, inside = 0, [data]
    while inside and count <= MOST_VALUES:
        part = inside.pop()
        if isinstance(part, list | dict):
            count += len(part)
            inside += part.values() if isinstance(part, dict) else part
    return count > MOST_VALUES


def _without_numbers(data: Any) -> Any:
    """The same without a matrix that is one beyond doubt: the validator takes half a minute for a million numbers."""
    transform = data.get("transform") if isinstance(data, Mapping) else None
    matrix = transform.get("matrix") if isinstance(transform, Mapping) else None
    if not isinstance(matrix, list) or not all(isinstance(row, list) for row in matrix):
        return data
    if not set().union(*(map(type, row) for row in matrix)) <= {int, float}:
        return data
    return {**data, "transform": {**transform, "matrix": []}}  # type: ignore[dict-item]


@cache
def card_validator() -> Any:
    """The published schema of `card.json`."""
    text = files("sfumato.guarantee").joinpath("card.schema.json").read_text(encoding="utf-8")
    return jsonschema.Draft202012Validator(json.loads(text))


# The guarantee once more, from what a card says was done.
#
# A server takes no site's word for an epsilon. It recomputes every figure from the card's recipe, by the function that
# the owner's program used, and takes from the card's `guarantee` only what stands in its way by its own words. A card
# that states less than that was edited. A site that changes noise and guarantee together is not caught here: that a
# release was really made so is the site's word.

AGREES = 1e-9  # figures are computed in floating point, on other machines in another order


def understated(card: Card) -> list[str]:
    """Names of the figures that the card states as smaller than they are, and of claims that it cannot make."""
    if card.post_processing is not None:
        return []  # its noise is no longer on the card: nothing can be checked, and nothing counts as proved
    stated, found = card.stated_guarantee(), recomputed(card)
    pairs = {
        "epsilon_component": (stated.component, found.component),
        "epsilon_column": (stated.column, found.column),
        "epsilon_record": (stated.record, found.record),
        "label_epsilon": (stated.label_epsilon or 0.0, found.label_epsilon or 0.0),
    }
    if found.central is not None:
        said = stated.central or Central(0.0)
        pairs["central"] = (said.epsilon, found.central.epsilon if said.delta == found.central.delta else math.inf)
    wrong = [name for name, (said, least) in pairs.items() if said < least * (1 - AGREES) - 1e-12]
    honest = not card.is_formal or found.kind == stated.kind
    return wrong if honest else ["kind", *wrong]


def understatement(card: Card) -> str | None:
    """What a card claims beyond its own recipe, in a sentence; None where it claims nothing beyond it."""
    if not (wrong := understated(card)):
        return None
    return f"The card states less than its own parameters give ({', '.join(wrong)}): it was edited or is damaged."


def recomputed(card: Card) -> Guarantee:
    """What the card's recipe proves, with the label's part, whatever its `guarantee` says; infinite if nothing."""
    found = proved(card.made_by(), _hindrances(card))
    label = card.release_schema["label"]
    if label is not None and label["keep"] != 1:
        found = found.with_label(RandomizedResponse(label["keep"], len(label["classes"])).epsilon)
    return found


def _hindrances(card: Card) -> list[str]:
    """Why figures hold only conditionally, from every part of the card that says so."""
    encoding, randomized = card.source_encoding(), card.label == "randomized"
    reasons = [item for item in card.learned_from_data if randomized or not item.startswith(LABEL_CLASSES)]
    reasons += [learned_domain(name) for name in encoding.learned]
    label = encoding.schema.label
    if randomized and label is not None and label.source == "learned":
        reasons.append(f"{LABEL_CLASSES} {label.name!r}")
    if card.target is not None:
        reasons.append(exact_target(card.target))
    if card.reproducible:
        reasons.append(NOT_FOR_RELEASE[card.reproducible])
    return [*reasons, *card.guarantee["in_the_way"]]
