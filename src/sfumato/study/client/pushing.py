"""A push in two steps: a plan that shows exactly what would leave the site and to whom, then the sending."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from sfumato.core.errors import CardError, CoordinatorError, SfumatoError
from sfumato.core.files import write_whole
from sfumato.core.progress import Progress, silent
from sfumato.core.wording import plain
from sfumato.guarantee.words import card_in_words
from sfumato.release.check_rows import noisy_counts, read_cells, wrong_rows
from sfumato.release.release import release_file
from sfumato.release.signature import signer_of
from sfumato.study.client.coordinator import Coordinator, Parcel
from sfumato.study.client.private_notes import Agreements
from sfumato.study.protocol.messages import Receipt
from sfumato.study.protocol.pool_study import PoolStudy
from sfumato.study.protocol.study_file import COUNTS_TRAIN, objections, study_from_dict


@dataclass(frozen=True)
class Plan:
    """What would leave, to which study, and every reason against it. `agreed`: this study was agreed to before."""

    parcel: Parcel
    study_id: str
    study: PoolStudy
    address: str
    purpose: str
    agreed: bool
    objections: tuple[str, ...]

    def in_words(self) -> str:
        """All of it, for the person who decides."""
        parcel, plan = self.parcel, self.study.plan
        if plan is None:
            label = parcel.card.release_schema["label"]
            columns = [f"{name} (label)" if label and name == label["name"] else name for name in parcel.columns]
            content = [f"  columns    {', '.join(columns)}", f"  rows       {parcel.rows:,}, to {self.purpose}"]
        else:
            content = [
                f"  counts     {self.counts:,} with noise, of about {parcel.rows:,} rows; no row leaves",
                f"  plan       {plan.digest}",
                f"             ({plan.chosen_by})",
            ]
        return "\n".join(
            [
                "This leaves the site, and nothing else:",
                f"  file       {parcel.file} ({parcel.bytes:,} bytes)",
                f"  sha256     {parcel.sha256}",
                *content,
                f"  guarantee  {parcel.card.guarantee['words']}",
                "It goes to:",
                f"  server     {self.address}",
                f"  study      {plain(self.study.name)} ({self.study_id})",
                f"  hash       {self.study.hash}",
                "The card, which is inside the file:",
                *(f"  {line}" for line in card_in_words(parcel.card).splitlines()),
            ]
        )

    @property
    def counts(self) -> int:
        """Noisy counts that leave instead of rows; 0 where rows do."""
        return 0 if self.study.plan is None else self.study.plan.cells(max(1, len(self.parcel.card.classes)))

    def to_dict(self) -> dict[str, Any]:
        return {
            **{name: getattr(self.parcel, name) for name in ("bytes", "sha256", "rows")},
            "file": str(self.parcel.file),
            "columns": list(self.parcel.columns),
            "purpose": self.purpose,
            "card": self.parcel.card.to_dict(),
            "server": self.address,
            "study": self.study_id,
            "study_name": plain(self.study.name),
            "study_hash": self.study.hash,
            "agreed_before": self.agreed,
            "objections": list(self.objections),
        }


class Pushed(NamedTuple):
    """The server's receipt, and where it is kept beside the release."""

    receipt: Receipt
    receipt_file: Path


def plan_push(
    coordinator: Coordinator,
    folder: Path | str,
    study_id: str,
    *,
    purpose: str = "train",
    study_hash: str | None = None,
    agreements: Agreements | None = None,
) -> Plan:
    """Look at the release and at the study; refuses a study that is not the one that was agreed to."""
    study = agreed_study(coordinator, study_id, study_hash)
    parcel = Parcel.open(folder, counts=study.plan is not None)
    known = (agreements or Agreements.usual()).hash_of(coordinator.address.base, study_id)
    if known is not None and known != study.hash and study_hash is None:
        raise CoordinatorError(
            f"The study {study_id} is no longer the one that you agreed to: its hash was {known}, and now it is "
            f"{study.hash}. Ask its owner what changed. If you agree to the new one, push once with --study-hash and "
            "the new hash."
        )
    against = objections(study, parcel.card)
    if not against:  # rows and cells are read only where the study takes the card
        if study.plan is None:
            against = [wrong] if (wrong := wrong_rows(parcel.file, parcel.card)) else []
        elif purpose != "train":
            against = [COUNTS_TRAIN]
        else:
            try:
                noisy_counts(read_cells(parcel.file), study.plan, parcel.card)
            except SfumatoError as error:
                against = [str(error)]
    return Plan(parcel, study_id, study, coordinator.address.base, purpose, known == study.hash, tuple(against))


def agreed_study(coordinator: Coordinator, study_id: str, study_hash: str | None) -> PoolStudy:
    """The study as the server describes it; its hash is computed here, and is the one agreed on out of band."""
    info = coordinator.study(study_id)
    try:
        study = study_from_dict(info.definition)
    except SfumatoError as error:
        words = f"The coordinator's description of the study cannot be used: {plain(str(error))}"
        raise CoordinatorError(words) from None
    if study.hash != info.hash:
        raise CoordinatorError(
            f"The coordinator says that the study's hash is {plain(info.hash, 80)}, and its description has "
            f"{study.hash}. One of the two programs is out of date, or the description was changed. Nothing was sent."
        )
    if study_hash is not None and study_hash != study.hash:
        raise CoordinatorError(
            f"The study on the server is not the one that was agreed: expected {study_hash}, found {study.hash}. "
            "Nothing was sent."
        )
    if not isinstance(study, PoolStudy):
        raise CoordinatorError(f"{study_id} is a study of kind {study.kind}, which accepts no releases.")
    return study


def carry_out(
    plan: Plan, coordinator: Coordinator, *, agreements: Agreements | None = None, progress: Progress = silent
) -> Pushed:
    """Send what the plan shows, remember the agreement, and keep the receipt beside the release."""
    if plan.objections:
        raise CardError(
            "The study does not accept this release:\n" + "\n".join(f"  - {line}" for line in plan.objections)
        )
    folder = plan.parcel.file.parent
    key = signer_of(folder, release_file(folder))
    (agreements or Agreements.usual()).agree(plan.address, plan.study_id, plan.study.hash)
    receipt = coordinator.push(plan.study_id, plan.parcel, purpose=plan.purpose, progress=progress)
    kept = receipt_file(folder, plan.study_id)
    about = {
        "server": plan.address,
        "study_hash": plan.study.hash,
        "signed_by": None if key is None else key.fingerprint,
        "receipt": receipt.to_dict(),
    }
    write_whole(kept, json.dumps(about, indent=1), private=True)
    return Pushed(receipt, kept)


def pushed_before(folder: Path, study_id: str) -> str | None:
    """What a folder's receipt says was pushed to a study: rows, or counts."""
    try:
        return str(json.loads(receipt_file(folder, study_id).read_text(encoding="utf-8"))["receipt"]["sha256"])
    except (OSError, ValueError, LookupError, TypeError):
        return None


def receipt_file(folder: Path, study_id: str) -> Path:
    """Where the receipt of a push to a study lies, beside the release."""
    name = "".join(character if character.isalnum() or character in "-_" else "_" for character in study_id)[:80]
    return folder / f"receipt-{name}.json"
