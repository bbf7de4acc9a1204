"""The exceptions of HPC-AI Bench: each says what was found and where, what was expected, and what to do."""

from hpcai.core.messages import Said


class HpcaiError(Exception):
    """Base of all errors that a user can cause and repair.

    Attributes
    ----------
    status
        Exit status of a command that ends with it.
    """

    status = 1

    @property
    def code(self) -> str:
        """Code of the message it was raised with; empty where that is plain text."""
        return said.code if (said := self._said()) else ""

    @property
    def facts(self) -> dict[str, object]:
        """Facts of the message it was raised with, as they were given."""
        return said.facts if (said := self._said()) else {}

    def _said(self) -> Said | None:
        return self.args[0] if self.args and isinstance(self.args[0], Said) else None


class ConfigError(HpcaiError):
    """A study, machine, benchmark or run table that is not valid."""


class MissingExtraError(HpcaiError):
    """A package that only some users need, and that is not installed here."""


class DatasetError(HpcaiError):
    """A dataset that is missing, damaged, incomplete or of another schema."""


class StagingError(DatasetError):
    """Staging that cannot start (no space) or whose result is not what the manifest says."""


class RecordError(HpcaiError):
    """A run record that is damaged, inconsistent or of another schema."""


class RunRefusedError(HpcaiError):
    """A run that must not start: already measured, in progress elsewhere, or with a seed used before."""


class RunInterruptedError(HpcaiError):
    """A command that was ended by a signal, such as Slurm's at a time limit; exit status 128 + signal."""

    def __init__(self, words: str, signal_number: int) -> None:
        super().__init__(words)
        self.status = 128 + signal_number


class ResultsError(HpcaiError):
    """A results folder that cannot be written: full, gone, or not permitted."""


class LaunchError(HpcaiError):
    """A launcher that is missing or that cannot start the ranks."""


class TrainingError(HpcaiError):
    """A training that cannot go on: ranks that disagree, or input that ends too early."""


class ParseError(HpcaiError):
    """A raw artefact that is empty, foreign, or damaged beyond what can be read."""


class TableError(RecordError, ParseError):
    """A table of results that is missing, cut or changed: for those who read results, and for those who read files."""


class NoResultError(HpcaiError):
    """A study with points that have no result, because all of their runs failed."""
