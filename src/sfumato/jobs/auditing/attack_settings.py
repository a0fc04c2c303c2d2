"""Settings of attacks: `posterior-breach.rho1=0.05` is the parameter `rho1` of the attack `posterior-breach`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sfumato.as_published import as_published
from sfumato.attacks import ATTACKS, Attack
from sfumato.errors import UsageError

Settings = Mapping[str, Mapping[str, Any]]
"""For every attack that is not run with its defaults, parameters by name."""


def settings_of(parameters: Mapping[str, Any], *, published: bool = False) -> dict[str, dict[str, Any]]:
    """Settings from names with a dot, or from attacks with their parameters; both may be given.

    >>> settings_of({"posterior-breach.rho1": 0.05, "membership": {"statistic": "distance"}})
    {'posterior-breach': {'rho1': 0.05}, 'membership': {'statistic': 'distance'}}
    """
    found: dict[str, dict[str, Any]] = {}
    for name, value in parameters.items():
        attack, dot, parameter = name.partition(".")
        attack = attack.replace("_", "-")
        if attack not in ATTACKS:
            raise UsageError(f"There is no attacker {attack[:60]!r}. Choose from: {', '.join(ATTACKS)}.")
        if not dot and not isinstance(value, Mapping):
            raise UsageError(
                f"A setting is ATTACK.NAME=VALUE, for example posterior-breach.rho1=0.05. Got {name[:60]!r} instead."
            )
        given = {parameter: value} if dot else dict(value)
        found.setdefault(attack, {}).update({key.replace("-", "_"): one for key, one in given.items()})
    for attack, known in ATTACKS.items() if published else ():
        if known.published:
            found[attack] = as_published(attack, known.published, found.get(attack, {}))
    for attack, given in found.items():
        made_attack(ATTACKS[attack], given)  # a wrong one is found before anything is read
    return found


def made_attack(attack: type[Attack], given: Mapping[str, Any]) -> Attack:
    """The attack with these parameters; what does not exist is refused with what does."""
    for name in given:
        if name not in attack.accepts:
            has = f"It has: {', '.join(attack.accepts)}." if attack.accepts else "It has none."
            raise UsageError(f"The attacker {attack.name} has no parameter {name[:60]!r}. {has}")
    made = attack(**given)
    made.check()
    return made
