"""One training as both ends of the pipe know it: JSON, so that the child needs neither database nor secrets."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from sfumato.core.records import Record
from sfumato.study.pooling.gather import Pushed, Request, with_added_counts
from sfumato.study.protocol.messages import AGREEING_SITES, ALL_SITES, PURPOSES
from sfumato.study.protocol.pool_study import PoolStudy
from sfumato.study.protocol.survey_file import SurveyStudy

if TYPE_CHECKING:  # the child has no use for a database
    from sfumato.study.server.settings import DataFolder
    from sfumato.study.server.store import Store

RESPONDENTS = "respondents"


@dataclass(frozen=True)
class Job(Record):
    """Releases and test rows as (path, site, hash); where the model goes; what the child may take of the machine."""

    classifier: str
    out: str
    memory: int
    niceness: int = 10
    train: list[list[str]] = field(default_factory=list)
    test: list[list[str]] = field(default_factory=list)
    test_table: str | None = None
    scratch: str | None = None
    largest_share: float | None = None
    sites: str = ALL_SITES
    column: str | None = None
    """To be reconstructed by the method that `classifier` names; no model is made then."""
    study: dict[str, Any] | None = None
    """Of a study whose sites push counts: they are added, and rows are drawn from the sum into `scratch`."""

    @classmethod
    def of(cls, store: Store, folder: DataFolder, study: str, classifier: str, **more: Any) -> Self:
        """Everything that the study's sites have pushed by now and not withdrawn, or that a survey has received: those
        bits are written into a folder beside the model, and nothing else is known about respondents. `more` are fields:
        memory and niceness, and of a pool its sites or a column."""
        found, place = store.studies.read(study), folder.incoming()
        job = cls(classifier, str(place.with_suffix(".skops")), **more)
        if isinstance(found, SurveyStudy):
            from sfumato.study.server.survey.received import write_parts

            place.mkdir(mode=0o700)
            parts = write_parts(store.surveys, study, found, place)
            files = [[str(part / "release.parquet"), RESPONDENTS, part.name] for part in parts]
            return replace(job, train=files, scratch=str(place), sites=ALL_SITES)
        releases, table = store.releases.all(study, withdrawn=False), store.releases.test_table(study)
        if isinstance(found, PoolStudy):
            job = replace(job, largest_share=found.largest_site_share)
            if found.plan is not None:
                place.mkdir(mode=0o700)
                job = replace(job, scratch=str(place), study=found.to_dict())
        pushed: dict[str, list[list[str]]] = {purpose: [] for purpose in PURPOSES}
        for one in releases:
            pushed[one.purpose].append([str(folder.release(study, one.sha256)), one.site, one.sha256])
        public = None if table is None else str(folder.test_table(study, table.sha256, table.format))
        return replace(job, train=pushed["train"], test=pushed["test"], test_table=public)

    def used(self, card: Mapping[str, Any]) -> list[str]:
        """Hashes of the releases trained on, by the model's card: some sites may have been left out."""
        return [] if self.scratch and self.study is None else [str(entry["sha256"]) for entry in card["releases"]]

    def clean(self) -> None:
        """Remove what was written for the child."""
        Path(self.out).unlink(missing_ok=True)
        if self.scratch is not None:
            shutil.rmtree(self.scratch, ignore_errors=True)

    def request(self) -> Request:
        asked = Request(
            releases=_pushed(self.train),
            classifier=self.classifier,
            test_table=None if self.test_table is None else Path(self.test_table),
            test_releases=_pushed(self.test),
            largest_share=self.largest_share,
            agreeing=self.sites == AGREEING_SITES,
        )
        if self.study is None:
            return asked
        plan = PoolStudy.from_dict(self.study).plan
        assert plan is not None and self.scratch is not None  # noqa: PT018 - both or none
        return with_added_counts(asked, plan, Path(self.scratch))

    def without_paths(self, message: str) -> str:
        """A message in which no place on the server's disk is named."""
        for path, _, sha256 in (*self.train, *self.test):
            message = message.replace(path, f"The release {sha256[:12]}")
        return message.replace(self.test_table or "\0", "The public test table").replace(self.out, "The model")


def _pushed(files: Sequence[Sequence[str]]) -> list[Pushed]:
    return [Pushed(Path(path), site, sha256) for path, site, sha256 in files]
