"""Bearer tokens: 256 random bits with a prefix that says what they are, should one ever be found somewhere."""

from __future__ import annotations

import hashlib
import re
import secrets

OWNER, SITE = ROLES = ("owner", "site")
_TOKEN = re.compile(r"sfu_(owner|site|session)_[A-Za-z0-9_-]{43}")


def new_token(role: str) -> str:
    """`sfu_owner_...`: a prefix and 43 letters, digits, hyphens and underscores."""
    return f"sfu_{role}_{secrets.token_urlsafe(32)}"


def looks_like_a_token(text: str) -> bool:
    """Whether it is worth asking the database."""
    return _TOKEN.fullmatch(text) is not None


def token_hash(token: str) -> str:
    """What is stored: 256 random bits need no salt and no slow hash."""
    return hashlib.sha256(token.encode()).hexdigest()


def new_id() -> str:
    """A short name for a study or model, hard to guess and easy to read out: 59 random bits."""
    letters = "abcdefghjkmnpqrstuvwxyz23456789"  # without those that look like others
    return "".join(secrets.choice(letters) for _ in range(12))
