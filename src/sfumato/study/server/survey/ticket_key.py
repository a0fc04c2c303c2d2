"""The private key behind a survey's tickets: made with the survey, kept in the database, signs what it cannot read."""

from __future__ import annotations

import secrets

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.hashes import SHA384
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_der_private_key,
)

from sfumato.study.protocol.survey_log import EXPONENT, KEY_BITS, KEY_BYTES, message, read_number, write_number

_PSS = padding.PSS(mgf=padding.MGF1(SHA384()), salt_length=0)


class TicketKey:
    """Signs blinded names, and checks tickets. `stored` is the private key as bytes."""

    def __init__(self, stored: bytes):
        loaded = load_der_private_key(stored, password=None)
        assert isinstance(loaded, rsa.RSAPrivateKey)
        self.stored = stored
        self._numbers, self._public = loaded.private_numbers(), loaded.public_key()
        self._n = self._numbers.public_numbers.n

    @classmethod
    def new(cls) -> TicketKey:
        key = rsa.generate_private_key(EXPONENT, KEY_BITS)
        return cls(key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption()))

    @property
    def public(self) -> str:
        """The modulus, as the survey file has it."""
        return write_number(self._n)

    def sign(self, hidden: int) -> int:
        """The signature of a blinded name, below the modulus.

        A random factor of our own goes in and out again, so that the time it takes tells nothing about the key; the
        result is checked, because one wrong half would give the key away.
        """
        n, p, q = self._n, self._numbers.p, self._numbers.q
        factor = 2 + secrets.randbelow(n - 2)
        given = hidden * pow(factor, EXPONENT, n) % n
        by_p, by_q = pow(given % p, self._numbers.dmp1, p), pow(given % q, self._numbers.dmq1, q)
        signature = (by_q + q * (self._numbers.iqmp * (by_p - by_q) % p)) * pow(factor, -1, n) % n
        if pow(signature, EXPONENT, n) != hidden:
            raise ArithmeticError("a signature came out wrong")
        return signature

    def fits(self, hidden: int) -> bool:
        """Whether a blinded name is one: a number that this key can sign, and no trivial one."""
        return 1 < hidden < self._n - 1

    def is_good(self, survey_hash: str, name: str, ticket: str) -> bool:
        """Whether this key signed the name of this answer for this survey."""
        try:
            signature = read_number(ticket).to_bytes(KEY_BYTES, "big")
            self._public.verify(signature, message(survey_hash, name), _PSS, SHA384())
        except (ValueError, InvalidSignature):
            return False
        return True
