"""The plan of a campaign, from the note of its last start or from a study file."""

from dataclasses import dataclass
from pathlib import Path

from hpcai.campaign.controller_note import NOTE, Note, Planned, planned_by, read_note
from hpcai.config.load import load_study_file
from hpcai.config.plans import Campaign
from hpcai.core.errors import ConfigError, RecordError
from hpcai.core.messages import Message

NOT_KNOWN = Message("planned.not_known", "what was planned is not known: no {note}, no --study")

DEFAULT_STUDY = Path("config/study.yaml")


@dataclass(frozen=True)
class Knowledge:
    """The plan, from a results folder and a study file."""

    results: Path
    note: Note | None
    note_problem: str
    """Defect of the note; blank if there is none."""
    planned: Planned | None
    source: str
    """Origin of the plan, in words."""
    campaign: Campaign | None = None
    """The checked study, if a study file was read."""

    @property
    def working_folder(self) -> Path:
        """The folder in which the workflow was started."""
        return (self.results / (self.note.working_folder if self.note else "..")).resolve()


def know(results: Path, study: Path | None) -> Knowledge:
    """Return the plan of a results folder, as far as it is known.

    A named study file takes precedence, then the note, then the default study in the current folder.

    Raises
    ------
    ConfigError
        If there is no results folder, or the study is invalid.
    """
    note, problem = None, ""
    try:
        note = read_note(results)
    except RecordError as error:
        problem = str(error)
    if study is None and note is None and DEFAULT_STUDY.is_file() and results.resolve() == Path("results").resolve():
        study = DEFAULT_STUDY
    if study is not None:
        campaign = load_study_file(study)
        return Knowledge(results, note, problem, planned_by(campaign), f"as {study} plans", campaign)
    if not results.is_dir():
        raise ConfigError(
            f"{results}: no such folder; name the results folder of a study, or a study: `hpcai doctor --study FILE`"
        )
    if note is None:
        return Knowledge(results, None, problem, None, NOT_KNOWN(note=NOTE))
    started = f"as planned when the workflow last started, {note.started_utc} on {note.controller.host}"
    return Knowledge(results, note, problem, note.planned, started)
