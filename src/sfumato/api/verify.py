"""verify: whether a release is consistent with its card, for anybody who holds both."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from sfumato.core.asked import asks
from sfumato.core.errors import CardError, SfumatoError, UsageError
from sfumato.core.wording import counted
from sfumato.guarantee.signer import Stated, from_words, stated_in
from sfumato.guarantee.words import Finding, wrong
from sfumato.ledger.public_log import in_log
from sfumato.release.asked import VerifyAsked
from sfumato.release.presented import CHECKS, UNSEEN, Presented, presented, run
from sfumato.release.signature import signature as signature_of


@dataclass(frozen=True)
class Verification:
    """What was found. `ok` is True where nothing was found against the release, which is not that all of it is true."""

    release: str
    findings: tuple[Finding, ...]

    @cached_property
    def ok(self) -> bool:
        """Whether release and card are consistent, as far as can be told from outside."""
        return not any(finding.state == "wrong" for finding in self.findings)

    @property
    def signed_by(self) -> str | None:
        """The fingerprint of the key that signed the card; None where none did."""
        return next((one.figures["signed_by"] for one in self.findings if "signed_by" in one.figures), None)

    @property
    def cannot_check(self) -> list[str]:
        """What cannot be checked from outside, a sentence each."""
        return [finding.sentence for finding in self.findings if finding.state == "cannot check"]

    @property
    def headline(self) -> str:
        """The verdict."""
        against = sum(finding.state == "wrong" for finding in self.findings)
        if against:
            return f"Not consistent: {counted(against, 'finding')} against this release. Do not rely on it."
        signed = "signed" if self.signed_by else "unsigned"
        return f"Consistent and {signed}: nothing here contradicts the card."

    @property
    def meaning(self) -> str:
        """What follows from the verdict."""
        if not self.ok:
            return "Ask the owner for the folder as it was released."
        owner = "" if self.signed_by else " Anyone may have made rows and card."
        return f"That the release was really made as it says cannot be proved from outside.{owner}"

    @property
    def told(self) -> list[tuple[str, list[str]]]:
        """Every finding under its title: what is wrong, what agrees, what cannot be checked."""
        titles = {"wrong": "Wrong", "ok": "Agrees", "cannot check": "Cannot be checked from outside"}
        found = {title: [one.sentence for one in self.findings if one.state == key] for key, title in titles.items()}
        return [(title, lines) for title, lines in found.items() if lines]

    @property
    def name(self) -> str:
        """Of the folder, without where it lies."""
        return Path(self.release).resolve().name

    def in_words(self) -> str:
        """The verdict, then every finding."""
        found = [line for title, lines in self.told for line in (f"{title}:", *(f"  {one}" for one in lines))]
        return "\n".join([self.headline, *found])

    def to_html(self) -> str:
        """The same as one page that loads nothing, with the fingerprint as a QR code."""
        from sfumato.auditing.report.page import verified_page

        return verified_page(self, self.signed_by)

    def to_dict(self) -> dict[str, Any]:
        """As `--json` prints it."""
        return {
            "release": self.release,
            "ok": self.ok,
            "signed_by": self.signed_by,
            "cannot_check": self.cannot_check,
            "findings": [finding.to_dict() for finding in self.findings],
        }


@asks(VerifyAsked)
def verify(release: Path | str, options: VerifyAsked) -> Verification:
    """Check a release that you received: guarantee, files and rows against its card.

    Nothing is needed but the release, and nothing is written. A release that passes is consistent; that it was made as
    it says cannot be proved from outside, and `cannot_check` says what is left to believe.

    Parameters
    ----------
    release : path
        Folder of the release.
    {options}

    Returns
    -------
    Verification
        `ok`, `findings`, `cannot_check`; `in_words()` for people and `to_dict()` for machines.

    Raises
    ------
    UsageError
        Where there is no such folder or no such fingerprint, or what recomputes it is of another version. What is wrong
        with a release is a finding and no error.
    """
    owner = None if options.owner is None else from_words(options.owner)
    if options.log_key is not None and options.log is None:
        raise UsageError("--log-key says whose log is meant. Give the log too, with --log.")
    audited = None
    if not options.with_seed is options.auditor_key is options.table is None:
        from sfumato.release.recompute import Audited, recomputed  # brings all that releases a table

        audited = Audited.read(options.with_seed, options.auditor_key, options.table)
    stated = _stated(options.statements)

    def signature(what: Presented) -> Iterator[Finding]:
        yield from signature_of(what.folder, what.rows, owner, stated)

    try:
        what = presented(release)
    except UsageError:
        raise
    except SfumatoError as error:
        about = "card" if isinstance(error, CardError) else "files"
        return Verification(str(release), (wrong(about, str(error)),))
    found = Verification(str(release), tuple(finding for check in (signature, *CHECKS) for finding in run(check, what)))
    copy = None
    if options.log is not None:
        from sfumato.study.client.coordinator import open_log

        copy, signed_by = open_log(options.log, options.log_key), found.signed_by
        logged = run(lambda one: in_log(one.folder, copy, signed_by), what)
        found = replace(found, findings=(*found.findings, *logged))
    if audited is not None:
        seen = tuple(one for one in found.findings if one.check != UNSEEN)
        found = replace(found, findings=(*seen, *recomputed(what, audited, copy)))
    return found


def _stated(path: Path | str | None) -> list[Stated]:
    """What the reader was handed; a file that is none is their mistake, and no finding about the release."""
    try:
        return [] if path is None else stated_in(Path(path))
    except CardError as error:
        raise UsageError(str(error)) from None
