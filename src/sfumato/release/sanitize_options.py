"""What can be asked of `sanitize`; the same words on the command line and in Python."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from sfumato.core.accepted import as_published
from sfumato.core.asked import asked_fields
from sfumato.core.errors import PrivacyLeakWarning, SchemaError, TableError, UsageError
from sfumato.guarantee import Key
from sfumato.guarantee.card import EXPERIMENT, SEEDED
from sfumato.guarantee.maps import is_reason
from sfumato.guarantee.person_hash import Fingerprint, Prints
from sfumato.guarantee.signer import Signer, signer_beside
from sfumato.ledger import Ledger
from sfumato.ledger.roll import Roll, joined
from sfumato.mechanisms import Mechanism, make_mechanism
from sfumato.noise import Streams
from sfumato.release.asked import ENGINES, SCORINGS, Abilities, Terms
from sfumato.release.source import Source
from sfumato.release.strength import MECHANISM, NAMES_STRENGTH, Config, Strength, Wanted, refuse
from sfumato.table import Encoding, Schema, SqlQuery, open_table
from sfumato.table.statistics import Moments

# A basis from rows that are public: people whom the release does not speak of shape the directions it uses.
#
# That rows are public is the owner's word, and it is checked where it can be: rows that are those of the table, or of a
# table that the ledger knows as released, are private ones. Two tables of different people share rows by chance, so
# that only an overlap beyond chance counts (docs/decisions/0092).

HARDLY_EVER = 1e-4
"""How probable an overlap of different people may be at most, to be held against them: 14 different rows."""
THE_TABLE, RELEASED = "the table itself", "a table that your ledger knows as released"


class PublicRows:
    """The rows of --basis-from, which anybody may have, as the ledger would know them again. They give the mechanism
    their principal components."""

    def __init__(self, options: Options, mechanism: Mechanism, encoding: Encoding, ledger: Ledger) -> None:
        from sfumato.mechanisms.principal_laplace import principal_components

        only_private = Encoding(Schema(encoding.schema.private))
        source = Source(open_table(options.basis_from), only_private, labelled=False)
        source.roll = self.roll = ledger.new_roll(source.known_by, people=False)
        fingerprint, moments = ledger.fingerprint(encoding.width), Moments.empty(encoding.width)
        try:
            for block in source.blocks():
                moments += Moments.of(block.X)
                fingerprint.add(block.X)
                assert block.told is not None
                self.roll.add(block.told)
        except (TableError, SchemaError) as error:
            raise type(error)(f"The public rows of --basis-from cannot be used: {error}") from None
        # A release that is to be conditional is so whatever is found: its card is no test for who is in a table.
        reason = None if options.conditional else options.reason
        mechanism.set_params(basis=principal_components(moments), basis_reason=reason)
        self.fingerprint, self.conditional = fingerprint.hexdigest(), options.conditional

    def holds_private_rows(self, fingerprint: Fingerprint, roll: Roll | None, ledger: Ledger) -> bool:
        """Whether there are rows of the table or of one released before: refused, unless no proof is wanted. How many
        they are is for the owner's eyes only."""
        rows, whose = self._private(fingerprint, roll, ledger)
        if not rows:
            return False
        told = (
            f"{rows:,} of the {len(self.roll):,} rows of --basis-from are rows of {whose}, more than chance explains. "
            "Those are private, and a basis made from them reveals something about the people in them."
        )
        if not self.conditional:
            raise UsageError(f"{told} Give rows that anybody may have, or go on without a proof (--conditional).")
        warnings.warn(f"{told} Nothing is proved, and the card does not tell why.", PrivacyLeakWarning, stacklevel=2)
        return True

    def _private(self, fingerprint: Fingerprint, roll: Roll | None, ledger: Ledger) -> tuple[int, str]:
        """How many of the rows are private ones, and whose; 0 where chance explains what there is."""
        if self.fingerprint == fingerprint.hexdigest():
            return len(self.roll), THE_TABLE
        tags = self.roll.tags
        if roll is not None and (rows := shared_beyond_chance(joined(self.roll.over(tags)), joined(roll.over(tags)))):
            return rows, THE_TABLE
        for known, entry in ledger.entries():
            if known == self.fingerprint:
                return len(self.roll), RELEASED
            kept = ledger.roll_of(entry)
            tags = () if kept is None else tuple(tag for tag in self.roll.tags if tag in kept.tags)
            if kept is None or not tags:
                continue
            theirs = kept.rows() if tags == kept.tags else joined(kept.over(tags))
            if rows := shared_beyond_chance(joined(self.roll.over(tags)), theirs):
                return rows, RELEASED
        return 0, ""


def shared_beyond_chance(public: Prints, private: Prints) -> int:
    """How many public rows are among the private ones; 0 where two tables of different people may share as many.

    Let a row occur Poisson(a) times in one table and Poisson(b) times in the other. Given that it occurs an even number
    of times in both together, it occurs equally often in each with probability at most 1/2, whatever a and b are: given
    the sum t, one count is binomial, and C(t, t/2) / 2^t <= 1/2. A copied row does so always. And whichever rows are
    public, each of them occurs exactly once among the private ones with probability a exp(-a) <= 1/e: that also finds
    rows that were copied several times.
    """
    from scipy.special import bdtrc  # slow to load

    theirs, their_counts = np.unique(public, return_counts=True)
    ours, our_counts = np.unique(private, return_counts=True)
    _, left, right = np.intersect1d(theirs, ours, assume_unique=True, return_indices=True)
    in_public, in_private = their_counts[left], our_counts[right]
    only_in_one = sum(
        int((counts % 2 == 0).sum() - (shared % 2 == 0).sum())
        for counts, shared in ((their_counts, in_public), (our_counts, in_private))
    )
    even = only_in_one + int(((in_public + in_private) % 2 == 0).sum())
    equal, once = int((in_public == in_private).sum()), int((in_private == 1).sum())
    chances = [bdtrc(equal - 1, even, 0.5) if equal else 1.0, bdtrc(once - 1, len(theirs), np.exp(-1)) if once else 1.0]
    return int(in_public.sum()) if min(chances) < HARDLY_EVER else 0


@dataclass(frozen=True, kw_only=True)
class Options(Wanted):
    """How to sanitize: what was asked for, and what follows from it."""

    trial: int | None = None
    """Seed of a trial whose rows never leave the program: a dry run whose card is that of a release without a seed."""
    run_key: bytes | None = field(default=None, repr=False)
    """What an auditor recomputes a release with."""

    def __post_init__(self) -> None:
        if isinstance(self.key, str):
            object.__setattr__(self, "key", Path(self.key))
        for name in ("parameters", "columns"):
            object.__setattr__(self, name, dict(getattr(self, name) or {}))
        for one, says in asked_fields(self):
            if says.parameter and one.name in self.parameters:
                if getattr(self, one.name) != one.default:
                    raise UsageError(f"{one.name} is given twice, once as --param. Leave one of them out.")
                object.__setattr__(self, one.name, self.parameters[one.name])
                object.__setattr__(self, "parameters", {k: v for k, v in self.parameters.items() if k != one.name})

    @property
    def terms(self) -> Terms | None:
        """What the study settles, once its file was read."""
        assert self.study is None or isinstance(self.study, Terms)
        return self.study

    @property
    def writes_nothing(self) -> bool:
        """Whether its rows never leave the program: not even a key is kept."""
        return self.dry_run or self.trial is not None

    @property
    def leaves_no_mark(self) -> bool:
        """Whether no ledger may be written: nothing is released."""
        return self.writes_nothing or self.experiment

    @property
    def is_counted(self) -> bool:
        """Whether it stands beside earlier releases: a dry run does, as the release would."""
        return self.trial is None and not self.experiment

    @property
    def own_ledger(self) -> Ledger:
        """The owner's; for an experiment one without a file, which knows of no release."""
        return Ledger.of_nothing() if self.experiment else Ledger(self.ledger)

    @property
    def not_for_release(self) -> str | None:
        """What its card says of why it may not be released."""
        return EXPERIMENT if self.experiment else None if self.seed is None else SEEDED

    @property
    def signer(self) -> Path | None:
        """The file of the owner's key, which signs the release; None where nothing may be released. One that cannot be
        used is refused now, and not when all is done."""
        if self.leaves_no_mark or self.not_for_release is not None:
            return None
        path = signer_beside(self.own_ledger.path)
        Signer.known(path)
        return path

    @property
    def noise_seed(self) -> int | None:
        """Where repeatable noise starts; None for the operating system's entropy."""
        return self.seed if self.trial is None else self.trial

    def given_streams(self) -> Streams | None:
        """Streams that are known elsewhere too: by their seed, or because a release is recomputed."""
        if self.run_key is not None:
            return Streams(self.run_key)
        return None if self.noise_seed is None else Streams.seeded(self.noise_seed)

    def settle(self) -> Plan:
        """Mechanism and strength, once everything that can be refused without a table was."""
        others = (self.epsilon, self.epsilon_record, self.max_posterior, self.terms)
        if self.privacy_loss is not None and any(one is not None for one in others):
            raise UsageError(
                "--privacy-loss settles how strong the noise is. Leave it out, or leave out --epsilon, "
                "--epsilon-record, --max-posterior and --study."
            )
        wanted = replace(self, parameters=self._parameters())
        if self.config is None:
            strength = wanted.under(self.terms, self.schema)
        else:
            config = self.config if isinstance(self.config, Config) else Config.load(self.config)
            strength = config.settle(wanted, self.terms, self.schema)
        return Plan(self, strength, self._checked_mechanism(strength))

    def _parameters(self) -> Mapping[str, Any]:
        """The owner's own, with the paper's where it is to be as published."""
        if not self.published:
            return self.parameters
        if self.terms is not None:
            raise UsageError("The study settles the method and its parameters. Leave --as-published out.")
        from sfumato.mechanisms import MECHANISMS  # all methods, which only this question needs

        name = self.mechanism or MECHANISM
        known = MECHANISMS.get(name)  # an unknown one is refused later, with the names of all
        have = [one for one, made in MECHANISMS.items() if made.published is not None]
        return as_published(name, known.published if known else {}, self.parameters, have)

    def names_strength(self, schema: Schema) -> bool:
        """Whether the caller said how strong the noise is to be: by an option, a parameter, a config, a study, or for
        every column."""
        wanted = (self.epsilon_record, self.epsilon, self.epsilon_presence, self.max_posterior, self.privacy_loss)
        if (
            any(one is not None for one in (*wanted, self.config, self.terms))
            or NAMES_STRENGTH & self._parameters().keys()
        ):
            return True
        return all(NAMES_STRENGTH & column.choices.chosen.keys() for column in schema.private)

    def agreed_schema(self) -> Schema | Path | str | None:
        """The study's schema, or the owner's own."""
        return self.schema if self.terms is None else self.terms.schema

    @property
    def engine_can(self) -> Abilities:
        """What the engine can do."""
        return ENGINES[self.engine]

    def _checked_mechanism(self, strength: Strength) -> Mechanism:
        """The mechanism, once all that can be checked without a table was."""
        if self.cohort is not None and not (0 < len(self.cohort.strip()) <= 100 and self.cohort.isprintable()):
            raise UsageError("--cohort must be a name of at most 100 characters, on one line.")
        refuse(self._wrong_in_spark())
        mechanism = make_mechanism(strength.mechanism, dict(strength.parameters))
        refuse(self._wrong(mechanism, strength.parameters))
        return mechanism

    def _wrong(self, mechanism: Mechanism, parameters: Mapping[str, Any]) -> Iterator[str]:
        """What cannot be meant together, in the order in which it is told."""
        if mechanism.whole_table and not self.engine_can.hold_table:
            yield f"{mechanism.name} needs the whole table at once. Use --engine memory."
        yield from self._wrong_search(mechanism)
        yield from self._wrong_public_rows(mechanism, parameters)
        if self.auditable is not None or self.answer is not None:
            yield from self._unrepeatable(mechanism)
        if self.again and not self.only_new:
            yield "--again concerns --only-new alone: without that, everybody is released, known or not. Leave it out."
        if self.leaves_no_mark and self.only_new:
            yield "--only-new marks rows in the ledger, and a dry run or an experiment leaves none. Leave one out."
        if self.experiment and self.resume:
            yield "--resume counts a killed run once, and an experiment is not counted. Leave out one of them."

    def _wrong_public_rows(self, mechanism: Mechanism, parameters: Mapping[str, Any]) -> Iterator[str]:
        if self.basis_from is None:
            if self.reason is not None:
                yield "--reason says why the rows of --basis-from are public. Give both, or neither."
            if self.conditional:
                yield "--conditional goes on without a proof where rows of --basis-from are private. Give both."
            return
        if "basis" not in mechanism.get_params(deep=False):
            yield f"--basis-from gives principal-laplace its basis, but {mechanism.name} has none."
        for given in sorted({"basis", "basis_reason"} & parameters.keys()):
            yield f"The basis comes from --basis-from and the reason from --reason. Leave {given} out."
        if not self.conditional and not is_reason(self.reason):
            yield "--basis-from needs a --reason: say in one sentence why these rows are public (who published them)."

    def _unrepeatable(self, mechanism: Mechanism) -> Iterator[str]:
        """What an auditor could not recompute."""
        if self.auditable is None:
            yield "--answer is what an auditor answered. Give the key too: --auditable FILE."
        rows = ("seed", "experiment", "dry_run", "only_new", "search", "key", "basis_from", "privacy_loss", "target")
        engine = ["--engine spark"] if self.engine_can.spread else []
        for option in [
            *self.asked(*rows),
            *engine,
            *([f"--mechanism {mechanism.name}"] if mechanism.needs_key else []),
        ]:
            yield (
                f"An auditor cannot recompute a release with {option}: it does not follow from table, parameters "
                "and seed alone. Leave out one of them."
            )
        if self.out is None:
            yield "--auditable needs a folder: what you commit to is written beside it. Add --out DIR."

    def _wrong_in_spark(self) -> Iterator[str]:
        if not self.engine_can.spread:
            if self.master is not None:
                yield "--master says where Spark runs. Add --engine spark."
            return
        proved = self.basis_from is not None and not self.conditional
        for option in [
            *self.asked("only_new", "search", "privacy_loss", "max_rows_per_person"),
            *(["--basis-from without --conditional"] if proved else []),
        ]:
            yield f"{option} goes through the rows on one machine. Use --engine stream, or leave it out."

    @property
    def key_is_given(self) -> bool:
        """Whether there is a key already, and not only a place for a new one."""
        return isinstance(self.key, Key) or (self.key is not None and Path(self.key).exists())

    def _wrong_search(self, mechanism: Mechanism) -> Iterator[str]:
        if self.search is None:
            if self.search_scoring != SCORINGS[0]:
                yield "--search-scoring says how a search judges rotations. Add --search N."
            return
        if not mechanism.rotates:
            yield f"--search looks for a rotation, but {mechanism.name} has none. Leave --search out."
        if self.key_is_given:
            which = "the given key" if isinstance(self.key, Key) else str(self.key)
            yield f"--search draws a new key, but {which} is an existing one. Leave out --search or --key."

    def table_for_comparison(self, table: Any) -> Any:
        """Rows can be compared with earlier ones only under the same schema, and only if they stay what they are."""
        if not self.only_new:
            return table
        if self.agreed_schema() is None:
            raise UsageError(
                "--only-new compares rows under one schema, month after month. Give that schema with --schema."
            )
        if not isinstance(table, SqlQuery):
            return table
        if not self.engine_can.hold_table:
            raise UsageError(
                "--only-new reads the table several times, and a query may answer differently each time. "
                "Use --engine memory, or write the answer to a file first."
            )
        return open_table(table).read()


@dataclass(frozen=True)
class Plan:
    """What is to be done: the mechanism, how strong it is, and everything else that was asked for."""

    options: Options
    strength: Strength
    mechanism: Mechanism
