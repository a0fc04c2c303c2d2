"""Models and densities as one queue of jobs: any worker claims one, keeps its lease alive, and finishes it or fails.

A lease that runs out means that its worker died: the next one to ask takes the job again, at most `MOST_ATTEMPTS`
times, so that a job that kills its worker does not kill all of them for ever.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import and_, func, insert, or_, select, update

from sfumato.study.protocol.messages import ALL_SITES, DONE, FAILED, QUEUED, RUNNING, ModelInfo
from sfumato.study.server.store.database import StorePart, told
from sfumato.study.server.store.sql_tables import model_releases, models, releases
from sfumato.study.server.store.token_store import new_id

LEASE_SECONDS = 60.0
MOST_ATTEMPTS = 3
GAVE_UP = "The server stopped several times while it trained this model. Train it again, or choose a smaller one."


class ModelStore(StorePart):
    """The part of the store that knows models."""

    def queue(
        self,
        study: str,
        classifier: str,
        *,
        contains_rows: bool,
        sites: str = ALL_SITES,
        column: str | None = None,
        parameters: Mapping[str, Any] | None = None,
    ) -> ModelInfo:
        """Ask for a model, of all sites or of those that agree; or for the density of a `column`, by this method."""
        asked = (
            insert(models)
            .values(
                id=new_id(),
                study=study,
                classifier=classifier,
                state=QUEUED,
                progress=0.0,
                step="waiting",
                created=self._database.today(),
                contains_rows=contains_rows,
                uses_withdrawn=False,
                attempts=0,
                sites=sites,
                reconstructs=column,
                parameters=json.dumps(parameters, allow_nan=False) if parameters else None,
            )
            .returning(*models.c)
        )
        with self._database.writing() as connection:
            return _model(connection.execute(asked).one())

    def claim(self, worker: str, lease: float = LEASE_SECONDS) -> tuple[str, ModelInfo] | None:
        """The oldest job that waits or whose worker died, as (study, model), or None."""
        now = self._database.now()
        free = or_(models.c.state == QUEUED, and_(models.c.state == RUNNING, models.c.lease < now))
        oldest = select(models.c.id).where(free).order_by(models.c.number).limit(1).with_for_update(skip_locked=True)
        with self._database.writing() as connection:
            spent = and_(models.c.state == RUNNING, models.c.lease < now, models.c.attempts >= MOST_ATTEMPTS)
            connection.execute(update(models).where(spent).values(state=FAILED, step="stopped", failure=GAVE_UP))
            claimed = {"state": RUNNING, "worker": worker, "lease": now + lease, "attempts": models.c.attempts + 1}
            claim = update(models).where(models.c.id == oldest.scalar_subquery()).returning(*models.c)
            row = connection.execute(claim.values(**claimed, progress=0.0, step="starting")).one_or_none()
        return None if row is None else (row.study, _model(row))

    def update(self, model: str, worker: str, progress: float, step: str, lease: float = LEASE_SECONDS) -> bool:
        """Say how far it is, and keep the lease; False where the job is no longer this worker's."""
        values = {"progress": min(max(progress, 0.0), 1.0), "step": step, "lease": self._database.now() + lease}
        return self._change(model, worker, values)

    def finish(
        self,
        model: str,
        worker: str,
        *,
        results: Mapping[str, Any],
        card: Mapping[str, Any],
        used: Iterable[str],
        contains_rows: bool,
    ) -> bool:
        """The model is done and its file is in place; `used` are hashes of the releases it was trained on.

        A release that was withdrawn while the model was trained marks it too.
        """
        used = sorted(set(used))
        with self._database.writing() as connection:
            held = select(models.c.study).where(*_held(model, worker)).with_for_update()
            if (row := connection.execute(held).one_or_none()) is None:
                return False
            for sha256 in used:
                connection.execute(insert(model_releases).values(model=model, sha256=sha256))
            # The share lock makes a withdrawal wait that would miss this model, and this wait for one under way.
            trained_on = (releases.c.study == row.study, releases.c.sha256.in_(used))
            states = connection.execute(select(releases.c.withdrawn).where(*trained_on).with_for_update(read=True))
            gone = any(state.withdrawn is not None for state in states)
            found = {"results": json.dumps(results, allow_nan=False), "card": json.dumps(card, allow_nan=False)}
            done = {"state": DONE, "progress": 1.0, "step": "done", "lease": None, "contains_rows": contains_rows}
            connection.execute(update(models).where(models.c.id == model).values(**done, **found, uses_withdrawn=gone))
        return True

    def fail(self, model: str, worker: str, message: str) -> bool:
        """The model cannot be trained, and why, in words that its owner may read."""
        return self._change(model, worker, {"state": FAILED, "step": "failed", "failure": message, "lease": None})

    def give_back(self, model: str, worker: str) -> bool:
        """Put a job back into the queue: its worker is told to stop, and that is not the job's fault."""
        back = {"state": QUEUED, "step": "waiting", "progress": 0.0, "lease": None, "attempts": models.c.attempts - 1}
        return self._change(model, worker, back)

    def _change(self, model: str, worker: str, values: Mapping[str, Any]) -> bool:
        return self._database.change(update(models).where(*_held(model, worker)).values(**values)) == 1

    def all(self, study: str, *, density: bool = False) -> list[ModelInfo]:
        """All models of a study, or all densities, the oldest first."""
        query = select(models).where(models.c.study == study, _is(density)).order_by(models.c.number)
        return [_model(row) for row in self._database.rows(query)]

    def find(self, study: str, model: str, *, density: bool = False) -> ModelInfo | None:
        row = self._database.row(select(models).where(models.c.study == study, models.c.id == model, _is(density)))
        return None if row is None else _model(row)

    def waiting(self, study: str | None = None) -> int:
        """How many jobs wait or run, of one study or in all."""
        query = select(func.count()).select_from(models).where(models.c.state.in_((QUEUED, RUNNING)))
        if study is not None:
            query = query.where(models.c.study == study)
        return int(self._database.value(query))


def _is(density: bool) -> Any:
    return models.c.reconstructs.is_not(None) if density else models.c.reconstructs.is_(None)


def _held(model: str, worker: str) -> tuple[Any, ...]:
    return models.c.id == model, models.c.worker == worker, models.c.state == RUNNING


def _model(row: Any) -> ModelInfo:
    return told(
        ModelInfo,
        row,
        results=None if row.results is None else json.loads(row.results),
        card=None if row.card is None else json.loads(row.card),
        sites=row.sites or ALL_SITES,
        column=row.reconstructs,
        parameters=json.loads(row.parameters) if row.parameters else {},
    )
