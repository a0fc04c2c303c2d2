"""Write what depends on the respondent's page: `integrity` in its index.html, and the hash of all its files.

A test fails while they are not current, so run `make reference` after a change of the page. `--release` also enters the
hash under the package's version, once, when a version is released.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import sys
from pathlib import Path

from sfumato import __version__
from sfumato.study.server.web.rendering import HASHES, page_files, page_hash, published_hashes

WEB = Path(__file__).resolve().parent.parent / "src" / "sfumato" / "study" / "server" / "web"
LOADED = re.compile(r'(href|src)="([\w.]+)" integrity="[^"]*"')


def integrity(content: bytes) -> str:
    return "sha384-" + base64.b64encode(hashlib.sha384(content).digest()).decode()


def with_integrity(html: str, files: dict[str, bytes]) -> str:
    """The page with the hash of every file that it loads."""
    return LOADED.sub(lambda found: f'{found[1]}="{found[2]}" integrity="{integrity(files[found[2]])}"', html)


def main() -> None:
    index = WEB / "survey" / "index.html"
    index.write_text(with_integrity(index.read_text(encoding="utf-8"), page_files()), encoding="utf-8")
    hashes = published_hashes()
    hashes["current"] = page_hash(page_files())
    if "--release" in sys.argv:
        hashes["released"][__version__] = hashes["current"]
    (WEB / HASHES).write_text(json.dumps(hashes, indent=2) + "\n", encoding="utf-8")
    print(hashes["current"])


if __name__ == "__main__":
    main()
