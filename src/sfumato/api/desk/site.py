"""A consortium's site: the study that its release is made for, and the push, as `sfumato study push` does it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.core.errors import CardError
from sfumato.core.progress import Progress
from sfumato.guarantee.words import card_in_words
from sfumato.release.asked import Terms

if TYPE_CHECKING:
    from sfumato.study.client import Coordinator


@dataclass(frozen=True)
class Site:
    """Which study the site takes part in, by its own copy of the study file, and where the coordinator is.

    The token stays in its file or variable: only the job that speaks with the coordinator reads it.
    """

    file: Path
    study: str
    to: str
    token_file: Path | None = None
    insecure_http: bool = False

    @cached_property
    def terms(self) -> Terms:
        """What the study settles."""
        from sfumato.api.sanitize import study_terms

        return study_terms(self.file)

    def check(self) -> None:
        """Refuse what could not be pushed in the end, before any work is done for it."""
        from sfumato.study.client.connection import read_token

        self.terms  # noqa: B018 (read, and refused where it is none)
        self.connected(read_token(self.token_file)).__exit__()

    def connected(self, token: str) -> Coordinator:
        from sfumato.study.client.coordinator import Coordinator, site_signer

        return Coordinator(self.to, token, insecure_http=self.insecure_http, signer=site_signer())

    def as_asked(self, folder: Path) -> dict[str, Any]:
        """As a job is asked to push."""
        where = {"file": str(self.file), "study": self.study, "to": self.to, "insecure_http": self.insecure_http}
        token_file = None if self.token_file is None else str(self.token_file)
        return {"site": {**where, "token_file": token_file}, "folder": str(folder)}


def push(asked: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
    """What would leave, in words; sent only where what is `sent` is just what was shown."""
    from sfumato.core.wording import plain
    from sfumato.study.client import carry_out, plan_push
    from sfumato.study.client.connection import read_token

    said = asked["site"]
    token_file = None if said["token_file"] is None else Path(said["token_file"])
    site = Site(**{**said, "file": Path(said["file"]), "token_file": token_file})
    with site.connected(read_token(token_file)) as connected:
        plan = plan_push(connected, asked["folder"], site.study, study_hash=site.terms.hash)
        told, parcel = plan.to_dict(), plan.parcel
        facts = {name: told[name] for name in ("file", "bytes", "rows", "server", "study_name", "study", "study_hash")}
        shown = {
            **facts,
            "sha256": parcel.sha256,
            "columns": None if plan.counts else told["columns"],
            "counts": plan.counts,
            "proof": parcel.card.all_releases().bottom_line(),
            "card": card_in_words(parcel.card),
            "objections": list(plan.objections),
        }
        if asked.get("sent") is None:
            return {"shown": shown}
        if asked["sent"] != plan.parcel.sha256:
            raise CardError("The release changed since it was shown. Nothing was sent: look at it again.")
        receipt = carry_out(plan, connected, progress=progress).receipt
    return {"shown": shown, "receipt": {"site": plain(receipt.site), "bytes": receipt.bytes, "rows": receipt.rows}}
