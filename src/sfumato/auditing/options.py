"""The options of an audit with what follows from them; the same words on the command line and in Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sfumato.attacks import ATTACKS
from sfumato.attacks.base import Attack
from sfumato.auditing.asked import AuditAsked
from sfumato.core.accepted import as_published
from sfumato.core.errors import UsageError
from sfumato.release.asked import ENGINES
from sfumato.release.strength import Config

# Settings of attacks: `posterior-breach.rho1=0.05` is the parameter `rho1` of the attack `posterior-breach`.


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


def chosen_attacks(names: Sequence[str] | None) -> list[type[Attack]]:
    """The attacks with these names, or all, in the order of their names."""
    unknown = sorted(set(names or ()) - set(ATTACKS))
    if unknown:
        raise UsageError(f"There is no attacker {unknown[0]!r}. Choose from: {', '.join(ATTACKS)}.")
    return [attack for name, attack in ATTACKS.items() if names is None or name in names]


REPEATS = 10


@dataclass(frozen=True, kw_only=True)
class Options(AuditAsked):
    """What is asked for, with names and paths as the audit works with them."""

    def __post_init__(self) -> None:
        given = vars(self)  # frozen, but not yet in anybody's hands
        given |= {name: dict(given[name] or {}) for name in ("parameters", "columns", "hierarchies")}
        given |= {name: tuple(given[name] or ()) for name in ("quasi_identifiers", "sensitive")}
        given["attacks"] = None if self.attacks is None else tuple(self.attacks)

    def check(self, *, carded: bool) -> None:
        """Refuse what cannot be meant of a release with its card, or of another tool's."""
        (self._check_with_card if carded else self._check_without_card)()
        if self.with_audit and not self.public:
            raise UsageError("--with-audit puts what was measured into an audit for others. Add --public.")
        if self.beside is None and self.beside_original is not None:
            raise UsageError("--with-original is the table of the release given by --with. Give both, or neither.")
        if self.master is not None and not ENGINES[self.engine].spread:
            raise UsageError("--master says where Spark runs. Add --engine spark.")
        self._check_numbers()
        self._check_published()
        self._check_crowds(marked=carded or self.schema is not None)
        self.settings  # noqa: B018 (a wrong one is found before anything is read)

    def _check_with_card(self) -> None:
        if self.schema is not None:
            raise UsageError("The release has a card, which contains its schema. Leave --schema out.")
        if self.match or self.mapping or self.columns or self.hierarchies:
            raise UsageError(
                "A release with a card has its private match file and its names. Leave --match, --mapping and "
                "--columns out."
            )

    def _check_without_card(self) -> None:
        if self.key is not None:
            raise UsageError("A key belongs to a release with a card. Leave --key out.")
        if self.match and self.mapping:
            raise UsageError("Say whose row is whose by --match or by --mapping, not by both.")
        if self.beside is not None:
            raise UsageError("Only a release with a card can be attacked together with another. Leave --with out.")
        if ENGINES[self.engine].spread:
            raise UsageError("--engine spark audits a release with its card. Leave it out.")

    def _check_numbers(self) -> None:
        if self.clusters < 0 or self.clusters == 1:
            raise UsageError(f"--clusters must be at least 2, or 0 for none. Got {self.clusters} instead.")
        if not 0 < self.tolerance < 1:
            raise UsageError(f"--tolerance must be a share of the range between 0 and 1. Got {self.tolerance} instead.")
        if not self.device_memory > 0:
            raise UsageError(f"--device-memory must be above 0 (GB). Got {self.device_memory} instead.")

    def _check_published(self) -> None:
        without = [name for name in self.attacks or () if name in ATTACKS and not ATTACKS[name].published]
        if self.published and without:
            have = ", ".join(name for name, one in ATTACKS.items() if one.published)
            raise UsageError(
                f"No paper has a variant of the attacker {without[0]} that differs from ours. Leave --as-published "
                f"out, or choose among: {have}."
            )
        if self.published and self.public and not self.with_audit:
            raise UsageError("--public alone runs no attacker and no classifier. Leave --as-published out.")

    def _check_crowds(self, *, marked: bool) -> None:
        """`marked`: a schema may say which columns others can know."""
        if (self.sensitive or self.population is not None) and not (self.quasi_identifiers or marked):
            raise UsageError("--sensitive and --population need --quasi-identifiers, or a schema that marks them.")
        if twice := set(self.sensitive or ()) & set(self.quasi_identifiers or ()):
            raise UsageError(f"A column cannot be both quasi-identifier and sensitive: {', '.join(sorted(twice))}.")

    @property
    def settings(self) -> Settings:
        """What attacks are run with, where that is not their defaults."""
        return settings_of(self.parameters, published=self.published)

    @property
    def chosen(self) -> list[type[Attack]]:
        """The attacks to run, in the order of their names."""
        return chosen_attacks(self.attacks) if self.measured else []

    @property
    def measured(self) -> bool:
        """Whether anything is measured on private rows."""
        return self.with_audit or not self.public

    @property
    def splits(self) -> int:
        """Of people, on which classifiers are trained; whoever names attacks wants these."""
        if not self.measured:
            return 0
        return (0 if self.attacks else REPEATS) if self.repeats is None else self.repeats

    @property
    def limit(self) -> float | None:
        """The owner's limit of extra, from the config where it is not given."""
        if self.max_extra is None and self.config is not None:
            return Config.load(self.config).max_extra
        return self.max_extra
