"""A study of kind `pool`: sites push releases of one schema, mechanism and space, and a coordinator pools them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar, Self

from sfumato.core.accepted import Whole
from sfumato.core.errors import SchemaError
from sfumato.core.records import BRIEF, FieldError, Record
from sfumato.guarantee import space_of
from sfumato.learn.classifiers.factory import choose_classifier
from sfumato.mechanisms import MECHANISMS, make_mechanism
from sfumato.mechanisms.base import count_of
from sfumato.mechanisms.central.plan import agreed_plan
from sfumato.mechanisms.central.scoring import AgreedPlan
from sfumato.mechanisms.principal_laplace import NAMES
from sfumato.noise.law import is_own, own_law
from sfumato.noise.operators import operator_name
from sfumato.release.asked import Presence
from sfumato.study.protocol.agreed import canonical_json, check_line, hash_of, must
from sfumato.table import Encoding, Schema
from sfumato.table.statistics import Statistics

# The weakest guarantee that a study takes: none, an epsilon for a record, or epsilon and delta for its presence.

EMPIRICAL_ALLOWED = "empirical-allowed"


def _guarantee(found: Any, schema: Schema) -> tuple[float | None, Presence | None]:
    """The study's `guarantee`: an epsilon for a record, its presence, or neither."""
    if found == EMPIRICAL_ALLOWED:
        return None, None
    keys = set(found) if isinstance(found, Mapping) else set()
    record, presence = None, None
    if keys == {"epsilon_record"} and _number(found["epsilon_record"], 0, 1e6):
        record = float(found["epsilon_record"])
    elif (
        keys == {"epsilon", "delta"}
        and _number(found["epsilon"], 0, 1e6)
        and (found["delta"] == 0 or _number(found["delta"], 0, 1))
    ):
        presence = Presence(float(found["epsilon"]), float(found["delta"]))
    else:
        raise SchemaError(
            "The study's `guarantee` must be `epsilon_record: NUMBER`, the weakest guarantee for a record that a "
            "release can have; `{epsilon: NUMBER, delta: NUMBER}` for its presence in the table, such as "
            f"{{epsilon: 1.0, delta: 1.0e-6}} (YAML needs the points); or {EMPIRICAL_ALLOWED}."
        )
    if schema.learned:
        raise SchemaError(
            f"The study asks for a formal guarantee, and column {schema.learned[0]!r} is not `source: public`: no "
            "release could have one. Give bounds and categories that everybody may know, with a `reason`."
        )
    return record, presence


def _number(found: Any, low: float, high: float) -> bool:
    return not isinstance(found, bool) and isinstance(found, int | float) and low < found < high


# How much one site may keep at a coordinator: bytes, rows and releases.

Most = Annotated[int | None, Whole(1, 10**15), BRIEF]


@dataclass(frozen=True)
class Quota(Record):
    """The most of one site; None for no limit. Releases that were withdrawn count as releases, not as bytes or rows."""

    takes_more = False

    bytes: Most = None
    rows: Most = None
    releases: Most = None

    @classmethod
    def refusal(cls, problem: FieldError) -> SchemaError:
        return SchemaError(f"The study's `quota`: {problem}.")

    @classmethod
    def from_dict(cls, found: Any) -> Self:
        must(found, "The study's `quota` must limit bytes, rows or releases.")
        return super().from_dict(found)

    def within(self, other: Quota) -> Quota:
        """The smaller of both, one by one."""
        both = {name: (getattr(self, name), getattr(other, name)) for name in ("bytes", "rows", "releases")}
        return Quota(**{name: min((m for m in most if m is not None), default=None) for name, most in both.items()})

    def exceeded(self, kept: Quota, *, more_bytes: int = 0, more_rows: int = 0) -> str | None:
        """Which of the three one more release would exceed, or None."""
        more = {"releases": 1, "bytes": more_bytes, "rows": more_rows}
        limits = ((name, getattr(self, name), (getattr(kept, name) or 0) + added) for name, added in more.items())
        return next((name for name, most, wanted in limits if most is not None and wanted > most), None)


DEFAULT_CLASSIFIERS = ("naive-bayes", "knn")
_KEYS = (
    *("kind", "name", "description", "schema", "mechanism", "guarantee", "space", "classifiers", "quota"),
    "largest_site_share",
)
NEEDS_A_PLAN = (
    "The study names no mechanism, so its sites push noisy counts that add up, and first need a plan of what to count. "
    "Type: sfumato study plan STUDY_FILE --scores --out first.json (sites score pairs of columns in a first round), or "
    "leave --scores out (public rules, one round). Another method goes by its name, for example `mechanism: {name: "
    "kernel-resampling}`, which proves nothing."
)
_SPACE = re.compile("sha256:[0-9a-f]{64}")


@dataclass(frozen=True)
class PoolStudy:
    """What every site's release must be. Without `epsilon_record` and `presence`: releases without a formal guarantee
    are allowed.

    The mechanism's name is binding, its parameters where they are given. `space` says which rows mean the same: it is
    computed from the schema where mechanism and parameters settle it, else copied from the first release's card.
    `classifiers` are lines such as "knn" or "svm kernel=sigmoid". `quota` is the most that one site may have there.
    `largest_site_share`: no site is more than this share of the rows that models and densities are made from.
    A study without a label trains nothing: its columns are reconstructed.
    """

    kind: ClassVar[str] = "pool"

    name: str
    schema: Schema
    mechanism: str
    parameters: Mapping[str, Any]
    epsilon_record: float | None
    space: str
    description: str = ""
    classifiers: tuple[str, ...] = DEFAULT_CLASSIFIERS
    quota: Quota | None = None
    largest_site_share: float | None = None
    presence: Presence | None = None

    @property
    def hash(self) -> str:
        """What the sites compare out of band before they push anything."""
        return hash_of(self.to_dict())

    @property
    def encoding(self) -> Encoding:
        return Encoding(self.schema)

    def to_dict(self) -> dict[str, Any]:
        asked = {"epsilon_record": self.epsilon_record} if self.epsilon_record is not None else EMPIRICAL_ALLOWED
        return {
            "kind": self.kind,
            "name": self.name,
            "description": self.description,
            "schema": self.schema.to_dict(),
            "mechanism": {"name": self.mechanism, "parameters": dict(self.parameters)},
            "guarantee": asked if self.presence is None else self.presence._asdict(),
            "space": self.space,
            "classifiers": list(self.classifiers),
            # left out where there are none: studies that never had one keep their hash
            **({} if self.quota is None else {"quota": self.quota.to_dict()}),
            **({} if self.largest_site_share is None else {"largest_site_share": self.largest_site_share}),
        }

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> PoolStudy:
        """Read and check; the error says what is wrong and where."""
        for key in found:
            must(key in _KEYS, f"The study has an unknown key {key!r}. It may have: {', '.join(_KEYS)}.")
        for key in ("name", "schema", "guarantee"):
            must(key in found, f"The study lacks the key {key!r}.")
        must("mechanism" in found, NEEDS_A_PLAN)
        schema = Schema.from_dict(found["schema"])
        encoding = Encoding(schema)  # bounds, categories and classes are all there
        name, parameters = _mechanism(found["mechanism"])
        epsilon_record, presence = _guarantee(found["guarantee"], schema)
        description = found.get("description") or ""
        short = isinstance(description, str) and len(description) <= 5000
        must(short, "The study's `description` must be text of at most 5000 characters.")
        share = found.get("largest_site_share")
        if parameters.get("plan") is not None:
            _check_plan(parameters, presence, share, encoding)
        must(
            share is None or _number(share, 0, 1),
            "The study's `largest_site_share` must be a number between 0 and 1: the largest share of the training "
            "rows that one site may have, for example 0.3.",
        )
        return cls(
            name=check_line(found["name"], "name of the study"),
            schema=schema,
            mechanism=name,
            parameters=parameters,
            epsilon_record=epsilon_record,
            presence=presence,
            space=_space(found.get("space"), name, parameters, encoding),
            description=description,
            classifiers=_classifiers(found.get("classifiers"), schema),
            quota=Quota.from_dict(found["quota"]) if "quota" in found else None,
            largest_site_share=None if share is None else float(share),
        )

    @cached_property
    def plan(self) -> AgreedPlan | None:
        """What every site counts, where sites push noisy counts instead of rows."""
        stated = self.parameters.get("plan") if self.draws else None
        return None if stated is None else agreed_plan(stated, self.encoding)

    @property
    def draws(self) -> bool:
        """Whether released rows are drawn from a noisy model: they are spread as the table was, and need no mending."""
        return MECHANISMS[self.mechanism].made_up

    def reconstructible(self) -> tuple[str, ...] | None:
        """Columns whose distribution can be reconstructed; None where only a release's card names its columns."""
        if self.draws:
            return ()
        if not MECHANISMS[self.mechanism].columnwise:
            return None
        return tuple(group.column.name for group in self.encoding.groups if not group.is_constant)

    def parameters_expected(self) -> dict[str, Any]:
        """The binding parameters as a card states them: counts instead of fractions, `given` instead of a matrix."""
        expected = dict(self.parameters)
        if isinstance(expected.get("components"), int | float):
            expected["components"] = count_of(expected["components"], self.encoding.width, self.mechanism)
        if "basis" in expected and expected["basis"] not in NAMES:
            expected["basis"] = "given"
        if self.plan is not None:
            expected["plan"] = self.plan.digest
            if self.presence is not None:
                expected.setdefault("delta", self.presence.delta)
        if expected.get("guidance") is not None:
            expected["guidance"] = "given"
        if is_own(expected.get("law")):
            expected["law"] = own_law(expected["law"]).text
        if isinstance(expected.get("operator"), str):
            expected["operator"] = operator_name(expected["operator"])
        return expected


def trains(definition: Mapping[str, Any]) -> bool:
    """Whether a study as it is written down has something to predict; one of kind `pool` need not."""
    columns = (definition.get("schema") or {}).get("columns") or []
    return definition.get("kind") != PoolStudy.kind or any(column.get("role") == "label" for column in columns)


def pushes_counts(definition: Mapping[str, Any]) -> bool:
    """Whether sites of a study as it is written down push noisy counts instead of rows."""
    return ((definition.get("mechanism") or {}).get("parameters") or {}).get("plan") is not None


def _mechanism(found: Any) -> tuple[str, dict[str, Any]]:
    fits = isinstance(found, Mapping) and set(found) <= {"name", "parameters"} and isinstance(found.get("name"), str)
    must(fits, "The study's `mechanism` must have a `name` and may have `parameters`.")
    parameters = found.get("parameters") or {}
    must(isinstance(parameters, Mapping), "The parameters of the study's method must be names with values.")
    make_mechanism(found["name"], dict(parameters))
    try:
        canonical_json(parameters)
    except (TypeError, ValueError):
        raise SchemaError(
            "The parameters of the study's method must be numbers, words and lists of them: others have no single "
            "spelling, and so no hash."
        ) from None
    return found["name"], dict(parameters)


def _check_plan(parameters: Mapping[str, Any], presence: Presence | None, share: Any, encoding: Encoding) -> None:
    """The study holds the plan itself, so that its hash does; and counts have no rows that could be left out."""
    told = "The study's `plan` must be the plan itself, as `sfumato study plan` writes it."
    must(isinstance(parameters["plan"], Mapping), told)
    agreed_plan(parameters["plan"], encoding)
    must(
        "delta" in parameters or presence is not None,
        "All sites of a study with a plan have the same delta. Ask for one: `guarantee: {epsilon: 1.0, delta: "
        "1.0e-6}`.",
    )
    told = "`largest_site_share` leaves rows of large sites out, and sites of this study push counts."
    must(share is None, told)


def _space(found: Any, name: str, parameters: Mapping[str, Any], encoding: Encoding) -> str:
    if found is not None:
        if not isinstance(found, str) or not _SPACE.fullmatch(found):
            raise SchemaError("The study's `space` must be `sha256:` and 64 hexadecimal digits, as on a card.")
        return found
    mechanism = make_mechanism(name, dict(parameters))
    if mechanism.columnwise:
        return space_of(encoding, {"kind": "identity"})
    if mechanism.needs_key or mechanism.needs_statistics:  # its map depends on more than schema and parameters
        raise SchemaError(
            f"The study needs a `space`: {name} draws or learns its map, so only a release made with the shared key "
            "or basis shows where rows lie. Copy it from the card of such a release (`sfumato show`)."
        )
    mechanism.fit_statistics(Statistics.empty(encoding.width), encoding)
    return space_of(encoding, mechanism.recipe_.map.to_dict())


def _classifiers(found: Any, schema: Schema) -> tuple[str, ...]:
    if schema.target is not None:
        raise SchemaError(
            f"Column {schema.target.name!r} is a number to predict (role: target), which studies do not pool. Make it "
            "private: `sfumato mine regress` takes noise out of a private column."
        )
    if schema.label is None:
        must(
            not found,
            "The study names classifiers, and its schema has no column for them to predict. Give that column "
            "`role: label`, or leave `classifiers` out: the study then reconstructs columns.",
        )
        return ()
    if found is None:
        return DEFAULT_CLASSIFIERS
    listed = isinstance(found, Sequence) and not isinstance(found, str) and found
    must(listed, "The study's `classifiers` must be a list of names, with or without parameters.")
    return tuple(dict.fromkeys(_classifier(one) for one in found))


def _classifier(found: Any) -> str:
    """In one line, by which studies without parameters keep their hash."""
    if isinstance(found, str):
        return choose_classifier(found).text
    must(
        isinstance(found, Mapping) and set(found) <= {"name", "parameters"} and "name" in found,
        "One of the study's `classifiers` must be a name, a name and NAME=VALUE in one line, or `name` and "
        "`parameters`.",
    )
    parameters = found.get("parameters") or {}
    named = isinstance(parameters, Mapping) and all(isinstance(key, str) for key in parameters)
    must(named, "The `parameters` of one of the study's classifiers must be names with values.")
    return choose_classifier(str(found["name"]), parameters).text
