"""What can be asked of `sanitize`; the same words on the command line and in Python."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sfumato.as_published import as_published
from sfumato.errors import UsageError
from sfumato.guarantee import Key
from sfumato.jobs.config import Config
from sfumato.jobs.public_rows import PublicRows
from sfumato.jobs.strength import MECHANISM, NAMES_STRENGTH, Strength, Terms, Wanted
from sfumato.mechanisms import MECHANISMS, Mechanism, RandomRotation, make_mechanism
from sfumato.table import Schema, SqlQuery, open_table
from sfumato.table.writers import RELEASE_FORMATS

ENGINES = ("memory", "stream", "spark")
OUT_OF_BOUNDS = ("clip", "refuse")


SCORINGS = ("measured", "published")
"""How a search for a rotation scores: by what attacks leave, or by the paper's Eq. 6 to the letter."""


@dataclass(frozen=True)
class Options:
    """How to sanitize. `sfumato.sanitize` describes every field."""

    mechanism: str | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    label: str | None = None
    schema: Path | str | Schema | None = None
    engine: str = "memory"
    master: str | None = None
    key: Path | Key | None = None
    format: str = "parquet"
    like_original: bool = False
    out_of_bounds: str = "clip"
    max_rows_per_person: int | None = None
    unlabelled: bool = False
    private_label: bool = False
    label_epsilon: float | None = None
    search: int | None = None
    search_goal: str = "minimum"
    search_scoring: str = "measured"
    seed: int | None = None
    ledger: Path | None = None
    cohort: str | None = None
    only_new: bool = False
    again: bool = False
    force: bool = False
    resume: bool = False
    epsilon_record: float | None = None
    epsilon: float | None = None
    epsilon_presence: float | None = None
    delta: float | None = None
    trust: str = "owner"
    measured_only: bool = False
    max_posterior: float | None = None
    privacy_loss: float | None = None
    prior: float | None = None
    terms: Terms | None = None
    basis_from: Any = None
    reason: str | None = None
    conditional: bool = False
    columns: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    published: bool = False
    config: Config | Path | str | None = None
    dry_run: bool = False
    unprotected: bool = False
    person: str | None = None
    target: str | None = None
    trial: int | None = None
    """Seed of a trial whose rows never leave the program: a dry run whose card is that of a release without a seed."""

    @property
    def leaves_no_mark(self) -> bool:
        """Whether neither ledger nor key file may be written: nothing is released."""
        return self.dry_run or self.trial is not None

    @property
    def noise_seed(self) -> int | None:
        """Where repeatable noise starts; None for the operating system's entropy."""
        return self.seed if self.trial is None else self.trial

    def with_own_noise(self, schema: Schema) -> Schema:
        """The schema with what the owner chose for single columns; a study has settled that for all."""
        if self.columns and self.terms is not None:
            raise UsageError("The study settles how every column is blurred. Leave --column-param out.")
        return schema.with_noise(self.columns)

    def public_rows(self) -> PublicRows | None:
        """The rows that a basis is made from, where some were given."""
        if self.basis_from is None and self.reason is not None:
            raise UsageError("--reason says why the rows of --basis-from are public. Give both, or neither.")
        if self.basis_from is None and self.conditional:
            raise UsageError("--conditional goes on without a proof where rows of --basis-from are private. Give both.")
        return None if self.basis_from is None else PublicRows(self.basis_from, self.reason, self.conditional)

    def strength(self) -> Strength:
        """How strong the noise is to be, under the terms of a study where there are any."""
        others = (self.epsilon, self.epsilon_record, self.max_posterior, self.terms)
        if self.privacy_loss is not None and any(one is not None for one in others):
            raise UsageError(
                "--privacy-loss settles how strong the noise is. Leave it out, or leave out --epsilon, "
                "--epsilon-record, --max-posterior and --study."
            )
        wanted = Wanted(
            self.mechanism,
            self._parameters(),
            self.epsilon_record,
            self.max_posterior,
            self.prior,
            self.private_label,
            self.label_epsilon,
            self.epsilon,
            self.delta,
            self.epsilon_presence,
            self.trust,
            self._needs_rows(),
            self.max_rows_per_person or 1,
        )
        if self.config is None:
            return wanted.under(self.terms, self.schema)
        config = self.config if isinstance(self.config, Config) else Config.load(self.config)
        return config.settle(wanted, self.terms, self.schema)

    def _needs_rows(self) -> str | None:
        """The first option that only rows of people can follow, where one was given."""
        given = {
            "--private-label": self.private_label,
            "--only-new": self.only_new,
            "--like-original": self.like_original,
            "--target": self.target is not None,
            "--out-of-bounds refuse": self.out_of_bounds == "refuse",
            "--measured-only": self.measured_only,
        }
        return next((option for option, wanted in given.items() if wanted), None)

    def _parameters(self) -> Mapping[str, Any]:
        """The owner's own, with the paper's where it is to be as published."""
        if not self.published:
            return self.parameters
        if self.terms is not None:
            raise UsageError("The study settles the method and its parameters. Leave --as-published out.")
        name = self.mechanism or MECHANISM
        known = MECHANISMS.get(name)  # an unknown one is refused later, with the names of all
        return as_published(name, known.published if known else {}, self.parameters, MECHANISMS)

    def names_strength(self, schema: Schema) -> bool:
        """Whether somebody said how strong the noise is to be: by an option, a parameter, a config, a study, or for
        every column."""
        wanted = (self.epsilon_record, self.epsilon, self.epsilon_presence, self.max_posterior, self.privacy_loss)
        if (
            any(one is not None for one in (*wanted, self.config, self.terms))
            or NAMES_STRENGTH & self._parameters().keys()
        ):
            return True
        return all(NAMES_STRENGTH & column.choices.chosen.keys() for column in schema.private)

    def agreed_schema(self) -> Path | str | Schema | None:
        """The study's schema, or the owner's own."""
        return self.schema if self.terms is None else self.terms.schema

    def checked_mechanism(self, strength: Strength) -> Mechanism:
        """The mechanism, once all that can be checked without a table was."""
        if self.engine not in ENGINES:
            raise UsageError(f"There is no engine {self.engine!r}. Choose one of: {', '.join(ENGINES)}.")
        if self.format not in RELEASE_FORMATS:
            known = ", ".join(RELEASE_FORMATS)
            raise UsageError(f"There is no format {self.format!r}. Choose one of: {known}.")
        cap = self.max_rows_per_person
        if cap is not None and cap < 1:
            raise UsageError(f"--max-rows-per-person must be at least 1. Got {cap} instead.")
        if self.cohort is not None and not (0 < len(self.cohort.strip()) <= 100 and self.cohort.isprintable()):
            raise UsageError("--cohort must be a name of at most 100 characters, on one line.")
        self._check_spark()
        mechanism = make_mechanism(strength.mechanism, dict(strength.parameters))
        if mechanism.whole_table and self.engine != "memory":
            raise UsageError(f"{mechanism.name} needs the whole table at once. Use --engine memory.")
        self._check_search(mechanism)
        if (public := self.public_rows()) is not None:
            public.check(mechanism, strength.parameters)
        if self.again and not self.only_new:
            raise UsageError(
                "--again concerns --only-new alone: without that, everybody is released, known or not. Leave it out."
            )
        if self.leaves_no_mark and self.only_new:
            raise UsageError(
                "--only-new marks rows in the ledger, and a dry run leaves no mark. Leave out one of them."
            )
        if self.out_of_bounds not in OUT_OF_BOUNDS:
            raise UsageError(
                f"--out-of-bounds must be {' or '.join(OUT_OF_BOUNDS)}. Got {self.out_of_bounds!r} instead."
            )
        return mechanism

    def _check_spark(self) -> None:
        if self.engine != "spark":
            if self.master is not None:
                raise UsageError("--master says where Spark runs. Add --engine spark.")
            return
        wrong = {
            "--only-new": self.only_new,
            "--search": self.search is not None,
            "--privacy-loss": self.privacy_loss is not None,
            "--max-rows-per-person": self.max_rows_per_person is not None,
            "--basis-from without --conditional": self.basis_from is not None and not self.conditional,
        }
        for option, given in wrong.items():
            if given:
                raise UsageError(
                    f"{option} goes through the rows on one machine. Use --engine stream, or leave it out."
                )

    @property
    def key_is_given(self) -> bool:
        """Whether there is a key already, and not only a place for a new one."""
        return isinstance(self.key, Key) or (self.key is not None and self.key.exists())

    def _check_search(self, mechanism: Mechanism) -> None:
        if self.search_scoring not in SCORINGS:
            raise UsageError(
                f"--search-scoring must be {' or '.join(SCORINGS)}. Got {str(self.search_scoring)[:60]!r} instead."
            )
        if self.search is None:
            if self.search_scoring != SCORINGS[0]:
                raise UsageError("--search-scoring says how a search judges rotations. Add --search N.")
            return
        if not isinstance(mechanism, RandomRotation):
            raise UsageError(f"--search looks for a rotation, but {mechanism.name} has none. Leave --search out.")
        if self.search < 1:
            raise UsageError(f"--search must be the number of rotations to try, at least 1. Got {self.search} instead.")
        if self.key_is_given:
            which = "the given key" if isinstance(self.key, Key) else str(self.key)
            raise UsageError(f"--search draws a new key, but {which} is an existing one. Leave out --search or --key.")

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
        if self.engine == "stream":
            raise UsageError(
                "--only-new reads the table several times, and a query may answer differently each time. "
                "Use --engine memory, or write the answer to a file first."
            )
        return open_table(table).read()
