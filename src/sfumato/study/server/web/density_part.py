"""Densities on the owner's page: what waits, and the newest of each column as a picture with its band."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from sfumato.core.errors import CardError
from sfumato.core.wording import counted
from sfumato.reconstruction import Density
from sfumato.reconstruction.density import from_plain
from sfumato.reconstruction.picture import SMALL, plain
from sfumato.study.protocol.messages import DONE, FAILED, QUEUED, RUNNING, DensityInfo
from sfumato.study.server.context import Context

MOST_SHOWN = 30
STATES = {QUEUED: "waiting", RUNNING: "being reconstructed"}


@dataclass(frozen=True)
class Shown:
    """One density; `picture` is SVG whose every text is escaped."""

    info: DensityInfo
    state: str
    picture: Markup | None
    words: str


@dataclass(frozen=True)
class Densities:
    busy: list[Shown]
    newest: list[Shown]
    failed: list[Shown]


def densities_shown(context: Context, study: str) -> Densities:
    """Of every column the newest that is done; what failed since is said, too."""
    jobs = [DensityInfo.of(job) for job in reversed(context.store.models.all(study, density=True))]
    newest: dict[str, DensityInfo] = {}
    failed: dict[str, DensityInfo] = {}
    for job in jobs:
        if job.state == DONE:
            newest.setdefault(job.column, job)
        elif job.state == FAILED and job.column not in newest:
            failed.setdefault(job.column, job)
    return Densities(
        busy=[_shown(job) for job in reversed(jobs) if job.state in STATES],
        newest=[_shown(job) for job in list(newest.values())[:MOST_SHOWN]],
        failed=[_shown(job) for job in failed.values()],
    )


def _shown(job: DensityInfo) -> Shown:
    state = STATES.get(job.state, job.state)
    if job.state != DONE or job.found is None:
        return Shown(job, state, None, "")
    try:
        found = from_plain(job.found)
    except CardError as error:
        return Shown(job, state, None, str(error))
    words = [f"From {counted(found.rows, 'released row')} of {counted(len(job.sites), 'site')}."]
    if isinstance(found, Density):
        low, middle, high = (plain(float(value)) for value in found.quantiles([0.25, 0.5, 0.75]))
        words.append(f"Median {middle}; half of the people lie between {low} and {high}.")
        for atom in found.about.get("atoms", ()):
            words.append(
                f"About {float(atom['share']):.0%} of the people share the value {plain(float(atom['value']))}."
            )
        if found.missing > 0:
            words.append(f"Estimated missing: {found.missing:.0%}.")
    return Shown(job, state, Markup(found.plot(SMALL)), " ".join(words))
