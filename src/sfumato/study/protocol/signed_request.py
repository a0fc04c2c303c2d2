"""A request that a site's own key signs, so that a stolen token alone pushes nothing.

The key is the one that signs the site's releases, in a namespace of its own. The operator enrolls its fingerprint,
which the site says by telephone or on paper. Each signature holds a number that was never used before, and says what is
asked for: it cannot be sent again, for another study, for other rows, or for another purpose.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import secrets
from collections.abc import Mapping

from sfumato.core.errors import CardError
from sfumato.guarantee.fingerprint import PublicKey
from sfumato.guarantee.signer import Signer, checked

NAMESPACE = "sfumato-request"
HEADER = "Sfumato-Signed"
LONGEST = 2048
_ONCE = re.compile("[0-9a-f]{32}")


def push_wish(study: str, sha256: str, purpose: str) -> dict[str, str]:
    """What a push asks for."""
    return {"do": "push", "study": study, "sha256": sha256, "purpose": purpose}


def withdraw_wish(study: str, sha256: str) -> dict[str, str]:
    """What a withdrawal asks for."""
    return {"do": "withdraw", "study": study, "sha256": sha256}


def signed_header(signer: Signer, wish: Mapping[str, str]) -> dict[str, str]:
    """The header of one attempt."""
    once = secrets.token_hex(16)
    signature = signer.sign(_message(wish, once), NAMESPACE)
    return {HEADER: f"{once}.{base64.b64encode(signature.encode()).decode()}"}


def signed_by(header: str, wish: Mapping[str, str]) -> tuple[PublicKey, str]:
    """Whose key signed this wish, and the number that may be used once; `CardError` where none did."""
    once, _, packed = header[:LONGEST].partition(".")
    try:
        signature = base64.b64decode(packed, validate=True)
    except (binascii.Error, ValueError):
        signature = b""
    if not _ONCE.fullmatch(once):
        raise CardError("The signature of the request cannot be read.")
    return checked(signature, _message(wish, once), NAMESPACE), once


def _message(wish: Mapping[str, str], once: str) -> bytes:
    return json.dumps({**wish, "once": once}, sort_keys=True, separators=(",", ":")).encode()
