"""Writes tickets.json: keys, names and factors with the blinded numbers and tickets that clients must make of them.

The keys are for tests alone. Run it again only when the definition of tickets changes:
`python tests/vectors/write_tickets.py`.
"""

from __future__ import annotations

import json
import secrets
from pathlib import Path

from sfumato.study.protocol.agreed import blind, read_key, unblinded, write_number
from sfumato.study.server.store.survey_store import TicketKey


def case(number: int) -> dict[str, str]:
    key = TicketKey.new()
    modulus, survey = read_key(key.public), f"sha256:{number:064x}"
    name = secrets.token_urlsafe(16)
    factor = 2 + secrets.randbelow(modulus - 2) if number else 2  # the smallest one needs every leading zero
    hidden = blind(modulus, survey, name, factor)
    signature = key.sign(hidden.hidden)
    return {
        "key": key.public,
        "survey": survey,
        "name": name,
        "factor": write_number(factor),
        "hidden": write_number(hidden.hidden),
        "inverse": write_number(hidden.inverse),
        "signature": write_number(signature),
        "ticket": unblinded(modulus, survey, name, hidden.inverse, signature),
    }


if __name__ == "__main__":
    path = Path(__file__).parent / "tickets.json"
    path.write_text(json.dumps({"cases": [case(number) for number in range(6)]}, indent=1) + "\n", encoding="utf-8")
    print(path)
