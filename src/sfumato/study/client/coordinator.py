"""A coordinator as a Python object: every call of the server's interface, for sites and owners."""

from __future__ import annotations

import re
import shutil
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

from sfumato.core.errors import CardError, CoordinatorError, TableError, UsageError
from sfumato.core.files import check_free, file_digest, new_file, new_folder
from sfumato.core.progress import Progress, silent
from sfumato.guarantee import Card
from sfumato.guarantee.signer import Signer, signer_beside
from sfumato.learn.classifiers.factory import read_choice
from sfumato.ledger.ledger import default_ledger
from sfumato.ledger.notes import COSIGNATURE, NoteKey, kept_signer, signatures, split_note
from sfumato.ledger.public_log import CHECKPOINT, KEY, LOG, LogCopy, commitment_entry
from sfumato.release.auditable import NoiseCommitment, noise_entry
from sfumato.release.check_rows import read_cells
from sfumato.release.release import card_inside, carries_more
from sfumato.release.signature import COUNTS
from sfumato.study.client import connection
from sfumato.study.client.connection import Address, Connection, Patience, Speaker, message_of, messages_of
from sfumato.study.protocol import messages

# What leaves a site in a push: one file, whose content is fully described by the card inside it.


@dataclass(frozen=True)
class Parcel:
    """A release that was looked at: `file` is all that is ever sent, and `sha256` is its content."""

    file: Path
    card: Card
    columns: tuple[str, ...]
    rows: int
    bytes: int
    sha256: str

    @classmethod
    def open(cls, folder: Path | str, *, counts: bool = False) -> Parcel:
        """Check that the file is the release that its card describes, and nothing else; `rows` of noisy counts is the
        noisy number of rows."""
        folder = Path(folder)
        card, file = Card.load(folder), folder / (COUNTS if counts else "release.parquet")
        if not file.is_file() and counts:
            raise TableError(f"There is no {COUNTS} in {folder}, which this study takes. Release with its study file.")
        if not file.is_file():
            other = next((path.suffix[1:] for path in sorted(folder.glob("release.*"))), None)
            hint = "" if other is None else f" It was written as {other}: sanitize with --format parquet."
            raise TableError(f"There is no release.parquet in {folder}.{hint}")
        names, rows = _checked(file, card)
        if counts:
            cells, names = read_cells(file), ["count"]
            rows = max(1, int(cells[0])) if len(cells) else 0
        elif names != [one["name"] for one in (*card.release_schema["columns"], card.release_schema["label"]) if one]:
            raise CardError(f"{file} has different columns from those on its card. It was changed: release again.")
        elif rows != card.rows:
            raise CardError(f"{file} has {rows} rows, and its card speaks of {card.rows}. Release again.")
        return cls(file, card, tuple(names), rows, file.stat().st_size, file_digest(file))


def _checked(file: Path, card: Card) -> tuple[list[str], int]:
    """Columns and rows of a file that holds its card, and nothing besides."""
    try:
        with pq.ParquetFile(file) as opened:
            names, rows = opened.schema_arrow.names, opened.metadata.num_rows
            embedded, more = card_inside(opened), carries_more(opened)
    except (pa.ArrowException, OSError):
        raise TableError(f"{file} is not a Parquet file, or it is damaged.") from None
    where = f"The release in {file.parent}"
    if embedded is None:
        raise CardError(f"{where} has no card inside. Only what `sfumato sanitize` wrote is pushed.")
    if not card.says_the_same(embedded):
        words = f"The card beside the release in {file.parent} is not the one inside it: one of them was edited."
        raise CardError(words)
    if more:
        raise CardError(
            f"{where} contains more than rows and card: another program has written to it, and what it added would "
            "leave too. Release again and push the folder as it is."
        )
    return names, rows


# Every call of the server's interface.


def site_signer() -> Signer | None:
    """The key that this user's releases are signed with, if there is one: pushes are signed with it too."""
    return Signer.known(signer_beside(default_ledger()))


PIECE = 1 << 20
PAGE = 100  # releases that are asked for at a time; a server may give fewer, and gives none when there are no more
UNACKNOWLEDGED = (
    "The release was not acknowledged, but may have arrived: its receipt may have been lost on the way. "
    "Push it again. What has already arrived is not counted twice, and you get its receipt."
)


class Coordinator(Speaker):
    """Speaks to the coordinator at `url` with a site's or an owner's `token`; `signer` signs what a site pushes.

    A `url` that ends with #sha256:... names the certificate that the coordinator must show.

    >>> with Coordinator("http://127.0.0.1:8000", token) as coordinator:            # doctest: +SKIP
    ...     coordinator.push("k3f9", Parcel.open("release"))
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        insecure_http: bool = False,
        signer: Signer | None = None,
        patience: Patience | None = None,
        transport: Any = None,
    ):
        self._signer = signer
        self.address = Address.read(url, insecure_http=insecure_http)
        self._connection = Connection(self.address, token, patience=patience, transport=transport)

    def __repr__(self) -> str:
        return f"<Coordinator at {self.address.base}>"

    # What sites do

    def study(self, study: str) -> messages.StudyInfo:
        """What the server says the study is; `plan_push` holds it against what was agreed."""
        return message_of(messages.StudyInfo, self._connection.ask("GET", _path(study)))

    def push(
        self, study: str, parcel: Parcel, *, purpose: str = "train", progress: Progress = silent
    ) -> messages.Receipt:
        """Send a release; returns once the server has it durably. Sent before, it is not sent again."""
        if purpose not in messages.PURPOSES:
            raise UsageError(f"A release is pushed to {' or '.join(messages.PURPOSES)}. Got {purpose!r} instead.")
        path = _path(study, "releases", parcel.sha256)
        headers = {"Content-Type": "application/vnd.apache.parquet", "Content-Length": str(parcel.bytes)}
        wish = messages.push_wish(study, parcel.sha256, purpose)
        content, signed = partial(_content, parcel, progress), self._signing(wish)
        try:
            found = self._connection.ask(
                "PUT", path, content=content, signed=signed, headers=headers, params={"purpose": purpose}
            )
        except (connection.UnansweredError, connection.BrokenOffError) as error:
            raise type(error)(f"{error} {UNACKNOWLEDGED}") from None
        receipt = message_of(messages.Receipt, found)
        if receipt.sha256 != parcel.sha256 or receipt.rows != parcel.rows:
            words = "The coordinator's receipt is for something other than what was sent. Ask its owner."
            raise CoordinatorError(words)
        receipt.check()
        return receipt

    def releases(self, study: str) -> list[messages.ReleaseInfo]:
        """A site's own releases; all of them for the owner. They are asked for page by page."""
        found: dict[str, messages.ReleaseInfo] = {}
        asked = {"limit": str(PAGE)}
        while True:
            told = self._connection.ask("GET", _path(study, "releases"), params=asked)
            page, known = messages_of(messages.ReleaseInfo, told), len(found)
            found |= {release.sha256: release for release in page}
            if len(found) == known:
                return list(found.values())
            asked["after"] = next(reversed(found))

    def release(self, study: str, sha256: str) -> messages.ReleaseInfo | None:
        """One release, or None where the server has none of that content from this token."""
        found = self._found(_path(study, "releases", sha256))
        return None if found is None else message_of(messages.ReleaseInfo, found)

    def _found(self, path: str) -> Any:
        """What there is at an address, or None."""
        try:
            return self._connection.ask("GET", path)
        except connection.RefusedError as error:
            if error.status != 404:
                raise
            return None

    def withdraw(self, study: str, sha256: str) -> None:
        """Take a release back: the server removes its file and marks the models that used it."""
        signed = self._signing(messages.withdraw_wish(study, sha256))
        self._connection.ask("DELETE", _path(study, "releases", sha256), signed=signed)

    def _signing(self, wish: Mapping[str, str]) -> connection.Signed | None:
        signer = self._signer
        return None if signer is None else lambda: messages.signed_header(signer, wish)

    def commit(self, commitment: Mapping[str, str]) -> messages.LogReceipt:
        """Have a commitment, signed by its owner, written to the public log."""
        return self._log("/api/v1/log", commitment, lambda day, _: commitment_entry(commitment, day))

    def commit_noise(self, commitment: NoiseCommitment) -> tuple[messages.LogReceipt, str]:
        """Have a commitment to noise written to the public log; returns the log's answer to it, too."""
        told = {"commitment": commitment.commitment, "auditor": commitment.auditor}
        receipt = self._log("/api/v1/log/noise", told, lambda day, answer: noise_entry(told, answer, day))
        return receipt, _said(receipt.entry, "answer")

    def _log(self, path: str, sent: Mapping[str, str], entry: Callable[[str, str], bytes]) -> messages.LogReceipt:
        """Send what is to be logged; the entry must be of that, with a day (and an answer) of the coordinator's."""
        found = message_of(messages.LogReceipt, self._connection.ask("POST", path, json=dict(sent), once=True))
        if found.entry != entry(_said(found.entry, "logged"), _said(found.entry, "answer")).decode():
            raise CoordinatorError("The coordinator logged something other than what was sent. Ask its owner.")
        found.check()
        return found

    # What the owner does

    def invite(self, study: str, site: str, days: int = 365) -> messages.Invited:
        """Let a site in; its token is in the answer, and nowhere else."""
        wish = {"name": site, "days": days}
        return message_of(messages.Invited, self._connection.ask("POST", _path(study, "sites"), json=wish, once=True))

    def sites(self, study: str) -> list[messages.SiteInfo]:
        return messages_of(messages.SiteInfo, self._connection.ask("GET", _path(study, "sites")))

    def revoke(self, study: str, site: str) -> None:
        """Let a site in no longer; what it pushed stays until it is withdrawn."""
        self._connection.ask("DELETE", _path(study, "sites", site))

    def shared_rows(self, study: str) -> list[messages.SharedRows]:
        """Pairs of releases that share rows beyond chance; none where the server does not know."""
        return messages_of(messages.SharedRows, self._found(_path(study, "shared-rows")) or [])

    def put_test(self, study: str, table: Path, *, progress: Progress = silent) -> Any:
        """Give a PUBLIC table with the label, on which models are tested: its plain rows are sent."""
        if not table.is_file():
            raise TableError(f"There is no table {table}.")
        kind = "application/vnd.apache.parquet" if table.suffix == ".parquet" else "text/csv"
        size = table.stat().st_size
        headers = {"Content-Type": kind, "Content-Length": str(size)}
        pieces = partial(_pieces, table, size, progress)
        return self._connection.ask("PUT", _path(study, "test"), content=pieces, headers=headers)

    def train(
        self, study: str, classifier: str, sites: str = messages.ALL_SITES, parameters: Mapping[str, Any] | None = None
    ) -> str:
        """Queue a training, on all sites or on those that agree; returns the id of the model to come. `classifier` may
        hold parameters itself ("svm kernel=sigmoid"), as a study's definition does."""
        if sites not in messages.TRAINED_ON:
            words = f"Models are trained on sites that are one of: {', '.join(messages.TRAINED_ON)}. Got {sites!r}."
            raise UsageError(words)
        name, stated = read_choice(classifier)
        wish: dict[str, Any] = {"classifier": name, "sites": sites}
        if stated := {**stated, **(parameters or {})}:
            wish["parameters"] = stated  # which a server of 0.2 does not know
        found = self._connection.ask("POST", _path(study, "models"), json=wish, once=True)
        if not isinstance(found, dict) or not isinstance(found.get("id"), str):
            raise connection.misshapen()
        return str(found["id"])

    def models(self, study: str) -> list[messages.ModelInfo]:
        return messages_of(messages.ModelInfo, self._connection.ask("GET", _path(study, "models")))

    def model(self, study: str, model: str) -> messages.ModelInfo:
        return message_of(messages.ModelInfo, self._connection.ask("GET", _path(study, "models", model)))

    def reconstruct(self, study: str, column: str, method: str = "parzen-program") -> messages.DensityInfo:
        """Ask for the distribution of a column behind the noise of all releases; `density` tells when it is there."""
        wish = {"column": column, "method": method}
        found = self._connection.ask("POST", _path(study, "densities"), json=wish, once=True)
        return message_of(messages.DensityInfo, found)

    def added(self, study: str) -> messages.AddedCounts:
        """The sum of all sites' noisy counts, as a model to draw rows from."""
        return message_of(messages.AddedCounts, self._connection.ask("GET", _path(study, "counts")))

    def density(self, study: str, density: str) -> messages.DensityInfo:
        return message_of(messages.DensityInfo, self._connection.ask("GET", _path(study, "densities", density)))

    def densities(self, study: str) -> list[messages.DensityInfo]:
        return messages_of(messages.DensityInfo, self._connection.ask("GET", _path(study, "densities")))

    def download(self, study: str, model: str, out: Path, *, force: bool = False, progress: Progress = silent) -> None:
        """Write a model's file; whole, or not at all."""
        check_free(out, force=force)
        with new_file(out) as file, self._connection.answer("GET", _path(study, "models", model, "file")) as response:
            length = response.headers.get("Content-Length")
            total, done = int(length) if length else None, 0
            for piece in connection.pieces_of(response, PIECE):
                file.write(piece)
                done += len(piece)
                progress("Receiving", done, total)

    # Surveys, for their owner

    def survey_progress(self, study: str) -> dict[str, Any]:
        """How a survey goes."""
        found = self._connection.ask("GET", _path(study, "survey"))
        if not isinstance(found, dict) or not found.get("versions"):
            raise CoordinatorError("The coordinator's answer does not describe a survey.")
        return found

    def survey_codes(self, study: str, number: int) -> list[str]:
        """New codes of invitation."""
        found = self._connection.ask("POST", _path(study, "survey", "codes"), json={"number": number}, once=True)
        return [str(code) for code in found["codes"]]

    def survey_close(self, study: str) -> None:
        """Accept no more answers."""
        self._connection.ask("POST", _path(study, "survey", "close"))


def until_done(ask: Callable[[], list[Any]], what: str, progress: Progress, pause: float = 0.5) -> list[Any]:
    """What the coordinator was asked to do, once all of it is done or has failed."""
    while True:
        found = ask()
        progress(what, round(100 * sum(one.progress for one in found)), 100 * len(found))
        if all(one.state in ("done", "failed") for one in found):
            return found
        time.sleep(pause)


def _said(entry: str, what: str) -> str:
    """What the coordinator added to an entry: the day on which it took it, or its answer."""
    found = connection.json_of(entry.encode())
    return str(found.get(what)) if isinstance(found, dict) else ""


def _path(study: str, *parts: str) -> str:
    return "/api/v1/studies/" + "/".join(quote(part, safe="") for part in (study, *parts))


def _content(parcel: Parcel, progress: Progress) -> Iterator[bytes]:
    """What was looked at, or nothing."""
    if file_digest(parcel.file) != parcel.sha256:
        raise CardError(f"{parcel.file} was changed after it was looked at. Nothing was sent. Push it again.")
    return _pieces(parcel.file, parcel.bytes, progress)


def _pieces(path: Path, size: int, progress: Progress) -> Iterator[bytes]:
    """The file piece by piece: memory does not depend on its size."""
    done = 0
    with path.open("rb") as file:
        while piece := file.read(PIECE):
            yield piece
            done += len(piece)
            progress("Sending", done, size)


# Fetch a survey's received bits: a zip file of parts, unpacked with suspicion.

_MEMBER = re.compile(r"(part-\d{5,})/(release\.parquet|card\.json)")


def export_survey(coordinator: Coordinator, study: str, out: Path, *, force: bool = False) -> list[Path]:
    """Write every part as a folder inside `out`; all of them or nothing."""
    names = set()
    with tempfile.TemporaryFile() as packed:
        with coordinator._connection.answer("GET", _path(study, "survey", "export")) as response:
            for piece in connection.pieces_of(response, PIECE):
                packed.write(piece)
        with new_folder(out, force=force) as folder:
            try:
                with zipfile.ZipFile(packed) as archive:
                    for member in archive.infolist():
                        named = _MEMBER.fullmatch(member.filename)
                        if named is None:  # only names that an export has are ever written
                            words = "What the coordinator sent contains files that no export has. Nothing was written."
                            raise CoordinatorError(words)
                        names.add(named[1])
                        (folder / named[1]).mkdir(exist_ok=True)
                        with archive.open(member) as source, (folder / named[1] / named[2]).open("wb") as target:
                            shutil.copyfileobj(source, target, PIECE)
            except zipfile.BadZipFile:
                words = "What the coordinator sent is damaged. Nothing was written; try again."
                raise CoordinatorError(words) from None
    return [out / name for name in sorted(names)]


# The public log of a coordinator for its readers: a copy that is kept and continued, and a witness's word on it.


class LogReader(Speaker):
    """Reads the log of the coordinator at `url`; nothing is sent that tells who asks."""

    def __init__(self, url: str, *, insecure_http: bool = False, transport: Any = None) -> None:
        base, mark, pinned = url.partition("#")
        address = Address.read(base.rstrip("/").removesuffix(LOG) + mark + pinned, insecure_http=insecure_http)
        self._connection = Connection(address, None, transport=transport)

    def _part(self, path: str) -> bytes:
        with self._connection.answer("GET", f"{LOG}/{path}") as response:
            return connection.body_of(response, 8 << 20)

    def copy(self, key: NoteKey | None = None, known: LogCopy | None = None) -> LogCopy:
        """The log as it is now; `key` is what it must be signed by, without one the key that it shows."""
        pinned = key or (known.key if known else None)
        try:
            shown = NoteKey.read(self._part(KEY).decode(errors="replace"))
        except ValueError as error:
            raise CardError(f"The coordinator shows no key of a log: {error}") from None
        if pinned is not None and shown != pinned:
            raise CardError(
                f"The log is signed by another key than the one that you expect: {shown.text}. Do not rely on it, and "
                "ask the coordinator why."
            )
        return LogCopy.read(self._part, shown, known)

    def cosign(self, note: str) -> None:
        """Send a checkpoint with a witness's signature."""
        self._connection.ask("POST", f"{LOG}/cosignatures", json={"note": note}, once=True)


def read_key(text: str | None) -> NoteKey | None:
    """A key of a log as it was typed."""
    if text is None:
        return None
    try:
        return NoteKey.read(text)
    except ValueError as error:
        raise UsageError(f"The key of the log cannot be read. {error}") from None


def follow(url: str, folder: Path, *, key: str | None = None, insecure_http: bool = False) -> LogCopy:
    """Bring the copy in a folder up to date, once all of it was checked; a log that does not continue it is refused."""
    known = LogCopy.load(folder) if (folder / CHECKPOINT).exists() else None
    with LogReader(url, insecure_http=insecure_http) as reader:
        found = reader.copy(read_key(key), known)
    found.save(folder)
    return found


def open_log(where: str | Path, key: str | None = None, *, insecure_http: bool = False) -> LogCopy:
    """A log as it is now, or the copy in a folder as it was followed."""
    if str(where).startswith(("https://", "http://")):
        with LogReader(str(where), insecure_http=insecure_http) as reader:
            return reader.copy(read_key(key))
    if not Path(where).is_dir():
        raise UsageError(f"There is no folder {where}. Give a copy that `sfumato study log` keeps, or an address.")
    found, pinned = LogCopy.load(Path(where)), read_key(key)
    if pinned not in (None, found.key):
        raise CardError(f"The copy in {where} is of a log with another key: {found.key.text}.")
    return found


def witness(url: str, found: LogCopy, secret: Path, *, insecure_http: bool = False) -> NoteKey:
    """Sign the checkpoint of a copy that was followed, as a witness with the key in a file, and send the signature."""
    signer = kept_signer(secret, secret.stem, COSIGNATURE)
    if signer.key.kind != COSIGNATURE:
        raise UsageError(f"{secret} is the key of a log, and not of a witness. Name another file.")
    text, lines = split_note(found.note)
    signed = zip(lines, signatures(lines), strict=True)
    own = [line for line, (name, key, _) in signed if (name, key) == found.key.named]
    with LogReader(url, insecure_http=insecure_http) as reader:
        reader.cosign("\n".join([text, *own, signer.line(text, int(time.time()))]))
    return signer.key
