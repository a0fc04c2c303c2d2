"""Noisy counts of several sites, added: rows are drawn from the sum, and models are trained on those.

The coordinator never sees the counts of a site without its noise. Where each person is at one site, their counts are in
one summand, so the claim for all sites together is the weakest of their own. A person at two sites pays at both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from pathlib import Path

from sfumato.core.errors import UsageError
from sfumato.core.wording import counted
from sfumato.guarantee import Card
from sfumato.mechanisms.central.drawing import model_as_dict, model_digest
from sfumato.mechanisms.central.scoring import AgreedPlan, NoisyFigures, ScoringPlan
from sfumato.release.asked import RedrawAsked
from sfumato.release.counts_file import noisy_counts, read_cells
from sfumato.release.redraw import draw_from
from sfumato.release.release import Release
from sfumato.release.write_release import InMemory, today
from sfumato.study.pooling.gather import Pushed, Request, embedded_card

TOGETHER = "all sites together"
FIRST_ROUND = "Sites of this study push measurements that a plan is made from. Train in the study with that plan."
ONE_SITE = "Every person is at one site; somebody at two of them pays at both, and the costs add up."


@dataclass(frozen=True)
class Added:
    """The sum of all counts, and what it was made from."""

    counts: NoisyFigures
    used: list[tuple[Card, Pushed]]

    @property
    def sites(self) -> list[str]:
        return sorted({pushed.site for _, pushed in self.used})

    def release(self) -> Release:
        """A model of everybody, without rows yet, under the weakest claim of all sites."""
        model = model_as_dict(self.counts.drawn())
        card = max((card for card, _ in self.used), key=_cost)
        assumptions = list(dict.fromkeys([*card.guarantee["assumptions"], ONE_SITE]))
        caps = [one.guarantee["rows_per_person"] for one, _ in self.used]
        most = None if None in caps else max(caps)
        card = replace(
            card,
            rows=self.counts.rows,
            recipe={**card.recipe, "model": model_digest(model)},
            guarantee={**card.guarantee, "assumptions": assumptions, "rows_per_person": most},
            created=today(),
        )
        return Release(Card.from_dict(card.to_dict()), held=InMemory(model=model))


def add_counts(pushed: Sequence[Pushed], plan: AgreedPlan) -> Added:
    """Read and add all counts; each file was checked when it came, and is checked again."""
    if not pushed:
        raise UsageError("No site has pushed counts yet.")
    cards = [embedded_card(one) for one in pushed]
    found = [noisy_counts(read_cells(one.path), plan, card) for one, card in zip(pushed, cards, strict=True)]
    return Added(reduce(add, found), list(zip(cards, pushed, strict=True)))


def with_added_counts(request: Request, plan: AgreedPlan, scratch: Path) -> Request:
    """The same training on rows that are drawn from the sum; they are written into `scratch`."""
    if request.agreeing:
        raise UsageError("Which sites agree cannot be told from counts that are added. Train on all sites.")
    if isinstance(plan, ScoringPlan):
        raise UsageError(FIRST_ROUND)
    added = add_counts(request.releases, plan)
    rows = min(added.counts.rows, request.limits.trained_rows)
    made = draw_from(added.release(), RedrawAsked(rows=rows, out=scratch / "added", seed=0))
    assert made.folder is not None
    sha256 = str(made.card.recipe["model"])
    note = (
        f"Trained on {counted(rows, 'row')} drawn from the sum of noisy counts of {counted(len(added.sites), 'site')}: "
        "no row is anybody's. Cross-validation is on drawn rows; trust a public test table more."
    )
    together = [Pushed(made.folder / "release.parquet", TOGETHER, sha256)]
    return replace(request, releases=together, made_from=added.used, notes=(note,))


def _cost(card: Card) -> float:
    """Infinite where nothing is proved: its figures are conditional."""
    central = card.all_releases().central if card.is_formal else None
    return float("inf") if central is None else central.epsilon
