"""certificate: a release on one page to print."""

from __future__ import annotations

from pathlib import Path

from sfumato.report.certificate import write_certificate


def certificate(
    folder: Path | str, *, out: Path | str | None = None, with_audit: bool = False, force: bool = False
) -> Path:
    """Write one page to print: what is proved, what was released, what is not protected, and hashes.

    Parameters
    ----------
    folder : path
        Folder of a release.
    out : path, optional
        File to write; certificate.html in the folder by default.
    with_audit : bool, default False
        Show what the audit.json in the folder measured, too: facts about private rows. If that audit is private, so is
        the page.
    force : bool, default False
        Replace what is there.

    Returns
    -------
    Path
        The page.
    """
    return write_certificate(Path(folder), None if out is None else Path(out), with_audit=with_audit, force=force)
