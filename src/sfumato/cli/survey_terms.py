"""What holds for a survey when it is made: the link that respondents get, and who reads its start-up rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sfumato.errors import UsageError
from sfumato.wording import counted

if TYPE_CHECKING:  # --help needs none of it
    from sfumato.protocol.survey_file import SurveyStudy

PublicStartUp = Annotated[
    bool, typer.Option(help="Accept that a survey's few start-up rows can be read from their public counts.")
]


def respondents_link(study: str, digest: str) -> str:
    """The respondents' page below a host, with the survey that it must show."""
    return f"/survey/#survey={study}&hash={digest.removeprefix('sha256:')}"


def check_start_up(file: Path, survey: SurveyStudy) -> None:
    """Counts of start-up rows become public; of few rows they are as good as the rows."""
    from sfumato.protocol.start_up import FEW_ROWS, fewest_rows

    fewest = fewest_rows(survey.start_up)
    if fewest is not None and fewest < FEW_ROWS:
        raise UsageError(
            f"{file}: a class has {counted(fewest, 'start-up row')}, fewer than {FEW_ROWS}. Everybody can read the "
            "counts of these rows, and so few counts reveal the rows themselves. Give more rows, write `start_up: "
            "random`, or add --public-start-up if these people agreed that anybody may read their answers."
        )
