"""The card: what a release says about itself, and all that an analyst, an auditor or a server needs to read it."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import cache, cached_property
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
from numpy.typing import NDArray

from sfumato.errors import CardError, UsageError
from sfumato.files import other_version, write_whole
from sfumato.guarantee.all_releases import AllReleases
from sfumato.guarantee.consistency import contradiction
from sfumato.guarantee.guarantee import LOCAL_DP, Guarantee
from sfumato.noise import CUSTOM, Law, Operator, OperatorNoise, law_from_dict
from sfumato.table import Encoding, Schema
from sfumato.wording import counted

FORMAT, VERSION = "sfumato-card", 1
OLDER = "Make the release again with this version, or read it with the sfumato that the card's `versions` name."
RANDOMIZED_RESPONSE = "randomized-response"
ADDITIVE = "additive"


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
    threat_model: Mapping[str, Any]
    noise_path: str
    reproducible: str | None
    chosen_by: str
    post_processing: str | None
    earlier_releases: Mapping[str, Any]
    papers: list[str]
    created: str
    versions: Mapping[str, str]
    format: str = FORMAT
    version: int = VERSION

    def __repr__(self) -> str:
        return f"<Card of {counted(self.rows, 'row')} by {self.mechanism['name']}: {self.guarantee['kind']}>"

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON; the format and version come first."""
        data = asdict(self)
        return {"format": data.pop("format"), "version": data.pop("version"), **data}

    def to_json(self) -> str:
        """To be read by people too: one line a value, and one a row of the matrix, which may have millions of them."""
        data: dict[str, Any] = {"format": self.format, "version": self.version}
        data |= {field.name: getattr(self, field.name) for field in fields(self) if field.name not in data}
        matrix = self.transform.get("matrix")
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
            data = json.loads(path.read_text(encoding="utf-8"), parse_constant=_no_number)
        except ValueError as error:
            raise CardError(f"The card {path} is not valid JSON: it is damaged or cut short.") from error
        return cls.from_dict(data, where=str(path))

    @classmethod
    def from_dict(cls, data: Any, where: str = "the card") -> Card:
        """Check against the published JSON Schema, then read."""
        check_version(data, where)
        problems = sorted(
            card_validator().iter_errors(_without_numbers(data)), key=lambda error: list(error.absolute_path)
        )
        if problems:
            place = ".".join(map(str, problems[0].absolute_path)) or "the top level"
            raise CardError(f"{where} does not follow the card's schema at {place}: it was edited or is damaged.")
        if wrong := contradiction(data):
            raise CardError(f"{where} was edited or is damaged: {wrong}.")
        return cls(**data).in_own_words()

    def in_own_words(self) -> Card:
        """The same with `guarantee.words` computed from its figures: what somebody wrote there is never read."""
        return replace(self, guarantee={**self.guarantee, "words": self.all_releases().in_words()})

    def says_the_same(self, text: bytes) -> bool:
        """Whether `text` is this card too; words may differ, which every version finds anew."""
        try:
            other = json.loads(text)
            other["guarantee"]["words"] = self.guarantee["words"]
        except (ValueError, KeyError, TypeError):
            return False
        return bool(other == json.loads(self.to_json()))

    @property
    def is_formal(self) -> bool:
        """Whether the guarantee is proved, and not only conditional or empirical."""
        return bool(self.guarantee["kind"] == LOCAL_DP)

    @property
    def is_columnwise(self) -> bool:
        """Whether the release keeps the source's columns and units."""
        return bool(self.transform["kind"] == "identity")

    @property
    def classes(self) -> tuple[str, ...]:
        """The label's classes, in the order of their codes; empty without a label."""
        label = self.release_schema["label"]
        return tuple(label["classes"]) if label else ()

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

    def laws(self) -> list[Law | None]:
        """Noise of every column of the release *matrix*, in encoded units; None where no additive noise was added
        (see `operator_noise` for other operators).

        A column-wise release has one source column to several matrix columns (one-hot, indicator): those are
        randomized, not noised, and give None here; see `keep_probabilities`.
        """
        if not self.is_columnwise:
            return [_law(column["noise"]) for column in self.release_schema["columns"]]
        encoding, laws = self.source_encoding(), []
        for group, column in zip(encoding.groups, self.release_schema["columns"], strict=True):
            law = None if group.is_onehot else _law(column["noise"])
            value = law.scaled(1 / encoding.scale[group.start]) if law else None
            laws += [value, *[None] * (group.stop - group.start - 1)]
        return laws

    def noise_variance(self) -> NDArray[np.float64]:
        """Variance of the additive noise of every column of the release matrix, in encoded units."""
        return np.array([law.variance if law else 0.0 for law in self.laws()])

    def operator_noise(self, operator: Operator | None = None) -> dict[str, OperatorNoise | None]:
        """Operator and law of every written column, in its own units; None where no noise was carried in.

        `operator` is the owner's own one, for a card that can only say "custom". See also `laws`, which knows additive
        noise only.
        """
        return {column["name"]: _operator_noise(column["noise"], operator) for column in self.release_schema["columns"]}

    def affine(self) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
        """(A, c) of ``z = A x + c`` on average, or None where the map is a secret."""
        if self.transform["kind"] == "affine":
            return np.array(self.transform["matrix"]), np.array(self.transform["offset"])
        if self.is_columnwise:
            return self._columnwise_affine()
        return None

    def _columnwise_affine(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The identity, but for columns that were multiplied: a mean factor m takes u to m u + (m - 1) low / width."""
        encoding = self.source_encoding()
        matrix, offset = np.eye(encoding.width), np.zeros(encoding.width)
        for group, column in zip(encoding.groups, self.release_schema["columns"], strict=True):
            stated = column["noise"]
            if stated is not None and stated.get("operator", CUSTOM) != CUSTOM and not group.is_onehot:
                noise = _operator_noise(stated)
                assert noise is not None
                matrix[group.start, group.start] = noise.slope
                offset[group.start] = (noise.slope - 1.0) * group.column.bounds[0] / encoding.scale[group.start]
        return matrix, offset


def check_version(data: Any, where: str) -> None:
    """Refuse a card of another version before anything else of it is believed."""
    ours = isinstance(data, Mapping) and data.get("format") == FORMAT
    if ours and (why := other_version(data.get("version"), VERSION, older=OLDER)):
        raise CardError(f"{where} {why}")


def _no_number(word: str) -> Any:
    """NaN and Infinity, which JSON does not have and Python reads all the same."""
    raise ValueError(word)


def _without_numbers(data: Any) -> Any:
    """The same without a matrix that is one beyond doubt: the validator takes half a minute for a million numbers."""
    transform = data.get("transform") if isinstance(data, Mapping) else None
    matrix = transform.get("matrix") if isinstance(transform, Mapping) else None
    if not isinstance(matrix, list) or not all(isinstance(row, list) for row in matrix):
        return data
    if not set().union(*(map(type, row) for row in matrix)) <= {int, float}:
        return data
    return {**data, "transform": {**transform, "matrix": []}}  # type: ignore[dict-item]


def _law(noise: Mapping[str, Any] | None) -> Law | None:
    if noise is None or noise["law"] == RANDOMIZED_RESPONSE or noise.get("operator", ADDITIVE) != ADDITIVE:
        return None
    try:
        return law_from_dict(noise)
    except UsageError as error:
        raise CardError("The card states a noise law that does not exist: it was edited or is damaged.") from error


def _operator_noise(noise: Mapping[str, Any] | None, operator: Operator | None = None) -> OperatorNoise | None:
    if noise is None or noise["law"] == RANDOMIZED_RESPONSE:
        return None
    own = operator if noise.get("operator", ADDITIVE) == CUSTOM else None
    try:
        return OperatorNoise.from_dict(noise, own)
    except UsageError as error:
        if noise.get("operator") == CUSTOM:
            raise
        raise CardError("The card states noise that does not exist: it was edited or is damaged.") from error


@cache
def card_validator() -> Any:
    """The published schema of `card.json`."""
    text = files("sfumato.guarantee").joinpath("card.schema.json").read_text(encoding="utf-8")
    return jsonschema.Draft202012Validator(json.loads(text))
