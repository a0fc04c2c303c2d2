"""Studies, who may do what in them, and the sites that take part."""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from sfumato.errors import UsageError
from sfumato.guarantee.rounding import rounded_up
from sfumato.protocol.messages import Invited, SiteInfo, StudyInfo
from sfumato.protocol.names import check_name, skeleton, spelled
from sfumato.protocol.study_file import Study
from sfumato.protocol.survey_file import SurveyStudy
from sfumato.server.store.database import Database
from sfumato.server.store.tables import releases, sites, studies, tokens
from sfumato.server.store.tokens import OWNER, SITE, looks_like_a_token, new_id, new_token, token_hash
from sfumato.server.survey.tables import survey_keys
from sfumato.server.survey.ticket_key import TicketKey

DAY = 24 * 3600
LONGEST_DAYS = 3650


@dataclass(frozen=True)
class Caller:
    """Who a token belongs to: the owner of one study, or one of its sites. `token` is the stored hash."""

    study: str
    role: str
    site: str | None
    token: str


class Studies(Database):
    """The part of the store that knows studies, tokens and sites."""

    def create_study(self, study: Study) -> tuple[str, str]:
        """A new study; returns its id and the owner's token, which is kept nowhere else."""
        identity, token = new_id(), new_token(OWNER)
        study, key = with_ticket_key(study)
        with self.writing() as connection:
            connection.execute(
                insert(studies).values(
                    id=identity,
                    kind=study.kind,
                    name=study.name,
                    hash=study.hash,
                    definition=json.dumps(study.to_dict(), ensure_ascii=False, allow_nan=False),
                    created=self.today(),
                    state="open",
                )
            )
            if key is not None:
                connection.execute(insert(survey_keys).values(study=identity, private=key))
            self._add_token(connection, token, identity, OWNER, None, None)
        return identity, token

    def study(self, identity: str) -> StudyInfo | None:
        with self.reading() as connection:
            row = connection.execute(select(studies).where(studies.c.id == identity)).one_or_none()
        return None if row is None else _study(row)

    def studies(self) -> list[StudyInfo]:
        """All studies, the oldest first."""
        with self.reading() as connection:
            return [_study(row) for row in connection.execute(select(studies).order_by(studies.c.created))]

    # Tokens

    def _add_token(
        self, connection: Connection, token: str, study: str, role: str, site: str | None, expires: int | None
    ) -> None:
        connection.execute(
            insert(tokens).values(
                hash=token_hash(token), study=study, role=role, site=site, expires=expires, revoked=False
            )
        )

    def new_owner_token(self, study: str) -> str:
        """Another token for the owner; the older ones end. For an owner who lost hers, at the server itself."""
        token = new_token(OWNER)
        with self.writing() as connection:
            if connection.execute(select(studies.c.id).where(studies.c.id == study)).one_or_none() is None:
                raise UsageError("There is no study of that id here.")
            connection.execute(
                update(tokens).where(tokens.c.study == study, tokens.c.role == OWNER).values(revoked=True)
            )
            self._add_token(connection, token, study, OWNER, None, None)
        return token

    def authenticate(self, token: str) -> Caller | None:
        """The caller, or None for a token that is unknown, revoked or expired: nobody is told which."""
        return self.caller_of(token_hash(token)) if looks_like_a_token(token) else None

    def caller_of(self, hashed: str) -> Caller | None:
        """The caller whose token has this hash, if it is still good."""
        with self.reading() as connection:
            row = connection.execute(select(tokens).where(tokens.c.hash == hashed)).one_or_none()
        if row is None or row.revoked or (row.expires is not None and row.expires <= self.now()):
            return None
        return Caller(row.study, row.role, row.site, row.hash)

    # Sites

    def invite(self, study: str, name: str, days: int = 365) -> Invited:
        """A token for a site; inviting a site again gives it a new one and ends the old."""
        name = check_name(name, "site")
        if not 1 <= days <= LONGEST_DAYS:
            raise UsageError(f"A token must last between 1 and {LONGEST_DAYS} days. Got {days} instead.")
        token, expires = new_token(SITE), int(self.now()) + days * DAY
        with self.writing() as connection:
            # One invitation to a study at a time: two doubles must not come in together.
            connection.execute(select(studies.c.id).where(studies.c.id == study).with_for_update())
            self._refuse_double(connection, study, name)
            with contextlib.suppress(IntegrityError), connection.begin_nested():  # it may be known already
                connection.execute(insert(sites).values(study=study, name=name, created=self.today()))
            connection.execute(update(tokens).where(_tokens_of(study, name)).values(revoked=True))
            self._add_token(connection, token, study, SITE, name, expires)
        return Invited(name, token, self.day_of(expires))

    def _refuse_double(self, connection: Connection, study: str, name: str) -> None:
        """A site whose name looks like another's could be taken for it, on every page and in every list."""
        known = connection.execute(select(sites.c.name).where(sites.c.study == study)).scalars().all()
        doubles = [other for other in known if other != name and skeleton(other) == skeleton(name)]
        if doubles and name not in known:
            raise UsageError(
                f"The study has a site {doubles[0]!r}, whose name looks like this one. Choose a name that nobody can "
                "take for another, or invite that site again by its own spelling."
            )

    def revoke(self, study: str, name: str) -> bool:
        """End a site's tokens; whether there is such a site."""
        name = spelled(name)
        with self.writing() as connection:
            known = connection.execute(select(sites.c.name).where(sites.c.study == study, sites.c.name == name))
            if known.one_or_none() is None:
                return False
            connection.execute(update(tokens).where(_tokens_of(study, name)).values(revoked=True))
        return True

    def sites(self, study: str) -> list[SiteInfo]:
        """Every site with what it has pushed and not withdrawn."""
        kept = and_(releases.c.study == study, releases.c.withdrawn.is_(None))
        pushed = (
            select(
                releases.c.site,
                func.count().label("releases"),
                func.sum(releases.c.rows).label("rows"),
                func.max(releases.c.received).label("last_push"),
                func.max(releases.c.epsilon).label("epsilon"),
                func.count(releases.c.epsilon).label("formal"),
                func.max(releases.c.earlier).label("earlier"),
                func.max(releases.c.total_epsilon).label("total_epsilon"),
                func.count(releases.c.total_epsilon).label("bounded"),
            )
            .where(kept)
            .group_by(releases.c.site)
            .subquery()
        )
        latest = (
            select(tokens.c.site, func.max(tokens.c.expires).label("expires"), func.count().label("good"))
            .where(tokens.c.study == study, tokens.c.revoked.is_(False))
            .group_by(tokens.c.site)
            .subquery()
        )
        ever = (
            select(tokens.c.site, func.max(tokens.c.expires).label("expires"))
            .where(tokens.c.study == study)
            .group_by(tokens.c.site)
            .subquery()
        )
        query = (
            select(
                sites.c.name,
                sites.c.created,
                pushed.c.releases,
                pushed.c.rows,
                pushed.c.last_push,
                pushed.c.epsilon,
                pushed.c.formal,
                pushed.c.earlier,
                pushed.c.total_epsilon,
                pushed.c.bounded,
                latest.c.good,
                func.coalesce(latest.c.expires, ever.c.expires).label("expires"),
            )
            .select_from(sites)
            .outerjoin(pushed, pushed.c.site == sites.c.name)
            .outerjoin(latest, latest.c.site == sites.c.name)
            .outerjoin(ever, ever.c.site == sites.c.name)
            .where(sites.c.study == study)
            .order_by(sites.c.name)
        )
        with self.reading() as connection:
            return [self._site(row) for row in connection.execute(query)]

    def _site(self, row: Any) -> SiteInfo:
        weakest = row.epsilon if row.releases and row.formal == row.releases else None
        total = row.total_epsilon if row.releases and row.bounded == row.releases else None
        return SiteInfo(
            name=row.name,
            created=row.created,
            expires=self.day_of(row.expires or 0),
            revoked=not row.good,
            releases=row.releases or 0,
            rows=int(row.rows or 0),
            last_push=row.last_push,
            guarantee=guarantee_words(weakest, row.earlier, total) if row.releases else None,
            epsilon=weakest,
            earlier=row.earlier or 0,
            total_epsilon=total,
        )


def with_ticket_key(study: Study) -> tuple[Study, bytes | None]:
    """A survey by invitation gets its own key: the public half in the file that is hashed, the private one as bytes."""
    if not isinstance(study, SurveyStudy):
        return study, None
    if not study.invitations:
        return replace(study, origin=None), None
    key = TicketKey.new()
    return replace(study, ticket_key=key.public, origin=None), key.stored


def guarantee_words(epsilon: float | None, earlier: int, total: float | None) -> str:
    """What was recomputed, in short, for people; programs have the numbers."""
    if epsilon is None:
        return "no formal guarantee"
    if not earlier:
        return f"epsilon at most {rounded_up(epsilon)} for the record"
    if total is None:
        return "no bound with earlier releases"
    return f"epsilon at most {rounded_up(total)} for the record, with earlier releases"


def _study(row: Any) -> StudyInfo:
    return StudyInfo(row.id, row.kind, row.name, row.hash, json.loads(row.definition), row.created, row.state)


def _tokens_of(study: str, site: str) -> ColumnElement[bool]:
    return and_(tokens.c.study == study, tokens.c.site == site)
