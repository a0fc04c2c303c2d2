"""Guided projection: the perturbation of a guided survey, on a table of categories [guided-survey, 4.2]."""

from __future__ import annotations

import base64
import binascii
import json
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from sfumato.channels import Bit, Guided, Recipe
from sfumato.channels.guidance.guidance import MU, Guidance, Order, SurveyCounts, SurveyRules, decode_matrix
from sfumato.channels.guidance.space import FLOOR, Link, check_law
from sfumato.core.array_types import Codes, Matrix
from sfumato.core.errors import SchemaError, UsageError
from sfumato.guarantee import Key
from sfumato.guarantee.card import check_version
from sfumato.guarantee.guarantee import BORROWED_GUIDANCE, LEARNED_GUIDANCE
from sfumato.guarantee.maps import is_reason
from sfumato.mechanisms.base import Mechanism, as_matrix
from sfumato.mechanisms.parameters import Knob
from sfumato.table import Encoding
from sfumato.table.statistics import NO_CLASS, Statistics

FROM_A_SURVEY = "it follows from bits that respondents' own devices had perturbed, by the survey's public log"


class GuidedProjection(Mechanism):
    """Project one-hot rows onto the directions in which the classes differ, and draw one bit for every choice.

    ``P(R_j = 1) = floor + (1 - 2 floor) min(1, (t V V')_j^2)`` with the guidance V [Eqs. 7 and 8; the floor is ours].
    In a survey V comes from bits that other respondents sent, so it is public. Here it is either given (`guidance`,
    with a reason) or learned from the table, and then the floor's epsilon holds only conditionally. That is in no
    paper, whatever the parameters: the survey as published learns from rows already perturbed. Every private column
    must be categorical; numbers are cut at the `edges` that the schema gives them.

    Parameters
    ----------
    guidance : base64 of V as it travels (little-endian float64, row by row), from outside this table, or the path of a
        card (`.json`) that has one; None to learn it.
    guidance_reason : why given guidance is public, in the owner's words. Without it, and with guidance that a card or
        the owner's ledger says was learned, the claim stays conditional: rows that shaped a guidance are in it.
    mu, order, balance, k : how guidance is learned, see `Guidance`; `k` fixes the level. Ignored if guidance is given.
    link : "square" as published, or "linear": P = (1 + (t V V')_j) / 2 before the floor.
    floor : least probability of either value of a bit; 0 as published, which proves nothing.
    """

    only_categories = True
    name = "guided-projection"
    proves = True
    for_surveys = True
    own_knob = Knob("floor", 0.01, 0.49, protects=True)
    papers = ("guided-survey",)
    rests_on = ("The uniform numbers behind different bits and rows are independent and secret.",)
    not_protected = (
        "The label decides what is kept of a record: what separates the classes is kept best.",
        "A collector who chooses the guidance chooses what can be read, up to the record's epsilon; without a floor "
        "there is no limit.",
    )

    guidance: str | None = None
    mu: float = MU
    order: Order = "magnitude"
    k: int | None = None
    link: Link = "square"
    floor: float = FLOOR
    balance: bool = True
    guidance_reason: str | None = None

    @property
    def needs_statistics(self) -> bool:
        return self.guidance is None

    def statistics(self, X: Matrix, y: Codes | None) -> Statistics:
        if y is None:
            raise UsageError(
                f"{self.name} learns in which directions classes differ, so it needs a column to predict. Name one "
                "with --label, or give the guidance."
            )
        return Statistics.of(X, y)

    def fit_statistics(self, statistics: Statistics, encoding: Encoding, key: Key | None = None) -> Self:  # noqa: ARG002
        numeric = [group.column for group in encoding.groups if not group.is_onehot]
        if numeric:
            raise SchemaError(
                f"{self.name} works on categories only, but {numeric[0].name!r} is {numeric[0].kind}. "
                "Give it `kind: categorical` and public `edges` in the schema: `sfumato survey edges` finds them in an "
                "earlier or public table."
            )
        self._check("a sentence", lambda one: isinstance(one, str | None), guidance_reason=self.guidance_reason)
        self._check("true or false", lambda one: isinstance(one, bool), balance=self.balance)
        self.encoding_, self.borrowed_ = encoding, False
        if self.guidance is not None:
            self.V_, self.borrowed_ = _given(self.guidance, encoding.width)
        else:
            asked = {name: getattr(self, name) for name in ("mu", "order", "link", "floor", "balance", "k")}
            before = SurveyCounts(encoding.width)
            self.V_ = Guidance.from_counts(before, SurveyRules(**asked), _counts(statistics)).V
        reason = self.guidance_reason if self._declared_public else None
        check_law(self.floor, self.link)
        self.recipe_ = Recipe(encoding, Guided(self.V_, reason), (Bit(self.floor, self.link),) * encoding.width)
        return self

    def embed(self, X: ArrayLike) -> Matrix:
        """Plain answers are classified as they are."""
        return as_matrix(X)

    def sentence(self) -> str:
        return "Without a floor a bit can be certain: whoever chooses the guidance reads chosen answers exactly."

    def assumptions(self) -> tuple[str, ...]:
        declared = [f"The guidance is public: {self.guidance_reason}"] if self._declared_public else []
        return (*self.rests_on, *declared)

    @property
    def _declared_public(self) -> bool:
        return self.guidance is not None and not self.borrowed_ and is_reason(self.guidance_reason)

    def learned(self) -> list[str]:
        guided = [LEARNED_GUIDANCE] if self.guidance is None else [BORROWED_GUIDANCE] if self.borrowed_ else []
        return [*super().learned(), *guided]

    @property
    def learns_directions(self) -> bool:
        return self.guidance is None or self.borrowed_

    def directions(self) -> Matrix | None:
        return self.V_.T

    def parameters_used(self) -> dict[str, Any]:
        guidance = "learned" if self.guidance is None else "given"
        return {**super().parameters_used(), "k": int(self.V_.shape[1]), "guidance": guidance}


def _given(text: str, width: int) -> tuple[Matrix, bool]:
    """V, and whether it is known to have been learned: guidance of a card that says so stays learned."""
    borrowed = False
    if isinstance(text, str) and text.endswith(".json"):
        try:
            data = json.loads(Path(text).read_text(encoding="utf-8"))
            check_version(data, f"The card {text}")
            borrowed = not {LEARNED_GUIDANCE, BORROWED_GUIDANCE}.isdisjoint(data["learned_from_data"])
            text = data["transform"]["guidance"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UsageError(
                "The 'guidance' parameter of guided-projection must be base64 of a matrix or the path of a card that "
                f"has guidance. {text} is not such a card."
            ) from error
    try:
        numbers = len(base64.b64decode(text, validate=True)) / 8
    except (binascii.Error, ValueError, TypeError):
        raise UsageError("The 'guidance' parameter of guided-projection must be base64 of a matrix.") from None
    if numbers % width or not numbers:
        raise UsageError(
            f"The 'guidance' parameter of guided-projection must have a row for each of the {width} encoded columns."
        )
    return decode_matrix(text, width, int(numbers) // width), borrowed


def _counts(statistics: Statistics) -> SurveyCounts:
    """A_c from moments: scatter plus n times the outer product of the mean, which are whole numbers for 0/1 columns."""
    parts = {label: part for label, part in statistics.items() if label != NO_CLASS and part.n}
    sums = {label: np.rint(part.scatter + part.n * np.outer(part.mean, part.mean)) for label, part in parts.items()}
    rows = {label: part.n for label, part in parts.items()}
    return SurveyCounts(statistics.width, rows, {label: part.astype(np.int64) for label, part in sums.items()})
