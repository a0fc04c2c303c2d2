"""What prevents a proof, and the option that removes it."""

from __future__ import annotations

from collections.abc import Iterable

WAYS_OUT = {
    "bounds or categories": "say what you know of each column without this table, and how (sfumato declare SCHEMA "
    "--column COL --low LOW --high HIGH --reason ...)",
    "classes of the label": "list the label's classes as your source has them (sfumato declare SCHEMA --column COL "
    "--categories A,B --reason ...)",
    "a given basis": "use a public basis and say why it is (--param basis_reason=..., or --basis-from TABLE --reason "
    "... without --conditional), or use --param basis=identity",
    "basis": "use a basis that owes nothing to this table (--basis-from TABLE --reason ..., --param basis=dct), or "
    "estimate it under its own epsilon (--param basis=private --epsilon-record ...)",
    "ranges of the components": "take the widths from the public bounds (--param component_bounds=public)",
    "the guidance": "use guidance that owes nothing to this table (--param guidance=... --param guidance_reason=...)",
    "given guidance": "say why the guidance is public (--param guidance_reason=...)",
    "guidance that": "use guidance that owes nothing to anybody's rows, and say why (--param guidance_reason=...)",
    "rotation with": "draw a new rotation (leave --key out)",
    "the plan of": "say where the plan's bins and pairs come from (sfumato study plan, or their source and reason)",
    "floating-point noise": "draw the noise exactly (--param noise=exact, or a law that has an exact form: laplace)",
    "the mechanism and its strength": "choose without these rows (sfumato recommend with a public schema, or by hand)",
    "a fixed seed": "leave --seed out",
    "the number to predict": "perturb the number to predict like the others (leave --target out)",
    "the largest number of rows": "cap the rows per person at a public number (--max-rows-per-person)",
}
"""How the reason on a card begins, and what the owner can do about it."""


def ways_out(reasons: Iterable[str]) -> list[str]:
    """What would make a conditional guarantee hold, each once; nothing for a reason that nothing removes."""
    found = [way for reason in reasons for start, way in WAYS_OUT.items() if reason.startswith(start)]
    return list(dict.fromkeys(found))
