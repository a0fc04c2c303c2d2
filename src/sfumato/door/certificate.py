"""certificate: a release on one page to print."""

from __future__ import annotations

from pathlib import Path

from sfumato.report.certificate import write_certificate


def certificate(folder: Path | str, *, out: Path | str | None = None, force: bool = False) -> Path:
    """Write one page to print: what was released, proved and measured, what is not protected, and hashes.

    Parameters
    ----------
    folder : path
        Folder of a release. Where an audit.json lies in it, its figures are shown; if the audit is private, so is the
        page.
    out : path, optional
        File to write; certificate.html in the folder by default.
    force : bool, default False
        Replace what is there.

    Returns
    -------
    Path
        The page.
    """
    return write_certificate(Path(folder), None if out is None else Path(out), force=force)
