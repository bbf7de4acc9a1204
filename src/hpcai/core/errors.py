"""The exceptions of HPC-AI Bench: each names what was found and where, what was expected, and the remedy."""

from hpcai.core.messages import Said


class HpcaiError(Exception):
    """Base of all errors that a user can cause and fix.

    Attributes
    ----------
    status
        Exit status of a command that ends with this error.
    """

    status = 1

    @property
    def code(self) -> str:
        """Code of the message it was raised with; blank for plain text."""
        return said.code if (said := self._said()) else ""

    @property
    def facts(self) -> dict[str, object]:
        """Facts of the message it was raised with, as given."""
        return said.facts if (said := self._said()) else {}

    def _said(self) -> Said | None:
        return self.args[0] if self.args and isinstance(self.args[0], Said) else None


class ConfigError(HpcaiError):
    """An invalid study, machine, benchmark or run table."""


class MissingExtraError(HpcaiError):
    """A missing package that only some users need."""


class DatasetError(HpcaiError):
    """A dataset that is missing, damaged, incomplete or of another schema."""


class StagingError(DatasetError):
    """Staging that cannot start (no space) or whose result does not match the manifest."""


class RecordError(HpcaiError):
    """A run record that is damaged, inconsistent or of another schema."""


class RunRefusedError(HpcaiError):
    """A run that must not start: already measured, in progress elsewhere, or with a seed used before."""


class RunInterruptedError(HpcaiError):
    """A command ended by a signal, such as Slurm's at a time limit; exit status 128 + signal."""

    def __init__(self, words: str, signal_number: int) -> None:
        super().__init__(words)
        self.status = 128 + signal_number


class ResultsError(HpcaiError):
    """A results folder that is not writable: full, gone, or without permission."""


class LaunchError(HpcaiError):
    """A launcher that is missing or that cannot start the ranks."""


class TrainingError(HpcaiError):
    """A training that cannot continue: ranks that disagree, or input that ends too early."""


class ParseError(HpcaiError):
    """A raw artefact that is empty, foreign, or damaged beyond recovery."""


class TableError(RecordError, ParseError):
    """A results table that is missing, truncated or changed: caught by readers of results and of files."""


class NoResultError(HpcaiError):
    """A study with points that have no result, because all of their runs failed."""
